"""Results that are added to a run that goes on, by killed processes, or under a key."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import AuditResult
from privplan.audit.budget import audit_budget
from privplan.audit.results import (
    append_results,
    encoded,
    measurements_in,
)
from privplan.audit.verify import verify
from privplan.fl.log import BadLine, LogWriter, read
from privplan.fl.log.hash_chain import LOG

from ..cases import for_each
from . import ledgers, logs
from .measured import MEASURED, MEMBERSHIP


def test_an_unfinished_run_that_was_audited_is_resumed(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run", close=False)
    append_results(folder, [MEASURED], sealed=[MEMBERSHIP])
    writer, progress = LogWriter.resume(folder, randomness=logs.SECURE)
    with writer:
        assert len(progress.releases) == 3
        writer.append(logs.closing())
    append_results(folder, [MEASURED])
    found = verify(folder)
    assert found.complete
    assert found.recoveries == 1
    assert len(measurements_in(folder)) == 2


OF_FEWER_ROUNDS = replace(MEASURED, claimed=1.0, value=0.5)


def test_the_budget_and_the_hazards_are_those_of_the_run(tmp_path: Path) -> None:
    folder = ledgers.written(tmp_path / "run", ledgers.weighted(rounds=4))
    before = audit_budget(folder).to_json()
    append_results(folder, [OF_FEWER_ROUNDS])
    after = audit_budget(folder).to_json()
    assert after.pop("records") == int(before.pop("records")) + 1  # type: ignore[call-overload]
    assert after.pop("head") != before.pop("head")
    assert after == before


@for_each("place", range(1, 9))
def test_a_result_may_stand_anywhere_after_the_opening(tmp_path: Path, place: int) -> None:
    folder = ledgers.written(tmp_path / "run", ledgers.weighted(rounds=3))
    before = audit_budget(folder)
    assert before.ok
    added = AuditResult("claim", encoded(OF_FEWER_ROUNDS)).to_json()

    def insert(records: list[dict[str, Any]]) -> None:
        records.insert(place, added)
        for at, record in enumerate(records):
            if record["type"] == "round.release":
                record["intent"] = at - (2 if records[at - 1] == added else 1)

    logs.rechained(folder, insert)
    assert verify(folder).complete
    after = audit_budget(folder)
    assert after.ok
    assert (after.total, after.hazards) == (before.total, before.hazards)
    assert measurements_in(folder) == (OF_FEWER_ROUNDS,)


def test_a_process_that_is_killed_leaves_a_log_that_takes_more(tmp_path: Path) -> None:
    """At every boundary of a write, and in the middle of it."""
    folder = logs.small_log(tmp_path / "run")
    head, size = verify(folder).head, (folder / LOG).stat().st_size
    append_results(folder, [MEASURED, MEASURED])
    whole = (folder / LOG).read_bytes()
    rng = np.random.default_rng(7)
    for cut in {size, size + 1, len(whole) - 1, *rng.integers(size, len(whole), 30).tolist()}:
        (folder / LOG).write_bytes(whole[:cut])
        found = verify(folder, expected_head=head)
        assert found.first_bad is None
        assert found.anchor is not None
        kept = len(measurements_in(folder))
        append_results(folder, [MEASURED])
        assert verify(folder, expected_head=head).complete
        assert len(measurements_in(folder)) == kept + 1


def test_a_kill_between_two_results_keeps_the_first(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    program = (
        "import os, signal, sys\n"
        "from privplan.fl.log import append_file\n"
        "from privplan.audit.results import append_results, decoded, measurements_in\n"
        "import json\n"
        "real, seen = os.fsync, []\n"
        "def fsync(descriptor):\n"
        "    real(descriptor)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "append_file.os.fsync = fsync\n"
        "one = decoded(json.loads(sys.argv[2]))\n"
        "append_results(sys.argv[1], [one, one])\n"
    )
    command = [sys.executable, "-c", program, str(folder), json.dumps(encoded(MEASURED))]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert verify(folder).complete
    assert measurements_in(folder) == (MEASURED,)


def test_two_auditors_at_once_add_one_after_the_other(tmp_path: Path) -> None:
    folder = logs.small_log(tmp_path / "run")
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            done = 0
            while done < 5:
                try:
                    append_results(folder, [MEASURED])
                    done += 1
                except InvalidInput:
                    continue
                except BaseException:
                    os._exit(1)
            os._exit(0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * 4
    assert verify(folder).complete
    assert len(measurements_in(folder)) == 20


def signed(folder: Path, *, close: bool = True) -> tuple[Path, Any, Any]:
    """Return a signed log, its key, and another one."""
    module = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
    own, other = (module.Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
    return logs.small_log(folder, key=own, sign_every=2, close=close), own, other


def test_the_key_of_a_log_signs_what_is_added(tmp_path: Path) -> None:
    folder, own, _ = signed(tmp_path / "run")
    found = append_results(folder, [MEASURED, MEASURED], key=own)
    assert verify(folder, own.public_key()).complete
    assert [line.record.type for line in read(folder)][-4:] == ["audit.result", "head"] * 2
    assert found.head == verify(folder).head


@for_each("which", ["none", "other"])
def test_a_signed_log_takes_nothing_without_its_key(tmp_path: Path, which: str) -> None:
    folder, own, other = signed(tmp_path / "run")
    before = (folder / LOG).read_bytes()
    with pytest.raises(InvalidInput, match="signed"):
        append_results(folder, [MEASURED], key=None if which == "none" else other)
    assert (folder / LOG).read_bytes() == before
    assert verify(folder, own.public_key()).complete


def test_an_unfinished_signed_run_signs_the_result_later(tmp_path: Path) -> None:
    folder, own, other = signed(tmp_path / "run", close=False)
    append_results(folder, [MEASURED])
    append_results(folder, [MEASURED], key=own)
    with pytest.raises(InvalidInput, match="signed by another key"):
        append_results(folder, [MEASURED], key=other)
    writer, _ = LogWriter.resume(folder, randomness=logs.SECURE, key=own)
    with writer:
        writer.append(logs.closing())
    assert verify(folder, own.public_key()).complete


def test_a_run_that_is_not_signed_is_signed_once_it_is_closed(tmp_path: Path) -> None:
    _, own, _ = signed(tmp_path / "key")
    unfinished = logs.small_log(tmp_path / "unfinished", close=False)
    with pytest.raises(InvalidInput, match="nothing in it is signed yet"):
        append_results(unfinished, [MEASURED], key=own)
    closed = logs.small_log(tmp_path / "closed")
    append_results(closed, [MEASURED], key=own)
    assert verify(closed, own.public_key()).complete


def test_a_bad_signature_of_the_key_is_a_bad_line(tmp_path: Path) -> None:
    folder, own, _ = signed(tmp_path / "run")
    logs.rechained(folder, lambda all_: all_[3]["streams"][0].update(first=7))
    with pytest.raises(BadLine):
        append_results(folder, [MEASURED], key=own)
