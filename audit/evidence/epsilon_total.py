"""From what was spent to one number: composition, and two engines that must not contradict."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.account import engine_named, tightest
from ...accountant.composition import Leaf, leaves
from ...accountant.engine_order import engines_for
from ...accountant.engines.base import Answer
from ...accountant.errors import EnginesDisagree, PrivplanError
from ...accountant.guarantee import Bounds, Neighbours
from .event_rounding import rounded_leaves

VAST_EPSILON: Final = 10_000.0
"""Epsilon beyond which nobody asks for a second digit."""

MAX_KINDS_AT_VAST_EPSILON: Final = 8
"""Kinds of events that a tight engine composes at once, however large epsilon is."""


@dataclass(frozen=True)
class EpsilonTotal:
    """What some events come to: bounds on epsilon, by what, and why there is no number if none.

    `checks` says how a second engine agrees; `rounded` that different events were counted as equal
    weaker ones; `contradiction` that two engines exclude each other.
    """

    epsilon: Bounds
    engine: str
    refusal: str = ""
    checks: tuple[str, ...] = ()
    rounded: bool = False
    contradiction: bool = False

    @property
    def upper(self) -> float:
        """The guarantee."""
        return self.epsilon.upper


def no_guarantee_total(reason: str) -> EpsilonTotal:
    """Return the total of what supports no guarantee."""
    return EpsilonTotal(Bounds(0.0, math.inf), "none", reason)


def worst_total(totals: Sequence[EpsilonTotal]) -> EpsilonTotal:
    """Return the largest of some totals, each of which is of some unit, with every lower end."""
    largest = max(totals, key=lambda each: each.upper)
    below = max(each.epsilon.lower for each in totals)
    return replace(largest, epsilon=Bounds(min(below, largest.upper), largest.upper))


def total(
    counts: Mapping[ev.Event, int],
    *,
    delta: float,
    neighbours: Neighbours,
    lower: Mapping[ev.Event, int] | None = None,
) -> EpsilonTotal:
    """Return bounds on epsilon for events with counts; `lower` are some that data attain.

    The upper end is infinite, with the reason, where an event has no guarantee or no engine
    understands it, and where two engines contradict each other.
    """
    reason = next((text for event in counts if (text := _refusal(event))), "")
    if reason:
        return no_guarantee_total(reason)
    try:
        at = validate.open_probability(delta=delta)
        parts, rounded = rounded_leaves(leaves(_composed(counts)), weaker=True)
        if not parts:
            return EpsilonTotal(Bounds.exactly(0.0), "none")
        answer, engine = _answered(parts, at, neighbours)
    except EnginesDisagree as error:
        return replace(no_guarantee_total(str(error)), contradiction=True)
    except PrivplanError as error:
        return no_guarantee_total(" ".join(part for part in (error.what, error.why) if part))
    upper = answer.bounds.upper
    # The lower end is worth its time only where a number can be read from it.
    if upper > VAST_EPSILON or not lower:
        below = 0.0
    # The same events, attained: the engine's own lower end holds.
    elif lower == counts and not rounded:
        below = answer.bounds.lower
    else:
        below = _from_below(tuple(lower.items()), at, neighbours)
    checks = tuple(step.statement for step in answer.steps if step.stage == "cross-check")
    return EpsilonTotal(Bounds(min(below, upper), upper), engine, "", checks, rounded)


@lru_cache(maxsize=64)
def _answered(parts: tuple[Leaf, ...], delta: float, neighbours: Neighbours) -> tuple[Answer, str]:
    """Return the tightest answer of all engines that understand the leaves, and its engine.

    Raises `EnginesDisagree`, and `Unsupported` where none does.  The rdp engine is asked first,
    and alone where its number is vast already and there are more than `MAX_KINDS_AT_VAST_EPSILON`
    kinds of events. An honest run has fewer, and states what the tightest engine proves, however
    vast.  Observers, the plan and the rounds of a log often ask the same.
    """

    def ask(name: str) -> Answer:
        return engine_named(name).epsilon(parts, delta, neighbours)

    def enough(name: str, answer: Answer) -> bool:
        return (
            len(parts) > MAX_KINDS_AT_VAST_EPSILON
            and name == "rdp"
            and VAST_EPSILON < answer.bounds.upper < math.inf
        )

    return tightest(sorted(engines_for(parts), key=lambda name: name != "rdp"), ask, enough)


def _composed(counts: Mapping[ev.Event, int]) -> ev.Event:
    return ev.Compose(tuple(ev.Repeat(count, event) for event, count in counts.items()))


@lru_cache(maxsize=8)
def _from_below(
    counts: tuple[tuple[ev.Event, int], ...], delta: float, neighbours: Neighbours
) -> float:
    """Return a lower end for events that data attain; several observers share what they attain.

    They are composed in their order, so that a number has the same last digit in every process.
    """
    try:
        parts, _ = rounded_leaves(leaves(_composed(dict(counts))), weaker=False)
        return _answered(parts, delta, neighbours)[0].bounds.lower
    except PrivplanError:
        return 0.0


def _refusal(event: ev.Event) -> str:
    """Return why an event has no guarantee; an empty text where it may have one."""
    waiting: list[ev.Event] = [event]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ev.NoGuarantee):
            return part.reason
        waiting += getattr(part, "events", ())
        inner = getattr(part, "event", None)
        if isinstance(inner, ev.Event):
            waiting.append(inner)
    return ""
