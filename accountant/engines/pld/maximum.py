"""Lower-bound pairs: the largest of many independent noisy sums.

With a unit at 2 c_i in some of n independent sums, the largest has the distribution function
prod F(x - c_i), F that of the noise.  Its intervals are outcomes that the release attains.  Where
the noise is small this is nearly all that there is to see.

Source: Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, arXiv 2403.17673 (the test
max > C on shuffled batches).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ...arrays import FloatArray
from .atoms import AtomPair
from .noise import AdditiveNoise
from .pair import Pair

MAXIMUM_INTERVALS: Final = 1 << 13
"""How many intervals the largest sum is put into."""

MAXIMUM_TAIL_MASS: Final = 1e-30
"""Mass beyond the outermost intervals."""

ShiftCounts = Sequence[tuple[float, int]]
"""How many of the sums are moved by how much."""


def maximum_pair(noise: AdditiveNoise, p: ShiftCounts, q: ShiftCounts) -> Pair:
    """Return the pair of the largest of independent sums, shifted as `p` or as `q` says."""
    count = sum(number for _, number in p)
    top = max(shift for shift, _ in (*p, *q)) + noise.radius(MAXIMUM_TAIL_MASS / count)
    bottom = min(0.0, *(shift for shift, _ in (*p, *q))) - noise.radius(MAXIMUM_TAIL_MASS)
    # Edges of the intervals into which the largest sum is put, shape (intervals,).
    x = np.linspace(bottom, top, MAXIMUM_INTERVALS)
    # Most of that range is below all maxima: keep what is above.
    likely = np.maximum(_log_distribution(noise, p, x), _log_distribution(noise, q, x))
    low = float(x[min(int(np.searchsorted(likely, math.log(MAXIMUM_TAIL_MASS))), x.size - 2)])
    x = np.linspace(low, top, MAXIMUM_INTERVALS)
    log_p, log_q = _log_masses(noise, p, x), _log_masses(noise, q, x)
    finite = np.isfinite(log_p) & np.isfinite(log_q)
    # log F is a multiple of a logarithm with that error, and matters where it is above
    # log(MAXIMUM_TAIL_MASS).
    error = 1e-10 + 8.0 * noise.mass_error(max(abs(bottom), top))
    return Pair.of_outcomes(
        AtomPair(log_p[finite], log_q[finite], has_heavy_atoms=False, rounding=error)
    )


def _log_distribution(noise: AdditiveNoise, shift_counts: ShiftCounts, x: FloatArray) -> FloatArray:
    total: FloatArray = np.sum(
        [count * _log_below(noise, x - shift) for shift, count in shift_counts], axis=0
    )
    return total


def _log_below(noise: AdditiveNoise, x: FloatArray) -> FloatArray:
    """Return log P(noise <= x), to full relative accuracy where that is near 0."""
    rows = np.stack((np.full_like(x, -math.inf), x, np.full_like(x, math.inf)))
    # From below where x <= 0, and log(1 - P(noise > x)) beyond: each keeps its digits.
    below, above = (_log_masses_between(noise, rows[i], rows[i + 1]) for i in (0, 1))
    return np.where(x > 0.0, np.log1p(-np.exp(np.minimum(above, -math.log(2.0)))), below)


def _log_masses_between(noise: AdditiveNoise, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return log P(low < noise <= high) for each pair of ends."""
    return noise.log_interval_masses(np.column_stack((low, high)).ravel())[::2]


def _log_masses(noise: AdditiveNoise, shift_counts: ShiftCounts, x: FloatArray) -> FloatArray:
    """Return log masses of (-inf, x0], (x0, x1], ..., (xn, inf) of the maximum.

    A mass is F(b) - F(a) = F(b) (1 - e^(log F(a) - log F(b))), and log F(b) - log F(a) is a sum of
    log(1 + P(a < noise <= b) / P(noise <= a)): nothing cancels.
    """
    # log F(b) - log F(a) of consecutive edges, infinite b last.
    rise = np.zeros(x.size)
    for shift, count in shift_counts:
        ends = np.concatenate((x - shift, [math.inf]))
        inside = noise.log_interval_masses(ends)
        rise += count * np.log1p(np.exp(inside - _log_below(noise, x - shift)))
    log_f = _log_distribution(noise, shift_counts, x)
    with np.errstate(divide="ignore"):
        inner = np.concatenate((log_f[1:], [0.0])) + np.log(-np.expm1(-rise))
    return np.concatenate((log_f[:1], inner))
