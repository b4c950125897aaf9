"""Canaries for the PCA step: a row of the largest norm, in the covariance of a client or not.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant import events as ev
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.mechanisms import Gate, WishartGram
from ...accountant.mechanisms.gram_rows import gram_total
from ...accountant.odometer import Odometer
from ...accountant.plan import PlannedPhase, plan_given_noise
from ..aggregation.sums import PlainAggregator
from ..canaries import (
    CANARY_NORM_IN_CLIPS,
    CanaryObservations,
    MemoryLog,
    RecordingAggregator,
    RehearsalRequest,
    flip_coins,
    refuse_real_users,
    require_observer,
)
from ..data.federation import Federation
from ..observers.names import ANALYZER, MODEL, SERVER, SHUFFLER
from .pca import PcaRelease
from .pca_terms import PCA, WISHART, PcaTerms

if TYPE_CHECKING:
    from ...accountant.plan import Plan
    from ..frame.opening import OpeningStatement

REHEARSED_FEATURES: Final = 8
"""Columns of a covariance that is rehearsed: what is shown of a row does not depend on them."""

KNOWN_ROWS: Final = 3
"""Rows of each client that the observer knows, besides the canary."""

OBSERVERS: Final = (MODEL, SERVER, ANALYZER, SHUFFLER)
"""The observers that can be rehearsed: of the sum, and of what each client sends."""

SURELY_OUT: Final = -100.0
"""What is observed of a canary that is proven to be out; no noise reaches as far."""


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
    refuse_real_users(
        request, "Their rows would be known to the observer, or not, as canaries are."
    )
    require_observer(plan, request.observer, observers)
    rng = request.rng()
    coins = flip_coins(request.canaries, rng)
    runs = PcaRuns(request, release, coins.into, rng)
    seen = runs.seen()
    return CanaryObservations(
        coins=coins.into,
        observations=runs.observations(seen)[None],
        shift=runs.shift,
        rate=1.0,
        plan=plan,
        opening=opening,
        rounds=1,
        note=runs.notes(seen),
        event=runs.claimed,
        rehearsable=observers,
        partial=True,
    )


@dataclass(frozen=True, eq=False)
class PcaRuns:
    """The releases of a rehearsal: one canary for each client, or in each release.

    `into` (m,) says which canaries are in; `rng` draws public rows and directions.
    """

    request: RehearsalRequest
    release: PcaRelease
    into: BoolArray
    rng: np.random.Generator

    @cached_property
    def terms(self) -> PcaTerms:
        """The terms of each release: those of the run, of fewer columns."""
        of_run = self.release.terms
        features = min(of_run.features, REHEARSED_FEATURES)
        return replace(
            of_run,
            features=features,
            components=min(of_run.components, features),
            silos=self.request.silos,
        )

    @property
    def apart(self) -> bool:
        """Whether the observer sees what each client sends."""
        return self.request.observer != MODEL

    @cached_property
    def claimed(self) -> ev.Event:
        """What is claimed of one release, before the observer."""
        if self.terms.kind == WISHART:
            return ev.RandomizedResponse(self.terms.noise, 2)
        return self.release.views[self.request.observer]

    @cached_property
    def freedom(self) -> int:
        """m of the module, for the number of shares that the observer sees together."""
        mechanism = self.terms.mechanism
        assert isinstance(mechanism, WishartGram)
        shares = 1 if self.apart else self.terms.silos
        return shares * mechanism.freedom - self.terms.features + 1

    @cached_property
    def deviation(self) -> float:
        """The deviation of the noise in the statistic, in units of |x|^2 = 1."""
        mechanism = self.terms.mechanism
        if isinstance(mechanism, WishartGram):
            return mechanism.std**2 * math.sqrt(2.0 * self.freedom)
        return mechanism.share_std * math.sqrt(1 if self.apart else self.terms.silos)

    @property
    def replaced(self) -> bool:
        """Whether a unit that is out has another row, and not none: one of zeros."""
        return self.request.settings.privacy.neighbours == "replace-one"

    @cached_property
    def shift(self) -> float:
        """How far a unit moves the statistic, in deviations: from 0, or from the middle."""
        return (0.5 if self.replaced else 1.0) / self.deviation

    @cached_property
    def shortest(self) -> float:
        """The square of a canary's norm on the grid, at least: clip and truncation shorten it."""
        return 1.0 - 2.0 ** (5 - self.terms.mechanism.bits)

    def seen(self) -> FloatArray:
        """Make all releases; return the statistic of each canary, in units of |x|^2: (m,)."""
        canaries = len(self.into)
        each = self.terms.silos if self.apart else 1
        statistics = np.empty(canaries)
        for number, first in enumerate(range(0, canaries, each)):
            here = np.arange(first, min(first + each, canaries))
            statistics[here] = self._released(number, here)
        return statistics

    def observations(self, statistics: FloatArray) -> FloatArray:
        """Return statistics as a test reads them: over their noise, from 0 where a unit is out."""
        middle = self.shift if self.replaced else 0.0
        if self.terms.kind != WISHART:
            return statistics / self.deviation - middle
        mean = self.terms.mechanism.std**2 * self.freedom
        standard = (statistics - mean) / self.deviation - middle
        absent = statistics < self.shortest
        return np.asarray(np.where(absent, SURELY_OUT + statistics, standard))

    def notes(self, statistics: FloatArray) -> tuple[str, ...]:
        """Return what a reader must know; coins and counts are of canaries, so they are public."""
        known = "the observer knows all rows of a client but the canary"
        alone = "the PCA step is rehearsed by itself, and not the training after it"
        zeros = ("a unit that is out has a row of zeros",) if self.replaced else ()
        if self.terms.kind != WISHART:
            return (alone, known, *zeros)
        absent = statistics < self.shortest
        right, wrong = int((absent & ~self.into).sum()), int((absent & self.into).sum())
        into = int(self.into.sum())
        proven = (
            f"a negative eigenvalue proves of {right:,} of {len(self.into) - into:,} canaries that "
            f"are out that they are, and says so of {wrong:,} of {into:,} that are in, of which it "
            "never can"
        )
        return (alone, known, *zeros, proven)

    def _released(self, number: int, here: IntArray) -> FloatArray:
        """Make one release; return the statistics of the canaries `here`, in their order."""
        terms, d, silos = self.terms, self.terms.features, self.terms.silos
        directions = np.linalg.qr(self.rng.normal(size=(d, d))).Q[:, 0]
        known = self.rng.normal(size=(silos, KNOWN_ROWS, d)) * terms.row_norm / math.sqrt(d)
        long = (CANARY_NORM_IN_CLIPS * terms.row_norm * directions).astype(np.float32)
        where = np.arange(len(here)) if self.apart else np.zeros(1, np.int64)
        rows = [known.reshape(-1, d).astype(np.float32)]
        silo = [np.repeat(np.arange(silos), KNOWN_ROWS)]
        coins = self.into[here]
        there = where if self.replaced else where[coins]
        rows.append((coins[coins | self.replaced][:, None] * long).astype(np.float32))
        silo.append(there)
        recorder = RecordingAggregator(PlainAggregator())
        federation = _federation(np.concatenate(rows), np.concatenate(silo), silos)
        release = PcaRelease(terms, federation, self._views, recorder)
        release.release(self._gate(number), lambda _: None)
        assert recorder.sum is not None
        mechanism = terms.mechanism
        exact = [gram_total(mechanism, part.astype(np.float32)).total for part in known]
        if self.apart:
            left = [recorder.sent[index] - exact[index] for index in where.tolist()]
        else:
            left = [recorder.sum.total - np.sum(exact, axis=0)]
        steps = np.stack([_square(mechanism.units(each), d) for each in left])
        unit = directions / np.linalg.norm(directions)
        if terms.kind == WISHART:
            return largest_removable(steps, unit)
        return np.asarray(np.einsum("i,nij,j->n", unit, steps, unit))

    @cached_property
    def _views(self) -> dict[str, ev.Event]:
        return self.terms.views()

    def _gate(self, number: int) -> Gate:
        """Return a gate of its own, with a budget where something is promised."""
        streams, log = self.request.streams(number), MemoryLog()
        plan = self._plan
        return Gate(None if plan is None else Odometer.for_plan(plan), log, streams)

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
    return Federation(
        name="canaries",
        task="binary",
        classes=2,
        users=max(1, len(rows)),
        silos=silos,
        features=rows.astype(np.float32),
        labels=np.zeros(len(rows), np.int64),
        user=np.zeros(len(rows), np.int64),
        silo=silo.astype(np.int64),
        test_features=np.zeros((1, rows.shape[1]), np.float32),
        test_labels=np.zeros(1, np.int64),
        absent_users=True,
        empty_silos=True,
    )


def empty_federation(features: int, silos: int, users: int = 1) -> Federation:
    """Return a federation without records, for a system whose records are not looked at."""
    return replace(_federation(np.zeros((0, features)), np.zeros(0, np.int64), silos), users=users)
