"""Prices, asked of processes that can be ended, and kept by the digest of what was asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ...accountant import errors
from ...accountant.errors import InvalidInput, PrivplanError
from ...fl.log.hash_chain import canonical, digest
from .balances import Vector, price_vector
from .names import Refusal
from .terms import Terms

PROCESSES: Final = 2
"""How many events are priced at once."""

MAX_WAITING: Final = 8
MAX_WAITING_OF_ALL: Final = 20
"""How many events of one holder, and of all, wait for their turn: half of the service's threads."""

MORE_FOR_NEW_HOLDERS: Final = 10
"""So many more may wait of holders who have none waiting, so that a few do not keep all away."""

MAX_KEPT: Final = 10_000
MAX_PRICED_BYTES: Final = 2**25
"""How many prices are kept, and how many bytes their events may have together."""
_PROGRAM: Final = "from privplan.audit.budget_service.pricing_process import serve; serve()"


Stated: TypeAlias = Mapping[str, Any] | None


@dataclass(frozen=True)
class PricedEvent:
    """A price, the event as it is written, and how what is charged follows from it."""

    price: Vector
    event: dict[str, Any]
    derivation: tuple[str, ...]


class Pricer:
    """Prices events; an event that was priced before costs nothing.

    One holder has one event priced at a time, so that nobody keeps all processes busy.
    """

    def __init__(self, processes: int = PROCESSES) -> None:
        self._free = threading.Semaphore(processes)
        self._idle: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._busy: dict[str, tuple[threading.Lock, int]] = {}

    def price(
        self, terms: Terms, event: Mapping[str, Any], stated: Stated, holder: str
    ) -> PricedEvent:
        """Return the price of an event, and the event as it is written.

        Raises `InvalidInput` and `Unsupported` as pricing does, and `Refusal`: (422) where that
        needs more than it may, (429) where the holder has others priced, and (503) where too many
        wait or something ended the pricing, which is kept as no answer.
        """
        return _priced(self._answer(_question(terms, event, stated), holder))

    def fits(
        self,
        terms: Terms,
        event: Mapping[str, Any],
        stated: Stated,
        rooms: Sequence[tuple[Vector, Vector]],
        holder: str,
    ) -> dict[str, Any]:
        """Return what would fit of an event; empty where that cannot be said in the time it has."""
        if stated is not None:  # another count or noise would have to be converted again
            return {}
        question = {**_question(terms, event, stated), "rooms": list(rooms)}
        try:
            answer = self._answer(question, holder)
        except PrivplanError:
            return {}
        return dict(answer["fits"])

    def kept(self, terms: Terms, event: Mapping[str, Any], stated: Stated) -> PricedEvent | None:
        """Return the price of an event that was priced before; None otherwise."""
        with self._lock:
            answer = self._kept.get(digest(canonical(_question(terms, event, stated))))
        return None if answer is None or "price" not in answer else _priced(answer)

    def close(self) -> None:
        """End the processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for process in idle:
            _end(process)

    def _answer(self, question: dict[str, Any], holder: str) -> dict[str, Any]:
        text = canonical(question)
        name = digest(text)
        with self._lock:
            answer = self._kept.get(name)
            if answer is not None:
                self._kept.move_to_end(name)
        if answer is None:
            with self._turn(holder):
                with self._lock:  # somebody may have asked the same meanwhile
                    answer = self._kept.get(name)
                if answer is None:
                    with self._free:
                        answer = self._asked(text)
            if "exceeded" not in answer and "failed" not in answer:  # another time it may pass
                with self._lock:
                    self._keep(name, answer, len(text))
        if "refused" in answer:
            raise _error(answer)
        if "failed" in answer:
            raise Refusal(
                503,
                "not-priced",
                "Pricing the event was cut off by something else.",
                "Nothing was charged.",
                "Ask again with the same key.",
            )
        if "exceeded" in answer:
            raise Refusal(
                422,
                "too-much-work",
                "Pricing the event takes more than 2 seconds of CPU or 512 MB.",
                "One claim must not keep the ledger from the others.",
                "Claim it in parts, or write what repeats as `repeat`.",
            )
        return answer

    def _keep(self, name: str, answer: dict[str, Any], size: int) -> None:
        """Keep an answer; the oldest make room for it."""
        if name not in self._kept:
            self._sizes[name] = size
        self._kept[name] = answer
        while len(self._kept) > MAX_KEPT or sum(self._sizes.values()) > MAX_PRICED_BYTES:
            oldest, _ = self._kept.popitem(last=False)
            del self._sizes[oldest]

    @contextmanager
    def _turn(self, holder: str) -> Iterator[None]:
        with self._lock:
            turn, waiting = self._busy.get(holder, (threading.Lock(), 0))
            if waiting >= MAX_WAITING:
                raise Refusal(
                    429,
                    "busy",
                    f"{MAX_WAITING} events of yours wait to be priced.",
                    "One holder has one event priced at a time.",
                    "Ask again with the same key.",
                )
            most = MAX_WAITING_OF_ALL + (0 if waiting else MORE_FOR_NEW_HOLDERS)
            if sum(count for _, count in self._busy.values()) >= most:
                raise Refusal(
                    503,
                    "busy",
                    f"{MAX_WAITING_OF_ALL} events wait to be priced.",
                    "Others have claimed what was not priced before.",
                    "Ask again with the same key.",
                )
            self._busy[holder] = turn, waiting + 1
        try:
            with turn:
                yield
        finally:
            with self._lock:
                _, waiting = self._busy.pop(holder)
                if waiting > 1:
                    self._busy[holder] = turn, waiting - 1

    def _asked(self, text: str) -> dict[str, Any]:
        for _ in range(PROCESSES + 1):  # each that was idle may have been ended meanwhile
            process = self._process()
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(text + "\n")
                process.stdin.flush()
                answer = json.loads(process.stdout.readline())
            except (OSError, ValueError):
                _end(process)
                continue
            with self._lock:
                self._idle.append(process)
            return dict(answer)
        return {"failed": True}

    def _process(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return subprocess.Popen(
            # What a library warns of says nothing to whoever reads the service's errors.
            [sys.executable, "-W", "ignore", "-c", _PROGRAM],
            # Threads of a library would not survive the fork.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="ascii",
        )


def _question(terms: Terms, event: Mapping[str, Any], stated: Stated) -> dict[str, Any]:
    return {"terms": terms.to_json(), "event": event, "stated": stated, "rooms": None}


def _priced(answer: Mapping[str, Any]) -> PricedEvent:
    return PricedEvent(price_vector(answer["price"]), answer["event"], tuple(answer["derivation"]))


def _error(answer: Mapping[str, Any]) -> PrivplanError:
    kind = getattr(errors, str(answer["refused"]), InvalidInput)
    error: PrivplanError = kind(*answer["said"])
    return error


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):  # what was not written cannot be any more
                stream.close()
    process.wait()
