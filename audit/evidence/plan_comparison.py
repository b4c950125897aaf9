"""A plan beside what was made of it, as counts of the events that both are made of."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ...accountant import events as ev
from ...accountant.composition import leaves
from ..derivation.event_order import covers

Counts: TypeAlias = dict[ev.Event, int]


@dataclass(frozen=True)
class PlanComparison:
    """The plan for one observer beside what the log states was made.

    `left` are planned events that were not made, `beyond` planned ones that were made too often,
    `foreign` made ones that the plan does not know.
    """

    left: Counts
    beyond: Counts
    foreign: Counts


def tally(rounds: Iterable[tuple[ev.Event, int]]) -> Counts:
    """Return the events that some events with counts are made of, and how often each is."""
    counts: Counts = {}
    for part in leaves(ev.Compose(tuple(ev.Repeat(count, event) for event, count in rounds))):
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
