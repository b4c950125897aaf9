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

from ...accountant.errors import PrivplanError, ProtocolFault
from ..crypto.keys import fresh
from ..parties.network import silo_name
from .conversation import Conversation
from .guard_log import GuardLog
from .journal import Journal, Starts, identity_in, state_folder
from .plan import NetworkPlan, code_version
from .planned_run import HeldRecords, configuration_of, require_same_promise
from .silo_run import SiloRun, sentence_of
from .wire import FINISH, HELLO, Hello, Reply, Request, digest_of, opened, session_of, signed

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
    come to what it promises here, and for data that cannot be read.
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
        self.log = GuardLog(self.folder, tell)
        self._journal = Journal(self.folder)
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
        self._largest = 4 * 8 * rehearsed.width + _ROOM_BESIDES_VECTORS
        self._lock = threading.Lock()
        self._conversation: Conversation | None = None
        self._hello: bytes | None = None  # of this start, until the hellos of all silos are in
        self._starts = self._journal.starts()

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
                self._journal.keep(number, digest, answer)
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

    def _read(self, raw: bytes) -> Request:
        """Return a request of this plan's server, for this plan and this code."""
        if len(raw) > self._largest:
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
        return request

    def _answered(self, request: Request, digest: bytes) -> Reply:
        if request.phase == HELLO:
            return self._greeted(request, digest)
        if request.segment != self._starts.segment:
            raise _Refusal("The request is of another start of the server than the last one.")
        if request.phase == FINISH and self._conversation is None and self._run.closed:
            return Reply(digest)
        if self._conversation is None:
            raise _Refusal("The guard was started anew, and waits for a hello of the server.")
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
        starts = Starts(request.run, request.segment)
        self._journal.begin(starts)
        self._starts = starts
        if not self._run.closed:
            self._conversation = self._run.start(request.run)
            _, failed = self._conversation.awaited()
            if failed is not None and not self._run.closed:
                raise _Refusal(failed)
            if self._run.closed:  # every round was made, and the end of the last one was lost
                self._end()
        reached = self._run.reached()
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
