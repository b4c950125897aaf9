"""Frames of a program, as tables of Arrow: of pandas, of pyarrow, and of what speaks their tongue.

No library of frames is imported: a frame is asked for what it offers.  Whatever a cell of a column
of Python objects is, it becomes a text or a gap, as in a file; nothing is said of it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from ...accountant.errors import InvalidInput, kind_of
from .batches import arrow

if TYPE_CHECKING:
    import pyarrow

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


def _column(series: Any, name: str) -> pyarrow.Array:
    """Return a column by its type; one of objects holds texts, whatever its cells are."""
    kind = series.dtype
    if hasattr(kind, "categories"):
        kind = kind.categories.dtype
    try:
        return _by_type(series)
    except Exception as error:  # by the type of the column alone
        raise InvalidInput(
            f"The frame has a column {name!r:.60} of type {kind!s:.60} ({type(error).__name__}).",
            "A column of a table holds texts, numbers or truths.",
            "Change its type, or leave it out of the frame.",
        ) from None


def _by_type(values: Any) -> pyarrow.Array:
    """Return a column, or what the categories of one are, by its type and not by its cells.

    A number that may be missing stays a whole one where its type says so: made a float, as NumPy
    has to, two large ids would be one, and whether they were made floats would follow from a cell.
    """
    pa = arrow()
    if hasattr(values.dtype, "categories"):
        codes = values.cat.codes.to_numpy()  # -1 where the cell is missing
        words = _by_type(values.dtype.categories)
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), words)
    if getattr(values.dtype, "kind", "") == "O" and str(values.dtype).startswith(("object", "str")):
        return _texts(values.to_numpy())
    held = getattr(values, "array", values)
    if not hasattr(held, "__arrow_array__"):
        held = values.to_numpy()
        if held.dtype.kind == "O":  # whose cells would have to say what they are
            raise TypeError("no type of texts, numbers or truths")
    return pa.array(held, from_pandas=True)


def _texts(cells: Iterable[Any]) -> pyarrow.Array:
    pa = arrow()
    try:
        return pa.array(cells, pa.string(), from_pandas=True)
    except Exception:  # whatever a cell raises when it is looked at
        return pa.array([_cell(cell) for cell in cells], pa.string())


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
