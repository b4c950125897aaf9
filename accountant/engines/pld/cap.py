"""What the cap of a truncated Poisson sample costs, and which cap costs nearly nothing.

Without a cap the sample is a Poisson sample.  A cap is said to cost nearly nothing where the upper
end with it is within `NEARLY` of the lower end of Poisson sampling; every cap that is named was
accounted for, so that `account` proves no more.  Several caps are raised together, each by the
same number of standard deviations of its sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ... import events as ev
from ... import rounding
from ...amplification.truncation import Cut
from ...composition import Leaf, leaves, rewritten
from ...errors import PrivplanError
from ...guarantee import Bounds, Neighbours
from ...rootfinding import Bracket, narrow
from .engine import PldEngine
from .questions import FLOOR

NEARLY: Final = 0.01
"""What a cap may add without being spoken of, as a share."""

WIDE: Final = 1.1
"""Ends that are farther apart than by this factor are spoken of."""

BEYOND_DOUBT: Final = 1e-4
"""Where a unit is seldom in a full sample, as a share of delta, the cap is not looked into."""

USEFUL: Final = 20.0
"""Epsilon beyond which another cap would not help anybody, and none is looked for."""

ATTEMPTS: Final = 5
"""Most caps that are accounted for on the way to one."""

ROUGHLY: Final = 1e-3
"""Accuracy of what is accounted for on the way: a wider grid, whose upper end is no smaller."""

FAR: Final = (5.0, 12.0)
"""Standard deviations above the mean at which the search may start; beyond, no cap is named."""

STEPS: Final = 20.0
"""Into how many steps a standard deviation is cut, where it is more units than that."""


def said_of_cap(
    event: ev.Event,
    neighbours: Neighbours,
    bounds: Bounds,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
) -> tuple[str, ...]:
    """Return what to say of the caps of an event's samples, nothing where they cost nearly nothing.

    `bounds` answer the question, `delta` or `epsilon`, about the event.
    """
    parts = leaves(event)
    caps = [leaf.event for leaf in parts if isinstance(leaf.event, ev.TruncatedPoisson)]
    caps = [cap for cap in caps if cap.rate > 0.0 and cap.batch < cap.population]
    floor = BEYOND_DOUBT * (delta if delta is not None else bounds.lower)
    if not caps or _in_full_samples(parts) <= floor or (delta is None and epsilon is None):
        return ()

    poisson = _answer(leaves(rewritten(event, _uncut)), neighbours, delta, epsilon)
    if poisson is None or bounds.upper <= (1.0 + NEARLY) * poisson.upper:
        return ()
    if bounds.lower == 0.0:
        # Perhaps by another engine, whose own looseness is not the cap's.
        capped = _answer(parts, neighbours, delta, epsilon)
        bounds = capped if capped is not None and capped.upper < bounds.upper else bounds
        if bounds.upper <= (1.0 + NEARLY) * poisson.upper:
            return ()
    name = "epsilon" if delta is not None else "delta"
    several = len(caps) > 1
    text = (
        f"The cap{'s' if several else ''} of {_listed(caps)} units on the sample size "
        f"let{'' if several else 's'} {name} rise from {rounding.up(poisson.upper)}, that "
        f"of Poisson sampling by the pld engine, to {rounding.up(bounds.upper)}: in a full "
        "sample a unit takes the place of another one, and shows more."
    )
    if bounds.upper > WIDE * bounds.lower > 0.0:
        text += f" At least {rounding.down(bounds.lower)} is real; whether more is, is not known."
    at = delta if delta is not None else poisson.upper
    useful = FLOOR <= at < 1.0 and (delta is None or bounds.upper <= USEFUL)
    harmless = _harmless(event, caps, neighbours, at) if useful else None
    if harmless is not None:
        text += (
            f" {'Caps' if several else 'A cap'} of {_listed(harmless)} would keep epsilon at "
            f"delta {at:.4g} within 1 % of Poisson sampling."
        )
    return (text,)


def _listed(caps: Sequence[ev.TruncatedPoisson]) -> str:
    return " and ".join(f"{cap.batch:,}" for cap in caps)


def _answer(
    parts: Sequence[Leaf],
    neighbours: Neighbours,
    delta: float | None,
    epsilon: float | None,
    accuracy: float | None = None,
) -> Bounds | None:
    engine = PldEngine() if accuracy is None else PldEngine(accuracy)
    try:
        if delta is not None:
            return engine.epsilon(parts, delta, neighbours).bounds
        assert epsilon is not None
        return engine.delta(parts, epsilon, neighbours).bounds
    except PrivplanError:
        return None


def _in_full_samples(parts: tuple[Leaf, ...]) -> float:
    """Return a bound on the probability that a unit is ever in a full sample, or kept out of it."""
    total = 0.0
    for leaf in parts:
        event = leaf.event
        if isinstance(event, ev.TruncatedPoisson) and event.batch < event.population:
            full = Cut.of(event.population, event.rate, event.batch).full if event.rate else 0.0
            total += leaf.count * event.rate * full
    return total


def _uncut(event: ev.Event) -> ev.Event:
    if not isinstance(event, ev.TruncatedPoisson):
        return event
    return ev.Poisson(event.rate, event.event)


def _harmless(
    event: ev.Event, caps: Sequence[ev.TruncatedPoisson], neighbours: Neighbours, delta: float
) -> list[ev.TruncatedPoisson] | None:
    """Return the caps, about the smallest, with which epsilon is within `NEARLY` of Poisson's.

    None where none was found.
    """
    widest = max(_deviation(cap) for cap in caps)
    poisson = _answer(leaves(rewritten(event, _uncut)), neighbours, delta, None)
    if poisson is None or poisson.lower <= 0.0:
        return None
    least = poisson.lower

    def raised(units: float) -> dict[ev.TruncatedPoisson, ev.TruncatedPoisson]:
        return {cap: _raised(cap, math.ceil(units) * _deviation(cap) / widest) for cap in caps}

    def felt(units: float) -> float:
        """Return a number above 0 where caps so many units higher still cost more than `NEARLY`."""
        new = raised(units)

        def with_caps(each: ev.Event) -> ev.Event:
            return new.get(each, each) if isinstance(each, ev.TruncatedPoisson) else each

        # Nothing is asked of the lower end.
        parts = [replace(leaf, attained=False) for leaf in leaves(rewritten(event, with_caps))]
        found = _answer(parts, neighbours, delta, None, ROUGHLY)
        if found is None:
            return math.inf
        return math.log(max(found.upper / least - 1.0, 0.1 * NEARLY)) - math.log(NEARLY)

    short = max(_short(cap) for cap in caps)
    for far in FAR:
        high = float(math.ceil(short + far * widest))
        if (at_high := felt(high)) <= 0.0:
            around = Bracket(0.0, felt(0.0), high, at_high)
            step = max(1.0, math.floor(widest / STEPS))
            found = narrow(felt, around, absolute=step, steps=ATTEMPTS)
            return list(raised(found.high).values())
    return None


def _deviation(cap: ev.TruncatedPoisson) -> float:
    """Return the standard deviation of the sample, at least 1."""
    return max(math.sqrt(cap.population * cap.rate * (1.0 - cap.rate)), 1.0)


def _short(cap: ev.TruncatedPoisson) -> float:
    """Return by how much a cap lies below the mean of the sample."""
    return max(cap.population * cap.rate - cap.batch, 0.0)


def _raised(cap: ev.TruncatedPoisson, units: float) -> ev.TruncatedPoisson:
    return replace(cap, batch=min(cap.batch + math.ceil(units), cap.population))
