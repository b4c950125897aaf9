"""`privplan audit budget` of a run supports what `privplan run` said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ..cases import for_each
from .conftest import Run
from .runs import written


def audited(run: Run, folder: str = "out") -> tuple[int, dict[str, Any]]:
    outcome = run("audit", "budget", folder, "--json")
    return outcome.code, outcome.json["result"]


def require_agreement(said: dict[str, Any], derived_budget: dict[str, Any]) -> None:
    """Require that the log supports what the run said, for every observer."""
    assert derived_budget["supported"]
    assert derived_budget["complete"]
    assert derived_budget["released"] == said["rounds"]
    rows = {named(row): row for row in derived_budget["observers"]}
    assert set(rows) == {named(row) for row in said["observers"]}
    for row in said["observers"]:
        derived, stated = rows[named(row)], row["epsilon"]["upper"]
        assert float(derived["epsilon"]["upper"]) == pytest.approx(float(stated), rel=1e-9)
        assert derived["rests_on"] == row["rests_on"]


def named(row: dict[str, Any]) -> tuple[object, ...]:
    """Return what names the observer of a row."""
    return tuple(row.get(key) for key in ("observer", "colluders", "dropouts", "holds"))


@pytest.mark.quick(5)
@pytest.mark.usefixtures("fl")
@for_each(
    "changes",
    [
        {},
        {"privacy": 'epsilon = 4\nneighbours = "replace-one"\nsampling_rate = 0.5'},
        {"more": 'weighting = "records"', "privacy": "epsilon = 4\nnoise_multiplier = 2"},
        {"system": "uldp-naive"},
        {"system": "uldp-group", "more": "[uldp]\ngroup_records = 4"},
        {"more": 'weighting = "records"\n[security]\ncolluders = 1', "silos": 3},
        {"more": '[security]\naggregation = "masked"\ncolluders = 1', "silos": 3},
        {"more": '[security]\naggregation = "private-weighting"\nkey_bits = 2048'},
    ],
)
def test_the_audit_finds_what_the_run_said(changes: dict[str, Any], run: Run) -> None:
    said = run("run", written(**changes), "--out", "out", "--json").json["result"]
    assert run("audit", "log", "out").code == 0
    code, budget = audited(run)
    assert code == 0
    require_agreement(said, budget)
    assert not [hazard for hazard in budget["hazards"] if hazard["severity"] == "error"]


@pytest.mark.usefixtures("fl")
def test_the_audit_counts_what_was_lost(cut: Callable[..., Any], run: Run) -> None:
    cut(6, written(), "--out", "out")
    said = run("run", "--resume", "--out", "out", "--json").json["result"]
    assert (said["rounds"], said["planned"]) == (2, 3)
    code, budget = audited(run)
    assert code == 0
    require_agreement(said, budget)
    assert budget["rounds"] == 3
    assert budget["dangling"] == [4]  # the fifth line, counted from 0


@pytest.mark.usefixtures("fl")
@for_each(
    ("changes", "hazard"),
    [
        ({"run": "seed = 3"}, "seeded"),
        ({"system": "fedavg", "privacy": ""}, "no-noise"),
        ({"system": "uldp-naive", "more": "[uldp]\nas_published = true"}, "as-published"),
    ],
)
def test_the_audit_finds_what_protects_nobody(
    changes: dict[str, str], hazard: str, run: Run
) -> None:
    assert run("run", written(**changes), "--out", "out").code == 0
    code, budget = audited(run)
    assert code == 1
    assert hazard in {row["id"] for row in budget["hazards"]}
