"""The rounds of a log before each observer: what facts support, what is stated, and the plan.

The plan is compared with what was made of it as counts of the events that both are made of.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, TypeAlias

from ...accountant import events as ev
from ...accountant.composition import Composition
from ...accountant.errors import PrivplanError
from ...accountant.records import Block
from ...accountant.validate import LARGEST_COUNT
from ...fl.observers.names import SILO, SILO_WITH_RECORDS
from ..derivation.event_order import Verdict, compared, covers, weaker_of
from ..derivation.round_facts import RoundFacts
from ..derivation.run_setting import RunSetting
from ..derivation.sampling import is_sampled
from ..derivation.supported_event import supported
from ..ledger.entries import Ledger
from .doubts import Doubts
from .round_kinds import RoundKind, RoundsOfUnit, rounds_of_units

Counts: TypeAlias = dict[ev.Event, int]


@dataclass(frozen=True)
class PlanComparison:
    """The plan for one observer next to what the log states was made.

    `left` are planned events that were not made, `beyond` planned ones that were made too often,
    `foreign` made ones that the plan does not know.
    """

    left: Counts
    beyond: Counts
    foreign: Counts


def tally(rounds: Iterable[tuple[ev.Event, int]]) -> Counts:
    """Return the events that some events with counts are made of, and how often each is."""
    counts: Counts = {}
    for part in Composition.of(
        ev.Compose(tuple(ev.Repeat(count, event) for event, count in rounds))
    ):
        counts[part.event] = counts.get(part.event, 0) + part.count
    return counts


def compare_with_plan(intended: Counts, executed: Counts) -> PlanComparison:
    """Return what is left of intended counts, and what was made beyond; close events are equal."""
    left, beyond, foreign = dict(intended), dict[ev.Event, int](), dict[ev.Event, int]()
    for event, count in executed.items():
        same = event if event in left else nearly_equal_event(event, left)
        if same is None:
            foreign[event] = count
            continue
        # What was made beyond the plan stays apart: it is counted, and a hazard.
        taken = min(count, left[same])
        left[same] -= taken
        if count > taken:
            beyond[event] = count - taken
    return PlanComparison({event: count for event, count in left.items() if count}, beyond, foreign)


def together(comparisons: Iterable[PlanComparison]) -> PlanComparison:
    """Return what is left, beyond or foreign in any of some comparisons, with the largest counts.

    >>> one, other = PlanComparison({}, {ev.Gaussian(5.0): 1}, {}), PlanComparison({}, {}, {})
    >>> together([one, other]).beyond
    {Gaussian(noise_multiplier=5.0): 1}
    """
    left, beyond, foreign = dict[ev.Event, int](), dict[ev.Event, int](), dict[ev.Event, int]()
    for comparison in comparisons:
        for most, counts in (
            (left, comparison.left),
            (beyond, comparison.beyond),
            (foreign, comparison.foreign),
        ):
            for event, count in counts.items():
                most[event] = max(most.get(event, 0), count)
    return PlanComparison(left, beyond, foreign)


_MAX_EVENTS_COMPARED: Final = 64
"""Most planned events that are searched for one that is nearly equal."""


def nearly_equal_event(event: ev.Event, planned: Collection[ev.Event]) -> ev.Event | None:
    """Return an event that is the same but for rounding; None where there is none."""
    if len(planned) > _MAX_EVENTS_COMPARED:
        return None
    same = (
        candidate
        for candidate in planned
        if covers(candidate, event, 1e-9) and covers(event, candidate, 1e-9)
    )
    return next(same, None)


@dataclass(frozen=True)
class ObservedEvent:
    """One round of a kind before one observer: what the facts support, and what the log states.

    `event` is the weaker one, which is counted; `verdict` compares the stated event.
    """

    event: ev.Event
    supported: ev.Event
    stated: ev.Event | None
    verdict: Verdict


@dataclass(eq=False)
class Rounds:
    """The rounds of a log by their kinds, for the units and the relation of a setting."""

    ledger: Ledger
    setting: RunSetting
    doubts: Doubts
    kinds: tuple[RoundKind, ...]
    _seen: dict[tuple[int, str], ObservedEvent] = field(default_factory=dict, init=False)

    def seen(self, kind: RoundKind, observer: str) -> ObservedEvent:
        """Return one round of a kind as an observer sees it."""
        key = id(kind), observer
        if key not in self._seen:
            self._seen[key] = self._looked(kind, observer)
        return self._seen[key]

    def _looked(self, kind: RoundKind, observer: str) -> ObservedEvent:
        true = self._supported(kind, observer)
        stated = self.ungrouped(kind.stated.get(observer))
        if stated is None:
            return ObservedEvent(true, true, None, "same")
        if isinstance(stated, ev.NoGuarantee) and self.setting.as_published:
            return ObservedEvent(_with_reason(true, stated), true, stated, "weaker")
        # Earlier versions stated the weaker number of both kinds of silos; the facts tell them
        # apart.
        if observer == SILO and self._of_any_silo(kind) and compared(stated, true) == "weaker":
            return ObservedEvent(true, true, stated, "weaker")
        return ObservedEvent(
            weaker_of(stated, self._without_sample(kind, observer, stated, true)),
            true,
            stated,
            compared(stated, true),
        )

    def _without_sample(
        self, kind: RoundKind, observer: str, stated: ev.Event, true: ev.Event
    ) -> ev.Event:
        """Return what the facts support, without their sample where the stated event has none.

        Facts about a sample, with an event that counts on none, are not those of what was run:
        no sample is the weaker part of the one, and the noise may be that of the other.
        """
        if kind.facts.sampling.method == "none" or is_sampled(stated) or not is_sampled(true):
            return true
        return self._supported(kind, observer, sampled=False)

    def _supported(self, kind: RoundKind, observer: str, *, sampled: bool = True) -> ev.Event:
        """Return what the facts of a kind support; of a paid block, with those of all its rows."""
        facts = kind.facts
        rows = () if facts.covered or facts.block is None else self._rows.get(facts.block, ())
        return supported(facts, self.setting, observer, sampled=sampled, rows=rows)

    @cached_property
    def _rows(self) -> dict[Block, list[RoundFacts]]:
        """The facts of the rounds that the first one of each block is paid for."""
        rows: dict[Block, list[RoundFacts]] = {}
        for kind in self.kinds:
            if kind.facts.covered and kind.facts.block is not None:
                rows.setdefault(kind.facts.block, []).append(kind.facts)
        return rows

    def _of_any_silo(self, kind: RoundKind) -> bool:
        """Return whether what a round states for `silo` is for silos with records of the unit too.

        Earlier versions stated one number for both where weights are by records.
        """
        weighted = kind.facts.weights.rule == "records" and kind.facts.contribution.unit == "user"
        return weighted and SILO_WITH_RECORDS not in kind.stated

    def ungrouped(self, event: ev.Event | None) -> ev.Event | None:
        """Return a stated event for one record, where it is stated for the group of the promise."""
        claimed = self.ledger.opened.claim.group
        if isinstance(event, ev.Group) and event.size == claimed and claimed > 1:
            return event.event
        return event

    def grouped(self, event: ev.Event) -> ev.Event:
        size = self.setting.group
        if size == 1 or isinstance(event, ev.NoGuarantee):
            return event
        if not 1 < size <= LARGEST_COUNT:
            return ev.NoGuarantee(f"a unit of {size} records cannot be accounted")
        return ev.Group(size, event)

    # --- the plan ---------------------------------------------------------------------------------

    def unplanned_views(self, observer: str) -> tuple[int, ...]:
        """Return the lines of rounds that say nothing of an observer whom the plan knows."""
        if observer not in self.ledger.opened.plan.events:
            return ()
        silent = [kind for kind in self.kinds if observer not in kind.stated]
        return tuple(sorted(line for kind in silent for line in kind.lines))

    def missing(self, observer: str, event: ev.Event) -> bool:
        """Return whether an event that is said to hold all rounds holds fewer, or weaker ones.

        All rounds of one unit, where silos take part by a schedule.
        """
        whole = self.ungrouped(event)
        try:
            stated_total = tally([(whole, 1)]) if whole is not None else {}
            comparison = together(
                compare_with_plan(stated_total, self._stated(observer, unit))
                for unit in self.of_units
            )
        except PrivplanError:
            return False
        # A statement of no guarantee covers whatever was left out of it.
        if any(isinstance(part, ev.NoGuarantee) for part in stated_total):
            return False
        return bool(comparison.beyond or comparison.foreign)

    @cached_property
    def of_units(self) -> tuple[RoundsOfUnit, ...]:
        """The rounds by which units are touched, those of the worst silos; never empty."""
        return rounds_of_units(self.kinds, self.setting)

    @cached_property
    def of_units_to_come(self) -> tuple[RoundsOfUnit, ...]:
        """The rounds of every unit to which what is left of a plan may be added; never empty."""
        return rounds_of_units(self.kinds, self.setting, to_come=True)

    def _stated(self, observer: str, unit: RoundsOfUnit) -> Counts:
        """Return the events that the log states to an observer, of the rounds of one unit.

        A plan names a block once, so a covered round that states no guarantee is none of its own.
        """
        return tally(
            (event, count)
            for kind, count in zip(self.kinds, unit.counts, strict=True)
            if count
            and (event := self.ungrouped(kind.stated.get(observer))) is not None
            and not (kind.facts.covered and isinstance(event, ev.NoGuarantee))
        )

    def planned(self, observer: str, units: Iterable[RoundsOfUnit] | None = None) -> PlanComparison:
        """Return the plan for an observer next to what was made; both empty where it has none.

        `units` says of which unit; without it, of any.  Once all planned rounds are made, nothing
        is left for a silo that took part in fewer of them than the plan allows, but for releases
        that some of these rounds lack.
        """
        planned = self.ledger.opened.plan
        plan = self.ungrouped(planned.events.get(observer))
        if plan is None:
            return PlanComparison({}, {}, {})
        try:
            intended = tally([(plan, 1)])
            result = together(
                compare_with_plan(intended, self._stated(observer, unit))
                for unit in (self.of_units if units is None else units)
            )
        except PrivplanError as error:
            return PlanComparison(
                {ev.NoGuarantee(f"the plan has no number: {error.what}"): 1}, {}, {}
            )
        over = planned.counted is not None and self.ledger.rounds >= planned.rounds
        if not over or result.foreign:
            return result
        lacking = self._lacking(observer, intended)
        left = {event: min(count, lacking[event]) for event, count in result.left.items()}
        return replace(result, left={event: count for event, count in left.items() if count})

    def _lacking(self, observer: str, intended: Counts) -> Counts:
        """Return how often the planned events are missing from all rounds, whoever took part.

        A round may be cut off between two releases: `intended` are those of `counted` rounds.
        """
        planned = self.ledger.opened.plan
        of_all = RoundsOfUnit(tuple(len(kind.spent) for kind in self.kinds))
        rounds = Fraction(planned.rounds, planned.counted or planned.rounds)
        whole = {event: math.ceil(count * rounds) for event, count in intended.items()}
        left = compare_with_plan(whole, self._stated(observer, of_all)).left
        return {event: left.get(event, 0) for event in intended}

    def held(self, observer: str) -> dict[ev.Event, list[tuple[RoundKind, int]]]:
        """Return which kinds of rounds may stand for an event, and how often each states it."""
        held: dict[ev.Event, list[tuple[RoundKind, int]]] = {}
        for kind in self.kinds:
            stated = self.ungrouped(kind.stated.get(observer))
            try:
                parts = {} if stated is None else tally([(stated, 1)])
            except PrivplanError:
                continue
            if len(parts) > 1 and self.seen(kind, observer).verdict in ("same", "weaker"):
                continue  # a round is more than each of its events, which are known to hold
            for event, count in parts.items():
                held.setdefault(event, []).append((kind, count))
        return held


def _with_reason(true: ev.Event, stated: ev.NoGuarantee) -> ev.Event:
    """Return what facts support; where that is nothing, with the run's own reason behind theirs."""
    if not isinstance(true, ev.NoGuarantee):
        return true
    return ev.NoGuarantee(f"{true.reason}; {stated.reason}")
