"""Numbers as integers on a grid, and those integers in a ring whose sums do not wrap around.

    value v  ->  q = trunc(v / step)  ->  q mod M  ->  sum mod M  ->  the exact sum of all q

The step is a power of two, so v / step is exact and |q| step <= |v|: a vector that was clipped
stays clipped, in every norm.  The sum comes back exactly if `terms` numbers of at most
floor(bound / step) each stay below half of M, which is checked when a `FixedPoint` is made, and
each number is checked before it is sent.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import validate
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput, ProtocolFault
from .masks import RingWords

_MAX_STEPS: Final = 2**62
"""Steps that one number may have: with room to spare in 64 bits, signed."""

_VALUES_AT_A_TIME: Final = 1 << 15
"""Values that are worked on at a time: they stay in the cache."""

_RINGS: Final[dict[int, Any]] = {2**32: np.uint32, 2**64: np.uint64}


@dataclass(frozen=True)
class FixedPoint:
    """How numbers up to `bound` travel, and how many of them can be summed.

    `step` is a power of two (the precision: each value loses less than that, towards zero),
    `bound` the largest absolute value, noise included, `terms` how many are summed, `modulus` that
    of the ring: 2^32 and 2^64 for words, any other integer for residues.  Raises `InvalidInput`
    where `terms` floor(bound / step) is not below half the modulus.

    >>> grid = FixedPoint(step=2.0**-10, bound=4.0, terms=1000, modulus=2**32)
    >>> grid.encode([0.25, -0.0019]).tolist(), grid.largest
    ([256, -1], 4096)
    >>> grid.from_ring(grid.to_ring(grid.encode([0.25, -0.0019]))).tolist()
    [256, -1]
    """

    step: float
    bound: float
    terms: int
    modulus: int

    def __post_init__(self) -> None:
        """Check the ranges, and that no sum wraps around."""
        step, bound = validate.positive(step=self.step), validate.positive(bound=self.bound)
        if math.frexp(step)[0] != 0.5:
            raise InvalidInput(
                f"`step` must be a power of two; it is {self.step!r}.",
                "Dividing by another number rounds, perhaps away from zero.",
                "Take the next smaller power of two.",
            )
        if isinstance(self.modulus, bool) or not isinstance(self.modulus, int) or self.modulus < 3:
            raise InvalidInput("`modulus` must be an integer, 3 or above.")
        terms = validate.count(terms=self.terms)
        steps = Fraction(bound) / Fraction(step)
        if not 1 <= steps < _MAX_STEPS:
            raise InvalidInput(
                "`bound` must hold from 1 to 2^62 steps.",
                next_step="Give another `step`.",
            )
        if 2 * terms * math.floor(steps) >= self.modulus:
            raise InvalidInput(
                f"{terms} terms of up to {math.floor(steps)} steps do not fit half the modulus.",
                "A sum that wraps around is another sum.",
                "Give a larger step, a smaller bound, or a larger ring.",
            )
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "bound", bound)
        object.__setattr__(self, "terms", terms)  # numpy's integers would wrap around in products

    @cached_property
    def largest(self) -> int:
        """The largest number of steps of one value: floor(bound / step)."""
        return math.floor(Fraction(self.bound) / Fraction(self.step))

    @cached_property
    def bytes_needed(self) -> int:
        """The fewest whole bytes that hold every sum, with its sign."""
        return ((2 * self.terms * self.largest).bit_length() + 7) // 8

    def encode(self, values: ArrayLike) -> IntArray:
        """Return values as steps, rounded towards zero: shape (D,), |steps| <= `largest`.

        Raises `InvalidInput`, without the value, for one that is beyond the bound or not finite,
        and for numbers that a float does not hold exactly: it may be larger than they are.
        """
        given = _floats(values)
        largest = max(given.max(initial=0.0), -given.min(initial=0.0))  # nan where any of them is
        if not largest <= self.bound:
            raise self._beyond()
        steps = np.empty(len(given), np.int64)
        for first in range(0, len(given), _VALUES_AT_A_TIME):
            part = slice(first, first + _VALUES_AT_A_TIME)
            # Exact, as the step is a power of two; the cast then drops the fraction, towards zero.
            steps[part] = given[part] / self.step
        return steps

    def decode(self, steps: IntArray | Iterable[int]) -> FloatArray:
        """Return steps, or sums of them, as numbers: shape (D,); exact up to 2^53 steps."""
        if isinstance(steps, np.ndarray):
            return steps.astype(np.float64) * self.step
        return np.array([float(step) for step in steps], np.float64) * self.step

    def to_ring(self, steps: IntArray) -> RingWords:
        """Return steps as fresh words of 32 or 64 bits, negative ones from the top of the ring.

        Raises `InvalidInput`, without the value, for any beyond `largest`: call it before
        anything is sent.
        """
        kind = self._words()
        if not isinstance(steps, np.ndarray) or steps.dtype != np.int64 or steps.ndim != 1:
            raise InvalidInput("Steps must be a vector of int64.")
        if not -self.largest <= steps.min(initial=0) <= steps.max(initial=0) <= self.largest:
            raise self._beyond()
        words: RingWords = steps.astype(kind)
        return words

    def from_ring(self, words: RingWords) -> IntArray:
        """Return the sum that words of the ring stand for: shape (D,).

        Raises `ProtocolFault` where it is more than `terms` values can make.
        """
        kind = self._words()
        if not isinstance(words, np.ndarray) or words.dtype != kind or words.ndim != 1:
            raise InvalidInput("Words must be a vector of this ring's type.")
        # The upper half of the ring stands for negative sums.
        signed = words.view(np.int32 if kind is np.uint32 else np.int64).astype(np.int64)
        largest_sum = self.terms * self.largest
        if not -largest_sum <= signed.min(initial=0) <= signed.max(initial=0) <= largest_sum:
            raise _impossible()
        return signed

    def to_residues(self, steps: Iterable[int]) -> list[int]:
        """Return steps as integers in [0, modulus); as `to_ring`, for any modulus."""
        try:
            given = [operator.index(step) for step in steps]
        except TypeError:
            raise InvalidInput("Steps must be integers.") from None
        if any(abs(step) > self.largest for step in given):
            raise self._beyond()
        return [step % self.modulus for step in given]

    def from_residues(self, residues: Sequence[int]) -> list[int]:
        """Return the sums that integers in [0, modulus) stand for; as `from_ring`."""
        largest_sum = self.terms * self.largest
        if not all(0 <= residue < self.modulus for residue in residues):
            raise _impossible()
        half = self.modulus // 2
        signed = [residue - self.modulus if residue > half else residue for residue in residues]
        if any(abs(residue) > largest_sum for residue in signed):
            raise _impossible()
        return signed

    def _words(self) -> Any:
        if self.modulus not in _RINGS:
            raise InvalidInput(
                "Only the rings modulo 2^32 and 2^64 have words.",
                next_step="Use `to_residues` and `from_residues`.",
            )
        return _RINGS[self.modulus]

    def _beyond(self) -> InvalidInput:
        return InvalidInput(
            f"A value is not a number of at most {self.bound:.6g}, the bound of what is sent.",
            "A larger one could make the sum wrap around; nothing was sent.",
            "Clip values to the bound, and leave room in it for the noise.",
        )


def _floats(values: ArrayLike) -> FloatArray:
    """Return a vector of numbers as floats, where all of them are the same number still."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError):
        array = np.empty((0, 0))
    if array.ndim != 1 or (len(array) and array.dtype.kind not in "iuf"):
        raise InvalidInput("`values` must be a vector of numbers.")
    floats = array.astype(np.float64, copy=False)
    if array.dtype.kind != "f":
        exact = not len(array) or max(abs(int(array.max())), abs(int(array.min()))) <= 2**53
    else:
        exact = array.itemsize <= 8 or np.array_equal(floats, array)
    if not exact:
        raise InvalidInput(
            "`values` must be numbers that a float of 64 bits holds exactly.",
            "Others would be rounded, perhaps away from zero.",
        )
    return floats


def _impossible() -> ProtocolFault:
    return ProtocolFault(
        "A sum is not one that its terms can make.",
        "A party has sent more than its bound, or two parties used different masks.",
        "Find out which party it was, and begin again.",
    )
