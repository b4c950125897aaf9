"""The planned mode: releases fixed before the first one, made in order; tight, by PLD.

A round of which the plan says `Compose` may be made as several releases, one after the other in
that order: a noisy count, and then a noisy sum.  The first of them counts as the whole round, and
where a round is left unfinished (a run that was cut off goes on with the next one) what it lacks is
never made up: who sees less than the plan sees no more than the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from .. import events as ev
from ..account import account
from ..errors import BudgetExceeded, InvalidInput
from ..guarantee import Guarantee, Step
from .budget_currencies import BudgetReading, Mode


class SiloRounds:
    """Counts rounds by silo; those in which all silos take part are counted once for all."""

    def __init__(self) -> None:
        self._all = 0
        self._some: Counter[int] = Counter()

    def add(self, rounds: int, silos: Iterable[int] | None) -> None:
        """Count rounds in which these silos take part; None: all."""
        if silos is None:
            self._all += rounds
            return
        self._some.update(dict.fromkeys(silos, rounds))

    def most(self, silos: Iterable[int] | None = None) -> int:
        """Return the most rounds of any of these silos (None: of all), 0 before the first."""
        of = self._some if silos is None else silos
        return self._all + max((self._some[silo] for silo in of), default=0)


_PLAN_STEP: Final = Step(
    "composition",
    "Planned mode: every release, its noise and their number were fixed before the first one, and "
    "only they are admitted, in their order.",
    "a run that stops early is a post-processing of the whole plan",
    ("each release is spent before it is made, with fresh randomness",),
)
_PLANNED_NOTE: Final = (
    "A reading, not a guarantee: it holds where the run was always going to stop here. Where it "
    "stops because of its results, what is guaranteed is the whole plan's epsilon."
)


class ReleasePhase(Protocol):
    """One phase of a plan: the same event, so many times."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def event(self) -> ev.Event:
        """One round, or one block of rounds."""

    @property
    def events(self) -> int:
        """How many rounds, or blocks of rounds that are paid together."""

    @property
    def counted(self) -> int | None:
        """How many of them are of one unit at most; None: all."""


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
        self._remaining: tuple[ev.Event, ...] = ()  # what the round under way has still to release
        self._silos: tuple[int, ...] | None = None  # and of which silos it is
        self._by_silo = tuple(SiloRounds() for _ in plan.phases)

    def admits(
        self,
        event: ev.Event,
        observers: Sequence[str] | None,
        units: Sequence[str] | None,
        silos: Sequence[int] | None = None,
    ) -> bool:
        """Return whether `event` is what the plan has next, and leaves no silo beyond it."""
        if self._continues(event):
            return _is_within(silos, self._silos)
        rounds = self._matched(event, observers, units)
        return rounds > 0 and self._exceeding(rounds, silos) is None

    def spend(
        self,
        event: ev.Event,
        observers: Sequence[str] | None,
        units: Sequence[str] | None,
        silos: Sequence[int] | None = None,
    ) -> None:
        """Count the next round, or several as a `Repeat`, or the next release of a round.

        `silos` are those that take part; None: all.  Raises `BudgetExceeded` for anything else, and
        where one of them would take part in more rounds than are of one unit.
        """
        _refuse_choices(observers, units)
        if self._continues(event):
            if not _is_within(silos, self._silos):
                raise _other_silos()
            self._remaining = self._remaining[1:]
            return
        rounds = self._matched(event, observers, units)
        if not rounds:
            raise self._refusal()
        refusal = self._exceeding(rounds, silos)
        if refusal is not None:
            raise refusal
        phase_index = self._next_phase
        assert phase_index is not None
        planned = self._plan.phases[phase_index].event
        # The first release of a round counts as the whole round; the rest of it may follow.
        self._done[phase_index] += rounds
        self._by_silo[phase_index].add(rounds, silos)
        self._silos = None if silos is None else tuple(silos)
        self._remaining = () if _is_whole(event, planned) else _releases(planned)[1:]

    def rounds(
        self, event: ev.Event, observers: Sequence[str] | None, units: Sequence[str] | None
    ) -> int:
        """Return how many of the next rounds of the plan are this event."""
        _refuse_choices(observers, units)
        phase_index = self._next_phase
        if phase_index is None or event != self._plan.phases[phase_index].event:
            return 0
        counted = self._plan.phases[phase_index].counted
        left = self._rounds_left(phase_index)
        # Of rounds in which all silos take part: the busiest of them has the fewest left.
        return left if counted is None else min(left, counted - self._by_silo[phase_index].most())

    def guarantee(self, observer: str | None) -> Guarantee:
        """Return what the whole plan proves."""
        whole = self._whole_plan(observer)
        return replace(whole, derivation=(_PLAN_STEP, *whole.derivation))

    def reading(self, observer: str | None, unit: str | None) -> BudgetReading:
        """Return what the rounds that were made prove, were they all that was ever planned."""
        _refuse_choices(None, None if unit is None else [unit])
        whole = self._whole_plan(observer)
        # Of the busiest silo of each phase: no silo has paid for more than that.
        counted = [
            done if phase.counted is None else by_silo.most()
            for done, phase, by_silo in zip(
                self._done, self._plan.phases, self._by_silo, strict=True
            )
        ]
        released = self._plan.seen_by(whole.observer, counted)
        so_far = account(released, delta=whole.delta.upper, neighbours=whole.neighbours)
        # Stopped here by plan, it would have proven this; never more than the whole plan.
        share = sum(self._done) / sum(phase.events for phase in self._plan.phases)
        epsilon = min(so_far.epsilon.upper, whole.epsilon.upper)
        return BudgetReading(epsilon, whole.delta.upper, share, _PLANNED_NOTE)

    @property
    def _next_phase(self) -> int | None:
        """Where the next round stands; None after the last one."""
        indices = range(len(self._done))
        return next(
            (phase_index for phase_index in indices if self._rounds_left(phase_index) > 0), None
        )

    def _rounds_left(self, phase_index: int) -> int:
        return self._plan.phases[phase_index].events - self._done[phase_index]

    def _continues(self, event: ev.Event) -> bool:
        """Return whether `event` is what the round under way has next."""
        return bool(self._remaining) and event == self._remaining[0]

    def _matched(
        self, event: ev.Event, observers: Sequence[str] | None, units: Sequence[str] | None
    ) -> int:
        """Return how many of the next rounds `event` is; 0 if it is not what comes next."""
        _refuse_choices(observers, units)
        phase_index = self._next_phase
        if phase_index is None:
            return 0
        planned = self._plan.phases[phase_index].event
        if event == planned:
            return 1
        if isinstance(event, ev.Repeat) and event.event == planned:
            return event.count if event.count <= self._rounds_left(phase_index) else 0
        return int(_releases(planned)[:1] == (event,))

    def _exceeding(self, rounds: int, silos: Sequence[int] | None) -> BudgetExceeded | None:
        """Return why the silos cannot take part in so many rounds more; None where they can."""
        phase_index = self._next_phase
        assert phase_index is not None
        phase, by_silo = self._plan.phases[phase_index], self._by_silo[phase_index]
        if phase.counted is None or by_silo.most(silos) + rounds <= phase.counted:
            return None
        return BudgetExceeded(
            f"A silo would take part in more than {phase.counted:,} rounds of {phase.name!r}.",
            "The plan's guarantee is for a silo that takes part in so many, and no more.",
            "Keep to the schedule, or plan with a larger `counted`.",
        )

    def _whole_plan(self, observer: str | None) -> Guarantee:
        if observer is not None:
            return self._plan.guarantees[observer]
        return max(self._plan.guarantees.values(), key=lambda guarantee: guarantee.epsilon.upper)

    def _refusal(self) -> BudgetExceeded:
        phase_index = self._next_phase
        if phase_index is None:
            return BudgetExceeded(
                "The plan is carried out: no release is left.",
                "Its guarantee covers what was planned before the first release, and no more.",
                "Make a new plan, with a budget of its own.",
            )
        phase = self._plan.phases[phase_index]
        return BudgetExceeded(
            "This release is not the next one of the plan.",
            f"Next: {self._rounds_left(phase_index):,} x {phase.event}, of {phase.name!r}.",
            "Follow the plan; for releases that depend on results, use Odometer(epsilon, delta).",
        )


def _is_within(silos: Sequence[int] | None, of_round: Sequence[int] | None) -> bool:
    """Return whether a further release of a round is of no other silos than its first one."""
    return of_round is None or (silos is not None and set(silos) <= set(of_round))


def _other_silos() -> BudgetExceeded:
    return BudgetExceeded(
        "This release is of other silos than the round that it belongs to.",
        "The round was counted for the silos of its first release.",
        "State the same silos for every release of a round.",
    )


def _releases(planned: ev.Event) -> tuple[ev.Event, ...]:
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
