"""Batches of rows of one file: its columns as arrays, and which rows were left out and why.

`pyarrow` is imported where it is needed: the schema of a table can be read without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput, MissingExtra
from ...accountant.nearest_names import nearest

if TYPE_CHECKING:
    import pyarrow

BatchReport = Callable[[int, str | None, str], None]
"""Takes what is wrong with a row: its line (from 1), the column (None: all of it), and why."""


BATCH_NUMBERS: Final = 2**21
"""About how many numbers of a file of columns are unpacked at a time."""

BATCH_TEXT_BYTES: Final = 2**24
"""About how many bytes of texts of one are unpacked at a time."""

ArrayShapes = Mapping[str, tuple[int, ...]]
"""The shape of a cell of each column that holds arrays of numbers, as the schema says."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of a file: each column as an Arrow array of texts, numbers or truths.

    A column of arrays is one of lists of numbers, each flat and of one length.

    `lines` is (rows,): the number of each in its file, from 1, the header of a text file included.
    """

    columns: Mapping[str, pyarrow.Array]
    lines: IntArray


def unheard(_line: int, _column: str | None, _why: str) -> None:
    """Hear what is wrong with a row, and do nothing: a run treats it by the schema's rule."""


def too_long(longest: int) -> str:
    """Return what is wrong with a cell that has more bytes than there may be."""
    return f"the cell is longer than {longest:,} bytes, and counts as missing"


def arrow() -> Any:
    """Return the module pyarrow; raise `MissingExtra` where it is not installed."""
    try:
        import pyarrow
        import pyarrow.compute  # which the package does not import itself
    except ImportError:
        raise MissingExtra(
            "Reading tables needs the package pyarrow, which is not installed.",
            "It parses numbers and reads Parquet.",
            'Install the extra: pip install "privplan[fl]".',
        ) from None
    return pyarrow


WHY_COLUMNS_ARE_CLOSED: Final = (
    "The names of columns are public, and every one must be described or ignored on purpose."
)


def require_columns(names: list[str], needed: tuple[str, ...], known: set[str], file: str) -> None:
    """Raise `InvalidInput` where a file's columns are not those that its schema describes.

    `needed` are those that must be there, `known` all that may be; `file` is its name.
    """
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(
                f"{file} has two columns {name!r:.60}.",
                "Nobody can tell which of them is meant.",
                "Rename one of them.",
            )
    for name in needed:
        if name not in names:
            close = nearest(name, names)
            raise InvalidInput(
                f"{file} has no column {name!r:.60}.",
                "Every file of a table has the columns of its schema.",
                f"Did you mean {close!r:.60}?" if close else "Add it, or correct the schema.",
            )
    for name in names:
        if name not in known:
            raise InvalidInput(
                f"{file} has a column {name!r:.60} that the schema does not describe.",
                WHY_COLUMNS_ARE_CLOSED,
                f'Write [columns.{name:.60}] with kind = "ignored", or describe it.',
            )
