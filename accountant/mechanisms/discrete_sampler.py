"""Exact noise on the integers, for any float scale, millions of draws a second.

`discrete_gaussian`   P(x) ~ e^(-x^2 / (2 s^2))
`discrete_laplace`    P(x) ~ e^(-|x| / s)
`rounded_laplace`     a Laplace variable of scale s, rounded to the nearest integer

Each draw has exactly this distribution, given uniform random bits: no float is rounded into it.
Shapes: (count,), 64-bit integers.  Range of s: [2^-20, 2^40].

The first two are drawn from P(x) ~ e^-g(x) on x = 0, 1, 2, ..., with a random sign.

The integers are cut into blocks of w, a power of two.  A block is drawn from a table, a point of
it uniformly, and the point x is kept with probability a(x) = C e^-g(x) / W, where W is the
block's weight in the table, at least C e^-g at its first point; rejected points are drawn anew.
So x comes with probability proportional to W (1/w) a(x) ~ e^-g(x), exactly:

- The weights are integers that sum to a power of two, with a leftover that means "draw anew".  An
  alias table turns one random word into a block with exactly those probabilities (Walker 1977).
- Beyond the last block, tail blocks m = 0, 1, ... of width v have probability 2^-(m+1), and e^-g
  falls at least by half from one to the next.
- Whether a point is kept is a comparison of a uniform number with a(x).  Where its first 53 bits
  are below the smallest a of the block (97% of all points), that is settled; otherwise they are
  compared with a float that is right to 2^-40, and where that leaves it open, with ever more bits
  and digits (`exponentials.decide`).

The log tells how many bytes were drawn, so that number must be independent of the noise.  The
number of proposals is: in rejection sampling it does not depend on what is accepted.  What depends
on the points themselves, tails and further bits, is drawn from a fork of the stream, which is made
for every call and costs 32 bytes.

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
from .exponentials import BITS, ERROR, bernoulli, decide, exp_enclosure, exp_minus, scaled_exp

Shape: TypeAlias = Literal["gaussian", "laplace"]

_REACH: Final[dict[str, int]] = {"gaussian": 8, "laplace": 28}
"""Where the tail begins, in scales: it is met once in 10^11 draws or less."""

_UNIT: Final = 1 << 96
"""Heights of blocks are integers in units of 2^-96, rounded up."""

_CHUNK: Final = 1 << 14
"""Proposals made at once, so that they stay in the cache."""

LEAST_SCALE, LARGEST_SCALE = 2.0**-20, 2.0**40
"""Range of scales; beyond it blocks would outgrow a word."""


@dataclass(frozen=True)
class Precision:
    """How a comparison begins: so many bits, and so large a granted error of floats.

    Coarser ones give the same distribution and only take the exact path more often.
    """

    bits: int = BITS
    error: float = ERROR
    reach: int | None = None


class DiscreteSampler:
    """Draws from P(x) ~ e^-g(x), x >= 0; see the module."""

    def __init__(self, shape: Shape, scale: float, precision: Precision | None = None) -> None:
        validate.choice(tuple(_REACH), shape=shape)
        if not LEAST_SCALE <= validate.positive(scale=scale) <= LARGEST_SCALE:
            raise InvalidInput(
                f"The scale of noise on integers must lie in [2^-20, 2^40]; it is {scale:g}.",
                next_step="Choose another grid.",
            )
        given = precision or Precision()
        self._scale = Fraction(scale)
        self._shape = shape
        self._bits, self._error = given.bits, given.error
        self._width_bits = max(0, math.floor(math.log2(scale)) - 5)
        width = 1 << self._width_bits
        reach = given.reach or _REACH[shape]
        self._blocks = math.ceil(reach * self._scale / width) + 1
        self._tail_width = 1 << max(self._width_bits, math.ceil(math.log2(scale)) + 1, 0)
        self._fill(width)

    def draw(self, stream: Stream, count: int, signed: bool) -> IntArray:
        """Return `count` draws; `signed`: of +x and -x with equal probability (0 counts once)."""
        found = [np.empty(0, dtype=np.int64)]
        missing, rare = count, stream.fork()
        while missing > 0:
            tried = min(_CHUNK, missing + missing // 16 + 8)
            words = stream.integers64(2 * tried)
            found.append(self._kept(words, rare, signed)[:missing])
            missing -= len(found[-1])
        return np.concatenate(found)

    def exponent(self, x: int) -> Fraction:
        """Return g(x)."""
        if self._shape == "gaussian":
            return Fraction(x * x) / (2 * self._scale**2)
        return x / self._scale

    def _fill(self, width: int) -> None:
        """Compute the weights, the alias table, and what the fast comparisons need."""
        firsts = [exp_enclosure(self.exponent(n * width), 112) for n in range(self._blocks + 1)]
        heights = [math.ceil(high * _UNIT) for _, high in firsts]
        # 1/2 + 1/4 + ... of the last: the tail blocks together
        heights[-1] *= 2 * (self._tail_width // width)
        total = 1 << (63 - self._width_bits)
        columns = (len(heights) + 1).bit_length()
        room, whole = total - len(heights), sum(heights)
        weights = [-(-height * room // whole) for height in heights]
        self._factors = [Fraction(room * _UNIT, whole * weight) for weight in weights]
        weights.append(total - sum(weights))  # draw anew
        self._rest_bits = 63 - self._width_bits - columns
        limits, others = alias_table(weights, 1 << columns, 1 << self._rest_bits)
        self._limits = np.array(limits, dtype=np.uint64)
        self._others = np.array(others, dtype=np.int64)
        lows = [low for low, _ in firsts]
        last = lows[1:] if width > 1 else lows[:-1]  # at or below e^-g at the end of a block
        pairs = list(zip(last, self._factors[:-1], strict=True))
        surely = [math.floor(low * factor * (1 << self._bits)) for low, factor in pairs]
        self._surely = np.array([*surely, 0, 0], dtype=np.uint64)
        # a(x) = e^-(g(x) - g(first of its block)) times this:
        starts = [
            float(low * factor) for low, factor in zip(lows, self._factors[:-1], strict=False)
        ]
        self._starts: FloatArray = np.array([*starts, 0.0, 0.0])

    def _kept(self, words: UInt64Array, rare: Stream, signed: bool) -> IntArray:
        """Return those proposals that are kept; each is made of two words."""
        tried = len(words) // 2
        place, coin = words[:tried], words[tried:] >> np.uint64(64 - self._bits)
        offset = (place & np.uint64((1 << self._width_bits) - 1)).astype(np.int64)
        place >>= np.uint64(self._width_bits)
        negative = (place & np.uint64(1)).astype(np.int64)
        place >>= np.uint64(1)
        rest = place & np.uint64((1 << self._rest_bits) - 1)
        column = (place >> np.uint64(self._rest_bits)).astype(np.int64)
        block = np.where(rest < self._limits[column], column, self._others[column])
        kept = coin < self._surely[block]
        x = (block << self._width_bits) + offset
        doubtful = np.flatnonzero(~kept & (block < self._blocks))
        if doubtful.size:
            kept[doubtful] = self._compared(
                rare, x[doubtful], block[doubtful], offset[doubtful], coin[doubtful]
            )
        for index in np.flatnonzero(block == self._blocks):
            x[index], kept[index] = self._tail(rare, int(coin[index]))
        if signed:
            kept &= (x != 0) | (negative == 0)
            x = np.where(negative == 1, -x, x)
        return x[kept]

    def _compared(
        self, rare: Stream, x: IntArray, block: IntArray, offset: IntArray, coin: UInt64Array
    ) -> BoolArray:
        """Return which points are kept, by floats, and exactly where these leave it open."""
        scale = float(self._scale)
        j = offset.astype(np.float64)
        if self._shape == "gaussian":
            first = (x - offset).astype(np.float64)
            below = j * (2.0 * first + j) / (2.0 * scale * scale)
        else:
            below = j / scale
        chance = exp_minus(below) * self._starts[block] * 2.0**self._bits
        number = coin.astype(np.float64)
        kept = number + 1.0 <= chance * (1.0 - self._error)
        open_still = ~kept & (number < chance * (1.0 + self._error) + ERROR)
        for index in np.flatnonzero(open_still):
            exact = scaled_exp(self.exponent(int(x[index])), self._factors[int(block[index])])
            kept[index] = decide(rare, int(coin[index]), self._bits, exact)
        return np.asarray(kept)

    def _tail(self, rare: Stream, coin: int) -> tuple[int, bool]:
        """Return a point beyond the last block, and whether it is kept."""
        far = 0
        while not (word := int(rare.integers64(1)[0])):
            far += 64
        far += (word & -word).bit_length() - 1  # probability 2^-(far + 1)
        offset = int(rare.integers64(1)[0]) & (self._tail_width - 1)
        start = self._blocks << self._width_bits
        x = start + far * self._tail_width + offset
        factor = self._factors[-1] * (self._tail_width >> self._width_bits) * 2 ** (far + 1)
        return x, decide(rare, coin, self._bits, scaled_exp(self.exponent(x), factor))


def alias_table(weights: Sequence[int], columns: int, capacity: int) -> tuple[list[int], list[int]]:
    """Return, for each column, how much of it is its own item, and which item has the rest.

    `weights` are integers that sum to columns x capacity, at most one per column; everything is
    exact.  Source: Walker 1977; this order of filling: Vose 1991.
    """
    left = [*weights, *([0] * (columns - len(weights)))]
    own, others = [capacity] * columns, list(range(columns))
    small = [item for item, weight in enumerate(left) if weight < capacity]
    large = [item for item, weight in enumerate(left) if weight > capacity]
    while small:
        item, giver = small.pop(), large[-1]
        own[item], others[item] = left[item], giver
        left[giver] -= capacity - left[item]
        if left[giver] <= capacity:
            large.pop()
            if left[giver] < capacity:
                small.append(giver)
    return own, others


@lru_cache(maxsize=64)
def table(shape: Shape, scale: float) -> DiscreteSampler:
    """Return the table for a scale, made once."""
    return DiscreteSampler(shape, scale)


def discrete_gaussian(stream: Stream, count: int, scale: float) -> IntArray:
    """Return `count` draws with P(x) ~ e^(-x^2 / (2 scale^2)) on all integers x."""
    return table("gaussian", scale).draw(stream, count, signed=True)


def discrete_laplace(stream: Stream, count: int, scale: float) -> IntArray:
    """Return `count` draws with P(x) ~ e^(-|x| / scale) on all integers x."""
    return table("laplace", scale).draw(stream, count, signed=True)


def rounded_laplace(stream: Stream, count: int, scale: float) -> IntArray:
    """Return `count` Laplace variables of this scale, rounded to the nearest integer.

    P(|x| >= k) = e^(-(k - 1/2) / scale) for k >= 1: nothing is rounded to 0 but what lies within
    1/2, and beyond, the distance is geometric.
    """
    distance = 1 + table("laplace", scale).draw(stream, count, signed=False)
    away = bernoulli(stream, count, scaled_exp(1 / (2 * Fraction(scale)), Fraction(1)))
    sign = 1 - 2 * (stream.integers64(count) >> np.uint64(63)).astype(np.int64)
    return np.where(away, sign * distance, 0)
