"""What a guard keeps of a task that is not done, and how often it looks for the next one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from privplan.accountant.errors import ProtocolFault
from privplan.fl.network.pending_task import TASK_FILE, Backoff, LimitedPull, PendingTask


def test_a_task_is_kept_as_far_as_it_came_and_forgotten_when_it_is_done(tmp_path: Path) -> None:
    assert PendingTask.kept_in(tmp_path) is None
    for task in (PendingTask("a token"), PendingTask("a token", b"about", b"\0content")):
        task.keep(tmp_path)
        assert PendingTask.kept_in(tmp_path) == task
    file = tmp_path / TASK_FILE
    assert file.stat().st_mode & 0o777 == 0o600  # who has the token speaks as this silo
    file.write_bytes(file.read_bytes()[:-1])
    assert PendingTask.kept_in(tmp_path) is None
    PendingTask.forget(tmp_path)
    PendingTask.forget(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_waited_for_is_seen_a_tenth_later_and_a_long_wait_costs_little() -> None:
    now = 0.0
    backoff = Backoff(lambda: now)
    looks = [0.0]
    while now < 600.0:
        now += backoff.seconds()
        looks.append(now)
    for before, after in pairwise(looks):
        assert after - before <= max(Backoff.LEAST, before / 10.0) + 1e-9
        assert Backoff.LEAST - 1e-9 <= after - before <= Backoff.MOST + 1e-9
    assert len(looks) < 600.0 / Backoff.MOST + 60
    backoff.restart()
    assert backoff.seconds() == Backoff.LEAST


def test_parts_of_a_message_end_by_their_length_and_by_time() -> None:
    now = 0.0
    pull = LimitedPull(lambda name: name.encode(), 10, 60.0, lambda: now)
    assert pull("12345") == b"12345"
    assert pull("67890") == b"67890"
    with pytest.raises(ProtocolFault, match="longer than any of the plan"):
        pull("x")
    pull = LimitedPull(lambda name: name.encode(), 10, 60.0, lambda: now)
    now = 61.0
    with pytest.raises(ProtocolFault, match="did not come in time"):
        pull("x")
