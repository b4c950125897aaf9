"""Group commit: one thread writes, and what waits meanwhile goes into its next transaction.

A flush to the disk takes milliseconds, whatever it covers.  Claims that follow one another on a
data set are made together (`claiming`); every other operation has a savepoint of its own, so that a
refusal undoes nothing but itself.  Nobody is answered before the group is durable.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from .claiming import PricedClaim, make_claims
from .daily_limits import DailyLimits
from .database import Database, Operation, StoreFailed
from .signer import Signer

MAX_GROUP: Final = 64
"""Most operations of one transaction: it bounds how long the first waits for the last."""


@dataclass(eq=False)
class _WaitingOperation:
    """An operation that waits; `claim` in its place where it is a claim, made with others."""

    data_set: int | None
    operation: Operation[Any] | None = None
    claim: PricedClaim | None = None
    future: Future[Any] = field(default_factory=Future)


class Writer:
    """The thread that writes; `close` lets it finish what was submitted."""

    def __init__(
        self, database: Database, signer: Signer, limits: DailyLimits | None = None
    ) -> None:
        self._database, self._signer, self._limits = database, signer, limits
        self._waiting: queue.SimpleQueue[_WaitingOperation | None] = queue.SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[Any], data_set: int | None = None) -> Future[Any]:
        """Return the future of an operation's answer, which is set when it is durable.

        `data_set` is the id of the data set that it locks, where that is known.
        """
        return self._submitted(_WaitingOperation(data_set, operation))

    def claim(self, claim: PricedClaim, data_set: int) -> Future[Any]:
        """Return the future of a claim's answer."""
        return self._submitted(_WaitingOperation(data_set, claim=claim))

    def close(self) -> None:
        """Write what was submitted, and stop."""
        self._closed = True
        self._waiting.put(None)
        self._thread.join()

    def _submitted(self, waiting: _WaitingOperation) -> Future[Any]:
        if self._closed:
            raise StoreFailed(
                "The ledger is being stopped.", next_step="Ask again with the same key."
            )
        self._waiting.put(waiting)
        return waiting.future

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
                self._write(_parts(group))

    def _write(self, parts: list[list[_WaitingOperation]]) -> None:
        """Write parts in one transaction, each in a savepoint of its own."""
        concerned = {each[0].data_set for each in parts}
        try:
            answers = self._database.write(
                [self._operation(each) for each in parts],
                [number for number in concerned if number is not None],
            )
        except Exception as error:
            for waiting in (each for waited in parts for each in waited):
                waiting.future.set_exception(error)
            return
        apart: list[list[_WaitingOperation]] = []
        for waited, answer in zip(parts, answers, strict=True):
            if not isinstance(answer, Exception):
                several = answer if waited[0].claim is not None else [answer]
                for waiting, each in zip(waited, several, strict=True):
                    _answered(waiting, each)
            elif len(waited) == 1:
                _answered(waited[0], answer)
            else:
                # What one of them did must not refuse the others.
                apart += [[each] for each in waited]
        if apart:
            self._write(apart)

    def _operation(self, waited: list[_WaitingOperation]) -> Operation[Any]:
        if waited[0].operation is not None:
            return waited[0].operation
        asked = [each.claim for each in waited if each.claim is not None]
        return lambda connection: make_claims(connection, self._signer, asked, self._limits)


def _parts(group: list[_WaitingOperation]) -> list[list[_WaitingOperation]]:
    """Return a group in parts: claims that follow one another on a data set are made together.

    Operations on one data set keep their order, and those on others do not touch it.
    """
    by_data_set: dict[int | None, list[_WaitingOperation]] = {}
    for each in group:
        by_data_set.setdefault(each.data_set, []).append(each)
    parts: list[list[_WaitingOperation]] = []
    for waited in by_data_set.values():
        last: list[_WaitingOperation] = []
        for each in waited:
            if last and each.claim is not None and last[0].claim is not None:
                last.append(each)
            else:
                last = [each]
                parts.append(last)
    return parts


def _answered(waiting: _WaitingOperation, answer: object) -> None:
    if isinstance(answer, Exception):
        waiting.future.set_exception(answer)
    else:
        waiting.future.set_result(answer)
