"""The planned mode: releases fixed before the first one, made in order; tight, by PLD.

A round of which the plan says `Compose` may be made as several releases, one after the other in
that order: a noisy count, and then a noisy sum.  The first of them counts as the whole round, and
where a round is left unfinished (a run that was cut off goes on with the next one) what it lacks is
never made up: who sees less than the plan sees no more than the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from .. import events as ev
from ..account import account
from ..errors import BudgetExceeded, InvalidInput
from ..guarantee import Guarantee, Step
from .budget_reading import BudgetReading, Mode

_FIXED: Final = Step(
    "composition",
    "Planned mode: every release, its noise and their number were fixed before the first one, and "
    "only they are admitted, in their order.",
    "a run that stops early is a post-processing of the whole plan",
    ("each release is spent before it is made, with fresh randomness",),
)
_NOT_A_GUARANTEE: Final = (
    "A reading, not a guarantee: it holds where the run was always going to stop here. Where it "
    "stops because of its results, what is guaranteed is the whole plan's epsilon."
)


class ReleasePhase(Protocol):
    """One phase of a plan: the same release, so many times."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def event(self) -> ev.Event:
        """One round."""

    @property
    def rounds(self) -> int:
        """How many rounds."""


class ReleasePlan(Protocol):
    """What the odometer needs of a plan."""

    @property
    def phases(self) -> Sequence[ReleasePhase]:
        """The phases, in the order in which they are made."""

    @property
    def guarantees(self) -> Mapping[str, Guarantee]:
        """What the whole plan proves, by observer."""

    def seen_by(self, observer: str, rounds: Sequence[int] | None = None) -> ev.Event:
        """Return what an observer sees of the first so many rounds of each phase."""


class PlanLedger:
    """A plan, and how far it has been carried out."""

    mode: Mode = "planned"

    def __init__(self, plan: ReleasePlan) -> None:
        self.observers = tuple(plan.guarantees)
        self._plan = plan
        self._done = [0] * len(plan.phases)
        self._due: tuple[ev.Event, ...] = ()  # what the round under way has still to release

    def admits(
        self, event: ev.Event, observers: Sequence[str] | None, units: Sequence[str] | None
    ) -> bool:
        """Return whether `event` is what the plan has next."""
        return self._continues(event) or self._matched(event, observers, units) > 0

    def spend(
        self, event: ev.Event, observers: Sequence[str] | None, units: Sequence[str] | None
    ) -> None:
        """Count the next round, or several as a `Repeat`, or the next release of a round.

        Raises `BudgetExceeded` for anything else.
        """
        _refuse_choices(observers, units)
        if self._continues(event):
            self._due = self._due[1:]
            return
        rounds = self._matched(event, observers, units)
        if not rounds:
            raise self._refusal()
        place = self._place
        assert place is not None
        planned = self._plan.phases[place].event
        self._done[place] += rounds
        self._due = () if _is_whole(event, planned) else _parts(planned)[1:]

    def rounds(
        self, event: ev.Event, observers: Sequence[str] | None, units: Sequence[str] | None
    ) -> int:
        """Return how many of the next rounds of the plan are this event."""
        _refuse_choices(observers, units)
        place = self._place
        if place is None or event != self._plan.phases[place].event:
            return 0
        return self._left(place)

    def guarantee(self, observer: str | None) -> Guarantee:
        """Return what the whole plan proves."""
        proven = self._proven(observer)
        return replace(proven, derivation=(_FIXED, *proven.derivation))

    def reading(self, observer: str | None, unit: str | None) -> BudgetReading:
        """Return what the rounds that were made prove, were they all that was ever planned."""
        _refuse_choices(None, None if unit is None else [unit])
        proven = self._proven(observer)
        made = self._plan.seen_by(proven.observer, self._done)
        found = account(made, delta=proven.delta.upper, neighbours=proven.neighbours)
        share = sum(self._done) / sum(phase.rounds for phase in self._plan.phases)
        epsilon = min(found.epsilon.upper, proven.epsilon.upper)
        return BudgetReading(epsilon, proven.delta.upper, share, _NOT_A_GUARANTEE)

    @property
    def _place(self) -> int | None:
        """Where the next round stands; None after the last one."""
        places = range(len(self._done))
        return next((place for place in places if self._left(place) > 0), None)

    def _left(self, place: int) -> int:
        return self._plan.phases[place].rounds - self._done[place]

    def _continues(self, event: ev.Event) -> bool:
        """Return whether `event` is what the round under way has next."""
        return bool(self._due) and event == self._due[0]

    def _matched(
        self, event: ev.Event, observers: Sequence[str] | None, units: Sequence[str] | None
    ) -> int:
        """Return how many of the next rounds `event` is; 0 if it is not what comes next."""
        _refuse_choices(observers, units)
        place = self._place
        if place is None:
            return 0
        planned = self._plan.phases[place].event
        if event == planned:
            return 1
        if isinstance(event, ev.Repeat) and event.event == planned:
            return event.count if event.count <= self._left(place) else 0
        return int(_parts(planned)[:1] == (event,))

    def _proven(self, observer: str | None) -> Guarantee:
        if observer is not None:
            return self._plan.guarantees[observer]
        return max(self._plan.guarantees.values(), key=lambda one: one.epsilon.upper)

    def _refusal(self) -> BudgetExceeded:
        place = self._place
        if place is None:
            return BudgetExceeded(
                "The plan is carried out: no release is left.",
                "Its guarantee covers what was planned before the first release, and no more.",
                "Make a new plan, with a budget of its own.",
            )
        phase = self._plan.phases[place]
        return BudgetExceeded(
            "This release is not the next one of the plan.",
            f"Next: {self._left(place):,} x {phase.event}, of {phase.name!r}.",
            "Follow the plan; for releases that depend on results, use Odometer(epsilon, delta).",
        )


def _parts(planned: ev.Event) -> tuple[ev.Event, ...]:
    """Return the releases that a round may be made of; () where it is one."""
    return planned.events if isinstance(planned, ev.Compose) else ()


def _is_whole(event: ev.Event, planned: ev.Event) -> bool:
    """Return whether an event that matched is whole rounds, and not the first part of one."""
    return event == planned or (isinstance(event, ev.Repeat) and event.event == planned)


def _refuse_choices(observers: Sequence[str] | None, units: Sequence[str] | None) -> None:
    if observers is not None or units is not None:
        raise InvalidInput(
            "A plan has fixed who sees each release, and it counts every unit.",
            next_step="Leave `observers` and `units` out.",
        )
