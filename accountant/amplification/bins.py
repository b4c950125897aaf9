"""Balls in bins with correlated noise: mixtures of Gaussians, compared through their Gram matrices.

A unit in bin i moves C x + z in the rounds i, i + b, ...; with m_i the sum of those columns of |C|
(entry by entry) and noise of variance 1, the pair is

    P = (1/b) sum_i N(m_i, I)  against  Q = N(0, I),
    P/Q = L = (1/b) sum_i exp(<m_i, y> - |m_i|^2 / 2).

**It dominates.**  Order the rows of C by the last round that each holds; contributions v_t, vectors
of norm at most 1, may depend on the rows before.  Let each row's y arrive as a Brownian motion.
Under Q the weights w_i of the true ratio (1/b) sum_i w_i satisfy dw_i = w_i <u_i, dy>, where in
row r u_i = sum over t in bin i of C[r, t] v_t, so <u_i, u_k> is at most the product of |C|'s sums,
which P has.  For convex f take V(w) = E f((1/b) sum_i w_i G_i), G_i the rest of P's factors.  Its
second derivatives are E f''(.) G_i G_k / b^2 >= 0, so V drifts by

    1/2 sum_ik V_ik w_i w_k (<u_i, u_k> - the same for P) <= 0:

a supermartingale that begins at E f(L) and ends at f of the true ratio.  With f = (x - a)+ and
(1 - a x)+ that is domination in both directions.  What the other units add is known from earlier
rows, once their bins are revealed.

**Kahane's inequality.**  The same argument says that E f(L) never falls when an entry of the Gram
matrix H_ik = <m_i, m_k> is raised.  So any mixture with a larger Gram matrix dominates, and where
C >= 0, one with a smaller Gram matrix is no more than what is attained, by contributions of +1
along one direction and 0 of all others.  With signs in C the attained Gram matrix is that of the
plain sums of columns.

**Replace-one.**  f(x, y) = (x - a y)+ of both ratios has non-negative second derivatives but for
the mixed one, which is at most 0, and <u_i, u'_k> is at least minus P's: so (1/b) sum N(m_i)
against (1/b) sum N(-m_i) dominates, and the same comparison holds.

**Some bins at a time.**  One of the bins r, r + b/n, r + 2 b/n, ... (rounded down, modulo b), at a
uniform r, is a uniform bin, so revealing r leaves n bins that are at least floor(b/n) apart, which
overlap less.  If their Gram matrix is at most h on the diagonal and c elsewhere, they are dominated
by m_i = (sqrt(c), sqrt(h - c) e_i): a Gaussian of sensitivity sqrt(c), which hides nothing, with
random allocation, 1 of n, of one of sensitivity sqrt(h - c).

**From below**, where all H_ik >= 0: blocks of g bins, with H at least h' inside a block and c'
anywhere, attain a Gaussian of sensitivity sqrt(c') with 1 of b/g of one of sensitivity
sqrt(h' - c').  Bins may be set to m_i = 0 besides: then k blocks attain, with the probability
k g / b of a bin in them, 1 of k of sensitivity sqrt(h').  And y along sum_i m_i, which is what
shows most of every bin, attains the average of N(u_i, 1) against N(0, 1), with
u_i = sum_k H_ik / sqrt(sum_jk H_jk).

Source: Choquette-Choo, Ganesh, Haque, Steinke, Thakurta 2024, arXiv 2410.06266 (the pair); Kahane
1985, "Sur le chaos multiplicatif" (the inequality); the adaptive case and the comparisons are
derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from scipy import sparse

from .. import events as ev
from ..arrays import FloatArray
from ..errors import Unsupported
from ..sensitivity.matrix import (
    MAX_MATRIX_ENTRIES,
    column_bands,
    sensitivity_bounds,
    strategy_matrix,
    strategy_steps,
)

UNIT_ROUNDOFF: Final = 2.0**-53

MAX_GRAM_PRODUCTS: Final = 4e10
"""Most multiplications of dense columns that are done to know how bins overlap."""

SPARSE_SHARE: Final = 0.02
"""Column sums with a smaller share of non-zero entries are multiplied as sparse matrices."""

KEPT_PARTS: Final = (1.0, 0.98, 0.95, 0.9, 0.75, 0.5, 0.25, 0.1)
"""The parts of all blocks, those that move most, that are looked at from below."""

MIN_RING_BINS: Final = 4

MAX_RINGS: Final = 3
"""Most circles of bins whose moments are computed."""

MAX_SHIFTS: Final = 128
"""Most different shifts along the sum of all means."""

MAX_SHIFT: Final = 1e30
"""A run that moves by more deviations of the noise, or by less than the inverse, is not compared:
squares of that have to be numbers."""

LEAST_SQUARE: Final = 1e-58
"""Smaller squared shifts count as this much from above, and as none from below."""

SPACINGS: Final = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 512)
"""How far apart the bins are that are looked at together."""


@dataclass(frozen=True)
class HiddenBins:
    """A Gaussian whose mean moves by sqrt(`shared`) whatever the bin is, with 1 of `bins`
    Gaussians that is moved by sqrt(`hidden`); both in squared standard deviations of the noise.

    With probability 1 - `share` none is moved at all; `shared` is 0 where that can be.
    """

    bins: int
    shared: float
    hidden: float
    share: float = 1.0

    @property
    def mechanism(self) -> ev.RandomAllocation | None:
        """The part in which the bin hides; None where nothing does."""
        if self.bins == 1 or self.hidden == 0.0:
            return None
        return ev.RandomAllocation(self.bins, 1, ev.Gaussian(1.0 / math.sqrt(self.hidden)))


@dataclass(frozen=True)
class BinRing:
    """`bins` means on a circle, with a Gaussian moved by sqrt(`shared`): their Gram matrix is
    `hidden` on the diagonal, `near` between neighbours, 0 elsewhere, in variances of the noise."""

    bins: int
    shared: float
    hidden: float
    near: float


@dataclass(frozen=True)
class BinComparisons:
    """`above` and `rings` each dominate the run; `below` are each attained by fixed data sets.

    So is the average of N(u, 1) over the `shifts` u against N(0, 1).
    """

    above: tuple[HiddenBins, ...]
    below: tuple[HiddenBins, ...]
    shifts: tuple[float, ...] = ()
    rings: tuple[BinRing, ...] = ()


@lru_cache(maxsize=16)
def bin_comparisons(event: ev.MatrixGaussian) -> BinComparisons:
    """Return what balls in bins are compared with, from both sides.

    The first of `above` counts the bin as known; there is none for an extreme run.  Raises
    `Unsupported` for a strategy that is too large, or another participation.
    """
    participation = event.participation
    if not isinstance(participation, ev.BallsInBins):
        raise Unsupported(f"The participation `{participation.type}` has no bins.")
    bins, noise = participation.bins, event.noise_multiplier
    if is_extreme(event):
        return BinComparisons((), ())
    known = sensitivity_bounds(event.strategy, participation).bounds.upper / noise
    revealed = HiddenBins(1, _up(known * known), 0.0)
    means = _bin_means(event.strategy, bins) if bins > 1 else None
    if means is None or not _is_feasible(means[0]):
        return BinComparisons((revealed,), ())
    upper, lower = _grams(*means, passes=-(-strategy_steps(event.strategy) // bins), noise=noise)
    below, profile = tuple(_below(lower)), cyclic_profile(upper)
    shifts = tuple(_shifts(upper, lower).tolist()) if below else ()
    return BinComparisons((revealed, *_above(profile)), below, shifts, _rings(profile))


def is_extreme(event: ev.MatrixGaussian) -> bool:
    """Return whether a unit moves C x by so little, or so much, that nothing is compared."""
    moved = sensitivity_bounds(event.strategy, event.participation).bounds.upper
    return not moved / MAX_SHIFT <= event.noise_multiplier <= moved * MAX_SHIFT


def _up(value: float) -> float:
    return max(value * (1.0 + 8.0 * UNIT_ROUNDOFF), LEAST_SQUARE) if value > 0.0 else 0.0


def _is_feasible(means: FloatArray) -> bool:
    rows, bins = means.shape
    return bool(float(rows) * bins * bins <= MAX_GRAM_PRODUCTS)


def _bin_means(strategy: ev.Strategy, bins: int) -> tuple[FloatArray, FloatArray] | None:
    """Return the sums of the columns of |C| and of C in each bin; None where they are too large."""
    try:
        matrix = strategy_matrix(strategy)
    except Unsupported:
        return _banded_means(strategy, bins)
    above = bin_columns(np.abs(matrix), bins)
    return above, above if (matrix >= 0.0).all() else bin_columns(matrix, bins)


def _banded_means(strategy: ev.Strategy, bins: int) -> tuple[FloatArray, FloatArray] | None:
    """Return the same from the bands of a strategy that is too large to be written down."""
    steps = strategy_steps(strategy)
    try:
        bands = column_bands(strategy) if steps * bins <= MAX_MATRIX_ENTRIES else None
    except Unsupported:
        return None
    if bands is None:
        return None
    above = _summed_bands(np.abs(bands), bins)
    return above, above if (bands >= 0.0).all() else _summed_bands(bands, bins)


def _summed_bands(bands: FloatArray, bins: int) -> FloatArray:
    """Return the sums of columns of a matrix in each bin, from C[j + m, j] at [m, j].

    >>> _summed_bands(np.array([[1.0, 1.0, 1.0], [0.5, 0.5, 0.0]]), 2).tolist()
    [[1.0, 0.0], [0.5, 1.0], [1.0, 0.5]]
    """
    steps = bands.shape[1]
    means = np.zeros((steps, bins))
    rounds = np.arange(steps)
    for lag, band in enumerate(bands):
        # A round is in one row of each band, so no entry is named twice.
        means[rounds[lag:], rounds[: steps - lag] % bins] += band[: steps - lag]
    return means


def bin_columns(matrix: FloatArray, bins: int) -> FloatArray:
    """Return m_i as columns: for each bin the sum of its rounds' columns of a matrix.

    >>> bin_columns(np.array([[1.0, 2.0, 3.0]]), 2)
    array([[4., 2.]])
    """
    rows, steps = matrix.shape
    passes = -(-steps // bins)
    padded = np.zeros((rows, passes * bins))
    padded[:, :steps] = matrix
    return np.asarray(padded.reshape(rows, passes, bins).sum(axis=1))


def _grams(
    above: FloatArray, plain: FloatArray, *, passes: int, noise: float
) -> tuple[FloatArray, FloatArray]:
    """Return the Gram matrix of |C|, rounded up, and that of C, rounded down.

    `above` and `plain` are the sums over bins of their columns.
    """
    # Entries are sums of rows x (passes)^2 products of non-negative numbers.
    margin = (above.shape[0] + 2.0 * passes + 16.0) * UNIT_ROUNDOFF
    most = _gram(above) / (noise * noise)
    least = most if plain is above else _gram(plain) / (noise * noise)
    return most * (1.0 + margin), least - most * margin


def _gram(columns: FloatArray) -> FloatArray:
    if np.count_nonzero(columns) < SPARSE_SHARE * columns.size:
        compressed = sparse.csc_array(columns)
        return np.asarray((compressed.T @ compressed).toarray())
    return np.asarray(columns.T @ columns)


def cyclic_profile(gram: FloatArray) -> FloatArray:
    """Return the largest entry of a Gram matrix at each distance of bins on their circle.

    >>> cyclic_profile(np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 1.0]])).tolist()
    [3.0, 1.0, 1.0]
    """
    bins = len(gram)
    # Row i begins with its diagonal entry once it is turned by i places.
    turned = (np.arange(bins)[:, None] + np.arange(bins)) % bins
    profile: FloatArray = np.take_along_axis(gram, turned, axis=1).max(axis=0)
    profile[1:] = np.maximum(profile[1:], profile[:0:-1])
    return profile


def _above(profile: FloatArray) -> list[HiddenBins]:
    result = []
    for count in _counts(profile.size):
        shared = _up(float(_overlaps(profile, count).max()))
        result.append(HiddenBins(count, shared, _up(max(float(profile[0]) - shared, 0.0))))
    return result


def _rings(profile: FloatArray) -> tuple[BinRing, ...]:
    """Return the rings with the least second moments, where neighbours overlap more than others."""
    result = []
    for count in _counts(profile.size):
        if count < MIN_RING_BINS:
            continue
        overlaps = _overlaps(profile, count)
        shared, near = float(overlaps[1:-1].max()), float(max(overlaps[0], overlaps[-1]))
        if near > shared and profile[0] > shared:
            excess = (_up(float(profile[0]) - shared), _up(near - shared))
            result.append(BinRing(count, shared, *excess))
    return tuple(sorted(result, key=_log_second_moment)[:MAX_RINGS])


def _log_second_moment(ring: BinRing) -> float:
    terms = (ring.hidden, math.log(2.0) + ring.near, math.log(ring.bins - 3))
    return ring.shared + float(np.logaddexp.reduce(terms)) - math.log(ring.bins)


def _counts(bins: int) -> list[int]:
    return sorted({bins // spacing for spacing in SPACINGS if bins // spacing > 1})


def _overlaps(profile: FloatArray, count: int) -> FloatArray:
    """Return the largest overlap, m = 1, 2, ... places apart, of `count` bins that are evenly
    spread over the circle."""
    bins = profile.size
    steps = np.arange(1, count) * bins
    # Two positions floor(l b / n) differ by m b / n, rounded down or up.
    return np.maximum(profile[steps // count], profile[-(-steps // count) % bins])


def _below(gram: FloatArray) -> list[HiddenBins]:
    shared, bins = _down(max(float(gram.min()), 0.0)), len(gram)
    if gram.min() < 0.0:
        return []
    result = []
    # The least entry of the g bins from each one on, first of g = 1.
    inside = np.diagonal(gram).copy()
    for block in range(1, bins // 2 + 1):
        if block > 1:
            # The block from i on is that of one bin less from i on and from i + 1 on, and a corner.
            corner = np.diagonal(gram, block - 1)
            inside = np.minimum(np.minimum(inside[:-1], inside[1:]), corner)
        if block not in SPACINGS:
            continue
        least = np.sort(inside[::block][: bins // block])[::-1]
        if bins % block == 0 and least[-1] > shared:
            result.append(HiddenBins(least.size, shared, _down(float(least[-1]) - shared)))
        for kept in sorted({math.ceil(part * least.size) for part in KEPT_PARTS}):
            hidden = float(least[kept - 1])
            if kept * block < bins and hidden > 0.0:
                share = _down(kept * block / bins)
                result.append(HiddenBins(kept, 0.0, _down(hidden), share))
    return result


def _down(value: float) -> float:
    return value * (1.0 - 8.0 * UNIT_ROUNDOFF) if value >= LEAST_SQUARE else 0.0


def _shifts(upper: FloatArray, lower: FloatArray) -> FloatArray:
    """Return by how much each bin moves y along the sum of all means, rounded down."""
    size = math.sqrt(float(upper.sum()))
    rounding = 1.0 - UNIT_ROUNDOFF * (2.0 * upper.size + 32.0)
    moved = np.asarray(np.sort(lower.sum(axis=1)) / size * rounding)
    # A few hundred values stand for all: each for itself and those above it, up to the next.
    places = np.unique(np.linspace(0, moved.size, MAX_SHIFTS, endpoint=False).astype(np.intp))
    return np.repeat(moved[places], np.diff(np.append(places, moved.size)))
