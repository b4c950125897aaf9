"""The server of a network: it asks the guards, adds up what they give out, and keeps its own log.

    Hub(plan, folder, courier).run()

`courier` carries bytes to the silos and back: Flower's messages, or calls within one process.  The
same life cycle as in one process is made here, without any record: the odometer and the log come
before anything is asked for that shows data.  Whatever stops a run, the next start goes on with it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from ...accountant.errors import InvalidInput, MissingParty, ProtocolFault
from ..parties.network import SERVER, silo_name
from ..running.begin_or_resume import ReadyRun, ready_new_run, ready_to_resume
from ..running.checkpoint import Checkpoint, RoundMeasurement
from ..running.folder import is_new_or_empty
from ..running.interruption import sigterm_as_interrupt
from ..running.log_progress import read_log_progress
from ..running.preparation import prepare
from ..running.prepared_run import PreparedRun
from ..running.run_records import RunResult
from ..running.session import Report, execute
from .journal import RUN_FOLDER, Journal, Starts, identity_in, state_folder
from .plan import NetworkPlan, code_version
from .planned_run import configuration_of, party, require_same_promise
from .server_seat import Enquiry, ServerSeat, planning_seat
from .wire import (
    FINISH,
    HELLO,
    KEYS,
    STARTED_ANEW,
    VECTOR,
    Hello,
    Reply,
    Request,
    digest_of,
    opened,
    signed,
)

Telling = Callable[[str], None]
"""Told in a sentence what the server waits for, and what came."""

_RUN_BYTES: Final = 16
_MAX_SENTENCE: Final = 300


class Courier(Protocol):
    """Carries requests to silos, by their numbers, and their replies back."""

    def carry(self, requests: Mapping[int, bytes], seconds: float) -> Mapping[int, bytes]:
        """Return the replies that came within so many seconds."""


class Hub:
    """The server of one plan; `folder` holds its key and its log.

    Raises `InvalidInput` where the key in the folder is not that of the plan's server, or the plan
    does not come to what it promises here.
    """

    def __init__(
        self, plan: NetworkPlan, folder: Path, courier: Courier, tell: Telling | None = None
    ) -> None:
        self.folder = state_folder(folder)
        self.plan = plan
        self._identity = identity_in(self.folder)
        if self._identity.public != plan.server:
            raise InvalidInput(
                "The key in this folder is not that of the plan's server.",
                "Guards take requests that it has signed, and no others.",
                "Name the folder that the plan was written with.",
            )
        self._courier, self._tell = courier, tell or (lambda _: None)
        self._journal = Journal(self.folder)
        self._configuration = configuration_of(plan, self.folder)
        self._run_folder = self.folder / RUN_FOLDER
        self._dropouts = self._configuration.settings.security.dropouts
        self._starts, self._asks = Starts(), False
        require_same_promise(plan, self._prepared())

    def run(self, report: Report | None = None) -> RunResult:
        """Make the run, or go on with it, to its end.

        Raises `MissingParty` where silos did not answer within the limit of a phase and the planned
        rule of dropouts does not let the round go on, `ProtocolFault` where one of them refused.
        """
        while True:
            seat, ready = self._ready()
            with ready.writer, sigterm_as_interrupt():
                try:
                    result = execute(
                        ready.prepared,
                        ready.absolute,
                        ready.writer,
                        progress=ready.progress,
                        report=report,
                    )
                except MissingParty:
                    if not seat.giving_up:
                        raise
                    continue
            self._finish(seat)
            self._tell(f"The run is closed after {result.rounds} rounds.")
            return result

    def run_to_the_end(self) -> None:
        """Make the run, or go on with it, and tell how far it came; raises what `run` raises.

        Where it is closed the silos are told so once more.
        """
        if self.closed:
            self.tell_again()
            self._tell("The run is closed, and the silos were told so.")
        else:
            self.run(self._measured)

    def _measured(self, measurement: RoundMeasurement, rounds: int) -> None:
        epsilon = max(measurement.epsilon.values(), default=None)
        spent = "" if epsilon is None else f", epsilon {epsilon:.4g} so far"
        number = measurement.round
        if self._asks:
            self._tell(f"Round {number} of {rounds} is released{spent}.")
        else:  # of an earlier start, which did not come to measure it
            self._tell(f"The run goes on behind round {number} of {rounds}{spent}.")

    def tell_again(self) -> None:
        """Tell the silos of a run that is closed here that it is done."""
        self._finish(self._seat(self._next_start()))

    @property
    def closed(self) -> bool:
        """Whether the run is done here."""
        return (
            not is_new_or_empty(self._run_folder) and read_log_progress(self._run_folder).complete
        )

    def _ready(self) -> tuple[ServerSeat, ReadyRun]:
        seat = self._seat(self._next_start())
        if is_new_or_empty(self._run_folder):
            return seat, ready_new_run(self._configuration, self._run_folder, seat=seat)
        return seat, ready_to_resume(None, self._run_folder, seat=seat)

    def _next_start(self) -> Starts:
        before = self._journal.starts()
        run = before.run or secrets.token_hex(_RUN_BYTES)
        starts = Starts(run, before.segment + 1, self.plan.digest.hex())
        self._journal.begin(starts)
        return starts

    def _seat(self, starts: Starts) -> ServerSeat:
        def greet(number: int, _: Checkpoint) -> Mapping[int, tuple[bytes, Hello]]:
            return self._greeted(starts, number)

        def exchange(
            number: int, phase: str, asked: Mapping[int, Enquiry]
        ) -> Mapping[int, tuple[bytes, ...]]:
            replies = self._asked(starts, number, phase, asked)
            if phase in (KEYS, VECTOR):  # they have begun the round, whatever becomes of it
                self._journal.took_part([silo_name(silo) for silo in replies], number)
            return {silo: reply.messages for silo, reply in replies.items()}

        self._starts = starts
        return ServerSeat(
            party(SERVER, self.plan, starts.run),
            self.plan.roster,
            self.plan.digest,
            greet,
            exchange,
            self._journal.took_part,
        )

    def _prepared(self) -> PreparedRun:
        seat = planning_seat(party(SERVER, self.plan, ""), self.plan.roster)
        return prepare(self._configuration.settings, seat=seat)

    def _greeted(self, starts: Starts, number: int) -> dict[int, tuple[bytes, Hello]]:
        """Return the signed hello of every silo; a missing one ends the start."""
        everybody = range(len(self.plan.silos))
        replies = self._asked(starts, number, HELLO, {silo: Enquiry() for silo in everybody})
        hellos = {}
        for silo in everybody:
            called = self.plan.silos[silo].name
            if silo not in replies:
                raise MissingParty(
                    f"{called} did not say hello within {self.plan.seconds} seconds.",
                    "Every silo of the plan signs what it agreed to, before the first round.",
                    "See that its guard runs and is connected, and start again.",
                )
            raw = replies[silo].hello
            hello = opened(self.plan.silos[silo].key, Hello, raw)
            same = (hello.plan, hello.version, hello.run, hello.segment, hello.name) == (
                *(self.plan.digest, code_version(), starts.run, starts.segment, silo_name(silo)),
            )
            if not same:
                raise ProtocolFault(
                    f"{called} has signed another plan, version, run or start.",
                    "All parties run one plan.",
                    "Compare the plans by their digests: privplan guard show PLAN",
                )
            hellos[silo] = (raw, hello)
        named = {silo_name(silo): hello for silo, (_, hello) in hellos.items()}
        why = self._journal.refusal_of(named)
        if why is not None:
            raise ProtocolFault(
                why,
                "An older copy of its folder was restored, and what was spent since would be "
                "spent again.",
                "Restore the newest copy; what it lacks is spent.",
            )
        self._journal.remember(named)
        return hellos

    def _finish(self, seat: ServerSeat) -> None:
        """Tell the silos that the run is done, and the last result; who is away closes later."""
        if not seat.greeted:  # what came last was before this start, and the silos are behind it
            self._greeted(self._starts, self._last_round())
        everybody = range(len(self.plan.silos))
        asked = {silo: Enquiry(result=seat.result) for silo in everybody}
        self._asked(self._starts, self._last_round(), FINISH, asked)

    def _last_round(self) -> int:
        progress = read_log_progress(self._run_folder).progress
        return 0 if progress is None else progress.last_round

    def _asked(
        self, starts: Starts, number: int, phase: str, asked: Mapping[int, Enquiry]
    ) -> dict[int, Reply]:
        """Carry a request to silos; return the replies, each signed by its silo and to this."""
        requests = {
            silo: signed(
                self._identity,
                Request(
                    self.plan.digest,
                    code_version(),
                    starts.run,
                    starts.segment,
                    number,
                    phase,
                    each.hellos,
                    each.result,
                    each.model,
                    each.messages,
                ),
            )
            for silo, each in asked.items()
        }
        self._asks = True
        self._tell(f"Round {number}, {phase}: waiting for {len(requests)} silos.")
        came = self._courier.carry(requests, self.plan.seconds)
        replies = {}
        for silo, raw in came.items():
            if silo not in requests:
                continue
            called = self.plan.silos[silo].name
            reply = opened(self.plan.silos[silo].key, Reply, raw)
            if reply.request != digest_of(requests[silo]):
                raise ProtocolFault(
                    f"A reply of {called} is to another request.",
                    "It was kept back, or sent twice.",
                    "Find out who carried it, and start again; the round is spent.",
                )
            refused = _line_of(reply.refused)
            if refused and self._dropouts and phase != HELLO:
                self._tell(f"{called} refused, and counts as missing: {refused}")
                continue
            if refused == STARTED_ANEW:
                raise MissingParty(
                    f"The guard of {called} was started anew in the middle of round {number}.",
                    "What it had begun is spent, and it goes on by itself; nothing else is lost.",
                    "Start the server again: the run goes on behind that round.",
                )
            if refused:
                raise ProtocolFault(
                    f"{called} refused: {refused}",
                    "A guard takes the next step of the plan that its silo signed, and no other.",
                    "Mend that, and start again; what was begun is spent.",
                )
            replies[silo] = reply
        late = [self.plan.silos[silo].name for silo in sorted(set(requests) - set(replies))]
        if late:
            self._tell(f"Round {number}, {phase}: nothing came in time of {', '.join(late)}.")
        return replies


def _line_of(text: str) -> str:
    """Return what another party says as one line for a screen, whatever it sent."""
    return "".join(char if char.isprintable() else " " for char in text)[:_MAX_SENTENCE]
