"""Rows of .npz files: arrays with a row each, dense ones and sparse ones of SciPy.

Names, types and shapes of arrays stand in their headers and are public, as a footer is, but for how
many rows there are.  Nothing is unpickled, and nothing is unpacked but block by block.

    dense        (rows,) is a column of numbers, truths or texts; (rows, ...) one of kind "array"
    sparse       `data`, `indices`, `indptr`, `shape` and `format`, as scipy.sparse.save_npz writes
                 a CSR matrix, are one column `data` of kind "array"
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...accountant.errors import InvalidInput
from ...accountant.regular_file import open_regular
from .arrow_file import readable_texts
from .batches import BATCH_NUMBERS, ArrayShapes, Batch, BatchReport, arrow, unheard

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

ARRAY_SUFFIXES: Final = (".npz",)

MOST_UNPACKED: Final = 2**35
"""Most bytes that the arrays of a file may declare: more than that is no file but a bomb."""

MOST_CELL_BYTES: Final = 2**16
"""Most bytes of a text."""

_SPARSE: Final = ("data", "indices", "indptr", "shape", "format")
_SPARSE_FORMAT: Final = "csr"
_MOST_HEADER_BYTES: Final = 2**12


@dataclass(frozen=True)
class ArrayHeader:
    """What the header of an array declares; `start` is how many bytes of its file come before."""

    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_rows: bool
    start: int

    @property
    def row_numbers(self) -> int:
        """How many numbers a row has."""
        return math.prod(self.shape[1:])


@dataclass(frozen=True, eq=False)
class ArrayFile:
    """A file of arrays by name; `width` is that of its sparse matrix, None where it has none."""

    path: Path
    arrays: Mapping[str, ArrayHeader]
    width: int | None

    @classmethod
    def open(cls, path: Path) -> ArrayFile:
        """Return the file; raises `InvalidInput` for headers that are none, or declare too much."""
        with _opened(path) as packed:
            members = packed.infolist()
            if sum(info.file_size for info in members) > MOST_UNPACKED:
                raise _refused(path, f"declares more than {MOST_UNPACKED:,} bytes of arrays")
            headers = [_header(packed, info, path) for info in members]
            arrays = {header.member.removesuffix(".npy"): header for header in headers}
            if len(arrays) < len(members):
                raise _refused(path, "has two arrays of one name")
            width = _sparse_width(packed, arrays, path) if arrays.keys() >= {*_SPARSE} else None
        return cls(path, arrays, width)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        parts = () if self.width is None else _SPARSE[1:]
        return tuple(name for name in self.arrays if name not in parts)

    def require_readable(
        self, needed: tuple[str, ...], user: str | None, arrays: ArrayShapes
    ) -> None:
        """Raise `InvalidInput` for a column of a type or a shape that is not read, or of no ids."""
        for name in needed:
            declared, kind = self.shape_of(name), self.arrays[name].dtype.kind
            wanted = arrays.get(name, ())
            if declared != wanted and (not wanted or declared != (math.prod(wanted),)):
                raise _refused(
                    self.path,
                    f"has an array {name!r:.60} of rows of shape {list(declared or ())}, and the "
                    f"schema says {list(wanted)}",
                )
            if kind not in ("biuf" if wanted else "biufUS") or not self.arrays[name].by_rows:
                raise _refused(
                    self.path,
                    f"has an array {name!r:.60} of a type that is not read, or not with rows first",
                )
        if user is not None and self.arrays[user].dtype.kind not in "iuUS":
            raise InvalidInput(
                f"{self.path.name} has ids in {user!r:.60} that are neither texts nor whole "
                "numbers.",
                "Ids are these, so that one person has one in every file.",
                "Write them as text.",
            )

    def is_flat(self, column: str) -> bool:
        """Return whether a column holds texts, numbers or truths, and no arrays."""
        return self.shape_of(column) == () and self.arrays[column].dtype.kind in "biufUS"

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a row of a column; None for an array that has no rows."""
        if name == _SPARSE[0] and self.width is not None:
            return (self.width,)
        shape = self.arrays[name].shape
        return shape[1:] if shape else None

    def batches(
        self, report: BatchReport = unheard, *, columns: tuple[str, ...] = ()
    ) -> Iterator[Batch]:
        """Yield the rows, with these columns, or all.  Where one ends earlier, rows end with it."""
        named = columns or self.names
        with _opened(self.path) as packed, ExitStack() as held:
            readers = {name: self._reader(packed, name, held) for name in named}
            rows = min((reader.rows for reader in readers.values()), default=0)
            if report is not unheard:
                longest = max((reader.rows for reader in readers.values()), default=0)
                for row in range(rows, longest):
                    report(row + 1, None, "some arrays have no such row, and it is left out")
            widest = sum(math.prod(self.shape_of(name) or ()) for name in named)
            step = max(1, BATCH_NUMBERS // max(1, widest))
            for first in range(0, rows, step):
                count = min(step, rows - first)
                cells = {name: reader.cells(count) for name, reader in readers.items()}
                yield Batch(cells, np.arange(first + 1, first + count + 1))

    def _reader(self, packed: zipfile.ZipFile, name: str, held: ExitStack) -> _Dense | _Sparse:
        if name == _SPARSE[0] and self.width is not None:
            whole = {part: _whole(packed, self.arrays[part]) for part in _SPARSE[:3]}
            return _Sparse(self.path, self.width, **whole)
        header = self.arrays[name]
        file = held.enter_context(packed.open(header.member))
        file.read(header.start)
        return _Dense(header, file)


class _Dense:
    """Reads the rows of one array, one block after the other."""

    def __init__(self, header: ArrayHeader, file: Any) -> None:
        self._header, self._file = header, file
        self.rows = header.shape[0]

    def cells(self, count: int) -> pyarrow.Array:
        header = self._header
        size = count * header.row_numbers * header.dtype.itemsize
        content = self._file.read(size)
        if len(content) < size:
            raise EOFError
        values = np.frombuffer(content, header.dtype).astype(header.dtype.newbyteorder("="))
        if len(header.shape) == 1:
            return _column(values)
        return _lists(values, header.row_numbers)


class _Sparse:
    """Reads the rows of a CSR matrix, made dense one block after the other."""

    def __init__(self, path: Path, width: int, data: Any, indices: Any, indptr: Any) -> None:
        starts = indptr.astype(np.int64)
        ends = len(data) if len(starts) else 0
        if len(indices) != len(data) or (np.diff(starts, prepend=0, append=ends) < 0).any():
            raise _refused(path, "has a sparse matrix whose parts do not fit together")
        self._width, self._data, self._indices, self._starts = width, data, indices, starts
        self.rows = max(0, len(starts) - 1)
        self._row = 0

    def cells(self, count: int) -> pyarrow.Array:
        starts = self._starts[self._row : self._row + count + 1]
        self._row += count
        column = self._indices[starts[0] : starts[-1]].astype(np.int64)
        row = np.repeat(np.arange(count), np.diff(starts))
        # An entry of no column is no number of its row; entries of one place are summed, as SciPy
        # does.
        there = (column >= 0) & (column < self._width)
        values = self._data[starts[0] : starts[-1]].astype(np.float64)[there]
        cell = row[there] * self._width + column[there]
        dense = np.bincount(cell, weights=values, minlength=count * self._width)
        return _lists(dense, self._width)


def _lists(values: NDArray[Any], width: int) -> pyarrow.Array:
    flat = arrow().array(values.astype(np.float32) if values.dtype == np.float16 else values)
    return arrow().FixedSizeListArray.from_arrays(flat, width)


def _column(values: NDArray[Any]) -> pyarrow.Array:
    pa = arrow()
    if values.dtype.kind == "S":
        return readable_texts(pa.array(values, pa.binary()))[0]
    if values.dtype.kind == "U" and values.dtype.itemsize:
        # What is no character makes its text no text; whoever wrote the file did not look.
        codes = values.view(np.uint32).reshape(len(values), -1)
        unreadable = ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any(axis=1)
        codes[unreadable] = 0
        return pa.array(values, pa.string())
    return pa.array(values.astype(np.float32) if values.dtype == np.float16 else values)


def _header(packed: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> ArrayHeader:
    """Return what an array declares; raises `InvalidInput` for what no array of numbers does."""
    name = info.filename.removesuffix(".npy")
    with packed.open(info) as file:
        try:
            version = np.lib.format.read_magic(file)
            reader = {
                (1, 0): np.lib.format.read_array_header_1_0,
                (2, 0): np.lib.format.read_array_header_2_0,
            }[version]
            shape, by_columns, dtype = reader(file, max_header_size=_MOST_HEADER_BYTES)
        except (ValueError, KeyError, TypeError, SyntaxError):
            raise _refused(path, f"has {name!r:.60}, which is no array") from None
        start = file.tell()
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        raise _refused(path, f"has an array {name!r:.60} of objects, which are never unpickled")
    if not 0 < dtype.itemsize <= MOST_CELL_BYTES:
        raise _refused(path, f"has an array {name!r:.60} of cells of {dtype.itemsize:,} bytes")
    if min(shape, default=0) < 0 or start + math.prod(shape) * dtype.itemsize != info.file_size:
        raise _refused(path, f"has an array {name!r:.60} of another size than it declares")
    return ArrayHeader(info.filename, shape, dtype, not by_columns or len(shape) < 2, start)


def _sparse_width(packed: zipfile.ZipFile, arrays: Mapping[str, ArrayHeader], path: Path) -> int:
    """Return how many columns a sparse matrix declares."""
    form, shape = arrays["format"], arrays["shape"]
    kinds = {name: arrays[name].dtype.kind for name in _SPARSE}
    fits = kinds["data"] in "biuf" and all(kinds[name] in "iu" for name in _SPARSE[1:4])
    fits = fits and all(len(arrays[name].shape) == 1 for name in _SPARSE[:3])
    if not fits or shape.shape != (2,) or form.shape != () or kinds["format"] not in "US":
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
    size = math.prod(header.shape) * header.dtype.itemsize
    if len(content) < header.start + size:
        raise EOFError
    return np.frombuffer(content, header.dtype, offset=header.start).reshape(header.shape)


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a file of arrays; name it in refusals."""
    try:
        with open_regular(path, within=path.parent) as file, zipfile.ZipFile(file) as packed:
            yield packed
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError):
        raise _refused(path, "is damaged, or is no .npz file") from None
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or 'it is damaged'}") from None


def _refused(path: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"{path.name} {what}.",
        "It holds an array with a row for each record, by the name of the column.",
        "Save it with numpy.savez, rows first, or save_npz of scipy.sparse with a user vector.",
    )
