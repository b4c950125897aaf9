"""`privplan run --dry-run`, and `privplan plan` of a run's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Refused, Run
from .runs import written

CONFIG = """[run]
system = "uldp-avg"
rounds = 3
[data]
name = "breast-cancer"
users = 40
silos = 4
[privacy]
epsilon = 8.0
[training]
weighting = "records"
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "ward.toml"
    path.write_text(CONFIG)
    return str(path)


def test_every_observer_has_a_row_and_nothing_is_written(
    run: Run, config: str, tmp_path: Path
) -> None:
    outcome = run("run", config, "--dry-run")
    assert outcome.code == 0
    for word in ("model", "server", "silo", "lowered most by", 'aggregation = "masked"'):
        assert word in outcome.out
    assert [path.name for path in tmp_path.iterdir()] == ["ward.toml"]


def test_a_folder_may_be_named_and_is_not_made(run: Run, config: str, tmp_path: Path) -> None:
    assert run("run", config, "--out", "ward", "--dry-run").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["ward.toml"]


def test_the_json_is_the_same_by_both_commands(run: Run, config: str) -> None:
    result = run("run", config, "--dry-run", "--json").json["result"]
    assert result == run("plan", config, "--json").json["result"]
    assert {"observers", "noise_multiplier", "rounds"} <= set(result)
    for row in result["observers"]:
        assert {"observer", "epsilon", "rests_on", "lowered_by"} <= set(row)
        assert isinstance(row["rests_on"], list)


def test_quiet_prints_the_epsilon_of_the_claim(run: Run, config: str) -> None:
    assert float(run("run", config, "--dry-run", "-q").out) <= 8.0


def test_the_run_proves_what_was_forecast(run: Run, config: str) -> None:
    ahead = run("run", config, "--dry-run", "--json").json["result"]["observers"]
    after = run("run", config, "--out", "ward", "--json").json["result"]["observers"]
    assert {row["observer"]: row["epsilon"] for row in ahead} == {
        row["observer"]: row["epsilon"] for row in after
    }


def test_flags_that_contradict_the_configuration_are_refused(refused: Refused, config: str) -> None:
    assert "--epsilon" in refused("plan", config, "--epsilon", "3")
    assert "--resume" in refused("run", "--resume", "--dry-run", "--out", "ward")


FRAMES = '["1-2", "1-2", "1-2", "2-3", "2-3", "3-3"]'
"""Three, five and three of six peers in three rounds; nobody is in more than two of them."""


@pytest.mark.usefixtures("fl")
def test_time_frames_are_told_before_a_run_and_after_it(run: Run) -> None:
    path = written(system="disco", silos=6, more=f"[disco]\ntime_frames = {FRAMES}")
    said = "2 of 3 rounds, the most of one silo; who takes part when is public"
    for words in (("--dry-run",), ("--out", "out")):
        outcome = run("run", path, *words)
        assert outcome.code == 0, outcome.err
        (line,) = (line for line in outcome.out.splitlines() if line.startswith("counts"))
        assert line.split(maxsplit=1) == ["counts", said]
    for words in (("--dry-run",), ("--out", "other")):
        result = run("run", path, *words, "--json").json["result"]
        assert (result["counted"], result["rounds"]) == (2, 3)


def test_without_a_schedule_every_round_counts_and_nothing_is_said(run: Run, config: str) -> None:
    assert run("run", config, "--dry-run", "--json").json["result"]["counted"] is None
    assert "counts" not in run("run", config, "--dry-run").out
