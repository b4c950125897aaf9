"""Sums of what users give, of another package: what a run promises is what its log supports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("cryptography")

from privplan.accountant.records import RunClose
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.fl.log import read
from privplan.fl.running import run
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from ..packages.toys import for_each_test

CONFIG = """
[run]
system = "toy-mean"
rounds = 2

[data]
name = "breast-cancer"
users = 30
silos = 4

[privacy]
noise_multiplier = 2.0
delta = 0.001
neighbours = "{neighbours}"

[security]
{security}

[toy]
clip = 3.0
"""

SECURITY = {
    "plain": 'aggregation = "plain"',
    "masked": 'aggregation = "masked"',
    "masked-lossy": 'aggregation = "masked"\ndropouts = 1\ncolluders = 1',
}


toy = for_each_test("toy_mean")


def begun(folder: Path, security: str = "plain", neighbours: str = "add-remove") -> Path:
    text = CONFIG.format(security=SECURITY[security], neighbours=neighbours)
    run(parse(text.encode(), "run.toml"), folder)
    return folder


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("security", SECURITY)
def test_the_audit_has_the_numbers_of_the_run(
    security: str, neighbours: str, tmp_path: Path
) -> None:
    folder = begun(tmp_path / "out", security, neighbours)
    report = audit_budget(folder)
    found = {row.observer: row.total.upper for row in report.rows}
    (closed,) = [line.record for line in read(folder) if isinstance(line.record, RunClose)]
    assert {"model", "server", "silo"} <= set(closed.epsilon)
    for observer, promised in closed.epsilon.items():
        assert promised is not None
        assert found[observer] == pytest.approx(promised, rel=1e-9), observer
    assert not report.errors
    assert found["server"] == found["model"]  # even shares of a user and of the noise, or the sum
    assert found["silo"] != found["model"]
    assert edits_of(folder) == ()


FIRST: dict[str, tuple[Any, str | None]] = {
    "as it is": (np.zeros(31), None),
    "another vector": (np.ones(31), "foreign-first-model"),
    "a vector that is longer": (np.zeros(32), "foreign-length"),
}


@for_each("name", FIRST)
def test_a_first_vector_that_is_not_the_runs_is_found(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = begun(tmp_path / "out")
    from toy_mean import system

    vector, expected = FIRST[name]
    monkeypatch.setattr(
        system, "DETERMINES", replace(system.DETERMINES, first=lambda _: vector.copy())
    )
    found = {one.id for one in edits_of(folder)}
    assert (expected in found) if expected else found == set()
    assert ("foreign-length" in found) == (vector.size != 31)
