"""Where a falling function crosses 0, and where a condition ends: brackets that always hold it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

Number = TypeVar("Number", int, float)


def log_odds_over(log_delta: float, target: float) -> float:
    """Return log(odds of delta / odds of the target): at most 0 if delta is at most the target.

    For small deltas that is the log of their ratio.  Near 1, where all deltas look alike, what is
    left to 1 still tells them apart.

    >>> round(log_odds_over(math.log(2e-6), 1e-6), 4)
    0.6931
    """
    delta = math.exp(min(log_delta, 0.0))
    if delta == target:
        return 0.0
    # The odds of 1 - delta: the margin that is left to 1 is kept above a rounding unit.
    rest = math.log1p(-target) - math.log(max(-math.expm1(min(log_delta, 0.0)), 1e-16))
    return log_delta - math.log(target) + rest


@dataclass(frozen=True)
class Bracket:
    """Two arguments between which a falling function crosses 0: above 0 at `low`, not at `high`."""

    low: float
    f_low: float
    high: float
    f_high: float


def narrow(
    falling: Callable[[float], float],
    bracket: Bracket,
    *,
    relative: float = 0.0,
    absolute: float = 0.0,
    value: float = 0.0,
    steps: int = 80,
) -> Bracket:
    """Return a narrower bracket, by the Illinois rule, and by halving where that is slow.

    Stops when the ends are within `absolute` + `relative` * |high|, or when the function is
    nearer than `value` to 0 at the last argument, or after `steps` evaluations.  Both ends of the
    result were evaluated.
    """
    low, high = bracket.low, bracket.high
    f_low, f_high = bracket.f_low, bracket.f_high
    weight_low, weight_high = f_low, f_high
    side = 0
    widths = [math.inf] * 3
    for _ in range(steps):
        width, allowed = high - low, absolute + relative * abs(high)
        if width <= allowed:
            break
        middle = 0.5 * (low + high)
        # Three steps that did not halve the bracket: bisect once.
        slow = width > 0.5 * widths.pop(0)
        widths.append(width)
        if not slow and math.isfinite(weight_low) and math.isfinite(weight_high):
            secant = (low * weight_high - high * weight_low) / (weight_high - weight_low)
            # A little past the estimate, so that both ends close in.
            secant += 0.3 * allowed * side
            if low < secant < high:
                middle = secant
        if not low < middle < high:
            break
        value_at = falling(middle)
        # Illinois: the weight of an end that stays twice is halved, so that it moves as well.
        if value_at > 0.0:
            low, f_low, weight_low = middle, value_at, value_at
            weight_high = weight_high / 2 if side == 1 else weight_high
            side = 1
        else:
            high, f_high, weight_high = middle, value_at, value_at
            weight_low = weight_low / 2 if side == -1 else weight_low
            side = -1
        if abs(value_at) < value:
            break
    return Bracket(low, f_low, high, f_high)


def enclose(
    falling: Callable[[float], float], start: float, step: float, least: float, most: float
) -> Bracket | None:
    """Return a bracket around the crossing, walking from `start` in growing steps.

    Returns None when the function does not change sign on the way to `least` or `most`.
    """
    argument, value = start, falling(start)
    direction = 1.0 if value > 0.0 else -1.0
    while True:
        next_argument = min(max(argument + direction * step, least), most)
        if next_argument == argument:
            return None
        next_value = falling(next_argument)
        if (next_value > 0.0) != (value > 0.0):
            if value > 0.0:
                return Bracket(argument, value, next_argument, next_value)
            return Bracket(next_argument, next_value, argument, value)
        argument, value = next_argument, next_value
        step *= 2.0


def least_argument(
    convex: Callable[[float], float], low: float, high: float, precision: float
) -> float:
    """Return about where a function with one valley in [low, high] is least, by golden sections.

    >>> round(least_argument(lambda x: (x - 0.3) ** 2, 0.0, 1.0, 1e-6), 4)
    0.3
    """
    share = 0.5 * (math.sqrt(5.0) - 1.0)
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = convex(left), convex(right)
    while high - low > precision:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - share * (high - low)
            at_left = convex(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + share * (high - low)
            at_right = convex(right)
    return 0.5 * (low + high)


def mean(low: float, high: float) -> float:
    """Return the middle of two numbers."""
    return 0.5 * (low + high)


def bisect(
    holds: Callable[[Number], bool],
    low: Number,
    high: Number,
    *,
    stop: Callable[[Number, Number], bool],
    middle: Callable[[Number, Number], Number],
) -> tuple[Number, Number]:
    """Return the bracket (low, high) of where a condition ends, narrowed until `stop(low, high)`.

    The condition holds at `low` and not at `high`, and so it does for what is returned: each end
    is one that was given, or one that was tried.  Whoever needs a sound bound takes that end.

    >>> bisect(lambda x: x * x <= 2.0, 1.0, 2.0, stop=lambda a, b: b - a < 0.1, middle=mean)
    (1.375, 1.4375)
    """
    while not stop(low, high):
        between = middle(low, high)
        low, high = (between, high) if holds(between) else (low, between)
    return low, high


def last_integer(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the last integer at which a condition holds: it does at `low`, and not at `high`.

    >>> last_integer(lambda n: n * n <= 50, 0, 50)
    7
    """
    return bisect(holds, low, high, stop=lambda a, b: b - a <= 1, middle=lambda a, b: (a + b) // 2)[
        0
    ]


def first_integer(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first integer in [low, high] at which a condition holds, as it does at `high`.

    >>> first_integer(lambda n: n * n > 50, 0, 50)
    8
    """
    while low < high:
        between = (low + high) // 2
        low, high = (low, between) if holds(between) else (between + 1, high)
    return high
