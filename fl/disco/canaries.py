"""Canaries for DISCO's peers: peers, or records of them, whose clipped rows are +C or -C.

Who takes part is public, so a unit is exchanged.  One that is in pulls along a direction of its own
and one that is out the other way; all signs alternate by round.  With z the noise multiplier that
is claimed before the observer, what it sees in that direction is, in units of the noise z C,

    x_t  ~  N(+-1 / z, 1)        whatever the clip C of the round is

A row is ten clips long, of whatever round: a clip that moves never leaves the canary behind.  Where
tensors are clipped apart it has an equal part in each of two.

| observer | what is looked at | where canaries lie |
|---|---|---|
| model; coordinator | the sum of all peers | every peer |
| peer, shared noise | the sum less what it and its colluders sent | all but these |
| peer, local noise | each message, as if all others told it | all but the peer |
| coordinator, in the clear | each message | every peer |

**How many.**  A peer's update is clipped as one, so a run has one canary in each peer; of records
there are some hundreds.

**A quantile as the clip** is a second release in a round, of one number to which all peers add.
There is one canary in a run, which moves both: in one direction its update is ten clips long, in
the other just as long as the clip, and so counted among the unclipped.  What count and update show
of it is rotated into two numbers that it moves alike (`looks`): their sum is all that it shows
where the noise is right, and where that of the count is not, one of them by itself shows more.

**Sums.**  Peers send integers with their noise in them, whose sum is the same by whatever protocol.
A protocol costs a key agreement for each pair of peers: it carries the sums of the first runs, as
many as fit into half a minute and one at least; those of all others are added in the clear.

**What is not found.**  That an observer gets more than is claimed: what reaches whom stands in the
log, and is judged there.  Little noise of one peer that hides among that of others, and a clip that
follows the data together with its noise: the residual tier looks at every share.
"""

from __future__ import annotations

import math
from functools import cached_property
from types import SimpleNamespace
from typing import Final, TypeAlias

import numpy as np

from ...accountant import events as ev
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import Unsupported, counted
from ...accountant.mechanisms import Gate, Gaussian
from ..aggregation.choice import aggregator
from ..aggregation.residuals import Residuals
from ..aggregation.sums import Aggregator, PlainAggregator
from ..canaries import (
    CANARY_NORM_IN_CLIPS,
    OBSERVER_SILO,
    CanaryHarness,
    CanaryObservations,
    MakeRounds,
    RecordingAggregator,
    RehearsalRequest,
    canary_federation,
    equal_shifts,
    mask_pairs,
    require_observer,
)
from ..data.federation import Indices
from ..frame.model import Parameters, Round
from ..frame.setup import setup
from ..frame.state import Arrays, State
from ..observers.names import COORDINATOR, MODEL, PEER
from ..settings.schema import Settings
from ..training.local_training import NoTraining, Rows
from . import clip_rules
from .settings import FIXED, LOCAL, QUANTILE, DiscoSettings
from .system import CLIP, Disco, schedule_of

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


_SUM_WORK: Final = 4_000
_SHARE_WORK: Final = 800
_TABLE_WORK: Final = 30_000
"""What a sum costs besides its protocol and its rows, in steps of half a microsecond: as such, for
each share of noise, and where the clip moves, for the tables that noise of another width needs."""


KeptSum: TypeAlias = "tuple[dict[int, IntArray], IntArray]"
"""What was sent to a sum by each peer, and what arrived."""


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of peers, or of records, that pull one way or the other.

    Raises `Unsupported` for noise as published, which claims nothing that canaries could test, and
    for other observers; `InvalidInput` for one that the plan does not know, and where real users
    are to be with the canaries.
    """
    return DiscoCanaries(request).simulated()


def work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of a round of all runs: gate, rows, and the protocol of some of them."""
    table = settings.of(DiscoSettings)
    # The observer is not known here: a peer and its colluders, where they watch, hold no canary.
    room = room_of(settings, max(1, silos - 1 - settings.security.colluders))
    runs = -(-canaries // room)
    rows = room**2 if settings.privacy.unit == "record" else room * silos
    each = _SUM_WORK + _SHARE_WORK * silos + rows
    if table.clip != FIXED:
        each += _TABLE_WORK
    protocol = 0
    if settings.security.aggregation != "plain":
        carried = carried_runs(settings, silos, settings.run.rounds, runs)
        protocol = carried * PAIR_WORK * silos**2
    return (2 if table.clip == QUANTILE else 1) * (runs * each + protocol)


def room_of(settings: Settings, holders: int) -> int:
    """Return how many canaries lie in one run, of so many peers that may hold one."""
    if settings.of(DiscoSettings).clip == QUANTILE:
        return 1
    return RECORDS_IN_A_RUN if settings.privacy.unit == "record" else holders


def carried_runs(settings: Settings, silos: int, rounds: int, runs: int) -> int:
    """Return how many runs have their sums by the protocol of the settings: one at least."""
    each = rounds * PAIR_WORK * mask_pairs(settings, silos)
    return min(runs, max(1, MAX_PROTOCOL_WORK // each))


_JUST_UNCLIPPED: Final = 1.0 - 1e-12
"""The norm of a row that counts as unclipped, in clips."""


class CanaryTraining(NoTraining):
    """A `LocalTraining` in which canary j moves its own column of every tensor, and nothing else.

    `holders` (n,) says in which peer each canary lies.  `pulls` (n,) are +1 or -1, set before each
    run; `clip` that of the round, before each round.  With `short` a row that pulls against its
    column is just unclipped.
    """

    def __init__(self, holders: IntArray, *, silos: int, tensors: int, short: bool) -> None:
        self.holders, self._silos, self._tensors, self._short = holders, silos, tensors, short
        self.pulls, self.signs = np.ones(len(holders)), np.ones(len(holders))
        self.clip = 1.0
        self.model = SimpleNamespace(
            parts={f"tensor-{index}": (len(holders),) for index in range(tensors)}
        )

    def initial(self) -> Parameters:
        return np.zeros(len(self.holders) * self._tensors)

    def towards(self, number: int) -> FloatArray:
        """Return the public direction of each canary in round `number`: (n,), +1 or -1."""
        return self.signs if number % 2 == 0 else -self.signs

    def along(self, values: FloatArray) -> FloatArray:
        """Return how far a vector (D,) lies in the direction of each canary: (n,)."""
        return np.asarray(values.reshape(self._tensors, -1).sum(axis=0) / math.sqrt(self._tensors))

    def silo_deltas(self, parameters: Parameters, number: int) -> Rows:
        rows = np.zeros((self._silos, len(self.holders) * self._tensors))
        rows[self.holders] = self._rows(number)
        return rows

    def record_gradients(self, models: Rows, chosen: Indices, step: int) -> Rows:
        return -self._rows(step)[chosen]

    def _rows(self, number: int) -> Rows:
        """Return the row of each canary, equally long in all tensors: (n, D)."""
        moved = self.pulls * self.towards(number)
        lengths = np.full(len(moved), CANARY_NORM_IN_CLIPS)
        if self._short:
            lengths[moved < 0.0] = _JUST_UNCLIPPED
        scaled = self.clip * lengths * moved / math.sqrt(self._tensors)
        return np.tile(np.diag(scaled), self._tensors)


class RehearsedDisco(Disco):
    """The system, which tells the training the clip of the round."""

    training: CanaryTraining

    @cached_property
    def state(self) -> State:
        return super().state

    def round(
        self, number: int, parameters: Parameters, gate: Gate, state: Arrays | None = None
    ) -> Round:
        last = self.initial_state() if state is None else state
        self.training.clip = float(last[CLIP][0]) if CLIP in last else self.setup.training.clip
        return super().round(number, parameters, gate, state)


class DiscoCanaries(CanaryHarness[list[KeptSum]]):
    """Peers, or records of them, in runs of DISCO, and the sums that are seen of them."""

    observers = OBSERVERS
    alone = "Their updates would take the place of canaries."

    def __init__(self, request: RehearsalRequest) -> None:
        super().__init__(request)
        if request.settings.as_published:
            raise Unsupported(
                "DISCO's noise as published is not rehearsed with canaries.",
                "Its width follows from norms of private updates, and it promises nothing.",
                "See `privplan audit demo` for what its radius and its shares give away.",
            )
        self.table = request.settings.of(DiscoSettings)
        plain = request.settings.security.aggregation == "plain"
        seen_apart = {PEER: self.table.noise == LOCAL, COORDINATOR: plain}
        self.apart = seen_apart.get(request.observer, False)
        """Whether the observer sees each message by itself."""
        known = 0 if request.observer != PEER else 1
        if known and not self.apart:
            known += request.settings.security.colluders
        self.holders = np.arange(OBSERVER_SILO + known, request.silos)
        """The peers in which canaries lie, whose messages the observer does not know."""
        units = np.arange(request.canaries)
        if request.settings.privacy.unit == "record":
            units %= self.room  # the records of every run are the same
        self.places = self.holders[units % len(self.holders)]
        """The peer of each canary: (m,)."""

    @cached_property
    def room(self) -> int:
        return room_of(self.request.settings, len(self.holders))

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
    def noise(self) -> FloatArray:
        """The noise that is claimed before the observer, in bounds, of each release of a round."""
        event = self.system.views(self.system.promise.noise_multiplier)[self.request.observer]
        parts = event.events if isinstance(event, ev.Compose) else (event,)
        return np.array([part.noise_multiplier for part in parts if isinstance(part, ev.Gaussian)])

    @cached_property
    def groups(self) -> IntArray | None:
        return self.places if self.apart else None

    @cached_property
    def looks(self) -> int:
        return len(self.noise)

    @cached_property
    def shift(self) -> float:
        return float(np.sqrt(np.square(1.0 / self.noise).sum() / self.looks))

    @cached_property
    def carried(self) -> int:
        """How many runs have their sums by the protocol of the settings: the first ones."""
        return carried_runs(self.request.settings, self.request.silos, self.rounds, self.runs)

    def notes(self) -> tuple[str, ...]:
        notes = [f"{self.room} units at most in each of {counted(self.runs, 'run')}"]
        if self.carried < self.runs:
            notes.append(
                f"the sums of {counted(self.carried, 'run')} by the protocol, all others in the "
                "clear"
            )
        if self.apart and self.request.observer == PEER:
            notes.append("as is claimed, all other peers tell what they sent")
        return tuple(notes)

    def place(self, run: int, units: IntArray) -> MakeRounds:
        settings, silos, system = self.request.settings, self.request.silos, self.system
        pulls, signs = np.ones(self.room), np.ones(self.room)
        pulls[: len(units)] = np.where(self.coins.into[units], 1.0, -1.0)
        signs[: len(units)] = self.coins.signs[units]
        self.training.pulls, self.training.signs = pulls, signs
        self.training.holders[: len(units)] = self.places[units]
        system.residuals = Residuals()
        by: Aggregator = PlainAggregator()
        if run < self.carried:
            by = aggregator(settings.security, silos, fewest=system.schedule.smallest)
        system.aggregator = self.recorder = RecordingAggregator(by, keep=self.looks)
        return self.rounds_of(system, self.request.streams(run))

    def observe(self, number: int, before: Parameters, after: Parameters) -> list[KeptSum]:
        kept = list(self.recorder.kept)
        self.recorder.kept.clear()
        return kept

    def score(self, number: int, seen: list[KeptSum]) -> FloatArray:
        system, clip = self.system, self.training.clip
        sign, noise = self.training.towards(number), system.promise.noise_multiplier
        update = self._updates(system.sum_mechanism(noise, clip, number), *seen[-1])
        looks = [update * sign / (self.noise[-1] * clip)]
        if len(seen) > 1:
            # In one direction the canary is counted among the clipped, at -1/2.
            count = self._count(system.count_mechanism(noise, number), *seen[0])
            looks.insert(0, -count * sign / (self.noise[0] * clip_rules.COUNT_BOUND))
        # A round that a peer is known to miss is half way between in and out.
        there = np.isin(self.training.holders, system.members(number))
        alike = equal_shifts(1.0 / self.noise) @ np.where(there, looks, 0.0)
        return np.asarray(alike[:, : len(self.here)])

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
