"""No row is two records: one frame or one file of two silos, and public files that are a silo's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.run_data import federation_of
from privplan.fl.tables.row_reading import TableColumns
from privplan.fl.tables.schema_file import schema_of
from privplan.fl.tables.table import Table

from ...cases import for_each
from .hospitals import SILOS, configuration, listed, write
from .test_frames import DataFrame, Stream

SCHEMA = {
    "columns": {
        "age": {"kind": "number", "range": [0, 110]},
        "sex": {"kind": "category", "values": ["f", "m"]},
        "pixels": {"kind": "array", "shape": [2], "range": [0, 1]},
    }
}
FLAT = {"columns": {name: SCHEMA["columns"][name] for name in ("age", "sex")}}


def arrow_frame(rows: int = 6) -> pa.Table:
    pixels = pa.FixedSizeListArray.from_arrays(pa.array(np.linspace(0, 1, 2 * rows)), 2)
    return pa.table(
        {"age": np.arange(rows) + 0.5, "sex": ["f", "m"] * (rows // 2), "pixels": pixels}
    )


def numpy_frame(rows: int = 6) -> DataFrame:
    return DataFrame({"age": np.arange(rows) + 0.5, "sex": np.array(["f", "m"] * 3, object)})


def pictures(numbers: pa.Array) -> pa.Table:
    return pa.table({"pixels": pa.FixedSizeListArray.from_arrays(numbers, 2)})


def amounts(rows: int = 6) -> pa.Table:
    return pa.table({"age": pa.array(range(rows), pa.decimal128(5, 1))})


def part(frame: DataFrame, rows: slice) -> DataFrame:
    return DataFrame({name: frame[name].to_numpy()[rows] for name in frame.columns})


FRAME, COLUMNS = arrow_frame(), numpy_frame()
STREAM = Stream(FRAME)
FLOATS, BYTES = pa.array(np.linspace(0, 1, 24)), pa.array(np.arange(24) % 2, pa.uint8())
PICTURES = {"columns": {"pixels": SCHEMA["columns"]["pixels"]}}
AMOUNTS, AGES = amounts(), {"columns": {"age": SCHEMA["columns"]["age"]}}


@for_each(
    "one, other, schema",
    [
        (FRAME, FRAME, SCHEMA),
        (FRAME, FRAME.slice(0), SCHEMA),
        (FRAME.slice(0, 4), FRAME.slice(3), SCHEMA),
        (FRAME, FRAME.select(["sex", "age", "pixels"]), SCHEMA),
        (STREAM, STREAM, SCHEMA),
        (STREAM, Stream(FRAME), SCHEMA),
        (FRAME, pa.concat_tables([arrow_frame(), FRAME]), SCHEMA),
        (FRAME, arrow_frame().set_column(1, "sex", FRAME["sex"]), SCHEMA),  # the rest encoded anew
        (pictures(FLOATS), pictures(FLOATS.slice(6, 6)), PICTURES),
        (pictures(FLOATS.slice(0, 14)), pictures(FLOATS.slice(12)), PICTURES),
        (pictures(BYTES.slice(2, 14)).slice(5), pictures(BYTES.slice(14)), PICTURES),
        (AMOUNTS, AMOUNTS.slice(1), AGES),
        (COLUMNS, COLUMNS, FLAT),
        (COLUMNS, part(COLUMNS, slice(None)), FLAT),
        (part(COLUMNS, slice(0, 4)), part(COLUMNS, slice(3, 6)), FLAT),
    ],
)
def test_one_frame_is_not_of_two_silos(one: Any, other: Any, schema: Any) -> None:
    with pytest.raises(InvalidInput, match=r"silo 'a'.*same rows.*silo 'b'.*silos="):
        pp.Table.from_frame({"a": one, "b": other}, schema=schema)


@for_each(
    "one, other, schema",
    [
        (FRAME, arrow_frame(), SCHEMA),  # which is equal, and other rows for all that is known
        (FRAME.slice(0, 3), FRAME.slice(3), SCHEMA),
        (FRAME, FRAME.slice(0, 0), SCHEMA),
        (pictures(FLOATS.slice(0, 12)), pictures(FLOATS.slice(12)), PICTURES),
        (pictures(BYTES.slice(0, 12)), pictures(BYTES.slice(12)), PICTURES),
        (pictures(FLOATS.slice(0, 14)).slice(0, 6), pictures(FLOATS.slice(12)), PICTURES),
        (AMOUNTS.slice(0, 3), AMOUNTS.slice(3), AGES),
        (COLUMNS, numpy_frame(), FLAT),
        (part(COLUMNS, slice(0, None, 2)), part(COLUMNS, slice(1, None, 2)), FLAT),
    ],
)
def test_parts_of_one_frame_and_equal_frames_are_of_two_silos(
    one: Any, other: Any, schema: Any
) -> None:
    count = len(one) + len(other) if schema is FLAT else one.num_rows + other.num_rows
    table = pp.Table.from_frame({"a": one, "b": other}, schema=schema)
    assert len(table.rows().features) == count


def test_a_list_of_silos_names_each_once() -> None:
    frame = FRAME.append_column("silo", pa.array(["f", "g"] * 3))
    with pytest.raises(InvalidInput, match="names a silo twice"):
        pp.Table.from_frame(frame, schema=SCHEMA, silo="silo", silos=["f", "f"])


LINKS: tuple[Callable[[Path, Path], None], ...] = (
    lambda file, name: os.link(file, name),
    lambda file, name: name.symlink_to(file),
)


@for_each("link", LINKS)
def test_a_file_of_two_names_is_not_of_two_silos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: Callable[[Path, Path], None]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    Path("south.csv").unlink()
    link(tmp_path / "north.csv", tmp_path / "south.csv")
    with pytest.raises(InvalidInput, match=r"south\.csv.*one file"):
        federation_of(Configuration.of(configuration()).settings)
    with pytest.raises(InvalidInput, match=r"south\.csv.*one file"):
        Table(
            sources={silo: [tmp_path / f"{silo}.csv"] for silo in SILOS},
            schema=schema_of(SCHEMA),
            columns=TableColumns(),
        )


@for_each("name", ["north.csv", "north.csv.gz", "north.parquet", "north.arrow", "north.npz"])
def test_a_link_to_itself_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    Path(name).unlink(missing_ok=True)
    Path(name).symlink_to(name)
    said = configuration()
    said["data"]["silos"] = {**said["data"]["silos"], "north": name}
    with pytest.raises(InvalidInput, match=rf"{name} cannot be read: .*links"):
        federation_of(Configuration.of(said).settings)
    Path(name).unlink()
    write(tmp_path)
    (tmp_path / "public.csv").symlink_to("public.csv")
    said = listed(configuration())
    said["data"]["users_list"] = "public.csv"
    with pytest.raises(InvalidInput, match=r"public\.csv cannot be read: .*links"):
        federation_of(Configuration.of(said).settings)


@for_each("link", [None, *LINKS])
def test_a_public_file_is_no_file_of_a_silo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: Callable[[Path, Path], None] | None
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    name = "north.csv"
    if link is not None:
        name = "public.csv"
        link(tmp_path / "north.csv", tmp_path / name)
    said = listed(configuration())
    said["data"]["users_list"] = name
    with pytest.raises(InvalidInput, match=rf"{name} is `users_list`.*of a silo"):
        federation_of(Configuration.of(said).settings)
    tested = configuration(evaluation={"test": name, "source": "a register"})
    with pytest.raises(InvalidInput, match=rf"{name} is `test`.*of a silo"):
        federation_of(Configuration.of(tested).settings)


def test_a_list_without_anybody_asks_for_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    (tmp_path / "patients.csv").write_text("patient\n")
    with pytest.raises(InvalidInput, match=r"lists nobody.*'patient'"):
        federation_of(Configuration.of(listed(configuration())).settings)
