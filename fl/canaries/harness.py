"""The rehearsal of every system: how canaries enter, what is observed and what that scores.

    place     puts some units into a run, and returns what makes its rounds
    observe   what reaches the observer of a round
    score     one number of each of these units in each look, in units of the claimed noise

A system gives these three; runs, coins, rounds and what is returned of them are said here.  Rounds
are made in memory, every run has a gate, an odometer and noise of its own, and the plan is
certified once.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np

from ...accountant import events as ev
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import Unsupported
from ...accountant.mechanisms import Gate
from ...accountant.odometer import Odometer
from ...accountant.plan import Plan, PlannedPhase
from ...accountant.randomness import Streams
from ..frame import phases
from ..frame.model import Parameters
from ..frame.opening import OpeningStatement
from ..frame.phases import rounds_by_phase
from ..frame.rounds import simulated_rounds
from ..frame.system import System
from .federation import Coins, flip_coins
from .memory_log import MemoryLog
from .request import (
    REHEARSABLE_OBSERVERS,
    CanaryObservations,
    RehearsalRequest,
    refuse_real_users,
    require_observer,
)

AfterRound: TypeAlias = "Callable[[int, Parameters, Parameters], None]"
"""Called after a release with its round, the model before it and the model after it."""


def simulate_rounds(
    system: System, streams: Streams, *, rounds: int | None = None, each: AfterRound
) -> MemoryLog:
    """Make the planned rounds of a system, or the first `rounds`, and return their log.

    Gate, odometer and the order of intents and releases are those of a run; the log is in memory.
    `each` is called after every release.  Raises what the system raises.
    """
    _require_models_only(system)
    plan, opening, log = system.plan(), system.opening(), MemoryLog()
    # Without a claim there is no budget that an odometer could refuse by.
    promises = not opening.as_published and opening.claim.epsilon is not None
    odometer = Odometer.for_plan(plan) if promises else None
    gate = Gate(odometer, log, streams, unpromised=opening.as_published)
    with np.errstate(all="ignore"):
        for number, model, moved in simulated_rounds(system, gate, most=rounds):
            each(number, model, moved.parameters)
    return log


def _require_models_only(system: System) -> None:
    """Raise `Unsupported` for a system with a phase that releases something else than models."""
    others = [phase.name for phase in system.phases if phase.once is not None]
    if others:
        raise Unsupported(
            f"The phase {others[0]!r} of {system.name} is not rehearsed with canaries.",
            "What is seen of a canary is how it moves a model, and this phase releases none.",
            "Rehearse the system without it: its carrier says with which settings.",
        )


def rounds_to_simulate(plan: Plan, rounds: int | None = None) -> int:
    """Return the number of rounds: those planned, or `rounds` if that is fewer."""
    planned = sum(phase.rounds for phase in plan.phases)
    return planned if rounds is None else min(rounds, planned)


def by_phase(plan: Plan, rounds: int) -> list[int]:
    """Return how many events of each phase the first `rounds` rounds of a plan are paid with.

    One for each round, or for each block of rounds that they began: it is paid whole.
    """
    counts = zip(plan.phases, rounds_by_phase(plan.phases, rounds), strict=True)
    return [
        count if phase.blocks is None else -(-count * phase.blocks // phase.rounds)
        for phase, count in counts
    ]


def training_phase(plan: Plan) -> PlannedPhase:
    """Return the phase of a plan in which canaries take part: that of the models."""
    return phases.training_phase(plan.phases)


def training_noise(plan: Plan) -> float:
    """Return the noise multiplier of that phase, which has one wherever something is promised."""
    noise = training_phase(plan).noise_multiplier
    assert noise is not None
    return noise


Seen = TypeVar("Seen")
"""What reaches the observer of a round."""


MakeRounds: TypeAlias = "Callable[[AfterRound], object]"
"""Makes the rounds of a run, and calls what it is given after every one."""


class CanaryHarness(ABC, Generic[Seen]):
    """One rehearsal: a system's class says how units are placed, observed and scored.

    `here` are the units of the run that is being made, `observers` can be rehearsed, and `alone`
    says why nobody trains with the canaries; all else is as `CanaryObservations` says.
    """

    observers: tuple[str, ...] = REHEARSABLE_OBSERVERS
    alone: str = "Its carrier puts in canaries alone."
    partial: bool = False
    rate: float = 1.0
    here: IntArray

    def __init__(self, request: RehearsalRequest) -> None:
        refuse_real_users(request, self.alone)
        self.request = request
        self.rng = request.rng()
        self.coins: Coins = flip_coins(request.canaries, self.rng)

    @abstractmethod
    def place(self, run: int, units: IntArray) -> MakeRounds:
        """Put units (n,) into run number `run`, from 0; return what makes its rounds."""

    @abstractmethod
    def observe(self, number: int, before: Parameters, after: Parameters) -> Seen:
        """Return what reaches the observer of a round, with the models before and after it."""

    @abstractmethod
    def score(self, number: int, seen: Seen) -> FloatArray:
        """Return one number for each look and unit of the run: (looks, n), or (n,) for one look."""

    @cached_property
    def system(self) -> System:
        """The system whose plan and opening are those of every run."""
        raise NotImplementedError

    @cached_property
    def shift(self) -> float:
        """How far a unit moves each look, in units of noise: from 0, or from the middle."""
        raise NotImplementedError

    @cached_property
    def room(self) -> int:
        """How many units lie in one run, at most; usually all."""
        return len(self.coins)

    @cached_property
    def looks(self) -> int:
        """How many numbers of a round are looked at for each unit."""
        return 1

    @cached_property
    def groups(self) -> IntArray | None:
        """The silo of each unit, where it has noise of its own."""
        return None

    @cached_property
    def event(self) -> ev.Event | None:
        """What is claimed of the rounds, where that is not the plan's own view of the observer."""
        return None

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of the rehearsal, after its runs."""
        return ()

    @property
    def replaced(self) -> bool:
        """Whether a unit that is out has other data, and not none."""
        return self.request.settings.privacy.neighbours == "replace-one"

    @cached_property
    def stated(self) -> tuple[Plan, OpeningStatement]:
        """The plan and the opening of the system, which are those of every run."""
        return self.system.plan(), self.system.opening()

    @cached_property
    def rounds(self) -> int:
        """How many rounds are made."""
        return rounds_to_simulate(self.stated[0], self.request.rounds)

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return -(-len(self.coins) // self.room)

    def simulated(self) -> CanaryObservations:
        """Make all runs; return what the observer sees of every unit.

        Raises as `require_observer`, and what the system raises.
        """
        plan, opening = self.stated
        require_observer(plan, self.request.observer, self.observers)
        seen = self.seen()
        return CanaryObservations(
            coins=self.coins.into,
            observations=seen,
            shift=self.shift,
            rate=self.rate,
            plan=plan,
            opening=opening,
            rounds=self.rounds,
            groups=self.groups,
            note=self.notes(),
            event=self.event,
            looks=self.looks,
            rehearsable=self.observers,
            partial=self.partial,
        )

    def seen(self) -> FloatArray:
        """Make all runs; return what each look at each round shows: (rounds x looks, m)."""
        seen: FloatArray = np.empty((self.rounds * self.looks, len(self.coins)))
        for run, first in enumerate(range(0, len(self.coins), self.room)):
            columns = slice(first, min(first + self.room, len(self.coins)))
            self.here = np.arange(columns.start, columns.stop)

            def each(
                number: int,
                before: Parameters,
                after: Parameters,
                shown: FloatArray = seen[:, columns],
            ) -> None:
                rows = slice((number - 1) * self.looks, number * self.looks)
                shown[rows] = self.score(number, self.observe(number, before, after))

            self.place(run, self.here)(each)
        return seen

    def rounds_of(self, system: System, streams: Streams) -> MakeRounds:
        """Return what makes the rounds of a system with these streams."""
        return lambda each: simulate_rounds(system, streams, rounds=self.request.rounds, each=each)


_ROUNDING: Final = 1e-9
"""A distance of a point from a line that is smaller is rounding."""


def equal_shifts(distances: FloatArray) -> FloatArray:
    """Return a rotation (n, n) after which all n of a pair's distances are the same.

    Householder's reflection of distances / |distances| to (1, ..., 1) / sqrt(n).  The sum of what
    is rotated is sqrt(n) times its projection on the pair: nothing of what parts show is lost.

    >>> import numpy as np
    >>> np.round(equal_shifts(np.array([3.0, 4.0])) @ np.array([3.0, 4.0]), 6).tolist()
    [3.535534, 3.535534]
    """
    count = len(distances)
    across = distances / np.sqrt(np.square(distances).sum()) - math.sqrt(1.0 / count)
    square = float(np.square(across).sum())
    if square < _ROUNDING**2:
        return np.eye(count)
    return np.asarray(np.eye(count) - 2.0 / square * np.outer(across, across))


ObserveUnits: TypeAlias = "Callable[[Parameters, Parameters], FloatArray]"
"""From the models before and after a round to one observation of each unit: (m,)."""


@dataclass(frozen=True, eq=False)
class View:
    """What an observer sees of m units, as `CanaryObservations` describes it.

    `look` returns one number for each unit, in units of the claimed noise, with the sign that the
    unit has in the round (`Coins.sign`).  Where the observer knows the sample, `joined` returns
    which units took part in the last round, `rate` is 1, and a round that a unit missed is recorded
    as `missed`; None: half way between in and out.  Without `alternates` units keep their first
    sign.  Where a look at a round shows what a unit did in an earlier one, `shown` returns that
    round, and its sign counts.
    """

    shift: float
    look: ObserveUnits
    rate: float = 1.0
    joined: Callable[[], BoolArray] | None = None
    missed: float | None = None
    groups: IntArray | None = None
    note: tuple[str, ...] = ()
    alternates: bool = True
    shown: Callable[[int], int] = int


class _ViewedRun(CanaryHarness[FloatArray]):
    """All units in one run of a system, which has them already, as a view shows them."""

    system: System
    shift: float
    groups: IntArray | None

    def __init__(
        self, request: RehearsalRequest, system: System, coins: Coins, view: View, streams: Streams
    ) -> None:
        self.request, self.system, self.coins, self._view = request, system, coins, view
        self.shift, self.rate, self.groups = view.shift, view.rate, view.groups
        self._streams = streams

    def place(self, run: int, units: IntArray) -> MakeRounds:
        return self.rounds_of(self.system, self._streams)

    def observe(self, number: int, before: Parameters, after: Parameters) -> FloatArray:
        return self._view.look(before, after)

    def score(self, number: int, seen: FloatArray) -> FloatArray:
        view = self._view
        # With the sign taken out, a unit that is in is seen at +shift in every round.
        row = seen * (self.coins.sign(view.shown(number)) if view.alternates else self.coins.signs)
        if view.joined is not None:  # a round that a unit is known to have missed tells nothing
            middle = 0.0 if self.replaced else view.shift / 2.0
            row = np.where(view.joined(), row, middle if view.missed is None else view.missed)
        return row

    def notes(self) -> tuple[str, ...]:
        return self._view.note


def observe_rounds(
    request: RehearsalRequest, system: System, coins: Coins, view: View, streams: Streams
) -> CanaryObservations:
    """Make the rounds of a system, and return what the observer sees of the units.

    `streams` are those that the system was built with.  Raises as `require_observer`, and what the
    system raises.
    """
    return _ViewedRun(request, system, coins, view, streams).simulated()
