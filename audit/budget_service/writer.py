"""Group commit: one thread writes, and what waits meanwhile goes into its next transaction.

A flush to the disk takes milliseconds, whatever it covers.  Each operation has a savepoint of its
own, so that a refusal undoes nothing but itself; nobody is answered before the group is durable.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from .database import Database, Operation, StoreFailed

MAX_GROUP: Final = 64
"""Most operations of one transaction: it bounds how long the first waits for the last."""


class _Store(Protocol):
    def write(self, operations: list[Operation[Any]], concerned: Iterable[int]) -> list[Any]: ...


@dataclass
class _WaitingOperation:
    operation: Operation[Any]
    data_set: int | None
    future: Future[Any] = field(default_factory=Future)


class Writer:
    """The thread that writes; `close` lets it finish what was submitted."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: queue.SimpleQueue[_WaitingOperation | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[Any], data_set: int | None = None) -> Future[Any]:
        """Return the future of an operation's answer, which is set when it is durable.

        `data_set` is the id of the data set that it locks, where that is known.
        """
        if self._closed:
            raise StoreFailed(
                "The ledger is being stopped.", next_step="Ask again with the same key."
            )
        waiting = _WaitingOperation(operation, data_set)
        self._waiting.put(waiting)
        return waiting.future

    def close(self) -> None:
        """Write what was submitted, and stop."""
        self._closed = True
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            group: list[_WaitingOperation] = []
            item = self._waiting.get()
            while item is not None:
                group.append(item)
                if len(group) == MAX_GROUP or self._waiting.empty():
                    break
                item = self._waiting.get()
            ended = item is None
            if group:
                _write(self._database, group)


def _write(store: _Store, group: list[_WaitingOperation]) -> None:
    concerned = [each.data_set for each in group if each.data_set is not None]
    try:
        answers = store.write([each.operation for each in group], concerned)
    except Exception as error:
        for each in group:
            each.future.set_exception(error)
        return
    for each, answer in zip(group, answers, strict=True):
        if isinstance(answer, Exception):
            each.future.set_exception(answer)
        else:
            each.future.set_result(answer)
