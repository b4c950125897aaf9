"""What a system assumes of what reaches whom stands beside the number wherever it is shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.records import Reach, Security
from privplan.fl.observers.stated_assumptions import reach_assumptions, unenforced_assumption

from ..packages.toys import installed
from .conftest import Run

CONFIG = """
[run]
system = "toy-mean"
rounds = 2

[data]
name = "breast-cancer"
users = 20
silos = 4

[privacy]
noise_multiplier = 5.0
"""
SAID = "assumed: the tide is out"


def test_an_assumption_stands_beside_the_number_in_every_output(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    path, out = tmp_path / "run.toml", str(tmp_path / "out")
    path.write_text(CONFIG)
    with installed("toy_mean", tmp_path / "site"):
        from toy_mean.system import ToyMean  # type: ignore[import-not-found]

        honest = ToyMean.reaches

        def reaches(self: Any) -> dict[str, Reach]:
            said = dict(honest(self))
            return {**said, "server": replace(said["server"], rests_on=("the tide is out",))}

        monkeypatch.setattr(ToyMean, "reaches", reaches)
        shown = [
            run("run", str(path), "--dry-run").out,
            run("run", str(path), "--out", out).out,
            run("audit", "budget", out).out,
        ]
        for text in shown:
            assert " ".join(text.split()).count(SAID) == 1, text
        told = [
            run("run", str(path), "--dry-run", "--json").json,
            run("run", str(path), "--out", f"{out}-2", "--json").json,
            run("audit", "budget", out, "--json").json,
        ]
        for outcome in told:
            rows = {row["observer"]: row["rests_on"] for row in outcome["result"]["observers"]}
            assert SAID in rows["server"], rows
            assert SAID not in rows["model"], rows


def test_a_run_supposes_what_an_audit_does() -> None:
    mixed, blind = Reach("shuffled", users=9), Reach("nothing", also=("times",))
    facts = Security("shuffler", 9, 9)
    reaches = {"analyzer": replace(mixed, rests_on=("a", "")), "shuffler": blind}
    trusted = unenforced_assumption(mixed, "analyzer", "shuffle", None)
    assert "trusted to mix" in trusted
    assert reach_assumptions(reaches, "model", "shuffle", None) == (trusted, "assumed: a")
    assert reach_assumptions(reaches, "model", "shuffle", facts) == ("assumed: a",)
    seen = reach_assumptions(reaches, "shuffler", "shuffle", facts)
    assert seen == ("assumed: when messages are sent depends on no data", "assumed: a")
    assert reach_assumptions(reaches, "server", "shuffle", None) == ()
    assert reach_assumptions(None, "model", "plain", None) == ()
