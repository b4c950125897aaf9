"""A run that stops anywhere releases its private moments once, and goes on from no others."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Gate, Gaussian
from privplan.audit.budget import audit_budget
from privplan.audit.verify import verify
from privplan.fl.datasets import load
from privplan.fl.files import atomic
from privplan.fl.frame.private_normalisation import MomentsRelease
from privplan.fl.log import LogWriter
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, Checkpoint

from ..cases import for_each
from ..usual_signals import usual_signals
from .extras import needs
from .normalised_runs import (
    LOST,
    SMALL,
    of,
    require_whole,
    resumed,
    started,
)
from .small_runs import Failing, Stop

pytestmark = needs("torch", "sklearn", "cryptography")


def failing(at: int, *, written: bool) -> Callable[[LogWriter], Failing]:
    """Return what makes the log fail at the record with number `at`."""
    return lambda writer: Failing(writer, at, written=written, error=Stop())


APPENDS = 10
"""How many records a run of two rounds has: open, 2 for the moments, 3 for each round, close."""


def require_goes_on_or_is_lost(folder: Path) -> None:
    """Require that a run that was cut off comes to its end, or lost its moments and says so."""
    intents = of(folder, records.RoundIntent)
    releases = of(folder, records.RoundRelease)
    if intents and not any(one.round == 0 for one in releases):
        before = (folder / "log.jsonl").read_bytes()
        with pytest.raises(InvalidInput, match=LOST) as caught:
            resumed(SMALL, folder)
        assert "another folder" in caught.value.next_step
        assert (folder / "log.jsonl").read_bytes() == before
        assert len(intents) == 1  # nothing was trained without them
        assert audit_budget(folder).spent == 1
        return
    resumed(SMALL, folder)
    require_whole(folder)
    audit = audit_budget(folder)
    assert audit.ok
    assert audit.spent == 3


@pytest.mark.quick(6)
@for_each("written", [False, True])
@for_each("at", range(2, APPENDS + 1))
def test_a_run_that_is_cut_at_any_record_never_releases_moments_twice(
    at: int, written: bool, tmp_path: Path
) -> None:
    with pytest.raises(Stop):
        started(SMALL, tmp_path, failing(at, written=written))
    if at == APPENDS and written:
        assert verify(tmp_path).complete
        return
    require_goes_on_or_is_lost(tmp_path)


def test_a_full_disk_at_each_file_never_releases_moments_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, outcomes = atomic.write, []
    for at in range(1, 6):
        count = 0

        def full(path: Path, content: bytes, at: int = at) -> None:
            nonlocal count
            count += 1
            if count == at:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(path, content)

        folder = tmp_path / str(at)
        monkeypatch.setattr(atomic, "write", full)
        with pytest.raises(OSError, match="No space"):
            started(SMALL, folder)
        monkeypatch.undo()
        require_goes_on_or_is_lost(folder)
        outcomes.append(verify(folder).complete)
    assert outcomes == [False, True, True, True, True]  # the first file holds the moments


HONEST = MomentsRelease.release


def keeps_nothing(own: MomentsRelease, gate: Gate, _: Any) -> Any:
    return HONEST(own, gate, lambda _: None)


def keeps_late(own: MomentsRelease, gate: Gate, keep: Any) -> Any:
    made = HONEST(own, gate, lambda _: None)
    keep(made)
    return made


def keeps_others(own: MomentsRelease, gate: Gate, keep: Any) -> Any:
    return HONEST(own, gate, lambda one: keep(replace(one, released=one.released + 1.0)))


def keeps_what_it_never_released(own: MomentsRelease, gate: Gate, keep: Any) -> Any:  # noqa: ARG001
    """Without noise, and without a line in the log."""
    made = own.moments(own.mechanism.units(np.sum(own.totals(), axis=0)))
    keep(made)
    return made


@for_each(
    ("release", "what"),
    [
        (keeps_nothing, "kept nothing"),
        (keeps_late, "after their release"),
        (keeps_others, "not those of one release"),
        (keeps_what_it_never_released, "not those of one release"),
    ],
)
def test_what_a_phase_keeps_is_what_it_released_once(
    release: Any, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a system of another package, too: a run would go on from what is in no log."""
    monkeypatch.setattr(MomentsRelease, "release", release)
    with pytest.raises(InvalidInput, match=rf"uldp-avg \(package privplan\).* {what}"):
        started(SMALL, tmp_path)
    assert not (tmp_path / MODEL_FILE).exists()
    monkeypatch.undo()
    with pytest.raises(InvalidInput):
        resumed(SMALL, tmp_path)


@usual_signals()
def test_an_interruption_waits_until_the_moments_are_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share = Gaussian.share_steps

    def interrupted(*given: Any, **named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return share(*given, **named)

    monkeypatch.setattr(Gaussian, "share_steps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        started(SMALL, tmp_path)
    monkeypatch.undo()
    assert [one.round for one in of(tmp_path, records.RoundRelease)] == [0]
    assert not of(tmp_path, records.RoundAbort)
    resumed(SMALL, tmp_path)
    require_whole(tmp_path)


def test_a_run_goes_on_from_the_moments_that_it_released_and_no_others(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        started(SMALL, tmp_path, failing(4, written=False))
    place = tmp_path / CHECKPOINT_FILE
    kept = Checkpoint.read(place)
    assert kept.moments is not None
    moved = kept.moments.released.copy()
    moved[3] = np.nextafter(moved[3], np.inf)
    for wrong, what in (
        (replace(kept, state=replace(kept.moments, released=moved).to_arrays()), "are not those"),
        (replace(kept, state={}), "are missing"),
    ):
        wrong.write(place)
        with pytest.raises(InvalidInput, match=what):
            resumed(SMALL, tmp_path)
    place.unlink()
    with pytest.raises(InvalidInput, match="are missing"):
        resumed(SMALL, tmp_path)
    altered = replace(kept.moments, scale=kept.moments.scale * 2.0)  # follows from the release
    replace(kept, state=altered.to_arrays()).write(place)
    resumed(SMALL, tmp_path)
    require_whole(tmp_path)


def test_moments_that_no_release_stands_for_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        started(SMALL, tmp_path / "other", failing(4, written=False))
    with pytest.raises(Stop):
        started(SMALL, tmp_path / "own", failing(2, written=False))
    (opened,) = of(tmp_path / "own", records.RunOpen)
    kept = Checkpoint.read(tmp_path / "other" / CHECKPOINT_FILE)
    replace(kept, run_id=opened.run_id).write(tmp_path / "own" / CHECKPOINT_FILE)
    with pytest.raises(InvalidInput, match="the log never released"):
        resumed(SMALL, tmp_path / "own")


def test_files_that_hold_no_moments_are_no_models(tmp_path: Path) -> None:
    started(SMALL, tmp_path)
    with np.load(tmp_path / MODEL_FILE) as arrays:
        content = dict(arrays)
    del content["normalisation_mean"]
    with (tmp_path / "broken.npz").open("wb") as file:
        np.savez(file, **content)
    with pytest.raises(InvalidInput, match="no model of a run"):
        Checkpoint.read(tmp_path / "broken.npz")


def test_loading_alone_normalises_by_no_private_moments() -> None:
    with pytest.raises(InvalidInput, match="accounted mechanism"):
        load("breast-cancer", normalisation="private")
