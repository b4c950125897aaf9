"""Runs that are stopped anywhere go on from what their log says; from anything else they do not."""

from __future__ import annotations

import errno
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.audit.verify import verify
from privplan.fl.files import atomic
from privplan.fl.frame.model import model_digest
from privplan.fl.log import LogWriter
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, Checkpoint
from privplan.fl.running.preparation import prepare, randomness
from privplan.fl.running.session import execute
from privplan.fl.settings import schema

from ..cases import for_each
from ..usual_signals import usual_signals
from .extras import needs
from .small_runs import (
    SMALL,
    Failing,
    Stop,
    changed,
    interrupted,
    kinds,
    of,
    require_whole,
    resumed,
    started,
)

pytestmark = needs("torch", "sklearn", "cryptography")


APPENDS = 11
"""How many records a run of three rounds has."""


@for_each("written", [False, True])
@for_each("at", range(2, APPENDS + 1))
def test_a_log_that_fails_stops_the_run_and_it_goes_on(
    at: int, written: bool, tmp_path: Path
) -> None:
    interrupted(SMALL, tmp_path, after=at, written=written)
    told = {one.model_out for one in of(tmp_path, records.RoundRelease)}
    for name in (CHECKPOINT_FILE, MODEL_FILE):
        if (tmp_path / name).exists():
            kept = Checkpoint.read(tmp_path / name)
            assert model_digest(kept.parameters) in told
    if at == APPENDS and written:
        assert verify(tmp_path).complete
        return
    spent = len(of(tmp_path, records.RoundIntent))
    resumed(SMALL, tmp_path)
    require_whole(tmp_path)
    (recovery,) = of(tmp_path, records.RunRecover)
    assert recovery.next_round == spent + 1


def test_a_run_goes_on_after_many_stops(tmp_path: Path) -> None:
    own = changed(run={"rounds": 8})
    interrupted(own, tmp_path, after=3)
    for at in (1, 2, 3, 4):
        prepared = prepare(own, segment=verify(tmp_path).recoveries + 1)
        writer, progress = LogWriter.resume(tmp_path, randomness=randomness(own))
        failing = Failing(writer, at, written=at % 2 == 0, error=Stop())
        with writer, pytest.raises(Stop):
            execute(prepared, tmp_path, failing, progress=progress)
    resumed(own, tmp_path)
    require_whole(tmp_path, 8)
    assert len(of(tmp_path, records.RunRecover)) == 5


@usual_signals()
def test_an_interruption_is_an_abort_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = prepare(SMALL)

    def training(*_: object) -> NoReturn:
        os.kill(os.getpid(), signal.SIGINT)
        raise AssertionError("the interruption was not seen")

    monkeypatch.setattr(prepared.system, "updates", training)
    with LogWriter.create(tmp_path) as writer, pytest.raises(KeyboardInterrupt):
        execute(prepared, tmp_path, writer)
    assert kinds(tmp_path) == ["run.open", "round.intent", "round.abort"]
    assert of(tmp_path, records.RoundAbort)[0].reason == "interrupted"
    resumed(SMALL, tmp_path)
    require_whole(tmp_path)
    assert of(tmp_path, records.RunClose)[0].rounds == 2


def files_written(settings: schema.Settings, folder: Path) -> int:
    """Return how many files a run puts in their place."""
    count = 0

    def counted(path: Path, content: bytes) -> None:
        nonlocal count
        count += 1
        write(path, content)

    write = atomic.write
    atomic.write = counted  # type: ignore[assignment]
    try:
        started(settings, folder)
    finally:
        atomic.write = write  # type: ignore[assignment]
    return count


def test_a_full_disk_at_each_file_stops_the_run_and_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = atomic.write
    total = files_written(SMALL, tmp_path / "whole")
    assert total == 5
    for at in range(1, total + 1):
        count = 0

        def full(path: Path, content: bytes, at: int = at) -> None:
            nonlocal count
            count += 1
            if count == at:
                path.with_name(f".{path.name}.part").write_bytes(content[: len(content) // 2])
                raise OSError(errno.ENOSPC, "No space left on device")
            write(path, content)

        folder = tmp_path / str(at)
        prepared = prepare(SMALL)
        monkeypatch.setattr(atomic, "write", full)
        with LogWriter.create(folder) as writer, pytest.raises(OSError, match="No space"):
            execute(prepared, folder, writer)
        monkeypatch.undo()
        assert not (folder / "metrics.json").exists()
        resumed(SMALL, folder)
        require_whole(folder)


def test_a_closed_run_is_not_resumed(tmp_path: Path) -> None:
    started(SMALL, tmp_path)
    with pytest.raises(InvalidInput, match="closed"):
        resumed(SMALL, tmp_path)


@for_each(
    ("old", "new", "match"),
    [('"round":1', '"round":2', "Line 2"), ("privplan-log/1", "privplan-log/2", ".")],
)
def test_an_edited_log_or_one_of_another_schema_is_not_resumed(
    old: str, new: str, match: str, tmp_path: Path
) -> None:
    interrupted(SMALL, tmp_path, after=6)
    log = tmp_path / "log.jsonl"
    assert old in log.read_text()
    log.write_text(log.read_text().replace(old, new, 1))
    with pytest.raises(InvalidInput, match=match):
        resumed(SMALL, tmp_path)


@for_each(
    "tables",
    [
        *({"run": {"rounds": 4}}, {"run": {"seed": 3}}, {"data": {"seed": 1}}),
        *({"privacy": {"noise_multiplier": 4.0}}, {"training": {"clip": 0.2}}),
    ],
)
def test_other_settings_are_refused(tables: dict[str, Any], tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=4)
    (table,) = tables
    (key,) = tables[table]
    with pytest.raises(InvalidInput, match=rf"\[{table}\] {key}"):
        resumed(changed(**tables), tmp_path)


def test_another_plan_is_refused(tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=4)
    other = prepare(changed(privacy={"noise_multiplier": 4.0}))
    mixed = replace(other, settings=SMALL, segment=1)
    writer, progress = LogWriter.resume(tmp_path, randomness=randomness(SMALL))
    with writer, pytest.raises(InvalidInput, match="another promise and another plan"):
        execute(mixed, tmp_path, writer, progress=progress)


@for_each("segment", [0, 2])
def test_the_segment_is_that_of_the_log(segment: int, tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=4)
    writer, progress = LogWriter.resume(tmp_path, randomness=randomness(SMALL))
    with writer, pytest.raises(InvalidInput, match="segment"):
        execute(prepare(SMALL, segment=segment), tmp_path, writer, progress=progress)


def test_another_model_is_refused(tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=7)
    path = tmp_path / CHECKPOINT_FILE
    kept = Checkpoint.read(path)
    for wrong in (
        replace(kept, parameters=kept.parameters + 1e-9),
        replace(kept, run_id="0" * 32),
    ):
        wrong.write(path)
        with pytest.raises(InvalidInput, match="model in checkpoint"):
            resumed(SMALL, tmp_path)
    path.write_bytes(b"")
    with pytest.raises(InvalidInput, match="no model of a run"):
        resumed(SMALL, tmp_path)
    path.unlink()
    with pytest.raises(InvalidInput, match="missing"):
        resumed(SMALL, tmp_path)
    kept.write(path)
    resumed(SMALL, tmp_path)
    require_whole(tmp_path)


def test_a_model_where_nothing_was_released_is_refused(tmp_path: Path) -> None:
    interrupted(SMALL, tmp_path, after=2)
    (opened,) = of(tmp_path, records.RunOpen)
    Checkpoint(opened.run_id, 1, "logistic", np.zeros(31)).write(tmp_path / CHECKPOINT_FILE)
    with pytest.raises(InvalidInput, match="the log has none"):
        resumed(SMALL, tmp_path)
