"""Ranges that hold a largest loss, and arithmetic on them that is rounded outward."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

LOG_ERROR_RELATIVE: Final = 1e-14
"""Relative error of a logarithm or exponential here, with room to spare."""

LARGEST_EXPONENT: Final = 700.0
"""Beyond, e^x is taken apart, as it would overflow."""


@dataclass(frozen=True)
class Range:
    """A largest loss, between bounds: 0 <= `lower` <= `upper`, which may be infinite."""

    lower: float
    upper: float

    def times(self, count: int) -> Range:
        """Return the range of `count` losses together, rounded outward."""
        return Range(
            rounded_down(_scaled(self.lower, count)), rounded_up(_scaled(self.upper, count))
        )

    def plus(self, other: Range) -> Range:
        """Return the range of the sum of two losses."""
        return Range(_outward(self.lower + other.lower, -1), _outward(self.upper + other.upper, 1))


def quotient(moved: int, noise: float) -> Range:
    """Return moved / noise, exactly where a float has it and rounded outward elsewhere.

    There the lower end leaves room for a noise multiplier that was itself rounded, as that of a
    group is.

    >>> quotient(2, 4.0)
    Range(lower=0.5, upper=0.5)
    """
    value, exact = moved / noise, Fraction(moved) / Fraction(noise)
    if math.isinf(value):
        return Range(sys.float_info.max, math.inf)
    lower = value if Fraction(value) == exact else rounded_down(value)
    upper = value if Fraction(value) >= exact else math.nextafter(value, math.inf)
    return Range(lower, upper)


def amplified(rate: float, loss: Range) -> Range:
    """Return log(1 - q + q e^loss), rounded outward.

    >>> amplified(0.5, Range(0.0, 0.0))
    Range(lower=0.0, upper=0.0)
    """
    return _mapped(lambda x: _log_mean(rate, x), loss)


def lessened(rate: float, loss: Range) -> Range:
    """Return -log(1 - q + q e^-loss), rounded outward; it is at most -log(1 - q)."""
    return _mapped(lambda x: -_log_mean(rate, -x), loss)


def _log_mean(rate: float, x: float) -> float:
    """Return log(1 - q + q e^x) to full relative accuracy."""
    if x == math.inf:
        return math.inf
    if rate == 1.0:
        return x
    if x > LARGEST_EXPONENT:
        return x + math.log(rate) + math.log1p((1.0 - rate) / rate * math.exp(-x))
    grown = rate * math.expm1(x)
    # Near -1 the sum itself keeps its digits, and log1p would not.
    return math.log1p(grown) if grown > -0.5 else math.log((1.0 - rate) + rate * math.exp(x))


def _mapped(function: Callable[[float], float], loss: Range) -> Range:
    return Range(rounded_down(function(loss.lower)), rounded_up(function(loss.upper)))


def difference(more: Range, less: Range) -> Range:
    """Return `more` - `less`, which both grow from 0, rounded outward."""
    slack = LOG_ERROR_RELATIVE * (more.upper + less.upper)
    return Range(
        max(more.lower - less.upper - slack, 0.0) if math.isfinite(more.upper) else 0.0,
        more.upper - less.lower + slack if math.isfinite(more.upper) else math.inf,
    )


def _scaled(value: float, count: int) -> float:
    return value * count if value else 0.0


def rounded_down(value: float) -> float:
    return value if value == 0.0 or math.isinf(value) else value * (1.0 - LOG_ERROR_RELATIVE)


def rounded_up(value: float) -> float:
    return value if value == 0.0 or math.isinf(value) else value * (1.0 + LOG_ERROR_RELATIVE)


def _outward(value: float, sign: int) -> float:
    if value == 0.0 or math.isinf(value):
        return value
    return math.nextafter(value, sign * math.inf)
