"""Rows of floats on the grid of a Gram matrix: integers whose norm is within the bound, exactly.

Each row of a unit may have squared norm T / k in units of the public row norm R, and a share v of
that is for a public constant, the intercept.  With S = 4^b T / k, a fraction,

    x  ->  q = (z, C)     z = trunc(f x),  f = sqrt(S (1 - v)) / R     C = isqrt(floor(S v))

and z is shortened where |z|^2 is above M = floor(S (1 - v)).  So |q|^2 <= M + C^2 <= S, between
integers, for every input.  Step by step, and which way each errs:

1. f is rounded down to a float, and once more unless it is a power of two, with which products are
   exact.  So the float product f x_j is never above the true one: inwards, by at most 2^-51 of it.
2. Truncation: inwards, by less than a step for each coordinate.
3. |z|^2 is a sum of integers.  Floats add them without error below 2^53; and as rounding is
   monotone, a sum that reaches 2^53 stays there, in whatever order it is added.  So the comparison
   with M < 2^53 is between integers.  A row within R passes, by 1 and 2, and stays as it is.
4. What does not pass is longer than R.  Let y = x 2^-e, with its largest coordinate in [1/2, 1),
   and a_j = ceil(2^p |y_j|): integers with |a| >= 2^p |y|, and |a|^2 <= p' 4^p <= 2^62 for p'
   columns, which 64 bits add without error.  Then z = trunc(g y),

       g = 2^p sqrt(M) (1 - 2^-50) / |a|

   whose last factor takes off more than both roots, the quotient and the products are rounded by.
   Inwards, by at most 2^(1-p) sqrt(p') + 2^-49 of the norm, and by truncation.
5. A row with an infinity, or with what is no number, has z = 0: an error would tell of it.

All else is done to each coordinate by itself.  So q depends on its row alone: not on other rows,
not on the block that it is in, the order in which a library adds, or whether zeros are stored.

Rows are put on the same grid whatever noise is added to their sum: `GramRelease` is what mechanisms
on Gram matrices share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from .. import validate
from ..arrays import BoolArray, FloatArray, IntArray
from ..errors import InvalidInput
from ..sensitivity.gram import GramBound
from ..sensitivity.release import root_down


class GramRelease(Protocol):
    """A mechanism that releases x x^T, and x y^T, of rows on a grid of b bits."""

    @property
    def gram(self) -> GramBound:
        """The shape of the release, and the bounds on one unit."""

    @property
    def bits(self) -> int:
        """b: a row of the public norm has 2^b steps."""

    @property
    def row_norm(self) -> float:
        """R, to which rows are clipped before they are divided by it."""

    @property
    def unit(self) -> str:
        """Whose rows are bounded together: `record`, `user` or `silo`."""

    @property
    def label_scale(self) -> int:
        """s: a label y stands as the integers s y."""


EXACT: Final = 2**53
"""Up to here floats add integers without error."""

IntegerRows: TypeAlias = Any
"""Integers in float64, (n, d): a table, or a sparse one by rows."""

_CACHED_NUMBERS: Final = 2**17
"""Numbers that are worked on together: so many stay in the cache."""

_SHORTER: Final = 1.0 - 2.0**-50
"""Takes off more than the six roundings of what a long row is multiplied by, 2^-53 each."""


@dataclass(frozen=True)
class GridScale:
    """What rows are multiplied by, and how long they may be on the grid; see the module.

    - `square`: S, at most 2^53; `intercept`: v, from 0 to below 1; `row_norm`: R, above 0.

    Raises `InvalidInput` for an S or v out of range.

    >>> scale = GridScale(square=Fraction(4**10), intercept=0.0, row_norm=2.0)
    >>> scale.most, scale.constant, scale.factor
    (1048576, 0, 512.0)
    """

    square: Fraction
    intercept: float
    row_norm: float

    def __post_init__(self) -> None:
        if validate.non_negative(intercept=self.intercept) >= 1.0:
            raise InvalidInput(
                f"`intercept` must be from 0 to below 1; it is {self.intercept:g}.",
                "It is the share of a row's squared norm that a public constant has.",
                "Give 0 for no constant, or 0.2.",
            )
        if self.square >= EXACT:
            raise InvalidInput(
                "On this grid the squared norm of a single row can be 2^53 steps.",
                "Floats do not add products of such rows without error.",
                "Take fewer bits, or a lower trace.",
            )

    @classmethod
    def of(cls, mechanism: GramRelease, intercept: float) -> Self:
        """Return the scale of a mechanism's rows."""
        square = mechanism.gram.row_square * 4**mechanism.bits
        return cls(square, intercept, mechanism.row_norm)

    @cached_property
    def most(self) -> int:
        """M, the most that |z|^2 may be."""
        return math.floor(self.square * (1 - Fraction(self.intercept)))

    @cached_property
    def constant(self) -> int:
        """C, the coordinate of the intercept."""
        return math.isqrt(math.floor(self.square * Fraction(self.intercept)))

    @cached_property
    def exponent(self) -> int:
        """Where R is near the end of the floats, rows are first multiplied by 2^exponent."""
        exponent = math.frexp(self.row_norm)[1]
        return 0 if abs(exponent) <= 900 else -exponent

    @cached_property
    def factor(self) -> float:
        """f 2^-exponent, such that no product with a float is above the true one; 0 if M is 0."""
        if not self.most:
            return 0.0
        mantissa, exponent = math.frexp(self.row_norm)
        room = self.square * (1 - Fraction(self.intercept))
        factor = root_down(room / Fraction(mantissa) ** 2)
        if math.frexp(factor)[0] != 0.5:
            factor = math.nextafter(factor, 0.0)
        return factor if self.exponent else math.ldexp(factor, -exponent)

    def steps(self, values: NDArray[Any], out: FloatArray | None = None) -> FloatArray:
        """Return trunc(f x) of any numbers, coordinate by coordinate."""
        if self.exponent:
            values = np.ldexp(values.astype(np.float64), self.exponent)
        product: FloatArray = np.multiply(
            values, self.factor, out=out, dtype=np.float64, casting="same_kind"
        )
        np.trunc(product, out=product)
        return product


class _Cells(Protocol):
    """Numbers that belong to rows: how to add them up by row, and to give each its row's number."""

    @property
    def values(self) -> NDArray[Any]: ...

    def squared_norms(self, values: NDArray[Any]) -> NDArray[Any]: ...

    def largest(self, values: FloatArray) -> FloatArray: ...

    def spread(self, by_row: FloatArray) -> FloatArray: ...

    def cells_of(self, rows: BoolArray) -> BoolArray: ...

    def only(self, rows: BoolArray) -> _Cells: ...


@dataclass(frozen=True)
class _Dense:
    """A table, (n, p)."""

    values: NDArray[Any]

    def squared_norms(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.einsum("ij,ij->i", values, values))

    def largest(self, values: FloatArray) -> FloatArray:
        lowest, highest = values.min(axis=1, initial=0.0), values.max(axis=1, initial=0.0)
        return np.asarray(np.maximum(highest, -lowest))

    def spread(self, by_row: FloatArray) -> FloatArray:
        return by_row[:, None]

    def cells_of(self, rows: BoolArray) -> BoolArray:
        return rows

    def only(self, rows: BoolArray) -> _Dense:
        return _Dense(self.values[rows])


@dataclass(frozen=True)
class _Sparse:
    """What is stored of a sparse table: `values` (m,) in ascending `row` (m,), of `count` rows."""

    values: NDArray[Any]
    row: IntArray
    count: int

    def squared_norms(self, values: NDArray[Any]) -> NDArray[Any]:
        return self._by_row(np.add, values * values)

    def largest(self, values: FloatArray) -> FloatArray:
        return self._by_row(np.maximum, np.abs(values))

    def spread(self, by_row: FloatArray) -> FloatArray:
        return by_row[self.row]

    def cells_of(self, rows: BoolArray) -> BoolArray:
        return rows[self.row]

    def only(self, rows: BoolArray) -> _Sparse:
        stored = rows[self.row]
        return _Sparse(self.values[stored], self.row[stored], self.count)

    def _by_row(self, function: np.ufunc, values: NDArray[Any]) -> NDArray[Any]:
        results = np.zeros(self.count, values.dtype)
        starts = np.flatnonzero(np.diff(self.row, prepend=-1))
        if len(starts):
            results[self.row[starts]] = function.reduceat(values, starts)
        return results


def grid_rows(
    mechanism: GramRelease, features: Any, *, intercept: float = 0.0
) -> tuple[IntegerRows, int]:
    """Return rows on the grid, (n, d) integers in float64, and how many were shortened.

    `features`: (n, p) in raw units, a table or a sparse one, which stays sparse.  d is p, and one
    more with an `intercept`.  A row is shortened where it is longer than R, by more than truncation
    takes off.  Raises `InvalidInput` as `GridScale`.
    """
    scale = GridScale.of(mechanism, intercept)
    return (sparse_rows if is_sparse(features) else dense_rows)(scale, features)


def is_sparse(table: object) -> bool:
    """Return whether this is a sparse matrix or array of scipy."""
    return bool(sparse.issparse(table))


def dense_rows(scale: GridScale, features: NDArray[Any]) -> tuple[FloatArray, int]:
    """Return the rows of a table on the grid, and how many were shortened."""
    count, columns = features.shape
    table = np.empty((count, columns + bool(scale.intercept)))
    table[:, columns:] = scale.constant
    step = max(1, _CACHED_NUMBERS // max(1, columns))
    shortened = 0
    for first in range(0, count, step):
        part = slice(first, first + step)
        shortened += _to_grid(scale, _Dense(features[part]), table[part, :columns], columns)
    return table, shortened


def sparse_rows(scale: GridScale, features: Any) -> tuple[IntegerRows, int]:
    """Return the rows of a sparse table on the grid, sparse, and how many were shortened."""
    rows = sparse.csr_array(features)
    if not rows.has_canonical_format:  # a place that stands twice is one number, their sum
        rows = rows.copy()
        rows.sum_duplicates()
    count, columns = rows.shape
    row = np.repeat(np.arange(count), np.diff(rows.indptr))
    values = np.empty(len(rows.data))
    shortened = _to_grid(scale, _Sparse(rows.data, row, count), values, columns)
    table: Any = sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    if scale.intercept:
        border = sparse.csr_array(np.full((count, 1), float(scale.constant)))
        table = sparse.hstack([table, border], format="csr")
    return table, shortened


def _to_grid(scale: GridScale, cells: _Cells, out: FloatArray, columns: int) -> int:
    """Write z of all rows, and return how many were shortened."""
    with np.errstate(over="ignore", invalid="ignore"):
        scale.steps(cells.values, out)
        # What is no number fails the comparison too.
        long = ~(cells.squared_norms(out) <= scale.most)
    if long.any():
        out[cells.cells_of(long)] = _shortened(scale, cells.only(long), columns)
    return int(np.count_nonzero(long))


def _shortened(scale: GridScale, cells: _Cells, columns: int) -> FloatArray:
    """Return z of rows that are longer than R: step 4 of the module."""
    with np.errstate(over="ignore"):
        values: FloatArray = cells.values.astype(np.float64)
    largest = cells.largest(values)
    finite = np.isfinite(largest)
    values[cells.cells_of(~finite)] = 0.0
    exponent = np.where(finite, np.frexp(largest)[1], 0)
    # 2^-e itself may be beyond the floats; its two halves are not.
    half = exponent // 2
    values *= cells.spread(np.ldexp(1.0, -half))
    values *= cells.spread(np.ldexp(1.0, half - exponent))
    precision = (62 - columns.bit_length()) // 2
    outwards = np.ceil(np.abs(values) * 2.0**precision).astype(np.int64)
    norms = np.sqrt(cells.squared_norms(outwards))
    room = math.ldexp(math.sqrt(scale.most) * _SHORTER, precision)
    values *= cells.spread(np.divide(room, norms, out=np.zeros_like(norms), where=norms > 0.0))
    return np.trunc(values, out=values)
