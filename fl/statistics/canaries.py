"""Canaries for private statistics: units that move a noisy Gram matrix as far as can be, or do not.

Every release is a run of its own, on the features of the data set and the grid of the
configuration.  Canaries lie in it two features each (`canary_pairs`), as many as there is room for.
Rows are ten row norms long and come twice as often as a silo keeps them: a clip or a cap that is
missing shows.

| unit | rows | where they lie |
|---|---|---|
| record | 1 | a silo, each in its turn |
| user | k | in every silo, as many as it keeps |
| silo | k | a silo of its own |

An observer is shown the sum, the vectors of all silos (the server in the clear), or the sum less
its own.  What it sees of a unit are three numbers, in units of the noise that is claimed: what the
diagonal, the numbers above it and the label sums hold of it, each along the difference of the pair.
They are rotated until the unit moves all three alike: their sum is all that the unit shows where
the noise is right, and where the noise of one part is not, that part by itself shows more.

A unit's distance is that of its pair, computed here, and not what is claimed.  Where no canary
attains the bound less is shown: with an intercept, of which the corner of the matrix moves with all
canaries alike; of a user before those who see a silo by itself; of several rows that are replaced.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Final, TypeAlias, cast

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import Unsupported
from ...accountant.mechanisms.gram_noise import NoisyGram
from ..aggregation.choice import aggregator
from ..canaries import (
    CANARY_NORM_IN_CLIPS,
    CanaryHarness,
    CanaryObservations,
    MakeRounds,
    RecordingAggregator,
    RehearsalRequest,
    equal_shifts,
    mask_pairs,
    records_federation,
)
from ..data.federation import Federation
from ..frame.model import Parameters
from ..frame.system import build
from ..settings.schema import Settings
from ..tables.record_shape import required_shape
from ..training.local_training import NoTraining
from .canary_pairs import PLANE, Canaries, PairGeometry
from .settings import ReleaseSettings
from .system import Statistics

ROWS_IN_CAPS: Final = 2
"""How many rows a unit has in a silo, in caps: a missing cap shows twofold."""

MAX_ROW_NUMBERS: Final = 10**8
"""Most numbers in the rows of one release."""

_RELEASE_WORK: Final = 20_000
"""What a release costs besides its numbers and its masks, in steps of half a microsecond."""

Arriving: TypeAlias = "list[tuple[IntArray, FloatArray]]"
"""Integers that reach an observer, each with the weights of the units in it."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of units that are in or out, in as many releases as they need.

    Raises `Unsupported` for Laplace noise, for one feature and for too many rows, `InvalidInput`
    for an observer that the plan does not know and where real users are to be with the canaries.
    """
    features, classes = required_shape(request.settings.data)
    table = request.settings.of(ReleaseSettings)
    return simulate_releases(request, table, features=features, classes=classes)


def simulate_releases(
    request: RehearsalRequest, table: ReleaseSettings, *, features: int, classes: int
) -> CanaryObservations:
    """Return what an observer sees in releases of a system made of `Statistics`, by these facts.

    `table`: what the system releases, in the words of `[statistics]`; `features` and `classes` of
    the records that it is made for.  Raises as `simulate`.
    """
    return GramCanaries(request, table, features, classes).simulated()


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of all releases: rows, numbers in every silo, masks, and the gate."""
    features, classes = required_shape(settings.data)
    table = settings.of(ReleaseSettings)
    return releases_work(settings, table, silos, canaries, features=features, classes=classes)


def releases_work(
    settings: Settings,
    table: ReleaseSettings,
    silos: int,
    canaries: int,
    *,
    features: int,
    classes: int,
) -> int:
    """Return the work of all releases that `simulate_releases` makes."""
    unit = settings.privacy.unit
    rows = {"user": table.rows_per_user, "silo": table.silo_rows or 1}.get(unit or "record", 1)
    room = max(1, min(features // PLANE, silos if unit == "silo" else features))
    numbers = features * (features // 2 + classes) * silos + ROWS_IN_CAPS * rows * room * features
    each = _RELEASE_WORK + numbers + 1_000 * mask_pairs(settings, silos)
    return -(-canaries // room) * each


class GramCanaries(CanaryHarness[Arriving]):
    """Units in releases of a Gram matrix: a plane of features for each in its release."""

    alone = "Their rows would lie across those of the canaries."

    def __init__(
        self, request: RehearsalRequest, table: ReleaseSettings, features: int, classes: int
    ) -> None:
        super().__init__(request)
        _refuse_laplace(table)
        self.table, self.shape = table, (features, classes)

    @cached_property
    def system(self) -> Statistics:
        """The system of the settings; it has another federation in each release."""
        request, (features, classes), nobody = self.request, self.shape, np.zeros(0, np.int64)
        empty = records_federation(
            np.zeros((0, features)),
            user=nobody,
            silo=nobody,
            users=max(request.settings.data.users, features // PLANE),
            silos=request.silos,
            name=request.settings.data.name,
            classes=classes,
        )
        system = build(request.settings, empty, NoTraining(), request.streams())
        return cast("Statistics", system)

    @cached_property
    def mechanism(self) -> NoisyGram:
        """The noise of every release."""
        return self.system.mechanism(self.system.promise.noise_multiplier)

    @cached_property
    def geometry(self) -> PairGeometry:
        """The pair of a canary, and which numbers are its own."""
        return PairGeometry(self.mechanism.gram, self.table.intercept, self.replaced)

    @cached_property
    def kept(self) -> IntArray:
        """How many rows of a unit each silo keeps: (silos,)."""
        terms = self.system.terms
        return np.array([terms.kept(silo) or 1 for silo in range(self.request.silos)])

    @cached_property
    def fractions(self) -> FloatArray:
        """Which share of a unit's rows each silo has: (m, silos); 0 in the observer's."""
        shares, holders = np.zeros((len(self.coins), self.request.silos)), self.request.holders
        if self.system.terms.unit == "user":
            shares[:, holders] = self.kept[holders] / self.geometry.gram.rows
        else:
            shares[np.arange(len(shares)), self.request.silo_of] = 1.0
        return shares

    @cached_property
    def groups(self) -> IntArray | None:
        apart = self.request.sees_each_silo and self.system.terms.unit != "user"
        return self.request.silo_of if apart else None

    @cached_property
    def reach(self) -> FloatArray:
        """How much of a unit's rows an observer sees, by the weights that it gives silos: (m,)."""
        if self.request.sees_each_silo:
            return np.asarray(np.sqrt(np.square(self.fractions).sum(axis=1)))
        return np.asarray(self.fractions.sum(axis=1))

    @cached_property
    def noise(self) -> float:
        """The deviation of the noise in what the observer sees of a unit."""
        return self.mechanism.share_std * math.sqrt(self.request.shares)

    @cached_property
    def looks(self) -> int:
        return len(self.geometry.distances)

    @cached_property
    def shift(self) -> float:
        moved = self.geometry.distance * float(self.reach[0]) / self.noise
        return (moved / 2.0 if self.replaced else moved) / math.sqrt(self.looks)

    @cached_property
    def room(self) -> int:
        room, gram = self.geometry.room, self.geometry.gram
        if self.system.terms.unit == "silo":
            room = min(room, len(self.request.holders))
        most = ROWS_IN_CAPS * gram.rows * room * self.geometry.features
        if most > MAX_ROW_NUMBERS:
            raise Unsupported(
                f"Canaries of {gram.rows:,} rows each are too large to rehearse.",
                f"Their rows would be {most:,} numbers in each release.",
                "Judge the noise by the tier residual, or rehearse with a lower cap.",
            )
        return room

    def notes(self) -> tuple[str, ...]:
        dimension = self.geometry.gram.dimension
        note = f"{self.geometry.room} units at most in each of many releases of {dimension} columns"
        share = self.geometry.distance * float(self.reach.min()) / self.geometry.bound
        less = f"a unit moves what is seen by {share:.2f} of the bound that is claimed"
        return (note, less) if share < 0.999 else (note,)

    def place(self, run: int, units: IntArray) -> MakeRounds:
        system, request = self.system, self.request
        self.canaries = self._drawn(len(units))
        system.setup = replace(system.setup, federation=self._federation(units, self.canaries))
        sums = aggregator(request.settings.security, request.silos, whole_ring=True)
        self.recorder = RecordingAggregator(sums, missing=request.missing)
        system.aggregator = self.recorder
        return self.rounds_of(system, request.streams(run))

    def observe(self, number: int, before: Parameters, after: Parameters) -> Arriving:
        weights = self.fractions[self.here] / self.reach[self.here, None]
        return self.request.arriving(self.recorder, weights)

    def score(self, number: int, seen: Arriving) -> FloatArray:
        held = [
            weight * self.geometry.projected(self.mechanism, steps, self.canaries)
            for steps, weight in seen
        ]
        middle = self.geometry.middle(self.canaries) * self.reach[self.here]
        parts = (np.sum(held, axis=0) - middle) / self.noise
        # Rotated until a unit moves all parts alike.
        return np.asarray(equal_shifts(self.geometry.distances) @ parts)

    def _drawn(self, count: int) -> Canaries:
        """Draw planes, signs and labels of the canaries of a release; all of them public."""
        features = self.rng.permutation(self.geometry.features)[: PLANE * count]
        return Canaries(
            features.reshape(count, PLANE),
            np.where(self.rng.random((count, PLANE)) < 0.5, 1.0, -1.0),
            self.rng.integers(max(self.geometry.gram.classes, 2), size=count),
        )

    def _federation(self, units: IntArray, canaries: Canaries) -> Federation:
        """Return the federation of a release: the rows of its canaries, ten row norms long."""
        into = self.coins.into[units]
        rows, labels = self.geometry.rows(canaries, into)
        counts = np.where(self.fractions[units] > 0.0, ROWS_IN_CAPS * self.kept, 0)
        if self.system.terms.unit == "record":  # a silo keeps all rows, and each is a unit
            counts //= ROWS_IN_CAPS
        if not self.replaced:
            counts[~into] = 0
        unit, silo = np.nonzero(counts)
        times = counts[unit, silo]
        unit, silo = np.repeat(unit, times), np.repeat(silo, times)
        length = CANARY_NORM_IN_CLIPS * self.mechanism.row_norm
        return replace(
            self.system.setup.federation,
            features=(length * rows[unit]).astype(np.float32),
            labels=labels[unit],
            user=unit.astype(np.int64),
            silo=silo.astype(np.int64),
        )


def _refuse_laplace(table: ReleaseSettings) -> None:
    if table.noise == "laplace":
        raise Unsupported(
            "A release with Laplace noise is not rehearsed with canaries.",
            "Its bound is reached by a row that moves every number a little, each with noise of "
            "its own; what that shows is far below the claim, so nothing would ever contradict it.",
            "Judge the noise by the tier residual.",
        )
