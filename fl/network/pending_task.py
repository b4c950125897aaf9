"""What a guard keeps of a task until it is done, what it takes of it, and when it looks again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from ...accountant.errors import ProtocolFault
from ...accountant.regular_file import regular_content
from ..files import atomic
from ..parties.message_bodies import Body

TASK_FILE: Final = "task.pending"

NOTHING: Final = b"nothing"
"""What a message holds that keeps a supernode from sleeping, and its answer."""

_MAX_TASK_BYTES: Final = 2**33


@dataclass(frozen=True)
class PendingTask(Body):
    """A task that was fetched and is not done: a guard that comes back after a kill finishes it.

    `token` is how its supernode knows it, `about` which message it is of, as Flower says it, and
    `content` are the bytes in that; the last two are empty until they have come.
    """

    kind: ClassVar[str] = "network-task"
    token: str
    about: bytes = b""
    content: bytes = b""

    def keep(self, folder: Path) -> PendingTask:
        """Put the task in its file, before anything more is done about it, and return it.

        On a full disk it is not kept: it lapses where the guard is killed, and the guard says in
        its answer that it cannot write.
        """
        with contextlib.suppress(OSError):
            atomic.write(folder / TASK_FILE, self.pack(), private=True)
        return self

    @classmethod
    def kept_in(cls, folder: Path) -> PendingTask | None:
        """Return the task that was not done; None where there is none, or its file is damaged."""
        with contextlib.suppress(OSError, ProtocolFault):
            return cls.unpack(regular_content(folder / TASK_FILE, _MAX_TASK_BYTES, within=folder))
        return None

    @staticmethod
    def forget(folder: Path) -> None:
        """Remove the file of a task, which is done."""
        atomic.remove(folder / TASK_FILE)


@dataclass(frozen=True)
class NodeAndRun:
    """Whose message it is: what Flower asks of a context where an answer is pushed."""

    node_id: int
    run_id: int


class LimitedPull:
    """Fetches the parts of a message by their names, up to `most` bytes and for so many seconds.

    A part that is promised and never comes, and parts without end, would hold a guard otherwise.
    Raises `ProtocolFault` beyond a limit, and what `pull` raises.
    """

    def __init__(
        self,
        pull: Callable[[str], bytes],
        most: int,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pull, self._left = pull, most
        self._clock, self._end = clock, clock() + seconds
        self._lock = threading.Lock()

    def __call__(self, name: str) -> bytes:
        """Return a part."""
        if self._clock() > self._end:
            raise _endless("did not come in time")
        part = self._pull(name)
        with self._lock:
            self._left -= len(part)
            if self._left < 0:
                raise _endless("is longer than any of the plan can be")
        return part


def _endless(why: str) -> ProtocolFault:
    return ProtocolFault(
        f"A message {why}.",
        "A guard takes no more than its plan has room for, and waits for nothing without end.",
        "See what the superlink carries, and start the server again.",
    )


class Backoff:
    """How long to sleep between two looks for something: a tenth of the time that was waited.

    So what is waited for is seen at most a tenth later than it came, and a party that waits for
    long costs next to nothing.
    """

    LEAST: Final = 0.01
    MOST: Final = 0.25
    """Seconds: a look costs 5 ms of work at each end."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since = clock, clock()

    def restart(self) -> None:
        """Begin anew: something came."""
        self._since = self._clock()

    def seconds(self) -> float:
        """Return how long to sleep now."""
        return min(max((self._clock() - self._since) / 10.0, self.LEAST), self.MOST)
