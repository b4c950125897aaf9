"""The runs of a rehearsal of power iterations: which units lie where, and what is seen of them.

Every run has a gate, an odometer and noise of its own; `canaries` says what is looked for.

Noise removal for rehearsals: the sum that the protocol would find, without its encryption.

That both find the same, bit for bit, is tested where the protocol is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import Unsupported
from ...accountant.mechanisms import NoisyProduct
from ..canaries import (
    CANARY_NORM_IN_CLIPS,
    OBSERVER_SILO,
    Coins,
    RecordingAggregator,
    RehearsalRequest,
    require_observer,
    rounds_to_simulate,
    simulate_rounds,
)
from ..data.federation import Federation
from ..frame.system import build
from ..observers.names import MODEL, SERVER, SILO
from ..training.local_training import NoTraining
from .canary_pairs import CanaryPairs, canary_pairs, directions_each
from .power import PowerIteration
from .utility import FedPowerUtility

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...accountant.sensitivity.product import ProductBound
    from ..frame.model import Parameters


class RehearsedRemoval:
    """Takes all noise but that of one node off, a node that an attacker's generator draws.

    `taken` is what the last round took off, (values,) in steps of the grid.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.taken: IntArray = np.zeros(0, np.int64)

    def removed(
        self,
        number: int,  # noqa: ARG002
        noises: Sequence[Callable[[], IntArray]],
        *,
        largest: int,  # noqa: ARG002
    ) -> IntArray:
        """Return the sum of all noises but one, modulo 2^64: (values,)."""
        drawn = [noise() for noise in noises]
        staying = int(self._rng.integers(len(drawn)))
        self.taken = np.asarray(np.sum(drawn, axis=0, dtype=np.int64) - drawn[staying])
        return self.taken


ROWS_IN_CAPS: Final = 2
"""How many rows a silo has, in caps: a missing cap shows twofold."""


@dataclass(frozen=True, eq=False)
class CanaryRuns:
    """The runs of a request whose coins were flipped, on data with so many columns (d).

    `rng` draws public directions.  Raises as `fl.fedpower.canaries.simulate`.
    """

    request: RehearsalRequest
    columns: int
    coins: Coins
    rng: np.random.Generator

    @cached_property
    def system(self) -> PowerIteration:
        """The system without a record: plan, opening and mechanism are those of every run."""
        nobody = np.zeros(0, np.int64)
        system = self._built(self._federation(np.zeros((0, self.columns)), nobody, nobody))
        require_observer(system.plan(), self.request.observer)
        if isinstance(system, FedPowerUtility) and self.request.observer not in (MODEL, SERVER):
            raise Unsupported(
                f"{system.name} is not rehearsed before {self.request.observer!r}.",
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

    @property
    def replaced(self) -> bool:
        """Whether a unit that is out has other rows, and not none."""
        return self.request.settings.privacy.neighbours == "replace-one"

    @cached_property
    def places(self) -> IntArray:
        """The silo of each unit: (m,)."""
        units = np.arange(self.request.canaries) % self.room
        return np.asarray(self.request.holders[units % len(self.request.holders)])

    @property
    def groups(self) -> IntArray | None:
        """The silo of each unit, where its noise is that of the silo alone."""
        return self.places if self.request.sees_each_silo else None

    @cached_property
    def noise(self) -> float:
        """The deviation of the noise in what the observer sees, in units of one row's bound."""
        arriving = self.request.silos - self.request.settings.security.dropouts
        alone = self.request.sees_each_silo or isinstance(self.system, FedPowerUtility)
        shares = 1 if alone else arriving - (self.request.observer == SILO)
        bound = self.bound
        return self.mechanism.share_std * math.sqrt(shares) * bound.divisor / bound.row_norm**2

    @cached_property
    def room(self) -> int:
        """How many units lie in one run, at most."""
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
    def _rounds(self) -> int:
        return rounds_to_simulate(self.system.plan(), self.request.rounds)

    @cached_property
    def shift(self) -> float:
        """How far a unit moves what is seen: from 0, or from the middle where it is replaced."""
        start = self._first_basis()
        _, moved = self._pairs(1, start).seen(np.zeros_like(start), start)
        return float(moved[0]) / self.noise / (2.0 if self.replaced else 1.0)

    def seen(self) -> FloatArray:
        """Make all runs; return what each round shows of each unit: (rounds, m)."""
        units = self.request.canaries
        seen = np.empty((self._rounds, units))
        for number, first in enumerate(range(0, units, self.room)):
            here = np.arange(first, min(first + self.room, units))
            seen[:, here] = self._run(number, here)
        return seen

    def _run(self, number: int, units: IntArray) -> FloatArray:
        """Make a run with some of the units in it; return what is seen of them."""
        start = self._first_basis()
        pairs = self._pairs(len(units), start)
        system = self._built(self._with_canaries(units, pairs), number)
        recorder = system.aggregator = RecordingAggregator(
            system.aggregator, missing=range(int(self.request.holders[-1]) + 1, self.request.silos)
        )
        removal = RehearsedRemoval(self.rng)
        if isinstance(system, FedPowerUtility):
            system.remove_noise_by(removal)
        seen = np.empty((self._rounds, len(units)))

        def each(done: int, before: Parameters, after: Parameters) -> None:
            del after
            basis = before.reshape(start.shape)
            towards = np.empty(len(units))
            for whose, steps in self._shown(recorder, removal.taken, units):
                shown = self.mechanism.units(steps) * self.bound.divisor / self.bound.row_norm**2
                along, _ = pairs.seen(shown.reshape(start.shape), basis)
                towards[whose] = along[whose]
            seen[done - 1] = (towards - pairs.middle(basis)) / self.noise

        simulate_rounds(system, self.request.streams(number), rounds=self._rounds, each=each)
        return seen

    def _shown(
        self,
        recorder: RecordingAggregator,
        taken_off: IntArray,
        units: IntArray,
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield which of the units are looked for in which integers that reach the observer."""
        assert recorder.sum is not None
        if self.request.sees_each_silo:
            for silo in self.request.holders.tolist():
                yield np.flatnonzero(self.places[units] == silo), recorder.sent[silo]
            return
        own = recorder.sent[OBSERVER_SILO] if self.request.observer == SILO else 0
        # Modulo 2^64, as the sum is.
        whole = recorder.sum.total - own
        yield np.arange(len(units)), whole - taken_off if taken_off.size else whole

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

    def _with_canaries(self, units: IntArray, pairs: CanaryPairs) -> Federation:
        """Return the federation of a run: the rows of its canaries, in their silos."""
        into = self.coins.into[units]
        out = np.zeros_like(pairs.into) if pairs.out is None else pairs.out
        # Between the two rows of an entry there would be more than its range, were they longer.
        long = self.bound.row_norm * (CANARY_NORM_IN_CLIPS if self.bound.unit != "entry" else 1.0)
        rows = long * np.where(into[:, None], pairs.into, out)
        there = np.flatnonzero(into | self.replaced)
        times = ROWS_IN_CAPS * pairs.repeats if self.bound.unit == "silo" else 1
        there = np.repeat(there, times)
        return self._federation(rows[there], self.places[units][there], there)

    def _federation(self, rows: FloatArray, silo: IntArray, user: IntArray) -> Federation:
        return Federation(
            name=self.request.settings.data.name,
            task="binary",
            classes=2,
            users=max(self.request.settings.data.users, self.columns),
            silos=self.request.silos,
            features=rows.astype(np.float32),
            labels=np.zeros(len(rows), np.int64),
            user=user.astype(np.int64),
            silo=silo.astype(np.int64),
            test_features=np.zeros((1, self.columns), np.float32),
            test_labels=np.zeros(1, np.int64),
            absent_users=True,
            empty_silos=True,
        )

    def _built(self, federation: Federation, run: int = 0) -> PowerIteration:
        request = self.request
        made = build(request.settings, federation, NoTraining(), request.streams(run))
        return cast("PowerIteration", made)
