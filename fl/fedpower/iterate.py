"""The iterate of a power iteration: where it starts, and how a noisy product becomes the next one.

An iterate Z is a table (d, r) of orthonormal columns, in the order of their singular values.  It is
public: the first is made from a public seed, and all others are functions of released products.

Published algorithms let a node make products by itself between two sums:

    Y_i = M_i Z_i,   Z_i <- orth(Y_i)       p - 1 times; the p-th product is summed

Each Z_i after the first is private, and stands on the same grid as a public one, so products stay
integers.  Such nodes have bases whose columns are turned against each other, and a sum of products
with different bases would cancel; so all are turned towards node b, which the server chooses, in
public (orthogonal Procrustes alignment):

    D_i = argmin |Y_i D - Y_b|_F over orthogonal D  =  U V^T,    U S V^T = svd(Y_i^T Y_b)

**What it reveals.**  As published, Y_b goes to all nodes without any noise: every other node sees
an exact product of node b's rows.  Noise is added afterwards and hides nothing from them.

Source: Liu, Pejo and Tang 2023, Algorithm 1; orthogonal Procrustes: Schoenemann 1966.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import NoisyProduct
from ...accountant.mechanisms.product_rows import ProductRows, basis_steps
from ..parties.network import silo_name

_START_STREAM: Final = 3
"""The public random stream of the first iterate, under `[data] seed`."""


class Iterate(NamedTuple):
    """An orthonormal basis (d, r), and the singular values (r,) of the product it was made of."""

    basis: FloatArray
    singular_values: FloatArray


class NodeProducts(NamedTuple):
    """What the nodes multiply in one round, as integers before any noise; private.

    - `totals`: what each node adds to the sum, (values,).
    - `multiplied`: its last product, from which that was made; usually the same.
    - `bases`: what it multiplied by, (d, r) on the grid of the basis.
    """

    totals: list[IntArray]
    multiplied: list[IntArray]
    bases: list[IntArray]


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


def rotation(product: FloatArray, reference: FloatArray) -> FloatArray:
    """Return the orthogonal D (r, r) for which |product D - reference|_F is least.

    Both are (d, r).

    >>> rotation(np.array([[0.0, 2.0], [1.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 1.0]]))
    array([[0., 1.],
           [1., 0.]])
    """
    left, _, right = np.linalg.svd(product.T @ reference)
    return np.asarray(left @ right)


def aligned(products: Sequence[FloatArray], reference: int) -> list[FloatArray]:
    """Return all products (d, r), each turned towards that of the node `reference`."""
    towards = products[reference]
    return [
        product if node == reference else product @ rotation(product, towards)
        for node, product in enumerate(products)
    ]


def reference_node(number: int, nodes: int) -> int:
    """Return the node that all are aligned to in round `number` (from 1): each in its turn."""
    return (number - 1) % nodes


_LARGEST: Final = 2.0**62
"""Beyond it an integer of an aligned product would not fit."""


def orthonormal(product: FloatArray) -> FloatArray:
    """Return orthonormal columns (d, r) of the same spans as those of `product`, from the left.

    That is Q of a QR factorisation whose R has a positive diagonal, as in the Gram-Schmidt process.
    """
    basis, upper = np.linalg.qr(product)
    return np.asarray(basis * np.where(np.diagonal(upper) < 0.0, -1.0, 1.0))


def exact_steps(
    mechanism: NoisyProduct, nodes: Sequence[ProductRows], basis: IntArray, steps: int
) -> NodeProducts:
    """Return the `steps`-th product of each node, all of them without noise.

    `basis` (d, r) is public, on its grid.  All that is returned is private.
    """
    bits = mechanism.grid_bits.basis_bits
    totals, bases = [], []
    for node in nodes:
        here = basis
        total = node.total(here)
        for _ in range(steps - 1):
            here = basis_steps(orthonormal(mechanism.units(total)), bits)
            total = node.total(here)
        totals.append(total)
        bases.append(here)
    return NodeProducts(totals, totals, bases)


def aligned_steps(mechanism: NoisyProduct, products: NodeProducts, reference: int) -> NodeProducts:
    """Return products of which each is turned towards that of one node, rounded to the grid."""
    product = mechanism.product
    tables = [
        total.astype(np.float64).reshape(product.dimension, product.rank)
        for total in products.multiplied
    ]
    turned = [
        np.rint(np.clip(table, -_LARGEST, _LARGEST)).astype(np.int64).reshape(-1)
        for table in aligned(tables, reference)
    ]
    return products._replace(totals=turned)


def require_full_rank(counts: Sequence[int], columns: int) -> None:
    """Raise `InvalidInput` for a node with fewer rows than an iterate has columns.

    `counts` are private: the error names the node, and no count.
    """
    for node, count in enumerate(counts):
        if count < columns:
            raise InvalidInput(
                f"{silo_name(node)} has fewer rows than an iterate has columns ({columns:,}).",
                "Between two sums it makes its own product orthonormal, which has then too few "
                "directions.",
                "Write synchronise_every = 1, or lower `rank` and `oversampling` in [fedpower].",
            )
