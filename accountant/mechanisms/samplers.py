"""Exact noise on the integers, for any float scale.

`discrete_gaussian`   P(x) ~ e^(-x^2 / (2 s^2))
`discrete_laplace`    P(x) ~ e^(-|x| / s)
`rounded_laplace`     a Laplace variable of scale s, rounded to the nearest integer

Each draw has exactly this distribution, given uniform random bits: no float is rounded into it
(see `tables` and `exponentials`).  Shapes: (count,), 64-bit integers.  Range of s: [2^-20, 2^40].
Source: Canonne, Kamath and Steinke 2020, arXiv 2004.00010v5 (the distributions and why noise must
be drawn exactly; Mironov 2012 breaks noise made of floats).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ..randomness import Stream
from .exponentials import bernoulli, scaled_exp
from .tables import Integers, table


def discrete_gaussian(stream: Stream, count: int, scale: float) -> Integers:
    """Return `count` draws with P(x) ~ e^(-x^2 / (2 scale^2)) on all integers x."""
    return table("gaussian", scale).draw(stream, count, signed=True)


def discrete_laplace(stream: Stream, count: int, scale: float) -> Integers:
    """Return `count` draws with P(x) ~ e^(-|x| / scale) on all integers x."""
    return table("laplace", scale).draw(stream, count, signed=True)


def rounded_laplace(stream: Stream, count: int, scale: float) -> Integers:
    """Return `count` Laplace variables of this scale, rounded to the nearest integer.

    P(|x| >= k) = e^(-(k - 1/2) / scale) for k >= 1: nothing is rounded to 0 but what lies within
    1/2, and beyond, the distance is geometric.
    """
    distance = 1 + table("laplace", scale).draw(stream, count, signed=False)
    away = bernoulli(stream, count, scaled_exp(1 / (2 * Fraction(scale)), Fraction(1)))
    sign = 1 - 2 * (stream.integers64(count) >> np.uint64(63)).astype(np.int64)
    return np.where(away, sign * distance, 0)
