"""Frames of a program, as tables of Arrow: of pandas, of pyarrow, and of what speaks their tongue.

No library of frames is imported: a frame is asked for what it offers.  Whatever a cell of a column
of Python objects is, it becomes a text or a gap, as in a file; nothing is said of it.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import numpy as np

from ...accountant.errors import InvalidInput, kind_of
from .batches import arrow

if TYPE_CHECKING:
    import pyarrow

_KINDS: Final = "biufmM"
"""Kinds of NumPy's types that Arrow has: truths, numbers and times; of times, others say more."""

_USUAL: Final = {str, float, type(None)}

_WHAT_IS_A_FRAME: Final = (
    "Give a DataFrame of pandas, a Table of pyarrow, or a frame with __arrow_c_stream__."
)


def arrow_table(frame: Any, needed: Collection[str]) -> pyarrow.Table:
    """Return a frame as a table of Arrow, with the columns that are needed at least.

    Of others there are the names.  The index of a DataFrame is no column of it.  Raises
    `InvalidInput` for what is no frame.
    """
    pa = arrow()
    if isinstance(frame, pa.Table):
        return frame
    # pandas before streams: its own stream refuses a column for what one of its cells is.
    if all(hasattr(frame, name) for name in ("columns", "iloc", "__getitem__")):
        return _of_pandas(frame, needed)
    try:
        if hasattr(frame, "__arrow_c_stream__"):
            return pa.table(frame)
        if hasattr(frame, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            return from_dataframe(frame)
    except Exception as error:  # whatever another library raises, which may name a value
        raise InvalidInput(
            f"The frame cannot be read ({type(error).__name__}).",
            "Its own library hands its columns out.",
            _WHAT_IS_A_FRAME,
        ) from None
    raise InvalidInput(
        f"`frame` is {kind_of(frame)}.",
        "Rows are read from the columns of a frame.",
        _WHAT_IS_A_FRAME,
    )


def _of_pandas(frame: Any, needed: Collection[str]) -> pyarrow.Table:
    pa = arrow()
    names = list(frame.columns)
    of_index = [name for name in getattr(frame.index, "names", ()) if name is not None]
    for name in needed:
        if name in of_index and name not in names:
            raise InvalidInput(
                f"The frame has {name!r:.60} in its index, and in no column.",
                "The index of a DataFrame is no column of it.",
                "Make it one: frame.reset_index().",
            )
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(
                f"The frame has a column whose name is {kind_of(name)}.",
                "The schema describes columns by their names.",
                "Rename it to a text: frame.columns = frame.columns.map(str).",
            )
        if names.count(name) > 1:  # which it would hand out as a frame
            raise InvalidInput(
                f"The frame has two columns {name!r:.60}.",
                "Nobody can tell which of them is meant.",
                "Rename one of them.",
            )
    nothing = pa.nulls(len(frame))
    return pa.table(
        {name: _column(frame[name], name) if name in needed else nothing for name in names}
    )


def _column(series: Any, name: str) -> Any:
    """Return a column of a DataFrame as one of Arrow, by its type alone.

    What one cell is makes no difference to how another is read, or to whether the column is
    refused.  Cells of objects are texts, whatever they are.
    """
    dtype = series.dtype
    try:
        column = _by_type(series, dtype)
    except Exception:  # by the type of the column
        column = None
    if column is None or isinstance(column.type, arrow().BaseExtensionType):
        raise InvalidInput(
            f"The frame has a column {name!r:.60} of type {dtype!s:.60}.",
            "A column of a table holds texts, numbers or truths.",
            "Change its type, or leave it out of the frame.",
        )
    return column


def _by_type(column: Any, dtype: Any) -> Any:
    """Return a column, a Series or an Index, as an array of Arrow; None for types it has none of.

    Types of pandas' own hand their values over with a mask of what is missing.  As NumPy's, whole
    numbers would be floats as soon as one of them is missing.
    """
    pa = arrow()
    values = getattr(column, "array", column)
    if getattr(dtype, "categories", None) is not None and hasattr(values, "codes"):
        words = _by_type(dtype.categories, dtype.categories.dtype)
        if words is None or isinstance(words.type, pa.BaseExtensionType):
            return None
        words = words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words
        codes = np.asarray(values.codes)
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words)
    if isinstance(dtype, np.dtype):
        if dtype.kind in "OSU":
            return _texts(column.to_numpy())
        return pa.array(column.to_numpy(), from_pandas=True) if dtype.kind in _KINDS else None
    if dtype.kind == "O" and getattr(dtype, "storage", "") == "python":
        return _texts(column.to_numpy())  # half a character is a text of Python
    if hasattr(values, "__arrow_array__"):
        return pa.array(values)
    # Of any other type, NumPy's type would be decided by the cells.
    return _dense(values, dtype) if hasattr(values, "sp_values") else None


def _dense(values: Any, dtype: Any) -> pyarrow.Array | None:
    """Return a sparse array, by the type of its values and what it leaves out alone.

    As NumPy's, truths and whole numbers would be floats as soon as one of them is missing.
    """
    kept, pa = np.dtype(dtype.subtype), arrow()
    if kept.kind not in _KINDS:
        return None
    gaps = bool(pa.array([dtype.fill_value], from_pandas=True).null_count)
    cells, stored = np.zeros(len(values), kept), np.zeros(len(values), bool)
    if not gaps:
        cells[:] = dtype.fill_value
    places = values.sp_index.to_int_index().indices
    cells[places], stored[places] = np.asarray(values.sp_values), True
    return pa.array(cells, mask=~stored if gaps else None, from_pandas=True)


def _texts(cells: Any) -> pyarrow.Array:
    """Return cells of objects as texts.

    Cells that are all texts, floats or None take a faster way, which reads each as `_cell` does.
    The type has room for a text of any length, and is the same whatever the cells are.
    """
    pa = arrow()
    if set(map(type, cells)) <= _USUAL:
        try:
            return pa.array(cells, pa.large_string(), from_pandas=True)
        except Exception:  # a number among texts, or half a character: cell by cell
            pass
    return pa.array([_cell(cell) for cell in cells], pa.large_string())


def _cell(cell: Any) -> str | None:
    """Return a cell as a file would have it; None for what none would, and for a missing one."""
    try:
        return _text(cell)
    except Exception:  # by what the cell is; no other is told of it
        return None


def _text(cell: Any) -> str | None:
    if getattr(cell, "shape", None) == () and hasattr(cell, "item"):
        cell = cell.item()
    # By the methods of the types themselves: a class of its own may say anything.
    if isinstance(cell, bytes):
        return bytes.decode(cell)
    if isinstance(cell, str):
        # Half a character is no text in any file, and raises.
        return str.encode(cell, "utf-8").decode()
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int):
        value = int.__index__(cell)
        return str(value) if abs(value) < 10**300 else "1e400" if value > 0 else "-1e400"
    if isinstance(cell, float) and not math.isnan(cell):
        return float.__repr__(cell)
    if isinstance(cell, UUID):
        return UUID.__str__(cell)
    if isinstance(cell, date) and not isinstance(cell, datetime):  # a day, and no point in time
        return date.isoformat(cell)
    if isinstance(cell, Decimal) and Decimal.is_finite(cell):
        return Decimal.__str__(cell)
    if isinstance(cell, Decimal) and Decimal.is_infinite(cell):
        return "-1e400" if Decimal.is_signed(cell) else "1e400"
    return None
