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

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...accountant.claims.uldp_fl import published_user_epsilon
from ...accountant.mechanisms import Gate, Gaussian, Ticket
from ..aggregation.clip_check import ClipCheck, about_norms, norms_of
from ..aggregation.residuals import Residuals
from ..aggregation.sums import noisy_sum
from ..data.federation import Federation
from ..frame.model import Parameters, Round
from ..frame.opening import OpeningStatement
from ..frame.private_system import PrivateSystem
from ..frame.promise import Promise, noise_as_published, unproven
from ..frame.requirements import refuse
from ..frame.rounds import Draft, NoisySum
from ..frame.setup import Setup, setup
from ..frame.state import Arrays, State
from ..training.local_training import LocalTraining
from .settings import published_moments
from .terms import PUBLISHED_NAIVE_EVENT, NaiveTerms

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..settings.schema import Settings


class UldpNaive(PrivateSystem):
    """ULDP-NAIVE, with sound noise or, with `as_published`, with the noise of the paper."""

    state = State()

    def __init__(self, setup: Setup, *, as_published: bool = False) -> None:
        super().__init__(setup)
        self.as_published = as_published
        moments = setup.normalisation
        told = moments is not None and moments.rule == "records"
        self.terms: NaiveTerms = NaiveTerms(setup, as_published, weighted_moments=told)
        self.residuals = Residuals()
        if as_published:
            noise_as_published(setup.privacy, "ULDP-NAIVE")
            if setup.normalisation is not None:
                refuse(setup, published_moments(setup.name))

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round on the sum over all silos, in |S| shares."""
        return self.terms.mechanism(noise_multiplier)

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
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
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
            noisy = NoisySum(mechanism.units(arrived.total), self.terms.divisor)
            return Draft(
                parameters + noisy.times(self.setup.training.global_rate),
                aggregate=noisy.total,
                normaliser=self.terms.normaliser,
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
