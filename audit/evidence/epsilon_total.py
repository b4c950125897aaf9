"""From what was spent to one number: composition, and two engines that must not contradict.

**Very many different events** are rounded to fewer that can be composed.  Less noise and a higher
rate protect less.  For an upper end noise is rounded down and rates up, for a lower end the other
way; both ends then hold for the events as they were.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.account import engine_named, tightest
from ...accountant.composition import Composition, Leaf
from ...accountant.engine_order import engines_for
from ...accountant.engines.base import Answer
from ...accountant.errors import EnginesDisagree, PrivplanError, Unsupported
from ...accountant.event_tree import events_inside
from ...accountant.guarantee import Bounds, Neighbours
from ...accountant.schedules import kind

MAX_EVENT_KINDS: Final = 32
"""Most different events that are composed as they are; more are rounded to fewer."""

MAX_FAST_GAUSSIAN_SUMS: Final = 1_200
"""So many different sums with Gaussian noise are composed as they are, and quickly: more are
rounded if `FINEST_CLASS_WIDTH` steps make them so few."""

MAX_GAUSSIAN_SUMS: Final = 8_000
"""Most different sums with Gaussian noise that are composed as they are at all."""

FINEST_CLASS_WIDTH: Final = 1.0001
"""Width of classes that hardly cost anything."""

CLASS_WIDTHS: Final = (1.001, 1.003, 1.01, 1.03, 1.1, 1.3, 2.0, 10.0, math.inf)
"""Widths of the classes into which noise and rates are rounded where they must be, by turns."""

MAX_DIFFERENT_EVENTS: Final = 2_000
"""Most different events beyond which no number is given, where they cannot be rounded."""

_GAUSSIAN_SUM_KINDS: Final = {("gaussian",), ("poisson", "gaussian")}
"""Kinds of events that are sums with Gaussian noise."""


def rounded_leaves(parts: Composition, *, weaker: bool) -> tuple[Composition, bool]:
    """Return leaves that can be composed, and whether they were rounded to that end.

    They protect no more than the given ones if `weaker`, and no less if not.  Raises `Unsupported`
    for thousands of events that cannot be rounded.
    """
    if _all_gaussian(parts) or _few(parts, MAX_FAST_GAUSSIAN_SUMS):
        return parts, False
    classes = _Classes.of(parts, weaker)
    # Widths rise until the classes are few; `weaker` rounds so that the bound keeps its side.
    fine = classes.merged(parts, FINEST_CLASS_WIDTH)
    if _few(fine, MAX_FAST_GAUSSIAN_SUMS):
        return fine, True
    if _few(parts, MAX_GAUSSIAN_SUMS):
        return parts, False
    coarse = parts
    for step in CLASS_WIDTHS:
        coarse = classes.merged(parts, step)
        if _few(coarse, MAX_FAST_GAUSSIAN_SUMS):
            break
    if len(coarse) > MAX_DIFFERENT_EVENTS:
        raise Unsupported(
            f"The log holds {len(coarse):,} different events that cannot be rounded to fewer."
        )
    return coarse, True


def _few(parts: Composition, most: int) -> bool:
    """Return whether there are at most so many sums, and few other events."""
    sums = sum(kind(part.event) in _GAUSSIAN_SUM_KINDS for part in parts)
    return sums <= most and len(parts) - sums <= MAX_EVENT_KINDS


def _all_gaussian(parts: Composition) -> bool:
    """Return whether the closed form takes the leaves, however many they are."""
    return all(isinstance(part.event, ev.Gaussian) for part in parts)


@dataclass(frozen=True)
class _Classes:
    """Classes of noise multipliers and sampling rates, in geometric steps from the ends of all."""

    least: float
    most: float
    weaker: bool

    @classmethod
    def of(cls, parts: Composition, weaker: bool) -> _Classes:
        """Return classes that begin at the least noise and at the highest rate."""
        least, most = math.inf, 0.0
        for part in parts:
            for event in events_inside(part.event):
                least = min(least, getattr(event, "noise_multiplier", math.inf))
                most = max(most, event.rate if isinstance(event, ev.Poisson) else 0.0)
        return cls(least, most, weaker)

    def merged(self, parts: Composition, step: float) -> Composition:
        """Return the leaves with rounded events, equal ones as one."""
        counts: dict[tuple[ev.Event, bool, ev.Group | None], int] = {}
        for part in parts:
            key = self._rounded(part.event, step), part.fully_observed, part.chain
            counts[key] = counts.get(key, 0) + part.count
        return Composition(
            Leaf(event, count, attained, chain=chain)
            for (event, attained, chain), count in counts.items()
        )

    def _rounded(self, event: ev.Event, step: float) -> ev.Event:
        match event:
            case ev.Gaussian(noise):
                return ev.Gaussian(self._noise(noise, step))
            case ev.Laplace(noise):
                return ev.Laplace(self._noise(noise, step))
            case ev.Poisson(rate, inner):
                return ev.Poisson(self._rate(rate, step), self._rounded(inner, step))
            case ev.Group() | ev.FixedSize():
                return replace(event, event=self._rounded(event.event, step))
        return event

    def _noise(self, value: float, step: float) -> float:
        """Return the next of least, least x step, ... below a noise (above it if not `weaker`)."""
        if math.isinf(step):
            return self.least if self.weaker else value
        # Class k holds noise in [least step^k, least step^(k+1)); min and max undo the rounding of
        # logarithm and power on the unsafe side.
        steps = math.floor(math.log(value / self.least) / math.log(step))
        if self.weaker:
            return min(self.least * step**steps, value)
        return max(self.least * step ** (steps + 1), value)

    def _rate(self, rate: float, step: float) -> float:
        """Return the next of most, most / step, ... above a rate (below it if not `weaker`)."""
        if rate == 0.0:
            return rate
        if math.isinf(step):
            return self.most if self.weaker else rate
        # Class k holds rates in (most / step^(k+1), most / step^k], rounded up for an upper end.
        steps = math.floor(math.log(self.most / rate) / math.log(step))
        if self.weaker:
            return max(self.most / step**steps, rate)
        return min(self.most / step ** (steps + 1), rate)


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
        parts, rounded = rounded_leaves(Composition.of(_composed(counts)), weaker=True)
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
def _answered(parts: Composition, delta: float, neighbours: Neighbours) -> tuple[Answer, str]:
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
        parts, _ = rounded_leaves(Composition.of(_composed(dict(counts))), weaker=False)
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
