"""Damaged files: each is read or refused, and none ends a process or tells what it holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from pyarrow import parquet

from privplan.accountant.errors import InvalidInput
from privplan.fl.tables.row_reading import TableColumns
from privplan.fl.tables.schema_file import schema_of
from privplan.fl.tables.table import read_table

from ...cases import for_each

MARKER = "Zyx-4711"
ROWS = 24
SCHEMA = {
    "label": {"kind": "binary"},
    "columns": {
        "data": {"kind": "array", "shape": [3], "range": [0, 1]},
        "age": {"kind": "number", "range": [0, 110]},
        "word": {"kind": "category", "values": ["a", "b"]},
    },
}


def columns() -> dict[str, pa.Array]:
    rng = np.random.default_rng(3)
    return {
        "user": pa.array([f"{MARKER}{row % 5}" for row in range(ROWS)]),
        "y": pa.array([str(row % 2) for row in range(ROWS)]).dictionary_encode(),
        "age": pa.array(rng.normal(50, 20, ROWS)),
        "word": pa.array([None if row % 7 == 0 else "ab"[row % 2] for row in range(ROWS)]),
    }


def write(path: Path, kind: str) -> None:
    held = pa.table(columns())
    if kind == "parquet":
        parquet.write_table(held, path)
    elif kind == "arrow":
        with pa.ipc.new_file(str(path), held.schema) as file:
            file.write_table(held)
    else:
        arrays = {name: np.array(cells.to_pylist()) for name, cells in columns().items()}
        arrays["word"] = arrays["word"].astype(str)
        if kind == "sparse":
            matrix = scipy.sparse.random(ROWS, 3, 0.4, format="csr", random_state=1)
            scipy.sparse.save_npz(path, matrix)
            with np.load(path) as parts:
                arrays |= dict(parts)
        else:
            arrays["data"] = np.random.default_rng(4).random((ROWS, 3))
        np.savez_compressed(path, **arrays)


@for_each("kind", ["parquet", "arrow", "dense", "sparse"])
def test_a_damaged_file_is_read_or_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / {"dense": "a.npz", "sparse": "a.npz"}.get(kind, f"a.{kind}")
    write(path, kind)
    described = dict(SCHEMA["columns"])
    if kind in ("parquet", "arrow"):
        del described["data"]
    schema = schema_of({**SCHEMA, "columns": described})
    asked = TableColumns(user="user", label="y")
    assert len(read_table({"a": [path]}, schema, asked).features) == ROWS
    whole, rng = path.read_bytes(), np.random.default_rng(7)
    refused: list[str] = []
    for _ in range(250):
        content = bytearray(whole)
        for _ in range(rng.integers(1, 4)):
            content[rng.integers(len(content))] = rng.integers(256)
        if rng.random() < 0.1:
            del content[rng.integers(len(content)) :]
        path.write_bytes(content)
        try:
            features = read_table({"a": [path]}, schema, asked).features
        except InvalidInput as error:
            refused.append(str(error))
            continue
        assert np.isfinite(features).all()
    assert len(refused) > 20
    assert MARKER not in "".join(refused)


def test_texts_that_lie_outside_of_their_file_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    cells = pa.array([f"{row:08d}" for row in range(10)])
    with pa.ipc.new_file(str(path), pa.schema([("user", cells.type)])) as file:
        file.write_table(pa.table({"user": cells}))
    offsets = np.arange(0, 88, 8, dtype="<i4").tobytes()
    damaged = bytearray(offsets)
    damaged[12:16] = (10**6).to_bytes(4, "little")
    content = path.read_bytes()
    assert content.count(offsets) == 1
    path.write_bytes(content.replace(offsets, bytes(damaged)))
    schema = schema_of({"columns": {"user": {"kind": "ignored"}}})
    with pytest.raises(InvalidInput, match="damaged"):
        read_table({"a": [path]}, schema, TableColumns(user="user"))
