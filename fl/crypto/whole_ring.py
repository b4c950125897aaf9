"""All integers of 64 bits, summed modulo 2^64: what may wrap around, and is meant to.

`FixedPoint` refuses a number that could make a sum wrap around, and a refusal tells something of
that number.  Where nothing may be told, as of sums of private records that have a meaning modulo
2^64, every word is taken as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...accountant import validate
from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput
from .masks import RingWords


@dataclass(frozen=True)
class WholeRing:
    """How `terms` vectors of int64 travel and are summed modulo 2^64; as `FixedPoint`, unbounded.

    >>> ring = WholeRing(terms=2)
    >>> words = ring.to_ring(np.array([2**63 - 1, -5]))
    >>> ring.from_ring(words + words).tolist()
    [-2, -10]
    """

    terms: int
    step: ClassVar[float] = 1.0
    bound: ClassVar[float] = 2.0**63
    modulus: ClassVar[int] = 2**64
    bytes_needed: ClassVar[int] = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "terms", validate.count(terms=self.terms))

    def to_ring(self, steps: IntArray) -> RingWords:
        """Return integers as fresh words, negative ones from the top of the ring.

        Raises `InvalidInput` for what is no vector of int64, whatever its values are.
        """
        if not isinstance(steps, np.ndarray) or steps.dtype != np.int64 or steps.ndim != 1:
            raise InvalidInput("Steps must be a vector of int64.")
        words: RingWords = steps.astype(np.uint64)
        return words

    def from_ring(self, words: RingWords) -> IntArray:
        """Return the integers that words stand for, from -2^63 to 2^63 - 1: shape (D,)."""
        if not isinstance(words, np.ndarray) or words.dtype != np.uint64 or words.ndim != 1:
            raise InvalidInput("Words must be a vector of this ring's type.")
        return words.astype(np.int64)
