"""Canaries for private statistics: units that move a noisy Gram matrix as far as can be, or do not.

Every release is a run of its own, with a gate, an odometer and noise of its own, on the features of
the data set and the grid of the configuration.  Canaries lie in it two features each
(`canary_pairs`), as many as there is room for, and there are as many releases as it takes.  Rows
are ten row norms long and come twice as often as a silo keeps them: a clip or a cap that is missing
shows.

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
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import Unsupported
from ...accountant.mechanisms.gram_noise import NoisyGram
from ..aggregation.choice import aggregator
from ..canaries import (
    CANARY_NORM_IN_CLIPS,
    OBSERVER_SILO,
    CanaryObservations,
    Coins,
    RecordingAggregator,
    RehearsalRequest,
    flip_coins,
    mask_pairs,
    refuse_real_users,
    require_observer,
    simulate_rounds,
)
from ..data.federation import Federation
from ..frame.system import build
from ..observers.names import SILO
from ..tables.record_shape import required_shape
from ..training.local_training import NoTraining
from .canary_pairs import PLANE, Canaries, PairGeometry, equal_shifts
from .settings import ReleaseSettings
from .system import Statistics

if TYPE_CHECKING:
    from ..frame.model import Parameters
    from ..settings.schema import Settings

ROWS_IN_CAPS: Final = 2
"""How many rows a unit has in a silo, in caps: a missing cap shows twofold."""

MAX_ROW_NUMBERS: Final = 10**8
"""Most numbers in the rows of one release."""

IN_EVERY_SILO: Final = -1
"""The group of units that are not told apart by their silo."""

_RELEASE_WORK: Final = 20_000
"""What a release costs beside its numbers and its masks, in steps of half a microsecond."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of units that are in or out, in as many releases as they need.

    Raises `Unsupported` for Laplace noise, for one feature and for too many rows, `InvalidInput`
    for an observer that the plan does not know and where real users are to be beside the canaries.
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
    refuse_real_users(request, "Their rows would lie across those of the canaries.")
    _refuse_laplace(table)
    rng = request.rng()
    coins = flip_coins(request.canaries, rng)
    releases = _Releases(request, table, (features, classes), coins, rng)
    seen = releases.seen()
    return CanaryObservations(
        coins=coins.into,
        observations=equal_shifts(releases.geometry.distances) @ seen,
        shift=releases.shift / math.sqrt(len(seen)),
        rate=1.0,
        plan=releases.system.plan(),
        opening=releases.system.opening(),
        rounds=1,
        looks=len(seen),
        groups=releases.groups,
        note=releases.notes(),
    )


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


@dataclass(frozen=True, eq=False)
class _Releases:
    """The releases of a rehearsal: which units lie where, and what an observer sees of them."""

    request: RehearsalRequest
    table: ReleaseSettings
    shape: tuple[int, int]
    coins: Coins
    rng: np.random.Generator

    @cached_property
    def system(self) -> Statistics:
        """The system of the settings; it has another federation in each release."""
        request = self.request
        features, classes = self.shape
        empty = Federation(
            name=request.settings.data.name,
            task="binary" if classes == 2 else "multiclass",
            classes=classes,
            users=max(request.settings.data.users, features // PLANE),
            silos=request.silos,
            features=np.zeros((0, features), np.float32),
            labels=np.zeros(0, np.int64),
            user=np.zeros(0, np.int64),
            silo=np.zeros(0, np.int64),
            test_features=np.zeros((1, features), np.float32),
            test_labels=np.zeros(1, np.int64),
            absent_users=True,
            empty_silos=True,
        )
        system = build(request.settings, empty, NoTraining(), request.streams())
        require_observer(system.plan(), request.observer)
        return cast("Statistics", system)

    @cached_property
    def mechanism(self) -> NoisyGram:
        """The noise of every release."""
        return self.system.mechanism(self.system.promise.noise_multiplier)

    @cached_property
    def geometry(self) -> PairGeometry:
        """The pair of a canary, and which numbers are its own."""
        return PairGeometry(
            self.mechanism.gram,
            self.table.intercept,
            self.request.settings.privacy.neighbours == "replace-one",
        )

    @cached_property
    def kept(self) -> IntArray:
        """How many rows of a unit each silo keeps: (silos,)."""
        terms = self.system.terms
        return np.array([terms.kept(silo) or 1 for silo in range(self.request.silos)])

    @cached_property
    def fractions(self) -> FloatArray:
        """Which share of a unit's rows each silo has: (m, silos); 0 in the observer's."""
        shares = np.zeros((self.request.canaries, self.request.silos))
        if self.system.terms.unit == "user":
            shares[:, self.request.holders] = (
                self.kept[self.request.holders] / self.geometry.gram.rows
            )
        else:
            units = np.arange(len(shares))
            shares[units, self.request.holders[units % len(self.request.holders)]] = 1.0
        return shares

    @property
    def groups(self) -> IntArray:
        """The silo of each unit, where its noise is that of the silo alone."""
        if not self.request.sees_each_silo or self.system.terms.unit == "user":
            return np.full(self.request.canaries, IN_EVERY_SILO)
        return np.asarray(self.fractions.argmax(axis=1), np.int64)

    @cached_property
    def reach(self) -> FloatArray:
        """How much of a unit's rows an observer sees, by the weights that it gives silos: (m,)."""
        if self.request.sees_each_silo:
            return np.asarray(np.sqrt(np.square(self.fractions).sum(axis=1)))
        return np.asarray(self.fractions.sum(axis=1))

    @property
    def noise(self) -> float:
        """The deviation of the noise in what the observer sees of a unit."""
        arriving = self.request.silos - self.request.settings.security.dropouts
        shares = 1 if self.request.sees_each_silo else arriving - (self.request.observer == SILO)
        return self.mechanism.share_std * math.sqrt(shares)

    @property
    def shift(self) -> float:
        """How far a unit moves what is seen: from 0, or from the middle where it is replaced."""
        moved = self.geometry.distance * float(self.reach[0]) / self.noise
        return moved / 2.0 if self.geometry.replaced else moved

    @property
    def room(self) -> int:
        """How many units lie in one release, at most."""
        room = self.geometry.room
        return min(room, len(self.request.holders)) if self.system.terms.unit == "silo" else room

    def seen(self) -> FloatArray:
        """Make all releases; return what each part shows of each unit: (parts, m)."""
        room = self.room
        self._require_room(room)
        seen = np.empty((len(self.geometry.distances), self.request.canaries))
        for number, first in enumerate(range(0, self.request.canaries, room)):
            units = np.arange(first, min(first + room, self.request.canaries))
            seen[:, units] = self._release(number, units)
        return seen

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of the rehearsal."""
        dimension = self.geometry.gram.dimension
        notes = [
            f"{self.geometry.room} units at most in each of many releases of {dimension} columns"
        ]
        if self.geometry.distance * float(self.reach.min()) < 0.999 * self.geometry.bound:
            share = self.geometry.distance * float(self.reach.min()) / self.geometry.bound
            notes.append(f"a unit moves what is seen by {share:.2f} of the bound that is claimed")
        return tuple(notes)

    def _release(self, number: int, units: IntArray) -> FloatArray:
        """Make a release with some of the units in it; return what is seen of them: (parts, n)."""
        canaries = self._drawn(len(units))
        system, request = self.system, self.request
        system.setup = replace(system.setup, federation=self._federation(units, canaries))
        missing = range(int(self.request.holders[-1]) + 1, request.silos)
        recorder = system.aggregator = RecordingAggregator(
            aggregator(request.settings.security, request.silos, whole_ring=True), missing=missing
        )
        simulate_rounds(system, request.streams(number), each=_nothing)
        assert recorder.sum is not None
        if self.request.sees_each_silo:
            weights = self.fractions[units] / self.reach[units, None]
            shown = [
                (recorder.sent[silo], weights[:, silo]) for silo in self.request.holders.tolist()
            ]
        elif request.observer == SILO:
            # Modulo 2^64, as the sum is.
            shown = [(recorder.sum.total - recorder.sent[OBSERVER_SILO], np.ones(len(units)))]
        else:
            shown = [(recorder.sum.total, np.ones(len(units)))]
        middle = self.geometry.middle(canaries) * self.reach[units]
        held = [
            weight * self.geometry.projected(self.mechanism, steps, canaries)
            for steps, weight in shown
        ]
        return np.asarray((np.sum(held, axis=0) - middle) / self.noise)

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
        if not self.geometry.replaced:
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

    def _require_room(self, room: int) -> None:
        """Raise `Unsupported` where the rows of one release would be too many."""
        most = ROWS_IN_CAPS * self.geometry.gram.rows * room * self.geometry.features
        if most > MAX_ROW_NUMBERS:
            raise Unsupported(
                f"Canaries of {self.geometry.gram.rows:,} rows each are too large to rehearse.",
                f"Their rows would be {most:,} numbers in each release.",
                "Judge the noise by the tier residual, or rehearse with a lower cap.",
            )


def _nothing(_: int, __: Parameters, ___: Parameters) -> None:
    """Do nothing after a release: what is seen of it is on its way to the sum."""


def _refuse_laplace(table: ReleaseSettings) -> None:
    if table.noise == "laplace":
        raise Unsupported(
            "A release with Laplace noise is not rehearsed with canaries.",
            "Its bound is reached by a row that moves every number a little, each beside noise of "
            "its own; what that shows is far below the claim, so nothing would ever contradict it.",
            "Judge the noise by the tier residual.",
        )
