"""Tables of examples in files: a header with rows of text (CSV), or an array by column (.npz)."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput
from ...accountant.regular_file import open_regular, regular_content
from ...fl.tables.csv_file import TextFile
from ...fl.tables.schema import TextFormat
from .score_archives import archive_arrays
from .score_lines import MOST_CSV_BYTES

ARCHIVE: Final = ".npz"
TEXT: Final = ".csv"
SUFFIXES: Final = (TEXT, ARCHIVE)


@dataclass(frozen=True, eq=False)
class ExampleTable:
    """Examples by column: each an array with a row for each, of texts where they came as text."""

    columns: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def only(self, rows: IntArray | NDArray[np.bool_]) -> ExampleTable:
        """Return some of the rows, by index or by a mask."""
        return ExampleTable({name: values[rows] for name, values in self.columns.items()})

    def content(self, suffix: str, format: TextFormat) -> bytes:
        """Return the bytes of a file that holds the table; the same table has the same bytes."""
        if suffix == ARCHIVE:
            held = io.BytesIO()
            plain = {
                name: values.astype(str) if values.dtype == object else values
                for name, values in self.columns.items()
            }
            np.savez(held, allow_pickle=False, **plain)
            return held.getvalue()
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=format.delimiter, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        return text.getvalue().encode(format.encoding)


def read_examples(path: Path, format: TextFormat) -> ExampleTable:
    """Return the examples of a file, `.csv` or `.npz`.

    Raises `InvalidInput` for a file that cannot be read, holds no row, or whose columns differ in
    length.
    """
    if suffix_of(path) == ARCHIVE:
        return table_of(archive_arrays(path))
    names = column_names(path, format)
    columns = list(zip(*_records(path, format, len(names)), strict=True))
    if not columns:
        raise InvalidInput(f"{path} holds no row below its header.")
    return ExampleTable(
        {name: _texts(cells) for name, cells in zip(names, columns, strict=True)},
    )


def table_of(arrays: Mapping[str, ArrayLike]) -> ExampleTable:
    """Return arrays as a table; raises `InvalidInput` unless each has a row for each example."""
    columns = {name: _as_texts(np.asarray(values)) for name, values in arrays.items()}
    sizes = {len(values) if values.ndim else 0 for values in columns.values()}
    if len(sizes) != 1 or sizes == {0}:
        raise InvalidInput(
            "Examples are arrays with a row for each example, as many in each.",
            next_step='Give x and y of one length, as in {"x": images, "y": labels}.',
        )
    for name, values in columns.items():
        if values.dtype.kind not in "biufU":
            raise InvalidInput(
                f"`{name:.60}` must be numbers or texts; it is of type {values.dtype}.",
                "Objects are not read.",
                "Give an array of numbers, or of texts (dtype=str).",
            )
    return ExampleTable(columns)


def column_names(path: Path, format: TextFormat) -> tuple[str, ...]:
    """Return the names of the columns, from the header alone; raises `InvalidInput`."""
    if suffix_of(path) == ARCHIVE:
        try:
            with open_regular(path) as file, zipfile.ZipFile(file) as archive:
                return tuple(name.removesuffix(".npy") for name in archive.namelist())
        except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
            raise InvalidInput(f"{path} is no .npz archive: {type(error).__name__}.") from None
    try:
        names = TextFile.open(path, format).names
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    if len(set(names)) < len(names):
        raise InvalidInput(f"{path} names a column twice.")
    return names


def suffix_of(path: Path) -> str:
    """Return the ending of a name, one of those that are read; raises `InvalidInput`."""
    ending = path.suffix.lower()
    if ending not in SUFFIXES:
        raise InvalidInput(
            f"{path}: examples are read from .csv and .npz files.",
            "A CSV file has a header; an archive has an array for each column, such as x and y.",
            "Save the table as one of them.",
        )
    return ending


def _records(path: Path, format: TextFormat, fields: int) -> Iterator[list[str]]:
    """Yield the rows below the header; raises `InvalidInput` for one of another length."""
    try:
        text = regular_content(path, MOST_CSV_BYTES).decode(
            "utf-8-sig" if format.encoding == "utf-8" else format.encoding
        )
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=format.delimiter, strict=True)
        next(lines, None)
        for number, row in enumerate(lines, 2):
            if not row:
                continue
            if len(row) != fields:
                raise InvalidInput(f"{path}, line {number}: it has not the fields of the header.")
            yield row
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path} cannot be read as CSV: {type(error).__name__}.") from None


def _as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of objects that are all texts, as a frame has them, as one of texts."""
    if values.dtype == object and all(isinstance(each, str) for each in values.ravel().tolist()):
        return values.astype(str)
    return values


def _texts(cells: tuple[str, ...]) -> NDArray[Any]:
    # Of objects: an array of texts sets aside for each cell what the longest one needs.
    values = np.empty(len(cells), object)
    values[:] = cells
    return values
