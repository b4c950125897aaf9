"""What votes of users who are held out cost: in a plan, in a budget, and by an audit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.ledger.phases import score_of

from ...accountant.participating import exact
from ...cases import for_each
from ..extras import needs
from .held_out_runs import (
    DISCO,
    RECORDS,
    SETTINGS,
    VOTES,
    configured,
    ledger_of,
    measured,
    planned,
    ran,
)
from .hospitals import configuration, write

pytestmark = needs("torch", "pyarrow", "cryptography")


@pytest.mark.quick(3)
@for_each("system, tables", SETTINGS)
def test_an_audit_derives_what_the_votes_cost(
    tmp_path: Path, system: str, tables: dict[str, Any]
) -> None:
    folder, _ = ran(tmp_path / "run", configured(system, tables))
    budget = audit_budget(folder)
    if system == "fedavg":  # promises nothing, and is no worse for it
        assert not any(math.isfinite(row.total.upper) for row in budget.rows)
    else:
        assert budget.supported, budget
        # Of records it is private how many there are, with votes and without.
        assert {hazard.id for hazard in budget.hazards} <= {"delta-not-compared"}
        assert not budget.hazards or tables is RECORDS
    assert not edits_of(folder)
    score = score_of(ledger_of(folder))
    assert score is not None
    assert score.to_json() == measured(folder)["held_out"]
    # Noise that may be missing is made up for, and all of it arrives.
    missing = tables.get("security", {}).get("dropouts", 0)
    assert score.deviation == pytest.approx(1.5 * math.sqrt(3 / (3 - missing)))


def test_votes_are_composed_with_the_rounds(tmp_path: Path) -> None:
    """Two rounds of noise 2 and one of 1.5 are one Gaussian, whoever is held out."""
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        plan = pp.plan_run(configuration(evaluation=VOTES)).prepared.plan
        alone = pp.plan_run(configuration()).prepared.plan
        found = configuration(evaluation=VOTES)
        found["privacy"] = {"epsilon": 5.0}
        calibrated = pp.plan_run(found)
    assert [phase.name for phase in plan.phases] == ["train", "held-out"]
    due = exact(math.sqrt(2 / 2.0**2 + 1 / 1.5**2), 1e-5)
    assert plan.guarantees["model"].epsilon.upper == pytest.approx(due, rel=1e-4)
    for who in ("model", "server", "silo"):
        assert plan.guarantees[who].epsilon.upper > alone.guarantees[who].epsilon.upper
        assert isinstance(plan.phases[1].views[who], ev.Gaussian)
    assert calibrated.rounds == 2
    assert 4.99 < calibrated.prepared.plan.guarantees["model"].epsilon.upper <= 5.0
    noise = calibrated.noise_multiplier
    assert noise is not None
    assert exact(math.sqrt(2 / noise**2 + 1 / 1.5**2), 1e-5) == pytest.approx(5.0, rel=1e-3)


def test_votes_of_each_unit_are_composed_with_its_rounds(tmp_path: Path) -> None:
    """A unit's move is the sum over rounds and votes of its squared moves, whoever it is.

    ULDP-NAIVE, whose silos move by 2 C; k records of a user; a silo on both sides; a record.
    """
    due = exact(math.sqrt(2 / 2.0**2 + 1 / 1.5**2), 1e-5)
    plan = planned(tmp_path / "naive", configured("uldp-naive", {}))
    assert plan.guarantees["model"].epsilon.upper == pytest.approx(due, rel=1e-4)
    full = {"uldp": {"group_records": 2, "record_rate": 1.0}, "training": {"local_epochs": 1}}
    plan = planned(tmp_path / "group", configured("uldp-group", full))
    assert plan.phases[1].views["model"] == ev.Gaussian(3.0)  # of a record; 1.5 of the user
    # Two records of a user move each of two rounds by twice as much, and the votes by one vote.
    due = exact(math.sqrt(2 * (2 / 2.0) ** 2 + 1 / 1.5**2), 1e-5)
    assert plan.guarantees["model"].epsilon.upper == pytest.approx(due, rel=1e-4)
    # Replaced, a silo or a record moves each sum by two bounds.
    due = exact(2 * math.sqrt(2 / 2.0**2 + 1 / 1.5**2), 1e-5)
    for name, tables in (("silo", DISCO), ("record", RECORDS)):
        plan = planned(tmp_path / name, configured("disco", tables))
        assert plan.guarantees["model"].epsilon.upper == pytest.approx(due, rel=1e-4)
    # Local noise is a third of the variance in each of three messages.
    local = exact(2 * math.sqrt(3) * math.sqrt(2 / 2.0**2 + 1 / 1.5**2), 1e-5)
    assert plan.guarantees["peer"].epsilon.upper == pytest.approx(local, rel=1e-4)


@for_each("noise", [1.5, 2.0])
@for_each("relation", ["add-remove", "replace-one"])
def test_the_lower_end_is_of_who_is_trained_on(tmp_path: Path, noise: float, relation: str) -> None:
    """Nobody is on both sides, so no data show what both together may at most."""
    tables = configuration(
        evaluation={**VOTES, "held_out_noise": noise},
        privacy={"noise_multiplier": 2.0, "neighbours": relation},
        training={"clip": 1.0},  # so that rounds and votes may be alike
    )
    folder, _ = ran(tmp_path / "run", tables)
    alone, _ = ran(tmp_path / "alone", {**tables, "evaluation": {"test": "none"}})
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path / "run")
        planned = pp.plan_run(tables).prepared.plan.guarantees
        without = pp.plan_run({**tables, "evaluation": {"test": "none"}}).prepared.plan.guarantees
    found, usual = audit_budget(folder).total.epsilon, audit_budget(alone).total.epsilon
    assert found.lower == pytest.approx(usual.lower, rel=1e-9)
    assert found.lower > 0.0
    assert found.upper > 1.1 * usual.upper
    assert audit_budget(folder).ok
    for who, proven in planned.items():
        assert proven.epsilon.lower == pytest.approx(without[who].epsilon.lower, rel=1e-9)
        assert proven.epsilon.upper > 1.1 * without[who].epsilon.upper


def test_a_budget_that_votes_eat_begins_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        tables = configuration(evaluation=VOTES)
        tables["privacy"] = {"epsilon": 2.0}
        with pytest.raises(BudgetExceeded, match="'held-out' alone spends"):
            pp.run(tables, "out")
    assert not (tmp_path / "out").exists()
