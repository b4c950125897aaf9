"""The worst vectors of one unit in given rounds: a Grothendieck problem, bounded from both sides.

With G = C^T C restricted to the rounds, one unit moves C x by the square root of

    max sum_ij G_ij <v_i, v_j>   over vectors of norm at most 1.

Signs are vectors in one dimension, and sum_ij |G_ij| bounds all.  The maximum is a semidefinite
programme: ascent over one vector at a time comes near it, and every y with diag(y) - G positive
semidefinite bounds it by sum y.  Equal y are the largest eigenvalue of G, times the rounds.
Source: Goemans and Williamson 1995, Section 4 (the programme and its dual); Wang, Chang and Kolter
2018, arXiv 1706.00476 (the ascent).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.linalg import eigh

from ...arrays import FloatArray
from .strategies import UNIT_ROUNDOFF

LOOKS: Final = (10, 90, 400, 1_500)
"""After so many more rounds of the ascent its bounds are looked at."""

CLOSE: Final = 1e-10
"""Relative width of bounds on a square below which nothing is refined."""

WAVE_SWEEPS: Final = 4
"""Rounds of the ascent from eigenvectors, where there are many rounds."""

MAX_CLIMBED_ROUNDS: Final = 128
"""Most rounds of a pattern for which vectors are climbed from anywhere."""

MAX_SPECTRUM_STEPS: Final = 1_024
"""Most rounds for which eigenvalues of C^T C are computed."""

MAX_DIRECTIONS: Final = 12
"""Most dimensions of the vectors that are climbed."""


@dataclass(frozen=True, eq=False)
class Squares:
    """Bounds on the square of a sensitivity; the lower end is attained in so many `dimensions`."""

    lower: float
    upper: float
    dimensions: int = 1


def rounding_margin(rows: int, rounds: int) -> float:
    """Return by how much, relatively, a sum of |C^T C| over pairs of rounds may be off.

    Each entry is off by (rows) u |C|^T |C|, whose sum over pairs of k rounds is at most k times
    that of the squared column norms; the sum itself adds k^2 u.
    """
    return 4.0 * UNIT_ROUNDOFF * rounds * (rows + rounds + 8)


def worst_directions(columns: FloatArray, gram: FloatArray, above: float) -> Squares:
    """Return bounds on the largest squared norm of sum_j columns[:, j] v_j^T, with |v_j| <= 1.

    `gram` is C^T C of the columns.  Nothing is refined once the upper end is at most `above`.
    """
    margin = 1.0 + rounding_margin(*columns.shape)
    upper = float(np.abs(gram).sum()) * margin
    signs = _signs(gram)
    lower, dimensions = attained_square(columns, signs[:, None]), 1
    if upper <= max(above, lower * margin * margin):
        return Squares(lower, max(lower, upper), dimensions)
    if len(gram) > MAX_CLIMBED_ROUNDS:
        return _by_spectrum(columns, gram, Squares(lower, upper))
    vectors = _start(len(gram))
    for sweeps in LOOKS:
        vectors = _climbed(gram, vectors, sweeps)
        upper = min(upper, _dual(gram, vectors, rounding_margin(*columns.shape)))
        by_vectors = attained_square(columns, vectors)
        if by_vectors > lower * (1.0 + 1e-9):
            lower, dimensions = by_vectors, vectors.shape[1]
        if upper <= max(above, lower * (1.0 + CLOSE)):
            break
    return Squares(lower, max(lower, upper), dimensions)


def attained_square(columns: FloatArray, vectors: FloatArray) -> float:
    """Return the squared norm of sum_j columns[:, j] v_j^T, rounded down; vectors are shrunk to 1.

    >>> columns, signs = np.array([[1.0, 0.0], [-1.0, 1.0]]), np.array([[1.0], [-1.0]])
    >>> round(attained_square(columns, signs), 9)
    5.0
    """
    norms = np.maximum(np.sqrt((vectors * vectors).sum(axis=1)) * (1.0 + 1e-15), 1.0)
    if vectors.shape[1] > 1:
        vectors = vectors / (norms * (1.0 + 1e-15))[:, None]
    total = columns @ vectors
    # Each entry of the product is off by at most (rounds) u |C| |V|.
    off = 2.0 * UNIT_ROUNDOFF * (columns.shape[1] + 2) * (np.abs(columns) @ np.abs(vectors))
    least = np.maximum(np.abs(total) - off, 0.0)
    square = float((least * least).sum())
    return square * (1.0 - 2.0 * UNIT_ROUNDOFF * float(least.size + 8))


def _signs(gram: FloatArray) -> FloatArray:
    """Return signs that no single flip improves: of several starts the best."""
    starts = [np.ones(len(gram)), np.where(gram[np.abs(gram).sum(axis=1).argmax()] < 0, -1.0, 1.0)]
    starts.append(np.where(np.arange(len(gram)) % 2 == 0, 1.0, -1.0))
    best, value = starts[0], -np.inf
    for signs in starts:
        fields = gram @ signs
        for _ in range(20 * len(gram)):
            # Flipping i changes the sum by -4 s_i sum_{j != i} G_ij s_j.
            pulls = signs * fields - gram.diagonal()
            worst = int(np.argmin(pulls))
            if pulls[worst] >= -1e-12 * abs(fields[worst]):
                break
            signs[worst] = -signs[worst]
            fields += 2.0 * signs[worst] * gram[worst]
        reached = float(signs @ gram @ signs)
        if reached > value * (1.0 + 1e-12):
            best, value = signs, reached
    return best


def _by_spectrum(columns: FloatArray, gram: FloatArray, known: Squares) -> Squares:
    """Return bounds for many rounds: the largest eigenvalue, and vectors that come near it."""
    size = len(gram)
    if size > MAX_SPECTRUM_STEPS:
        return Squares(known.lower, max(known.lower, known.upper))
    upper = min(known.upper, size * largest_eigenvalue(gram, len(columns)))
    # Where eigenvectors are waves, those of the two largest eigenvalues turn by an equal angle from
    # round to round.
    _, waves = eigh(gram, subset_by_index=[size - 2, size - 1])
    norms = np.sqrt((waves * waves).sum(axis=1))
    vectors = waves / np.where(norms > 0.0, norms, 1.0)[:, None]
    by_vectors = attained_square(columns, _climbed(gram, vectors, WAVE_SWEEPS))
    if by_vectors > known.lower * (1.0 + 1e-9):
        known = Squares(by_vectors, upper, 2)
    return Squares(known.lower, max(known.lower, upper), known.dimensions)


def largest_eigenvalue(gram: FloatArray, rows: int) -> float:
    """Return that of a Gram matrix of so many `rows`, rounded up.

    Infinite for more rounds than it is computed for.

    >>> 3.0 <= largest_eigenvalue(np.array([[2.0, 1.0], [1.0, 2.0]]), 2) <= 3.0 + 1e-12
    True
    """
    steps = len(gram)
    if steps > MAX_SPECTRUM_STEPS:
        return math.inf
    # The eigenvalue may be off by a multiple of u times the trace, and so may the entries.
    off = UNIT_ROUNDOFF * (64.0 * steps + 4.0 * (rows + 8)) * float(gram.trace())
    return float(np.linalg.eigvalsh(gram)[-1]) + off


def _start(size: int) -> FloatArray:
    dimensions = min(size, int(np.sqrt(2.0 * size)) + 1, MAX_DIRECTIONS)
    vectors = np.random.default_rng(0).standard_normal((size, dimensions))
    return np.asarray(vectors / np.sqrt((vectors * vectors).sum(axis=1))[:, None])


def _climbed(gram: FloatArray, vectors: FloatArray, sweeps: int) -> FloatArray:
    """Return unit vectors, each turned to where the others pull it, so many times."""
    vectors = vectors.copy()
    off_diagonal = gram - np.diag(gram.diagonal())
    scale = float(np.abs(gram).sum())
    for _ in range(sweeps):
        gain = 0.0
        for index in range(len(gram)):
            pull = off_diagonal[index] @ vectors
            norm = float(np.sqrt(pull @ pull))
            gain += norm - float(pull @ vectors[index])
            if norm > 0.0:
                vectors[index] = pull / norm
        if gain <= 1e-16 * scale:
            break
    return vectors


def _dual(gram: FloatArray, vectors: FloatArray, margin: float) -> float:
    """Return an upper bound on the square: sum y, with diag(y) - G positive semidefinite."""
    y = ((gram @ vectors) * vectors).sum(axis=1)
    slack = np.diag(y) - gram
    size = len(gram)
    # The least eigenvalue may be off by a multiple of u times the norm, and G by its rounding.
    scale = float(np.abs(slack).sum(axis=1).max() + gram.trace())
    off = (64.0 * size * UNIT_ROUNDOFF + margin) * scale
    least = float(np.linalg.eigvalsh(slack)[0]) - off
    return float(np.abs(y).sum() * (1.0 + 1e-12) + size * max(-least, 0.0) * (1.0 + 1e-12))
