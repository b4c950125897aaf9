"""A run that is killed at any moment loses no spending, and goes on from a log that is whole."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import time
import traceback
from dataclasses import replace
from pathlib import Path

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import RoundIntent, RoundRelease, RunRecover
from privplan.audit.verify import Verification, verify
from privplan.fl.log import LogWriter, Sidecar, read
from privplan.fl.log import append_file as disk_module
from privplan.fl.log.hash_chain import LOG, SEALED

from ..cases import for_each
from . import logs

PUBLISHED = "published"
"""What the run has handed out: a line for each release, after it was logged."""

TROUBLE = "trouble"


class _SlowDisk:
    """Writes each line in two halves with a pause between, so that a kill tears some of them."""

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def write(self, descriptor: int, data: bytes) -> int:
        """Write all of `data`, but not at once."""
        half = len(data) // 2
        first = os.write(descriptor, data[:half])
        time.sleep(2e-4)
        return first + os.write(descriptor, data[half:])


def live(folder: Path, place: Path, budget: int) -> None:
    """Open or resume the run in `folder`, and make releases until `budget` intents are spent."""
    disk_module.os = _SlowDisk()  # type: ignore[assignment]
    if folder.exists():
        writer, progress = LogWriter.resume(folder, randomness=logs.SECURE)
        spent = len(progress.intents)
        number = 1 + max((one.round for one in progress.intents.values()), default=0)
    else:
        writer, spent, number = LogWriter.create(folder, fsync="never"), 0, 1
        writer.append(logs.opening())
    out = os.open(place / PUBLISHED, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    while spent < budget:
        seq = writer.append(logs.intent(number))
        spent += 1
        value = os.urandom(8).hex()
        sealed = writer.seal({"batch": number})
        made = logs.release(number, seq, sealed)
        digest = hashlib.sha256(value.encode()).hexdigest()
        writer.append(replace(made, aggregate=digest))
        os.write(out, f"{seq} {value}\n".encode())
        number += 1
    writer.append(logs.closing(number - 1))


def child_of(folder: Path, budget: int) -> int:
    """Let a process live; return its number."""
    child = os.fork()
    if child == 0:
        try:
            live(folder, folder.parent, budget)
            os._exit(0)
        except BaseException:
            (folder.parent / TROUBLE).write_text(traceback.format_exc())
        finally:
            os._exit(1)
    return child


def ended(folder: Path, child: int) -> int:
    """Wait for a process and return its exit code; fail with its traceback if it had trouble."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if (folder.parent / TROUBLE).exists():
        pytest.fail((folder.parent / TROUBLE).read_text())
    return code


def kill_at(folder: Path, after: float, *, busy: bool) -> None:
    """Kill a process some seconds after its start, or with `busy` after its first new line."""
    before = size_of(folder)
    child = child_of(folder, 10**6)
    for _ in range(10_000):
        if not busy or size_of(folder) > before + 2000:
            break
        time.sleep(1e-3)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    assert ended(folder, child) == -signal.SIGKILL


def size_of(folder: Path) -> int:
    """Return the length of a log, 0 where there is none."""
    path = folder / LOG
    return path.stat().st_size if path.exists() else 0


def checked(folder: Path, head: str | None) -> Verification:
    """Check everything that must hold whenever a run is killed; `head` is from before."""
    found = verify(folder, expected_head=head)
    assert found.first_bad is None, found.first_bad
    assert (found.anchor is not None) == (head is not None)  # nothing that stood there is gone
    records = {line.seq: line.record for line in read(folder)}
    intents = {seq for seq, one in records.items() if isinstance(one, RoundIntent)}
    releases = {one.intent: one for one in records.values() if isinstance(one, RoundRelease)}
    assert set(found.dangling) == intents - set(releases)
    path = folder.parent / PUBLISHED
    handed_out = path.read_text().splitlines() if path.exists() else []
    for line in handed_out:
        seq, value = line.split()
        assert int(seq) in intents
        assert releases[int(seq)].aggregate == hashlib.sha256(value.encode()).hexdigest()
    assert len(intents) >= len(handed_out)
    assert len({line.split()[0] for line in handed_out}) == len(handed_out)
    assert Sidecar.read(folder).unopened(folder) == ()
    return found


def spent_in(folder: Path) -> int:
    """Return the number of intents."""
    return sum(isinstance(line.record, RoundIntent) for line in read(folder))


@for_each("lives", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_killed_at_any_moment_and_resumed_many_times(lives: int, tmp_path: Path) -> None:
    torn = dropped = dangling = 0
    for life in range(lives):
        place = tmp_path / str(life)
        place.mkdir()
        chance, folder = random.Random(life), place / "run"
        head, spent = None, 0
        for kill in range(27):
            kill_at(folder, chance.uniform(0.0, 0.01), busy=kill % 2 == 1)
            if not (folder / LOG).exists() or verify(folder).opened is None:
                # Killed before the opening was written: nothing was drawn, and a run starts anew.
                assert not (place / PUBLISHED).exists()
                shutil.rmtree(folder, ignore_errors=True)
                continue
            found = checked(folder, head)
            torn += found.torn is not None
            now = spent_in(folder)
            assert now >= spent
            head, spent = found.head, now
        assert ended(folder, child_of(folder, spent + 5)) == 0
        last = checked(folder, head)
        assert last.complete
        assert spent_in(folder) == spent + 5
        recoveries = [one.record for one in read(folder) if isinstance(one.record, RunRecover)]
        assert len(recoveries) == last.recoveries >= 10
        assert recoveries[-1].dangling == last.dangling
        dropped += sum(recovery.dropped_bytes > 0 for recovery in recoveries)
        dangling += len(last.dangling)
    # Of the 54 or 216 kills some must have hit a line, and some a round between intent and release.
    assert torn >= dropped > 0
    assert dangling > 0


@for_each("stride", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_log_cut_at_any_byte_is_whole_up_to_its_last_line(stride: int, tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", rounds=2, close=False)
    data, sealed = (folder / LOG).read_bytes(), (folder / SEALED).read_bytes()
    ends = [at + 1 for at, char in enumerate(data) if char == ord("\n")]
    first, hashes = ends[0], [json.loads(line)["hash"] for line in data.splitlines()]
    near = {min(end + off, len(data)) for end in ends for off in range(-3, 4)}
    for size in sorted(near.union(range(0, len(data) + 1, stride))):
        (folder / LOG).write_bytes(data[:size])
        (folder / SEALED).write_bytes(sealed)
        whole = sum(end <= size for end in ends)
        rest = size - (ends[whole - 1] if whole else 0)
        found = verify(folder)
        assert found.first_bad is None
        assert found.records == whole
        assert found.head == (hashes[whole - 1] if whole else None)
        assert (found.torn is not None) == (rest > 0)
        assert found.torn is None or (found.torn.number, found.torn.size) == (whole + 1, rest)
        if rest > 2 and size + 2 not in ends and size % 7:
            continue  # every byte is read; taking up is slower, so not at each of them
        if size < first:
            with pytest.raises(InvalidInput, match=r"no `run\.open`"):
                LogWriter.resume(folder, randomness=logs.SECURE)
            continue
        writer, progress = LogWriter.resume(folder, randomness=logs.SECURE)
        with writer:
            recovery = list(read(folder))[-1].record
            assert isinstance(recovery, RunRecover)
            assert recovery.dropped_bytes == rest
            assert recovery.dangling == progress.dangling
            assert len(progress.intents) == whole // 2
            assert len(progress.releases) == (whole - 1) // 2
            logs.rounds_of(writer, range(3, 4), seal=True)
        after = verify(folder, expected_head=hashes[whole - 1])
        assert after.ok
        assert after.records == whole + 3


def test_a_sidecar_cut_at_any_byte_keeps_its_whole_items(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", rounds=2, close=False)
    sealed = (folder / SEALED).read_bytes()
    for size in range(0, len(sealed) + 1, 3):
        (folder / SEALED).write_bytes(sealed[:size])
        whole = sealed[:size].count(b"\n")
        found = Sidecar.read(folder)
        assert len(found.items) == whole
        assert len(found.unopened(folder)) == 2 - whole
