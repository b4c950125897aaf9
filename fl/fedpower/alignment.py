"""Orthogonal Procrustes alignment: nodes' products are turned towards that of one of them.

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

import numpy as np

from ...accountant.arrays import FloatArray


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
