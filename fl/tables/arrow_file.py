"""Rows of Parquet and Arrow files, whose footers say what their columns are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput
from ...accountant.regular_file import open_regular
from .arrow_cells import plain, row_ranges, text_kinds, text_sizes, word_sizes
from .batches import (
    BATCH_NUMBERS,
    BATCH_TEXT_BYTES,
    ArrayShapes,
    Batch,
    BatchReport,
    arrow,
    too_long,
    unheard,
)
from .schema import LONGEST_LINE

if TYPE_CHECKING:
    import pyarrow

ARROW_BATCH_ROWS: Final = 65_536

PARQUET_SUFFIXES: Final = (".parquet", ".pq")
ARROW_SUFFIXES: Final = (".arrow", ".feather", ".ipc")

_PARQUET_MAGIC: Final = b"PAR1"
_FOOTER_END: Final = 8
"""How many bytes a Parquet file has after its footer: the length of that, and the magic."""

_WRITERS_TYPES: Final = b"ARROW:schema"
_UNKNOWN_KEY: Final = b"arrow-schema"
"""The key of a footer under which Arrow keeps the types that it had, and one that says nothing."""


class ArrowColumns:
    """Columns of Arrow's types, as a footer declares them: `name` is for messages.

    A text of more than `longest` bytes is missing.
    """

    name: str
    schema: pyarrow.Schema
    longest: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(self.schema.names)

    def require_readable(
        self, needed: tuple[str, ...], user: str | None, arrays: ArrayShapes
    ) -> None:
        """Raise `InvalidInput` for a column of a type that is not read, or of no ids."""
        for name in needed:
            if name in arrays:
                self._require_lists(name, math.prod(arrays[name]))
            else:
                self.require_flat(name)
        if user is not None:
            self.require_ids(user)

    def require_flat(self, column: str) -> None:
        """Raise `InvalidInput` for a column that holds neither texts nor numbers nor truths."""
        types, kind = arrow().types, self._kind(column)
        fits = (
            *(*text_kinds(), types.is_boolean),
            *(types.is_integer, types.is_floating, types.is_decimal, types.is_null),
        )
        # What a type is called does not say whether this pyarrow takes its cells apart.
        if not any(is_type(kind) for is_type in fits) or not self._is_readable(column):
            raise InvalidInput(
                f"{self.name} has a column {column!r:.60} of type {kind!s:.60}.",
                "A column of a table holds texts, numbers or truths.",
                'Write it as one of these, or give it kind = "ignored".',
            )

    def _require_lists(self, column: str, width: int) -> None:
        types = arrow().types
        kind = self.schema.field(column).type
        fits = types.is_fixed_size_list(kind) and kind.list_size == width
        numbers = (types.is_integer, types.is_floating, types.is_boolean)
        if not fits or not any(is_type(kind.value_type) for is_type in numbers):
            raise InvalidInput(
                f"{self.name} has a column {column!r:.60} of type {kind!s:.60}, and the schema "
                f"says an array of {width:,} numbers.",
                "How many numbers a cell has is public, and is said by the type of the column.",
                "Save arrays in a file .npz, or as flat lists of a fixed size in an Arrow file.",
            )

    def _kind(self, column: str) -> Any:
        """Return the type of a column's values, which may stand in a dictionary."""
        kind = self.schema.field(column).type
        return kind.value_type if arrow().types.is_dictionary(kind) else kind

    def is_flat(self, column: str) -> bool:
        """Return whether a column holds texts, numbers or truths."""
        try:
            self.require_flat(column)
        except InvalidInput:
            return False
        return True

    def require_ids(self, column: str) -> None:
        """Raise `InvalidInput` for a column of ids that are neither texts nor whole numbers.

        A fraction is written in several ways, and a float has no room for a long number: two
        people could become one, or one become two.
        """
        types, kind = arrow().types, self._kind(column)
        if not any(is_type(kind) for is_type in (*text_kinds(), types.is_integer, types.is_null)):
            raise InvalidInput(
                f"{self.name} has ids in {column!r:.60} of type {kind!s:.60}.",
                "Ids are texts or whole numbers, so that one person has one in every file.",
                "Write them as text.",
            )

    def batches(
        self, report: BatchReport = unheard, *, columns: tuple[str, ...]
    ) -> Iterator[Batch]:
        """Yield the rows, of these columns alone."""
        first = 1
        for batch, sizes in self._parts(columns):
            beyond = sizes > self.longest
            for start, end in row_ranges(np.where(beyond, 0, sizes).sum(axis=0), BATCH_TEXT_BYTES):
                held = {}
                for index, name in enumerate(columns):
                    missing = beyond[index, start:end]
                    cells = batch.column(index).slice(start, end - start)
                    held[name], unreadable = plain(cells, missing)
                    for row in unreadable:
                        report(
                            first + row, name, "the cell is no UTF-8 text, and counts as missing"
                        )
                    for row in np.flatnonzero(missing).tolist():
                        report(first + row, name, too_long(self.longest))
                yield Batch(held, np.arange(first, first + end - start))
                first += end - start

    def _parts(self, columns: tuple[str, ...]) -> Iterator[tuple[pyarrow.RecordBatch, IntArray]]:
        """Yield the rows, so many at a time as `BATCH_NUMBERS` has room for.

        Besides, how many bytes of text each cell has: (columns, rows).
        """
        kinds = [self.schema.field(name).type for name in columns]
        widest = sum(getattr(kind, "list_size", 1) for kind in kinds)
        step = max(1, min(ARROW_BATCH_ROWS, BATCH_NUMBERS // max(1, widest)))
        for batch in self._batches(list(columns)):
            words = [word_sizes(cells) for cells in batch.columns]
            for row in range(0, batch.num_rows, step):
                part = batch.slice(row, step)
                sizes = np.zeros((len(columns), part.num_rows), np.int64)
                for index, cells in enumerate(part.columns):
                    sizes[index] = text_sizes(cells, words[index])
                yield part, sizes

    def _batches(self, columns: list[str]) -> Iterator[pyarrow.RecordBatch]:
        raise NotImplementedError

    def _is_readable(self, column: str) -> bool:
        """Return whether this pyarrow can take cells of the type apart."""
        pa = arrow()
        try:
            plain(pa.array([], self.schema.field(column).type), np.zeros(0, bool))
        except pa.ArrowException:
            return False
        return True


@dataclass(frozen=True, eq=False)
class ArrowFile(ArrowColumns):
    """A Parquet or Arrow file; `schema` is what its footer says."""

    path: Path
    schema: pyarrow.Schema
    longest: int = LONGEST_LINE

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of the file."""
        return self.path.name

    @classmethod
    def open(cls, path: Path, longest: int = LONGEST_LINE) -> ArrowFile:
        """Return the file; raises `InvalidInput` for a footer that cannot be read."""
        for _, schema in _read(path, None):
            return cls(path, schema, longest)
        raise AssertionError

    def _batches(self, columns: list[str]) -> Iterator[pyarrow.RecordBatch]:
        for batch, _ in _read(self.path, columns):
            assert batch is not None
            yield batch


@dataclass(frozen=True, eq=False, repr=False)
class ArrowFrame(ArrowColumns):
    """A table of Arrow that a program holds; `name` says which, for messages."""

    name: str
    table: pyarrow.Table
    longest: int = LONGEST_LINE

    @property
    def schema(self) -> pyarrow.Schema:
        """What the table says of its columns."""
        return self.table.schema

    def _batches(self, columns: list[str]) -> Iterator[pyarrow.RecordBatch]:
        yield from self.table.select(columns).to_batches()


def _stored_types(file: BinaryIO) -> Any:
    """Return what a Parquet footer says of its columns as they are stored, and not as they were.

    Columns of a dictionary are stored as texts.  Made a dictionary again, they would be cast to the
    indices that the writer had, which fails for what some cells hold.
    """
    from pyarrow import parquet

    end = file.seek(0, 2)
    file.seek(max(0, end - _FOOTER_END))
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(0, end - _FOOTER_END - length))
    footer = file.read(length).replace(_WRITERS_TYPES, _UNKNOWN_KEY)
    whole = _PARQUET_MAGIC + footer + length.to_bytes(4, "little") + _PARQUET_MAGIC
    return parquet.read_metadata(arrow().BufferReader(whole))


def _named(schema: pyarrow.Schema) -> pyarrow.Schema:
    """Return a schema whose names are texts; raises `UnicodeDecodeError` for another."""
    schema.names  # noqa: B018  # they are made texts when they are asked for
    return schema


def _require_whole(column: pyarrow.Array) -> None:
    """Raise `ArrowInvalid` for a column that points out of its own memory, as damage can do.

    Whether bytes are text is another question, which the cells are asked one by one.
    """
    pa = arrow()
    if pa.types.is_dictionary(column.type):
        column.indices.validate(full=True)
        _require_whole(column.dictionary)
        return
    bytes_of = {
        pa.string(): pa.binary(),
        pa.large_string(): pa.large_binary(),
        pa.string_view(): pa.binary_view(),
    }
    column.view(bytes_of.get(column.type, column.type)).validate(full=True)


def _read(
    path: Path, columns: list[str] | None
) -> Iterator[tuple[pyarrow.RecordBatch | None, pyarrow.Schema]]:
    """Yield batches of some columns with the schema of the file; for None the schema alone."""
    pa = arrow()
    try:
        with open_regular(path, within=path.parent) as file:
            if path.suffix in PARQUET_SUFFIXES:
                from pyarrow import parquet

                held = parquet.ParquetFile(file, metadata=_stored_types(file))
                if columns is None:
                    yield None, _named(held.schema_arrow)
                    return
                for batch in held.iter_batches(ARROW_BATCH_ROWS, columns=columns):
                    yield batch, held.schema_arrow
                return
            reader = pa.ipc.open_file(file)
            if columns is None:
                yield None, _named(reader.schema)
                return
            for index in range(reader.num_record_batches):
                batch = reader.get_batch(index).select(columns)
                for column in batch.columns:
                    _require_whole(column)
                yield batch, reader.schema
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path.name} cannot be read: {getattr(error, 'strerror', None) or 'it is damaged'}.",
            "It must be a whole Parquet or Arrow file.",
            "Write it again, or take a copy that is whole.",
        ) from None
