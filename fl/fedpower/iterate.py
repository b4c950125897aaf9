"""The iterate of a power iteration: where it starts, and how a noisy product becomes the next one.

An iterate Z is a table (d, r) of orthonormal columns, in the order of their singular values.  It is
public: the first is made from a public seed, and all others are functions of released products.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ...accountant.arrays import FloatArray

_START_STREAM: Final = 3
"""The public random stream of the first iterate, under `[data] seed`."""


class Iterate(NamedTuple):
    """An orthonormal basis (d, r), and the singular values (r,) of the product it was made of."""

    basis: FloatArray
    singular_values: FloatArray


def first_basis(dimension: int, rank: int, seed: int) -> FloatArray:
    """Return the first Z (d, r): every coordinate belongs to one column, with a random sign.

    Columns have disjoint supports of equal size, within one, so they are orthonormal; a root and a
    quotient are all that is rounded, so it is the same on every processor.

    >>> start = first_basis(5, 2, seed=0)
    >>> np.abs(start.T @ start - np.eye(2)).max() < 1e-15
    np.True_
    """
    random = np.random.default_rng([seed, _START_STREAM])
    column = random.permutation(dimension) % rank
    signs = 2.0 * random.integers(0, 2, dimension) - 1.0
    basis = np.zeros((dimension, rank))
    basis[np.arange(dimension), column] = signs / np.sqrt(np.bincount(column)[column])
    return basis


def next_iterate(product: FloatArray) -> Iterate:
    """Return the left singular vectors (d, r) of a product, with their singular values.

    They span what its columns span (their orthonormalisation, rotated), and the first k of them are
    its best k directions.  The largest entry of each is positive.
    """
    basis, values, _ = np.linalg.svd(product, full_matrices=False)
    largest = np.abs(basis).argmax(axis=0)
    signs = np.where(basis[largest, np.arange(basis.shape[1])] < 0.0, -1.0, 1.0)
    return Iterate(basis * signs, values)
