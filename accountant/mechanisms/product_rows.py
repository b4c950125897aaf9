"""The exact product that one silo adds: A^T (A Z) of its rows and a basis Z, as integers.

    q, (n, d)    rows on a grid of b bits, |q| <= 2^b exactly (`gram_row_grid`)
    z, (d, r)    the basis on a grid of q bits, |z|_2 <= 2^q exactly (`basis_steps`)
    total        q^T (q z), in steps of R^2 / s 2^-(2b+q), modulo 2^64

**Exact in float64.**  Every partial sum of q_i . z_j is at most |q_i| |z_j| <= 2^(b+q), as a column
of z is no longer than z, and that is below 2^53.  Every partial sum over n rows of q_ik (q_i . z_j)
is at most n 2^(2b+q) by the same inequality, so it is exact for blocks of n <= 2^(53 - 2b - q)
rows, in whatever order BLAS adds.  Blocks are added as 64-bit integers, modulo 2^64.

**One unit.**  A row adds q (q^T z), whose Frobenius norm is |q| |z^T q| <= 2^(2b) 2^q: between
integers, for every input: a basis that is longer is refused, whoever sent it.  Rows are put on the
grid one by one, so no row moves another's.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np
from scipy import sparse

from .. import validate
from ..arrays import FloatArray, IntArray
from ..errors import InvalidInput
from ..sensitivity.product import MAX_COLUMNS, MAX_RANK, ProductBound
from .clip import numbers
from .gram_row_grid import EXACT, GridScale, IntegerRows, dense_rows, is_sparse, sparse_rows
from .noisy_product import NoisyProduct
from .product_grid import MAX_PRODUCT_BITS, MIN_FACTOR_BITS

_MOST_BASIS_BITS: Final = MAX_PRODUCT_BITS - 2 * MIN_FACTOR_BITS
"""Bits of the finest basis, 26: squares of columns are below 2^53, with room for rounding."""

_LEAST_SHRINK: Final = 0.125
"""A basis that is too long is shortened by at least so many steps of its grid."""


class ProductRows:
    """The rows of one silo on the grid of a mechanism, put there once for all rounds.

    - `rows`: (n, d), a table or a sparse one, in raw units; longer rows are clipped to R, and one
      that holds what is no finite number is zero.
    - `most`: for the unit silo, how many rows count, the first ones: from 0 to k, and k by default.
      For other units all of them count.

    `clipped` is how many rows were shortened and `dropped` how many lay beyond the cap, both for
    the sealed sidecar alone.  Raises `InvalidInput` for another number of columns, and another cap.
    """

    def __init__(self, mechanism: NoisyProduct, rows: Any, *, most: int | None = None) -> None:
        self._bound, self._grid = mechanism.product, mechanism.grid_bits
        table = sparse.csr_array(rows) if is_sparse(rows) else numbers(rows, "fiub")
        if table is None or table.ndim != 2 or table.shape[1] != self._bound.dimension:
            raise InvalidInput(
                f"Rows must be a table of numbers with {self._bound.dimension:,} columns.",
                "The product is made for so many, in every silo.",
                "Give a table of shape (rows, columns).",
            )
        here = table[: _kept(self._bound, most, table.shape[0])]
        scale = GridScale(
            square=Fraction(4**self._grid.row_bits), intercept=0.0, row_norm=self._bound.row_norm
        )
        self._rows: IntegerRows
        self._rows, self.clipped = (sparse_rows if is_sparse(here) else dense_rows)(scale, here)
        self.dropped = table.shape[0] - here.shape[0]
        self._block = EXACT >> self._grid.product_bits

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
        """Return q^T (q z) of a basis (d, r) on its grid (`basis_steps`): (values,), row by row.

        Raises `InvalidInput` for a basis of another shape, and for one that is longer than 2^q: its
        products would move farther than the noise is made for.
        """
        total = np.zeros(self._bound.values, np.int64)
        public = self._checked(basis)
        for first in range(0, self.count, self._block):
            block = self._rows[first : first + self._block]
            total += np.asarray(block.T @ (block @ public)).astype(np.int64).reshape(-1)
        return total

    def _checked(self, basis: IntArray) -> FloatArray:
        """Return the integers of a basis as floats, in which they are exact."""
        shape, largest = (self._bound.dimension, self._bound.rank), 2**self._grid.basis_bits
        if basis.shape != shape or basis.dtype != np.int64:
            raise InvalidInput(
                f"A basis must be integers of 64 bits, of shape {shape}.",
                "Exact products are made of integers.",
                "Give what `basis_steps` returns.",
            )
        # Compared as integers, whose size is right but for the least one, which is below 0.
        if (basis.min() < -largest or basis.max() > largest) or (
            square_bound(public := basis.astype(np.float64)) > largest**2
        ):
            raise InvalidInput(
                f"A basis on a grid of {self._grid.basis_bits} bits has a spectral norm of at most "
                f"{largest:,}.",
                "A longer one lets a row move its product farther than the noise is made for.",
                "Give what `basis_steps` returns for these bits.",
            )
        return public


def _kept(bound: ProductBound, most: int | None, count: int) -> int:
    """Return how many rows count: a silo's cap, and for other units all of them."""
    if bound.unit != "silo":
        if most is not None:
            raise InvalidInput(
                f"`most` is given, and the unit is {bound.unit!r}.",
                "Under a cap on all rows, one that comes in for another makes two that move.",
                "Leave it out.",
            )
        return count
    cap = bound.rows if most is None else validate.count_from(0, most=most)
    if cap > bound.rows:
        raise InvalidInput(
            f"`most` must be at most {bound.rows:,}, the rows of one silo; it is {cap:,}.",
            "The noise is made for that many.",
            "Plan for more rows of a silo, or give fewer.",
        )
    return cap


def basis_steps(basis: FloatArray, bits: int) -> IntArray:
    """Return a public basis Z (d, r) on a grid: integers z, and |z|_2 <= 2^bits exactly.

    `bits`: 1 to 26.  A basis of spectral norm at most 1 is as it is, up to rounding; a longer one
    is shortened: first until no column is longer than 1, then until `square_bound` is at most
    4^bits.  Raises `InvalidInput` for what is not finite, for more than 2^24 rows or 2^10 columns.
    """
    if validate.count(bits=bits) > _MOST_BASIS_BITS:
        raise InvalidInput(
            f"`bits` must be from 1 to {_MOST_BASIS_BITS}; it is {bits}.",
            "Products of finer bases are not exact in float64.",
            "Take the `basis_bits` of the mechanism.",
        )
    table = numbers(basis, "fiub")
    with np.errstate(over="ignore"):
        table = None if table is None else table.astype(np.float64)
    if table is None or table.ndim != 2 or not np.isfinite(table).all():
        raise InvalidInput(
            "A basis must be a table of finite numbers.",
            "It is public, and every silo multiplies by it.",
            "Give a table (columns, directions).",
        )
    _check_basis_shape(table)
    limit = 4.0**bits
    # Entries up to 1 first, then columns, so that no square below overflows.
    scaled = table / max(float(np.abs(table).max(initial=0.0)), 1.0)
    scaled *= 2.0**bits / max(float(np.linalg.norm(scaled, axis=0).max(initial=0.0)), 1.0)
    shrink = 2.0**-bits * _LEAST_SHRINK
    while True:
        steps = np.rint(scaled)
        longest = square_bound(steps)
        if longest <= limit:
            return steps.astype(np.int64)
        # Twice as much every time: after some 2 q times at most, all entries are zero.
        scaled *= min(math.sqrt(limit / longest), 1.0 - shrink)
        shrink = min(2.0 * shrink, 0.5)


def square_bound(steps: FloatArray) -> float:
    """Return the largest sum of |z_i . z_j| over columns j, which is at least |z|_2^2 (Gershgorin).

    `steps`: z (d, r), integers in float64 of size 2^53 at most.  What is returned is right below
    2^53, and otherwise 2^53 or above: on the diagonal are sums of integers at or above 0, and as
    rounding is monotone, one that reaches 2^53 stays there.  Where none does, every partial sum of
    z_i . z_j is at most |z_i| |z_j| < 2^53, so all are right; and their sizes add up as the
    diagonal did.
    """
    return float(np.abs(steps.T @ steps).sum(axis=1).max(initial=0.0))


def _check_basis_shape(basis: IntArray | FloatArray) -> None:
    if basis.shape[0] > MAX_COLUMNS or basis.shape[1] > MAX_RANK:
        raise InvalidInput(
            f"A basis has at most {MAX_COLUMNS:,} rows and {MAX_RANK:,} columns.",
            "It has a row for each column of the data, and a column for each direction.",
            "Ask for fewer directions.",
        )
