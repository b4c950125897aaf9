"""Runs that were cut off anywhere contradict nothing: no rule about edits takes them for edited."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from privplan.audit.edits import edits_of

from ..cases import for_each
from ..cli.killing import attempt, before_each_write, refusal
from .edited import needs_runs

# --- honest logs --------------------------------------------------------------------------------

CONFIG = """\
[run]
system = "{system}"
rounds = 3
{run}
[data]
name = "breast-cancer"
users = 6
silos = 3
{data}
[privacy]
{privacy}
[training]
local_rate = 0.1
local_epochs = 1
batch = 64
[security]
{security}
"""


NOISE = "noise_multiplier = 5.0"


HONEST: dict[str, dict[str, str]] = {
    "plain": {},
    "masked": {"security": 'aggregation = "masked"'},
    "seeded": {"run": "seed = 3"},
    "seldom measured": {"run": "evaluate_every = 2"},
    "moments": {
        "data": 'normalisation = "private"',
        "privacy": f"{NOISE}\nnormalisation_noise = 5.0",
    },
    "without noise": {"system": "fedavg", "privacy": ""},
}


def config_of(name: str, folder: Path) -> Path:
    """Return the file of a configuration."""
    parts = {"system": "uldp-avg", "run": "", "data": "", "privacy": NOISE, "security": ""}
    path = folder / "run.toml"
    path.write_text(CONFIG.format(**(parts | HONEST[name])))
    return path


def cut_off(config: Path, start: Path | None, into: Path) -> Iterator[Path]:
    """Yield what a kill just before each write of a run leaves, and what the run leaves."""
    from privplan.accountant.errors import InvalidInput

    left: list[Path] = []
    whole = into / "whole"
    into.mkdir()
    if start is not None:
        shutil.copytree(start, whole)

    def copied() -> None:
        left.append(into / str(len(left) + 1))
        if whole.exists():
            shutil.copytree(whole, left[-1])

    end = before_each_write(copied)
    try:
        attempt(config, whole)
    except InvalidInput:
        pass  # closed, or its moments are lost
    finally:
        end()
    yield from (one for one in (*left, whole) if (one / "log.jsonl").exists())


def require_silent(folder: Path) -> None:
    assert edits_of(folder) == (), folder


@needs_runs
@for_each("name", list(HONEST))
def test_a_run_that_is_cut_off_anywhere_contradicts_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a kill spares what was written
    config = config_of(name, tmp_path)
    left = list(cut_off(config, None, tmp_path / "once"))
    assert len(left) > 30
    for place, folder in enumerate(left):
        require_silent(folder)
        if (folder / "config.toml").exists() and place % 5 == 2:  # and goes on
            attempt_again(config, folder)
            require_silent(folder)


def attempt_again(config: Path, folder: Path) -> None:
    """Go on with a run, unless that is refused: it is closed, or its moments are lost."""
    said = refusal(config, folder)
    assert not said or "is closed" in said or "moments" in said


@needs_runs
@for_each("name", ["plain", "moments"])
def test_a_release_may_be_lost_twice(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off between a release and its keeping, and there again in the next start."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    config = config_of(name, tmp_path)
    twice = 0
    once = [folder for folder in cut_off(config, None, tmp_path / "once") if lost(folder)]
    for place, folder in enumerate(once[:2]):
        for again in cut_off(config, folder, tmp_path / f"twice-{place}"):
            require_silent(again)
            if lost(again) and "run.recover" in (again / "log.jsonl").read_text():
                attempt_again(config, again)
                require_silent(again)
                twice += 1
    assert twice > 1


def lost(folder: Path) -> bool:
    """Return whether the last line is a release of a model that the folder does not keep."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    last = lines[-1] if lines else {}
    if last.get("type") != "round.release" or last["model_out"] is None:
        return False
    from privplan.fl.frame.model import model_digest
    from privplan.fl.running.checkpoint import CHECKPOINT_FILE, Checkpoint

    kept = folder / CHECKPOINT_FILE
    if not kept.exists():
        return True
    return model_digest(Checkpoint.read(kept).parameters) != last["model_out"]
