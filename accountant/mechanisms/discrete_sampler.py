"""Exact samplers of noise on the integers, for any float scale; millions of draws per second.

`discrete_gaussian`   P(x) ~ e^(-x^2 / (2 s^2))
`discrete_laplace`    P(x) ~ e^(-|x| / s)
`rounded_laplace`     a Laplace variable of scale s, rounded to the nearest integer

`~` means proportional.  Given uniform random bits, each draw has exactly this distribution, without
rounding.  Shapes: (count,) int64.  Range of s: [2^-20, 2^40].

The first two are drawn by rejection sampling from P(x) ~ e^-g(x) on x = 0, 1, 2, ..., and given a
random sign.  The integers are cut into blocks of w, a power of two.  A block is proposed from a
table, and a point x of it uniformly; x is accepted with probability a(x) = C e^-g(x) / W, where W
is the block's weight in the table, at least C e^-g at its first point.  So x is drawn with
probability proportional to W (1/w) a(x) ~ e^-g(x), exactly:

- The weights are integers that sum to a power of two, with a remainder that means "reject".  An
  alias table turns one random word into a block with exactly those probabilities (Walker 1977).
- Beyond the last block, tail blocks m = 0, 1, ... of width v have probability 2^-(m+1), and e^-g
  falls at least by half from one to the next.
- A point is accepted where a uniform number is below a(x).  If the first 53 bits of that number are
  below the smallest a of the block (97% of all points), the point is accepted.  Otherwise they are
  compared with a float of a(x) that is right to 2^-40 and, where that does not decide, with more
  and more bits of both (`exponentials.decide`).

The log states how many random bytes were drawn, so that number must be independent of the noise.
The number of proposals is: in rejection sampling it is independent of the accepted values.  Draws
that depend on the values themselves (tails, further bits) come from a fork of the stream, which is
made in every call and costs 32 bytes.

g is x^2/(2 s^2) (`gaussian`) or x/s (`laplace`), for any float s, taken as the fraction it is.
Source: Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5 (the distributions, why noise must be
drawn exactly, and, in Algorithms 1 to 3, rejection with exact Bernoulli(e^-g) trials; Mironov 2012
breaks noise made of floats); the proposal by table is derived here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np

from .. import validate
from ..arrays import BoolArray, FloatArray, IntArray, UInt64Array
from ..errors import InvalidInput
from ..randomness import Stream
from .exponentials import (
    EXP_ERROR_RELATIVE,
    FIRST_BITS,
    bernoulli,
    decide,
    exp_enclosure,
    exp_minus,
    scaled_exp,
)

Shape: TypeAlias = Literal["gaussian", "laplace"]

_TAIL_FROM_SCALES: Final[dict[str, int]] = {"gaussian": 8, "laplace": 28}
"""Where the tail begins, in multiples of the scale: reached by one draw in 10^11 or fewer."""

_HEIGHT_BITS: Final = 96
"""Heights of blocks are integers in units of 2^-96, rounded up."""

_EXP_BITS: Final = 512
"""What heights are computed from are integers in units of 2^-512, rounded both ways."""

_BLOCK_PROPOSALS: Final = 1 << 14
"""Most proposals made at once, so that their arrays fit into the processor's cache."""

MIN_SCALE, MAX_SCALE = 2.0**-20, 2.0**40
"""Range of scales; above it a block and its alias draw would not fit into a 64-bit word."""


@dataclass(frozen=True)
class Precision:
    """Precision of the fast path: `bits` of the uniform number, and the `error` of floats.

    `reach` is where the tail begins, in scales; None for the default.  A coarser precision gives
    the same distribution, and takes the slow exact path more often.
    """

    bits: int = FIRST_BITS
    error: float = EXP_ERROR_RELATIVE
    reach: int | None = None


class DiscreteSampler:
    """An exact sampler of P(x) ~ e^-g(x) on x >= 0 or, with a random sign, on all integers.

    g(x) is x^2 / (2 s^2) (`gaussian`) or x / s (`laplace`) at the scale s.  Raises `InvalidInput`
    for a scale outside [2^-20, 2^40].
    """

    def __init__(self, shape: Shape, scale: float, precision: Precision | None = None) -> None:
        validate.choice(tuple(_TAIL_FROM_SCALES), shape=shape)
        if not MIN_SCALE <= validate.positive(scale=scale) <= MAX_SCALE:
            raise InvalidInput(
                f"The scale of noise on integers must lie in [2^-20, 2^40]; it is {scale:g}.",
                next_step="Choose another grid.",
            )
        settings = precision or Precision()
        self._scale = Fraction(scale)
        self._shape = shape
        self._bits, self._error = settings.bits, settings.error
        self._width_bits = max(0, math.floor(math.log2(scale)) - 5)
        width = 1 << self._width_bits
        reach = settings.reach or _TAIL_FROM_SCALES[shape]
        self._blocks = math.ceil(reach * self._scale / width) + 1
        self._tail_width = 1 << max(self._width_bits, math.ceil(math.log2(scale)) + 1, 0)
        self._fill(width)

    def draw(self, stream: Stream, count: int, signed: bool) -> IntArray:
        """Return draws (count,); if `signed`, x and -x are equally likely, and 0 counts once."""
        draws = [np.empty(0, dtype=np.int64)]
        missing, tail_stream = count, stream.fork()
        while missing > 0:
            proposals = min(_BLOCK_PROPOSALS, missing + missing // 16 + 8)
            words = stream.integers64(2 * proposals)
            draws.append(self._accepted(words, tail_stream, signed)[:missing])
            missing -= len(draws[-1])
        return np.concatenate(draws)

    def exponent(self, x: int) -> Fraction:
        """Return g(x), exactly."""
        if self._shape == "gaussian":
            return Fraction(x * x) / (2 * self._scale**2)
        return x / self._scale

    def _fill(self, width: int) -> None:
        """Compute the block weights, the alias table, and the constants of the fast comparisons."""
        # Heights: e^-g at the first point of each block, rounded up, in units of 2^-96.
        lows, highs = self._enclosed_firsts(width)
        heights = [-(-high >> _EXP_BITS - _HEIGHT_BITS) for high in highs]
        # All tail blocks, 1/2 + 1/4 + ..., weigh as one block of their width at the last height.
        heights[-1] *= 2 * (self._tail_width // width)
        total = 1 << (63 - self._width_bits)
        columns = (len(heights) + 1).bit_length()
        room, height_sum = total - len(heights), sum(heights)
        # Weights W, integers rounded up in a total of 2^(63 - width bits); the remainder of the
        # total means "reject".  The factors C / W are exact fractions, so that rounding W up only
        # lowers the acceptance rate, and changes no probability.
        weights = [-(-height * room // height_sum) for height in heights]
        self._factors = [(room << _HEIGHT_BITS, height_sum * weight) for weight in weights]
        weights.append(total - sum(weights))  # reject
        self._rest_bits = 63 - self._width_bits - columns
        limits, alternatives = alias_table(weights, 1 << columns, 1 << self._rest_bits)
        self._limits = np.array(limits, dtype=np.uint64)
        self._alternatives = np.array(alternatives, dtype=np.int64)
        # Below the least a(x) of a block, in units of 2^-bits and rounded down, acceptance is sure.
        last = lows[1:] if width > 1 else lows[:-1]  # at or below e^-g at the end of a block
        sure_below = [
            (low * over << self._bits) // (under << _EXP_BITS)
            for low, (over, under) in zip(last, self._factors[:-1], strict=True)
        ]
        self._sure_below = np.array([*sure_below, 0, 0], dtype=np.uint64)
        # a(x) = e^-(g(x) - g(first of its block)) times these, as floats (rounded correctly):
        starts = [
            low * over / (under << _EXP_BITS)
            for low, (over, under) in zip(lows, self._factors[:-1], strict=False)
        ]
        self._starts: FloatArray = np.array([*starts, 0.0, 0.0])

    def _enclosed_firsts(self, width: int) -> tuple[list[int], list[int]]:
        """Return integers around e^-g at the first points of all blocks, in units of 2^-512.

        From one block to the next e^-g is multiplied by a ratio, and the ratio, for Gaussian noise,
        by a constant: e^-g(n w) = e^-g((n - 1) w) q^(2 n - 1) with q = e^-g(w), or q^1 for Laplace
        noise.  Each product is rounded outwards, by less than one unit at each end, and the first
        ratios are two units wide: the ends are at most 2 n (n + 1) units apart.  Were that much
        against e^-g, more points would be compared exactly.
        """
        first, growth = self.exponent(width), 2 if self._shape == "gaussian" else 0
        ratio_low, ratio_high = _enclosed_exp(first)
        fall_low, fall_high = _enclosed_exp(growth * first)
        lows, highs = [1 << _EXP_BITS], [1 << _EXP_BITS]
        for _ in range(self._blocks):
            lows.append(lows[-1] * ratio_low >> _EXP_BITS)
            highs.append(-(-highs[-1] * ratio_high >> _EXP_BITS))
            ratio_low = ratio_low * fall_low >> _EXP_BITS
            ratio_high = -(-ratio_high * fall_high >> _EXP_BITS)
        return lows, highs

    def _factor(self, block: int) -> Fraction:
        """Return C / W of a block, or of the tail behind all blocks."""
        over, under = self._factors[block]
        return Fraction(over, under)

    def _accepted(self, words: UInt64Array, tail_stream: Stream, signed: bool) -> IntArray:
        """Return the accepted proposals (at most len(words) / 2,); each takes two words."""
        proposals = len(words) // 2
        # One word gives offset, sign, alias remainder and column, from its low bits up; the other
        # is the uniform number of the acceptance test.
        word, coin = words[:proposals], words[proposals:] >> np.uint64(64 - self._bits)
        offset = (word & np.uint64((1 << self._width_bits) - 1)).astype(np.int64)
        word >>= np.uint64(self._width_bits)
        negative = (word & np.uint64(1)).astype(np.int64)
        word >>= np.uint64(1)
        remainder = word & np.uint64((1 << self._rest_bits) - 1)
        column = (word >> np.uint64(self._rest_bits)).astype(np.int64)
        block = np.where(remainder < self._limits[column], column, self._alternatives[column])
        # Accepted at once, compared exactly, or in the tail; the caller replaces rejected ones.
        accepted = coin < self._sure_below[block]
        x = (block << self._width_bits) + offset
        unsure = np.flatnonzero(~accepted & (block < self._blocks))
        if unsure.size:
            accepted[unsure] = self._compared_exactly(
                tail_stream, x[unsure], block[unsure], offset[unsure], coin[unsure]
            )
        for index in np.flatnonzero(block == self._blocks):
            x[index], accepted[index] = self._tail(tail_stream, int(coin[index]))
        if signed:
            # +0 and -0 are the same point: reject one of them, or 0 would be drawn twice as often.
            accepted &= (x != 0) | (negative == 0)
            x = np.where(negative == 1, -x, x)
        return x[accepted]

    def _compared_exactly(
        self, tail_stream: Stream, x: IntArray, block: IntArray, offset: IntArray, coin: UInt64Array
    ) -> BoolArray:
        """Return which points are accepted (points,): by floats, or exactly where those fail."""
        # g(x) - g(first point of the block) in floats, without cancellation: (points,).
        scale = float(self._scale)
        j = offset.astype(np.float64)
        if self._shape == "gaussian":
            first = (x - offset).astype(np.float64)
            below = j * (2.0 * first + j) / (2.0 * scale * scale)
        else:
            below = j / scale
        chance = exp_minus(below) * self._starts[block] * 2.0**self._bits
        number = coin.astype(np.float64)
        # Decided where uniform number and a(x) differ by more than the float's error of 2^-40; else
        # exactly.
        accepted = number + 1.0 <= chance * (1.0 - self._error)
        undecided = ~accepted & (number < chance * (1.0 + self._error) + EXP_ERROR_RELATIVE)
        for index in np.flatnonzero(undecided):
            exact = scaled_exp(self.exponent(int(x[index])), self._factor(int(block[index])))
            accepted[index] = decide(tail_stream, int(coin[index]), self._bits, exact)
        return np.asarray(accepted)

    def _tail(self, tail_stream: Stream, coin: int) -> tuple[int, bool]:
        """Return a point beyond the last block, and whether it is accepted."""
        # Tail block m with probability 2^-(m + 1): the number of zeros before the first set bit.
        tail_block = 0
        while not (bits := int(tail_stream.integers64(1)[0])):
            tail_block += 64
        tail_block += (bits & -bits).bit_length() - 1  # probability 2^-(tail_block + 1)
        offset = int(tail_stream.integers64(1)[0]) & (self._tail_width - 1)
        start = self._blocks << self._width_bits
        x = start + tail_block * self._tail_width + offset
        factor = self._factor(-1) * (self._tail_width >> self._width_bits) * 2 ** (tail_block + 1)
        return x, decide(tail_stream, coin, self._bits, scaled_exp(self.exponent(x), factor))


def _enclosed_exp(x: Fraction) -> tuple[int, int]:
    """Return integers around e^-x, in units of 2^-512."""
    low, high = exp_enclosure(x, _EXP_BITS + 32)
    return math.floor(low * (1 << _EXP_BITS)), math.ceil(high * (1 << _EXP_BITS))


def alias_table(weights: Sequence[int], columns: int, capacity: int) -> tuple[list[int], list[int]]:
    """Return Walker's alias table: for each column, the share of its own item and another item.

    A uniform column i, and a uniform integer below `capacity`, give item i where that integer is
    below the share, and else the other item.  `weights` are at most `columns` integers, which sum
    to columns x capacity; item i is then drawn with probability weights[i] / (columns x capacity),
    exactly.  Source: Walker 1977; this order of filling: Vose 1991.
    """
    remaining = [*weights, *([0] * (columns - len(weights)))]
    column_shares, alternatives = [capacity] * columns, list(range(columns))
    small = [item for item, weight in enumerate(remaining) if weight < capacity]
    large = [item for item, weight in enumerate(remaining) if weight > capacity]
    # Each column below capacity is filled up from an item above capacity.
    while small:
        item, donor = small.pop(), large[-1]
        column_shares[item], alternatives[item] = remaining[item], donor
        remaining[donor] -= capacity - remaining[item]
        if remaining[donor] <= capacity:
            large.pop()
            if remaining[donor] < capacity:
                small.append(donor)
    return column_shares, alternatives


@lru_cache(maxsize=64)
def sampler(shape: Shape, scale: float) -> DiscreteSampler:
    """Return the sampler of a shape and scale; its tables are cached."""
    return DiscreteSampler(shape, scale)


def discrete_gaussian(stream: Stream, count: int, scale: float) -> IntArray:
    """Return `count` draws (count,) with P(x) ~ e^(-x^2 / (2 scale^2)) on all integers x."""
    return sampler("gaussian", scale).draw(stream, count, signed=True)


def discrete_laplace(stream: Stream, count: int, scale: float) -> IntArray:
    """Return `count` draws (count,) with P(x) ~ e^(-|x| / scale) on all integers x."""
    return sampler("laplace", scale).draw(stream, count, signed=True)


def rounded_laplace(stream: Stream, count: int, scale: float) -> IntArray:
    """Return `count` Laplace draws (count,) of this scale, rounded to the nearest integer, exactly.

    P(|x| >= k) = e^(-(k - 1/2) / scale) for k >= 1.  So x is not 0 with probability
    e^(-1 / (2 scale)), and |x| - 1 is then geometric.
    """
    distance = 1 + sampler("laplace", scale).draw(stream, count, signed=False)
    away = bernoulli(stream, count, scaled_exp(1 / (2 * Fraction(scale)), Fraction(1)))
    # x = 0 unless `away`; then |x| is 1 plus a geometric variable, with a random sign.
    sign = 1 - 2 * (stream.integers64(count) >> np.uint64(63)).astype(np.int64)
    return np.where(away, sign * distance, 0)
