"""How near a subspace is to the one that it estimates, and how much of the rows it holds.

A basis of a subspace is a matrix with orthonormal columns, (d, r).  What is measured here depends
on the subspace alone: signs, order and rotation of the columns change nothing, but of
`frobenius_as_published`.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import svds

from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from .rows import Rows

ORTHONORMAL_TOLERANCE: Final = 1e-6
"""Largest entry of Q^T Q - I that still counts as rounding."""

_MAX_GRAM_SIDE: Final = 3_000
"""Largest side of a Gram matrix that is decomposed whole; above it, leading values are iterated."""


def projector_distance(basis: ArrayLike, other: ArrayLike) -> float:
    """Return ||Q Q^T - V V^T||_F of two bases, (d, r) and (d, k): from 0 to sqrt(r + k).

    It is accurate near 0, as it is computed from what each lacks of the other:
    ||(I - Q Q^T) V||_F^2 + ||(I - V V^T) Q||_F^2.  Raises `InvalidInput` for columns that are not
    orthonormal, and for bases of another number of rows.

    >>> round(projector_distance([[1.0], [0.0]], [[0.0], [1.0]]), 6)
    1.414214
    """
    first, second = _pair(basis, other)
    missing = np.linalg.norm(_outside(first, second)), np.linalg.norm(_outside(second, first))
    return math.hypot(*missing)


def largest_angle(basis: ArrayLike, other: ArrayLike) -> float:
    """Return the largest principal angle between two subspaces, from 0 to pi / 2, in radians.

    Between a smaller and a larger one it is the largest angle between a direction of the smaller
    and the whole of the larger.  From its sine and its cosine, so it is accurate at both ends.
    Raises `InvalidInput` as `projector_distance`.
    """
    large, small = _pair(basis, other)
    if large.shape[1] < small.shape[1]:
        large, small = small, large
    sine = np.linalg.norm(_outside(large, small), 2)
    cosine = np.linalg.svd(large.T @ small, compute_uv=False)[-1]
    return math.atan2(float(sine), float(cosine))


def variance_share(basis: ArrayLike, rows: Rows, components: int) -> float:
    """Return ||A Q||_F^2 over that of the exact leading `components` directions of the rows.

    `basis` is (d, r), `rows` (n, d), dense or sparse, not centred.  With r up to `components` it is
    from 0 to 1, up to rounding; with more columns it may be above 1.  Raises `InvalidInput` for
    columns that are not orthonormal, for `components` below 1 or above d, and for rows of zeros.
    """
    columns = _orthonormal("basis", basis)
    if columns.shape[0] != rows.shape[1]:
        raise InvalidInput(
            f"`basis` has {columns.shape[0]} rows, and a row has {rows.shape[1]} columns.",
            next_step="Give a basis of directions of the rows.",
        )
    return captured_variance(columns, rows) / leading_variance(rows, components)


def captured_variance(basis: FloatArray, rows: Rows) -> float:
    """Return ||A Q||_F^2 of rows A (n, d) and a basis Q (d, r)."""
    return float(np.linalg.norm(rows @ basis) ** 2)


def leading_variance(rows: Rows, components: int) -> float:
    """Return the sum of the `components` largest squared singular values of the rows, above 0."""
    _, squares = leading_directions(rows, components)
    if not squares.sum() > 0.0:
        raise InvalidInput(
            "The rows are all zeros.",
            "They have no variance, of which a share could be told.",
            "Measure on rows that are not.",
        )
    return float(squares.sum())


def leading_directions(rows: Rows, components: int) -> tuple[FloatArray, FloatArray]:
    """Return the leading right singular vectors of the rows, (d, k), and squared singular values.

    Both begin with the largest.  Raises `InvalidInput` for `components` below 1 or above d.
    """
    wanted, columns = validate.count(components=components), int(rows.shape[1])
    if wanted > columns:
        raise InvalidInput(
            f"`components` must be from 1 to {columns}, the columns of the rows; it is {wanted}."
        )
    if columns <= _MAX_GRAM_SIDE or wanted >= min(rows.shape):
        gram = rows.T @ rows
        whole = gram if isinstance(gram, np.ndarray) else gram.toarray()
        values, vectors = np.linalg.eigh(whole)
        order = np.argsort(values)[::-1][:wanted]
        return vectors[:, order], np.maximum(values[order], 0.0)
    _, singular, right = svds(rows, k=wanted, v0=np.ones(min(rows.shape)))
    order = np.argsort(singular)[::-1]
    return right[order].T.astype(np.float64), singular[order].astype(np.float64) ** 2


def frobenius_as_published(iterate: ArrayLike, exact: ArrayLike) -> float:
    """Return ||Z - Z*||_F, the error as the FedPower papers print it.  Do not compare by it.

    Columns of both are defined up to their signs, and where singular values are equal, up to a
    rotation.  So it is up to 2 sqrt(k) for two bases of one subspace: where four of ten components
    come out with the other sign it is 4.0, without any noise.  Shapes are (d, k); raises
    `InvalidInput` for two that differ.

    >>> frobenius_as_published([[1.0], [0.0]], [[-1.0], [0.0]])
    2.0
    """
    first, second = np.asarray(iterate, np.float64), np.asarray(exact, np.float64)
    if first.shape != second.shape or first.ndim != 2:
        raise InvalidInput(
            f"`iterate` and `exact` must be of one shape (d, k); they are {first.shape} and "
            f"{second.shape}."
        )
    return float(np.linalg.norm(first - second))


def _outside(basis: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return what of the vectors is orthogonal to the basis; twice, for accuracy."""
    rest = vectors - basis @ (basis.T @ vectors)
    again: FloatArray = rest - basis @ (basis.T @ rest)
    return again


def _pair(basis: ArrayLike, other: ArrayLike) -> tuple[FloatArray, FloatArray]:
    first, second = _orthonormal("basis", basis), _orthonormal("other", other)
    if first.shape[0] != second.shape[0]:
        raise InvalidInput(
            f"`basis` has {first.shape[0]} rows, and `other` has {second.shape[0]}.",
            next_step="Give two bases in one space.",
        )
    return first, second


def _orthonormal(field: str, given: ArrayLike) -> FloatArray:
    basis = np.asarray(given, np.float64)
    if basis.ndim != 2 or not 0 < basis.shape[1] <= basis.shape[0]:
        raise InvalidInput(
            f"`{field}` must be of shape (d, r), with r from 1 to d; it is {basis.shape}."
        )
    apart = np.abs(basis.T @ basis - np.eye(basis.shape[1])).max()
    if not apart <= ORTHONORMAL_TOLERANCE:  # also where it is NaN
        raise InvalidInput(
            f"The columns of `{field}` are not orthonormal.",
            "Distances of subspaces are computed from orthonormal bases.",
            "Take the Q of its QR decomposition.",
        )
    return basis
