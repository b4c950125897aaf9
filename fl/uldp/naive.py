"""ULDP-NAIVE: every silo clips its whole update, and adds noise for what one user can move it.

    silo s:  D_s = clip_C(x_s - x) + N(0, (std / sqrt|S|)^2)
    server:  x + eta_g / |S| sum_s D_s

However few records a user has in a silo, it moves the silo's clipped update by up to 2C, between
two points of a ball of radius C (see `accountant.sensitivity.uldp`), so the sum by 2C |S|, and the
noise for a multiplier sigma is std = 2 sigma C |S| when a user comes or goes.  The paper counts C,
so its noise, sigma C |S|, is half of that: with `as_published` a run adds that noise, states the
paper's epsilon as a claim, and says `no-guarantee` in every round.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Algorithm 1 and
Theorem 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant import events as ev
from ...accountant import records
from ...accountant.claims.uldp_fl import published_user_epsilon
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gate, Gaussian, Ticket
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import reach, up
from ..aggregation.clip_check import Recomputed
from ..aggregation.residuals import Residuals
from ..aggregation.sums import noisy_sum
from ..aggregation.term_norms import about_norms, norms_of
from ..aggregation.weighted_sum import ALONE
from ..data.federation import Federation
from ..frame.model import Parameters, Round
from ..frame.opening import OpeningStatement
from ..frame.private_system import PrivateSystem
from ..frame.promise import Promise, unproven
from ..frame.requirements import require_all_users, require_user_unit
from ..frame.rounds import Draft, NoisySum
from ..frame.setup import Setup, setup
from ..frame.state import Arrays, State
from ..observers.names import AMONG_PEERS, MODEL, PEER, Coalition
from ..training.local_training import LocalTraining

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..settings.schema import Settings

PUBLISHED_NAIVE_EVENT: Final = ev.NoGuarantee(
    "ULDP-NAIVE as published: its noise is made for half of what a user can move"
)


class UldpNaive(PrivateSystem):
    """ULDP-NAIVE, with sound noise or, marked in every round, as it was published."""

    state = State()

    def __init__(self, setup: Setup, *, as_published: bool = False) -> None:
        super().__init__(setup)
        require_user_unit(setup)
        require_all_users(setup)
        self.as_published = as_published
        self.residuals = Residuals()
        if as_published and (
            setup.privacy.epsilon is not None or setup.privacy.noise_multiplier is None
        ):
            raise InvalidInput(
                "ULDP-NAIVE as published takes a noise multiplier, and no epsilon.",
                "Noise found by its formula would not keep the budget.",
                "Give `noise_multiplier`, or leave `as_published` out.",
            )
        if as_published and setup.normalisation is not None:
            raise InvalidInput(
                "ULDP-NAIVE as published does not normalise features by private moments.",
                "It promises nothing, so nothing would pay for their release.",
                "Give normalisation = 'public', or leave `as_published` out.",
            )

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round, on the sum over all silos, in |S| shares."""
        clip, silos = self.setup.training.clip, self.setup.silos
        moved = uldp.naive_sensitivity_as_published(clip, silos)
        if not self.as_published:
            relation = self.setup.privacy.neighbours
            moved = uldp.naive_sensitivity(clip, silos, relation).l2 / reach(relation)
        return Gaussian(
            bound=clip,
            std=up(Fraction(noise_multiplier) * Fraction(moved)),
            shares=silos,
            terms="silo-delta",
            unit="user",
            tolerated_dropouts=self.setup.security.dropouts,
        )

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return one round as who sees the model, the server, and one of the silos see it.

        Among peers there is no server, and a peer, alone or with colluders, learns no more than a
        silo does (`sums`).

        A server that sees every silo's update learns no more than one that sees their sum: a user
        may swing every silo as far, in one direction, so the sum shows all that there is to see.
        Silos that tell the server what they know take themselves out of that sum.
        """
        own, silos, relation = self.setup, self.setup.silos, self.setup.privacy.neighbours
        peers = own.aggregation == "shares"
        coalitions = [
            Coalition(colluders, holds)
            for colluders in self.setup.coalitions
            for holds in (False, True)
        ]
        if self.as_published:
            whom: tuple[str, ...] = ("model", "server", "silo")
            if peers:
                whom = AMONG_PEERS
            elif silos == 1:
                whom = ("model", "server")
            return dict.fromkeys((*whom, *(one.name for one in coalitions)), PUBLISHED_NAIVE_EVENT)
        stated = 2.0 * noise_multiplier / reach(relation)  # in the paper's unit, C |S|

        missing = self.setup.security.dropouts

        def seen(silos_seen: int) -> ev.Event:
            if missing >= silos_seen:
                return ALONE
            return uldp.naive_release(
                stated,
                rounds=1,
                silos=silos,
                seen=silos_seen,
                neighbours=relation,
                tolerated_dropouts=missing,
            ).event

        if peers:  # what its colluders sent is not hidden from it: it learns less of the rest
            return {MODEL: seen(silos), PEER: seen(silos - 1)}
        views = {"model": seen(silos), "server": seen(silos)}
        if silos > 1:
            views["silo"] = seen(silos - 1)  # it knows its own noise
            if own.normalisation is not None and own.normalisation.rule == "records":
                views["silo-with-records"] = views["silo"]  # which knows more of the moments
        # What a silo holds of a user is no part of what the others send, and changes none of it.
        return views | {one.name: seen(silos - one.colluders) for one in coalitions}

    @cached_property
    def promise(self) -> Promise:
        """What the run promises; as published, nothing, beside the paper's number."""
        if not self.as_published:
            return super().promise
        own, rounds = self.setup.privacy, self.setup.rounds

        def claim(noise: float) -> float:
            return published_user_epsilon(rounds, noise=noise, delta=own.delta)

        return unproven(self.views, own, rounds, PUBLISHED_NAIVE_EVENT, claim)

    def opening(self) -> OpeningStatement:
        """Return what the run states first; a run as published is marked."""
        return replace(super().opening(), as_published=self.as_published)

    def round(
        self,
        number: int,
        parameters: Parameters,
        gate: Gate,
        state: Arrays | None = None,  # noqa: ARG002
    ) -> Round:
        """Make one round: train in every silo, clip its update, sum, divide by |S|."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        silos = range(self.setup.silos)

        def work(ticket: Ticket) -> Draft:
            rows = self.setup.local.silo_deltas(parameters, number)
            totals, norms = mechanism.totals(rows, silos, len(silos)), norms_of(rows)
            again = Recomputed(ticket.intent, mechanism, len(silos), parameters.size)
            again.add(rows, np.arange(len(silos)), norms)
            watch = self.residuals.watch(ticket.intent.noise)
            arrived = noisy_sum(
                self.aggregator, number, mechanism, ticket, list(totals), watch=watch
            )
            noisy = NoisySum(mechanism.units(arrived.total), float(len(silos)))
            return Draft(
                parameters + noisy.times(self.setup.training.global_rate),
                aggregate=noisy.total,
                normaliser=records.Normaliser("constant", noisy.constant),
                sealed={
                    **watch.items(),
                    **again.items(totals),
                    **about_norms(np.split(norms, silos[1:]), mechanism.bound),
                },
                shares=len(arrived.silos),
            )

        return self.make_round(number, parameters, gate, work)


def naive(
    settings: Settings, federation: Federation, local: LocalTraining, _: Streams
) -> UldpNaive:
    """Return ULDP-NAIVE."""
    own = setup(settings, federation, local)
    return UldpNaive(own, as_published=settings.as_published)
