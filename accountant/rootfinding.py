"""The root of a falling function, with few evaluations and a bracket that always holds it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


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
