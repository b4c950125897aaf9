"""A run that is killed at any moment goes on, and its log still says all that was spent."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant import records
from privplan.audit.verify import verify
from privplan.fl.frame.model import model_digest
from privplan.fl.log import read
from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint

from .conftest import Run
from .killing import at_each_write, left_by_kills
from .runs import NOISY_TRAINING

CONFIG = (
    """\
[run]
system = "uldp-avg"
rounds = 2
[data]
name = "breast-cancer"
users = 6
silos = 2
"""
    + NOISY_TRAINING
)

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="kills need fork"),
    pytest.mark.skipif(
        any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography")),
        reason="runs need the extra `fl`",
    ),
]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return what became of all runs: the folder, how often it was killed, the last exit code."""
    folder = tmp_path_factory.mktemp("killed")
    config = folder / "run.toml"
    config.write_text(CONFIG)
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killing.py")), config, folder / "runs"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def require_whole(folder: Path, rounds: int = 2) -> None:
    """Require one run: every round spent once, every model from a released one, and a close."""
    verified = verify(folder)
    assert verified.complete, verified.problem
    log_records = [line.record for line in read(folder)]
    intents = [record for record in log_records if isinstance(record, records.RoundIntent)]
    releases = [record for record in log_records if isinstance(record, records.RoundRelease)]
    assert [record.round for record in intents] == list(range(1, rounds + 1))
    known = {record.model_out for record in releases} | {intents[0].model_in}
    assert {record.model_in for record in intents} <= known
    (close,) = [record for record in log_records if isinstance(record, records.RunClose)]
    assert model_digest(Checkpoint.read(folder / MODEL_FILE).parameters) == close.model
    assert close.model in known
    assert close.rounds == len(releases)
    assert json.loads((folder / "metrics.json").read_text())["released"] == len(releases)
    streams = [record.stream for done in releases for record in done.streams]
    recoveries = sum(isinstance(record, records.RunRecover) for record in log_records)
    assert len(set(streams)) <= (recoveries + 1) * len(releases[0].streams if releases else ())


def of(killed: list[dict[str, Any]], how: str) -> list[dict[str, Any]]:
    return [attempted for attempted in killed if Path(attempted["folder"]).parent.name == how]


def require_all_whole(tried: list[dict[str, Any]]) -> None:
    assert len(tried) > 30
    assert [attempted["killed"] for attempted in tried] == [1] * (len(tried) - 1) + [0]
    for attempted in tried:
        require_whole(Path(attempted["folder"]))


def test_what_a_kill_at_any_write_leaves_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)  # a kill spares what was written
    config = tmp_path / "run.toml"
    config.write_text(CONFIG)
    tried = at_each_write(config, tmp_path / "runs")
    assert all("is closed" in attempted["refused"] for attempted in tried if attempted["refused"])
    require_all_whole(tried)


def followed(run: Run, *words: str) -> list[str]:
    """Run `privplan`; while it is refused, run the command of its next step, word for word."""
    tried: list[str] = []
    while True:
        tried.append(" ".join(words))
        outcome = run(*words)
        if outcome.code == 0:
            return tried
        assert len(tried) < 4, (tried, outcome.err)
        printed = re.search(r"next: .*?privplan ([^\n]*)", outcome.err)
        assert printed, outcome.err
        words = tuple(shlex.split(printed[1]))


UNCONFIGURED = {"log.jsonl", "sealed.jsonl"}
"""What is in a folder whose configuration was not kept yet."""


def without_a_line(left: list[Path]) -> list[Path]:
    """Return the folders whose log has no first line; of those that hold the same, one."""
    folders: dict[tuple[tuple[str, bytes], ...], Path] = {}
    for folder in left:
        paths = sorted(folder.iterdir()) if folder.exists() else []
        content = {path.name: path.read_bytes() for path in paths}
        if folder.exists() and b"\n" not in content.get("log.jsonl", b""):
            folders.setdefault(tuple(content.items()), folder)
    return list(folders.values())


def test_the_next_step_that_is_printed_takes_up_what_any_kill_left(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first line of the log: even where the configuration was not kept yet."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    config = tmp_path / "CONFIG.toml"
    config.write_text(CONFIG.replace("rounds = 2", "rounds = 1"))
    states = without_a_line(left_by_kills(config, tmp_path / "runs"))
    bare = [state for state in states if {path.name for path in state.iterdir()} == UNCONFIGURED]
    assert len(states) > 4
    assert bare
    states += without_a_line(left_by_kills(config, tmp_path / "again", before=bare[0]))
    commands = [
        ("run", "CONFIG.toml", "--out"),
        ("run", "--resume", "--out"),
        ("run", "CONFIG.toml", "--resume", "--out"),
    ]
    for number, state in enumerate(states):
        for command in commands:
            copy = tmp_path / f"{number} {'-'.join(command)}"  # a name that a shell would split
            shutil.copytree(state, copy)
            followed(run, *command, str(copy))
            require_whole(copy, rounds=1)


def test_what_is_left_is_never_cleared_where_a_log_has_a_line(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "CONFIG.toml"
    config.write_text(CONFIG)
    assert run("run", str(config), "--out", "out").code == 0
    for path in Path("out").iterdir():
        if path.name not in ("log.jsonl", "sealed.jsonl"):
            path.unlink()
    before = Path("out/log.jsonl").read_bytes()
    outcome = run("run", str(config), "--out", "out")
    assert outcome.code == 2
    assert "not an empty folder" in outcome.err
    assert Path("out/log.jsonl").read_bytes() == before
    assert followed(run, "run", "--resume", "--out", "out")[1:] == ["audit budget out"]


@pytest.mark.slow
def test_killed_at_every_write(killed: list[dict[str, Any]]) -> None:
    tried = of(killed, "write")
    # 1: it was closed when it was killed
    assert {attempted["code"] for attempted in tried} <= {0, 1}
    require_all_whole(tried)


@pytest.mark.slow
def test_killed_at_any_moment(killed: list[dict[str, Any]]) -> None:
    tried = of(killed, "moment")
    assert sum(attempted["killed"] for attempted in tried) > 20
    for attempted in tried:
        require_whole(Path(attempted["folder"]))
