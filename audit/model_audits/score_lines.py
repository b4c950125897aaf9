"""Columns of a `.csv` file of scores, read in blocks of lines, so that memory stays small."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import BoolArray, FloatArray
from ...accountant.errors import InvalidInput
from ...accountant.regular_file import open_regular

MOST_CSV_BYTES: Final = 2**27
"""Most bytes of a file, whose lines take a multiple of it in memory."""

LINES_AT_ONCE: Final = 2**16

FLAGS: Final[Mapping[str, bool]] = {
    **dict.fromkeys(("1", "true", "yes", "in"), True),
    **dict.fromkeys(("0", "false", "no", "out"), False),
}


@dataclass(frozen=True, eq=False)
class Columns:
    """The named columns of a file, each read as its layout says.

    `repeated` says that a cell of the key column comes twice.  It is told by hashes of 64 bits: of
    ten million cells that differ, two are taken for one with probability 3e-6.
    """

    numbers: Mapping[str, FloatArray]
    flags: Mapping[str, BoolArray]
    texts: Mapping[str, NDArray[np.str_]]
    repeated: bool = False


@dataclass(frozen=True)
class Layout:
    """Which columns of a file are numbers, flags, texts, and the key; all others are not read."""

    numbers: tuple[str, ...]
    flags: tuple[str, ...]
    texts: tuple[str, ...] = ()
    key: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that are read."""
        return (*self.numbers, *self.flags, *self.texts, *(() if self.key is None else (self.key,)))


def column_names(path: str | Path) -> tuple[str, ...]:
    """Return the names of the columns, each of which comes once; raises `InvalidInput`."""
    header = next(_lines(path), None)
    if not header:
        raise InvalidInput(f"{path} must have a header, with the names of its columns.")
    names = tuple(name.strip() for name in header)
    if len(set(names)) < len(names):
        raise InvalidInput(f"{path} names a column twice.")
    return names


def read_columns(path: str | Path, names: Sequence[str], layout: Layout) -> Columns:
    """Return the columns of a layout; `names` are those of the header.

    Raises `InvalidInput` for a cell that is not what the layout says, and names its line.
    """
    for name in layout.names:
        if name not in names:
            raise InvalidInput(f"{path} has no column `{name}`.")
    held: dict[str, list[NDArray[np.generic]]] = {name: [] for name in layout.names}
    lines = _lines(path)
    next(lines)
    first = 2
    while block := list(islice(lines, LINES_AT_ONCE)):
        if any(len(row) != len(names) for row in block):
            raise InvalidInput(f"{path} must have as many cells in each line as in its header.")
        cells = dict(zip(names, zip(*block, strict=True), strict=True))
        for name in layout.numbers:
            held[name].append(_numbers(cells[name], f"{path}, line", first, name))
        for name in layout.flags:
            held[name].append(_flags(cells[name], f"{path}, line", first, name))
        for name in layout.texts:
            held[name].append(np.array(_texts(cells[name], f"{path}, line", first, name)))
        if layout.key is not None:
            keys = _texts(cells[layout.key], f"{path}, line", first, layout.key)
            held[layout.key].append(np.fromiter(map(hash, keys), np.int64, len(keys)))
        first += len(block)
    if first == 2:
        raise InvalidInput(f"{path} must have a line for each record.")
    joined = {name: np.concatenate(parts) for name, parts in held.items()}
    return Columns(
        {name: joined[name].astype(np.float64) for name in layout.numbers},
        {name: joined[name].astype(bool) for name in layout.flags},
        {name: joined[name].astype(np.str_) for name in layout.texts},
        layout.key is not None and bool((np.diff(np.sort(joined[layout.key])) == 0).any()),
    )


def csv_rows(path: str | Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file by the names of its header; raises `InvalidInput`."""
    names = column_names(path)
    rows = list(_lines(path))[1:]
    if not rows or any(len(row) != len(names) for row in rows):
        raise InvalidInput(f"{path} must have a header, and as many cells in each line.")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _lines(path: str | Path) -> Iterator[list[str]]:
    """Yield the cells of each line that has any."""
    try:
        with open_regular(path) as file:
            content = file.read(MOST_CSV_BYTES + 1)
        if len(content) > MOST_CSV_BYTES:
            raise InvalidInput(f"{path} is larger than {MOST_CSV_BYTES:,} bytes.")
        with io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="") as text:
            yield from (row for row in csv.reader(text, strict=True) if row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(
            f"{path} cannot be read as CSV: {type(error).__name__}.",
            next_step="Save it in UTF-8, with commas between the cells.",
        ) from None


def _numbers(cells: Sequence[str], where: str, first: int, name: str) -> FloatArray:
    """Return numbers; "1_000" is none, although Python reads it."""
    whole = "".join(cells)
    if "_" not in whole and whole.isascii():
        try:
            return np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            pass
    for index, cell in enumerate(cells):
        try:
            if "_" in cell or not cell.isascii():
                raise ValueError
            float(cell)
        except ValueError:
            raise InvalidInput(f"{where} {first + index}: `{name}` must be a number.") from None
    raise InvalidInput(f"{where} {first} and below: `{name}` must be numbers.")


def _flags(cells: Sequence[str], where: str, first: int, name: str) -> BoolArray:
    words = {cell: FLAGS.get(cell.strip().lower()) for cell in set(cells)}
    if None in words.values():
        index = next(k for k, cell in enumerate(cells) if words[cell] is None)
        raise InvalidInput(f"{where} {first + index}: `{name}` must be 1 or 0: in, or out.")
    return np.fromiter((words[cell] is True for cell in cells), bool, len(cells))


def _texts(cells: Sequence[str], where: str, first: int, name: str) -> list[str]:
    """Return texts without blanks around them; an empty cell names nobody."""
    texts = [cell.strip() for cell in cells]
    if not all(texts):
        raise InvalidInput(
            f"{where} {first + texts.index('')}: `{name}` is empty.",
            "All records without a name would be taken for one.",
            "Give each its own, or leave the column out.",
        )
    return texts
