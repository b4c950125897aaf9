"""`delm-linear`: coefficients are released once, and all that is fitted to them is free."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import PostProcessing
from privplan.audit.budget import audit_budget
from privplan.fl.delm.measure import minimised
from privplan.fl.delm.settings import DelmSettings
from privplan.fl.log import read
from privplan.fl.running.run_and_resume import run
from privplan.fl.statistics.finished_run import fit_recorder, statistics_of_run
from privplan.fl.statistics.ridge import logistic_weights, ridge_weights

from ..cases import for_each


def configuration(system: str = "delm-linear", **tables: Any) -> dict[str, Any]:
    """Return a small run, with the table of its system."""
    table = "delm" if system == "delm-linear" else system
    base: dict[str, Any] = {
        "run": {"system": system},
        "data": {"name": "breast-cancer", "users": 40, "silos": 3},
        "privacy": {"unit": "record", "epsilon": 2.0, "delta": 1e-4},
        "security": {"aggregation": "masked"},
        table: {"row_norm": 6.0},
    }
    return {name: {**base.get(name, {}), **tables.get(name, {})} for name in base | tables}


def test_it_releases_what_private_statistics_release(tmp_path: Path) -> None:
    """Bit for bit, under one seed: the system adds a phase of its own, and no noise."""
    released = []
    for system in ("statistics", "delm-linear"):
        outcome = run(configuration(system, run={"seed": 3}), tmp_path / system)
        released.append(outcome.parameters)
        assert outcome.result.rounds == 1
        assert outcome.guarantee.epsilon.upper <= 2.0
    assert np.array_equal(*released)
    intents = [line.record for line in read(tmp_path / "delm-linear")]
    assert [getattr(each, "phase", None) for each in intents if each.type == "round.intent"] == [
        "coefficients"
    ]


@for_each("noise", ["gaussian", "laplace"])
@for_each("loss", ["linear", "logistic", "softmax"])
def test_a_loss_is_read_off_the_release(loss: str, noise: str, tmp_path: Path) -> None:
    keys = {"loss": loss, "noise": noise, "row_norm": 6.0, "components": 8}
    outcome = run(configuration(delm=keys), tmp_path / "run")
    released = statistics_of_run(tmp_path / "run")
    table = DelmSettings(**keys)  # type: ignore[arg-type]
    fit = ridge_weights if loss == "linear" else logistic_weights
    assert np.array_equal(minimised(released, table), fit(released, components=8))
    assert ("loss" in outcome.metrics) == (loss != "linear")
    assert outcome.metrics["accuracy"] > 0.5
    if noise == "laplace":
        assert outcome.prepared.plan.phases[0].event.type == "laplace"
    assert audit_budget(tmp_path / "run").ok


def test_fits_with_other_settings_cost_nothing_and_the_log_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(configuration(), folder)
    before = audit_budget(folder)
    released = statistics_of_run(folder)
    record = fit_recorder(folder)
    for components in (0, 4, 12):
        weights = logistic_weights(released, components=components)
        record("softmax", {"components": components}, "ab" * 32)
        assert weights.shape == (31, 2)
    after = audit_budget(folder)
    assert after.ok
    assert after.observers == before.observers
    assert sum(isinstance(line.record, PostProcessing) for line in read(folder)) == 3


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "rounds": ({"run": {"rounds": 2}}, r"rounds = 2 in \[run\]"),
    "no row norm": ({"delm": {"row_norm": 0.0}}, "`row_norm` must be .* above 0"),
    "loss": ({"delm": {"loss": "hinge"}}, "`loss` must be one of"),
    "logistic of ten classes": (
        {"data": {"name": "digits"}, "delm": {"loss": "logistic"}},
        "digits has 10 classes",
    ),
    "rows of a user": ({"delm": {"rows_per_user": 3}}, r"`rows_per_user` in \[delm\]"),
    "silo without rows": ({"privacy": {"unit": "silo"}}, r"lacks `silo_rows` in \[delm\]"),
    "zero-out": (
        {"privacy": {"neighbours": "zero-out"}},
        'add-remove or replace-one; it is "zero-out"',
    ),
    "survival": ({"data": {"name": "tcga-brca", "path": "x"}}, "times of survival"),
    "fit": ({"delm": {"fit": "ridge"}}, "unknown key `fit`"),
}


@for_each("name", REFUSED)
def test_what_is_refused_writes_nothing(name: str, tmp_path: Path) -> None:
    tables, what = REFUSED[name]
    with pytest.raises(InvalidInput, match=what):
        run(configuration(**tables), tmp_path / "run")
    assert not (tmp_path / "run").exists()
