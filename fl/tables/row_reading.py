"""How the rows of a table are read: by a schema, and by what says whose and where a row is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import numpy as np

from ...accountant.errors import InvalidInput
from .array_file import ARRAY_SUFFIXES, ArrayFile
from .arrow_file import ARROW_SUFFIXES, PARQUET_SUFFIXES, ArrowFile, ArrowFrame
from .batches import ArrayShapes, Batch, BatchReport, require_columns, unheard
from .cell_features import features_of, labels_of, no_labels, places_of
from .csv_file import TextFile
from .rows import Rows
from .schema import Schema, TextFormat
from .user_names import user_names

TEXT_SUFFIXES: Final = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt")

Source: TypeAlias = Path | ArrowFrame
"""Where rows are: in a file, or in a frame that a program handed over."""


class RowFile(Protocol):
    """A file, or what stands for one, that is open: its columns are known, and its rows are not."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns."""

    def require_readable(
        self, needed: tuple[str, ...], user: str | None, arrays: ArrayShapes
    ) -> None:
        """Raise `InvalidInput` for a column of a type that is not read, or of no ids."""

    def is_flat(self, column: str) -> bool:
        """Return whether a column holds texts, numbers or truths."""

    def batches(
        self, report: BatchReport = unheard, *, columns: tuple[str, ...]
    ) -> Iterator[Batch]:
        """Yield the rows, with these columns at least."""


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """Which columns say what: `user` whose record a row is, `label` what is learnt, `silo` where.

    Each is None where there is none: a record is of one user each, nothing is learnt, and files
    say of which silo they are.
    """

    user: str | None = None
    label: str | None = None
    silo: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that every file must have for it."""
        return tuple(name for name in (self.user, self.label, self.silo) if name is not None)


@dataclass(frozen=True, eq=False, kw_only=True)
class TableReading:
    """How rows are read, all of it public: `silos` are the names of all, `seed` that of users'.

    Columns that are `ignored` may be there besides those of the schema and of `columns`.
    """

    schema: Schema
    columns: TableColumns
    silos: tuple[str, ...]
    seed: int = 0
    ignored: tuple[str, ...] = ()

    @cached_property
    def needed(self) -> tuple[str, ...]:
        """The columns that every file must have."""
        label = self.schema.label
        event = () if label is None or label.event is None else (label.event,)
        return tuple(dict.fromkeys((*self.columns.names, *event, *self.schema.required)))

    def open(self, source: Source) -> RowFile:
        """Return a file whose columns are those of the schema; `InvalidInput` for any other."""
        file = opened(source, self.schema.format)
        known = {*self.needed, *self.ignored, *(column.name for column in self.schema.columns)}
        require_columns(list(file.names), self.needed, known, source.name)
        arrays = {column.name: column.shape for column in self.schema.columns if column.shape}
        file.require_readable(self.needed, self.columns.user, arrays)
        return file

    def batches(self, file: RowFile, report: BatchReport = unheard) -> Iterator[Batch]:
        """Yield the rows of a file, with the columns that are needed at least."""
        return file.batches(report, columns=self.needed)

    def rows(self, batch: Batch, silo: int) -> Rows:
        """Return the rows of a batch, of a silo where no column says of which they are.

        Rows that have no label, no id, or no silo of the list where a column says it are left out.
        """
        schema, columns, count = self.schema, self.columns, len(batch.lines)
        there = np.ones(count, bool)
        user = np.zeros(count, np.int64)
        of_silo = np.full(count, silo, np.int64)
        if columns.silo is not None:
            of_silo = places_of(batch.columns[columns.silo], self.silos, schema.format)
            there = of_silo >= 0
        if columns.user is not None:
            cells = batch.columns[columns.user]
            user, named = user_names(cells, schema.format.id_case, self.seed)
            there = there & named
        labels = None
        if columns.label is not None and schema.label is not None:
            labels, labelled = labels_of(batch, columns.label, schema.label, schema.format)
            there = there & labelled
        rows = Rows(features_of(batch, schema), labels, user, of_silo)
        return rows if there.all() else rows.only(there)

    @property
    def no_rows(self) -> Rows:
        """No rows, in the form of those that are read."""
        none = np.zeros(0, np.int64)
        labelled = self.columns.label is not None and self.schema.label is not None
        labels = no_labels(self.schema.label) if labelled else None
        return Rows(np.zeros((0, self.schema.width), np.float32), labels, none, none)


def opened(source: Source, format: TextFormat) -> RowFile:
    """Return what reads a file, by the end of its name; raises `InvalidInput` for another one."""
    if isinstance(source, ArrowFrame):
        return replace(source, longest=format.longest_line)
    if source.suffix in (*PARQUET_SUFFIXES, *ARROW_SUFFIXES):
        return ArrowFile.open(source, format.longest_line)
    if source.name.endswith(TEXT_SUFFIXES):
        return TextFile.open(source, format)
    if source.suffix in ARRAY_SUFFIXES:
        return ArrayFile.open(source, format.longest_line)
    suffixes = (*TEXT_SUFFIXES, *PARQUET_SUFFIXES, *ARROW_SUFFIXES, *ARRAY_SUFFIXES)
    raise InvalidInput(
        f"{source.name or source} is of no format that a table is read from.",
        "The end of its name says which it is.",
        f"Give one of {', '.join(suffixes)}.",
    )
