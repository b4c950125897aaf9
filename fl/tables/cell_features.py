"""From columns to features and labels: total functions of a cell, by the schema alone.

Whatever a cell holds it becomes numbers within the public range of its column: what is out of range
is clipped, an unknown word is "other", and what is missing or cannot be read is the column's gap.
So the features of a record depend on its own row and on nothing else, and no value is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...accountant.arrays import BoolArray, Float32Array, FloatArray, IntArray
from ..data.federation import Labels
from .batches import Batch, arrow
from .schema import Column, Label, Schema, TextFormat

if TYPE_CHECKING:
    import pyarrow

CellReport = Callable[[BoolArray, str, str], None]
"""Takes the rows of which something is wrong, (rows,), the column, and what it is."""

_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"


def unheard(_rows: BoolArray, _column: str, _why: str) -> None:
    """Hear what is wrong with some cells, and do nothing."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of a column, (rows,) or (rows, width), and where none can be read: `gap`."""

    values: FloatArray
    gap: BoolArray


def features_of(batch: Batch, schema: Schema, report: CellReport = unheard) -> Float32Array:
    """Return the features of each row: (rows, `schema.width`)."""
    rows = np.empty((len(batch.lines), schema.width), np.float32)
    first = 0
    for column in schema.columns:
        if not column.width:
            continue
        cells = _Cells(batch.columns[column.name], schema.format)
        values = _FEATURES[column.kind](cells, column, report)
        if column.kind == "array":
            rows[:, first : first + column.width] = next(values)
        else:
            for index, feature in enumerate(values):
                rows[:, first + index] = feature
        first += column.width
    return rows


def labels_of(
    batch: Batch, name: str, label: Label, format: TextFormat, report: CellReport = unheard
) -> tuple[Labels, BoolArray]:
    """Return the label of each row, and which rows have one: (rows,) or (rows, 2), and (rows,).

    A number that is out of range is clipped; a word that is none of `values`, or a number that
    cannot be read, is no label, and its row is left out.
    """
    cells = _Cells(batch.columns[name], format)
    if label.kind in ("binary", "classes"):
        code = cells.places(label.values or ())
        report(code < 0, name, "the label is none of `values`, and the row is left out")
        return np.maximum(code, 0), code >= 0
    numbers = cells.numbers()
    report(numbers.gap, name, "the label is no number, and the row is left out")
    clipped = _clipped(numbers, label.range or (0.0, 1.0), name, report)
    there = ~numbers.gap
    if label.kind == "number":
        return _scaled(clipped, label.range or (0.0, 1.0)).astype(np.float32), there
    assert label.event is not None
    observed = _Cells(batch.columns[label.event], format).places(label.values or ())
    report(observed < 0, label.event, "it is none of `values`, and the row is left out")
    pairs = np.stack([np.where(there, clipped, 0.0), np.maximum(observed, 0)], axis=1)
    return pairs.astype(np.float32), there & (observed >= 0)


def no_labels(label: Label | None) -> Labels:
    """Return the labels of no row, in the form of their kind."""
    if label is not None and label.kind == "survival":
        return np.zeros((0, 2), np.float32)
    if label is not None and label.kind == "number":
        return np.zeros(0, np.float32)
    return np.zeros(0, np.int64)


def places_of(cells: pyarrow.Array, words: tuple[str, ...], format: TextFormat) -> IntArray:
    """Return the place of each cell among some words, (rows,); -1 for what is none of them."""
    return _Cells(cells, format).places(words)


def numbers_of(cells: pyarrow.Array, format: TextFormat) -> Numbers:
    """Return the cells of a column as numbers."""
    return _Cells(cells, format).numbers()


def texts_of(cells: pyarrow.Array) -> list[str]:
    """Return the cells of a column as texts without space around them; a missing one is empty."""
    texts: list[str] = _Cells(cells, TextFormat()).texts().to_pylist()
    return texts


class _Cells:
    """The cells of a column, as texts without space around them or as numbers."""

    def __init__(self, cells: pyarrow.Array, format: TextFormat) -> None:
        self._cells, self._format = cells, format
        self._is_text = arrow().types.is_string(cells.type)

    def numbers(self) -> Numbers:
        """Return the cells as numbers; infinite where a float is too small to hold one."""
        pa, compute = arrow(), arrow().compute
        cells = self._cells
        if self._is_text:
            values = self._all_numbers()
            if values is not None:
                return Numbers(values, np.zeros(len(values), bool))
            text = self.texts()
            if self._format.decimal == ",":
                # A point is no decimal sign then: what has one cannot be read.
                text = compute.if_else(compute.match_substring(text, "."), "", text)
                text = compute.replace_substring(text, ",", ".")
            is_number = compute.match_substring_regex(text, _NUMBER)
            cells = compute.if_else(is_number, text, pa.scalar(None, pa.string()))
        # A number too large for a float becomes infinite here, and is clipped like any other.
        values = cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        return Numbers(values, np.isnan(values))

    def _all_numbers(self) -> FloatArray | None:
        """Return the texts as numbers where each is one and is finite; else None.

        It is the usual case, and then no text is looked at twice: a finite number that Arrow reads
        is one that `_NUMBER` matches.
        """
        if self._format.decimal == "," or self._cells.null_count:
            return None
        try:
            cells = self._cells.cast(arrow().float64())
        except arrow().ArrowInvalid:
            return None
        values: FloatArray = cells.to_numpy(zero_copy_only=False)
        return values if np.isfinite(values).all() else None

    def arrays(self, width: int) -> Numbers:
        """Return the cells as arrays of so many numbers, flat: (rows, width)."""
        pa = arrow()
        held = self._cells.values
        if len(held) != width * len(self._cells):  # a part of the lists has all of their numbers
            held = held.slice(self._cells.offset * width, width * len(self._cells))
        kind = pa.uint8() if pa.types.is_boolean(held.type) else held.type
        flat = held.cast(kind).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        values = flat.reshape(-1, width)
        missing = self._cells.is_null().to_numpy(zero_copy_only=False)
        return Numbers(values, ~np.isfinite(values) | missing[:, None])

    def places(self, words: tuple[str, ...]) -> IntArray:
        """Return the place of each cell among some words; -1 for what is none of them."""
        pa, compute = arrow(), arrow().compute
        code = compute.index_in(self.texts(), value_set=pa.array(words, pa.string()))
        codes = compute.fill_null(code, -1).to_numpy(zero_copy_only=False)
        return np.asarray(codes, np.int64)

    def gaps(self) -> BoolArray:
        """Return where a value is missing: an empty cell, or a word that stands for that."""
        return self.places(("", *self._format.gaps)) >= 0

    def texts(self) -> Any:
        """Return the cells as texts without space around them; a missing one is empty."""
        pa, compute = arrow(), arrow().compute
        if self._is_text:
            text = self._cells
        elif pa.types.is_boolean(self._cells.type):
            text = compute.if_else(self._cells, "true", "false")
        elif pa.types.is_floating(self._cells.type):
            text = self._texts_of_floats()
        else:
            text = self._cells.cast(pa.string())
        return compute.fill_null(compute.utf8_trim_whitespace(text), "")

    def _texts_of_floats(self) -> Any:
        """Return floats as texts; a whole one as the number it is, and not as 1e+12.

        A column of whole numbers is one of floats in a frame where one of them is missing.
        """
        pa, compute = arrow(), arrow().compute
        values = self._cells.cast(pa.float64())
        whole = compute.and_(
            compute.equal(compute.floor(values), values),
            compute.less(compute.abs(values), float(2**53)),
        )
        numbers = compute.if_else(whole, values, None).cast(pa.int64())
        return compute.coalesce(numbers.cast(pa.string()), self._cells.cast(pa.string()))


def _number(cells: _Cells, column: Column, report: CellReport) -> Iterator[Any]:
    assert column.range is not None
    numbers = cells.numbers()
    if report is not unheard:
        missing = cells.gaps()
        report(numbers.gap & ~missing, column.name, "it is no number, and counts as missing")
    values = _clipped(numbers, column.range, column.name, report)
    low, high = column.range
    values = np.where(numbers.gap, (low + high) / 2.0 if column.gap is None else column.gap, values)
    yield _scaled(values, column.range) if column.scaling == "range" else values
    if column.gap_indicator:
        yield numbers.gap


def _array(cells: _Cells, column: Column, report: CellReport) -> Iterator[Any]:
    assert column.range is not None
    numbers = cells.arrays(column.width)
    report(
        np.asarray(numbers.gap.any(axis=1)),
        column.name,
        "a number of it is not finite, and is missing",
    )
    low, high = column.range
    outside = ~numbers.gap & ((numbers.values < low) | (numbers.values > high))
    report(
        np.asarray(outside.any(axis=1)),
        column.name,
        "a number of it is out of `range`, and is clipped",
    )
    gap = (low + high) / 2.0 if column.gap is None else float(column.gap)
    values = np.where(numbers.gap, gap, np.clip(numbers.values, low, high))
    yield _scaled(values, column.range) if column.scaling == "range" else values


def _ordinal(cells: _Cells, column: Column, report: CellReport) -> Iterator[Any]:
    words = column.values or ()
    code, missing = cells.places(words), cells.gaps()
    # A word that stands for a gap elsewhere may be a value of this column: then it is that.
    missing &= code < 0
    other = (code < 0) & ~missing
    report(other, column.name, 'it is none of `values`, and counts as "other"')
    scaled = 2.0 * code / max(1, len(words) - 1) - 1.0
    gap = 0.0
    if column.gap is not None:
        gap = 2.0 * words.index(str(column.gap)) / max(1, len(words) - 1) - 1.0
    yield np.where(missing, gap, np.where(other, 0.0, scaled))
    yield other
    if column.gap_indicator:
        yield missing


def _category(cells: _Cells, column: Column, report: CellReport) -> Iterator[Any]:
    words = column.values or ()
    code, missing = cells.places(words), cells.gaps()
    missing &= code < 0
    report((code < 0) & ~missing, column.name, 'it is none of `values`, and counts as "other"')
    gap = words.index(str(column.gap)) if column.gap in words else len(words)
    code = np.where(missing, gap, np.where(code < 0, len(words), code))
    for index in range(len(words) + 1):
        yield code == index
    if column.gap_indicator:
        yield missing


def _boolean(cells: _Cells, column: Column, report: CellReport) -> Iterator[Any]:
    words = column.values or ()
    code = cells.places(words)
    unknown = code < 0
    report(unknown & ~cells.gaps(), column.name, "it is none of `values`, and counts as missing")
    gap = 0.0 if column.gap is None else 2.0 * words.index(str(column.gap)) - 1.0
    yield np.where(unknown, gap, 2.0 * code - 1.0)
    if column.gap_indicator:
        yield unknown


def _clipped(
    numbers: Numbers, range: tuple[float, float], name: str, report: CellReport
) -> FloatArray:
    low, high = range
    outside = ~numbers.gap & ((numbers.values < low) | (numbers.values > high))
    report(outside, name, "it is out of `range`, and is clipped")
    return np.clip(numbers.values, low, high)


def _scaled(values: FloatArray, range: tuple[float, float]) -> FloatArray:
    """Return values of a range scaled to [-1, 1]."""
    low, high = range
    return np.clip(2.0 * ((values - low) / (high - low)) - 1.0, -1.0, 1.0)


_FEATURES: Final[Mapping[str, Callable[[_Cells, Column, CellReport], Iterator[Any]]]] = {
    "number": _number,
    "ordinal": _ordinal,
    "category": _category,
    "boolean": _boolean,
    "array": _array,
}
