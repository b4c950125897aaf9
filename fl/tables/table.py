"""A table: the records of real people, with the silo and the user of each, read by a public schema.

rows of each silo      by user, then by content: where a row stands in a file makes no difference
users                  those who have a row; how many they are is private
silos                  a public list, also of those that hold no row
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import numpy as np

from ...accountant.arrays import BoolArray, Float32Array, IntArray
from ...accountant.errors import InvalidInput
from ..data.federation import Labels
from ..data.row_contents import row_contents
from .arrow_file import ARROW_SUFFIXES, PARQUET_SUFFIXES, ArrowFile
from .batches import Batch, BatchReport, require_columns, unheard
from .features import features_of, labels_of, no_labels, places_of
from .schema import Schema
from .text_file import TextFile
from .user_names import user_names

TEXT_SUFFIXES: Final = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt")


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


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Table:
    """The rows of a table as numbers.  All of them are private, and so is how many there are.

    - `features`: (rows, `schema.width`); `labels`: (rows,) integers or numbers, (rows, 2) [time,
      event], or None of a matrix.
    - `user`: (rows,) names of users (`.user_names`); `silo`: (rows,), an index into `silos`.
    - `silos`: the names of the silos, public.
    """

    schema: Schema
    features: Float32Array
    labels: Labels | None
    user: IntArray
    silo: IntArray
    silos: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Table({len(self.schema.columns)} columns, silos={len(self.silos)})"


def read_table(
    silos: Mapping[str, Sequence[Path]],
    schema: Schema,
    columns: TableColumns,
    *,
    seed: int = 0,
    ignored: tuple[str, ...] = (),
) -> Table:
    """Return the rows of the files of each silo.

    Every file must have the columns of the schema and of `columns`, and no others.  Rows that are
    no rows (`.text_file`), that have no label, no id, or no silo of the list where a column says
    it, are left out.  `seed` is that of the names of users; columns that are `ignored` may be
    there.  Raises `InvalidInput` for files, headers and footers that do not fit.
    """
    names = tuple(silos)
    if columns.silo is None:
        parts = [
            _sorted(_rows_of(files, schema, columns, seed, names, silo, ignored))
            for silo, files in enumerate(silos.values())
        ]
    else:
        files = dict.fromkeys(path for of_silo in silos.values() for path in of_silo)
        parts = [_sorted(_rows_of(list(files), schema, columns, seed, names))]
    return _joined(parts, schema, columns, names)


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows: features, labels (None of a matrix), names of users and silos."""

    features: Float32Array
    labels: Labels | None
    user: IntArray
    silo: IntArray

    def only(self, chosen: IntArray | BoolArray) -> Rows:
        """Return some of them, by index or by a mask."""
        labels = None if self.labels is None else self.labels[chosen]
        return Rows(self.features[chosen], labels, self.user[chosen], self.silo[chosen])


def open_table_file(
    path: Path, schema: Schema, columns: TableColumns, ignored: tuple[str, ...] = ()
) -> TextFile | ArrowFile:
    """Return a file whose columns are those of a schema; raises `InvalidInput` for any other."""
    suffix = path.suffix
    file: TextFile | ArrowFile
    if suffix in (*PARQUET_SUFFIXES, *ARROW_SUFFIXES):
        file = ArrowFile.open(path)
    elif path.name.endswith(TEXT_SUFFIXES):
        file = TextFile.open(path, schema.format)
    else:
        raise InvalidInput(
            f"{path.name} is of no format that a table is read from.",
            "The end of its name says which it is.",
            f"Give one of {', '.join((*TEXT_SUFFIXES, *PARQUET_SUFFIXES, *ARROW_SUFFIXES))}.",
        )
    needed = needed_columns(schema, columns)
    known = {*needed, *ignored, *(column.name for column in schema.columns)}
    require_columns(list(file.names), needed, known, path)
    if isinstance(file, ArrowFile):
        for name in needed:
            file.require_flat(name)
        if columns.user is not None:
            file.require_ids(columns.user)
    return file


def needed_columns(schema: Schema, columns: TableColumns) -> tuple[str, ...]:
    """Return the columns that every file of a table must have."""
    event = () if schema.label is None or schema.label.event is None else (schema.label.event,)
    return tuple(dict.fromkeys((*columns.names, *event, *schema.required)))


def batches_of(
    file: TextFile | ArrowFile, needed: tuple[str, ...], report: BatchReport = unheard
) -> Iterator[Batch]:
    """Yield the rows of a file, with the columns that are needed at least."""
    if isinstance(file, TextFile):
        return file.batches(report)
    return file.batches(report, columns=list(needed))


def _rows_of(
    files: Sequence[Path],
    schema: Schema,
    columns: TableColumns,
    seed: int,
    silos: tuple[str, ...],
    silo: int | None = None,
    ignored: tuple[str, ...] = (),
) -> list[Rows]:
    """Return the rows of some files, of one silo, or of that which a column says."""
    opened = [open_table_file(path, schema, columns, ignored) for path in files]
    needed = needed_columns(schema, columns)
    return [
        rows
        for file in opened
        for batch in batches_of(file, needed)
        for rows in (_rows(batch, schema, columns, seed, silos, silo),)
    ]


def _rows(
    batch: Batch,
    schema: Schema,
    columns: TableColumns,
    seed: int,
    silos: tuple[str, ...],
    silo: int | None,
) -> Rows:
    count = len(batch.lines)
    there = np.ones(count, bool)
    user = np.zeros(count, np.int64)
    of_silo = np.full(count, 0 if silo is None else silo, np.int64)
    if columns.silo is not None:
        of_silo = places_of(batch.columns[columns.silo], silos, schema.format)
        there = of_silo >= 0
    if columns.user is not None:
        cells = batch.columns[columns.user]
        user, named = user_names(cells, schema.format.id_case, seed)
        there = there & named
    labels = None
    if columns.label is not None and schema.label is not None:
        labels, labelled = labels_of(batch, columns.label, schema.label, schema.format)
        there = there & labelled
    rows = Rows(features_of(batch, schema), labels, user, of_silo)
    return rows if there.all() else rows.only(there)


def _sorted(parts: list[Rows]) -> Rows | None:
    """Return rows by silo, then by user, and those of a user by content."""
    if not parts:
        return None
    rows = _concatenated(parts)
    return rows.only(np.lexsort((row_contents(rows.features, rows.labels), rows.user, rows.silo)))


def _concatenated(parts: Sequence[Rows]) -> Rows:
    labels = [part.labels for part in parts if part.labels is not None]
    return Rows(
        np.concatenate([part.features for part in parts]),
        cast(Labels, np.concatenate(labels)) if labels else None,
        np.concatenate([part.user for part in parts]),
        np.concatenate([part.silo for part in parts]),
    )


def _joined(
    parts: Sequence[Rows | None], schema: Schema, columns: TableColumns, silos: tuple[str, ...]
) -> Table:
    # A silo whose files hold no row is there all the same: the list of silos is public.
    there = [part for part in parts if part is not None]
    rows = _concatenated(there) if there else _no_rows(schema, columns)
    user = rows.user
    if columns.user is None:  # every record is of one user: a number of its own
        user = np.arange(len(user))
    return Table(
        schema=schema,
        features=rows.features,
        labels=rows.labels,
        user=user,
        silo=rows.silo,
        silos=silos,
    )


def _no_rows(schema: Schema, columns: TableColumns) -> Rows:
    none = np.zeros(0, np.int64)
    labels = None if columns.label is None else no_labels(schema.label)
    return Rows(np.zeros((0, schema.width), np.float32), labels, none, none)
