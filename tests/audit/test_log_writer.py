"""The writer: what it refuses, what is on the disk when, and how it breaks."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.audit.verify import verify
from privplan.fl.log import LogBroken, LogWriter, Sidecar
from privplan.fl.log import append_file as disk_module
from privplan.fl.log.hash_chain import LOG, SEALED, canonical

from ..cases import for_each
from . import logs
from .logs import lost


def test_lines_are_canonical_chained_and_numbered(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    for seq, text in enumerate(logs.lines_of(folder)):
        line = json.loads(text)
        assert canonical(line) == text
        assert line["seq"] == seq


def test_append_returns_the_sequence_number_and_moves_the_head(writer: LogWriter) -> None:
    first = writer.head
    assert writer.append(logs.intent(1)) == 1
    assert writer.records == 2
    assert writer.head != first
    assert writer.head == verify(writer.folder).head


@for_each("name", ["file", ".hidden", "log.jsonl"])
def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    with pytest.raises(InvalidInput, match="is not empty"):
        LogWriter.create(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(InvalidInput, match="cannot be used"):
        LogWriter.create(tmp_path / "run")


def test_an_empty_folder_and_missing_parents_will_do(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    LogWriter.create(tmp_path / "empty").close()
    LogWriter.create(tmp_path / "a" / "b").close()


@for_each("options", [{"fsync": "sometimes"}, {"sign_every": 0}])
def test_options_are_checked_before_anything_is_made(
    tmp_path: Path, options: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput):
        LogWriter.create(tmp_path / "run", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_the_sidecar_is_for_its_owner_only_from_the_start(writer: LogWriter) -> None:
    mode = (writer.folder / SEALED).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_two_writers_cannot_share_a_folder(writer: LogWriter) -> None:
    with pytest.raises(InvalidInput, match="being written by another process"):
        LogWriter.resume(writer.folder, randomness=logs.SECURE)
    program = (
        "import sys; from privplan.fl.log import LogWriter\n"
        "from privplan.accountant.records import Randomness\n"
        "try: LogWriter.resume(sys.argv[1], randomness=Randomness('seeded'))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    command = [sys.executable, "-c", program, str(writer.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "InvalidInput" in done.stdout
    assert "being written" in done.stdout
    writer.close()
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == ""


def test_each_line_is_one_write(writer: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []
    real = os.write

    def write(descriptor: int, data: bytes) -> int:
        writes.append(data)
        return real(descriptor, data)

    monkeypatch.setattr(disk_module.os, "write", write)
    logs.rounds_of(writer, range(1, 4))
    assert len(writes) == 6
    assert all(data.endswith(b"\n") and data.count(b"\n") == 1 for data in writes)


@for_each(
    ("policy", "expected"),
    [
        (
            "records",
            {"run.open", "round.intent", "round.release", "run.close", "audit.result"},
        ),
        (
            "always",
            {
                *("run.open", "round.intent", "round.release", "run.close", "audit.result"),
                *("round.abort", "evaluation"),
            },
        ),
        ("never", set()),
    ],
)
def test_what_is_on_the_disk_when_append_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, expected: set[str]
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(disk_module.os, "fsync", synced.append)
    writer = LogWriter.create(tmp_path / "run", fsync=policy)  # type: ignore[arg-type]
    assert len(synced) == 2  # the folder, and the folder it stands in
    log = writer._log._descriptor
    found: set[str] = set()

    def append(record: records.Record) -> int:
        synced.clear()
        seq = writer.append(record)
        if log in synced:
            found.add(record.type)
        return seq

    append(logs.opening())
    seq = append(logs.intent(1))
    synced.clear()
    sealed = writer.seal({"batch": 3})
    assert bool(synced) == (policy == "always")
    append(logs.release(1, seq, sealed))
    append(records.RoundAbort(2, None, "refused"))
    append(records.Evaluation(1, "declared-public", {"accuracy": "0.5"}))
    synced.clear()
    writer.settle()
    both = {log, writer._sealed._descriptor}
    assert set(synced) == (set() if policy == "never" else both)
    append(records.AuditResult("claim", {}))
    append(logs.closing())
    assert found == expected
    assert json.loads(logs.lines_of(tmp_path / "run")[0])["fsync"] == policy


def test_what_private_data_say_of_a_model_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a release of its own, so its line is there before anybody can see it."""
    writer = LogWriter.create(tmp_path / "run")
    writer.append(logs.opening())
    synced: list[int] = []
    monkeypatch.setattr(disk_module.os, "fsync", synced.append)
    writer.append(records.Evaluation(1, "private", {"accuracy": "0.5"}))
    assert synced == [writer._log._descriptor]


def test_a_recovery_is_on_the_disk_too(writer: LogWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = writer.folder.parent / "other"
    with LogWriter.create(folder) as first:
        first.append(logs.opening())
    synced: list[int] = []
    monkeypatch.setattr(disk_module.os, "fsync", synced.append)
    again, _ = LogWriter.resume(folder, randomness=logs.SECURE)
    assert again._log._descriptor in synced


@dataclass(frozen=True)
class Stranger(records.Record):
    """A record that is not in the vocabulary."""

    type = "stranger"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (logs.opening(), "a second `run.open`"),
        (logs.release(1, 0), "no earlier line is an intent"),
        (records.Head("ab", "cd"), "not a record that a run may append"),
        (records.RunRecover(0, (), 1, logs.SECURE), "not a record that a run may append"),
        (Stranger(), "not a record that a run may append"),
        (records.AuditResult("x", {"value": float("nan")}), "cannot stand in JSON"),
        (records.AuditResult("x", {"value": object()}), "cannot stand in JSON"),
        (records.AuditResult("x", {"inner": {2: "a", 10: "b"}}), "does not read back"),
    ],
)
def test_what_would_spoil_the_log_is_refused_and_not_written(
    writer: LogWriter, record: records.Record, message: str
) -> None:
    before = (writer.folder / LOG).read_bytes()
    with pytest.raises(InvalidInput, match=message):
        writer.append(record)
    assert (writer.folder / LOG).read_bytes() == before
    logs.rounds_of(writer, range(1, 3))
    assert verify(writer.folder).ok


def test_nothing_comes_before_the_opening(tmp_path: Path) -> None:
    writer = LogWriter.create(tmp_path / "run")
    with pytest.raises(InvalidInput, match=r"before `run\.open`"):
        writer.append(logs.intent(1))


def test_a_release_stands_under_one_intent(writer: LogWriter) -> None:
    seq = writer.append(logs.intent(1))
    writer.append(logs.release(1, seq))
    with pytest.raises(InvalidInput, match="already released"):
        writer.append(logs.release(1, seq))
    writer.append(logs.closing())
    with pytest.raises(InvalidInput, match=r"after `run\.close`"):
        writer.append(logs.intent(2))


def test_a_line_that_no_reader_takes_is_not_written(
    writer: LogWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("privplan.fl.log.writer.LONGEST", 400)
    with pytest.raises(InvalidInput, match="400 is the longest"):
        writer.append(logs.intent(1))
    assert verify(writer.folder).records == 1


def short(data: bytes) -> bytes:
    """Return the half of a line that a full disk still takes."""
    return data[: len(data) // 2]


def full_disk(descriptor: int, data: bytes, real: Callable[[int, bytes], int] = os.write) -> int:
    """Write half, as a disk does that becomes full."""
    return real(descriptor, short(data))


def no_space(_: int, __: bytes) -> int:
    """Fail as a full disk does."""
    raise OSError(28, "No space left on device")


def interrupted(descriptor: int, data: bytes, real: Callable[[int, bytes], int] = os.write) -> int:
    """Write, and be interrupted before it is known."""
    real(descriptor, data)
    raise KeyboardInterrupt


FAULTS = [
    ("write", full_disk, LogBroken),
    ("write", no_space, LogBroken),
    ("write", interrupted, KeyboardInterrupt),
    ("fsync", lost, LogBroken),
]


def sealed_for_good(writer: LogWriter) -> None:
    writer.seal({"batch": 17})
    writer.settle()


@for_each(("call", "fault", "error"), FAULTS)
@for_each("sealing", [False, True])
def test_a_failed_write_breaks_the_writer_for_good_and_the_run_can_be_resumed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    fault: Callable[..., object],
    error: type[BaseException],
    sealing: bool,
) -> None:
    writer = LogWriter.create(tmp_path / "run")
    writer.append(logs.opening())
    first = writer.append(logs.intent(1))
    with monkeypatch.context() as patched:
        patched.setattr(disk_module.os, call, fault)
        with pytest.raises(error):
            _ = sealed_for_good(writer) if sealing else writer.append(logs.intent(2))
    # The disk is well again, and the writer is not.
    for attempt in (
        lambda: writer.append(logs.release(1, first)),
        lambda: writer.append(records.RoundAbort(1, first, "error")),
        lambda: writer.seal({"batch": 17}),
    ):
        with pytest.raises(LogBroken, match="takes no more records"):
            attempt()
    writer.close()
    again, progress = LogWriter.resume(tmp_path / "run", randomness=logs.SECURE)
    assert first in progress.dangling
    torn = fault is full_disk and not sealing
    recovery = json.loads(logs.lines_of(tmp_path / "run")[-1])
    assert (recovery["dropped_bytes"] > 0) == torn
    assert recovery["type"] == "run.recover"
    again.append(logs.intent(3))
    found = verify(tmp_path / "run")
    assert found.ok
    assert Sidecar.read(tmp_path / "run").torn == 0


def test_a_real_limit_of_space_leaves_a_torn_line(tmp_path: Path) -> None:
    program = (
        "import resource, sys\n"
        "from privplan.fl.log import LogWriter, LogBroken\n"
        "from privplan.accountant.records import Evaluation, Randomness\n"
        "writer, _ = LogWriter.resume(sys.argv[1], randomness=Randomness('seeded'))\n"
        "size = writer._log._size + 1000\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))\n"
        "record = Evaluation(1, 'declared-public', {'accuracy': '0.5'})\n"
        "count = 0\n"
        "try:\n"
        "    while True: writer.append(record); count += 1\n"
        "except LogBroken: pass\n"
        "try: writer.append(record)\n"
        "except LogBroken: print(count)\n"
    )
    folder = logs.small_log(tmp_path / "run", close=False)
    before = verify(folder).records
    command = [sys.executable, "-c", program, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = verify(folder)
    assert found.records == before + 1 + int(done.stdout)
    assert found.torn is not None
    assert found.first_bad is None
    again, _ = LogWriter.resume(folder, randomness=logs.SECURE)
    assert json.loads(logs.lines_of(folder)[-1])["dropped_bytes"] == found.torn.size
    again.close()
    assert verify(folder).ok


def test_somebody_else_who_writes_is_noticed(writer: LogWriter) -> None:
    with (writer.folder / LOG).open("a") as file:
        file.write("{}\n")
    with pytest.raises(LogBroken, match="changed or removed by somebody else"):
        writer.append(logs.intent(1))
    with pytest.raises(LogBroken, match="takes no more records"):
        writer.append(logs.intent(1))


def test_a_log_that_was_removed_is_noticed(writer: LogWriter) -> None:
    (writer.folder / LOG).unlink()
    with pytest.raises(LogBroken, match="changed or removed by somebody else"):
        writer.append(logs.intent(1))


def test_a_process_that_was_forked_cannot_write(writer: LogWriter) -> None:
    child = os.fork()
    if child == 0:
        try:
            writer.append(logs.intent(1))
        except LogBroken:
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    writer.append(logs.intent(1))
    assert verify(writer.folder).records == 2


def test_threads_may_write_together(writer: LogWriter) -> None:
    def work() -> None:
        for number in range(1, 26):
            seq = writer.append(logs.intent(number))
            sealed = writer.seal({"batch": number})
            writer.append(logs.release(number, seq, sealed))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = verify(writer.folder)
    assert found.records == 201
    assert found.dangling == ()
    assert Sidecar.read(writer.folder).unopened(writer.folder) == ()


def test_a_closed_writer_writes_nothing(writer: LogWriter) -> None:
    writer.close()
    writer.close()
    with pytest.raises(LogBroken):
        writer.append(logs.intent(1))


def test_no_line_but_the_first_knows_the_time(tmp_path: Path) -> None:
    one, other = (logs.small_log(tmp_path / name) for name in ("one", "other"))
    for first, second in zip(logs.lines_of(one), logs.lines_of(other), strict=True):
        a, b = json.loads(first), json.loads(second)
        for line in (a, b):
            for name in ("prev", "hash"):
                line[name] = None
            if "sealed" in line:
                line["sealed"] = None
        assert a == b
