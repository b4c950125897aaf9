"""Cells of Arrow columns: how long their texts are, and all of them as plain columns.

A text may be as long as its writer likes, and a dictionary may repeat one for every row.  So sizes
are known before a text is copied: one that is too long is missing, by what it is alone, and rows
are taken so few at a time that an array of texts, with offsets of 32 bits, has room for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from ...accountant.arrays import BoolArray, IntArray
from .batches import arrow

if TYPE_CHECKING:
    import pyarrow

_VIEW_BYTES: Final = 16
"""How many bytes a view of a text has; the first four are the length of it."""


def text_kinds() -> tuple[Callable[[Any], bool], ...]:
    """Return what tells the types of texts."""
    types = arrow().types
    return types.is_string, types.is_large_string, types.is_string_view


def is_text(kind: pyarrow.DataType) -> bool:
    """Return whether cells of a type are texts, and no dictionary of them."""
    return any(is_kind(kind) for is_kind in text_kinds())


def word_sizes(column: pyarrow.Array) -> IntArray:
    """Return how many bytes each word of a column's dictionary has: (words,), or (0,) of none."""
    if arrow().types.is_dictionary(column.type):
        return _sizes(column.dictionary)
    return np.zeros(0, np.int64)


def text_sizes(column: pyarrow.Array, words: IntArray) -> IntArray:
    """Return how many bytes of text each cell has, (rows,), 0 where it is missing or no text.

    `words` are the sizes of the words of its dictionary (`word_sizes`).
    """
    if not arrow().types.is_dictionary(column.type):
        return _sizes(column)
    index = arrow().compute.fill_null(_known_index(column), len(words))
    places: IntArray = index.to_numpy(zero_copy_only=False)
    return np.append(words, 0)[places]


def row_ranges(sizes: IntArray, most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows, the first and one after the last, of `most` bytes or of one row.

    >>> list(row_ranges(np.array([3, 3, 9, 1]), 6))
    [(0, 2), (2, 3), (3, 4)]
    """
    ends = np.cumsum(sizes)
    first, before = 0, 0
    while first < len(sizes):
        end = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield first, end
        first, before = end, int(ends[end - 1])


def plain(column: pyarrow.Array, missing: BoolArray) -> tuple[pyarrow.Array, Sequence[int]]:
    """Return a column without a dictionary, decimals as floats, texts of the usual type.

    Cells are missing besides where `missing` says so, (rows,).  Texts that are no UTF-8 become
    missing, too; their rows are returned besides.
    """
    pa = arrow()
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.dictionary.take(_unless(missing, _known_index(column)))
    elif types.is_string_view(column.type):
        column = _masked_views(column, missing)
    elif is_text(column.type) and (
        missing.any() or column.null_count or types.is_large_string(column.type)
    ):
        # A copy holds no bytes of cells that are missing, for which there may be no room.
        column = column.take(_unless(missing, pa.array(np.arange(len(column)))))
    if types.is_decimal(column.type):
        return column.cast(pa.float64()), ()
    if types.is_null(column.type):
        return column.cast(pa.string()), ()
    if not is_text(column.type):
        return column, ()
    try:
        column.validate(full=True)
        return column.cast(pa.string()), ()
    except pa.ArrowInvalid:
        # Whoever wrote the file did not look at the bytes: they are judged cell by cell.
        return readable_texts(column.cast(pa.binary(), safe=False))


def readable_texts(column: pyarrow.Array) -> tuple[pyarrow.Array, Sequence[int]]:
    """Return a column of bytes as texts, those that are no UTF-8 as missing, and their rows."""
    cells = [_decoded(cell) for cell in column.to_pylist()]
    unreadable = [row for row, cell in enumerate(cells) if cell is False]
    return arrow().array([cell or None for cell in cells], arrow().string()), unreadable


def _decoded(cell: bytes | None) -> str | Literal[False] | None:
    try:
        return None if cell is None else cell.decode("utf-8")
    except UnicodeDecodeError:
        return False


def _known_index(column: pyarrow.Array) -> pyarrow.Array:
    """Return which word each cell is.

    An index of no word is a gap; whoever wrote the file did not look.
    """
    pa = arrow()
    index = column.indices.cast(pa.int64(), safe=False)
    above = pa.compute.greater_equal(index, 0)
    known = pa.compute.and_(above, pa.compute.less(index, len(column.dictionary)))
    return pa.compute.if_else(known, index, None)


def _unless(missing: BoolArray, index: pyarrow.Array) -> pyarrow.Array:
    return arrow().compute.if_else(arrow().array(missing), None, index)


def _sizes(column: pyarrow.Array) -> IntArray:
    if not is_text(column.type) or not len(column):
        return np.zeros(len(column), np.int64)
    pa = arrow()
    if pa.types.is_string_view(column.type):
        lengths = np.frombuffer(_views(column), np.int32)[:: _VIEW_BYTES // 4]
        gap = column.is_null().to_numpy(zero_copy_only=False)
        return np.where(gap, 0, lengths).astype(np.int64)
    lengths = pa.compute.fill_null(pa.compute.binary_length(column), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def _views(column: pyarrow.Array) -> pyarrow.Buffer:
    return column.buffers()[1].slice(_VIEW_BYTES * column.offset, _VIEW_BYTES * len(column))


def _masked_views(column: pyarrow.Array, missing: BoolArray) -> pyarrow.Array:
    """Return a column of views without some cells: no function of Arrow does it for this type."""
    if not missing.any():
        return column
    pa = arrow()
    there = ~missing & column.is_valid().to_numpy(zero_copy_only=False)
    held = [pa.array(there).buffers()[1], _views(column), *column.buffers()[2:]]
    return pa.Array.from_buffers(column.type, len(column), held)
