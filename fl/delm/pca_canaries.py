"""Canaries for DELM's PCA step: a row of the largest norm, in the covariance of a client or not.

The observer knows all rows of a client but the canary x, and subtracts them from what it sees:

    L = O - A_rest

**Wishart noise.**  T = |x|^2 / (x^T L^-1 x) is the largest t for which L - t x x^T / |x|^2 has no
negative eigenvalue.  Where x is out, T ~ c chi^2_m with m = k - d + 1 for k degrees of freedom in
all, and where it is in, T is |x|^2 more, by the formula of Sherman and Morrison.  So

    T < |x|^2   <=>   L - x x^T has a negative eigenvalue   =>   x is out

and that conclusion is never wrong.  For one client's own release, k = d + 1, it is reached of a
share 1 - e^{-epsilon |x|^2} of all canaries that are out.  The likelihood ratio grows with T and is
0 below |x|^2, so T is all that L shows of x.

**Gaussian noise.**  <L, x x^T> / sigma, with |x|^4 / sigma for the shift: the same canaries, as a
control that shows what is claimed and no more.

Each canary lies in a client of its own, with noise of its own: what is seen of one is independent
of the others (before who sees the sum alone, in a release of its own).  A canary's row is ten row
norms long and goes through the release's own clip and grid.

**The rounds** of the published schemes are not rehearsed.  Laplace noise on a whole matrix bounds
what one record shows by the sum of all its coordinates, of which no single direction has much; and
nothing is claimed of a model that is not linear.  What was drawn is judged by its residuals.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Final, cast

import numpy as np

from ...accountant import events as ev
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import Unsupported
from ...accountant.mechanisms import Gate, WishartGram
from ...accountant.mechanisms.gram_rows import gram_total
from ...accountant.odometer import Odometer
from ...accountant.plan import Plan, PlannedPhase, plan_given_noise
from ..aggregation.sums import PlainAggregator
from ..canaries import (
    CANARY_NORM_IN_CLIPS,
    AfterRound,
    CanaryHarness,
    CanaryObservations,
    MakeRounds,
    MemoryLog,
    RecordingAggregator,
    RehearsalRequest,
    records_federation,
)
from ..data.federation import Federation, Task
from ..frame.model import Parameters
from ..frame.opening import OpeningStatement
from ..frame.system import build
from ..observers.names import ANALYZER, MODEL, SERVER, SHUFFLER
from ..tables.record_shape import required_shape
from ..training.local_training import NoTraining
from .pca import PcaRelease
from .pca_terms import PCA, WISHART, PcaTerms
from .scheme import DelmScheme
from .settings import NO_PCA, DelmSettings

REHEARSED_FEATURES: Final = 8
"""Columns of a covariance that is rehearsed: what is shown of a row does not depend on them."""

KNOWN_ROWS: Final = 3
"""Rows of each client that the observer knows, besides the canary."""

OBSERVERS: Final = (MODEL, SERVER, ANALYZER, SHUFFLER)
"""The observers that can be rehearsed: of the sum, and of what each client sends."""

SURELY_OUT: Final = -100.0
"""What is observed of a canary that is proven to be out; no noise reaches as far."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of canaries in the PCA step of a scheme.

    Raises `Unsupported` for a scheme without one, and as `simulate_pca`.
    """
    if request.settings.of(DelmSettings).pca == NO_PCA:
        raise Unsupported(
            f"The rounds of {request.settings.run.system} are not rehearsed with canaries.",
            "Laplace noise on a whole matrix bounds the sum of all that a record moves, and a "
            "canary in one direction shows little of that.",
            "Judge the noise that was drawn (tier residual), or rehearse delm-linear with noise = "
            '"gaussian", which releases the same sums.',
        )
    features, classes = required_shape(request.settings.data)
    nobody = empty_federation(features, request.silos, request.settings.data.users)
    task: Task = "multiclass" if classes > 2 else "binary"
    federation = replace(nobody, task=task, classes=classes)
    system = cast(
        "DelmScheme", build(request.settings, federation, NoTraining(), request.streams())
    )
    assert system.pca is not None
    return simulate_pca(request, system.pca, system.plan(), system.opening())


def simulate_pca(
    request: RehearsalRequest,
    release: PcaRelease,
    plan: Plan,
    opening: OpeningStatement,
    *,
    observers: tuple[str, ...] = OBSERVERS,
) -> CanaryObservations:
    """Return what an observer sees of canaries in PCA steps with the terms of `release`.

    For a carrier: `release` is that of the system whose settings are rehearsed, with `plan` and
    `opening`; its own records are not looked at.  What is claimed of Wishart noise is the epsilon
    that it was published for, as a stated epsilon: `RandomizedResponse` of two values, of which
    every mechanism with that epsilon is a post-processing (Kairouz, Oh and Viswanath 2015).

    Raises `InvalidInput` for an observer that the plan does not know, and where real users are to
    be with the canaries; `Unsupported` for other observers.
    """
    canaries = PcaCanaries(request, release)
    canaries.stated, canaries.observers = (plan, opening), observers
    return canaries.simulated()


class PcaCanaries(CanaryHarness[list[FloatArray]]):
    """One canary for each client of a release, or in each release; its run is one release."""

    alone = "Their rows would be known to the observer, or not, as canaries are."
    partial = True
    rounds = 1

    def __init__(self, request: RehearsalRequest, release: PcaRelease) -> None:
        super().__init__(request)
        self.release = release
        self.apart = request.observer != MODEL
        """Whether the observer sees what each client sends."""

    @cached_property
    def room(self) -> int:
        return self.request.silos if self.apart else 1

    @cached_property
    def terms(self) -> PcaTerms:
        """The terms of each release: those of the run, of fewer columns."""
        of_run = self.release.terms
        features = min(of_run.features, REHEARSED_FEATURES)
        components = min(of_run.components, features)
        return replace(of_run, features=features, components=components, silos=self.request.silos)

    @cached_property
    def wishart(self) -> WishartGram | None:
        """The noise, where it is Wishart's; None where it is Gaussian."""
        mechanism = self.terms.mechanism
        return mechanism if isinstance(mechanism, WishartGram) else None

    @cached_property
    def event(self) -> ev.Event:
        """What is claimed of one release, before the observer."""
        if self.terms.kind == WISHART:
            return ev.RandomizedResponse(self.terms.noise, 2)
        return self.release.views[self.request.observer]

    @cached_property
    def freedom(self) -> int:
        """m of the module, for the number of shares that the observer sees together."""
        assert self.wishart is not None
        shares = 1 if self.apart else self.terms.silos
        return shares * self.wishart.freedom - self.terms.features + 1

    @cached_property
    def deviation(self) -> float:
        """The deviation of the noise in the statistic, in units of |x|^2 = 1."""
        mechanism = self.terms.mechanism
        if isinstance(mechanism, WishartGram):
            return mechanism.std**2 * math.sqrt(2.0 * self.freedom)
        return mechanism.share_std * math.sqrt(1 if self.apart else self.terms.silos)

    @cached_property
    def shift(self) -> float:
        return (0.5 if self.replaced else 1.0) / self.deviation

    @cached_property
    def shortest(self) -> float:
        """The square of a canary's norm on the grid, at least: clip and truncation shorten it."""
        return 1.0 - 2.0 ** (5 - self.terms.mechanism.bits)

    def notes(self) -> tuple[str, ...]:
        known = "the observer knows all rows of a client but the canary"
        alone = "the PCA step is rehearsed by itself, and not the training after it"
        zeros = ("a unit that is out has a row of zeros",) if self.replaced else ()
        if self.wishart is None:
            return (alone, known, *zeros)
        # Coins and counts are of canaries, so they are public.
        into, absent = self.coins.into, self.absent
        proven = (
            f"a negative eigenvalue proves of {(absent & ~into).sum():,} of {(~into).sum():,} "
            f"canaries that are out that they are, and says so of {(absent & into).sum():,} of "
            f"{into.sum():,} that are in, of which it never can"
        )
        return (alone, known, *zeros, proven)

    @cached_property
    def absent(self) -> BoolArray:
        """Which canaries are proven to be out, as far as releases were made: (m,)."""
        return np.zeros(len(self.coins), bool)

    def place(self, run: int, units: IntArray) -> MakeRounds:
        terms, d, silos = self.terms, self.terms.features, self.terms.silos
        self.direction = np.linalg.qr(self.rng.normal(size=(d, d))).Q[:, 0]
        known = self.rng.normal(size=(silos, KNOWN_ROWS, d)) * terms.row_norm / math.sqrt(d)
        long = (CANARY_NORM_IN_CLIPS * terms.row_norm * self.direction).astype(np.float32)
        coins = self.coins.into[units]
        there = coins | self.replaced  # a unit that is out and replaced has a row of zeros
        rows = (known.reshape(-1, d).astype(np.float32), coins[there][:, None] * long)
        silo = (np.repeat(np.arange(silos), KNOWN_ROWS), np.flatnonzero(there))
        self.exact = [gram_total(terms.mechanism, part.astype(np.float32)).total for part in known]
        self.recorder = RecordingAggregator(PlainAggregator())
        federation = _federation(np.concatenate(rows), np.concatenate(silo), silos)
        release = PcaRelease(terms, federation, self._views, self.recorder)

        def rounds(each: AfterRound) -> None:
            # A gate of its own, with a budget where something is promised.
            odometer = None if self._plan is None else Odometer.for_plan(self._plan)
            gate = Gate(odometer, MemoryLog(), self.request.streams(run))
            release.release(gate, lambda _: None)
            each(1, np.zeros(0), np.zeros(0))

        return rounds

    def observe(self, number: int, before: Parameters, after: Parameters) -> list[FloatArray]:
        assert self.recorder.sum is not None
        left = [self.recorder.sum.total - np.sum(self.exact, axis=0)]
        if self.apart:
            left = [self.recorder.sent[i] - self.exact[i] for i in range(len(self.here))]
        mechanism, d = self.terms.mechanism, self.terms.features
        return [_square(mechanism.units(steps), d) for steps in left]

    def score(self, number: int, seen: list[FloatArray]) -> FloatArray:
        steps, unit = np.stack(seen), self.direction / np.linalg.norm(self.direction)
        middle = self.shift if self.replaced else 0.0
        if self.wishart is None:
            along = np.einsum("i,nij,j->n", unit, steps, unit)
            return np.asarray(along / self.deviation - middle)
        removable = largest_removable(steps, unit)
        self.absent[self.here] = absent = removable < self.shortest
        mean = self.wishart.std**2 * self.freedom
        standard = (removable - mean) / self.deviation - middle
        return np.where(absent, SURELY_OUT + removable, standard)

    @cached_property
    def _views(self) -> dict[str, ev.Event]:
        return self.terms.views()

    @cached_property
    def _plan(self) -> Plan | None:
        """The plan of one release; None where nothing is promised."""
        if self.terms.kind == WISHART:
            return None
        privacy, views = self.request.settings.privacy, self._views
        phase = PlannedPhase(PCA, self.terms.noise_of_sum, views["model"], 1, views)
        return plan_given_noise(
            [phase], delta=privacy.delta, neighbours=privacy.neighbours, unit="record"
        )


def largest_removable(left: FloatArray, direction: FloatArray) -> FloatArray:
    """Return T = 1 / (u^T L^-1 u) of each matrix L (n, d, d), for a unit vector u (d,): (n,).

    L - t u u^T has no negative eigenvalue exactly for t <= T, where L is positive definite; where L
    itself is not, nothing can be removed, and T is 0.
    """
    positive = np.linalg.eigvalsh(left)[:, 0] > 0.0
    removable = np.zeros(len(left))
    if positive.any():
        inverse = np.linalg.inv(left[positive])
        removable[positive] = 1.0 / np.einsum("i,nij,j->n", direction, inverse, direction)
    return removable


def _square(values: FloatArray, d: int) -> FloatArray:
    upper = np.zeros((d, d))
    upper[np.triu_indices(d)] = values
    return upper + np.triu(upper, 1).T


def _federation(rows: FloatArray, silo: IntArray, silos: int) -> Federation:
    users = max(1, len(rows))
    return records_federation(
        rows, user=np.zeros(len(rows), np.int64), silo=silo, users=users, silos=silos
    )


def empty_federation(features: int, silos: int, users: int = 1) -> Federation:
    """Return a federation without records, for a system whose records are not looked at."""
    return replace(_federation(np.zeros((0, features)), np.zeros(0, np.int64), silos), users=users)
