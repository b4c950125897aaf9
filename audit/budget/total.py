"""From what was spent to one number: composition, and two engines that must not contradict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.account import engine_named, tightest
from ...accountant.composition import Leaf, leaves
from ...accountant.engines.base import Answer
from ...accountant.errors import EnginesDisagree, PrivplanError, Unsupported
from ...accountant.guarantee import Bounds, Neighbours
from ...accountant.preferences import engines_for
from ...accountant.schedules import kind

MOST_KINDS: Final = 32
"""Most different events that are composed as they are; more are rounded to fewer, weaker ones."""

MOST_SUMS: Final = 8_000
"""The same for sums with Gaussian noise, which are composed together."""

STEPS: Final = (1.001, 1.003, 1.01, 1.03, 1.1, 1.3, 2.0, 10.0, math.inf)
"""Widths of the classes into which noise and rates are rounded, by turns."""

VAST: Final = 10_000.0
"""Epsilon beyond which nobody asks for a second digit, and tight engines take their time."""

_SUMS: Final = {("gaussian",), ("poisson", "gaussian")}
"""Kinds of events that are sums with Gaussian noise."""

MOST_LEAVES: Final = 2_000
"""Most different events beyond which no number is given, where they cannot be rounded."""


@dataclass(frozen=True)
class Total:
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


def nothing(reason: str) -> Total:
    """Return the total of what supports no guarantee."""
    return Total(Bounds(0.0, math.inf), "none", reason)


def total(
    counts: Mapping[ev.Event, int],
    *,
    delta: float,
    neighbours: Neighbours,
    lower: Mapping[ev.Event, int] | None = None,
) -> Total:
    """Return bounds on epsilon for events with counts; `lower` are some that data attain.

    The upper end is infinite, with the reason, where an event has no guarantee or no engine
    understands it, and where two engines contradict each other.
    """
    reason = next((text for event in counts if (text := _refusal(event))), "")
    if reason:
        return nothing(reason)
    try:
        at = validate.open_probability(delta=delta)
        parts, rounded = _manageable(leaves(_composed(counts)))
        if not parts:
            return Total(Bounds.exactly(0.0), "none")
        answer, engine = _answered(parts, at, neighbours)
    except EnginesDisagree as error:
        return replace(nothing(str(error)), contradiction=True)
    except PrivplanError as error:
        return nothing(" ".join(part for part in (error.what, error.why) if part))
    upper = answer.bounds.upper
    if upper > VAST:
        below = 0.0
    elif lower == counts and not rounded:
        below = answer.bounds.lower
    else:
        below = _from_below(lower or {}, delta, neighbours)
    checks = tuple(step.statement for step in answer.steps if step.stage == "cross-check")
    return Total(Bounds(min(below, upper), upper), engine, "", checks, rounded)


def _answered(parts: tuple[Leaf, ...], delta: float, neighbours: Neighbours) -> tuple[Answer, str]:
    """Return the tightest answer of all engines that understand the leaves, and its engine.

    Raises `EnginesDisagree`, and `Unsupported` where none does.  The rdp engine is asked first,
    and alone where its number is vast already.
    """

    def ask(name: str) -> Answer:
        return engine_named(name).epsilon(parts, delta, neighbours)

    return tightest(
        sorted(engines_for(parts), key=lambda name: name != "rdp"),
        ask,
        enough=lambda name, answer: name == "rdp" and VAST < answer.bounds.upper < math.inf,
    )


def _composed(counts: Mapping[ev.Event, int]) -> ev.Event:
    return ev.Compose(tuple(ev.Repeat(count, event) for event, count in counts.items()))


def _from_below(counts: Mapping[ev.Event, int], delta: float, neighbours: Neighbours) -> float:
    if not counts:
        return 0.0
    try:
        parts = leaves(_composed(counts))
        if not _few(parts):
            return 0.0
        return _answered(parts, delta, neighbours)[0].bounds.lower
    except PrivplanError:
        return 0.0


def _refusal(event: ev.Event) -> str:
    """Return why an event has no guarantee; an empty text where it may have one."""
    waiting: list[ev.Event] = [event]
    while waiting:
        own = waiting.pop()
        if isinstance(own, ev.NoGuarantee):
            return own.reason
        waiting += getattr(own, "events", ())
        inner = getattr(own, "event", None)
        if isinstance(inner, ev.Event):
            waiting.append(inner)
    return ""


# --- fewer events -------------------------------------------------------------------------------


def _manageable(parts: tuple[Leaf, ...]) -> tuple[tuple[Leaf, ...], bool]:
    """Return the leaves as they are if they are few, or else weaker ones that are.

    Less noise and a higher rate protect less, so noise is rounded down and rates up.
    """
    if _few(parts):
        return parts, False
    least, most = _ends(parts)
    coarse = parts
    for step in STEPS:
        coarse = _merged(_coarser(part, step, least, most) for part in parts)
        if _few(coarse):
            break
    if len(coarse) > MOST_LEAVES:
        raise Unsupported(
            f"The log holds {len(coarse):,} different events that cannot be rounded to fewer."
        )
    return coarse, True


def _few(parts: Sequence[Leaf]) -> bool:
    """Return whether leaves can be composed as they are; the closed form takes any number."""
    sums = sum(kind(part.event) in _SUMS for part in parts)
    return _all_gaussian(parts) or (sums <= MOST_SUMS and len(parts) - sums <= MOST_KINDS)


def _merged(parts: Iterable[Leaf]) -> tuple[Leaf, ...]:
    counts: dict[ev.Event, int] = {}
    for part in parts:
        counts[part.event] = counts.get(part.event, 0) + part.count
    return tuple(Leaf(event, count) for event, count in counts.items())


def _all_gaussian(parts: Iterable[Leaf]) -> bool:
    return all(isinstance(part.event, ev.Gaussian) for part in parts)


def _ends(parts: Iterable[Leaf]) -> tuple[float, float]:
    """Return the least noise and the highest rate of all."""
    least, most = math.inf, 0.0
    for part in parts:
        event: ev.Event | None = part.event
        while event is not None:
            least = min(least, getattr(event, "noise_multiplier", math.inf))
            most = max(most, event.rate if isinstance(event, ev.Poisson) else 0.0)
            event = getattr(event, "event", None)
    return least, most


def _coarser(part: Leaf, step: float, least: float, most: float) -> Leaf:
    return replace(part, event=_rounded(part.event, step, least, most))


def _rounded(event: ev.Event, step: float, least: float, most: float) -> ev.Event:
    match event:
        case ev.Gaussian(noise):
            return ev.Gaussian(_floor(noise, step, least))
        case ev.Laplace(noise):
            return ev.Laplace(_floor(noise, step, least))
        case ev.Poisson(rate, inner):
            return ev.Poisson(_ceiling(rate, step, most), _rounded(inner, step, least, most))
        case ev.Group(size, inner):
            return ev.Group(size, _rounded(inner, step, least, most))
        case ev.FixedSize(batch, population, inner):
            return ev.FixedSize(batch, population, _rounded(inner, step, least, most))
    return event


def _floor(value: float, step: float, least: float) -> float:
    """Return the largest of least, least x step, least x step^2, ... at or below a value."""
    if math.isinf(step) or value <= least:
        return least
    place = math.floor(math.log(value / least) / math.log(step))
    return min(least * step**place, value)


def _ceiling(rate: float, step: float, most: float) -> float:
    """Return the smallest of most, most / step, most / step^2, ... at or above a rate."""
    if math.isinf(step) or not 0.0 < rate < most:
        return most
    place = math.floor(math.log(most / rate) / math.log(step))
    return max(most / step**place, rate)
