"""Canaries for power iterations: rows that move every product as far as can be, or are not there.

    x_t = <Y_t - known, D_t> / (|D_t| sigma)        D_t = a (Z_t^T a)^T, what the canary a adds

The statistic of a canary is the sum of x_t over the rounds, the likelihood ratio of the claim.
Z_t is released before round t, so D_t is known before its noise is drawn: every x_t has noise of
variance 1 that is independent of earlier rounds and of other canaries (`canary_pairs`), and a mean
of at most the claim's shift.  No more is seen of a unit than that, so a sound run shows no more
than is claimed.

**The shape.**  r canaries lie in one run, along orthonormal directions in the span of the first Z.
A bound depends on neither d nor r, so runs are rehearsed with
as many directions as columns: then every row lies in the span of every Z, and attains its bound in
all rounds, by which the noise is tested hardest.  With fewer directions than columns a row would
leave the span after the first round, unless other rows keep it there.

Rows are ten row norms long, so that a clip that is missing shows, and a silo has twice its cap; the
rows of an entry are within the norm.  Every canary lies in one node.  Whoever sees the node's own
product (the server in the clear) looks there, and a silo looks at the sum less its own.

**Before models and server alone** are runs rehearsed in which all noise but that of one node is
taken off (`fedpower-utility`).  There the sum is computed that the protocol would find, without its
encryption; that both find the same, bit for bit, is tested where the protocol is.

**What is not found.**  Canaries that are seen no better than claimed prove nothing about another
attack, about other rows, or about faults outside of the rehearsed code.  Noise that repeats in
all rounds is none of this statistic's business, as each round has a direction of its own: the tier
`residual` looks at noise itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, TypeAlias, cast

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import Unsupported
from ...accountant.mechanisms import NoisyProduct
from ...accountant.sensitivity.product import ProductBound
from ..canaries import (
    CANARY_NORM_IN_CLIPS,
    CanaryHarness,
    CanaryObservations,
    MakeRounds,
    RecordingAggregator,
    RehearsalRequest,
    mask_pairs,
    records_federation,
)
from ..data.federation import Federation
from ..frame.model import Parameters
from ..frame.system import build
from ..observers.names import MODEL, SERVER
from ..settings.schema import Settings
from ..tables.record_shape import shape_in
from ..training.local_training import NoTraining
from .canary_pairs import CanaryPairs, canary_pairs, directions_each
from .power import PowerIteration
from .settings import FedPowerSettings
from .utility import FedPowerUtility

REHEARSED_COLUMNS: Final = 64
"""Columns and directions of a rehearsal, unless the unit decides: canaries of one run."""

MAX_ENTRY_COLUMNS: Final = 1_024
"""Most columns of data whose entries are rehearsed."""

ROWS_IN_CAPS: Final = 2
"""How many rows a silo has, in caps: a missing cap shows twofold."""

_ROUND_WORK: Final = 20_000
"""What a round costs besides its numbers and its masks, in steps of half a microsecond."""

Products: TypeAlias = "tuple[FloatArray, list[tuple[IntArray, FloatArray]]]"
"""The iterate of a round, and the products that arrive, each with the weights of units in it."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of units that are in or out, in runs of a square shape.

    Raises `Unsupported` for products that nodes do not sum in every step and for entries of data
    whose columns are not known, `InvalidInput` for an observer that the plan does not know, and
    where real users are to be with the canaries.
    """
    return PowerCanaries(request).simulated()


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of one round of all runs: numbers in every silo, masks, and the gate."""
    side, unit = _side(settings, silos), settings.privacy.unit
    room = silos if unit == "silo" else side // 2
    rows = settings.of(FedPowerSettings).silo_rows or 1
    each = _ROUND_WORK + side * (side * silos + ROWS_IN_CAPS * rows)
    return -(-canaries // room) * (each + 1_000 * mask_pairs(settings, silos))


def _side(settings: Settings, silos: int) -> int:
    """Return how many columns and directions the runs of a rehearsal have; at least 2."""
    unit = settings.privacy.unit
    if unit == "silo":  # each lies in a silo of its own
        return 2 * silos
    if unit != "entry":
        return REHEARSED_COLUMNS
    # The grid adds to an entry's bound by the columns, so they stay those of the data.
    shape = shape_in(settings.data)
    if shape is None or shape[0] > MAX_ENTRY_COLUMNS:
        raise Unsupported(
            f"Entries of {settings.data.name} are not rehearsed with canaries.",
            "Their bound depends on the number of columns, which is not known here, or too large.",
            "Judge the noise by the tier residual.",
        )
    return shape[0]


class RehearsedRemoval:
    """Takes all noise but that of one node off, a node that an attacker's generator draws.

    `taken` is what the last round took off, (values,) in steps of the grid.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.taken: IntArray = np.zeros(0, np.int64)

    def removed(
        self, number: int, noises: Sequence[Callable[[], IntArray]], *, largest: int
    ) -> IntArray:
        """Return the sum of all noises but one, modulo 2^64: (values,)."""
        drawn = [noise() for noise in noises]
        staying = int(self._rng.integers(len(drawn)))
        self.taken = np.asarray(np.sum(drawn, axis=0, dtype=np.int64) - drawn[staying])
        return self.taken


class PowerCanaries(CanaryHarness[Products]):
    """Units in runs of a power iteration: a direction or two for each, and a silo in its turn."""

    alone = "Their rows would lie across those of the canaries."

    def __init__(self, request: RehearsalRequest) -> None:
        settings = request.settings
        self.columns = _side(settings, request.silos)
        table = settings.of(FedPowerSettings)
        # Entries of such a basis are near 1; the bound does not depend on where they are cut off.
        square = replace(table, rank=self.columns, oversampling=0, entry_clip=1.0)
        super().__init__(replace(request, settings=replace(settings, table=square)))
        if settings.as_published:
            raise Unsupported(
                f"{settings.run.system} as published is not rehearsed with canaries.",
                "Its noise follows from the shape of an iterate and from no bound on a unit, and "
                "promises nothing.",
                "See `privplan audit demo` for what a unit moves, and what noise that is known "
                "hides.",
            )
        if table.synchronise_every > 1:
            raise Unsupported(
                "Products that nodes make by themselves are not rehearsed with canaries.",
                "What a row adds to them depends on the iterates of its node, which nobody else "
                "sees.",
                "Judge the noise by the tier residual, or write synchronise_every = 1.",
            )

    @cached_property
    def system(self) -> PowerIteration:
        """The system without a record: plan, opening and mechanism are those of every run."""
        nobody = np.zeros(0, np.int64)
        system = self._built(self._federation(np.zeros((0, self.columns)), nobody, nobody))
        observer, known = self.request.observer, system.plan().guarantees
        if (
            isinstance(system, FedPowerUtility)
            and observer in known
            and observer not in (MODEL, SERVER)
        ):
            raise Unsupported(
                f"{system.name} is not rehearsed before {observer!r}.",
                "Whoever knows some noise may know that which stays, and then sees the exact sum.",
                'Rehearse it before "model" or "server".',
            )
        return system

    @cached_property
    def mechanism(self) -> NoisyProduct:
        """The noise of every product."""
        return self.system.mechanism(self.system.promise.noise_multiplier)

    @property
    def bound(self) -> ProductBound:
        """What bounds a unit."""
        return self.mechanism.product

    @cached_property
    def silo_of(self) -> IntArray:
        """The silo of each unit, (m,): the same ones in every run."""
        return self.request.silo_of[np.arange(len(self.coins)) % self.room]

    @cached_property
    def groups(self) -> IntArray | None:
        return self.silo_of if self.request.sees_each_silo else None

    @cached_property
    def noise(self) -> float:
        """The deviation of the noise in what the observer sees, in units of one row's bound."""
        shares = 1 if isinstance(self.system, FedPowerUtility) else self.request.shares
        bound = self.bound
        return self.mechanism.share_std * math.sqrt(shares) * bound.divisor / bound.row_norm**2

    @cached_property
    def room(self) -> int:
        room = self.bound.rank // directions_each(self.bound, replaced=self.replaced)
        if self.bound.unit == "silo":
            room = min(room, len(self.request.holders))
        if room < 1:
            raise Unsupported(
                f"A product with {self.bound.rank} columns has no room for a canary.",
                "A unit that is replaced moves it along two directions.",
                "Judge the noise by the tier residual.",
            )
        return room

    @cached_property
    def shift(self) -> float:
        start = self._first_basis()
        _, moved = self._pairs(1, start).seen(np.zeros_like(start), start)
        return float(moved[0]) / self.noise / (2.0 if self.replaced else 1.0)

    def notes(self) -> tuple[str, ...]:
        side = self.columns
        return (
            f"runs with {side} directions of {side} columns: a bound depends on neither",
            f"{self.room} units at most in each of many runs",
        )

    def place(self, run: int, units: IntArray) -> MakeRounds:
        self.pairs = self._pairs(len(units), self._first_basis())
        system = self._built(self._with_canaries(units), run)
        self.recorder = RecordingAggregator(system.aggregator, missing=self.request.missing)
        system.aggregator = self.recorder
        self.removal = RehearsedRemoval(self.rng)
        if isinstance(system, FedPowerUtility):
            system.remove_noise_by(self.removal)
        return self.rounds_of(system, self.request.streams(run))

    def observe(self, number: int, before: Parameters, after: Parameters) -> Products:
        basis = before.reshape(self.bound.dimension, self.bound.rank)
        where = self.silo_of[self.here, None] == np.arange(self.request.silos)
        arriving = self.request.arriving(self.recorder, where.astype(float))
        if self.removal.taken.size and not self.request.sees_each_silo:
            arriving = [(steps - self.removal.taken, weights) for steps, weights in arriving]
        return basis, arriving

    def score(self, number: int, seen: Products) -> FloatArray:
        basis, arriving = seen
        towards = np.zeros(len(self.here))
        for steps, weights in arriving:
            shown = self.mechanism.units(steps) * self.bound.divisor / self.bound.row_norm**2
            towards += weights * self.pairs.seen(shown.reshape(basis.shape), basis)[0]
        return np.asarray((towards - self.pairs.middle(basis)) / self.noise)

    def _first_basis(self) -> FloatArray:
        return self.system.initial().reshape(self.bound.dimension, self.bound.rank)

    def _pairs(self, count: int, start: FloatArray) -> CanaryPairs:
        """Return the canaries of a run, along public directions in the span of the first iterate.

        They are drawn at random, or for entries are axes, which lie in it where it is everything.
        """
        rank = self.bound.rank
        if self.bound.unit == "entry":
            span = np.eye(self.bound.dimension)[:, self.rng.permutation(self.bound.dimension)]
        else:
            span = start @ np.linalg.qr(self.rng.normal(size=(rank, rank))).Q
        return canary_pairs(self.bound, span, count, replaced=self.replaced)

    def _with_canaries(self, units: IntArray) -> Federation:
        """Return the federation of a run: the rows of its canaries, in their silos."""
        into, pairs = self.coins.into[units], self.pairs
        out = np.zeros_like(pairs.into) if pairs.out is None else pairs.out
        # Between the two rows of an entry there would be more than its range, were they longer.
        long = self.bound.row_norm * (CANARY_NORM_IN_CLIPS if self.bound.unit != "entry" else 1.0)
        rows = long * np.where(into[:, None], pairs.into, out)
        there = np.flatnonzero(into | self.replaced)
        times = ROWS_IN_CAPS * pairs.repeats if self.bound.unit == "silo" else 1
        there = np.repeat(there, times)
        return self._federation(rows[there], self.silo_of[units][there], there)

    def _federation(self, rows: FloatArray, silo: IntArray, user: IntArray) -> Federation:
        data = self.request.settings.data
        users = max(data.users, self.columns)
        return records_federation(
            rows, user=user, silo=silo, users=users, silos=self.request.silos, name=data.name
        )

    def _built(self, federation: Federation, run: int = 0) -> PowerIteration:
        request = self.request
        system = build(request.settings, federation, NoTraining(), request.streams(run))
        return cast("PowerIteration", system)
