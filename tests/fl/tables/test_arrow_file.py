"""Parquet and Arrow files: a footer is judged, and no cell stops a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.fl.tables.row_reading import TableColumns
from privplan.fl.tables.schema_file import schema_of
from privplan.fl.tables.table import read_table

from ...cases import for_each

SCHEMA = schema_of({"columns": {"age": {"kind": "number", "range": [0, 100]}}})


def read(path: Path) -> Any:
    return read_table({"a": [path]}, SCHEMA, TableColumns(user="patient"))


def not_utf8() -> pa.Array:
    """Return texts of which one is no UTF-8, as a careless writer makes them."""
    good = pa.array([b"p1", b"p2", b"px\xff"], pa.binary())
    return pa.Array.from_buffers(pa.string(), 3, good.buffers())


@for_each(
    "ids, users",
    [
        (pa.array(["p1", "p2", "p1"]), 2),
        (pa.array(["p1", "p2", None]), 2),
        (pa.array(["p1", "p2", "p1"], pa.large_string()), 2),
        (pa.array([1, 2, 1]), 2),
        (pa.array(["p1", "p2", "p1"]).dictionary_encode(), 2),
        (not_utf8(), 2),
    ],
)
def test_ids_are_texts_or_whole_numbers(tmp_path: Path, ids: Any, users: int) -> None:
    for name, age in (("age", [1.0, 2.0, None]), ("whole", [1, 2, 3])):
        path = tmp_path / f"{name}.parquet"
        parquet.write_table(pa.table({"patient": ids, "age": age}), path)
        assert len(set(read(path).user.tolist())) == users


def of_many_words() -> pa.Array:
    """Return a column of more words than its indices have room for, in one group of rows."""
    words = [[f"p{part}-{number}" for number in range(100)] for part in range(3)]
    index = pa.array(range(100), pa.int8())
    return pa.chunked_array([pa.DictionaryArray.from_arrays(index, part) for part in words])


@for_each(
    "cells, numbers",
    [
        (not_utf8(), 2),
        (not_utf8().dictionary_encode(), 2),
        (pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, None], pa.int8()), not_utf8()), 2),
        (of_many_words(), 300),
    ],
)
@for_each("suffix", ["parquet", "arrow", "frame"])
def test_cells_that_are_no_text_are_gaps_in_columns_of_every_type(
    tmp_path: Path, cells: Any, numbers: int, suffix: str
) -> None:
    ids = pa.table({"patient": cells, "age": pa.nulls(len(cells), pa.float64())})
    path = tmp_path / f"a.{suffix}"
    if suffix == "frame":
        rows = pp.Table.from_frame(ids, schema=SCHEMA, user="patient").rows()
        assert len(set(rows.user.tolist())) == numbers
        return
    if suffix == "parquet":
        parquet.write_table(ids, path)
    elif ids["patient"].num_chunks > 1:  # a file of Arrow has one dictionary of a column
        return
    else:
        with pa.ipc.new_file(str(path), ids.schema) as file:
            file.write_table(ids)
    assert len(set(read(path).user.tolist())) == numbers


def test_an_index_of_no_word_is_a_gap(tmp_path: Path) -> None:
    index = pa.array([0, 100, -1, 1], pa.int8())
    cells = pa.DictionaryArray.from_arrays(index, pa.array(["p1", "p2"]), safe=False)
    ids = pa.table({"patient": cells, "age": pa.nulls(4, pa.float64())})
    with pa.ipc.new_file(str(tmp_path / "a.arrow"), ids.schema) as file:
        file.write_table(ids)
    assert len(read(tmp_path / "a.arrow").user) == 2


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for content in (b"", b"PAR1", b"x" * 100, b"PAR1\xff\xff\xff\xffPAR1"):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"a\.parquet cannot be read"):
            read(path)


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"patient": ["p1"], "age": [1.0]}), path)
    path.write_bytes(path.read_bytes().replace(b"patient", b"pa\xfftent"))
    with pytest.raises(InvalidInput, match=r"a\.parquet cannot be read"):
        read(path)


def test_one_id_is_one_user_in_every_format(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"patient": [123456789012], "age": [1.0]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("patient,age\n123456789012,2\n")
    files = [tmp_path / "a.parquet", tmp_path / "b.csv"]
    table = read_table({"a": files}, SCHEMA, TableColumns(user="patient"))
    assert len(set(table.user.tolist())) == 1


@for_each(
    "ids",
    [
        pa.array([1.0, 2.0]),
        pa.array([1, 2], pa.decimal128(18, 0)),
        pa.array([True, False]),
        pa.array([[1], [2]]),
        pa.array([b"a", b"b"]),
    ],
)
def test_other_ids_are_refused_by_file_and_column(tmp_path: Path, ids: Any) -> None:
    parquet.write_table(pa.table({"patient": ids, "age": [1.0, 2.0]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match=r"a\.parquet.*'patient'"):
        read(tmp_path / "a.parquet")


def test_a_file_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    from privplan.fl.declarations.data_table import DataSettings
    from privplan.fl.tables.federated_table import files_of

    (tmp_path / "a.csv").write_text("patient,age\n")
    for silos in (
        (("n", (str(tmp_path / "a.csv"), str(tmp_path / "*.csv"))),),
        (("n", (str(tmp_path / "a.csv"),)), ("s", (str(tmp_path / "." / "a.csv"),))),
    ):
        data = DataSettings(name="table", users=1, silo_files=silos)
        with pytest.raises(InvalidInput, match="named twice"):
            files_of(data)
