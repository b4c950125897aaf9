"""`privplan data`: a draft of a schema, what is wrong in a table, and hidden ids."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ..fl.tables.hospitals import HEADER, SILOS, configuration, rows, write
from .conftest import Refused, Run

pytest.importorskip("pyarrow")


def configured(folder: Path) -> None:
    from privplan.fl.running.toml_writer import toml_bytes

    write(folder)
    (folder / "run.toml").write_bytes(toml_bytes(configuration()))


def test_a_draft_names_the_columns_and_looks_at_no_row(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.csv").write_text("patient,age,höhe\nSECRET,SECRET,SECRET\n")
    found = run("data", "schema", "a.csv")
    assert found.code == 0
    assert "SECRET" not in found.out + found.err
    draft = tomllib.loads(found.out)
    assert list(draft["columns"]) == ["patient", "age", "höhe"]
    assert not any(draft["columns"].values())  # every kind and range is open
    (tmp_path / "schema.toml").write_text(found.out)
    from privplan.accountant.errors import InvalidInput
    from privplan.fl.tables.schema_file import read_schema

    with pytest.raises(InvalidInput, match="lacks `kind`"):
        read_schema(tmp_path / "schema.toml")


def test_types_that_a_footer_declares_stand_in_a_draft(tmp_path: Path, run: Run) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"age": [1.5], "n": [3], "ok": [True], "sex": ["SECRET"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    found = run("data", "schema", "a.parquet")
    kinds = {
        name: column.get("kind") for name, column in tomllib.loads(found.out)["columns"].items()
    }
    assert kinds == {"age": "number", "n": "number", "ok": "boolean", "sex": None}
    assert "SECRET" not in found.out


def test_ranges_come_from_a_file_that_somebody_calls_public(
    tmp_path: Path, run: Run, refused: Refused
) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n")
    (tmp_path / "p.csv").write_text("age,sex\n3,f\n90,m\n")
    assert "--source" in refused("data", "schema", "a.csv", "--public", "p.csv")
    found = run("data", "schema", "a.csv", "--public", "p.csv", "--source", "UCI, doi 10.1/2")
    columns = tomllib.loads(found.out)["columns"]
    assert columns["age"] == {"kind": "number", "range": [3.0, 90.0], "source": "UCI, doi 10.1/2"}
    assert columns["sex"]["values"] == ["f", "m"]


def test_a_good_table_has_no_findings(tmp_path: Path, run: Run) -> None:
    configured(tmp_path)
    for silo in SILOS:
        (tmp_path / f"{silo}.csv").write_text(f"{HEADER}\np1,40,f,I,n,,no\n")
    found = run("data", "check", "run.toml")
    assert found.code == 0
    assert "nothing" in found.out


def test_planted_mistakes_are_named_by_file_line_and_column(tmp_path: Path, run: Run) -> None:
    configured(tmp_path)
    lines = [
        HEADER,
        "p1,40,f,I,n,,no",
        "p2,1e400,f,I,n,,no",
        "p3,abc,f,I,n,,no",
        'p4,40,f,I,n,"open,no',
        "p5,40,zzz,I,n,,no",
        ",40,f,I,n,,no",
        "p6,40,f,I,n,,perhaps",
        "p7,40,f,I,n,no",
        "P1 ,40,f,I,n,,no",
        "p1 ,40,f,I,n,,no",
    ]
    (tmp_path / "north.csv").write_bytes("\n".join(lines).encode() + b"\np8,\xff,f,I,n,,no\n")
    for silo in SILOS[1:]:
        (tmp_path / f"{silo}.csv").write_text(f"{HEADER}\n")
    found = run("data", "check", "run.toml", "--json")
    assert found.code == 1
    said = {
        (finding["column"], line)
        for finding in found.json["result"]["findings"]
        for line in finding["lines"]
    }
    assert said == {
        ("age", 3),
        ("age", 4),
        (None, 5),
        ("sex", 6),
        ("patient", 7),
        ("outcome", 8),
        (None, 9),
        ("patient", 11),
        (None, 12),
    }
    for text in (found.out, run("data", "check", "run.toml").out):
        assert not any(word in text for word in ("1e400", "abc", "zzz", "perhaps", "P1"))


def test_a_run_says_none_of_it(tmp_path: Path, run: Run) -> None:
    configured(tmp_path)
    (tmp_path / "north.csv").write_text(f"{HEADER}\nMARKER,MARKER,MARKER,MARKER,n,,MARKER\n")
    plain = run("run", "run.toml", "--out", "one")
    (tmp_path / "north.csv").write_text(f"{HEADER}\n")
    empty = run("run", "run.toml", "--out", "two")
    assert plain.code == empty.code == 0, plain.err
    assert "MARKER" not in plain.out + plain.err
    gone = [
        [line for line in outcome.out.splitlines() if not line.startswith(("head", "log", "next"))]
        for outcome in (plain, empty)
    ]
    assert gone[0] == gone[1]


def test_hidden_ids_are_the_same_in_every_silo_and_say_nothing(
    tmp_path: Path, run: Run, refused: Refused
) -> None:
    (tmp_path / "key").write_bytes(b"k" * 32)
    (tmp_path / "short").write_bytes(b"k" * 31)
    (tmp_path / "a.csv").write_text(
        "\n".join([HEADER, *rows(0), " p7 ,1,f,I,n,,no", ",1,f,I,n,,no"])
    )
    (tmp_path / "b.csv").write_text(f"{HEADER}\np7,1,f,I,n,,no\n")
    ask = ("--column", "patient", "--key-file")
    assert "32 bytes" in refused("data", "ids", "a.csv", *ask, "short", "--out", "c.csv")
    for bad, says in (("nodir/c.csv", "cannot be written"), ("c.csv.gz", "zipped")):
        assert says in refused("data", "ids", "a.csv", *ask, "key", "--out", bad)
    (tmp_path / "headerless.csv").write_text("SECRET,45,f\n")
    assert "SECRET" not in refused("data", "ids", "headerless.csv", *ask, "key", "--out", "c.csv")
    (tmp_path / "twice.csv").write_text("patient,patient\np1,p1\n")
    assert "differ" in refused("data", "ids", "twice.csv", *ask, "key", "--out", "c.csv")
    (tmp_path / "c.csv.part").write_text("kept")
    assert "'patiant'" in refused(
        "data", "ids", "a.csv", "--column", "patiant", "--key-file", "key", "--out", "c.csv"
    )
    assert not (tmp_path / "c.csv").exists()
    found = run("data", "ids", "a.csv", *ask, "key", "--out", "c.csv", "--json")
    assert found.json["result"] == {"rows": 41, "left_out": [43]}
    assert (tmp_path / "c.csv.part").read_text() == "kept"
    assert run("data", "ids", "b.csv", *ask, "key", "--out", "d.csv").code == 0
    ids = [line.split(",")[0] for line in (tmp_path / "c.csv").read_text().splitlines()[1:]]
    assert all(len(name) == 32 for name in ids)
    assert (tmp_path / "d.csv").read_text().splitlines()[1].split(",")[0] == ids[-1]
    assert "already" in refused("data", "ids", "b.csv", *ask, "key", "--out", "d.csv")


def test_a_silo_that_is_none_is_named_once(tmp_path: Path, run: Run) -> None:
    from privplan.fl.running.toml_writer import toml_bytes

    tables = configuration()
    tables["data"] |= {"silos": list(SILOS), "path": "all.csv", "silo": "hospital"}
    (tmp_path / "run.toml").write_bytes(toml_bytes(tables))
    good = "p1,40,f,I,n,,no"
    lines = [f"hospital,{HEADER}", f"north,{good}", f"nowhere,{good}", f"south,{good},x"]
    (tmp_path / "all.csv").write_text("\n".join(lines) + "\n")
    found = run("data", "check", "run.toml", "--json").json["result"]
    assert found["rows"] == {"north": 1, "south": 0, "west": 0}
    said = [(finding["column"], finding["lines"]) for finding in found["findings"]]
    assert said == [(None, [4]), ("hospital", [3])]


def test_a_draft_is_toml_whatever_the_columns_are_called(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.csv").write_text('age\U0001f600,"a ""b"""\n', encoding="utf-8")
    assert list(tomllib.loads(run("data", "schema", "a.csv").out)["columns"]) == [
        "age\U0001f600",
        'a "b"',
    ]
    (tmp_path / "p.csv").write_text("word\na\x7f\nb\n1e308\n")
    found = run("data", "schema", "p.csv", "--public", "p.csv", "--source", "UCI")
    assert "a\x7f" in tomllib.loads(found.out)["columns"]["word"]["values"]
