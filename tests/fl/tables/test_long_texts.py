"""Texts of Parquet and Arrow that are longer than a line may be, or too many: none stops a run."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.fl.tables import arrow_file
from privplan.fl.tables.arrow_cells import row_ranges
from privplan.fl.tables.row_reading import TableColumns
from privplan.fl.tables.schema_file import schema_of
from privplan.fl.tables.table import Table
from privplan.fl.tables.user_list import listed_names

from ...cases import for_each

LIMIT = 64
DESCRIBED = {
    "label": {"kind": "binary", "values": ["no", "yes"]},
    "columns": {
        "word": {"kind": "category", "values": ["a", "b"], "gap_indicator": True},
        "age": {"kind": "number", "range": [0, 10], "gap_indicator": True},
    },
    "format": {"longest_line": LIMIT, "id_case": "lower"},
}
ROWS = {
    "user": ["P1", "p2", "p1", "p3"],
    "y": ["no", "yes", "no", "yes"],
    "word": ["a", "b", None, "b"],
    "age": ["1", "2", "3", "4"],
}
ASKED = TableColumns(user="user", label="y")
TYPES = (
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint64(), pa.large_string()),
)
PLACES = ("parquet", "arrow", "frame")


def cells(texts: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(kind):
        words = pa.array(texts, kind.value_type).dictionary_encode()
        return pa.DictionaryArray.from_arrays(words.indices.cast(kind.index_type), words.dictionary)
    return pa.array(texts, kind)


def table_of(
    folder: Path, place: str, columns: dict[str, pa.Array], said: Any = DESCRIBED
) -> Table:
    held = pa.table(columns)
    if place == "frame":
        return pp.Table.from_frame(held, schema=said, user="user", label="y")
    path = folder / f"a.{place}"
    if place == "parquet":
        parquet.write_table(held, path)
    else:
        with pa.ipc.new_file(str(path), held.schema) as file:
            file.write_table(held)
    return Table(sources={"all": [path]}, schema=schema_of(said), columns=ASKED)


def numbers(table: Table) -> tuple[np.ndarray, ...]:
    rows = table.rows()
    assert rows.labels is not None
    return rows.user, rows.labels, rows.features


@for_each("place", PLACES)
@for_each("kind", TYPES)
def test_a_text_that_is_too_long_is_missing_by_what_it_is_alone(
    tmp_path: Path, kind: Any, place: str
) -> None:
    for name, text in zip(
        ROWS, ("é" * (LIMIT // 2) + "1", "yes" + " " * LIMIT, "x" * 10**5, "1" * 65), strict=True
    ):
        found = []
        for cell in (text, None):
            held = {**ROWS, name: [*ROWS[name][:3], cell]}
            columns = {of: cells(values, kind) for of, values in held.items()}
            table = table_of(tmp_path, place, columns)
            found.append(numbers(table))
            told = [
                (finding.column, finding.lines)
                for finding in table.check().findings
                if "longer than 64 bytes" in finding.why
            ]
            assert told == ([(name, (4,))] if cell is not None else [])
        assert all(map(np.array_equal, *found))


@for_each("place", PLACES)
@for_each("kind", TYPES)
def test_a_text_as_long_as_a_line_may_be_is_read(tmp_path: Path, kind: Any, place: str) -> None:
    texts = {**ROWS, "word": ["a" + " " * (LIMIT - 1), "b", "é" * (LIMIT // 2), None]}
    held = {name: cells(values, kind) for name, values in texts.items()}
    table = table_of(tmp_path, place, held)
    assert not [found for found in table.check().findings if "longer" in found.why]
    # Two features of a number stand after four of the word: a, b, other, missing.
    words = table.rows().features[:, :4]
    assert words.sum(axis=0).tolist() == [1, 1, 1 + 1, 1]


@for_each("kind", TYPES)
def test_how_many_rows_are_read_at_a_time_makes_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any
) -> None:
    texts = {name: [*values, *values[::-1], "x" * 65, None] for name, values in ROWS.items()}
    texts["user"][-2:] = ["p9", "p8"]
    held = {name: cells(values, kind) for name, values in texts.items()}
    whole = numbers(table_of(tmp_path, "frame", held))
    found = table_of(tmp_path, "frame", held).check()
    for most in (1, 7, 30):
        monkeypatch.setattr(arrow_file, "BATCH_TEXT_BYTES", most)
        table = table_of(tmp_path, "frame", held)
        for one, other in zip(numbers(table), whole, strict=True):
            assert np.array_equal(one, other)
        assert set(table.check().findings) == set(found.findings)


def repeated_word(rows: int, word: str) -> pa.Array:
    index = pa.array([0, 1, 0, 1] + [2] * rows, pa.int32())
    return pa.DictionaryArray.from_arrays(index, pa.array(["a", "b", word]))


def repeated_view(rows: int, word: str) -> pa.Array:
    """Return views of which all but four are of the same bytes."""
    views = b"".join(struct.pack("<i12s", 1, text) for text in (b"a", b"b", b"a", b"b"))
    views += struct.pack("<i4sii", len(word), word[:4].encode(), 0, 0) * rows
    held = [None, pa.py_buffer(views), pa.py_buffer(word.encode())]
    return pa.Array.from_buffers(pa.string_view(), 4 + rows, held)


def require_read(table_folder: Path, place: str, column: Any) -> None:
    """Read a column of four short texts and of 2.4 GB that one person's rows say they have."""
    rows, word = 40_000, "x" * 60_000
    held = {
        "user": pa.array(["a", "b", "c", "d"] + ["z"] * rows),
        "y": pa.array(["0", "1"] * 2 + ["0"] * rows),
        "word": column(rows, word),
    }
    words = {"word": {"kind": "category", "values": ["a", "b"]}}
    said = {"label": {"kind": "binary", "values": ["0", "1"]}, "columns": words}
    features = table_of(table_folder, place, held, said).rows().features
    assert features.sum(axis=0).tolist() == [2, 2, rows]


def test_a_dictionary_whose_texts_no_column_has_room_for_is_read(tmp_path: Path) -> None:
    require_read(tmp_path, "arrow", repeated_word)


@pytest.mark.slow
def test_views_whose_texts_no_column_has_room_for_are_read(tmp_path: Path) -> None:
    require_read(tmp_path, "frame", repeated_view)


def test_a_long_text_behind_a_gap_takes_no_room() -> None:
    # The second cell is missing, and has bytes all the same.
    offsets = np.array([0, 1, 1 + 2**20, 2 + 2**20], np.int64).tobytes()
    gaps = pa.array([True, False, True]).buffers()[1]
    held = [gaps, pa.py_buffer(offsets), pa.py_buffer(b"a" + b"\xff" * 2**20 + b"b")]
    word = pa.Array.from_buffers(pa.large_string(), 3, held)
    columns = {"word": DESCRIBED["columns"]["word"]}
    table = pp.Table.from_frame(pa.table({"word": word}), schema={"columns": columns})
    assert table.rows().features.sum(axis=0).tolist() == [1, 1, 1, 1]
    assert not table.check().findings


def test_a_public_list_with_an_id_that_is_too_long_is_refused_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "users.parquet"
    parquet.write_table(pa.table({"user": ["p1", "x" * 65]}), path)
    with pytest.raises(InvalidInput, match=r"users\.parquet, line 2: .*longer than 64 bytes"):
        listed_names(path, "user", schema_of(DESCRIBED).format, seed=0)


def test_rows_are_taken_as_many_as_there_is_room_for() -> None:
    rng = np.random.default_rng(5)
    for most in (1, 10, 1000):
        sizes = rng.integers(0, 20, 50)
        ranges = list(row_ranges(sizes, most))
        assert [row for first, end in ranges for row in range(first, end)] == list(range(50))
        assert all(sizes[first:end].sum() <= most or end == first + 1 for first, end in ranges)
    assert not list(row_ranges(sizes[:0], 5))
