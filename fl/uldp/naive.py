"""ULDP-NAIVE: every silo clips its whole update, and adds noise for one user's effect on it.

    silo s:  D_s = clip_C(x_s - x) + N(0, (std / sqrt|S|)^2)
    server:  x + eta_g / |S| sum_s D_s

Adding or removing a user, however few records it has in a silo, can move the silo's clipped update
between any two points of a ball of radius C, by 2C (`accountant.sensitivity.uldp`), and the sum
over silos by 2C |S|.  The noise for a multiplier sigma is therefore std = 2 sigma C |S|.  The paper
counts C per silo, so its noise, sigma C |S|, is half of that: with `as_published` a run adds that
noise, logs the paper's epsilon as a claim, and states `no-guarantee` in every round.

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
from ...accountant.mechanisms import Gate, Gaussian, Ticket
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import sensitivity_multiplier, up
from ..aggregation.clip_check import ClipCheck, about_norms, norms_of
from ..aggregation.residuals import Residuals
from ..aggregation.sums import noisy_sum
from ..aggregation.weighted_sum import NO_NOISE_LEFT
from ..data.federation import Federation
from ..frame.model import Parameters, Round
from ..frame.opening import OpeningStatement
from ..frame.private_system import PrivateSystem
from ..frame.promise import Promise, noise_as_published, unproven
from ..frame.requirements import refuse
from ..frame.rounds import Draft, NoisySum
from ..frame.setup import Setup, setup
from ..frame.state import Arrays, State
from ..observers.names import MODEL, PEER, PEER_OBSERVERS, Coalition
from ..training.local_training import LocalTraining
from .settings import published_moments

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..settings.schema import Settings

PUBLISHED_NAIVE_EVENT: Final = ev.NoGuarantee(
    "ULDP-NAIVE as published: its noise is made for half of what a user can move"
)


class UldpNaive(PrivateSystem):
    """ULDP-NAIVE, with sound noise or, with `as_published`, with the noise of the paper."""

    state = State()

    def __init__(self, setup: Setup, *, as_published: bool = False) -> None:
        super().__init__(setup)
        self.as_published = as_published
        self.residuals = Residuals()
        if as_published:
            noise_as_published(setup.privacy, "ULDP-NAIVE")
            if setup.normalisation is not None:
                refuse(setup, published_moments(setup.name))

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round on the sum over all silos, in |S| shares."""
        clip, silos = self.setup.training.clip, self.setup.silos
        sensitivity = uldp.naive_sensitivity_as_published(clip, silos)
        if not self.as_published:
            # Noise multipliers are per contribution: where a unit is replaced, it moves two.
            relation = self.setup.privacy.neighbours
            sensitivity = uldp.naive_sensitivity(clip, silos, relation).l2 / sensitivity_multiplier(
                relation
            )
        return Gaussian(
            bound=clip,
            std=up(Fraction(noise_multiplier) * Fraction(sensitivity)),
            shares=silos,
            terms="silo-delta",
            unit="user",
            tolerated_dropouts=self.setup.security.dropouts,
        )

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return the event of one round for the model, the server, a silo, and coalitions.

        A server that sees every silo's update learns no more than one that sees their sum: in the
        worst case a user moves every silo equally far in one direction, and the sum shows that.
        Silos that collude with the server take what they sent off the sum, their noise included.
        Among peers there is no server, and a peer, alone or with colluders, sees what a silo sees.
        """
        setup, silos, relation = self.setup, self.setup.silos, self.setup.privacy.neighbours
        peers = setup.aggregation == "shares"
        coalitions = [
            Coalition(colluders, holds)
            for colluders in self.setup.coalitions
            for holds in (False, True)
        ]
        if self.as_published:
            observers: tuple[str, ...] = ("model", "server", "silo")
            if peers:
                observers = PEER_OBSERVERS
            elif silos == 1:
                observers = ("model", "server")
            names = (*observers, *(coalition.name for coalition in coalitions))
            return dict.fromkeys(names, PUBLISHED_NAIVE_EVENT)
        multiplier = (
            2.0 * noise_multiplier / sensitivity_multiplier(relation)
        )  # in the paper's unit, C |S|

        dropouts = setup.security.dropouts

        def event_of(silos_seen: int) -> ev.Event:
            """Return the event of who sees the sum of so many silos."""
            # As many silos may be missing as are seen: then no noise is left for certain.
            if dropouts >= silos_seen:
                return NO_NOISE_LEFT
            return uldp.naive_release(
                multiplier,
                rounds=1,
                silos=silos,
                seen=silos_seen,
                neighbours=relation,
                tolerated_dropouts=dropouts,
            ).event

        if peers:  # what its colluders sent is not hidden from it: it learns less of the rest
            return {MODEL: event_of(silos), PEER: event_of(silos - 1)}
        views = {"model": event_of(silos), "server": event_of(silos)}
        if silos > 1:
            views["silo"] = event_of(silos - 1)  # it knows its own share of the noise
            if setup.normalisation is not None and setup.normalisation.rule == "records":
                views["silo-with-records"] = views["silo"]  # knows more of the moments
        # The records that a colluding silo holds of a user change nothing of what the others send.
        return views | {
            coalition.name: event_of(silos - coalition.colluders) for coalition in coalitions
        }

    @cached_property
    def promise(self) -> Promise:
        """The promise of the run; as published, it proves nothing and claims the paper's number."""
        if not self.as_published:
            return super().promise
        privacy, rounds = self.setup.privacy, self.setup.rounds

        def claim(noise: float) -> float:
            return published_user_epsilon(rounds, noise=noise, delta=privacy.delta)

        return unproven(self.views, privacy, rounds, PUBLISHED_NAIVE_EVENT, claim)

    def opening(self) -> OpeningStatement:
        """Return what the first line of the log states; a run as published is marked."""
        return replace(super().opening(), as_published=self.as_published)

    def round(
        self,
        number: int,
        parameters: Parameters,
        gate: Gate,
        state: Arrays | None = None,  # noqa: ARG002
    ) -> Round:
        """Make one round: train in every silo, clip its update, sum with noise, divide by |S|."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        silos = range(self.setup.silos)

        def work(ticket: Ticket) -> Draft:
            rows = self.setup.local.silo_deltas(parameters, number)  # x_s - x, (silos, D)
            totals, norms = mechanism.totals(rows, silos, len(silos)), norms_of(rows)
            again = ClipCheck(ticket.intent, mechanism, len(silos), parameters.size)
            again.add(rows, np.arange(len(silos)), norms)
            monitor = self.residuals.monitor(ticket.intent.noise)
            arrived = noisy_sum(
                self.aggregator, number, mechanism, ticket, list(totals), monitor=monitor
            )
            noisy = NoisySum(mechanism.units(arrived.total), float(len(silos)))
            return Draft(
                parameters + noisy.times(self.setup.training.global_rate),
                aggregate=noisy.total,
                normaliser=records.Normaliser("constant", noisy.constant),
                sealed={
                    **monitor.items(),
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
    parts = setup(settings, federation, local)
    return UldpNaive(parts, as_published=settings.as_published)
