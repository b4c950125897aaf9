"""`privplan run` of a table whose users are held out: what is printed, and what a kill leaves."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from privplan.accountant import records
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.verify import verify
from privplan.fl.log import read
from privplan.fl.running.configuration import Configuration

from ..cases import for_each
from ..fl.extras import needs
from ..fl.tables.hospitals import configuration, write
from .conftest import Run
from .killing import at_each_write

pytestmark = needs("torch", "pyarrow", "cryptography")

VOTES = {"test": "held-out", "held_out": 0.4, "held_out_noise": 0.5}


def written(folder: Path, rounds: int = 2, system: str = "uldp-avg") -> Path:
    """Write three hospitals' files and the configuration of a run on them."""
    write(folder)
    config = folder / "run.toml"
    own = {"flame": {"transport": "ideal"}} if system.startswith("flame") else {}
    said = configuration(system, evaluation=VOTES, run={"rounds": rounds}, **own)
    content = Configuration.of(said).content
    config.write_bytes(content)
    return config


def test_a_run_prints_what_was_voted_with_its_noise(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path)
    planned = run("run", "run.toml", "--dry-run")
    assert planned.code == 0, planned.err
    assert "holds out" in planned.out
    assert "noise multiplier 0.5; each epsilon pays for it" in " ".join(planned.out.split())
    expected = json.loads(run("run", "run.toml", "--dry-run", "--json").out)["result"]
    assert expected["held_out"] == {"held_out": 0.4, "noise_multiplier": 0.5}
    assert expected["rounds"] == 2
    made = run("run", "run.toml", "--out", "out", "--json")
    assert made.code == 0, made.err
    result = json.loads(made.out)["result"]
    assert result["epsilon"]["upper"] == pytest.approx(
        next(row for row in expected["observers"] if row["observer"] == "model")["epsilon"]["upper"]
    )
    assert result["held_out"]["deviation"] == pytest.approx(0.5)
    assert result["held_out"]["share"] == pytest.approx(result["held_out"]["right"] / 12.0)
    shown = run("run", "run.toml", "--out", "again")
    assert re.search(r"held out +accuracy .*public votes", " ".join(shown.out.split()))
    assert "\ntest " not in shown.out


@for_each("system, rounds", [("uldp-avg", 1), ("flame-simple", 2)], items=2)
def test_killed_at_every_write_nobody_votes_twice_and_every_run_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, rounds: int
) -> None:
    """Of messages a round that is lost is known by another one, so there are two."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a kill spares what was written
    monkeypatch.chdir(tmp_path)
    config = written(tmp_path, rounds=rounds, system=system)
    killed = at_each_write(config, tmp_path / "runs")
    assert len(killed) > 25
    lost = kept = 0
    for attempted in killed:
        folder = Path(attempted["folder"])
        closed = "is closed" in attempted["refused"]  # killed behind its last line
        assert not attempted["refused"] or closed, attempted["refused"]
        assert verify(folder).complete
        lines = [line.record for line in read(folder)]
        begun = {
            line: record
            for line, record in enumerate(lines)
            if isinstance(record, records.RoundIntent) and record.phase == "held-out"
        }
        released = [
            record
            for record in lines
            if isinstance(record, records.RoundRelease) and record.intent in begun
        ]
        said = [record for record in lines if isinstance(record, records.Evaluation)]
        assert len(begun) == 1
        assert len(released) <= 1
        assert len({json.dumps(dict(one.metrics)) for one in said}) == len(released)
        assert audit_budget(folder).ok
        assert not edits_of(folder)
        if not closed:
            metrics = json.loads((folder / "metrics.json").read_text())
            assert ("held_out" in metrics) == bool(released)
        lost, kept = lost + (not released), kept + bool(released)
    # Between the intent and the release of the votes: their file, and the start of the line.
    assert 1 <= lost <= 8
    assert kept > 15
