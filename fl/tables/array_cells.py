"""Cells of arrays in .npz files: numbers, texts and sparse rows, one block after the other.

Whatever the cells hold, nothing is refused or told; only a file that is cut off is damaged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from .array_header import ArrayHeader
from .arrow_cells import readable_texts
from .batches import BATCH_TEXT_BYTES, arrow

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

_UTF32_BYTES: Final = 4
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = (0xD800, 0xE000)


class CellReader(Protocol):
    """Reads the rows of one array; a row has `row_bytes` of texts, and numbers are not counted."""

    rows: int
    row_bytes: int

    def cells(self, count: int) -> tuple[pyarrow.Array, list[int]]:
        """Return the next rows, and which of them hold a text that is too long, and missing."""


class NumberCells:
    """The rows of an array of numbers or truths."""

    def __init__(self, header: ArrayHeader, file: Any) -> None:
        self._header, self._file = header, file
        self.rows = header.shape[0]
        self.row_bytes = 0

    def cells(self, count: int) -> tuple[pyarrow.Array, list[int]]:
        header = self._header
        content = _next(self._file, count * header.row_numbers * header.dtype.itemsize)
        values = np.frombuffer(content, header.dtype)
        # A cell that signals, or is too large for another type, must not warn: no cell is told.
        with np.errstate(all="ignore"):
            native = header.dtype.newbyteorder("=")
            values = values.astype(np.float32 if native == np.float16 else native)
        if len(header.shape) == 1:
            return arrow().array(values), []
        return _lists(values, header.row_numbers), []


class TextCells:
    """The rows of an array of texts or bytes; one of more than `longest` bytes is missing.

    Every cell is as wide as the longest text, which may be of one person.  So a wide cell is read
    as far as a text may reach, and the rest is passed over: memory does not depend on the width.
    """

    def __init__(self, header: ArrayHeader, file: Any, longest: int) -> None:
        self._file, self._longest = file, longest
        self._dtype = header.dtype
        unit = _UTF32_BYTES if header.dtype.kind == "U" else 1
        # One character more than there may be tells a text that is too long.
        self.row_bytes = min(header.dtype.itemsize, unit * (longest + 1))
        self._kept = np.dtype(
            f"{header.dtype.byteorder}{header.dtype.kind}{self.row_bytes // unit}"
        )
        self.rows = header.shape[0]

    def cells(self, count: int) -> tuple[pyarrow.Array, list[int]]:
        if not self.row_bytes:
            return arrow().array([""] * count, arrow().string()), []
        beyond = np.zeros(count, bool)
        if self._kept.itemsize == self._dtype.itemsize:
            content = _next(self._file, count * self.row_bytes)
        else:
            rows = [self._wide() for _ in range(count)]
            content = b"".join(kept for kept, _ in rows)
            beyond = np.array([longer for _, longer in rows], bool)
        pa = arrow()
        texts = _texts(np.frombuffer(content, self._kept).astype(self._kept.newbyteorder("=")))
        sizes = pa.compute.fill_null(pa.compute.binary_length(texts), 0)
        beyond |= sizes.to_numpy(zero_copy_only=False) > self._longest
        if beyond.any():
            texts = pa.compute.if_else(pa.array(beyond), pa.scalar(None, pa.string()), texts)
        return texts, np.flatnonzero(beyond).tolist()

    def _wide(self) -> tuple[bytes, bool]:
        """Return how a cell begins, and whether anything follows."""
        kept, longer = _next(self._file, self.row_bytes), False
        left = self._dtype.itemsize - self.row_bytes
        while left:
            part = _next(self._file, min(left, BATCH_TEXT_BYTES))
            longer = longer or bool(part.strip(b"\0"))
            left -= len(part)
        return kept, longer


class SparseCells:
    """The rows of a CSR matrix whose parts fit together, made dense one block after the other."""

    def __init__(self, width: int, data: Any, indices: Any, starts: NDArray[np.int64]) -> None:
        self._width, self._data, self._indices, self._starts = width, data, indices, starts
        self.rows = max(0, len(starts) - 1)
        self.row_bytes = 0
        self._row = 0

    def cells(self, count: int) -> tuple[pyarrow.Array, list[int]]:
        starts = self._starts[self._row : self._row + count + 1]
        self._row += count
        column = self._indices[starts[0] : starts[-1]].astype(np.int64)
        row = np.repeat(np.arange(count), np.diff(starts))
        # An entry of no column is no number of its row; entries of one place are summed, as SciPy
        # does.
        there = (column >= 0) & (column < self._width)
        cell = row[there] * self._width + column[there]
        with np.errstate(all="ignore"):  # as in `NumberCells`
            values = self._data[starts[0] : starts[-1]].astype(np.float64)[there]
            dense = np.bincount(cell, weights=values, minlength=count * self._width)
        return _lists(dense, self._width), []


def _next(file: Any, size: int) -> bytes:
    content: bytes = file.read(size)
    if len(content) < size:
        raise EOFError
    return content


def _lists(values: NDArray[Any], width: int) -> pyarrow.Array:
    return arrow().FixedSizeListArray.from_arrays(arrow().array(values), width)


def _texts(values: NDArray[Any]) -> pyarrow.Array:
    pa = arrow()
    if values.dtype.kind == "S":
        return readable_texts(pa.array(values, pa.binary()))[0]
    # What is no character makes its text no text; whoever wrote the file did not look.
    codes = values.view(np.uint32).reshape(len(values), -1)
    low, high = _SURROGATES
    unreadable = ((codes > _LAST_CHARACTER) | ((codes >= low) & (codes < high))).any(axis=1)
    codes[unreadable] = 0
    return pa.array(values, pa.string())
