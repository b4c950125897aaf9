"""Example runs beside the claims of `privplan claims`."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from privplan.accountant.claims import table as tables
from privplan.audit import demos
from privplan.audit.attack import example_runs
from privplan.audit.measurement import ExampleResult
from privplan.cli.cache import measured_rows
from privplan.cli.reports.claims import runs_text

from ..accountant.test_claims_rule import EXAMPLE
from .conftest import Run

CLAIM = replace(EXAMPLE, observer="peer", claimed=1.0, proven=2.0, lower=1.5)

RESULT = ExampleResult(
    paper="disco",
    system="disco",
    data="breast-cancer",
    rounds=5,
    as_published=False,
    unit="silo",
    neighbours="replace-one",
    observer="peer",
    delta=1e-5,
    claimed=5.0,
    proven=4.99994,
    measured=3.55183,
    confidence=0.95,
    canaries=400,
    contradicted=False,
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the cache of these tests to themselves, and the table and demonstrations out of them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tables, "rows", lambda system: [lambda: replace(CLAIM, system=system)])
    monkeypatch.setattr(tables, "NOISE_MODULES", {})
    monkeypatch.setattr(demos, "MEASURES", {})
    return tmp_path / "cache" / "privplan"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Put a run that costs nothing in the place of every example; collect what was asked for."""
    asked: list[str] = []

    def run_example(system: str) -> ExampleResult:
        asked.append(system)
        return replace(RESULT, system=system)

    monkeypatch.setattr(example_runs, "run_example", run_example)
    return asked


def test_a_run_stands_beside_the_claims_once_it_was_measured(run: Run, ran: list[str]) -> None:
    before = run("claims", "disco", "--json").json["result"]
    assert before["runs"] == []
    assert ran == []
    (row,) = run("claims", "disco", "--measure", "--json").json["result"]["runs"]
    assert row == asdict(RESULT)
    assert ran == ["disco"]
    assert run("claims", "disco", "--measure", "--json").json["result"]["runs"] == [row]
    assert run("claims", "disco", "--json").json["result"]["runs"] == [row]
    assert ran == ["disco"]  # what was measured is kept


def test_measuring_covers_runs_of_all_five_systems(run: Run, ran: list[str]) -> None:
    run("claims", "--measure", "--json")
    papers = {example_runs.paper_of(system) for system in ran}
    assert papers == set(tables.SYSTEMS)
    assert len(set(ran)) == len(ran)


def test_a_result_by_other_code_is_not_shown(
    run: Run, monkeypatch: pytest.MonkeyPatch, ran: list[str]
) -> None:
    run("claims", "disco", "--measure")
    monkeypatch.setattr(measured_rows, "LIBRARIES", ("numpy",))
    assert run("claims", "disco", "--json").json["result"]["runs"] == []
    assert ran == ["disco"]


@pytest.mark.parametrize("damage", [{"measured": -1.0}, {"confidence": 1.0}, {"proven": math.nan}])
def test_a_damaged_result_is_not_recalled(damage: dict[str, float], cache: Path) -> None:
    version = measured_rows.current()
    measured_rows.keep_run(RESULT, version)
    assert measured_rows.recall_run("disco", version) == RESULT
    (path,) = cache.glob("*.json")
    path.write_text(json.dumps({"digest": "0" * 64, "measured": {**asdict(RESULT), **damage}}))
    assert measured_rows.recall_run("disco", version) is None
    with pytest.raises(ValueError, match="0 or above"):
        replace(RESULT, **damage)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [80, 91, 100])
def test_the_runs_fit_the_terminal_and_are_rounded_outwards(width: int) -> None:
    published = replace(
        RESULT, as_published=True, proven=math.inf, measured=8.4612, contradicted=True
    )
    text = runs_text([RESULT, published, replace(RESULT, claimed=None)], width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split() == ["Runs", "claimed", "proven", "measured"]
    assert lines[1].split()[-3:] == ["5", "5.000", "3.551"]
    assert "no guarantee" in text
    assert ", as published" in text
    assert "What is low proves nothing." in " ".join(text.split())
