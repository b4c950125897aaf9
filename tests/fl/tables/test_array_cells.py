"""Cells of arrays: what one person's cell holds decides no refusal, no warning and no memory."""

from __future__ import annotations

import io
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.tables.array_file import ArrayFile
from privplan.fl.tables.row_reading import TableColumns
from privplan.fl.tables.schema import TextFormat
from privplan.fl.tables.schema_draft import draft_of
from privplan.fl.tables.schema_file import schema_of
from privplan.fl.tables.table import read_table
from privplan.fl.tables.value_checks import checked_table

from ...cases import for_each

LIMIT = 64
WORDS = {
    "columns": {
        "word": {"kind": "category", "values": ["a", "b"]},
        "age": {"kind": "number", "range": [0, 10]},
        "note": {"kind": "ignored"},
    },
    "format": {"longest_line": LIMIT},
}
COLUMNS = TableColumns(user="user")


def arrays(rows: int = 6) -> dict[str, Any]:
    return {
        "user": np.array([f"p{row}" for row in range(rows)]),
        "word": np.array(["a", "b"] * (rows // 2)),
        "age": np.arange(rows) / 2,
        "note": np.array(["-"] * rows),
    }


def read(path: Path, said: Any = WORDS) -> Any:
    return read_table({"a": [path]}, schema_of(said), COLUMNS)


def one_cell(name: str, text: Any, row: int = 1) -> dict[str, Any]:
    held = arrays()
    cells = held[name].tolist()
    cells[row] = text
    return {**held, name: np.array(cells)}


LONG: tuple[Any, ...] = (
    "x" * (LIMIT + 1),
    "é" * (LIMIT // 2 + 1),
    "y" * 70_000,
    "a" + "\0" * 900 + "z",
)


@for_each("text", LONG)
@for_each("packed", [np.savez, np.savez_compressed])
def test_a_text_of_any_length_is_a_gap_or_a_row_that_is_left_out(
    tmp_path: Path, text: str, packed: Any
) -> None:
    path = tmp_path / "a.npz"
    packed(path, **arrays())
    whole = read(path)
    packed(path, **one_cell("note", text))
    assert np.array_equal(read(path).features, whole.features)
    packed(path, **one_cell("word", text))
    wide = read(path)
    packed(path, **one_cell("word", ""))
    assert np.array_equal(wide.features, read(path).features)
    packed(path, **one_cell("user", text))
    assert set(read(path).user) == set(whole.user) - {read_user("p1")}
    found = checked_table({"a": [path]}, schema_of(WORDS), COLUMNS).findings
    assert (1, (2,)) in [(one.count, one.lines) for one in found if "longer than 64" in one.why]


def read_user(name: str) -> int:
    from privplan.fl.tables.user_names import user_name

    return user_name(name, 0)


def test_a_text_of_the_longest_size_is_read(tmp_path: Path) -> None:
    for text in ("x" * LIMIT, "é" * (LIMIT // 2), b"x" * LIMIT):
        np.savez(tmp_path / "a.npz", **one_cell("user", text))
        assert len(read(tmp_path / "a.npz").user) == 6
    np.savez(tmp_path / "a.npz", **{**arrays(), "word": np.array([b"a"] * 5 + [b"a" * 65])})
    assert read(tmp_path / "a.npz").features[:, 0].tolist().count(1.0) == 5


def test_memory_does_not_follow_from_the_longest_text(tmp_path: Path) -> None:
    width, rows = 2**20, 40
    header = io.BytesIO()
    said = {"descr": f"<U{width}", "fortran_order": False, "shape": (rows,)}
    np.lib.format.write_array_header_1_0(header, said)
    path = tmp_path / "a.npz"
    np.savez_compressed(path, **{k: v for k, v in arrays(rows).items() if k != "word"})
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as packed,
        packed.open("word.npy", "w") as file,
    ):
        file.write(header.getvalue())
        for row in range(rows):
            file.write(np.array("ab"[row % 2]).astype("<U8").tobytes().ljust(4 * width, b"\0"))
    tracemalloc.start()
    features = read(path).features
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert features[:, 0].sum() == features[:, 1].sum() == rows / 2
    assert most < 2**26  # of 160 MiB


def test_arrays_that_are_not_needed_are_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, **arrays())
    usual = read(path).features
    for note in (
        np.array([None] * 6),
        np.ones((5, 0)),
        np.ones(3, np.longdouble),
        np.zeros(6, "U0"),
    ):
        np.savez(path, **{**arrays(), "note": note})
        assert np.array_equal(read(path).features, usual)


def test_objects_are_refused_alike_whatever_they_are(tmp_path: Path) -> None:
    said = set()
    for cells in (["a", None] * 3, [None] * 6, [3] * 6, ["x" * 99] * 600, []):
        np.savez(tmp_path / "a.npz", **{**arrays(), "user": np.array(cells, object)})
        with pytest.raises(InvalidInput, match=r"objects.*dtype=str") as caught:
            read(tmp_path / "a.npz")
        said.add(str(caught.value))
    assert len(said) == 1


def test_texts_without_a_character_are_gaps(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{**arrays(), "word": np.zeros(6, "U0")})
    assert not read(tmp_path / "a.npz").features[:, :2].any()


SIGNALLING = {
    "<f4": struct.pack("<I", 0x7F800001),
    "<f8": struct.pack("<Q", 0x7FF0000000000001),
    ">f4": struct.pack(">I", 0x7F800001),
    "<f2": struct.pack("<H", 0x7C01),
}


@for_each("dtype", list(SIGNALLING))
@for_each("kind", ["dense", "sparse", "column"])
def test_no_cell_warns(tmp_path: Path, dtype: str, kind: str) -> None:
    odd = np.frombuffer(SIGNALLING[dtype], dtype)
    values = np.concatenate([odd, np.array([1.0, np.inf, -np.inf], dtype), odd, odd])
    ids = np.array([f"p{row}" for row in range(6)])
    shape: dict[str, Any] = (
        {"kind": "number"} if kind == "column" else {"kind": "array", "shape": [1]}
    )
    column = {**shape, "range": [0, 2], "scaling": "none"}
    said = {"data": values if kind == "column" else values[:, None]}
    if kind == "sparse":
        said = {"data": values, "indices": np.zeros(6, int), "indptr": np.arange(7)}
        said |= {"shape": np.array([6, 1]), "format": np.array(b"csr")}
    np.savez(tmp_path / "a.npz", user=ids, **said)
    with warnings.catch_warnings(), np.errstate(all="warn"):
        warnings.simplefilter("error")
        features = read(tmp_path / "a.npz", {"columns": {"data": column}}).features
    assert np.isfinite(features).all()


def drafted(path: Path) -> str:
    try:
        return draft_of([path], TextFormat(), public=path, source="UCI")
    except InvalidInput as error:
        return str(error)


def member(content: bytes, name: str = "age", method: int = zipfile.ZIP_STORED) -> bytes:
    """Return a file whose array of this name holds these bytes."""
    file = io.BytesIO()
    np.savez(file, **{key: value for key, value in arrays().items() if key != name})
    with zipfile.ZipFile(file, "a", method) as packed:
        packed.writestr(f"{name}.npy", content)
    return file.getvalue()


def array_bytes(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


WHOLE = array_bytes(np.arange(6.0))
UNREADABLE_NAME = member(WHOLE, "éé").replace("éé".encode(), b"\xff\xfe\xff\xfe") if WHOLE else b""


@for_each(
    "content",
    [
        member(b"\x93NUMPY\x01\x00\x10\x00{'descr': '''a\n "),  # a text that nothing ends
        member(b"\x93NUMPY\x01\x00\x10\x00((((((((((((((((("),
        member(WHOLE, method=zipfile.ZIP_LZMA),
        member(WHOLE, method=zipfile.ZIP_BZIP2),
        member(WHOLE, method=zipfile.ZIP_LZMA).replace(b"\x05\x00\x5d", b"\x05\x00\xff"),
        member(array_bytes(np.ones((5, 0)))),
        member(WHOLE[:-3]),
        UNREADABLE_NAME,
    ],
)
def test_a_file_that_is_damaged_is_refused_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"a\.npz.*numpy\.savez"):
        read(path)
    said = drafted(path)  # which names what can be named, or refuses the file
    assert "[columns.age]" in said or "numpy.savez" in said


def test_a_draft_keeps_the_order_of_the_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", b=np.array([None]), a=np.ones(1), c=np.ones((5, 0)))
    assert ArrayFile.open(tmp_path / "a.npz").names == ("b", "a", "c")
    text = draft_of([tmp_path / "a.npz"], TextFormat(), public=tmp_path / "a.npz", source="UCI")
    assert text.index("[columns.b]") < text.index("[columns.a]") < text.index("[columns.c]")
    np.savez(tmp_path / "b.npz", c=np.ones((5, 0)))
    assert "[columns.c]" in draft_of(
        [tmp_path / "b.npz"], TextFormat(), public=tmp_path / "b.npz", source="UCI"
    )
