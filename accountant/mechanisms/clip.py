"""Clipping: rows of floats become rows of integers whose norm is at most the bound, exactly.

A row r with weight v stands on the grid g as z = trunc(k r v / g), where k <= 1 shrinks it so that
the norm of z is at most L = floor(bound v / g).  The arithmetic is done in float64 with a margin
that covers its rounding, so the inequality is one between integers, for every input.  With u =
2^-53 and a power of two 2^-e that brings the largest coordinate near 1:

    y = r 2^-e      exact, up to underflow of coordinates below 2^-900 of the largest
    n = |y|         computed: at least |y| (1 - (D + 4) u), in whatever order it is summed
    f = min(v 2^e / g, L (1 - m) / n),   m = (D + 16) 2^-52
    z = trunc(f y)

|f y| <= L (1 - m) (1 + 4u) |y| / n <= L, since m is twice the sum of all errors; and truncation
towards zero moves no coordinate outwards.  The L1 norm is treated alike.  A row that holds an
infinity or no number counts as zero.  Integers stay below 2^53, where floats are exact.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import records, validate
from ..arrays import FloatArray, IntArray
from ..errors import InvalidInput
from .base import Mechanism

Norm: TypeAlias = Literal["l1", "l2"]

_BLOCK_NUMBERS: Final = 1 << 16
"""Numbers in one block of rows, so that it stays in the cache."""

_MAX_ROW_NORM: Final = 2.0**52
"""Largest norm of an integer row."""

_MIN_GRID: Final = 2.0**-1000
"""Smallest step of a grid: weights in steps stay finite."""

MAX_SUM: Final = 2**61
"""Largest sum; noise has as much room again in a 64-bit integer, and its tails end long before."""


@dataclass(frozen=True, eq=False)
class Sparse:
    """Rows of a wide table that are zero but for a few places, as many in each row.

    `values` (n, k) stand in `columns` (n, k), all different within a row, of a table that is
    `width` wide.  Everything that takes rows of this module treats them as that table.  Raises
    `InvalidInput`.

    >>> rows = Sparse([[0, 4], [1, 2]], [[3.0, 4.0], [0.5, 0.0]], width=5)
    >>> clipped_sum(rows, None, bound=1.0, grid=0.125, norm="l2").tolist()
    [4, 4, 0, 0, 5]
    """

    columns: IntArray
    values: FloatArray
    width: int

    def __post_init__(self) -> None:
        columns, values = numbers(self.columns, "iu"), numbers(self.values)
        width = validate.count(width=self.width)
        if columns is None or values is None or values.ndim != 2 or columns.shape != values.shape:
            raise InvalidInput("Sparse rows are two tables of numbers, (rows, places) each.")
        ordered = np.sort(columns.astype(np.int64), axis=1)
        within = not ordered.size or (ordered[:, 0].min() >= 0 and ordered[:, -1].max() < width)
        if not within or (ordered[:, 1:] == ordered[:, :-1]).any():
            raise InvalidInput(
                f"The columns of a sparse row are different, and from 0 to {width - 1}.",
                "A place that stands twice would count for more than its norm says.",
            )
        object.__setattr__(self, "columns", columns.astype(np.int64))
        object.__setattr__(self, "values", values)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, chosen: NDArray[Any]) -> Sparse:
        """Return some of the rows."""
        return Sparse(self.columns[chosen], self.values[chosen], self.width)

    def dense(self) -> FloatArray:
        """Return the table that this stands for: (n, width)."""
        table = np.zeros((len(self), self.width))
        np.put_along_axis(table, self.columns, self.values, axis=1)
        return table


def clipped_sum(
    rows: ArrayLike | Sparse,
    weights: ArrayLike | None,
    *,
    bound: float,
    grid: float,
    norm: Norm,
    heaviest: float = 1.0,
) -> IntArray:
    """Return the sum of the weighted rows on the grid, each clipped to bound x weight; see above.

    `rows` is (n, D), `weights` (n,) in [0, `heaviest`] or None for ones; the result is (D,).
    Raises `InvalidInput` for other shapes, weights out of range, and where sums could overflow.
    """
    table = rows if isinstance(rows, Sparse) else _table(rows)
    everybody = np.zeros(len(table), dtype=np.int64)
    (total,) = clipped_sums(
        table, everybody, 1, weights, bound=bound, grid=grid, norm=norm, heaviest=heaviest
    )
    return np.asarray(total)


def clipped_sums(
    rows: ArrayLike | Sparse,
    groups: ArrayLike,
    count: int,
    weights: ArrayLike | None,
    *,
    bound: float,
    grid: float,
    norm: Norm,
    heaviest: float = 1.0,
) -> IntArray:
    """Return what `clipped_sum` does of each of `count` groups of rows by itself: (count, D).

    `groups` (n,) says which group each row belongs to, from 0.  Raises as `clipped_sum`, for all
    groups together.
    """
    table = rows.values if isinstance(rows, Sparse) else _table(rows)
    factors = _weights(weights, len(table), heaviest)
    owners = _groups(groups, len(table), count)
    largest = limits(bound, grid, factors)
    heaviest_term = float(largest.max(initial=0.0))
    # The norm bounds of all rows together bound every coordinate of the sum: no overflow.
    if heaviest_term > _MAX_ROW_NORM or (
        heaviest_term * len(table) > MAX_SUM // 2 and sum(map(int, largest)) > MAX_SUM
    ):
        raise too_large()
    if isinstance(rows, Sparse):
        totals = np.zeros((count, rows.width), dtype=np.int64)
        terms = clipped(table, factors, largest, grid, norm)
        np.add.at(totals, (owners[:, None], rows.columns), terms)
        return totals
    totals = np.zeros((count, table.shape[1]), dtype=np.int64)
    if (owners[1:] < owners[:-1]).any():
        order = np.argsort(owners, kind="stable")
        table, owners = table[order], owners[order]
        factors, largest = factors[order], largest[order]
    # Block by block of rows: clip, then sum by group as differences of cumulative sums.
    step = max(1, _BLOCK_NUMBERS // max(1, table.shape[1]))
    for start in range(0, len(table), step):
        block = slice(start, start + step)
        terms = clipped(table[block], factors[block], largest[block], grid, norm)
        # Exact, as these are integers: a group's sum is the difference of two cumulative sums.
        sums = np.zeros((len(terms) + 1, table.shape[1]), dtype=np.int64)
        np.cumsum(terms, axis=0, out=sums[1:])
        ends = sums[np.searchsorted(owners[block], np.arange(count + 1))]
        totals += ends[1:] - ends[:-1]
    return totals


def limits(bound: float, grid: float, weights: FloatArray) -> FloatArray:
    """Return L, at most floor(bound weight / grid), for each weight; shape as `weights`."""
    # Rounded down before the floor: L is never above bound x weight / grid.
    product = np.nextafter(bound * weights, 0.0)
    return np.asarray(np.floor(product / grid))


def clipped(
    rows: ArrayLike, weights: FloatArray, largest: FloatArray, grid: float, norm: Norm
) -> IntArray:
    """Return the integer rows, (n, D): the norm of each is at most its `largest`."""
    with np.errstate(over="ignore"):  # wider floats: beyond range is infinite, and counts as zero
        scaled: FloatArray = np.array(rows, dtype=np.float64)
    largest_entry = np.maximum(scaled.max(axis=1, initial=0.0), -scaled.min(axis=1, initial=0.0))
    # A row with an infinity or nan counts as zero: an error would tell that a unit has it.
    not_finite = ~np.isfinite(largest_entry)
    scaled[not_finite], largest_entry[not_finite] = 0.0, 0.0
    # y = r 2^-e: the largest coordinate is near 1, so squares neither overflow nor vanish.
    exponent = np.minimum(np.maximum(np.frexp(largest_entry)[1], -1000), 1000)
    scaled *= np.ldexp(1.0, -exponent)[:, None]
    # n = |y|, (rows,), computed: at least |y| (1 - (D + 4) u).
    if norm == "l2":
        size = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
    else:
        size = np.abs(scaled).sum(axis=1)
    # f = min(v 2^e / g, L (1 - m) / n): to the grid, and no farther than the bound allows.  The
    # margin m is twice all rounding, so |f y| <= L holds exactly: it errs towards shorter rows.
    margin = (scaled.shape[1] + 16) * 2.0**-52
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        to_grid = np.ldexp(weights / grid, exponent)
        to_bound = largest * (1.0 - margin) / size
    factor = np.where(size > 0.0, np.minimum(to_grid, to_bound), 0.0)
    scaled *= factor[:, None]
    return scaled.astype(np.int64)  # truncation: no coordinate moves outwards


def check_bound(grid: float, bound: float) -> None:
    """Raise `InvalidInput` where a bound is less than one step of the grid, or far too many."""
    if grid < _MIN_GRID:
        raise InvalidInput(
            "The noise is too small to compute with.",
            "Its grid is near the smallest numbers that there are.",
            "Give bound and noise in other units.",
        )
    if not 1.0 <= bound / grid <= _MAX_ROW_NORM:
        raise InvalidInput(
            f"The bound must hold from 1 to 2^52 steps of the grid; it holds {bound / grid:.3g}.",
            "Below, every term is rounded to zero; above, sums overflow.",
            "Choose noise that suits the bound.",
        )


def check_totals(totals: Sequence[IntArray], names: Sequence[str]) -> list[IntArray]:
    """Return sums on a grid, each with a stream; raise `InvalidInput` for anything else."""
    if len(totals) != len(names) or len(set(names)) != len(names) or not names:
        raise InvalidInput(
            f"Each of {len(totals)} sums needs a stream of its own; {len(set(names))} are named.",
            "Noise that is used twice cancels out.",
            "Give as many different names as sums.",
        )
    sums = [np.asarray(total) for total in totals]
    if any(total.dtype != np.int64 or total.ndim != 1 for total in sums):
        raise InvalidInput(
            "A sum that is given noise must be integers on the grid, (D,) of int64.",
            "Noise on floats can be told from what it covers.",
            "Use what `total` returns.",
        )
    if len({total.shape for total in sums}) > 1:
        raise InvalidInput("All sums of one draw must have the same length.")
    if sum(max(int(total.max()), -int(total.min())) for total in sums if total.size) > 2 * MAX_SUM:
        raise InvalidInput("A sum is too large for 64-bit integers with noise.")
    return sums


def too_large() -> InvalidInput:
    """Return the error for sums that could overflow."""
    return InvalidInput(
        "The bound holds too many steps of the grid for sums of 64-bit integers.",
        "A sum that overflows would wrap around, and no noise covers that.",
        "Give more noise for this bound, or fewer rows.",
    )


def numbers(values: ArrayLike, kinds: str = "fiu") -> NDArray[Any] | None:
    """Return an array of numbers of these numpy kinds; None for anything else, which is not shown.

    What numpy raises names the value that it does not understand, and values are private.
    """
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        return None
    return array if array.dtype.kind in kinds else None


def _table(rows: ArrayLike) -> NDArray[Any]:
    table = numbers(rows)
    if table is None or table.ndim != 2:
        raise InvalidInput(
            "`rows` must be a table of numbers, one row per term.",
            next_step="Give an array of shape (terms, dimensions).",
        )
    return table


def _groups(groups: ArrayLike, rows: int, count: int) -> IntArray:
    array = numbers(groups, "iu")
    limit = validate.count(count=count)
    if array is None or array.shape != (rows,) or not ((array >= 0) & (array < limit)).all():
        raise InvalidInput(
            f"`groups` must be integers from 0 to {limit - 1}, one for each row.",
            next_step="Give an array of shape (terms,).",
        )
    return array.astype(np.int64)


def _weights(weights: ArrayLike | None, count: int, heaviest: float) -> FloatArray:
    limit = validate.positive(heaviest=heaviest)
    if weights is None and limit >= 1.0:
        return np.ones(count)
    array = np.ones(count) if weights is None else numbers(weights)
    if array is None or array.shape != (count,) or not ((array >= 0.0) & (array <= limit)).all():
        raise InvalidInput(
            f"`weights` must be numbers in [0, {limit:g}], one for each row.",
            "A unit's weights are promised to sum to no more.",
            "Give an array of shape (terms,).",
        )
    return array.astype(np.float64)


def clipped_steps(values: FloatArray, grid: float, largest: int) -> IntArray:
    """Return numbers in steps of the grid, towards 0, at most `largest`: division is exact.

    What is infinite or no number counts as 0: an error would tell that a unit has it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        # The grid is a power of two, so the quotient is exact; truncation moves no value outwards.
        steps = np.where(np.isfinite(values), np.trunc(values / grid), 0.0)
    return np.clip(steps, -float(largest), float(largest)).astype(np.int64)


class ClippedSums(Mechanism):
    """A mechanism whose noise is for sums of clipped and weighted rows, in steps of its grid."""

    norm: ClassVar[Norm]
    bound: float
    weights: records.Weights

    @property
    @abstractmethod
    def grid(self) -> float:
        """The step on which sums and noise stand, a power of two."""

    @property
    def term_grid(self) -> float:
        """The step on which terms are summed: that of the noise, unless a mechanism says more."""
        return self.grid

    def total(self, rows: ArrayLike | Sparse, weights: ArrayLike | None = None) -> IntArray:
        """Return the sum of the rows, clipped to `bound` in `norm`, weighted, in steps of the grid.

        `rows` (n, D) or `Sparse`, `weights` (n,) or None for ones, each at most `largest_sum`; the
        result is (D,).  A row that holds an infinity or no number counts as zero.  See the module.
        """
        return clipped_sum(
            rows,
            weights,
            bound=self.bound,
            grid=self.term_grid,
            norm=self.norm,
            heaviest=self.weights.largest_sum,
        )

    def totals(
        self,
        rows: ArrayLike | Sparse,
        groups: ArrayLike,
        count: int,
        weights: ArrayLike | None = None,
    ) -> IntArray:
        """Return the `total` of each of `count` groups of rows, say of each silo: (count, D).

        `groups` (n,) says which group each row belongs to, from 0.
        """
        return clipped_sums(
            rows,
            groups,
            count,
            weights,
            bound=self.bound,
            grid=self.term_grid,
            norm=self.norm,
            heaviest=self.weights.largest_sum,
        )
