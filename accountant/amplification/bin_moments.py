"""Moments of a mean of log-normal ratios: what n bins that do not overlap leave to be seen.

M = (1/n) sum_i W_i with W_i = exp(sqrt(d) g_i - d/2), g_i independent standard normal.

**Integer powers.**  E M^a = n^-a a! [x^a] (sum_k e^(k (k-1) d / 2) x^k / k!)^n: all terms are
positive, and the power is taken by doubling, in logarithms.

**Negative powers.**  For s > 0, E M^-s = (1/Gamma(s)) integral of u^(s-1) phi(u/n)^n du, with phi
the Laplace transform of W, and d(u^s)/s = u^(s-1) du.  phi^n falls and is convex in u, so chords
between points of a grid lie above it; beyond the grid phi^n is at most its last value times what
remains of a power, below it at most 1.  phi itself is an integral of e^(-u w), convex in w: each
cell's mass goes to its two ends such that the cell's mean is kept.
Source: derived here; the integer powers also in Schuchardt and Kalinin 2026, arXiv 2601.21636.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import gammaln

from ..arrays import FloatArray

UNIT_ROUNDOFF: Final = 2.0**-53

MAX_POWER: Final = 128
"""Largest power whose moment is computed term by term."""


@lru_cache(maxsize=256)
def log_power_moments(bins: int, hidden: float, most: int = MAX_POWER) -> FloatArray:
    """Return upper bounds on log E M^a for a = 0, ..., `most`.

    >>> log_power_moments(1, 1.0, 3).round(9).tolist()
    [0.0, 0.0, 1.0, 3.0]
    """
    powers = np.arange(most + 1, dtype=np.float64)
    result: FloatArray | None = None
    factor = 0.5 * powers * (powers - 1.0) * hidden - gammaln(powers + 1.0)
    left = bins
    while True:
        if left & 1:
            result = factor if result is None else _product(result, factor)
        left >>= 1
        if not left:
            break
        factor = _product(factor, factor)
    assert result is not None
    moments = result + gammaln(powers + 1.0) - powers * np.log(bins)
    # Each logarithm of the n factors is off by a few roundings of its size, and sums add `most`.
    size = 1.0 + np.abs(result) + gammaln(powers + 1.0) + powers * np.log(bins)
    rounding = UNIT_ROUNDOFF * (16.0 * size * (2.0 + np.log2(bins)) + 4.0 * bins * (most + 16.0))
    moments = np.maximum(moments, 0.0) + rounding
    moments[:2] = 0.0
    return moments


def _product(left: FloatArray, right: FloatArray) -> FloatArray:
    """Return the logs of the coefficients of a product of power series, cut at their length."""
    size = left.size
    # Entry [m, k] is left[m - k] + right[k], -inf where k > m.
    index = np.arange(size)[:, None] - np.arange(size)
    terms = np.where(index >= 0, left[index] + right, -np.inf)
    peaks = terms.max(axis=1, keepdims=True)
    total: FloatArray = peaks[:, 0] + np.log(np.exp(terms - peaks).sum(axis=1))
    return total


def scouted_epsilon(bins: int, shared: float, hidden: float, delta: float) -> float:
    """Return about the epsilon at `delta` of such bins beside a Gaussian; nothing rests on it."""
    orders = np.arange(2.0, MAX_POWER + 1.0)
    moments = log_power_moments(bins, hidden)[2:] if bins > 1 else 0.5 * orders * (
        orders - 1.0
    ) * hidden
    beta = orders - 1.0
    curve = 0.5 * orders * shared + moments / beta
    epsilons = curve + (np.log1p(-1.0 / orders) * orders - np.log(delta * beta)) / beta
    return float(max(epsilons.min(), 0.0))
