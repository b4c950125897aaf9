"""What a run in its own thread and whoever brings requests say to each other, one at a time.

    the run             conversation.next(expected)     waits for a request that is expected
                        conversation.answer(...)        gives out what was asked for
    whoever brings      conversation.hand(request)      waits for the answer

The run says beforehand what it takes, so a request that is out of turn is refused and the run never
hears of it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ...accountant.errors import MissingParty
from .wire import FINISH, Request


@dataclass(frozen=True)
class ExpectedRequest:
    """The next request that a run takes: of `round`, in one of `phases`.

    `upwards` takes later rounds too, up to `last`; `result_of` is the round whose result must come
    with it, 0 for none.  `later` are phases of a later round, up to `last`, at which this one is
    given up: the server went on without this silo.  A request that is expected gives nothing up.
    """

    round: int
    phases: tuple[str, ...]
    upwards: bool = False
    last: int = 0
    result_of: int = 0
    later: tuple[str, ...] = ()

    def gives_up(self, request: Request) -> bool:
        """Return whether a request is of what comes after this round, which is given up by it."""
        if request.phase == FINISH:
            ends = FINISH in self.later and FINISH not in self.phases
            return ends and request.round >= self.last
        return request.phase in self.later and self.round < request.round <= self.last

    def refusal(self, request: Request) -> str | None:
        """Return why a request is not the next one, in one sentence; None where it is."""
        if self.gives_up(request):
            return None
        if request.phase == FINISH and FINISH in self.phases:
            if self.result_of or request.round >= self.last:
                return None
            return f"Round {self.round} of {self.last} is next here, and this is the end."
        if request.round < self.round:
            return f"Round {request.round} is spent here; the next one is {self.round}."
        if self.last and request.round > self.last:
            return f"Round {request.round} is beyond the {self.last} rounds of the plan."
        if request.round > self.round and not self.upwards:
            return f"Round {self.round} is under way, and this is of round {request.round}."
        if request.phase not in self.phases:
            return (
                f"Next is {' or '.join(self.phases)} of round {self.round}, and this is "
                f"{request.phase!r:.20}."
            )
        return None


class EndOfTalk(MissingParty):
    """The conversation was ended while the run waited: the server began anew, or the guard ends."""


@dataclass(frozen=True)
class Answer:
    """What a run gives out: messages; or why it stopped, in a sentence without a private value."""

    messages: tuple[bytes, ...] = ()
    failed: str = ""


class Conversation:
    """One request at a time, between the thread of a run and those who bring requests."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._request: Request | None = None
        self._answer: Answer | None = None
        self._failed: str | None = None
        self._expected: ExpectedRequest | None = None
        self._ended = False

    def next(self, expected: ExpectedRequest) -> Request:
        """Return the next request; one that is not answered yet is returned again.

        Raises `EndOfTalk` once the conversation is over.
        """
        with self._changed:
            self._expected = expected
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended or self._request is not None)
            self._expected = None
            if self._ended or self._request is None:
                raise EndOfTalk(
                    "The round was given up.",
                    "The server began anew, or the guard was stopped.",
                    "What was begun is spent, and the log says so; the next start goes on.",
                )
            return self._request

    def answer(self, messages: tuple[bytes, ...] = ()) -> None:
        """Answer the request."""
        with self._changed:
            self._request, self._answer = None, Answer(messages)
            self._changed.notify_all()

    def fail(self, why: str) -> None:
        """Say why nothing more comes; the request under way is answered by it."""
        with self._changed:
            self._failed = why
            self._changed.notify_all()

    def end(self) -> None:
        """End the conversation."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def awaited(self) -> tuple[ExpectedRequest | None, str | None]:
        """Return what the run waits for, once it waits; or why it stopped."""
        with self._changed:
            self._changed.wait_for(self._is_idle)
            return self._expected, self._failed

    def hand(self, request: Request) -> Answer:
        """Hand a request to the run, and return its answer, or why it stopped."""
        with self._changed:
            self._changed.wait_for(self._is_idle)
            if self._failed is not None:
                return Answer(failed=self._failed)
            self._request, self._answer, self._expected = request, None, None
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answer is not None or self._failed is not None)
            if self._answer is None:
                return Answer(failed=self._failed or "")
            return self._answer

    def _is_idle(self) -> bool:
        return self._expected is not None or self._failed is not None
