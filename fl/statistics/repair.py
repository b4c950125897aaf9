"""Noisy Gram matrices made positive: eigenvalues cut at 0, plus a public floor.

    G  =  U diag(l) U^T     ->     U diag(max(l, 0) + f) U^T

A sum of x x^T has no negative eigenvalue, but with noise it has some, as low as the noise's
spectral norm, about sigma sqrt(2 d).  The floor f is a public multiple of that norm, so nothing
here looks at anything but what was released, and no matrix is too singular to be solved.
"""

from __future__ import annotations

import numpy as np

from ...accountant.arrays import FloatArray


def repaired(gram: FloatArray, floor: float) -> FloatArray:
    """Return a symmetric matrix (d, d) with its eigenvalues cut at 0, and raised by `floor`.

    >>> repaired(np.diag([3.0, -2.0]), 0.5).tolist()
    [[3.5, 0.0], [0.0, 0.5]]
    """
    values, vectors = np.linalg.eigh(gram)
    return np.asarray((vectors * (np.maximum(values, 0.0) + floor)) @ vectors.T)


def solve(gram: FloatArray, sums: FloatArray, *floors: float) -> list[FloatArray]:
    """Return, for each floor, the repaired inverse of `gram` (d, d) times `sums` (d, m).

    Never an error: where an eigenvalue is 0, and the floor too, the solution has no part in that
    direction.

    >>> [found.ravel().tolist() for found in solve(np.diag([4.0, -2.0]), np.ones((2, 1)), 1.0, 0.0)]
    [[0.2, 1.0], [0.25, 0.0]]
    """
    values, vectors = np.linalg.eigh(gram)
    along = vectors.T @ sums
    return [np.asarray(vectors @ (_inverse(values, floor)[:, None] * along)) for floor in floors]


def _inverse(values: FloatArray, floor: float) -> FloatArray:
    raised = np.maximum(values, 0.0) + floor
    # What float64 has lost of the largest eigenvalue is no eigenvalue.
    least = raised.max(initial=0.0) * len(raised) * np.finfo(np.float64).eps
    return np.divide(1.0, raised, out=np.zeros_like(raised), where=raised > least)
