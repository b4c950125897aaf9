"""A table: the records of real people, with the silo and the user of each, read by a public schema.

rows of each silo      by user, then by content: where a row stands in a file makes no difference
users                  those who have a row; how many they are is private
silos                  a public list, also of those that hold no row
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...accountant.arrays import BoolArray, Float32Array, IntArray
from ...accountant.errors import InvalidInput, kind_of
from ..data.federation import Labels
from .arrow_file import ArrowFrame
from .duplicate_rows import require_each_once, require_frames_once
from .frames import arrow_table
from .row_reading import Source, TableColumns, TableReading
from .rows import GatheredRows
from .schema import Schema
from .schema_file import read_schema, schema_of
from .value_checks import CheckedTable, checked_table

ALL_ROWS = "all"
"""The name of the silo of a frame that no column divides."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class TableRows:
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

    def only(self, chosen: BoolArray) -> TableRows:
        """Return some of the rows, by a mask: (rows,)."""
        return replace(
            self,
            features=self.features[chosen],
            labels=None if self.labels is None else self.labels[chosen],
            user=self.user[chosen],
            silo=self.silo[chosen],
        )

    def __repr__(self) -> str:
        return f"TableRows({len(self.schema.columns)} columns, silos={len(self.silos)})"


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Table:
    """A table: where its rows are, and what is public of them.

    - `sources`: the files or frames of each silo, by its name.  Where `columns.silo` says of which
      silo a row is, the rows of all are read together.
    - `schema` describes the columns; `columns` says which of them are user, label and silo.
    """

    sources: Mapping[str, Sequence[Source]]
    schema: Schema
    columns: TableColumns

    def __post_init__(self) -> None:
        """Refuse rows that two silos hold; where a column says the silo, all have the same."""
        sources = [source for of_silo in self.sources.values() for source in of_silo]
        if self.columns.silo is not None:
            sources = list(dict.fromkeys(sources))
        require_each_once(sources, self._reading(0).needed)

    def __repr__(self) -> str:
        return f"Table({len(self.schema.columns)} columns, silos={len(self.sources)})"

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        schema: Schema | Mapping[str, Any] | str | Path,
        user: str | None = None,
        label: str | None = None,
        silo: str | None = None,
        silos: Sequence[str] = (),
    ) -> Table:
        """Return the table of frames that a program has, for `run(..., data=table)`.

        `frame` is a DataFrame of pandas, a Table of pyarrow, or whatever offers its columns as
        Arrow does (`__arrow_c_stream__`, `__dataframe__`); or a mapping of them, by the name of
        the silo that each is of.  `schema` is the path of a TOML file, its tables as a mapping, or
        a `Schema`.  `user` names the column that says whose record a row is, without which a row
        is one person's; `label` that of what is learnt.  Where the rows of several silos are in
        one frame, the column `silo` says of which one each is, and `silos` lists all of them: the
        list is public, and is not looked up in the rows.

        Rows are treated by the rules of files (`privplan explain tables`): no value is refused or
        told.  Raises `InvalidInput` for what is no frame, for columns that do not fit, and where
        two silos have the same rows.

        >>> import pyarrow
        >>> import privplan as pp
        >>> ward = pyarrow.table({"patient": ["p1", "p2"], "age": [71.5, None]})
        >>> schema = {"columns": {"age": {"kind": "number", "range": [0, 110]}}}
        >>> pp.Table.from_frame({"north": ward}, schema=schema, user="patient")
        Table(1 columns, silos=1)
        """
        columns = TableColumns(user=user, label=label, silo=silo)
        described = _schema(schema)
        needed = TableReading(schema=described, columns=columns, silos=()).needed
        by_silo = frame if isinstance(frame, Mapping) else {ALL_ROWS: frame}
        require_frames_once(by_silo, needed)
        frames = {
            name: ArrowFrame(_frame_name(name), arrow_table(of, needed))
            for name, of in by_silo.items()
        }
        sources: dict[str, list[Source]] = {name: [of] for name, of in frames.items()}
        if (
            isinstance(silos, str)
            or (silo is not None) != bool(silos)
            or (silo is not None and isinstance(frame, Mapping))
        ):
            raise InvalidInput(
                "`silo` and `silos` go together, for one frame that holds the rows of all silos.",
                "Which silos there are is public, and is never looked up in the rows.",
                'Give silo="hospital", silos=["north", "south"], or a mapping of frames by silo.',
            )
        if len(set(silos)) < len(silos):
            raise InvalidInput(
                "`silos` names a silo twice.",
                "Each silo of the list is one party, and how many there are is public.",
                "Name each once.",
            )
        if silo is not None:
            sources = {name: [frames[ALL_ROWS]] for name in silos}
        table = cls(sources=sources, schema=described, columns=columns)
        reading = table._reading(0)
        for of in frames.values():
            reading.open(of)
        return table

    def rows(self, seed: int = 0) -> TableRows:
        """Return the rows as numbers; `seed` is public, and is that of the names of users.

        Raises `InvalidInput` for files, headers and footers that do not fit.
        """
        return read_rows(self.sources, self._reading(seed))

    def check(self) -> CheckedTable:
        """Return what is wrong with the values: for whoever owns them, and for nobody else.

        A run says none of it.  Raises as `rows`.
        """
        return checked_table(self.sources, self.schema, self.columns)

    def _reading(self, seed: int) -> TableReading:
        silos = tuple(self.sources)
        return TableReading(schema=self.schema, columns=self.columns, silos=silos, seed=seed)


def read_table(
    silos: Mapping[str, Sequence[Source]],
    schema: Schema,
    columns: TableColumns,
    *,
    seed: int = 0,
    ignored: tuple[str, ...] = (),
) -> TableRows:
    """Return the rows of the files of each silo.

    Every file must have the columns of the schema and of `columns`, and no others.  Rows that are
    no rows (`.text_file`), that have no label, no id, or no silo of the list where a column says
    it, are left out.  `seed` is that of the names of users; columns that are `ignored` may be
    there.  Raises `InvalidInput` for files, headers and footers that do not fit.
    """
    reading = TableReading(
        schema=schema, columns=columns, silos=tuple(silos), seed=seed, ignored=ignored
    )
    return read_rows(silos, reading)


def read_rows(silos: Mapping[str, Sequence[Source]], reading: TableReading) -> TableRows:
    """Return the rows of the files of each silo; raises as `read_table`."""
    parts = list(silos.values())
    if reading.columns.silo is not None:  # all silos have the same files, which are read once
        parts = [list(dict.fromkeys(source for of_silo in parts for source in of_silo))]
    gathered = GatheredRows(reading.no_rows)
    # A silo whose files hold no row is there all the same: the list of silos is public.
    for silo, sources in enumerate(parts):
        first = gathered.count
        for file in [reading.open(source) for source in sources]:
            for batch in reading.batches(file):
                gathered.add(reading.rows(batch, silo))
        gathered.sort(first)
    rows = gathered.rows()
    user = rows.user
    if reading.columns.user is None:  # every record is of one user: a number of its own
        user = np.arange(len(user))
    return TableRows(
        schema=reading.schema,
        features=rows.features,
        labels=rows.labels,
        user=user,
        silo=rows.silo,
        silos=reading.silos,
    )


def _frame_name(silo: object) -> str:
    return f"The frame of silo {silo!r:.60}"


def _schema(said: object) -> Schema:
    if isinstance(said, Schema):
        return said
    if isinstance(said, Mapping):
        return schema_of(said)
    if isinstance(said, (str, Path)):
        return read_schema(said)
    raise InvalidInput(
        f"`schema` is {kind_of(said)}.",
        "It says what is public of every column.",
        "Give the path of a TOML file, its tables as a mapping, or a Schema.",
    )
