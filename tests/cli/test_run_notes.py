"""What a run says beside its guarantees: in the plan, in what is left, and in JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from privplan.fl.flame.index_privacy import posterior_ratios

from ..cases import for_each
from .conftest import Run

CONFIG = """
[run]
system = "flame-topk"
rounds = {rounds}
[data]
name = "breast-cancer"
users = 12
[privacy]
noise_multiplier = 4.0
[training]
local_epochs = 1
[flame]
chosen = 2
transport = "ideal"
decoys = {decoys}
"""


def written(rounds: int, decoys: int) -> str:
    Path("run.toml").write_text(CONFIG.format(rounds=rounds, decoys=decoys))
    return "run.toml"


@pytest.mark.usefixtures("fl")
@for_each("rounds", [1, 7])
def test_plan_and_run_say_what_decoys_are_worth(rounds: int, run: Run) -> None:
    config = written(rounds, 6)
    expected = {
        "name": "index privacy",
        "sent": 8,
        "sets": 4.0,
        "prior": pytest.approx(2 / 31),
        "posterior_over_prior": posterior_ratios(31, 2, 6, rounds),
    }
    for arguments in (("--dry-run",), ("--out", "out")):
        (note,) = run("run", config, *arguments, "--json").json["result"]["notes"]
        assert "no differential privacy" in note.pop("says")
        assert note == expected
    for arguments in (("--dry-run",), ("--out", "out2")):
        said = " ".join(run("run", config, *arguments).out.split())
        assert "index privacy 8 of 31 coordinates are sent, 2 of them the largest" in said
        assert f"after {rounds} round" in said
        assert "it is no differential privacy" in said


@pytest.mark.usefixtures("fl")
def test_a_run_with_nothing_to_say_says_nothing(run: Run) -> None:
    config = written(1, 0)
    assert run("run", config, "--dry-run", "--json").json["result"]["notes"] == []
    assert "index privacy" not in run("run", config, "--dry-run").out
