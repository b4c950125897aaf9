"""Whole runs with the real log: what they leave, and that nothing that stops them can hurt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import BudgetExceeded
from privplan.fl.frame.model import model_digest
from privplan.fl.log import Sidecar
from privplan.fl.running.preparation import prepare

from ..cases import for_each
from .extras import needs
from .small_runs import SMALL, changed, interrupted, kinds, of, require_whole, resumed, started

pytestmark = needs("torch", "sklearn", "cryptography")


def test_a_run_leaves_what_it_says(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    result = started(SMALL, tmp_path, report=lambda one, of: told.append((one.round, of)))
    require_whole(tmp_path)
    one = ["round.intent", "round.release", "evaluation"]
    assert kinds(tmp_path) == ["run.open", *one, *one, *one, "run.close"]
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert {path.name for path in tmp_path.iterdir()} == {
        "log.jsonl",
        "sealed.jsonl",
        "model.npz",
        "metrics.json",
    }
    (opened,) = of(tmp_path, records.RunOpen)
    (close,) = of(tmp_path, records.RunClose)
    assert opened.system == "uldp-avg"
    assert opened.randomness.source == "operating-system"
    assert opened.configuration == SMALL.to_json()
    assert opened.population == records.Population(6, 2)
    assert not opened.as_published
    assert opened.tuning == records.Tuning(1, public_only=True)
    assert opened.code["privplan"]
    assert opened.opened.endswith("+00:00")
    assert close.reason == "finished"
    assert close.events == opened.plan.events
    assert close.epsilon == {who: one.epsilon.upper for who, one in result.guarantees.items()}
    assert close.epsilon["model"] <= opened.claim.epsilon
    assert close.model == result.model == model_digest(result.parameters)
    assert result.rounds == result.planned == 3


def test_metrics_say_that_readings_are_no_guarantee_and_the_data_set_is_sealed(
    tmp_path: Path,
) -> None:
    result = started(SMALL, tmp_path)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert "no guarantee" in metrics["note"]
    assert [one["round"] for one in metrics["rounds"]] == [1, 2, 3]
    readings = [one["epsilon_so_far"]["model"] for one in metrics["rounds"]]
    assert readings == sorted(set(readings))
    assert readings[-1] <= metrics["guarantees"]["model"]["epsilon"]
    assert metrics["guarantees"]["model"]["epsilon"] == result.guarantees["model"].epsilon.upper
    said = [one.metrics for one in of(tmp_path, records.Evaluation)]
    assert [{name: float(value) for name, value in one.items()} for one in said] == [
        one["metrics"] for one in metrics["rounds"]
    ]
    (opened,) = of(tmp_path, records.RunOpen)
    item = Sidecar.read(tmp_path).opening(opened.dataset)
    assert item is not None
    assert set(item.value) == {"records", "allocation"}  # type: ignore[call-overload]
    text = (tmp_path / "log.jsonl").read_text()
    assert item.value["records"] not in text  # type: ignore[index]
    assert '"path"' not in text


def test_measuring_less_often_measures_the_last_round_and_trials_stand_in_the_log(
    tmp_path: Path,
) -> None:
    started(changed(run={"rounds": 5, "evaluate_every": 2, "trials": 4}), tmp_path)
    assert [one.round for one in of(tmp_path, records.Evaluation)] == [2, 4, 5]
    assert of(tmp_path, records.RunOpen)[0].tuning == records.Tuning(4, public_only=False)


@for_each(
    ("system", "tables"),
    [
        *(("fedavg", {"privacy": {"unit": None, "noise_multiplier": None}}), ("uldp-naive", {})),
        ("uldp-naive", {"table": {"as_published": True}}),
        ("uldp-group", {"privacy": {"group": 4}, "table": {"group_records": 4}}),
        *(("uldp-avg", {"privacy": {"sampling_rate": 0.5}}), ("uldp-sgd", {})),
    ],
)
def test_every_system_runs_and_goes_on(system: str, tables: dict[str, Any], tmp_path: Path) -> None:
    own = changed(changed(run={"system": system}), **tables)
    result = started(own, tmp_path / "whole")
    require_whole(tmp_path / "whole")
    sound = system != "fedavg" and not own.as_published
    assert np.isinf(result.guarantees["model"].epsilon.upper) != sound
    folder = tmp_path / "cut"
    interrupted(own, folder, after=4)
    resumed(own, folder)
    require_whole(folder)
    assert all(one.epsilon.keys() == result.measured[0].epsilon.keys() for one in result.measured)


def without(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return a line without what is fresh in every run: names, times, and commitments."""
    fresh = ("run_id", "opened", "dataset", "sealed", "prev", "hash")
    return {key: value for key, value in line.items() if key not in fresh}


def lines(folder: Path) -> list[dict[str, Any]]:
    return [without(json.loads(line)) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_a_seeded_run_is_the_same_to_the_bit(tmp_path: Path) -> None:
    own = changed(run={"seed": 7})
    first, second = (started(own, tmp_path / name) for name in "ab")
    assert lines(tmp_path / "a") == lines(tmp_path / "b")
    assert first.parameters.tobytes() == second.parameters.tobytes()
    assert of(tmp_path / "a", records.RunOpen)[0].randomness.source == "seeded"
    other = started(changed(run={"seed": 8}), tmp_path / "c")
    assert other.model != first.model


def test_unseeded_runs_differ(tmp_path: Path) -> None:
    first, second = (started(SMALL, tmp_path / name) for name in "ab")
    assert first.model != second.model
    kept = [
        {key: value for key, value in line.items() if key not in ("streams", "aggregate")}
        for line in lines(tmp_path / "a")
    ]
    assert kept[1] != {}
    intents = [of(tmp_path / name, records.RoundIntent)[0] for name in "ab"]
    assert intents[0] == intents[1]  # public seeds: the first model is the same


def test_a_resumed_seeded_run_uses_no_byte_twice(tmp_path: Path) -> None:
    own = changed(run={"seed": 7})
    interrupted(own, tmp_path, after=4)
    resumed(own, tmp_path)
    require_whole(tmp_path)
    used = [one.stream for done in of(tmp_path, records.RoundRelease) for one in done.streams]
    before = of(tmp_path, records.RoundRelease)[0].streams
    after = of(tmp_path, records.RoundRelease)[-1].streams
    assert len(used) > 2
    assert {one.stream for one in before}.isdisjoint(one.stream for one in after)


def test_a_budget_cuts_the_plan_before_the_first_release(tmp_path: Path) -> None:
    own = changed(run={"rounds": 500}, privacy={"epsilon": 2.0, "noise_multiplier": 8.0})
    prepared = prepare(own)
    assert prepared.cut
    assert 1 <= prepared.rounds < 500
    assert prepared.plan.guarantees["model"].epsilon.upper <= 2.0
    small = changed(own, run={"rounds": prepared.rounds + 1, "evaluate_every": 100})
    result = started(small, tmp_path)
    assert result.reason == "budget"
    require_whole(tmp_path, prepared.rounds)


def test_a_budget_too_small_begins_nothing_and_noise_is_found_for_a_target() -> None:
    with pytest.raises(BudgetExceeded):
        prepare(changed(privacy={"epsilon": 0.01, "noise_multiplier": 5.0}))
    prepared = prepare(changed(privacy={"epsilon": 3.0, "noise_multiplier": None}))
    assert 2.99 < prepared.plan.guarantees["model"].epsilon.upper <= 3.0
