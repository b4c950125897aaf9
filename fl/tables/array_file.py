"""Rows of .npz files: arrays with a row each, dense ones and sparse ones of SciPy.

Nothing is unpickled, and nothing is unpacked but block by block.  An array that is not needed is
not judged.

    dense        (rows,) is a column of numbers, truths or texts; (rows, ...) one of kind "array"
    sparse       `data`, `indices`, `indptr`, `shape` and `format`, as scipy.sparse.save_npz writes
                 a CSR matrix, are one column `data` of kind "array"
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...accountant.errors import InvalidInput, PrivplanError
from ...accountant.regular_file import open_regular
from .array_cells import CellReader, NumberCells, SparseCells, TextCells
from .array_header import MOST_ARRAY_ROWS, OBJECTS, ArrayHeader, Unreadable, header_in
from .batches import (
    BATCH_NUMBERS,
    BATCH_TEXT_BYTES,
    ArrayShapes,
    Batch,
    BatchReport,
    too_long,
    unheard,
)
from .schema import LONGEST_LINE

if TYPE_CHECKING:
    from numpy.typing import NDArray

ARRAY_SUFFIXES: Final = (".npz",)

MOST_UNPACKED: Final = 2**35
"""Most bytes that the numbers which are needed may declare: more is no file but a bomb.

Texts do not count: how wide they are follows from the longest one.
"""

_SPARSE: Final = ("data", "indices", "indptr", "shape", "format")
_SPARSE_FORMAT: Final = "csr"
_MOST_FORMAT_BYTES: Final = 64


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """A file of arrays by name; `width` is that of its sparse matrix, None where it has none.

    `members` are the names of all; `unreadable` says why of those that cannot be read; a text of
    more than `longest` bytes is missing.
    """

    path: Path
    members: tuple[str, ...]
    arrays: Mapping[str, ArrayHeader]
    unreadable: Mapping[str, str]
    width: int | None
    longest: int

    @classmethod
    def open(cls, path: Path, longest: int = LONGEST_LINE) -> ArrayFile:
        """Return the file; raises `InvalidInput` for one that is damaged."""
        arrays: dict[str, ArrayHeader] = {}
        unreadable: dict[str, str] = {}
        with _opened(path) as packed:
            held = {info.filename.removesuffix(".npy"): info for info in packed.infolist()}
            for name, info in held.items():
                try:
                    arrays[name] = header_in(packed, info)
                except Unreadable as error:
                    unreadable[name] = str(error)
            if len(held) < len(packed.infolist()):
                raise _refused(path, "has two arrays of one name")
            width = None
            if held.keys() >= {*_SPARSE}:
                width = _sparse_width(packed, arrays, path)
        return cls(path, tuple(held), arrays, unreadable, width, longest)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        parts = () if self.width is None else _SPARSE[1:]
        return tuple(name for name in self.members if name not in parts)

    def require_readable(
        self, needed: tuple[str, ...], user: str | None, arrays: ArrayShapes
    ) -> None:
        """Raise `InvalidInput` for a column of a type or a shape that is not read, or of no ids."""
        self._require_headers(needed)
        for name in needed:
            declared, header = self.shape_of(name), self.arrays[name]
            wanted = arrays.get(name, ())
            if declared != wanted and (not wanted or declared != (math.prod(wanted),)):
                raise _refused(
                    self.path,
                    f"has an array {name!r:.60} of rows of shape {list(declared or ())}, and the "
                    f"schema says {list(wanted)}",
                )
            fits = header.holds_numbers or (not wanted and header.holds_texts)
            if not fits or not header.by_rows:
                raise _refused(
                    self.path,
                    f"has an array {name!r:.60} of a type that is not read, or not with rows first",
                )
        if user is not None and not (
            self.arrays[user].holds_texts or self.arrays[user].holds_whole_numbers
        ):
            raise InvalidInput(
                f"{self.path.name} has ids in {user!r:.60} that are neither texts nor whole "
                "numbers.",
                "Ids are these, so that one person has one in every file.",
                "Write them as text.",
            )

    def _require_headers(self, needed: tuple[str, ...]) -> None:
        """Raise `InvalidInput` where an array that is needed cannot be read, or is too large."""
        for name in needed:
            why = self.unreadable.get(name)
            if why == OBJECTS:
                raise InvalidInput(
                    f"{self.path.name} has an array {name!r:.60} {why}.",
                    "What is unpickled may do anything; NumPy writes objects for a list with None "
                    "in it.",
                    'Write texts as numpy.array(texts, dtype=str), with "" for a missing one, and '
                    "numbers as floats, with nan.",
                )
            if why is not None:
                raise _refused(self.path, f"has an array {name!r:.60} {why}")
        parts = {name for name in needed if name != _SPARSE[0] or self.width is None}
        if len(parts) < len({*needed}):
            parts |= {*_SPARSE[:3]}
        numbers = [self.arrays[name] for name in parts if not self.arrays[name].holds_texts]
        if any(self.arrays[name].shape[:1] > (MOST_ARRAY_ROWS,) for name in parts):
            raise _refused(self.path, f"has an array of more than {MOST_ARRAY_ROWS:,} rows")
        if sum(header.size for header in numbers) > MOST_UNPACKED:
            raise _refused(self.path, f"declares more than {MOST_UNPACKED:,} bytes of numbers")

    def is_flat(self, column: str) -> bool:
        """Return whether a column holds texts, numbers or truths, and no arrays."""
        header = self.arrays.get(column)
        if header is None or self.shape_of(column) != ():
            return False
        return header.holds_texts or header.holds_numbers

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a row of a column; None for an array that has no rows."""
        if name == _SPARSE[0] and self.width is not None:
            return (self.width,)
        header = self.arrays.get(name)
        return header.shape[1:] if header is not None and header.shape else None

    def batches(
        self, report: BatchReport = unheard, *, columns: tuple[str, ...]
    ) -> Iterator[Batch]:
        """Yield the rows, with these columns.  Where one ends earlier, rows end with it."""
        self._require_headers(columns)
        with _opened(self.path) as packed, ExitStack() as held:
            readers = {name: self._reader(packed, name, held) for name in columns}
            rows = min((reader.rows for reader in readers.values()), default=0)
            if report is not unheard:
                longest = max((reader.rows for reader in readers.values()), default=0)
                for row in range(rows, longest):
                    report(row + 1, None, "some arrays have no such row, and it is left out")
            widest = sum(math.prod(self.shape_of(name) or ()) for name in columns)
            texts = sum(reader.row_bytes for reader in readers.values())
            step = max(1, min(BATCH_NUMBERS // max(1, widest), BATCH_TEXT_BYTES // max(1, texts)))
            for first in range(0, rows, step):
                count = min(step, rows - first)
                cells = {}
                for name, reader in readers.items():
                    cells[name], beyond = reader.cells(count)
                    for row in beyond:
                        report(first + row + 1, name, too_long(self.longest))
                yield Batch(cells, np.arange(first + 1, first + count + 1))

    def _reader(self, packed: zipfile.ZipFile, name: str, held: ExitStack) -> CellReader:
        if name == _SPARSE[0] and self.width is not None:
            return self._sparse(*(_whole(packed, self.arrays[part]) for part in _SPARSE[:3]))
        header = self.arrays[name]
        file = held.enter_context(packed.open(header.member))
        file.read(header.start)
        if header.holds_texts:
            return TextCells(header, file, self.longest)
        return NumberCells(header, file)

    def _sparse(self, data: Any, indices: Any, indptr: Any) -> SparseCells:
        assert self.width is not None
        starts = indptr.astype(np.int64)
        ends = len(data) if len(starts) else 0
        if len(indices) != len(data) or (np.diff(starts, prepend=0, append=ends) < 0).any():
            raise _refused(self.path, "has a sparse matrix whose parts do not fit together")
        return SparseCells(self.width, data, indices, starts)


def _sparse_width(packed: zipfile.ZipFile, arrays: Mapping[str, ArrayHeader], path: Path) -> int:
    """Return how many columns a sparse matrix declares."""
    parts = [arrays.get(name) for name in _SPARSE]
    data, _, _, shape, form = parts
    fits = (
        all(part is not None and len(part.shape) == 1 for part in parts[:3])
        and (data is not None and data.holds_numbers)
        and all(part is not None and part.holds_whole_numbers for part in parts[1:4])
    )
    if (
        not fits
        or shape is None
        or shape.shape != (2,)
        or form is None
        or form.shape != ()
        or not (form.holds_texts and 0 < form.dtype.itemsize <= _MOST_FORMAT_BYTES)
    ):
        raise _refused(path, "has no sparse matrix as scipy.sparse.save_npz writes one")
    said = _whole(packed, form).item()
    said = said.decode("latin-1") if isinstance(said, bytes) else said
    width = int(_whole(packed, shape)[1])
    if said != _SPARSE_FORMAT or not 0 < width < 2**31:
        raise InvalidInput(
            f"{path.name} has a sparse matrix that is not in the format {_SPARSE_FORMAT}.",
            "Its rows are read one after the other.",
            "Save matrix.tocsr().",
        )
    return width


def _whole(packed: zipfile.ZipFile, header: ArrayHeader) -> NDArray[Any]:
    with packed.open(header.member) as file:
        content = file.read()
    if len(content) < header.start + header.size:
        raise EOFError
    return np.frombuffer(content, header.dtype, math.prod(header.shape), header.start).reshape(
        header.shape
    )


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a file of arrays; name it in refusals."""
    try:
        with open_regular(path, within=path.parent) as file, zipfile.ZipFile(file) as packed:
            yield packed
    except PrivplanError:
        raise
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or 'it is damaged'}") from None
    # What zipfile raises of a directory that is damaged: names that are no text, and the like.
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, struct.error):
        raise _refused(path, "is damaged, or is no .npz file") from None


def _refused(path: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"{path.name} {what}.",
        "It holds an array with a row for each record, by the name of the column.",
        "Save it with numpy.savez, rows first, or save_npz of scipy.sparse with a user vector.",
    )
