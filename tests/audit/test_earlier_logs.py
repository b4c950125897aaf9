"""Runs of every system, aggregation and sampling, as an earlier version left them.

`earlier/runs.zip` holds their folders, cut off and resumed ones among them, and `expected.json`
what that version's audits said of them.  Honest logs keep their numbers, verdicts and exit codes;
what may change stands below, by name.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, Final

import pytest

from privplan.audit.budget import BudgetReport, audit_budget
from privplan.audit.log import verify

HERE: Final = Path(__file__).parent / "earlier"
EXPECTED: Final[dict[str, Any]] = json.loads((HERE / "expected.json").read_text())
SEEDED: Final = "avg-seeded"
"""A seeded run has an error, so its log supports nothing; it said `supported` before."""

CLOSE: Final = 1e-9
"""Relative difference of the same number on two processors."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the folders of all runs."""
    folder = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(HERE / "runs.zip") as packed:
        packed.extractall(folder)
    return folder


def audited(folder: Path) -> BudgetReport:
    return audit_budget(folder, sealed=(folder / "sealed.jsonl").exists())


def near(expected: dict[str, float]) -> Any:
    return pytest.approx(expected, rel=CLOSE)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_earlier_log_is_still_whole(runs: Path, name: str) -> None:
    expected, found = EXPECTED[name]["verified"], verify(runs / name)
    assert {
        "records": found.records,
        "head": found.head,
        "complete": found.complete,
        "ok": found.ok,
    } == expected


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_earlier_log_keeps_its_numbers_and_its_verdict(runs: Path, name: str) -> None:
    expected, found = EXPECTED[name], audited(runs / name)
    own = json.loads(json.dumps(found.to_json()))
    assert own["epsilon"] == near(expected["epsilon"])
    same = ("claimed", "rounds", "released", "dangling")
    assert {key: own[key] for key in same} == {key: expected[key] for key in same}
    if name == SEEDED:
        assert (expected["supported"], own["supported"]) == (True, False)
    else:
        assert own["supported"] == expected["supported"]
    assert own["not_stated"] == []
    assert found.ok == expected["ok"]
    assert sorted([one["id"], one["severity"]] for one in own["hazards"]) == expected["hazards"]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_earlier_log_keeps_its_observers(runs: Path, name: str) -> None:
    own = json.loads(json.dumps(audited(runs / name).to_json()))
    found = {row["observer"]: row["epsilon"] for row in own["observers"]}
    expected = EXPECTED[name]["observers"]
    assert list(found) == list(expected)
    for observer, epsilon in expected.items():
        assert found[observer] == near(epsilon), observer
