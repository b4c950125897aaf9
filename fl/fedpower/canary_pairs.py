"""Pairs of units that are furthest apart in a product A^T A Z: a canary that is in, and out.

A row x adds x (Z^T x)^T, of norm |x| |Z^T x|, to the product of a round.  A row of random direction
has |Z^T x| of about |x| sqrt(r / d); one in the span of Z has |x|, and attains R^2.  So canaries
are rows of norm R along orthonormal directions in the span of the first Z, which is public before
anybody chooses a row:

    unit              in                   out, if it is replaced      moves the product by
    record            a                    b                           R^2, replaced sqrt(2) R^2
    silo, k rows      a, k times           b, k times                  k times that
    entry j, by D     R e_j                (R - D) e_j                 D (2 R - D), or, if more,
                      h + D/2 e_j          h - D/2 e_j                 D sqrt(2 R^2 - D^2 / 2)

with h orthogonal to e_j and |h|^2 = R^2 - D^2 / 4.  These are the bounds of
`accountant.sensitivity.product`, attained.  What two canaries of one release add is orthogonal in
every round, whatever Z is, as their directions are: neither is seen in what is seen of the other.

Here is arithmetic in floats, from public constants alone: neither the clip nor the grid of the
mechanism that is tested has a say in what is claimed of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.sensitivity.product import ProductBound

_FURTHEST: Final = math.sqrt(2.0)
"""An entry that changes by more row norms than this moves a product no further."""


@dataclass(frozen=True, eq=False)
class CanaryPairs:
    """Rows (m, d) of norm at most 1, in units of R: of canaries in, and out; None for absent ones.

    A canary has so many equal rows (`repeats`).
    """

    into: FloatArray
    out: FloatArray | None
    repeats: int = 1

    def __len__(self) -> int:
        return len(self.into)

    def seen(self, product: FloatArray, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what a product (d, r) shows of each canary, and how far the canary moves that.

        With x(Z) = x (Z^T x)^T, in units of R^2:  D = k (in(Z) - out(Z)),  <product, D> / |D|  and
        |D|, each (m,).  Both are measured from a unit that is out.
        """
        towards = self._along(product, basis, self.into)
        squares = _square(self.into, self.into, basis)
        if self.out is not None:
            towards = towards - self._along(product, basis, self.out)
            squares = squares + _square(self.out, self.out, basis)
            squares -= 2.0 * _square(self.into, self.out, basis)
        lengths = np.sqrt(np.maximum(squares, np.finfo(np.float64).tiny))
        return towards / lengths, self.repeats * lengths

    def middle(self, basis: FloatArray) -> FloatArray:
        """Return what is shown of replaced units half way between in and out, (m,); else 0."""
        if self.out is None:
            return np.zeros(len(self))
        # <in(Z) + out(Z), in(Z) - out(Z)> = |in(Z)|^2 - |out(Z)|^2.
        apart = _square(self.into, self.into, basis) - _square(self.out, self.out, basis)
        _, moved = self.seen(np.zeros_like(basis), basis)
        return np.asarray(0.5 * self.repeats**2 * apart / moved)

    @staticmethod
    def _along(product: FloatArray, basis: FloatArray, rows: FloatArray) -> FloatArray:
        # <Y, x (Z^T x)^T> = (x^T Y) . (x^T Z)
        return np.asarray(np.einsum("ij,ij->i", rows @ product, rows @ basis))


def _square(rows: FloatArray, others: FloatArray, basis: FloatArray) -> FloatArray:
    """Return <x (Z^T x)^T, y (Z^T y)^T> = (x . y) (Z^T x . Z^T y) of pairs of rows: (m,)."""
    seen = np.einsum("ij,ij->i", rows @ basis, others @ basis)
    return np.asarray(np.einsum("ij,ij->i", rows, others) * seen)


def directions_each(bound: ProductBound, *, replaced: bool) -> int:
    """Return how many directions of the span of Z each canary takes."""
    if bound.unit == "entry":
        return 2 if _slanted(bound) else 1
    return 2 if replaced else 1


def canary_pairs(
    bound: ProductBound, span: FloatArray, count: int, *, replaced: bool
) -> CanaryPairs:
    """Return the pairs of so many canaries, along the columns of `span` (d, n).

    Columns are orthonormal, and for entries they are axes: an entry changes along one.  There must
    be `directions_each` of them for each canary.
    """
    first, second = span.T[:count], span.T[count : 2 * count]
    if bound.unit != "entry":
        return CanaryPairs(first, second if replaced else None, bound.rows)
    assert bound.largest_change is not None
    change = min(bound.largest_change / bound.row_norm, _FURTHEST)
    if not _slanted(bound):
        return CanaryPairs(first, (1.0 - change) * first)
    across = math.sqrt(1.0 - change**2 / 4.0) * second
    return CanaryPairs(across + change / 2.0 * first, across - change / 2.0 * first)


def _slanted(bound: ProductBound) -> bool:
    """Return whether an entry moves more with another one than by itself."""
    assert bound.largest_change is not None
    change = min(bound.largest_change / bound.row_norm, _FURTHEST)
    return math.sqrt(2.0 - change**2 / 2.0) > 2.0 - change
