"""Files that are whole or absent, models that are kept, and interruptions that wait."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import Evaluation
from privplan.fl.files import atomic
from privplan.fl.running import checkpoint
from privplan.fl.running.checkpoint import Checkpoint, RoundMeasurement
from privplan.fl.running.interruption import (
    UninterruptedRecorder,
    interruptions_delayed,
    sigterm_as_interrupt,
)

from ..cases import for_each
from ..usual_signals import usual_signals

KEPT = Checkpoint(
    "ab" * 16,
    3,
    "logistic",
    np.array([0.5, -0.0, 1e-300]),
    (RoundMeasurement(2, {"accuracy": 0.5, "loss": float("nan")}, {"model": float("inf")}),),
)


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    KEPT.write(path)
    found = Checkpoint.read(path)
    assert (found.run_id, found.round, found.model) == (KEPT.run_id, 3, "logistic")
    assert found.parameters.tobytes() == KEPT.parameters.tobytes()
    assert found.measured[0].epsilon == {"model": float("inf")}
    assert np.isnan(found.measured[0].metrics["loss"])
    assert [one.name for one in tmp_path.iterdir()] == ["model.npz"]


def test_anybody_can_read_the_model(tmp_path: Path) -> None:
    KEPT.write(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as arrays:
        assert arrays["parameters"].tolist() == [0.5, 0.0, 1e-300]


def test_equal_checkpoints_are_equal_files(tmp_path: Path) -> None:
    KEPT.write(tmp_path / "a")
    KEPT.write(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def npz(path: Path, **arrays: object) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def about(**changes: object) -> np.ndarray:
    found = {
        "format": checkpoint.CHECKPOINT_FORMAT,
        "run_id": "a",
        "round": 1,
        "model": "m",
        "measured": [],
    }
    return np.frombuffer(json.dumps({**found, **changes}).encode(), np.uint8)


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    KEPT.write(path)
    whole = path.read_bytes()
    for content in (
        b"",
        b"not a model",
        whole[:-30],
        whole[: len(whole) // 2],
        b"\x93NUMPY\x01\x00",
    ):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="no model of a run"):
            Checkpoint.read(path)
    ones = np.ones(3)
    for arrays in (
        {"parameters": ones},
        {"about": about()},
        {"parameters": ones, "about": about(format="other")},
        {"parameters": ones, "about": about(measured=[[1]])},
        {"parameters": ones, "about": about(round="x")},
        {"parameters": ones.astype(np.float32), "about": about()},
        {"parameters": ones[None], "about": about()},
        {"parameters": np.array([{}], object), "about": about()},
        {"parameters": ones, "about": np.frombuffer(b"{", np.uint8)},
    ):
        npz(path, **arrays)
        with pytest.raises(InvalidInput, match="no model of a run"):
            Checkpoint.read(path)
    with pytest.raises(InvalidInput, match="cannot be read"):
        Checkpoint.read(tmp_path / "missing")


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@for_each("what", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.npz"
    atomic.write(path, b"old")
    monkeypatch.setattr(*((os, "fsync") if what == "fsync" else (Path, "replace")), full)
    with pytest.raises(OSError, match="No space"):
        atomic.write(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["model.npz"]


@for_each("left", [".model.npz.part", ".model.npz.0123456789abcdef.part"])
def test_what_a_write_left_that_was_cut_off_goes_with_its_file(tmp_path: Path, left: str) -> None:
    for name in (left, ".other.npz.part"):
        (tmp_path / name).write_bytes(b"half")
    atomic.write(tmp_path / "model.npz", b"whole")
    atomic.remove(tmp_path / "model.npz")
    assert [one.name for one in tmp_path.iterdir()] == [".other.npz.part"]
    atomic.clear(tmp_path)
    assert not list(tmp_path.iterdir())


@for_each("number", [signal.SIGINT, signal.SIGTERM])
@usual_signals()
def test_interruptions_wait_while_something_is_written(number: int) -> None:
    reached: list[bool] = []
    before = signal.getsignal(number)

    def writing() -> None:
        with sigterm_as_interrupt(), interruptions_delayed():
            os.kill(os.getpid(), number)
            reached.append(True)

    with pytest.raises(KeyboardInterrupt):
        writing()
    assert reached
    assert signal.getsignal(number) is before


@for_each("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_was_started_with_a_signal_ignored_goes_on_ignoring_it(number: int) -> None:
    """As in the background of a script, where Ctrl-C is meant for the one in front."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with sigterm_as_interrupt():
            os.kill(os.getpid(), number)
            with interruptions_delayed():
                os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_IGN
    except KeyboardInterrupt:
        pytest.fail("the signal was not ignored")
    finally:
        signal.signal(number, before)


def test_without_an_interruption_nothing_happens() -> None:
    with interruptions_delayed(), interruptions_delayed():
        pass
    done: list[int] = []

    def elsewhere() -> None:
        with sigterm_as_interrupt(), interruptions_delayed():
            done.append(1)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert done == [1]


@usual_signals()
def test_a_recorder_finishes_its_line() -> None:
    lines: list[str] = []

    class Slow:
        def append(self, _: object) -> int:
            os.kill(os.getpid(), signal.SIGINT)
            lines.append("whole")
            return 0

        def seal(self, _: object) -> dict[str, str]:
            os.kill(os.getpid(), signal.SIGINT)
            lines.append("sealed")
            return {}

    recorder = UninterruptedRecorder(Slow())  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        recorder.append(Evaluation(1, "declared-public", {}))
    with pytest.raises(KeyboardInterrupt):
        recorder.seal({})
    assert lines == ["whole", "sealed"]
