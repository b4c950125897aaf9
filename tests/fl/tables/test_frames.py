"""Frames of a program: read by the rules of files, and handed to a run in their place."""

from __future__ import annotations

import csv
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.audit.budget import audit_budget
from privplan.fl.running import RunInterrupted
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.run_data import federation_of
from privplan.fl.tables.federated_table import digest_of, federation_of_table
from privplan.fl.tables.row_reading import TableColumns
from privplan.fl.tables.schema_file import schema_of
from privplan.fl.tables.table import read_table

from ...cases import for_each
from .hospitals import HEADER, SCHEMA, SILOS, configuration, rows, write
from .test_table_runs import facts

FLAT = {
    "columns": {
        "age": {"kind": "number", "range": [0, 110]},
        "sex": {"kind": "category", "values": ["f", "m"]},
    }
}
MARKER = "Zyx-4711-Marker"


class Series:
    """A column as pandas hands it out."""

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)
        self.dtype = self._values.dtype

    def to_numpy(self) -> Any:
        return self._values


class DataFrame:
    """What is asked of a pandas DataFrame, whose index is no column."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns = columns
        self.columns = list(columns)
        self.index = range(3)
        self.iloc = None

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __getitem__(self, name: str) -> Series:
        return Series(self._columns[name])


FRAMES: tuple[Callable[[dict[str, Any]], Any], ...] = (DataFrame,)
"""The stand-in, and pandas itself where it is installed."""

if find_spec("pandas") is not None:
    import pandas

    def of_pandas(columns: dict[str, Any]) -> Any:
        """Return a DataFrame whose columns have the types of these arrays: none is guessed."""
        return pandas.DataFrame(
            {name: pandas.Series(cells, dtype=cells.dtype) for name, cells in columns.items()}
        )

    FRAMES = (DataFrame, of_pandas)


class Stream:
    """A table of another library, by the stream that it offers."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


class Exchanged:
    """A table of another library, by the older protocol."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> Any:
        return self._table.__dataframe__(nan_as_null, allow_copy)


def cells(seed: int) -> dict[str, list[str]]:
    """Return the columns of one hospital's file, as texts."""
    lines = list(csv.reader(rows(seed)))
    return dict(zip(HEADER.split(","), map(list, zip(*lines, strict=True)), strict=True))


def typed(columns: dict[str, list[str]]) -> pa.Table:
    """Return them with numbers as numbers, as a program has them."""
    return pa.table({**columns, "age": [float(age) for age in columns["age"]]})


def of_objects(kind: Callable[[dict[str, Any]], Any], columns: dict[str, list[str]]) -> Any:
    texts = {name: np.array(column, object) for name, column in columns.items()}
    return kind({**texts, "age": np.array(columns["age"], float)})


KINDS: tuple[Callable[[dict[str, list[str]]], Any], ...] = (
    pa.table,
    typed,
    *(partial(of_objects, kind) for kind in FRAMES),
    lambda columns: Stream(typed(columns)),
    lambda columns: Exchanged(typed(columns)),
)


def table(kind: Callable[[dict[str, list[str]]], Any] = typed, **edited: Any) -> pp.Table:
    frames = {silo: kind(cells(number)) for number, silo in enumerate(SILOS)}
    return pp.Table.from_frame(
        **{"frame": frames, "schema": SCHEMA, "user": "patient", "label": "outcome", **edited}
    )


def handed_over(**tables: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a configuration of a run whose rows a program hands over."""
    usual = {
        "run": {"system": "uldp-avg", "rounds": 2, "seed": 5},
        "data": {"name": "table", "users_at_most": 30},
        "privacy": {"noise_multiplier": 2.0},
    }
    return {name: {**usual.get(name, {}), **tables.get(name, {})} for name in {**usual, **tables}}


def of_files(folder: Path) -> Any:
    write(folder)
    files = {silo: [folder / f"{silo}.csv"] for silo in SILOS}
    columns = TableColumns(user="patient", label="outcome")
    return federation_of_table(read_table(files, schema_of(SCHEMA), columns))


@for_each("kind", KINDS)
def test_the_same_rows_are_one_federation_as_files_and_as_frames(
    tmp_path: Path, kind: Callable[[dict[str, list[str]]], Any]
) -> None:
    ours = federation_of_table(table(kind).rows())
    theirs = of_files(tmp_path)
    for name in ("features", "labels", "user", "silo", "names"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name
    assert digest_of(ours) == digest_of(theirs)


NASTY = {
    "patient": [MARKER, MARKER, None, MARKER],
    "age": ["1e400", MARKER, "-7", "\x00"],
    "sex": [MARKER, None, "f", "m"],
    "stage": ["I", "II", MARKER, ""],
    "smoker": [None, "y", "n", MARKER],
    "note": [MARKER] * 4,
    "outcome": ["yes", MARKER, "no", "yes"],
}
"""Rows of one patient, whatever they hold."""


def test_a_log_says_the_same_of_neighbouring_frames(tmp_path: Path) -> None:
    """Neighbours are made of the frames: one patient's rows come, or one's go."""

    def beside(columns: dict[str, list[str]]) -> pa.Table:
        return pa.concat_tables([pa.table(columns), pa.table(NASTY)])

    def without(kind: Callable[[dict[str, Any]], Any], columns: dict[str, list[str]]) -> Any:
        kept = [row for row, user in enumerate(columns["patient"]) if user != "p7"]
        return kind({name: np.array(cells, object)[kept] for name, cells in columns.items()})

    def nobody(columns: dict[str, list[str]]) -> pa.Table:
        return pa.table(columns).slice(0, 0)

    logs = []
    gone = [partial(without, kind) for kind in FRAMES]
    for number, kind in enumerate((pa.table, beside, *gone, nobody)):
        folder = tmp_path / str(number)
        pp.run(handed_over(), folder, data=table(kind))
        logs.append(facts((folder / "log.jsonl").read_text()))
        for path in folder.iterdir():
            assert MARKER.encode() not in path.read_bytes()
    assert logs[1:] == logs[:1] * (2 + len(FRAMES))


def test_a_column_may_say_the_silo(tmp_path: Path) -> None:
    whole = {
        "hospital": [silo for number, silo in enumerate(SILOS) for _ in cells(number)["age"]],
        **{name: [c for n in range(3) for c in cells(n)[name]] for name in HEADER.split(",")},
    }
    one = table(frame=pa.table(whole), silo="hospital", silos=SILOS)
    assert digest_of(federation_of_table(one.rows())) == digest_of(of_files(tmp_path))
    with pytest.raises(InvalidInput, match="`silos`"):
        table(frame=pa.table(whole), silo="hospital")


def test_a_run_on_frames_is_the_run_on_files(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        files = pp.run(configuration(run={"seed": 5}), "files")
    frames = pp.run(handed_over(), tmp_path / "frames", data=table())
    assert np.array_equal(files.parameters, frames.parameters)
    planned = pp.plan_run(handed_over(), data=table())
    assert planned.prepared.plan == frames.prepared.plan


def test_an_audit_derives_what_a_run_on_frames_states(tmp_path: Path) -> None:
    said = handed_over()
    del said["run"]["seed"]
    pp.run(said, tmp_path / "out", data=table())
    assert audit_budget(tmp_path / "out").supported


@for_each("given", ["path", "settings"])
def test_a_configuration_of_any_form_takes_the_rows_of_a_program(
    tmp_path: Path, given: str
) -> None:
    first = pp.run(handed_over(), tmp_path / "first", data=table())
    said: Any = first.prepared.settings
    if given == "path":
        said = tmp_path / "first" / "config.toml"
        assert 'rows = "program"' in said.read_text()
    again = pp.run(said, tmp_path / "again", data=table())
    assert np.array_equal(first.parameters, again.parameters)


def test_a_resumed_run_needs_the_same_rows_of_the_program(tmp_path: Path) -> None:
    def stop(_measured: object, _rounds: int) -> None:
        raise KeyboardInterrupt

    test = tmp_path / "test.csv"
    test.write_text("age,sex,stage,smoker,outcome\n40,f,I,n,no\n90,m,III,y,yes\n")
    said = handed_over(evaluation={"test": str(test), "source": "a registry"})
    with pytest.raises(RunInterrupted) as stopped:
        pp.run(said, tmp_path / "out", data=table(), report=stop)
    assert stopped.value.next_step == f"pp.resume({str(tmp_path / 'out')!r}, data=table)"
    with pytest.raises(InvalidInput, match="data="):
        pp.resume(tmp_path / "out")
    fewer = typed(cells(0)).slice(1)
    frames = {silo: fewer if silo == "north" else typed(cells(n)) for n, silo in enumerate(SILOS)}
    with pytest.raises(InvalidInput, match="not those that the run was begun with"):
        pp.resume(tmp_path / "out", data=table(frame=frames))
    east = {silo.replace("west", "east"): typed(cells(n)) for n, silo in enumerate(SILOS)}
    with pytest.raises(InvalidInput, match="`silos`"):
        pp.resume(tmp_path / "out", data=table(frame=east))
    turned = {silo: typed(cells(n))[::-1] for n, silo in enumerate(SILOS)}
    assert pp.resume(tmp_path / "out", data=table(frame=turned)).result.rounds == 2


@for_each(
    "data, names",
    [
        ({"user": "other"}, ("`user`", "data=")),
        ({"silos": {"north": "north.csv"}}, ("`silos`", "data=")),
        ({"path": "all.csv"}, ("`path`",)),
        ({"name": "digits"}, ('"table"',)),
        ({"silos": ["north", "south"]}, ("`silos`",)),
        ({"schema": '{"columns":{"age":{"kind":"ignored"}}}'}, ("`schema`",)),
    ],
)
def test_a_configuration_that_says_another_table_is_refused(
    tmp_path: Path, data: dict[str, Any], names: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidInput) as caught:
        pp.run(handed_over(data=data), tmp_path / "out", data=table())
    for name in names:
        assert name in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(InvalidInput, match="from_frame"):
        pp.plan_run(handed_over(), data=typed(cells(0)))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="frame"):
        table(frame=[1, 2, 3])
    with pytest.raises(InvalidInput, match="'agee'"):
        table(
            lambda columns: pa.table(columns).rename_columns(
                ["patient", "agee", *HEADER.split(",")[2:]]
            )
        )
    with pytest.raises(InvalidInput, match="two columns 'age'"):
        table(lambda columns: pa.table(columns).append_column("age", pa.table(columns)["age"]))
    with pytest.raises(InvalidInput, match="ids in 'patient'"):
        table(lambda columns: pa.table({**columns, "patient": np.ones(len(columns["age"]))}))


def test_files_are_wanted_of_a_program_that_hands_over_none() -> None:
    said = handed_over(data={"rows": "program", "silos": ["a"], "user": "u", "label": "y"})
    said["data"]["schema"] = '{"columns":{"x":{"kind":"boolean"}},"label":{"kind":"binary"}}'
    settings = Configuration.of(said).settings
    with pytest.raises(InvalidInput, match="data="):
        federation_of(settings)
    with pytest.raises(InvalidInput, match="`path`"):
        Configuration.of({**said, "data": {**said["data"], "path": "x.csv"}})
    with pytest.raises(InvalidInput, match="`rows`"):
        Configuration.of(
            {**configuration(), "data": {**configuration()["data"], "rows": "program"}}
        )


STRANGE = (None, MARKER, 3, 3.5, True, b"x\xff", "\udcff", float("nan"), ["a"], 10**400)


@for_each("kind", FRAMES)
def test_no_cell_of_an_object_column_stops_a_program_or_is_said(
    capsys: pytest.CaptureFixture[str], kind: Callable[[dict[str, Any]], Any]
) -> None:
    columns: dict[str, Any] = {
        name: np.array([*STRANGE, "p"], object) for name in HEADER.split(",")
    }
    table = pp.Table.from_frame(kind(columns), schema=SCHEMA, user="patient", label="outcome")
    assert MARKER not in repr(table)
    read = table.rows()
    assert np.isfinite(read.features).all()
    said = capsys.readouterr()
    assert MARKER not in said.out + said.err


@for_each("kind", FRAMES)
def test_a_cell_is_read_alone_as_it_is_beside_others(
    kind: Callable[[dict[str, Any]], Any],
) -> None:
    schema = {"columns": {"a": {"kind": "category", "values": ["3", "x", "true", "3.5", MARKER]}}}
    cells = [*STRANGE, b"x", "x", np.float32(3.5), np.True_, np.int64(3), np.str_("x")]

    def features(of: list[Any]) -> Any:
        column = np.empty(len(of), object)
        column[:] = of
        # Features of equal rows are equal, so that their sum says which there are.
        return pp.Table.from_frame(kind({"a": column}), schema=schema).rows().features

    alone = np.concatenate([features([cell]) for cell in cells])
    assert np.array_equal(alone.sum(axis=0), features(cells).sum(axis=0))
    assert alone.sum(axis=0).tolist() == [2.0, 3.0, 2.0, 2.0, 1.0, 6.0]


class Raising:
    """A cell of which whatever is asked raises, and says a value."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(MARKER)

    def __str__(self) -> str:
        raise RuntimeError(MARKER)

    __repr__ = __bool__ = __float__ = __len__ = __iter__ = __hash__ = __eq__ = __str__  # type: ignore[assignment]


class NoItem:
    """A cell that has a shape and no value."""

    shape = ()

    def item(self) -> Any:
        raise LookupError(MARKER)


class OddText(str):
    """A text whose methods raise."""

    __slots__ = ()

    def isascii(self) -> bool:
        raise ValueError(MARKER)

    encode = __str__ = __repr__ = isascii  # type: ignore[assignment]


class OddNumber(int):
    """A number whose methods raise."""

    def __str__(self) -> str:
        raise ValueError(MARKER)

    __repr__ = __abs__ = __lt__ = __gt__ = __str__  # type: ignore[assignment]


def ages_of(kind: Callable[[dict[str, Any]], Any], *cells: Any) -> list[float]:
    column = np.empty(len(cells), object)
    for row, cell in enumerate(cells):
        column[row] = cell
    schema = {
        "columns": {"age": {"kind": "number", "range": [-9, 9], "gap": -1, "scaling": "none"}}
    }
    table = pp.Table.from_frame(kind({"age": column}), schema=schema).rows()
    return sorted(float(value) for value in table.features[:, 0])


@for_each(
    "cell, due",
    [
        (Raising(), -1.0),
        (NoItem(), -1.0),
        (OddText("2.5"), 2.5),
        (OddNumber(3), 3.0),
        (Decimal("2.5"), 2.5),
        (Decimal("2E+2"), 9.0),
        (Decimal("-1E+999999"), -9.0),
        (Decimal("Infinity"), 9.0),
        (Decimal("NaN"), -1.0),
        (Decimal("sNaN"), -1.0),
        (Decimal("0E-99999"), 0.0),
    ],
)
def test_a_cell_that_raises_is_a_gap_and_a_decimal_is_a_number(cell: Any, due: float) -> None:
    for kind in FRAMES:
        assert ages_of(kind, cell) == [due]
        assert ages_of(kind, cell, 1, "7", None) == sorted([due, 1.0, 7.0, -1.0])


@for_each("kind", FRAMES)
def test_columns_that_are_not_needed_may_be_anything(
    kind: Callable[[dict[str, Any]], Any],
) -> None:
    frame = kind({"a": np.ones(2), "note": np.zeros(2, "datetime64[s]"), "b": np.ones(2)})
    ignored = {"note": {"kind": "ignored"}, "b": {"kind": "ignored"}}
    columns = {"a": {"kind": "number", "range": [0, 1]}, **ignored}
    assert len(pp.Table.from_frame(frame, schema={"columns": columns}).rows().features) == 2
    wrong = {**columns, "note": {"kind": "number", "range": [0, 1]}}
    with pytest.raises(InvalidInput, match="'note'"):
        pp.Table.from_frame(frame, schema={"columns": wrong})


def test_whoever_owns_a_frame_may_ask_what_is_wrong_in_it() -> None:
    ages = {"north": [50.0, -3.0, None], "south": [1.0, 2.0, 900.0]}
    frames = {silo: pa.table({"age": column}) for silo, column in ages.items()}
    schema = {"columns": {"age": {"kind": "number", "range": [0, 110]}}}
    checked = pp.Table.from_frame(frames, schema=schema).check()
    assert [(found.file, found.column, found.lines) for found in checked.findings] == [
        ("The frame of silo 'north'", "age", (2,)),
        ("The frame of silo 'south'", "age", (3,)),
    ]
    assert checked.rows == {"north": 3, "south": 3}


def test_a_schema_may_be_a_file_or_an_object(tmp_path: Path) -> None:
    lines = ['[columns.age]\nkind = "number"\nrange = [0, 100]\n']
    lines += [f'[columns.{name}]\nkind = "ignored"\n' for name in HEADER.split(",")[2:]]
    (tmp_path / "schema.toml").write_text("".join(lines))
    widths = {
        table(schema=schema, label=None).schema.width
        for schema in (tmp_path / "schema.toml", str(tmp_path / "schema.toml"))
    }
    assert widths == {1}
    assert table(schema=schema_of(SCHEMA)).schema == schema_of(SCHEMA)
    with pytest.raises(InvalidInput, match="schema"):
        table(schema=3)


@for_each("others", [bytearray(b"f"), memoryview(b"f"), pa.scalar("f"), "f", 1.0, None])
def test_an_odd_cell_of_objects_changes_no_other(others: Any) -> None:
    def features(*sexes: Any) -> Any:
        cells = np.empty(len(sexes), object)
        cells[:] = sexes
        frame = DataFrame({"sex": cells, "age": np.linspace(1.0, len(sexes), len(sexes))})
        read = pp.Table.from_frame(frame, schema=FLAT).rows().features
        return read[np.argsort(read[:, 0])][:3]

    alone = features(*[others] * 3)
    for odd in (1, 2.5, b"\xff", "\ud800", [1], {}, Decimal("1e400")):
        np.testing.assert_array_equal(features(*[others] * 3, odd), alone)
