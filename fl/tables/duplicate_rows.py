"""No row twice: sources of a table that are the same rows, and public files that are none of them.

A row that two silos hold is two records of the table: where a row is one person's, that person
would count twice, and a guarantee for one record would be below the truth.

Frames are compared by the memory of their cells, which costs no reading.  So a copy is taken for
other rows: whoever copies says so, and equal rows may be of two people.  Some selections are copies
without a word: of columns of Arrow those in another order or with steps (`iloc[::2]`), of sparse
columns every part.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...accountant.errors import InvalidInput
from .arrow_file import ArrowFrame
from .batches import arrow

if TYPE_CHECKING:
    import pyarrow

_WHY: Final = "Each of its rows would be two records, and one person's would count twice."


def require_each_once(sources: Sequence[Path | ArrowFrame], needed: Collection[str]) -> None:
    """Raise `InvalidInput` where a file, by any of its names, or a frame is there twice."""
    seen: set[object] = set()
    for path in (source for source in sources if isinstance(source, Path)):
        marks = _marks(path)
        if marks & seen:
            raise InvalidInput(
                f"{path.name} is named twice as a file of `silos` in [data], or is one file with "
                "another that is.",
                _WHY,
                "Name every file once; a pattern may hold a file that is named besides.",
            )
        seen |= marks
    frames = [source for source in sources if isinstance(source, ArrowFrame)]
    for first, other in combinations(frames, 2):
        if first.table is other.table or _one_memory(first.table, other.table, needed):
            raise _twice(first.name, other.name)


def require_frames_once(frames: Mapping[Any, Any], needed: Collection[str]) -> None:
    """Raise `InvalidInput` where two frames are one, or views of the same rows.

    A copy of rows is not recognised.
    """
    for (silo, first), (other_silo, other) in combinations(frames.items(), 2):
        if first is other or _one_view(first, other, needed):
            raise _twice(f"The frame of silo {silo!r:.60}", f"that of silo {other_silo!r:.60}")


def require_apart(file: Path, key: str, files: Iterable[Path]) -> None:
    """Raise `InvalidInput` where a public file, which `key` names, is one of a silo's.

    What everybody may read, or is measured on, would be private rows.
    """
    marks = _marks(file)
    if any(marks & _marks(path) for path in files):
        raise InvalidInput(
            f"{file.name} is `{key}`, and is a file of a silo, too.",
            "What is taken as public would be private rows, and no guarantee would hold for them.",
            "Give a file of its own, which is published and holds no row of a silo.",
        )


def _twice(first: str, other: str) -> InvalidInput:
    return InvalidInput(
        f"{first} holds the same rows as {other[:1].lower()}{other[1:]}.",
        _WHY,
        "Give every silo a frame of its own rows, and a copy of a column that stands in two; of "
        "one frame for all silos, say silo= and silos=.",
    )


def _marks(path: Path) -> set[object]:
    """Return what two names of one file have in common; links of both kinds are such names."""
    # A link that leads to itself is told by whoever opens it, too: `Path.resolve` would raise.
    marks: set[object] = {os.path.realpath(path)}
    try:
        status = path.stat()
    except OSError:  # which is told by whoever opens it
        return marks
    return marks | {(status.st_dev, status.st_ino)} if status.st_ino else marks


def _one_view(first: Any, other: Any, needed: Collection[str]) -> bool:
    """Return whether two frames of NumPy's memory have cells in common in a column needed."""
    if not all(hasattr(frame, "iloc") for frame in (first, other)):
        return False
    try:
        shared = [_shared(first[name], other[name]) for name in needed]
    except Exception:  # what is no frame is refused elsewhere
        return False
    return any(shared)


def _shared(first: Any, other: Any) -> bool:
    """Return whether two columns have cells in common in memory of NumPy.

    What else pandas has is memory of Arrow, which `_one_memory` compares.
    """
    return bool(np.shares_memory(_memory(first), _memory(other)))


def _memory(column: Any) -> Any:
    """Return where NumPy keeps the cells, codes or objects of a column; nothing of Arrow's."""
    if isinstance(column.dtype, np.dtype):
        return column.to_numpy()
    values = column.array
    if hasattr(values, "codes"):
        return np.asarray(values.codes)
    if getattr(column.dtype, "storage", "") == "python":
        return np.asarray(values)
    # Of sparse ones what they do not leave out; of those with a mask the cells with it.
    held = getattr(values, "sp_values", getattr(values, "_data", None))
    return held if isinstance(held, np.ndarray) else np.empty(0)


def _one_memory(first: pyarrow.Table, other: pyarrow.Table, needed: Collection[str]) -> bool:
    """Return whether two tables of Arrow have cells in common, in a column needed.

    One column is enough: others may have been encoded anew.  Slices of one table are next to each
    other.
    """
    names = {*needed} & {*first.column_names} & {*other.column_names}
    shared = [_overlap(_places(first, name), _places(other, name)) for name in names]
    return any(shared)


def _places(table: pyarrow.Table, name: str) -> list[tuple[int, int]]:
    """Return the memory of a column: of each chunk the first bit, and that after its last."""
    column = table.column(table.column_names.index(name))  # a name may be there twice until later
    starts = [(_start(chunk), len(chunk)) for chunk in column.chunks if len(chunk)]
    bits, _ = _layout(column.type)
    return [(first, first + bits * rows) for first, rows in starts if first is not None]


def _start(chunk: pyarrow.Array) -> int | None:
    """Return the first bit of the cells of a chunk; None where there is no memory of them."""
    bits, part = _layout(chunk.type)
    if not bits:
        return None
    if _is_flat_list(chunk.type):  # whose numbers may begin anywhere in their own memory
        bits, before = chunk.type.value_type.bit_width, chunk.offset * chunk.type.list_size
        cells, first = chunk.values.buffers()[part], chunk.values.offset + before
    else:
        cells, first = chunk.buffers()[part], chunk.offset
    return None if cells is None else 8 * cells.address + bits * first


def _is_flat_list(kind: pyarrow.DataType) -> bool:
    types = arrow().types
    return bool(types.is_fixed_size_list(kind) and types.is_primitive(kind.value_type))


def _layout(kind: pyarrow.DataType) -> tuple[int, int]:
    """Return how many bits a cell has in one buffer of a column, and which; 0 where there is none.

    Of texts these are where each begins.
    """
    pa = arrow()
    if _is_flat_list(kind):
        return kind.value_type.bit_width * kind.list_size, 1
    if pa.types.is_dictionary(kind):
        kind = kind.index_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return 64 if pa.types.is_large_string(kind) else 32, 1
    if pa.types.is_string_view(kind):
        return 128, 1
    fixed = pa.types.is_primitive(kind) or pa.types.is_decimal(kind)
    return (kind.bit_width, 1) if fixed else (0, 1)


def _overlap(first: list[tuple[int, int]], other: list[tuple[int, int]]) -> bool | None:
    """Return whether cells are the same memory; None where a column has none to compare."""
    if not first or not other:
        return None
    starts, ends = np.array(sorted(other), np.uint64).T
    ends = np.maximum.accumulate(ends)
    mine = np.array(first, np.uint64)
    before = np.searchsorted(starts, mine[:, 1])  # how many begin before the end of each of mine
    return bool(((before > 0) & (ends[np.maximum(before - 1, 0)] > mine[:, 0])).any())
