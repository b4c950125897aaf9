"""The rehearsal of every system: how canaries enter, what is observed and what that scores.

    place     puts some units into a run, and returns the system that makes its rounds
    observe   what reaches the observer of a round
    score     one number of each of these units in each look, in units of the claimed noise

A system gives these three; runs, coins, silos, rounds and what is returned of them are said here.
Every run has a gate, an odometer and noise of its own, and the plan is certified once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.randomness import Streams
from ..frame.model import Parameters
from ..frame.system import System
from .federation import Coins, flip_coins
from .rehearsal_rounds import AfterRound, rounds_to_simulate, simulate_rounds
from .request import (
    REHEARSABLE_OBSERVERS,
    CanaryObservations,
    RehearsalRequest,
    refuse_real_users,
    require_observer,
)

if TYPE_CHECKING:
    from ...accountant import events as ev

Seen = TypeVar("Seen")
"""What reaches the observer of a round."""


class CanaryHarness(ABC, Generic[Seen]):
    """One rehearsal: a system's class says how units are placed, observed and scored.

    `system` has the plan and the opening of every run, `here` are the units of the run that is
    being made, `observers` can be rehearsed, and `alone` says why nobody trains beside the
    canaries; all else is as `CanaryObservations` says.
    """

    observers: ClassVar[tuple[str, ...]] = REHEARSABLE_OBSERVERS
    alone: ClassVar[str] = "Its carrier puts in canaries alone."
    partial: ClassVar[bool] = False
    system: System
    shift: float
    rate: float = 1.0
    looks: int = 1
    groups: IntArray | None = None
    event: ev.Event | None = None
    here: IntArray

    def __init__(self, request: RehearsalRequest) -> None:
        refuse_real_users(request, self.alone)
        self.request = request
        self.rng = request.rng()
        self.coins: Coins = flip_coins(request.canaries, self.rng)

    @abstractmethod
    def place(self, run: int, units: IntArray) -> System:
        """Put units (n,) into run number `run`, from 0; return the system that makes its rounds."""

    @abstractmethod
    def observe(self, number: int, before: Parameters, after: Parameters) -> Seen:
        """Return what reaches the observer of a round, with the models before and after it."""

    @abstractmethod
    def score(self, number: int, seen: Seen) -> FloatArray:
        """Return one number for each look and unit of the run: (looks, n), or (n,) for one look."""

    @cached_property
    def room(self) -> int:
        """How many units lie in one run, at most; usually all."""
        return len(self.coins)

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of the rehearsal, after its runs."""
        return ()

    @property
    def replaced(self) -> bool:
        """Whether a unit that is out has other data, and not none."""
        return self.request.settings.privacy.neighbours == "replace-one"

    @cached_property
    def rounds(self) -> int:
        """How many rounds are made."""
        return rounds_to_simulate(self.system.plan(), self.request.rounds)

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return -(-len(self.coins) // self.room)

    def simulated(self) -> CanaryObservations:
        """Make all runs; return what the observer sees of every unit.

        Raises as `require_observer`, and what the system raises.
        """
        plan = self.system.plan()
        require_observer(plan, self.request.observer, self.observers)
        seen = self.seen()
        return CanaryObservations(
            coins=self.coins.into,
            observations=seen,
            shift=self.shift,
            rate=self.rate,
            plan=plan,
            opening=self.system.opening(),
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

            self.make(self.place(run, self.here), run, each)
        return seen

    def make(self, system: System, run: int, each: AfterRound) -> None:
        """Make the rounds of a run, and call `each` after every one."""
        simulate_rounds(system, self.streams(run), rounds=self.request.rounds, each=each)

    def streams(self, run: int) -> Streams:
        """Return the protective randomness of a run."""
        return self.request.streams(run)


ObserveUnits: TypeAlias = "Callable[[Parameters, Parameters], FloatArray]"
"""From the models before and after a round to one observation of each unit: (m,)."""


@dataclass(frozen=True, eq=False)
class View:
    """What an observer sees of m units, as `CanaryObservations` describes it.

    `look` returns one number for each unit, in units of the claimed noise, with the sign that the
    unit has in the round (`Coins.sign`).  Where the observer knows the sample, `joined` returns
    which units took part in the last round, `rate` is 1, and a round that a unit missed is recorded
    as `missed`, half way between in and out.  Without `alternates` units keep their first sign.
    Where a look at a round shows what a unit did in an earlier one, `shown` returns that round, and
    its sign counts.
    """

    shift: float
    look: ObserveUnits
    rate: float = 1.0
    joined: Callable[[], BoolArray] | None = None
    missed: float = 0.0
    groups: IntArray | None = None
    note: tuple[str, ...] = ()
    alternates: bool = True
    shown: Callable[[int], int] = int


class _ViewedRun(CanaryHarness[FloatArray]):
    """All units in one run of a system, which has them already, as a view shows them."""

    def __init__(
        self, request: RehearsalRequest, system: System, coins: Coins, view: View, streams: Streams
    ) -> None:
        self.request, self.system, self.coins, self._view = request, system, coins, view
        self.shift, self.rate, self.groups = view.shift, view.rate, view.groups
        self._streams = streams

    def place(self, run: int, units: IntArray) -> System:  # noqa: ARG002
        return self.system

    def observe(self, number: int, before: Parameters, after: Parameters) -> FloatArray:  # noqa: ARG002
        return self._view.look(before, after)

    def score(self, number: int, seen: FloatArray) -> FloatArray:
        view = self._view
        # With the sign taken out, a unit that is in is seen at +shift in every round.
        row = seen * (self.coins.sign(view.shown(number)) if view.alternates else self.coins.signs)
        if view.joined is not None:  # a round that a unit is known to have missed tells nothing
            row = np.where(view.joined(), row, view.missed)
        return row

    def notes(self) -> tuple[str, ...]:
        return self._view.note

    def streams(self, run: int) -> Streams:  # noqa: ARG002
        return self._streams


def observe_rounds(
    request: RehearsalRequest, system: System, coins: Coins, view: View, streams: Streams
) -> CanaryObservations:
    """Make the rounds of a system, and return what the observer sees of the units.

    `streams` are those that the system was built with.  Raises as `require_observer`, and what the
    system raises.
    """
    return _ViewedRun(request, system, coins, view, streams).simulated()
