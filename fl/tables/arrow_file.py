"""Rows of Parquet and Arrow files, whose footers say what their columns are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant.errors import InvalidInput
from ...accountant.regular_file import open_regular
from .batches import Batch, BatchReport, arrow, unheard

if TYPE_CHECKING:
    import pyarrow

ARROW_BATCH_ROWS: Final = 65_536

PARQUET_SUFFIXES: Final = (".parquet", ".pq")
ARROW_SUFFIXES: Final = (".arrow", ".feather", ".ipc")


@dataclass(frozen=True, eq=False)
class ArrowFile:
    """A Parquet or Arrow file; `schema` is what its footer says."""

    path: Path
    schema: pyarrow.Schema

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""
        return tuple(self.schema.names)

    @classmethod
    def open(cls, path: Path) -> ArrowFile:
        """Return the file; raises `InvalidInput` for a footer that cannot be read."""
        for _, schema in _read(path, None):
            return cls(path, schema)
        raise AssertionError

    def require_flat(self, column: str) -> None:
        """Raise `InvalidInput` for a column that holds neither texts nor numbers nor truths."""
        types = arrow().types
        kind = self.schema.field(column).type
        if types.is_dictionary(kind):
            kind = kind.value_type
        fits = (
            *(types.is_string, types.is_large_string, types.is_string_view, types.is_boolean),
            *(types.is_integer, types.is_floating, types.is_decimal, types.is_null),
        )
        if not any(is_type(kind) for is_type in fits):
            raise InvalidInput(
                f"{self.path.name} has a column {column!r:.60} of type {kind!s:.60}.",
                "A column of a table holds texts, numbers or truths.",
                'Write it as one of these, or give it kind = "ignored".',
            )

    def batches(self, report: BatchReport = unheard, *, columns: list[str]) -> Iterator[Batch]:
        """Yield the rows, of these columns alone."""
        del report  # a row of such a file is always a row
        first = 1
        for batch, _ in _read(self.path, columns):
            assert batch is not None
            held = {name: _plain(batch.column(name)) for name in columns}
            yield Batch(held, np.arange(first, first + batch.num_rows))
            first += batch.num_rows


def _plain(column: pyarrow.Array) -> pyarrow.Array:
    """Return a column without a dictionary, decimals as floats, texts of the usual type."""
    types = arrow().types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_decimal(column.type):
        return column.cast(arrow().float64())
    if types.is_large_string(column.type) or types.is_string_view(column.type):
        return column.cast(arrow().string())
    if types.is_null(column.type):
        return column.cast(arrow().string())
    return column


def _read(
    path: Path, columns: list[str] | None
) -> Iterator[tuple[pyarrow.RecordBatch | None, pyarrow.Schema]]:
    """Yield batches of some columns with the schema of the file; for None the schema alone."""
    pa = arrow()
    try:
        with open_regular(path, within=path.parent) as file:
            if path.suffix in PARQUET_SUFFIXES:
                from pyarrow import parquet

                held = parquet.ParquetFile(file)
                if columns is None:
                    yield None, held.schema_arrow
                    return
                for batch in held.iter_batches(ARROW_BATCH_ROWS, columns=columns):
                    yield batch, held.schema_arrow
                return
            reader = pa.ipc.open_file(file)
            if columns is None:
                yield None, reader.schema
                return
            for index in range(reader.num_record_batches):
                yield reader.get_batch(index).select(columns), reader.schema
    except (pa.ArrowException, OSError) as error:
        raise InvalidInput(
            f"{path.name} cannot be read: {getattr(error, 'strerror', None) or 'it is damaged'}.",
            "It must be a whole Parquet or Arrow file.",
            "Write it again, or take a copy that is whole.",
        ) from None
