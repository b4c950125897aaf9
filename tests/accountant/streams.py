"""Streams that the tests of exact draws share."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np

from privplan.accountant.randomness import Stream, Streams


def stream(seed: int = 1) -> Stream:
    return Streams.seeded(seed).stream("noise")


class Scripted:
    """A stream that gives the words it was told to; so do its forks."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def fork(self) -> Scripted:
        return self

    def integers64(self, count: int) -> np.ndarray:
        taken, self.words = self.words[:count], self.words[count:]
        assert len(taken) == count, "more words were drawn than expected"
        return np.array(taken, dtype=np.uint64)


def exactly(x: Fraction, digits: int = 60) -> Fraction:
    """Return e^-x to so many digits, by another library."""
    with mpmath.workdps(digits + 10):
        number = mpmath.exp(-mpmath.mpf(x.numerator) / x.denominator)
        sign, mantissa, exponent, _ = number._mpf_
        assert sign == 0
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
