"""Taking up the log of a run that was cut off."""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.audit.verify import verify
from privplan.fl.log import BadLine, LogWriter, Sidecar
from privplan.fl.log.append_file import AppendFile
from privplan.fl.log.hash_chain import LOG, SEALED

from ..cases import for_each
from . import logs
from .logs import lost

# --- taking up a run ---------------------------------------------------------------------------


def test_a_resumed_log_goes_on(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    for recoveries in range(3):
        writer, progress = LogWriter.resume(folder, randomness=records.Randomness("seeded"))
        with writer:
            assert progress.recoveries == recoveries
            assert len(progress.intents) == 3 + recoveries
            writer.append(logs.intent(4 + recoveries))  # and cut off
    last = verify(folder)
    assert last.ok
    assert last.recoveries == 3
    assert len(last.dangling) == 3
    recoveries_written = [
        line for line in map(json.loads, logs.lines_of(folder)) if line["type"] == "run.recover"
    ]
    assert [line["next_round"] for line in recoveries_written] == [4, 5, 6]
    assert [len(line["dangling"]) for line in recoveries_written] == [0, 1, 2]
    assert {line["randomness"]["source"] for line in recoveries_written} == {"seeded"}


def test_progress_knows_all_that_was_spent(tmp_path: Path) -> None:
    with LogWriter.create(tmp_path / "run", fsync="never") as writer:
        opened = logs.opening()
        writer.append(opened)
        first = writer.append(logs.intent(1))
        writer.append(logs.release(1, first))
        second = writer.append(logs.intent(2))
        writer.append(records.RoundAbort(2, second, "error"))
        third = writer.append(logs.intent(3))
    again, progress = LogWriter.resume(tmp_path / "run", randomness=logs.SECURE)
    assert progress.opened.run_id == opened.run_id
    assert set(progress.intents) == {first, second, third}
    assert progress.dangling == (second, third)
    assert progress.releases == {first: logs.release(1, first)}
    with pytest.raises(InvalidInput, match="was cut off before a recovery"):
        again.append(logs.release(3, third))


def test_the_policy_of_a_resumed_log_is_that_of_its_opening(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False, fsync="always")
    writer, _ = LogWriter.resume(folder, randomness=logs.SECURE)
    assert writer._fsync == "always"


def test_a_closed_run_is_not_resumed(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    before = (folder / LOG).read_bytes()
    with pytest.raises(InvalidInput, match="is closed"):
        LogWriter.resume(folder, randomness=logs.SECURE)
    assert (folder / LOG).read_bytes() == before


def test_a_log_with_a_bad_line_is_never_resumed(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    lines = logs.lines_of(folder)
    logs.write_lines(folder, [*lines[:2], *lines[3:]])
    with (folder / LOG).open("a") as file:
        file.write('{"torn')
    before = (folder / LOG).read_bytes()
    with pytest.raises(BadLine, match="Line 3"):
        LogWriter.resume(folder, randomness=logs.SECURE)
    assert (folder / LOG).read_bytes() == before
    # and the lock is free again
    with pytest.raises(BadLine):
        LogWriter.resume(folder, randomness=logs.SECURE)


def test_a_log_that_was_never_opened_is_not_resumed(tmp_path: Path) -> None:
    LogWriter.create(tmp_path / "run").close()
    with pytest.raises(InvalidInput, match=r"no `run\.open`"):
        LogWriter.resume(tmp_path / "run", randomness=logs.SECURE)
    with pytest.raises(InvalidInput, match="no folder"):
        LogWriter.resume(tmp_path / "nowhere", randomness=logs.SECURE)


def test_a_resumed_run_has_its_sidecar_even_if_it_was_taken_away(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    (folder / SEALED).unlink()
    writer, _ = LogWriter.resume(folder, randomness=logs.SECURE)
    assert stat.S_IMODE((folder / SEALED).stat().st_mode) == 0o600
    writer.seal({"batch": 1})
    assert len(Sidecar.read(folder).items) == 1


def test_a_sidecar_that_was_opened_to_others_is_closed_again(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    (folder / SEALED).chmod(0o644)
    LogWriter.resume(folder, randomness=logs.SECURE)[0].close()
    assert stat.S_IMODE((folder / SEALED).stat().st_mode) == 0o600


@for_each("size", [1, 70_000, 200_000])
def test_a_torn_sidecar_is_mended(tmp_path: Path, size: int) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    whole = (folder / SEALED).read_bytes()
    with (folder / SEALED).open("ab") as file:
        file.write(b"x" * size)
    assert Sidecar.read(folder).torn == size
    LogWriter.resume(folder, randomness=logs.SECURE)[0].close()
    assert (folder / SEALED).read_bytes() == whole


def test_links_are_not_followed(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    (folder / LOG).rename(tmp_path / "elsewhere")
    (folder / LOG).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="cannot be used"):
        LogWriter.resume(folder, randomness=logs.SECURE)


@for_each("beginning", [True, False])
def test_a_writer_that_was_not_made_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beginning: bool
) -> None:
    """The program that met the failing disk can try again, as another process can."""
    folder, real = tmp_path / "run", os.fsync
    folder.mkdir()
    if not beginning:
        folder.rmdir()
        with LogWriter.create(folder) as begun:
            begun.append(logs.opening())
        (folder / SEALED).write_bytes(b"torn")
    calls = iter(range(9))
    resumed = partial(LogWriter.resume, folder, randomness=logs.SECURE)
    make: Callable[[], object] = partial(LogWriter.create, folder) if beginning else resumed
    with monkeypatch.context() as patch:
        # The second folder that is forced to the disk, or the sidecar that is cut.
        patch.setattr(os, "fsync", lambda fd: lost(fd) if next(calls) == beginning else real(fd))
        with pytest.raises(InvalidInput, match="cannot be used"):
            make()
    for name in (LOG, SEALED):
        AppendFile.open(folder / name).close()  # raises where it is locked


def test_a_file_that_nobody_knows_of_is_not_locked(tmp_path: Path) -> None:
    """An interruption may come when a writer is made, and before anybody is handed it."""
    LogWriter.create(tmp_path / "run")
    for name in (LOG, SEALED):
        with contextlib.closing(AppendFile.open(tmp_path / "run" / name)) as file:
            file.close()  # and once more, by `closing`
