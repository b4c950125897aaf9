"""Binomial probabilities to a few units of rounding, by Stirling's formula, and their tails."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import xlogy

from ...arrays import FloatArray
from ..sums import UNIT_ROUNDOFF


def reach(variance: float, depth: float) -> float:
    """Return a distance from the mean that a binomial passes with probability at most e^-depth.

    On either side: s with s^2 / (2 (v + s/3)) = depth, Bernstein's inequality.
    """
    return depth / 3.0 + math.sqrt(depth * depth / 9.0 + 2.0 * variance * depth)


def log_half_binomial(m: FloatArray, k: FloatArray) -> FloatArray:
    """Return log of C(m, k) / 2^m to relative 64 u; -inf for k outside [0, m].

    The exponent (m/2) ((1+x) log(1+x) + (1-x) log(1-x)), x = 2k/m - 1, is written so that nothing
    cancels.
    """
    inside = (k >= 0.0) & (k <= m)
    k = np.where(inside, k, 0.0)
    size = np.maximum(m, 1.0)
    x = (2.0 * k - m) / size
    # Near the middle by atanh and log1p, further out by k log k: neither cancels.
    near = np.where(np.abs(x) < 0.5, x, 0.0)
    by_halves = 0.5 * m * (2.0 * near * np.arctanh(near) + np.log1p(-near * near))
    by_parts = xlogy(k, 2.0 * k / size) + xlogy(m - k, 2.0 * (m - k) / size)
    exponent = np.where(np.abs(x) < 0.5, by_halves, by_parts)
    logs = _log_stirling(m) - _log_stirling(k) - _log_stirling(m - k) - exponent
    return np.where(inside, logs, -np.inf)


def log_binomial(k: FloatArray, trials: int, success: float, failure: float) -> FloatArray:
    """Return upper bounds on the log probabilities of k successes, each right up to rounding.

    `success` and `failure` add up to 1, and each is right to 8 units of its own.  The exponent is
    g(k, n p) + g(n - k, n - n p), where g(k, y) = k log(k/y) - k + y = y h(k/y - 1) with
    h(u) = (1+u) log(1+u) - u; a relative error in y moves it by (k - y) as much.
    """
    # log n! by Stirling; 64 units cover it and the two factorials below.
    logs = np.full(k.shape, float(_log_stirling(np.array([float(trials)]))[0]))
    error = np.full(k.shape, 64.0)
    for count, share in ((k, success), (trials - k, failure)):
        expected = trials * share
        # h(u) = (1+u) log(1+u) - u at u = k/(np) - 1, for successes and for failures.
        off = (count - expected) / expected if expected > 0.0 else np.zeros_like(count)
        with np.errstate(divide="ignore", invalid="ignore"):
            h = np.where(off > -1.0, (1.0 + off) * np.log1p(off) - off, 1.0)
        logs -= _log_stirling(count) + np.where(count > 0.0, expected * h, expected)
        error += 16.0 * np.abs(count - expected) + 8.0 * expected * np.abs(h)
    return logs + UNIT_ROUNDOFF * error


def log_tail(trials: int, success: float, most: int) -> float:
    """Return an upper bound on log P(Bin(trials, success) > most), `most` at least the mean.

    The ratio of neighbouring probabilities falls, so a geometric series is above the tail.
    """
    if most >= trials:
        return -math.inf
    first = float(most + 1)
    failure = 1.0 - success
    # p(k+1)/p(k) at the first k of the tail, and it only falls: a geometric series above it.
    ratio = (trials - first) / (first + 1.0) * success / failure if failure > 0.0 else 1.0
    if ratio >= 1.0:
        return 0.0
    at = float(log_binomial(np.array([first]), trials, success, failure)[0])
    return min(at - math.log1p(-ratio) + 1e-12 * (1.0 + 1.0 / (1.0 - ratio)), 0.0)


_SMALL: Final = np.array(
    [0.0] + [math.lgamma(n + 1.0) - n * math.log(n) + n for n in range(1, 16)], dtype=np.float64
)


def _log_stirling(n: FloatArray) -> FloatArray:
    """Return log n! - n log n + n for integers n >= 0."""
    # Four terms of Stirling's series from 16 on (below 1e-15), a table under it.
    large = np.maximum(n, 16.0)
    inverse = 1.0 / large
    square = inverse * inverse
    series = inverse * (
        1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0))
    )
    by_series = 0.5 * np.log(2.0 * math.pi * large) + series
    result: FloatArray = np.where(n < 16.0, _SMALL[np.minimum(n, 15.0).astype(np.intp)], by_series)
    return result
