"""The walk of the five hospitals: their files, a schema, a run, an audit, an attack, a page."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from .conftest import Run

pytest.importorskip("pyarrow")

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "hospitals"
PAGE = ROOT / "docs" / "tutorials" / "hospital-files.md"

MOST_COMMANDS = 8

PLANTED = (
    (3, "age", "P90001,abc,f,II,no,1.0,A,no"),
    (4, None, 'P90002,40,f,II,no,1.0,"A,no'),
    (5, "patient", ",40,f,II,no,1.0,A,no"),
    (6, "marker", "P90003,40,f,II,no,1e400,A,no"),
    (7, "readmitted", "P90004,40,f,II,no,1.0,A,maybe"),
)
"""Lines with a mistake each, where they are planted, and in which column."""


@pytest.fixture
def hospitals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """Write the files into the working directory, as somebody who follows the walk."""
    made = runpy.run_path(str(EXAMPLE / "make_files.py"))
    made["main"](tmp_path)
    capsys.readouterr()
    for name in ("schema.toml", "run.toml"):
        shutil.copy(EXAMPLE / name, tmp_path)
    return tmp_path


def walk_of_the_page() -> list[list[str]]:
    """Return the commands of the walk, each as the words after the name of the program."""
    _, _, walk = PAGE.read_text().partition("examples/hospitals/make_files.py")
    block, _, _ = walk.partition("\n\n")
    lines = [line.partition("#")[0].strip() for line in block.splitlines()]
    asked = [part.split() for line in lines for part in line.split("&&")]
    return [words[1:] for words in asked if words[:1] == ["privplan"]]


def test_the_walk_of_the_page_is_short_and_complete() -> None:
    commands = walk_of_the_page()
    begun = [" ".join(words[: 2 if words[0] in ("data", "audit") else 1]) for words in commands]
    expected = ["data schema", "data check", "run", "run", "audit budget", "audit attack", "report"]
    assert begun == expected
    assert len(commands) <= MOST_COMMANDS


@pytest.mark.slow
def test_each_command_of_the_walk_runs(hospitals: Path, run: Run) -> None:
    codes = [run(*words).code for words in walk_of_the_page()]
    assert codes == [0, 1, 0, 0, 0, 0, 0]  # a check finds words that are not known
    assert (hospitals / "report.html").exists()


def test_the_walk_ends_with_a_page(hospitals: Path, run: Run) -> None:
    draft = run("data", "schema", "north.csv").out
    assert "[columns.marker]" in draft
    assert run("data", "check", "run.toml").code == 1  # gaps aside, some words are not known
    planned = run("run", "run.toml", "--dry-run", "--json").json["result"]
    assert planned["study"] is None
    done = run("run", "run.toml", "--out", "out", "--json").json["result"]
    assert done["observers"]
    budget = run("audit", "budget", "out", "--json")
    assert budget.code == 0
    assert budget.json["result"]["epsilon"]["upper"] <= 4.0
    assert run("report", "out", "-o", "page.html").code == 0
    page = (hospitals / "page.html").read_text()
    assert "at most 2,000 users" in page
    assert "P00001" not in page


def test_planted_mistakes_are_named_where_they_are(hospitals: Path, run: Run) -> None:
    north = hospitals / "north.csv"
    lines = north.read_text().splitlines()
    for number, _, line in PLANTED:
        lines.insert(number - 1, line)
    north.write_text("\n".join(lines) + "\n")
    found = run("data", "check", "run.toml", "--json").json["result"]["findings"]
    said = {
        (line, finding["column"])
        for finding in found
        if finding["file"] == "north.csv"
        for line in finding["lines"]
    }
    assert {(number, column) for number, column, _ in PLANTED} <= said
