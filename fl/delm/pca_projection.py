"""Components of a released covariance matrix, and records that are projected on them.

    V^T: the k leading eigenvectors of the mean of the clients' noisy covariances
    x  ->  V^T x min(1, R / |x|)

Functions of a release and of each record by itself, so they cost nothing.  Rows of norm at most R
stay so, as the eigenvectors are orthonormal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from ...accountant.arrays import FloatArray
from ..data.federation import Federation

_LARGEST: Final = float(np.finfo(np.float32).max)
_SMALLEST: Final = float(np.finfo(np.float64).tiny)


def mean_matrix(released: FloatArray, features: int, clients: int) -> FloatArray:
    """Return the mean of the clients' matrices, (d, d), of the upper triangle of their sum.

    >>> mean_matrix(np.array([2.0, 4.0, 6.0]), 2, 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    upper = np.zeros((features, features))
    upper[np.triu_indices(features)] = released / clients
    return upper + np.triu(upper, 1).T


def leading_directions(matrix: FloatArray, components: int) -> FloatArray:
    """Return V^T (k, d) of a symmetric matrix: the largest eigenvalue first.

    Each direction has its largest entry positive, so that V is the same in every call.

    >>> leading_directions(np.diag([1.0, 3.0, 2.0]), 2).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    leading = np.linalg.eigh(matrix)[1].T[::-1][:components]
    largest = np.abs(leading).argmax(axis=1)
    signs = np.where(leading[np.arange(len(leading)), largest] < 0.0, -1.0, 1.0)
    return np.ascontiguousarray(leading * signs[:, None])


def projected(federation: Federation, directions: FloatArray, row_norm: float) -> Federation:
    """Return a federation with its features projected, (n, k), those of test records too."""
    return replace(
        federation,
        features=_projected_rows(federation.features, directions, row_norm),
        test_features=_projected_rows(federation.test_features, directions, row_norm),
    )


def _projected_rows(features: Any, directions: FloatArray, row_norm: float) -> Any:
    rows = features.reshape(len(features), -1).astype(np.float64)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    shrunk = np.minimum(1.0, row_norm / np.maximum(norms, _SMALLEST))
    on_components = (rows * shrunk[:, None]) @ directions.T
    # A norm beyond the floats of 32 bits would make no number of a feature.
    return np.clip(on_components, -_LARGEST, _LARGEST).astype(np.float32)
