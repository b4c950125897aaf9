"""The exact product that one silo adds: A^T (A Z) of its rows and a basis Z, as integers.

    q, (n, d)    rows on a grid of b bits, |q| <= 2^b sqrt(T) exactly (`gram_row_grid`)
    z, (d, r)    the basis on a grid of q bits, |z|_2 <= 2^q exactly (`basis_steps`)
    total        q^T (q z), in steps of R^2 / s 2^-(2b+q), modulo 2^64

**Exact in float64.**  Every partial sum of q_i . z_j is at most |q_i| |z_j| <= 2^(b+q), which is
below 2^53.  Every partial sum over n rows of q_ik (q_i . z_j) is at most n 2^(2b+q) by the same
inequality, so it is exact for blocks of n <= 2^(53 - 2b - q) rows, in whatever order BLAS adds.
Blocks are added as 64-bit integers, modulo 2^64.

**One unit.**  A row adds q (q^T z), whose Frobenius norm is |q| |z^T q| <= 2^(2b) 2^q: between
integers, for every input.  Rows are put on the grid one by one, so no row moves another's.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np

from ..arrays import FloatArray, IntArray
from ..errors import InvalidInput
from .gram_row_grid import EXACT, GridScale, IntegerRows, dense_rows, is_sparse, sparse_rows
from .noisy_product import NoisyProduct

_LEAST_SHRINK: Final = 8.0
"""A basis that is too long is shortened by at least 1 / 8 of a step of its grid."""


class ProductRows:
    """The rows of one silo on the grid of a mechanism, put there once for all rounds.

    `rows`: (n, d), a table or a sparse one, in raw units; longer rows are clipped to R.  `most`:
    how many rows count, the first ones; None for all.  `clipped` is how many rows were shortened,
    for the sealed sidecar alone.  Raises `InvalidInput` for another number of columns.
    """

    def __init__(self, mechanism: NoisyProduct, rows: Any, *, most: int | None = None) -> None:
        bound, grid = mechanism.product, mechanism.grid_bits
        if rows.ndim != 2 or rows.shape[1] != bound.dimension:
            raise InvalidInput(
                f"Rows must have {bound.dimension:,} columns.",
                "The product is made for so many, in every silo.",
                "Give a table of shape (rows, columns).",
            )
        scale = GridScale(square=Fraction(4**grid.row_bits), intercept=0.0, row_norm=bound.row_norm)
        here = rows if most is None else rows[:most]
        self._rows: IntegerRows
        self._rows, self.clipped = (sparse_rows if is_sparse(here) else dense_rows)(scale, here)
        self.dropped = rows.shape[0] - here.shape[0]
        self._block = max(1, EXACT >> grid.product_bits)
        self._values = bound.values

    @property
    def count(self) -> int:
        """How many rows count; private."""
        return int(self._rows.shape[0])

    @cached_property
    def largest_norm(self) -> float:
        """The norm of the longest row, in steps of the grid; private."""
        squares = self._rows.multiply(self._rows) if is_sparse(self._rows) else self._rows**2
        return math.sqrt(float(np.asarray(squares.sum(axis=1)).max(initial=0.0)))

    def total(self, basis: IntArray) -> IntArray:
        """Return q^T (q z) of a basis (d, r) on its grid (`basis_steps`): (values,), row by row."""
        total = np.zeros(self._values, np.int64)
        public = basis.astype(np.float64)
        for first in range(0, self.count, self._block):
            block = self._rows[first : first + self._block]
            total += np.asarray(block.T @ (block @ public)).astype(np.int64).reshape(-1)
        return total


def basis_steps(basis: FloatArray, bits: int) -> IntArray:
    """Return a public basis Z (d, r) on a grid: integers z, and |z|_2 <= 2^bits exactly.

    A basis of spectral norm at most 1 is as it is, up to rounding; a longer one is shortened.  The
    largest sum of |z_i . z_j| over j, an integer, is at least |z|_2^2 (Gershgorin), so z is
    shortened until that is at most 4^bits.  Raises `InvalidInput` for what is not finite.
    """
    if basis.ndim != 2 or not np.isfinite(basis).all():
        raise InvalidInput(
            "A basis must be a table of finite numbers.",
            "It is public, and every silo multiplies by it.",
            "Give a table (columns, directions).",
        )
    limit = 4**bits
    # Larger entries first, so that no product below overflows.
    size = float(np.abs(basis).max(initial=0.0))
    scaled = basis * (2.0**bits / size if size > 1.0 else 2.0**bits)
    while True:
        steps = np.rint(scaled).astype(np.int64)
        longest = int(np.abs(steps.T @ steps).sum(axis=1).max(initial=0))
        if longest <= limit:
            return steps
        scaled = scaled * min(math.sqrt(limit / longest), 1.0 - 2.0**-bits / _LEAST_SHRINK)
