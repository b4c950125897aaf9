"""The cost of the cap of a truncated Poisson sample, and the smallest harmless cap.

Without a cap the sample is a Poisson sample.  A cap is said to cost nearly nothing where the
upper end with it is within `HARMLESS_CAP_EXCESS` of the lower end of Poisson sampling; every
cap that is named was accounted for, so that `account` proves no more.  Several caps are raised
together, each by the same number of standard deviations of its sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from .... import events as ev
from .... import rounding
from ....amplification.truncation import Cut
from ....composition import Composition
from ....errors import PrivplanError
from ....event_tree import rewritten
from ....guarantee import Bounds, Neighbours
from ....rootfinding import Bracket, narrow
from ..compose.questions import MIN_CERTIFIED_DELTA
from .engine import PldEngine

HARMLESS_CAP_EXCESS: Final = 0.01
"""What a cap may add without being spoken of, as a share."""

WIDE_INTERVAL_RATIO: Final = 1.1
"""Ends that are farther apart than by this factor are spoken of."""

NEGLIGIBLE_FULL_SAMPLE_SHARE: Final = 1e-4
"""Where a unit is seldom in a full sample, as a share of delta, the cap is not looked into."""

MAX_EPSILON_FOR_CAP_ADVICE: Final = 20.0
"""Epsilon beyond which another cap would not help anybody, and none is looked for."""

MAX_CAPS_RAISED: Final = 4
"""Most different caps for which others are looked for: each that is tried costs as much again."""

MAX_CAPS_TRIED: Final = 5
"""Most caps that are accounted for on the way to one."""

COARSE_ACCURACY: Final = 1e-3
"""Accuracy of what is accounted for on the way: a wider grid, whose upper end is no smaller."""

SEARCH_DEVIATIONS: Final = (5.0, 12.0)
"""Standard deviations above the mean at which the search may start; beyond, no cap is named."""

CAP_STEPS_PER_DEVIATION: Final = 20.0
"""Into how many steps a standard deviation is cut, where it is more units than that."""


def cap_warnings(
    event: ev.Event,
    composition: Composition,
    neighbours: Neighbours,
    bounds: Bounds,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
) -> tuple[str, ...]:
    """Return a warning where the caps of an event's samples cost more than `HARMLESS_CAP_EXCESS`.

    `bounds` answer the question, `delta` or `epsilon`, about the event.
    """
    caps = [leaf.event for leaf in composition if isinstance(leaf.event, ev.TruncatedPoisson)]
    caps = [cap for cap in caps if cap.rate > 0.0 and cap.batch < cap.population]
    floor = NEGLIGIBLE_FULL_SAMPLE_SHARE * (delta if delta is not None else bounds.lower)
    if not caps or _full_sample_bound(composition) <= floor or (delta is None and epsilon is None):
        return ()

    poisson = bounds_or_none(
        Composition.of(rewritten(event, _as_poisson)), neighbours, delta, epsilon
    )
    if poisson is None or bounds.upper <= (1.0 + HARMLESS_CAP_EXCESS) * poisson.upper:
        return ()
    if bounds.lower == 0.0:
        # Perhaps by another engine, whose own looseness is not the cap's.
        capped = bounds_or_none(composition, neighbours, delta, epsilon)
        bounds = capped if capped is not None and capped.upper < bounds.upper else bounds
        if bounds.upper <= (1.0 + HARMLESS_CAP_EXCESS) * poisson.upper:
            return ()
    name = "epsilon" if delta is not None else "delta"
    several = len(caps) > 1
    text = (
        f"The cap{'s' if several else ''} of {_batch_sizes(caps)} units on the sample size "
        f"let{'' if several else 's'} {name} rise from {rounding.up(poisson.upper)}, that "
        f"of Poisson sampling by the pld engine, to {rounding.up(bounds.upper)}: in a full "
        "sample a unit takes the place of another one, and shows more."
    )
    if bounds.upper > WIDE_INTERVAL_RATIO * bounds.lower > 0.0:
        text += f" At least {rounding.down(bounds.lower)} is real; whether more is, is not known."
    at = delta if delta is not None else poisson.upper
    few = len(caps) <= MAX_CAPS_RAISED
    useful = (
        few
        and MIN_CERTIFIED_DELTA <= at < 1.0
        and (delta is None or bounds.upper <= MAX_EPSILON_FOR_CAP_ADVICE)
    )
    harmless_caps = _harmless_caps(event, caps, neighbours, at) if useful else None
    if harmless_caps is not None:
        text += (
            f" {'Caps' if several else 'A cap'} of {_batch_sizes(harmless_caps)} would keep "
            f"epsilon at delta {at:.4g} within 1 % of Poisson sampling."
        )
    return (text,)


def _batch_sizes(caps: Sequence[ev.TruncatedPoisson]) -> str:
    return " and ".join(f"{cap.batch:,}" for cap in caps)


def bounds_or_none(
    composition: Composition,
    neighbours: Neighbours,
    delta: float | None,
    epsilon: float | None,
    accuracy: float | None = None,
) -> Bounds | None:
    """Return the engine's bounds on epsilon at `delta`, or delta at `epsilon`, if it has any."""
    engine = PldEngine() if accuracy is None else PldEngine(accuracy)
    try:
        if delta is not None:
            return engine.epsilon(composition, delta, neighbours).bounds
        assert epsilon is not None
        return engine.delta(composition, epsilon, neighbours).bounds
    except PrivplanError:
        return None


def _full_sample_bound(parts: Composition) -> float:
    """Return a bound on the probability that a unit is ever in a full sample, or kept out of it."""
    total = 0.0
    for leaf in parts:
        event = leaf.event
        if isinstance(event, ev.TruncatedPoisson) and event.batch < event.population:
            full = Cut.of(event.population, event.rate, event.batch).full if event.rate else 0.0
            total += leaf.count * event.rate * full
    return total


def _as_poisson(event: ev.Event) -> ev.Event:
    if not isinstance(event, ev.TruncatedPoisson):
        return event
    return ev.Poisson(event.rate, event.event)


def _harmless_caps(
    event: ev.Event, caps: Sequence[ev.TruncatedPoisson], neighbours: Neighbours, delta: float
) -> list[ev.TruncatedPoisson] | None:
    """Return the caps, about the smallest, with which epsilon is within `HARMLESS_CAP_EXCESS` of
    Poisson's.

    None where none was found.
    """
    largest_deviation = max(_deviation(cap) for cap in caps)
    poisson = bounds_or_none(Composition.of(rewritten(event, _as_poisson)), neighbours, delta, None)
    if poisson is None or poisson.lower <= 0.0:
        return None
    poisson_lower = poisson.lower

    def raised_caps(units: float) -> dict[ev.TruncatedPoisson, ev.TruncatedPoisson]:
        return {
            cap: _raise_cap(cap, math.ceil(units) * _deviation(cap) / largest_deviation)
            for cap in caps
        }

    def log_cost(units: float) -> float:
        """Return a number above 0 where caps so many units higher still cost more than
        `HARMLESS_CAP_EXCESS`."""
        replacements = raised_caps(units)

        def with_caps(each: ev.Event) -> ev.Event:
            return replacements.get(each, each) if isinstance(each, ev.TruncatedPoisson) else each

        # Nothing is asked of the lower end.
        parts = Composition(
            replace(leaf, fully_observed=False)
            for leaf in Composition.of(rewritten(event, with_caps))
        )
        bounds = bounds_or_none(parts, neighbours, delta, None, COARSE_ACCURACY)
        if bounds is None:
            return math.inf
        return math.log(
            max(bounds.upper / poisson_lower - 1.0, 0.1 * HARMLESS_CAP_EXCESS)
        ) - math.log(HARMLESS_CAP_EXCESS)

    deficit = max(_deficit(cap) for cap in caps)
    for deviations in SEARCH_DEVIATIONS:
        high = float(math.ceil(deficit + deviations * largest_deviation))
        if (at_high := log_cost(high)) <= 0.0:
            around = Bracket(0.0, log_cost(0.0), high, at_high)
            step = max(1.0, math.floor(largest_deviation / CAP_STEPS_PER_DEVIATION))
            solution = narrow(log_cost, around, absolute=step, steps=MAX_CAPS_TRIED)
            return list(raised_caps(solution.high).values())
    return None


def _deviation(cap: ev.TruncatedPoisson) -> float:
    """Return the standard deviation of the sample, at least 1."""
    return max(math.sqrt(cap.population * cap.rate * (1.0 - cap.rate)), 1.0)


def _deficit(cap: ev.TruncatedPoisson) -> float:
    """Return by how much a cap lies below the mean of the sample."""
    return max(cap.population * cap.rate - cap.batch, 0.0)


def _raise_cap(cap: ev.TruncatedPoisson, units: float) -> ev.TruncatedPoisson:
    return replace(cap, batch=min(cap.batch + math.ceil(units), cap.population))
