"""What is wrong with the values of a table: for whoever owns the data, and for nobody else.

A run says none of this, since every line of it is a fact about somebody's record.  A finding names
the file, the line and the column, and never a value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ...accountant.arrays import BoolArray, IntArray
from .batches import Batch
from .cell_features import CellReport, features_of, labels_of, places_of
from .row_reading import Source, TableColumns, TableReading
from .schema import Schema
from .user_names import normalised_ids, user_names

SHOWN_OF_A_KIND: Final = 20
"""Most lines that are listed of one kind of finding in one file; all of them are counted."""


@dataclass(frozen=True)
class Finding:
    """What is wrong in one file: `why`, in which column (None: the line), and where.

    `count` lines have it, of which `lines` are the first.
    """

    file: str
    column: str | None
    why: str
    count: int
    lines: tuple[int, ...]

    def to_json(self) -> dict[str, object]:
        """Return the finding as a JSON object."""
        return {
            "file": self.file,
            "column": self.column,
            "says": self.why,
            "count": self.count,
            "lines": list(self.lines),
        }


@dataclass(frozen=True)
class CheckedTable:
    """All findings of a table, with its rows and users by silo.  All of it is private."""

    findings: tuple[Finding, ...]
    rows: Mapping[str, int]
    users: int | None

    def to_json(self) -> dict[str, object]:
        """Return the report as a JSON object."""
        return {
            "private": True,
            "findings": [finding.to_json() for finding in self.findings],
            "rows": dict(self.rows),
            "users": self.users,
        }


@dataclass
class _Heard:
    """Counts what is said of one file."""

    counts: Counter[tuple[str | None, str]] = field(default_factory=Counter)
    lines: dict[tuple[str | None, str], list[int]] = field(default_factory=dict)

    def line(self, number: int, column: str | None, why: str) -> None:
        self.counts[column, why] += 1
        first = self.lines.setdefault((column, why), [])
        if len(first) < SHOWN_OF_A_KIND:
            first.append(number)

    def cells(self, numbers: IntArray, rows: BoolArray, column: str, why: str) -> None:
        for number in numbers[rows].tolist():
            self.line(number, column, why)


def checked_table(
    silos: Mapping[str, Sequence[Source]],
    schema: Schema,
    columns: TableColumns,
    *,
    listed: IntArray | None = None,
    seed: int = 0,
) -> CheckedTable:
    """Return what is wrong with the values in the files of each silo.

    `listed` are the names of the users on a public list (`.user_names`, with this `seed`).
    Raises `InvalidInput` for files, headers and footers that do not fit, as `read_table` does.
    """
    # One memory for all files: an id may be written in two ways in two silos.
    written: dict[str, str] = {}
    findings: list[Finding] = []
    rows: dict[str, int] = dict.fromkeys(silos, 0)
    reading = TableReading(schema=schema, columns=columns, silos=tuple(silos), seed=seed)
    # Where a column says the silo, all silos have the same file, which is checked once.
    files = dict.fromkeys(path for paths in silos.values() for path in paths)
    silo_of = {path: silo for silo, paths in silos.items() for path in paths}
    for path in files:
        heard = _Heard()
        count = _check_file(path, reading, heard, written, rows, listed)
        if columns.silo is None:
            rows[silo_of[path]] += count
        findings += [
            Finding(path.name, column, why, times, tuple(sorted(heard.lines[column, why])))
            for (column, why), times in heard.counts.items()
        ]
    users = None if columns.user is None else len(written)
    return CheckedTable(tuple(findings), rows, users)


def _check_file(
    path: Source,
    reading: TableReading,
    heard: _Heard,
    written: dict[str, str],
    rows: dict[str, int],
    listed: IntArray | None,
) -> int:
    """Check the rows of one file, and return how many there are.

    Where a column says the silo of a row, `rows` counts those of each.
    """
    schema, columns, silos = reading.schema, reading.columns, reading.silos
    count = 0
    for batch in reading.batches(reading.open(path), heard.line):
        count += len(batch.lines)

        def cells(rows: BoolArray, column: str, why: str, batch: Batch = batch) -> None:
            heard.cells(batch.lines, rows, column, why)

        features_of(batch, schema, cells)
        if columns.label is not None and schema.label is not None:
            labels_of(batch, columns.label, schema.label, schema.format, cells)
        if columns.silo is not None:
            code = places_of(batch.columns[columns.silo], silos, schema.format)
            cells(code < 0, columns.silo, "it is none of `silos`, and the row is left out")
            for index, silo in enumerate(silos):
                rows[silo] += int((code == index).sum())
        if columns.user is not None:
            _check_ids(batch, columns.user, schema.format.id_case, heard, written)
            if listed is not None:
                _check_listed(batch, columns.user, reading, cells, listed)
    return count


def _check_listed(
    batch: Batch, column: str, reading: TableReading, report: CellReport, listed: IntArray
) -> None:
    """Report ids that are not on the public list of users."""
    names, there = user_names(batch.columns[column], reading.schema.format.id_case, reading.seed)
    unlisted = there & ~np.isin(names, listed)
    report(unlisted, column, "the id is not on the list of users, and the row is left out")


def _check_ids(
    batch: Batch, column: str, case: str, heard: _Heard, written: dict[str, str]
) -> None:
    """Report ids that are missing, and those that are written in two ways.

    `written` holds how each id was written first.
    """
    ids = normalised_ids(batch.columns[column], case).to_pylist()
    raw = batch.columns[column].to_pylist()
    empty = np.array([not user for user in ids], bool)
    heard.cells(batch.lines, empty, column, "the id is missing, and the row is left out")
    for line, user, as_written in zip(batch.lines.tolist(), ids, raw, strict=True):
        if user and written.setdefault(user, str(as_written)) != str(as_written):
            heard.line(
                line, column, "the id is written otherwise elsewhere, and counts as the same user"
            )
