"""Lower-bound pairs of an epoch of shuffled batches under add-remove.

T batches of equal size, in contribution bounds; every other record at -1, the target at +1.
Without it, all full batches sum to minus their size, and the last one holds one record less.  With
it, in coordinates where the sums without it are 0, with N(v) the releases with means v,

    P = 1/T N(e_T) + 1/T sum_{j<T} N(2 e_j - e_T),     Q = N(0),

as the target stands in each batch equally often: in batch j it replaces a -1 and drives that -1
into the last batch; in the last batch it is one more.  Given the last release, the others are those
of one of T - 1 steps moved by 2 at random, or of none.  What is known of those (the lattice of
ratio_sums.py, or the largest of them, maximum.py) is an attained pair (P', Q') on outcomes; with
the last release x put into intervals, of masses m_0, m_+1, m_-1 under its three means,

    P(x, o) = m_+1(x) Q'(o) / T + (1 - 1/T) m_-1(x) P'(o),     Q(x, o) = m_0(x) Q'(o).

Outcomes of nearly the same likelihood ratio are then merged.  All of that is post-processing, so
the pair is attained.

Two other data sets show less: all others at +1, where one more record only makes the last batch
larger, which is the unsampled release, once, and about what the last batch shows here; and others
at 0, which is random allocation with moves of 1 (allocation.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ...arrays import FloatArray
from .atoms import AtomPair
from .noise import UNIT_ROUNDOFF, AdditiveNoise, GaussianNoise, LaplaceNoise
from .pair import Pair

LAST_BATCH_INTERVALS: Final = 256
"""How many intervals the release of the last batch is put into."""

MERGED_OUTCOMES: Final = 1 << 14
"""How many likelihood ratios are told apart."""

LAST_BATCH_TAIL_MASS: Final = 1e-30
"""Mass beyond the outermost intervals of the last batch."""

LEAST_OUTCOME_MASS: Final = 1e-200
"""Outcomes with less mass under P or Q are left out."""


LEAST_SCALES: Final = {GaussianNoise: 0.05, LaplaceNoise: 0.005}
"""Noise below these leaves hardly an outcome that has mass under P and under Q."""


def enlarged(noise: AdditiveNoise) -> AdditiveNoise:
    """Return the noise, at least as large as `LEAST_SCALES` says, for a lower pair.

    More noise is a post-processing of less: of Gaussian noise by adding the rest, of Laplace noise
    of scale b by adding, with probability 1 - (b/c)^2, Laplace noise of the larger scale c.
    """
    return replace(noise, scale=max(noise.scale, LEAST_SCALES[type(noise)]))


def with_last_batch(noise: AdditiveNoise, hidden: Pair, batches: int) -> Pair:
    """Return the pair of all `batches` releases from `hidden`, that of all but the last one.

    `hidden` is a pair on outcomes, of one of `batches` - 1 steps moved by 2 against none.
    """
    assert hidden.atoms is not None
    known = hidden.atoms
    both = np.isfinite(known.log_p) & np.isfinite(known.log_q)
    moved, plain = np.exp(known.log_p[both]), np.exp(known.log_q[both])
    reach = 1.0 + noise.radius(LAST_BATCH_TAIL_MASS)
    # Laplace noise has kinks, which few intervals miss.
    count = LAST_BATCH_INTERVALS * (2 if isinstance(noise, LaplaceNoise) else 1)
    edges = np.concatenate(([-np.inf], np.linspace(-reach, reach, count - 1), [np.inf]))
    # Masses of each interval with means 0, +1 and -1, shape (intervals,) each.
    still, more, less = (np.exp(noise.log_interval_masses(edges - c)) for c in (0.0, 1.0, -1.0))
    p, q = _merged(moved, plain, (still, more, less), 1.0 / batches)
    kept = (p > LEAST_OUTCOME_MASS) & (q > LEAST_OUTCOME_MASS)
    # Products of two masses each, and sums of at most so many of them.
    summed = 8.0 + count + moved.size
    rounding = 2.0 * (known.rounding + noise.mass_error(reach + 1.0) + UNIT_ROUNDOFF * summed)
    return Pair.of_outcomes(
        AtomPair(np.log(p[kept]), np.log(q[kept]), has_heavy_atoms=False, rounding=rounding)
    )


def _merged(
    moved: FloatArray,
    plain: FloatArray,
    last: tuple[FloatArray, FloatArray, FloatArray],
    share: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the P and Q masses of all releases, merged by likelihood ratio, ascending.

    `moved` and `plain` are P' and Q'; `last` the masses m_0, m_+1, m_-1; `share` is 1 / T.
    """
    intervals = [row for row in np.stack(last, axis=1).tolist() if row[0] > LEAST_OUTCOME_MASS]
    low, high = _log_ratio_range(moved, plain, intervals, share)
    masses = np.zeros((2, MERGED_OUTCOMES))
    for still, more, less in intervals:
        p = share * more * plain + (1.0 - share) * less * moved
        q = still * plain
        positive = (p > 0.0) & (q > 0.0)
        ratio = np.log(p[positive]) - np.log(q[positive])
        position = (ratio - low) * ((MERGED_OUTCOMES - 1) / (high - low))
        where = np.clip(position, 0, MERGED_OUTCOMES - 1).astype(np.intp)
        for row, mass in zip(masses, (p, q), strict=True):
            row += np.bincount(where, mass[positive], MERGED_OUTCOMES)
    return masses[0], masses[1]


def _log_ratio_range(
    moved: FloatArray, plain: FloatArray, intervals: list[list[float]], share: float
) -> tuple[float, float]:
    """Return about the least and the largest log likelihood ratio; any two numbers would do."""
    positive = (moved > 0.0) & (plain > 0.0)
    still, more, less = np.array(intervals).T
    with np.errstate(over="ignore", invalid="ignore"):
        ratio = moved[positive] / plain[positive]
        ends = [
            (share * more + (1.0 - share) * less * end) / still
            for end in (ratio.min(), ratio.max())
        ]
    found = np.concatenate(ends)
    found = found[(found > 0.0) & np.isfinite(found)]
    return float(np.log(found.min())), float(np.log(found.max())) + 1e-9
