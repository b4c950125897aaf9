"""Products that a node makes by itself between two sums, and the basis that it goes on with.

    Y_i = M_i Z_i,   Z_i <- orth(Y_i)       p - 1 times; the p-th product is summed

The first Z is public.  Each later one is private, and stands on the same grid as a public one, so
products stay integers.

Orthogonal Procrustes alignment: nodes' products are turned towards that of one of them.

    D_i = argmin |Y_i D - Y_b|_F over orthogonal D  =  U V^T,    U S V^T = svd(Y_i^T Y_b)

After steps by itself a node has a basis of its own, whose columns are turned against those of the
others, and a sum of products with different bases would cancel.  All are turned towards node b,
which the server chooses, in public.

**What it reveals.**  As published, Y_b goes to all nodes without any noise: every other node sees
an exact product of node b's rows.  Noise is added afterwards and hides nothing from them.

Source: Liu, Pejo and Tang 2023, Algorithm 1; orthogonal Procrustes: Schoenemann 1966.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import NoisyProduct
from ...accountant.mechanisms.product_rows import ProductRows, basis_steps
from ..parties.network import silo_name
from .power import NodeProducts


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
