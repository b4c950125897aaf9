"""Moments of a mean of log-normal ratios: what n bins that do not overlap leave to be seen.

M = (1/n) sum_i W_i with W_i = exp(sqrt(d) g_i - d/2), g_i independent standard normal.

**Integer powers.**  E M^a = n^-a a! [x^a] (sum_k e^(k (k-1) d / 2) x^k / k!)^n: all terms are
positive, and the power is taken by doubling, in logarithms.

**Neighbours that overlap.**  On a circle of n bins with <m_i, m_i> = d and <m_i, m_k> = e for
neighbours, bins drawn k_1, ..., k_n times weigh a! prod_i e^(k_i (k_i - 1) d/2 + k_i k_{i+1} e) /
k_i!.  Turn the circle so that one of the a draws is in bin 0: bins are then added one by one, by
how often bin 0 and the last were drawn, and how many draws there are so far.

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
from scipy.special import gammaln, ndtr

from ..arrays import FloatArray
from .bins import HiddenBins

UNIT_ROUNDOFF: Final = 2.0**-53

MAX_POWER: Final = 128
"""Largest power whose moment is computed term by term."""

MAX_RING_POWER: Final = 24
"""Largest power whose moment is computed for bins on a circle whose neighbours overlap."""

MAX_LOG_WEIGHT: Final = 600.0
"""Exponents up to this, and sums of a few of them, are far from overflow."""

MAX_HIDDEN: Final = 50.0
"""Above this no ratio is near 1, and negative powers are bounded in closed form."""

SCOUTED_POWER: Final = 48
"""Largest power that a scout looks at."""

NORMAL_CELLS: Final = 640
"""How many cells the normal variable of one ratio is cut into, up to `NORMAL_REACH` either way."""

NORMAL_REACH: Final = 12.0

LAPLACE_STEP: Final = 1e-2
"""The step of log u; the transform is computed for log u up to `LAPLACE_REACH` either way."""

LAPLACE_REACH: Final = 18.0

TAIL_POWERS: Final = 2.0 ** np.arange(1.0, 11.0)
"""Moments by which what lies beyond the last u is bounded."""


@lru_cache(maxsize=1024)
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
    moments = np.asarray(np.maximum(moments, 0.0) + rounding)
    moments[:2] = 0.0
    return moments


@lru_cache(maxsize=64)
def log_ring_moments(bins: int, hidden: float, near: float) -> FloatArray:
    """Return upper bounds on log E L^a of a circle of bins, for a = 0, 1, ..., as far as computed.

    `near` is at most `hidden`, and there are at least 4 bins.

    >>> moment = (np.exp(1.0) + 2.0 * np.exp(0.5) + 1.0) / 4.0
    >>> bool(abs(log_ring_moments(4, 1.0, 0.5)[2] - np.log(moment)) < 1e-9)
    True
    """
    # So far that no weight of a single step leaves the range of floats.
    most = max(min(MAX_RING_POWER, int(np.sqrt(4.0 * MAX_LOG_WEIGHT / hidden))), 1)
    draws = np.arange(most + 1, dtype=np.float64)
    log_factorials = gammaln(draws + 1.0)
    # With m draws so far, n of them in the last bin, weights are kept over e^(m (m - 1) d / 2); k
    # more draws then have the factor e^(n k e - m k d) / k!.  Shape (m, n, k), n at most m.
    total, last = draws[:, None, None], draws[:, None]
    exponents = np.minimum(last, total) * draws * near - total * draws * hidden
    factors = np.exp(exponents - log_factorials)
    # Shape (m, draws in bin 0, draws in the last bin); at first bin 0 is the last.
    weights = np.zeros((most + 1, most + 1, most + 1))
    inside = np.arange(1, most + 1)
    weights[inside, inside, inside] = draws[1:] * np.exp(-log_factorials[1:])
    for _ in range(bins - 1):
        added = weights @ factors
        weights = np.zeros_like(weights)
        for count in range(most + 1):
            weights[count:, :, count] = added[: most + 1 - count, :, count]
    # The last bin is bin 0's neighbour as well; draws in both are at most m.
    closing = np.exp(np.minimum(np.multiply.outer(draws, draws) * near, MAX_LOG_WEIGHT))
    sums = (weights * closing).sum(axis=(1, 2))[1:]
    powers = draws[1:]
    logs = np.log(sums) + 0.5 * powers * (powers - 1.0) * hidden
    logs += log_factorials[1:] - np.log(powers) - (powers - 1.0) * np.log(bins)
    size = 16.0 + np.abs(logs) + powers * powers * hidden + powers * np.log(bins)
    rounding = UNIT_ROUNDOFF * (32.0 * size + 8.0 * bins * (most + 16.0))
    moments = np.concatenate(([0.0], np.maximum(logs, 0.0) + rounding))
    moments[1] = 0.0
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


def log_negative_moments(bins: int, hidden: float, powers: FloatArray) -> FloatArray:
    """Return upper bounds on log E M^-s for each s > 0 of `powers`.

    >>> bool(abs(log_negative_moments(1, 1.0, np.array([2.0]))[0] - 3.0) < 1e-9)
    True
    """
    # The mean of the ratios is at least their geometric mean, and E M^-s at most E W^-s.
    geometric = _log_geometric(bins, hidden, powers)
    single = 0.5 * powers * (powers + 1.0) * hidden
    limits = np.minimum(geometric, single) * (1.0 + 1e-14)
    if bins == 1 or hidden > MAX_HIDDEN:
        return np.asarray(limits)
    log_transform = _log_transform(bins, hidden)
    s, log_u = powers[:, None], _log_points()
    # On a cell [a, a e^h] the chord of F = phi^n is integrated with the weights
    #   a^s (F(a) (A - K) + F(a e^h) K),  A = (e^(s h) - 1)/s,  K = (B - A)/(e^h - 1),
    # where B is A with s + 1 for s.
    first = np.expm1(s * LAPLACE_STEP) / s
    second = np.expm1((s + 1.0) * LAPLACE_STEP) / (s + 1.0)
    right = (second - first) / np.expm1(LAPLACE_STEP)
    chords = np.logaddexp(
        np.log(first - right) + log_transform[:-1], np.log(right) + log_transform[1:]
    )
    inside = np.logaddexp.reduce(s * log_u[:-1] + chords, axis=1)
    # Below the first point the chord begins at F(0) = 1.
    start = powers * log_u[0] + np.log(1.0 / powers + np.exp(log_transform[0])) - np.log1p(powers)
    # Beyond the last, U: E[M^-s; G > U M] <= E[M^-s (G / (U M))^k] for a Gamma(s) variable G.
    raised = powers[:, None] + TAIL_POWERS
    beyond = gammaln(raised) - TAIL_POWERS * log_u[-1] + _log_geometric(bins, hidden, raised)
    total = np.logaddexp(np.logaddexp(inside, start), beyond.min(axis=1)) - gammaln(powers)
    rounding = (
        1e-11
        + 4e-13 * bins
        + 64.0 * UNIT_ROUNDOFF * (np.abs(gammaln(powers)) + powers * LAPLACE_REACH)
    )
    result: FloatArray = np.minimum(np.maximum(total, 0.0) + rounding, limits)
    return result


def _log_geometric(bins: int, hidden: float, powers: FloatArray) -> FloatArray:
    """Return log E G^-s of the geometric mean G of the ratios."""
    return np.asarray(0.5 * powers * hidden * (1.0 + powers / bins))


def _log_points() -> FloatArray:
    return np.arange(-LAPLACE_REACH, LAPLACE_REACH + LAPLACE_STEP, LAPLACE_STEP)


@lru_cache(maxsize=256)
def _log_transform(bins: int, hidden: float) -> FloatArray:
    """Return upper bounds on log of E e^(-u M) = phi(u/n)^n at the points u."""
    root = np.sqrt(hidden)
    edges = np.linspace(-NORMAL_REACH, NORMAL_REACH + root, NORMAL_CELLS + 1)
    ratios = np.exp(root * edges - 0.5 * hidden)
    plain, moved = _normal_masses(edges), _normal_masses(edges - root)
    # The mass of a cell is drawn to its ends such that the mean ratio moved / plain is kept; what
    # lies below counts as ratio 0, what lies above as the last one.
    upward = np.clip((moved - plain * ratios[:-1]) / np.diff(ratios), 0.0, plain)
    masses = np.zeros(ratios.size)
    masses[:-1] += plain - upward
    masses[1:] += upward
    masses[-1] += ndtr(-edges[-1])
    below = ndtr(edges[0])
    points = np.exp(_log_points()) / bins
    transform = below + np.exp(-points[:, None] * ratios) @ masses
    return np.asarray(bins * np.minimum(np.log(transform), 0.0))


def _normal_masses(edges: FloatArray) -> FloatArray:
    """Return the standard normal mass of each cell, from the nearer tail."""
    low, high = edges[:-1], edges[1:]
    mass: FloatArray = np.where(low > 0.0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    return mass


def scouted_epsilon(compared: HiddenBins, reach: float, delta: float) -> float:
    """Return about the epsilon at `delta` of bins moved `reach` times; nothing rests on it."""
    powers = np.arange(SCOUTED_POWER + 1.0)
    moments = log_power_moments(compared.bins, reach**2 * compared.hidden, SCOUTED_POWER)
    if compared.share < 1.0:
        # E (1 - q + q M)^a = sum over k of Bin(a, q)(k) E M^k.
        drawn, orders = powers, powers[:, None]
        terms = (
            gammaln(orders + 1.0)
            - gammaln(drawn + 1.0)
            - gammaln(np.maximum(orders - drawn, 0.0) + 1.0)
            + drawn * np.log(compared.share)
            + (orders - drawn) * np.log1p(-compared.share)
            + moments
        )
        moments = np.logaddexp.reduce(np.where(drawn <= orders, terms, -np.inf), axis=1)
    orders, beta = powers[2:], powers[2:] - 1.0
    curve = 0.5 * orders * reach**2 * compared.shared + moments[2:] / beta
    epsilons = curve + (np.log1p(-1.0 / orders) * orders - np.log(delta * beta)) / beta
    return float(max(epsilons.min(), 0.0))
