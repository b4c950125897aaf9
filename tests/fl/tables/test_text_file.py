"""Lines of text files: each is a row or none, whatever stands in the others."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.tables import csv_file
from privplan.fl.tables.csv_file import TextFile
from privplan.fl.tables.schema import TextFormat

from ...cases import for_each

NASTY = (
    b'"', b'""', b'"a""b"', b'"a', b'a"b', b"\r", b"\0", b"\xff", b"\xc3\xa9", b"\xc3", b",", b"",
    b"\xef\xbb\xbf", b" ", b"x", b"1", b"-1e400", b"\x0b", b"\x1a", b"\xe2\x80\xa8",
    b"'", b"\\", b"#", b"y" * 300,
)  # fmt: skip


def test_a_byte_order_mark_stays_in_its_row_wherever_that_stands(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for before in ([], [b"1,2"], [b'"1",2']):
        path.write_bytes(b"\n".join([b"a,b", *before, b"\xef\xbb\xbfV,2"]) + b"\n")
        assert rows_of(path)[-1][1] == ("\ufeffV", "2")


def rows_of(path: Path, format: TextFormat | None = None) -> list[tuple[int, tuple[str, ...]]]:
    """Return the rows of a file with their lines, in order."""
    file = TextFile.open(path, format or TextFormat(longest_line=256))
    rows = []
    for batch in file.batches():
        cells = [batch.columns[name].to_pylist() for name in file.names]
        rows += list(zip(batch.lines.tolist(), zip(*cells, strict=True), strict=True))
    return sorted(rows)


def slowly(content: bytes, fields: int, longest: int = 256) -> list[tuple[int, tuple[str, ...]]]:
    """Return the same, line by line, with the csv module alone."""
    lines = content.split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    rows = []
    for number, line in enumerate(lines[1:], 2):
        line = line.removesuffix(b"\r")
        if not line or len(line) > longest or b"\0" in line or b"\r" in line:
            continue
        try:
            (row,) = csv.reader([line.decode()], strict=True)
        except (UnicodeDecodeError, csv.Error, ValueError):
            continue
        if len(row) == fields:
            rows.append((number, tuple(row)))
    return rows


@pytest.mark.parametrize("block", [7, 64, 2**23])
def test_rows_are_those_of_each_line_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """600 files of random nasty lines, cut into blocks anywhere."""
    monkeypatch.setattr(csv_file, "TEXT_BLOCK_BYTES", block)
    rng = np.random.default_rng(block)
    path = tmp_path / "t.csv"
    for _ in range(200):
        lines = [
            b",".join(
                b"".join(NASTY[i] for i in rng.integers(len(NASTY), size=rng.integers(1, 4)))
                for _ in range(rng.integers(1, 4))
            )
            for _ in range(rng.integers(0, 8))
        ]
        end = [b"", b"\n", b"\r\n", b"\n\n"][rng.integers(4)]
        content = (b"\r\n" if rng.integers(2) else b"\n").join([b"a,b", *lines]) + end
        path.write_bytes(content)
        assert rows_of(path) == slowly(content, 2), content


def test_a_line_without_end_costs_no_memory_and_takes_no_other_row(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with path.open("wb") as file:
        file.write(b"a,b\n1,2\n")
        for _ in range(30):
            file.write(b"z" * 2**20)
        file.write(b"\n3,4\n")
    assert rows_of(path) == [(2, ("1", "2")), (4, ("3", "4"))]


def test_a_zipped_file_has_the_same_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbfa,b\n1,"2"\n'))
    assert rows_of(path) == [(2, ("1", "2"))]
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 1000)[:-12])
    with pytest.raises(InvalidInput, match="cannot be unzipped"):
        rows_of(path)


def test_a_damaged_zip_is_refused_without_a_word_of_what_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 1000, mtime=0)
    places = (0, 1, 2, 3, 10, 12, len(whole) // 2, len(whole) - 8, len(whole) - 1)
    said = set()
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(InvalidInput) as caught:
            rows_of(path)
        said.add(str(caught.value))
    assert len(said) == 1
    assert said.pop().startswith("t.csv.gz cannot be unzipped: it is damaged.")


@for_each(
    "encoding, content, row",
    [
        ("utf-8", "é,b\n".encode(), "é"),
        ("latin-1", "é,b\n".encode("latin-1"), "é"),
        ("cp1252", "€,b\n".encode("cp1252"), "€"),
        ("iso-8859-15", "€,b\n".encode("iso-8859-15"), "€"),
    ],
)
def test_text_is_read_in_the_encoding_of_the_schema(
    tmp_path: Path, encoding: str, content: bytes, row: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + content + b'"' + content[:1] + b'",b\n')
    format = TextFormat(encoding=encoding)
    rows = rows_of(path, format)
    assert rows[0] == (2, (row, "b"))


@for_each(
    "content, says",
    [
        (b"", "no header"),
        (b"\n1,2\n", "no header"),
        (b'"a,b\n1,2\n', "no line of utf-8 text"),
        (b"\xff,b\n", "no line of utf-8 text"),
        (b"a\0,b\n", "no line of utf-8 text"),
        (b"a" * 70_000 + b"\n", "header of more than"),
    ],
)
def test_a_header_that_is_none_is_refused_by_the_name_of_the_file(
    tmp_path: Path, content: bytes, says: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match=says) as caught:
        TextFile.open(path, TextFormat())
    assert caught.value.what.startswith("t.csv")
