"""Exact comparisons of a uniform real number with probabilities made of exponentials.

A uniform number in [0, 1) is an endless row of fair bits, of which only those that matter are
drawn.  The first 53 decide almost always, against an interval that surely holds the probability;
where they do not, more bits are drawn and the interval is narrowed, in integers and decimals of
any precision, until they do.  So no probability is ever rounded: the outcome has exactly the
probability asked for, given uniform bits.

Nothing here trusts a mathematical library: `exp_minus` uses additions and multiplications that
IEEE 754 defines to the last bit, with an error bound that follows from them, and `exp_enclosure`
Python's `decimal`, whose exponential is specified to be correctly rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np

from ..arrays import BoolArray, FloatArray
from ..randomness import Stream

Enclosure: TypeAlias = Callable[[int], tuple[Fraction, Fraction]]
"""From a number of bits to an interval that holds a probability; it shrinks as the bits grow."""

FIRST_BITS: Final = 53
"""Bits of a uniform number that are drawn at first: a float holds them exactly."""

EXP_ERROR_RELATIVE: Final = 2.0**-40
"""Granted relative error of a probability in floats; 2^-44 is proven, see `exp_minus`."""

_LN2_HIGH: Final = float.fromhex("0x1.62e42fe000000p-1")  # 28 bits, so that k times it is exact
_LN2_LOW: Final = float.fromhex("0x1.f473de6af278fp-30")
_TAYLOR_COEFFICIENTS: Final = [1.0 / math.factorial(power) for power in range(18)]


def exp_minus(x: FloatArray) -> FloatArray:
    """Return e^-x for x >= 0, with a relative error below 2^-44 up to x = 600; 0 beyond.

    With k = round(x / ln 2) and r = x - k ln 2, |r| < 0.35, it is 2^-k times the Taylor series of
    e^-r to r^17.  Errors, in units of 2^-53 relative to e^-x: ln 2 has 28 + 53 bits, so k ln 2 is
    wrong by under k 2^-83; the subtraction of k LN2_HIGH (exact product) from x is exact up to one
    rounding of a number below 1/2, and so is the other; the remainder of the series is below
    0.35^18 / 18! < 2^-79; each Horner step adds two roundings of terms below 1.5, and 17 of them
    shrink by r each, under 8 in all.  The sum stays below 16 units, and 2^-k is exact.
    """
    bounded = np.minimum(x, 600.0)
    # k = round(x / ln 2), r = x - k ln 2 by the two halves of ln 2.
    k = np.rint(bounded * (1.0 / math.log(2.0)))
    r = (bounded - k * _LN2_HIGH) - k * _LN2_LOW
    # Horner's rule for e^-r, from the power 17 down; then the exact factor 2^-k.
    total = np.full_like(r, _TAYLOR_COEFFICIENTS[-1])
    for coefficient in _TAYLOR_COEFFICIENTS[-2::-1]:
        total = coefficient - r * total
    return np.where(x <= 600.0, np.ldexp(total, -k.astype(np.int32)), 0.0)


def exp_enclosure(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Return two fractions around e^-x, for x >= 0: a relative distance of about 2^-bits apart.

    x is rounded in both directions, and each exponential, which is correctly rounded, moved out by
    one unit in the last place.  Where e^-x < 2^-2bits, the interval is [0, 2^-2bits].
    """
    if x == 0:
        return Fraction(1), Fraction(1)
    if x > 2 * bits:  # e^-x < 2^-x
        return Fraction(0), Fraction(1, 1 << 2 * bits)
    # Decimal digits for so many bits, and a few more than the roundings below can cost.
    digits = bits * 3 // 10 + 8
    down = Context(prec=digits, rounding=ROUND_FLOOR)
    up = Context(prec=digits, rounding=ROUND_CEILING)
    top, bottom = Decimal(-x.numerator), Decimal(x.denominator)
    low = down.exp(down.divide(top, bottom)).next_minus(down)
    high = up.exp(up.divide(top, bottom)).next_plus(up)
    return Fraction(low), min(Fraction(high), Fraction(1))


def scaled_exp(x: Fraction, factor: Fraction) -> Enclosure:
    """Return the enclosure of factor e^-x, for x and factor >= 0."""

    def enclose(bits: int) -> tuple[Fraction, Fraction]:
        low, high = exp_enclosure(x, bits)
        return factor * low, factor * high

    return enclose


def decide(stream: Stream, first: int, bits: int, chance: Enclosure) -> bool:
    """Return whether a uniform number is below a probability, given its first bits.

    The number lies in [`first`, `first` + 1) / 2^`bits`; more bits are drawn, 64 at a time, until
    that interval and the enclosure of the probability are apart.
    """
    while True:
        # [first, first + 1) / 2^bits against the enclosure: apart from it, the outcome is decided.
        low, high = chance(bits + 32)
        if Fraction(first + 1, 1 << bits) <= low:
            return True
        if Fraction(first, 1 << bits) >= high:
            return False
        first = first << 64 | int(stream.integers64(1)[0])
        bits += 64


def bernoulli(
    stream: Stream, count: int, chance: Enclosure, rare: Stream | None = None
) -> BoolArray:
    """Return `count` independent outcomes, each true with exactly the probability enclosed.

    It takes 8 bytes for each, and 32 for a fork of the stream that gives further bits (if `rare`
    does not give them): how many bytes are used does not tell the outcomes.
    """
    low, high = chance(128)
    surely_true, surely_false = math.floor(low * 2**64), math.ceil(high * 2**64)
    more_bits = stream.fork() if rare is None else rare
    words = stream.integers64(count)
    if surely_true >= 2**64:
        return np.ones(count, dtype=bool)
    # Words below floor(2^64 low) are surely true, from ceil(2^64 high) on surely false.
    result = np.asarray(words < np.uint64(surely_true))
    undecided = ~result if surely_false >= 2**64 else ~result & (words < np.uint64(surely_false))
    for index in np.flatnonzero(undecided):
        result[index] = decide(more_bits, int(words[index]), 64, chance)
    return result
