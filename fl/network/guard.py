"""The guard: a silo's own process, which alone has the data, draws the noise and keeps the budget.

It trusts nothing that the server says.  It runs the plan that its silo has signed, once; what it
takes is the next step of that, and everything else is refused, noted, and told in one sentence.
What it gives out is on its disk before it leaves, and is spent.

    guard = Guard(plan, folder, files)
    reply = guard.handle(request)      bytes to bytes, whoever carried them

The rounds are made in a thread of their own (`silo_run`), from the first hello on; a hello begins a
start, in which the run goes on from what its log says.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...accountant.errors import InvalidInput, PrivplanError, ProtocolFault
from ...accountant.regular_file import open_appended
from ..crypto.keys import fresh
from ..log.append_file import AppendFile
from ..parties.network import silo_name
from .conversation import Conversation
from .guard_log import GuardLog
from .journal import LOCK_FILE, NO_ROUND, Journal, Starts, identity_in, state_folder
from .plan import NetworkPlan, code_version
from .planned_run import HeldRecords, configuration_of, require_same_promise
from .silo_run import SiloProgress, SiloRun, sentence_of
from .wire import (
    FINISH,
    HELLO,
    STARTED_ANEW,
    Hello,
    Reply,
    Request,
    digest_of,
    opened,
    session_of,
    signed,
)

NONCE_BYTES: Final = 32

_ROOM_BESIDES_VECTORS: Final = 2**20
"""Bytes of a request besides the vectors in it: keys, shares and signatures of all silos."""


@dataclass(frozen=True)
class _Refusal(Exception):
    why: str


class Guard:
    """One silo of a plan; see the module.

    `folder` holds its key, its log and what it gave out; `files` are those of its table; `tell` is
    told what it does, line by line.  Nothing is drawn before the first request.  Raises
    `InvalidInput` where the plan does not name this silo's key, is not signed by it, or does not
    come to what it promises here, for data that cannot be read, and for a folder of another plan,
    of another guard that is running, or of which a part is missing.
    """

    def __init__(
        self,
        plan: NetworkPlan,
        folder: Path,
        files: Sequence[Path] = (),
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.folder = state_folder(folder)
        self.plan = plan
        self.identity = identity_in(self.folder)
        silo = plan.silo_of(self.identity.public)
        self.name, self.called = silo_name(silo), plan.silos[silo].name
        plan.require_signed(silo)
        self._alone = _locked(self.folder)
        try:
            self._prepare(silo, files, tell)
        except BaseException:
            self._alone.close()
            raise

    def _prepare(
        self, silo: int, files: Sequence[Path], tell: Callable[[str], None] | None
    ) -> None:
        plan = self.plan
        self.log = GuardLog(self.folder, tell)
        self._journal = Journal(self.folder)
        self._starts = self._journal.starts()
        _require_this_plan(self._starts, plan, self.folder)
        self._run = SiloRun(
            configuration_of(plan, self.folder),
            self.folder,
            HeldRecords(silo, tuple(files)),
            self.identity,
            plan,
            self._journal.took_part,
            lambda why: self.log.write("stopped", why=why),
        )
        rehearsed = self._run.rehearsed()  # what cannot be run is better known before any request
        require_same_promise(plan, rehearsed)
        self._rounds = rehearsed.rounds
        self.largest = 4 * 8 * rehearsed.width + _ROOM_BESIDES_VECTORS
        self._lock = threading.Lock()
        self._conversation: Conversation | None = None
        self._hello: bytes | None = None  # of this start, until the hellos of all silos are in
        lost = self._lost_part(self._run.reached())
        if lost is not None:
            raise InvalidInput(
                lost,
                "What was given out since would be given out again.",
                "Restore the newest copy of the whole folder; what it lacks is spent.",
            )

    def handle(self, raw: bytes) -> bytes:
        """Return the reply to a request, signed; it is kept before this returns."""
        with self._lock:
            digest = digest_of(raw)
            known = self._journal.reply(digest)
            if known is not None:
                self.log.write("repeated", request=digest.hex())
                return known
            number = 0
            try:
                request = self._read(raw)
                number = request.round
                answer = signed(self.identity, self._answered(request, digest))
                if not (request.phase == FINISH and self._run.closed):  # which is said to all alike
                    kept_as = NO_ROUND if request.phase == HELLO else number
                    self._journal.keep(kept_as, digest, answer)
            except _Refusal as refused:
                return self._refusal(digest, number, refused.why)
            except (OSError, PrivplanError) as error:  # nothing leaves that is not on the disk
                self._end()
                return self._refusal(digest, number, sentence_of(error))
            self.log.write("given-out", round=number, phase=request.phase, bytes=len(answer))
            return answer

    def _refusal(self, digest: bytes, number: int, why: str) -> bytes:
        self.log.write("refused", round=number, why=why)
        return signed(self.identity, Reply(digest, why))

    def close(self) -> None:
        """End the round that is under way, if there is one; what was begun is spent."""
        with self._lock:
            self._end()
            self._alone.close()

    def _read(self, raw: bytes) -> Request:
        """Return a request of this plan's server, for this plan and this code."""
        if len(raw) > self.largest:
            raise _Refusal("The request is longer than any of this plan can be.")
        try:
            request = opened(self.plan.server, Request, raw)
        except ProtocolFault:
            raise _Refusal("The request is not signed by the server of the plan.") from None
        if request.plan != self.plan.digest:
            raise _Refusal("The request is of another plan than this silo has signed.")
        if request.version != code_version() or request.version != self.plan.version:
            raise _Refusal(
                f"This silo runs privplan {code_version()}, the plan says {self.plan.version}, and "
                f"the server {request.version!r:.40}."
            )
        if self._starts.run and request.run != self._starts.run:
            raise _Refusal("This plan was run, or is being run; another run needs another plan.")
        if not 0 <= request.round <= self._rounds:
            raise _Refusal(
                f"Round {request.round} is none of the {self._rounds} rounds of the plan."
            )
        return request

    def _answered(self, request: Request, digest: bytes) -> Reply:
        if request.phase == HELLO:
            return self._greeted(request, digest)
        if request.segment != self._starts.segment:
            raise _Refusal("The request is of another start of the server than the last one.")
        if request.phase == FINISH and self._conversation is None and self._run.closed:
            return Reply(digest)
        if self._conversation is None:
            raise _Refusal(STARTED_ANEW)
        expected, failed = self._conversation.awaited()
        if failed is not None or expected is None:
            raise _Refusal(failed or "The round was given up.")
        why = expected.refusal(request)
        if why is not None:
            raise _Refusal(why)
        if self._hello is not None and request.phase != FINISH:
            self._take_hellos(request)
        elif request.hellos:
            raise _Refusal("The hellos of this start have come before.")
        answer = self._conversation.hand(request)
        if answer.failed:
            raise _Refusal(answer.failed)
        if request.phase == FINISH:
            self._end()
        return Reply(digest, messages=answer.messages)

    def _greeted(self, request: Request, digest: bytes) -> Reply:
        """Begin a start: the run goes on from its log, and this silo says how far it has come."""
        if request.segment <= self._starts.segment:
            raise _Refusal("The hello is of a start of the server that has been.")
        self._end()
        lost = self._lost_part(self._run.reached())
        if lost is not None:
            raise _Refusal(lost)
        if not self._run.closed:
            self._conversation = self._run.start(request.run)
            _, failed = self._conversation.awaited()
            closed = self._run.closed  # every round was made, and the end of the last one was lost
            if failed is not None:
                self._end()
            if failed is not None and not closed:
                raise _Refusal(failed)
        reached = self._run.reached()
        starts = Starts(request.run, request.segment, self.plan.digest.hex())
        self._journal.begin(starts)  # a guard that is killed before is asked for this hello again
        self._starts = starts
        hello = Hello(
            self.plan.digest,
            code_version(),
            request.run,
            request.segment,
            self.name,
            bytes(fresh(NONCE_BYTES)),
            reached.spent,
            reached.lines,
            reached.head,
            reached.round,
            reached.model,
            int(self._run.closed),
        )
        self._hello = signed(self.identity, hello)
        self.log.write("hello", segment=request.segment, spent=reached.spent, head=reached.head)
        return Reply(digest, hello=self._hello)

    def _lost_part(self, reached: SiloProgress) -> str | None:
        """Return why the log is older than what was given out; None where it is not."""
        last = self._journal.last_given_out()
        if last <= reached.round:
            return None
        return (
            f"The log of {self.called} ends with round {reached.round}, and it took part in round "
            f"{last}: a part of its folder was lost, or restored."
        )

    def _take_hellos(self, request: Request) -> None:
        """Check what all silos have signed for this start; from it follows the session."""
        hellos = self._checked(request)
        why = self._journal.refusal_of(hellos)
        if why is not None:
            raise _Refusal(why)
        self._journal.remember(hellos)
        self._run.take_session(session_of(self.plan.digest, request.hellos))
        self._hello = None

    def _checked(self, request: Request) -> Mapping[str, Hello]:
        roster = self.plan.roster
        if len(request.hellos) != len(roster):
            raise _Refusal("The server did not bring the signed hellos of all silos.")
        hellos = {}
        for (name, key), raw in zip(roster.items(), request.hellos, strict=True):
            try:
                hello = opened(key, Hello, raw)
            except ProtocolFault:
                raise _Refusal(f"The hello of {name} is not signed by its key.") from None
            same = (hello.plan, hello.version, hello.run, hello.segment, hello.name) == (
                *(self.plan.digest, code_version(), request.run, request.segment, name),
            )
            if not same or len(hello.nonce) != NONCE_BYTES:
                raise _Refusal(f"{name} has signed another plan, version, run or start.")
            hellos[name] = hello
        if request.hellos[list(roster).index(self.name)] != self._hello:
            raise _Refusal("The server shows another hello of this silo than it gave.")
        return hellos

    def _end(self) -> None:
        if self._conversation is not None:
            self._conversation.end()
            self._run.join()
            self._conversation = None


def _locked(folder: Path) -> AppendFile:
    """Return the lock on a silo's folder, which ends with the process that holds it."""
    path = folder / LOCK_FILE
    try:
        return AppendFile(path, open_appended(path))
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}.",
            "A silo gives out nothing that it cannot write down first.",
            "Give the guard's account the folder, and room on its disk.",
        ) from None
    except InvalidInput:
        raise InvalidInput(
            f"Another guard is running with {folder}.",
            "Two of them would spend the same budget twice.",
            "Stop it first; a silo has one guard.",
        ) from None


def _require_this_plan(starts: Starts, plan: NetworkPlan, folder: Path) -> None:
    if starts.run and starts.plan != plan.digest.hex():
        raise InvalidInput(
            f"{folder} is of another plan, which was run, or is being run.",
            "It says what was given out by that plan, and is no start of another one.",
            "Give this plan a folder, and a key, of its own: privplan guard key DIR",
        )
