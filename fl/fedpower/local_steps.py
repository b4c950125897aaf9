"""Products that a node makes by itself between two sums, and the basis that it goes on with.

    Y_i = M_i Z_i,   Z_i <- orth(Y_i)       p - 1 times; the p-th product is summed

The first Z is public.  Each later one is private, and stands on the same grid as a public one, so
products stay integers.
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
from .alignment import aligned
from .power import NodeProducts

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
