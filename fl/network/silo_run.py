"""The run of a silo, in a thread of its own: from a start of the server to the next one.

It is the life cycle of every run (`fl.running.session`) from the seat of one silo.  Where a round
was given up, the run is taken up again from its log, as often as need be: what was begun is spent.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from ...accountant.errors import BudgetExceeded, LogBroken, MissingParty, ProtocolFault
from ..crypto.keys import Identity
from ..log.reader import Scan
from ..log.record_order import RecordOrder
from ..parties.network import silo_name
from ..running.begin_or_resume import ReadyRun, ready_new_run, ready_to_resume
from ..running.checkpoint import MODEL_FILE, Checkpoint
from ..running.configuration import Configuration
from ..running.folder import is_new_or_empty
from ..running.preparation import prepare
from ..running.prepared_run import PreparedRun
from ..running.session import execute
from .conversation import Conversation, EndOfTalk
from .journal import RUN_FOLDER
from .plan import NetworkPlan
from .planned_run import HeldRecords, party
from .silo_seat import SiloSeat, TookPart, kept_digest

Note: TypeAlias = Callable[[str], None]
"""Told why a run stopped, for the silo's own eyes."""


@dataclass(frozen=True)
class SiloProgress:
    """How far a silo has come: what it has spent, its log, and the model it goes on from."""

    spent: int = 0
    lines: int = 0
    head: str = ""
    round: int = 0
    model: str = ""


class SiloRun:
    """One run of one silo; `closed` says whether it is done."""

    def __init__(
        self,
        configuration: Configuration,
        folder: Path,
        held: HeldRecords,
        identity: Identity,
        plan: NetworkPlan,
        took_part: TookPart,
        note: Note,
    ) -> None:
        assert held.silo is not None
        self._configuration, self.folder = configuration, folder / RUN_FOLDER
        self._held, self._identity, self._plan = held, identity, plan
        self._took_part, self._note = took_part, note
        self._name = silo_name(held.silo)
        self._thread: threading.Thread | None = None
        self._seat: SiloSeat | None = None
        self._session = b""

    @property
    def closed(self) -> bool:
        """Whether the last line of the log is written."""
        return self._order()[0].closed

    def rehearsed(self) -> PreparedRun:
        """Return the run as it would begin; nothing is written."""
        return prepare(self._configuration.settings, seat=self._new_seat("", Conversation()))

    def start(self, run: str) -> Conversation:
        """Begin or go on, in a new thread; return what it takes requests by."""
        conversation = Conversation()
        self._session = b""
        self._thread = threading.Thread(
            target=self._make, args=(run, conversation), name=self._name, daemon=True
        )
        self._thread.start()
        return conversation

    def take_session(self, session: bytes) -> None:
        """Take the session of a start, which no start had before."""
        self._session = session
        if self._seat is not None:
            self._seat.session = session

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def reached(self) -> SiloProgress:
        """Return how far the silo has come, as its log says."""
        order, lines, head = self._order()
        last = max((intent.round for intent in order.intents.values()), default=0)
        kept = kept_digest(None if self._seat is None else self._seat.kept)
        if order.closed:
            kept = kept_digest(Checkpoint.read(self.folder / MODEL_FILE))
        return SiloProgress(len(order.intents), lines, head, last, kept)

    def _order(self) -> tuple[RecordOrder, int, str]:
        if is_new_or_empty(self.folder):
            return RecordOrder(), 0, ""
        scan = Scan(self.folder)
        for _ in scan:
            pass
        return scan.record_order, scan.records, scan.head or ""

    def _make(self, run: str, conversation: Conversation) -> None:
        try:
            while not self._made(run, conversation):
                pass  # a round was given up, for a later one: the run goes on behind it
            conversation.answer()
            conversation.fail("The run is closed.")
        except EndOfTalk as error:
            conversation.fail(error.what)
        except BaseException as error:  # whatever it is: the server is told, and nothing goes on
            self._note(str(error))
            conversation.fail(sentence_of(error))

    def _made(self, run: str, conversation: Conversation) -> bool:
        """Make the rounds that are left; return False where one of them was given up."""
        seat = self._new_seat(run, conversation)
        ready = self._ready(seat)
        seat.last, seat.session = ready.prepared.rounds, self._session
        self._seat = seat
        with ready.writer:
            try:
                execute(ready.prepared, ready.absolute, ready.writer, progress=ready.progress)
            except EndOfTalk:
                raise
            except MissingParty:
                if not seat.giving_up:
                    raise
                return False
        return True

    def _ready(self, seat: SiloSeat) -> ReadyRun:
        if is_new_or_empty(self.folder):
            return ready_new_run(self._configuration, self.folder, seat=seat)
        return ready_to_resume(None, self.folder, seat=seat)

    def _new_seat(self, run: str, conversation: Conversation) -> SiloSeat:
        return SiloSeat(
            party(self._name, self._plan, run),
            self._held,
            self._identity,
            self._plan.roster,
            conversation,
            self._took_part,
        )


_TOLD: Final = (ProtocolFault, BudgetExceeded, LogBroken)
"""Errors whose sentences name parties, rounds and files alone."""


def sentence_of(error: BaseException) -> str:
    """Return why a run stopped, as the server may know it: no sentence that quotes a record."""
    if isinstance(error, _TOLD):
        return error.what
    if isinstance(error, OSError):
        return f"The silo cannot write: {error.strerror or type(error).__name__}."
    return f"The round failed at the silo, whose own log says why ({type(error).__name__})."
