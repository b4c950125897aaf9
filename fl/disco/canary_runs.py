"""The runs of a rehearsal of DISCO: which canaries lie where, and what an observer sees of them.

Every run has a gate, an odometer and noise of its own; `canaries` says what is looked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant import events as ev
from ...accountant.errors import counted
from ..aggregation.choice import aggregator
from ..aggregation.residuals import Residuals
from ..aggregation.sums import PlainAggregator
from ..canaries import (
    OBSERVER_SILO,
    Coins,
    RecordingAggregator,
    RehearsalRequest,
    canary_federation,
    mask_pairs,
    require_observer,
    rounds_to_simulate,
    simulate_rounds,
)
from ..frame.setup import setup
from ..observers.names import COORDINATOR, MODEL, PEER
from . import clip_rules
from .canary_training import CanaryTraining
from .settings import LOCAL, QUANTILE, DiscoSettings
from .system import CLIP, Disco, schedule_of

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray, IntArray
    from ...accountant.mechanisms import Gate, Gaussian
    from ..aggregation.sums import Aggregator, Silo, Sum
    from ..frame.model import Parameters, Round
    from ..frame.state import Arrays, State
    from ..settings.schema import Settings

OBSERVERS: Final = (MODEL, PEER, COORDINATOR)
"""The observers that are rehearsed."""

RECORDS_IN_A_RUN: Final = 250
"""Canaries of one run, where they are records."""

REHEARSED_TENSORS: Final = 2
"""Tensors of a rehearsed model whose tensors are clipped apart: a bound does not depend on them."""

MAX_PROTOCOL_WORK: Final = 5 * 10**7
"""Most work of sums that go through their protocol, in steps of half a microsecond: 25 s."""

PAIR_WORK: Final = 1_500
"""What a pair of peers costs in a sum by its protocol, in such steps."""


class RehearsedDisco(Disco):
    """The system, which tells the training the clip of the round."""

    training: CanaryTraining

    @cached_property
    def state(self) -> State:
        """The state of the system."""
        return super().state

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        """Make one round."""
        last = self.initial_state() if state is None else state
        self.training.clip = float(last[CLIP][0]) if CLIP in last else self.setup.training.clip
        return super().round(number, parameters, gate, state)


class KeptSums(RecordingAggregator):
    """An aggregator that keeps, of every sum of a round, what was sent and what arrived."""

    def __init__(self, inner: Aggregator) -> None:
        super().__init__(inner)
        self.kept: list[tuple[dict[int, IntArray], IntArray]] = []

    def total(
        self,
        number: int,
        silos: Sequence[Silo],
        length: int,
        *,
        present: Sequence[int] | None = None,
        largest: int | None = None,
    ) -> Sum:
        """Return the sum of what the silos send."""
        arrived = super().total(number, silos, length, present=present, largest=largest)
        self.kept.append((self.sent, arrived.total))
        return arrived


@dataclass(frozen=True, eq=False)
class CanaryRuns:
    """The runs of a rehearsal: which canaries lie where, and what an observer sees of them."""

    request: RehearsalRequest
    coins: Coins

    @cached_property
    def table(self) -> DiscoSettings:
        return self.request.settings.of(DiscoSettings)

    @cached_property
    def apart(self) -> bool:
        """Whether the observer sees each message by itself."""
        if self.request.observer == PEER:
            return self.table.noise == LOCAL
        plain = self.request.settings.security.aggregation == "plain"
        return self.request.observer == COORDINATOR and plain

    @cached_property
    def holders(self) -> IntArray:
        """The peers in which canaries lie, whose messages the observer does not know."""
        known = 0
        if self.request.observer == PEER:
            known = 1 if self.apart else 1 + self.request.settings.security.colluders
        return np.arange(OBSERVER_SILO + known, self.request.silos)

    @cached_property
    def room(self) -> int:
        """How many canaries lie in one run."""
        return room_of(self.request.settings, len(self.holders))

    @cached_property
    def places(self) -> IntArray:
        """The peer of each canary: (m,)."""
        units = np.arange(len(self.coins))
        if self.request.settings.privacy.unit == "record":
            units %= self.room  # the records of every run are the same
        return np.asarray(self.holders[units % len(self.holders)])

    @cached_property
    def training(self) -> CanaryTraining:
        """The training of every run."""
        return CanaryTraining(
            self.holders[np.arange(self.room) % len(self.holders)],
            silos=self.request.silos,
            tensors=1 if self.table.clip_by == "model" else REHEARSED_TENSORS,
            short=self.table.clip == QUANTILE,
        )

    @cached_property
    def system(self) -> RehearsedDisco:
        """The system of every run; its aggregator and its canaries change."""
        settings, silos = self.request.settings, self.request.silos
        present = np.ones((2, silos), np.int64)
        if settings.privacy.unit == "record":
            present = np.zeros((self.room, silos), np.int64)
            present[np.arange(self.room), self.training.holders] = 1
        federation = canary_federation(present)
        fewest = schedule_of(self.table, silos, settings.run.rounds).smallest
        parts = setup(settings, federation, self.training, fewest=fewest)
        system = RehearsedDisco(parts, self.table)
        system.training = self.training
        require_observer(system.plan(), self.request.observer, OBSERVERS)
        return system

    @cached_property
    def rounds(self) -> int:
        """How many rounds are made."""
        return rounds_to_simulate(self.system.plan(), self.request.rounds)

    @cached_property
    def noise(self) -> FloatArray:
        """The noise that is claimed before the observer, in bounds, of each release of a round."""
        event = self.system.views(self.system.promise.noise_multiplier)[self.request.observer]
        parts = event.events if isinstance(event, ev.Compose) else (event,)
        return np.array([part.noise_multiplier for part in parts if isinstance(part, ev.Gaussian)])

    @property
    def shift(self) -> float:
        """How far a unit moves each look at a round, from the middle between in and out."""
        return float(np.sqrt(np.square(1.0 / self.noise).sum() / len(self.noise)))

    @cached_property
    def carried(self) -> int:
        """How many runs have their sums by the protocol of the settings: the first ones."""
        runs = -(-len(self.coins) // self.room)
        return carried_runs(self.request.settings, self.request.silos, self.rounds, runs)

    def seen(self) -> FloatArray:
        """Make all runs; return what each look at each round shows of each unit."""
        seen = np.empty((self.rounds * len(self.noise), len(self.coins)))
        for run, first in enumerate(range(0, len(self.coins), self.room)):
            units = np.arange(first, min(first + self.room, len(self.coins)))
            seen[:, units] = self._run(run, units)
        return seen

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of the rehearsal."""
        runs = -(-len(self.coins) // self.room)
        notes = [f"{self.room} units at most in each of {counted(runs, 'run')}"]
        if self.carried < runs:
            notes.append(
                f"the sums of {counted(self.carried, 'run')} by the protocol, all others in the "
                "clear"
            )
        if self.apart and self.request.observer == PEER:
            notes.append("as is claimed, all other peers tell what they sent")
        return tuple(notes)

    def _run(self, run: int, units: IntArray) -> FloatArray:
        """Make one run with some of the units in it: (rounds x looks, n)."""
        settings, silos = self.request.settings, self.request.silos
        pulls, signs = np.ones(self.room), np.ones(self.room)
        pulls[: len(units)] = np.where(self.coins.into[units], 1.0, -1.0)
        signs[: len(units)] = self.coins.signs[units]
        self.training.pulls, self.training.signs = pulls, signs
        self.training.holders[: len(units)] = self.places[units]
        system = self.system
        system.residuals = Residuals()
        by: Aggregator = PlainAggregator()
        if run < self.carried:
            by = aggregator(settings.security, silos, fewest=system.schedule.smallest)
        system.aggregator = recorder = KeptSums(by)
        looks: list[FloatArray] = []

        def each(number: int, before: Parameters, after: Parameters) -> None:
            del before, after
            looks.append(self._look(number, recorder.kept)[:, : len(units)])
            recorder.kept.clear()

        simulate_rounds(system, self.request.streams(run), rounds=self.rounds, each=each)
        return np.concatenate(looks)

    def _look(
        self, number: int, sums: Sequence[tuple[dict[int, IntArray], IntArray]]
    ) -> FloatArray:
        """Return what a round shows of each canary, with its sign taken out: (looks, room)."""
        system, clip = self.system, self.training.clip
        sign, noise = self.training.towards(number), system.promise.noise_multiplier
        update = self._updates(system.sum_mechanism(noise, clip, number), *sums[-1])
        seen = [update * sign / (self.noise[-1] * clip)]
        if len(sums) > 1:
            # In one direction the canary is counted among the clipped, at -1/2.
            count = self._count(system.count_mechanism(noise, number), *sums[0])
            seen.insert(0, -count * sign / (self.noise[0] * clip_rules.COUNT_BOUND))
        # A round that a peer is known to miss is half way between in and out.
        there = np.isin(self.training.holders, system.members(number))
        return _alike(np.where(there, seen, 0.0), 1.0 / self.noise)

    def _updates(
        self, mechanism: Gaussian, sent: dict[int, IntArray], total: IntArray
    ) -> FloatArray:
        """Return what the observer sees of each canary in a sum of updates: (room,)."""
        if not self.apart:
            return self.training.along(mechanism.units(self._less_known(sent, total)))
        messages = np.zeros((self.request.silos, self.room))
        for peer, steps in sent.items():
            messages[peer] = self.training.along(mechanism.units(steps))
        # Each canary's own number, in the message of the peer that it lies in.
        return np.asarray(messages[self.training.holders, np.arange(self.room)])

    def _count(self, mechanism: Gaussian, sent: dict[int, IntArray], total: IntArray) -> FloatArray:
        """Return what the observer sees of the one canary in a count, less all others: (1,)."""
        holder = int(self.training.holders[0])
        if self.apart:
            return mechanism.units(sent.get(holder, np.zeros(1, np.int64)))
        # All others are without an update, so they are counted among the unclipped.
        others = len(set(sent).difference(range(int(self.holders[0])), [holder]))
        return mechanism.units(self._less_known(sent, total)) - others * clip_rules.COUNT_BOUND

    def _less_known(self, sent: dict[int, IntArray], total: IntArray) -> IntArray:
        """Return a sum less what the observer and its colluders sent."""
        known = [sent[index] for index in range(int(self.holders[0])) if index in sent]
        return np.asarray(total - np.sum(known, axis=0, dtype=np.int64) if known else total)


def _alike(seen: FloatArray, shifts: FloatArray) -> FloatArray:
    """Return one or two numbers of each unit (n, m), rotated until it moves them alike."""
    if len(seen) == 1:
        return seen
    first, second = shifts / np.sqrt(np.square(shifts).sum())
    along, across = first * seen[0] + second * seen[1], first * seen[1] - second * seen[0]
    return np.array([along + across, along - across]) / math.sqrt(2.0)


def room_of(settings: Settings, holders: int) -> int:
    """Return how many canaries lie in one run, of so many peers that may hold one."""
    if settings.of(DiscoSettings).clip == QUANTILE:
        return 1
    return RECORDS_IN_A_RUN if settings.privacy.unit == "record" else holders


def carried_runs(settings: Settings, silos: int, rounds: int, runs: int) -> int:
    """Return how many runs have their sums by the protocol of the settings: one at least."""
    each = rounds * PAIR_WORK * mask_pairs(settings, silos)
    return min(runs, max(1, MAX_PROTOCOL_WORK // each))
