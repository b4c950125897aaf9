"""The exact sum that one silo adds to a Gram release, from its rows as they lie.

Rows are read block by block, each block as one slice, so that they may lie in a file: put on the
grid (`gram_row_grid`), and multiplied (`gram_products`).  What is kept, clipped and summed of a
unit depends on its rows in this silo alone.  Nothing here refuses for what rows or labels say: what
is no number counts as zero, and a label that is none of the classes counts as no label.
"""

from __future__ import annotations

import math
import mmap
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from .. import validate
from ..arrays import BoolArray, IntArray
from ..errors import InvalidInput
from .clip import numbers
from .gram_products import GramProducts, exact_rows
from .gram_row_grid import GramRelease, GridScale, IntegerRows, dense_rows, is_sparse, sparse_rows


def give_back(table: Any) -> None:
    """Give the pages of a file that `table` is mapped from back to the system, if it can be.

    Only of a file that is mapped to be read: what was written to a private copy would be lost.
    They are read again when they are asked for.  Anything that is not mapped is left alone.
    """
    while isinstance(table, np.ndarray):
        if isinstance(table, np.memmap) and table.mode != "r":
            return
        table = table.base
    if isinstance(table, mmap.mmap) and hasattr(table, "madvise"):  # not on every system
        table.madvise(mmap.MADV_DONTNEED)


_DENSE_BLOCK: Final = 2**19
"""Numbers in a block of rows, which stands in memory as float64."""

_LEAST_ROWS: Final = 512
"""With fewer rows in a block, adding a matrix would take as long as multiplying."""

_SPARSE_BLOCK: Final = 2**20
"""Products in a block of sparse rows: as many numbers may stand in its matrix."""


class RowSlices(Protocol):
    """A table from which slices of rows are read: an array, a memory-mapped file, a data set."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, rows: slice, /) -> Any: ...


Features: TypeAlias = "RowSlices | sparse.spmatrix | sparse.sparray[Any, Any]"
"""Rows (n, p) in raw units; a sparse matrix stays sparse."""


@dataclass(frozen=True, eq=False, repr=False)
class GramTotal:
    """The exact sum of one silo, (values,) int64, and counts for the sealed sidecar alone.

    `rows` were there, of which `dropped` lay beyond the cap on the rows of their unit; of the
    others `clipped` were shortened, being longer than the row norm or no numbers.
    """

    total: IntArray
    rows: int
    clipped: int
    dropped: int


def gram_total(
    mechanism: GramRelease,
    features: Features,
    labels: ArrayLike | None = None,
    *,
    intercept: float = 0.0,
    units: ArrayLike | None = None,
    most_rows: int | None = None,
) -> GramTotal:
    """Return the sum of x x^T and x y^T over the rows of one silo, in steps of the grid.

    - `features`: (n, p) in raw units, float, integer or bool, in memory, memory-mapped, sparse or a
      data frame, which is copied; d is p, and one more with an `intercept`.
    - `labels`: (n,) classes from 0 to c - 1, or numbers, which are cut off at -1 and 1.  Any other
      class, and what is no number, counts as no label.
    - `intercept`: v, the share of the squared norm that a constant has, from 0 to below 1.
    - `units`: (n,) integers, the unit of each row; needed where the unit is a user.  Without them
      a record is one row.  A silo is all rows here.
    - `most_rows`: this silo's cap on the rows of one unit, 0 to k, and k by default; the caps of
      several silos sum to at most k.  Of each unit those that stand first here are kept, so their
      order must depend on that unit alone.

    Raises `InvalidInput` for other shapes and types, whatever the numbers are.
    """
    scale = GridScale.of(mechanism, intercept)
    table = _table(features, mechanism.gram.dimension - bool(intercept))
    count = table.shape[0]
    answers = _labels(labels, count) if mechanism.gram.classes else None
    kept = _kept(mechanism, units, most_rows, count)
    number = 1 if mechanism.gram.classes != 1 else mechanism.label_scale
    products = GramProducts(mechanism.gram, exact_rows(math.floor(scale.square), number))
    step = min(_block_rows(table), products.most_rows)
    clipped = 0
    for first in range(0, count, step):
        block = slice(first, first + step)
        part = None if kept is None else kept[block]
        rows, shortened = _rows(scale, table, block, part)
        clipped += shortened
        if answers is None:
            products.add(rows, None)
        else:
            products.add(rows, label_integers(mechanism, _chosen(answers[block], part)))
        give_back(table)
    dropped = 0 if kept is None else count - int(np.count_nonzero(kept))
    return GramTotal(products.total(), count, clipped, dropped)


def label_integers(mechanism: GramRelease, labels: NDArray[Any]) -> IntArray:
    """Return the class of each label, -1 for none, or the integer trunc(2^b y) of a number: (n,).

    >>> from privplan.accountant.mechanisms import NoisyGram
    >>> from privplan.accountant.sensitivity.gram import GramBound
    >>> mechanism = NoisyGram(gram=GramBound(dimension=2, classes=3), std=5.0, bits=10)
    >>> label_integers(mechanism, np.array([2.0, 0.0, 0.5, 3.0, -1.0, math.nan])).tolist()
    [2, 0, -1, -1, -1, -1]
    """
    classes = mechanism.gram.classes
    if classes == 1:
        limited = np.clip(np.nan_to_num(labels.astype(np.float64)), -1.0, 1.0)
        return (limited * mechanism.label_scale).astype(np.int64)
    valid = (labels >= 0) & (labels < classes) & (labels == np.floor(labels))
    return np.where(valid, np.where(valid, labels, 0).astype(np.int64), -1)


def _labels(labels: ArrayLike | None, count: int) -> NDArray[Any]:
    values = None if labels is None else numbers(labels, "fiub")
    if values is None or values.shape != (count,):
        raise InvalidInput(
            "`labels` must be one number for each row.",
            "This release has sums over labels.",
            "Give an array of shape (rows,), or a mechanism with `classes` = 0.",
        )
    return values


def _table(features: Any, columns: int) -> Any:
    """Return what rows are sliced from: checked by its shape and type, and never copied whole."""
    table: Any = _of_frame(features) if hasattr(features, "shape") else numbers(features, "fiub")
    sample = None
    if table is not None and len(table.shape) == 2:
        table = sparse.csr_array(table) if is_sparse(table) else table
        sample = table.data[:0] if is_sparse(table) else table[0:0]
    if sample is None or numbers(sample, "fiub") is None:
        raise InvalidInput(
            "`features` must be a table of numbers, one row for each record.",
            next_step="Give an array of shape (rows, columns).",
        )
    if table.shape[1] != columns:
        raise InvalidInput(
            f"`features` have {table.shape[1]:,} columns; this release is of {columns:,}.",
            "The intercept is one more than these.",
            "Give the dimension that the rows have, and the intercept that was planned.",
        )
    return table


def _of_frame(features: Any) -> Any:
    """Return a data frame's numbers, and any other table as it is.

    A frame is sliced by its labels where these are floats: then a row may lie in two blocks.
    """
    if not hasattr(features, "iloc") or len(features.shape) != 2:
        return features
    # By types alone: which numbers are missing must not decide what is refused.
    if any(getattr(column, "kind", "O") not in "fiub" for column in features.dtypes):
        return None
    return features.to_numpy(dtype=np.float64, na_value=np.nan)


def _kept(
    mechanism: GramRelease, units: ArrayLike | None, most_rows: int | None, count: int
) -> BoolArray | None:
    """Return which rows are kept, the first of each unit; None for all of them."""
    most = mechanism.gram.rows
    cap = most if most_rows is None else validate.count_from(0, most_rows=most_rows)
    if cap > most:
        raise InvalidInput(
            f"`most_rows` must be at most {most:,}, the rows of one {mechanism.unit}; it is "
            f"{cap:,}.",
            "The noise is made for that many.",
            "Plan for more rows of each, or give less.",
        )
    if mechanism.unit == "silo":
        return None if count <= cap else np.arange(count) < cap
    if units is None:
        if mechanism.unit == "user":
            raise InvalidInput(
                "`units` must say whose each row is.",
                "Of every user only so many rows are kept.",
                "Give an array of shape (rows,).",
            )
        return None if cap else np.zeros(count, np.bool_)
    ids = numbers(units, "iu")
    if ids is None or ids.shape != (count,):
        raise InvalidInput(
            "`units` must be integers, one for each row.",
            next_step="Give an array of shape (rows,).",
        )
    return _rank(ids) < cap


def _rank(ids: NDArray[Any]) -> IntArray:
    """Return how many earlier rows have the same id: (n,)."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    position = np.arange(len(ids))
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ids)])
    rank = np.empty(len(ids), np.int64)
    rank[order] = position - np.repeat(starts, np.diff(np.append(starts, len(ids))))
    return rank


def _block_rows(table: Any) -> int:
    """Return how many rows to read at a time; the sum is the same for any number."""
    if is_sparse(table):
        stored = table.nnz / max(1, table.shape[0]) + 1
        return max(1, int(_SPARSE_BLOCK / stored**2))
    return max(_LEAST_ROWS, _DENSE_BLOCK // max(1, int(table.shape[1])))


def _rows(
    scale: GridScale, table: Any, block: slice, part: BoolArray | None
) -> tuple[IntegerRows, int]:
    if is_sparse(table):
        return sparse_rows(scale, _chosen(table[block], part))
    rows = np.asarray(table[block])
    due = len(range(table.shape[0])[block])
    if rows.shape != (due, table.shape[1]):
        raise InvalidInput(
            f"A slice of {due:,} rows of the features has the shape {rows.shape}.",
            "A row that lies in two slices would count twice, which the noise is not made for.",
            "Give an array, whose slices are of rows by their number.",
        )
    return dense_rows(scale, _chosen(rows, part))


def _chosen(rows: Any, part: BoolArray | None) -> Any:
    return rows if part is None else rows[part]
