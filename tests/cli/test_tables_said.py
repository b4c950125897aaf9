"""What a person reads of a run on a table: the same of neighbouring files, with one exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from privplan.fl.running.toml_writer import toml_bytes

from ..cases import for_each
from ..fl.tables.hospitals import configuration, write
from ..fl.tables.test_table_runs import beside, of_nobody, without
from .conftest import Run

pytest.importorskip("pyarrow")


@for_each(
    "system, tables",
    [
        ("delm-basic", {"delm": {"row_norm": 2.0, "pca": "gaussian", "sensitivity": "proven"}}),
        ("flame-simple", {"flame": {"transport": "ideal"}}),
        ("uldp-avg", {"security": {"aggregation": "private-weighting", "key_bits": 2048}}),
        ("fedpower-private", {"fedpower": {"rank": 2, "row_norm": 2.0}}),
    ],
    items=2,
)
def test_a_person_reads_the_same_of_neighbouring_files(
    tmp_path: Path, run: Run, system: str, tables: dict[str, dict[str, Any]]
) -> None:
    said = configuration(system, **{**tables, "run": {"rounds": 1, "seed": 5}})
    (tmp_path / "run.toml").write_bytes(toml_bytes(said))
    seen = []
    for number, edited in enumerate((None, beside, without, of_nobody)):
        write(tmp_path, edited)
        name = f"out{number}"
        screens = [
            run("run", "run.toml", "--dry-run"),
            run("run", "run.toml", "--out", name),
            run("audit", "budget", name),
            run("report", name, "-o", "page.html"),
        ]
        # A head is of values that have their noise, and of the time.
        lines = [
            line.replace(name, "out")
            for screen in screens
            for line in (screen.out + screen.err).splitlines()
            if not line.startswith("head ")
        ]
        seen.append(([screen.code for screen in screens], lines))
        if "users_public" in said["data"]:
            assert "22 users on a public list" in screens[0].out
            assert "22 users on a public list" in (tmp_path / "page.html").read_text()
    assert all(one == seen[0] for one in seen)
