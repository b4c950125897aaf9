"""`privplan audit scores`: attacks on a file of scores, and what a false claim exits with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from ..audit.test_score_audit import simulated
from .conftest import Run


def test_the_command_prints_attacks_and_exits_with_1_for_a_false_claim(
    run: Run, tmp_path: Path
) -> None:
    phi, inside = simulated()
    path = str(tmp_path / "s.npz")
    np.savez(path, phi=phi, membership=inside, target=0)
    told = run("audit", "scores", path, "--guesses", "40", "--json")
    result = json.loads(told.out)["result"]
    assert (told.code, result["conclusion"], result["coins"]) == (0, "groups differ", "none")
    assert result["attacks"][0]["epsilon"] is None
    sure = ("--coins", "independent", "--guesses", "40")
    false = run("audit", "scores", path, *sure, "--claimed", "0.1")
    assert false.code == 1
    assert "CONTRADICTED" in false.out
    assert run("audit", "scores", path, *sure, "--claimed", "8").code == 0
    assert float(run("audit", "scores", path, *sure, "--quiet").out) > 1.0
    assert run("audit", "scores", str(tmp_path / "s.txt")).code == 2
