"""Lower-bound pairs: a sum of scores over steps, and the largest of many noisy sums.

Whatever is computed from the releases tells the data sets apart no better than the releases do.
Here each of n steps is given an integer score, an increasing function of where its noisy sum falls,
and only the sum of the scores is looked at.  Its distribution does not depend on which of the steps
a unit takes part in, only on how many: if one step's score has distribution L_c when the unit moves
that step's sum by c,

    P is the distribution of k scores of L_a and n - k of L_0,  Q that of k of L_b and n - k of L_0.

The score is about log((1 - k/n) + (k/n) noise(a)/noise(0)) less the same for b: what would be the
best one if each step drew the unit by itself.  Any score gives a lower bound; a poor one gives a
poor bound.

Masses are convolved directly, so that nothing cancels and rounding stays relative.  What is cut off
on the way is bounded by `lost`; outcomes with so little mass that this could matter are merged into
the outermost ones.

With a unit at 2 c_i in some of n independent sums, the largest has the distribution function
prod F(x - c_i), F that of the noise.  Its intervals are outcomes that the release attains.  Where
the noise is small this is nearly all that there is to see.

Source: Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang 2024, arXiv 2403.17673 (the test
max > C on shuffled batches).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ....arrays import FloatArray
from ....rootfinding import bisect, mean
from ..grid.mixtures import log_mixture
from ..grid.noise import UNIT_ROUNDOFF, AdditiveNoise
from ..grid.pair import Pair
from ..grid.pair_parts import AtomPair

SCORE_POINTS: Final = 4096
"""How many scores the bulk of their sum spans."""

SCORE_TAIL_MASS: Final = 1e-32
"""Mass that a convolution may cut off on each side."""

COMPARISON_DELTA: Final = 1e-6
"""The delta at which pairs are compared."""

MAX_SCORE_STEPS: Final = 10**7
"""With more steps rounding would eat up the bound."""


@dataclass(frozen=True, eq=False)
class _ScorePmf:
    """Masses on consecutive integers; `lost` bounds what was cut, `rounding` is relative."""

    first: int
    masses: FloatArray
    lost: float
    rounding: float

    def plus(self, other: _ScorePmf) -> _ScorePmf:
        # Distribution of the sum of two independent scores; each end is cut below
        # SCORE_TAIL_MASS.
        masses = np.convolve(self.masses, other.masses)
        size = min(self.masses.size, other.masses.size)
        below, above = np.cumsum(masses), np.cumsum(masses[::-1])
        low = int(np.searchsorted(below, SCORE_TAIL_MASS, side="right"))
        high = masses.size - int(np.searchsorted(above, SCORE_TAIL_MASS, side="right"))
        return _ScorePmf(
            self.first + other.first + low,
            masses[low:high],
            self.lost + other.lost + 2.001 * SCORE_TAIL_MASS,
            self.rounding + other.rounding + UNIT_ROUNDOFF * (size + 2.0),
        )

    def times(self, count: int) -> _ScorePmf:
        if count == 0:
            return _ScorePmf(0, np.ones(1), 0.0, 0.0)
        # By doubling: log2(count) convolutions.
        half = self.times(count // 2)
        doubled = half.plus(half)
        return doubled.plus(self) if count & 1 else doubled


def score_pair(noise: AdditiveNoise, steps: int, chosen: int, moves: tuple[float, float]) -> Pair:
    """Return the pair of the sum of scores of `steps` steps, `chosen` of which a unit moves.

    It moves their sums by `moves[0]` (P) or by `moves[1]` (Q, smaller), in the unit of the noise.
    """
    edges, first = _edges(noise, chosen / steps, steps, moves)
    error = noise.mass_error(noise.radius(SCORE_TAIL_MASS) + 2.0)

    def score_pmf(shift: float) -> _ScorePmf:
        return _ScorePmf(first, np.exp(noise.log_interval_masses(edges - shift)), 0.0, error)

    rest = score_pmf(0.0).times(steps - chosen)
    p, q = (score_pmf(shift).times(chosen).plus(rest) for shift in moves)
    return Pair.of_outcomes(_outcomes(p, q))


def strongest_pair(pairs: Sequence[Pair], *, either_way: bool) -> Pair:
    """Return the pair with the largest epsilon at `COMPARISON_DELTA`.

    Each is attained; which one is returned only decides how good a lower bound is.  A pair may be
    returned reversed where its data sets may be taken `either_way`, as under replace-one.
    """
    if either_way:
        return max((*pairs, *(pair.reverse() for pair in pairs)), key=_epsilon_shown)
    return max(pairs, key=lambda pair: max(_epsilon_shown(pair), _epsilon_shown(pair.reverse())))


def _epsilon_shown(pair: Pair) -> float:
    """Return about the epsilon that a pair on outcomes shows at `COMPARISON_DELTA`."""
    assert pair.atoms is not None
    p, q = np.exp(pair.atoms.log_p), np.exp(pair.atoms.log_q)

    # Bisection on epsilon; the hockey stick at e^epsilon falls as epsilon grows.
    def exceeds(epsilon: float) -> bool:
        delta = float(np.maximum(p - math.exp(min(epsilon, 700.0)) * q, 0.0).sum())
        return delta > COMPARISON_DELTA

    width = 1000.0 * 2.0**-40
    return bisect(exceeds, 0.0, 1000.0, stop=lambda a, b: b - a <= width, middle=mean)[0]


def _edges(
    noise: AdditiveNoise, share: float, steps: int, moves: tuple[float, float]
) -> tuple[FloatArray, int]:
    """Return the positions between consecutive scores, ends included, and the first score."""
    reach = noise.radius(SCORE_TAIL_MASS)
    x = np.linspace(min(*moves, 0.0) - reach, max(*moves, 0.0) + reach, 1 << 15)
    score = _log_blend(noise, share, x, moves[0]) - _log_blend(noise, share, x, moves[1])
    masses = np.exp(noise.log_interval_masses(np.concatenate(([-math.inf], x))))
    # Scores are multiples of `width`: 24 standard deviations of their sum span SCORE_POINTS.
    mean = float((masses * score).sum())
    spread = math.sqrt(steps * float((masses * (score - mean) ** 2).sum()))
    width = max(24.0 * spread / SCORE_POINTS, 1e-300)
    highest = min(float(score[-1]), mean + 48.0 * spread)
    lowest = max(float(score[0]), mean - 12.0 * spread)
    first, last = math.floor(lowest / width), math.ceil(highest / width)
    # An edge may lie anywhere: it only says what is counted together.
    between = np.interp((np.arange(first, last) + 0.5) * width, score, x)
    return np.concatenate(([-math.inf], np.maximum.accumulate(between), [math.inf])), first


def _log_blend(noise: AdditiveNoise, share: float, x: FloatArray, shift: float) -> FloatArray:
    """Return log(1 - share + share noise(shift)/noise(0)) at x."""
    if shift == 0.0:
        return np.zeros_like(x)
    unit = type(noise)(noise.scale / abs(shift))
    return log_mixture(share, unit.log_shift_ratio(x / shift))


def _outcomes(p: _ScorePmf, q: _ScorePmf) -> AtomPair:
    first = min(p.first, q.first)
    size = max(pmf.first + pmf.masses.size for pmf in (p, q)) - first
    both = np.zeros((2, size))
    for row, pmf in zip(both, (p, q), strict=True):
        row[pmf.first - first :][: pmf.masses.size] = pmf.masses
    lost = p.lost + q.lost
    # Elsewhere the mass that was cut is a relative error of at most lost / least.
    least = max(1e-20, 1e10 * lost)
    heavy = np.flatnonzero((both > least).all(axis=0))
    if heavy.size:
        low, high = int(heavy[0]), int(heavy[-1]) + 1
        ends = [both[:, :low].sum(axis=1), both[:, high:].sum(axis=1)]
        both = np.column_stack((ends[0], both[:, low:high], ends[1]))
    both = both[:, (both > least).all(axis=0)]
    log_p, log_q = np.log(both)
    return AtomPair(
        log_p, log_q, has_heavy_atoms=False, rounding=2.0 * (p.rounding + q.rounding) + lost / least
    )


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
