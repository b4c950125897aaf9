"""The seat of the server: no records, no noise, and the sum of what the guards give out.

Every step of a sum is one exchange: a request to each silo, and their replies.  A silo that did not
reply in time is missing; whether the round goes on without it, the rule of dropouts says that was
planned, and no other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

import numpy as np

from ...accountant import records
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import MissingParty, ProtocolFault
from ..aggregation.masked_sums import MaskedAggregator, signed
from ..aggregation.sums import Aggregator, Silo, Sum, check_largest
from ..crypto.keys import framed
from ..frame.model import model_digest
from ..parties.network import SERVER, silo_name
from ..parties.party_network import PartyNetwork
from ..running.checkpoint import Checkpoint
from ..secagg.group import Group
from ..secagg.server import Server
from .planned_run import HeldRecords
from .wire import (
    CONFIRM,
    KEYS,
    RECOVER,
    SHARES,
    VECTOR,
    WORDS,
    Hello,
    ReleasedModel,
    Result,
    session_of,
)

if TYPE_CHECKING:
    from ..data.federation import Federation
    from ..frame.system import System
    from ..settings.schema import Settings


@dataclass(frozen=True)
class Enquiry:
    """What a request holds for one silo; see `wire.Request`."""

    hellos: tuple[bytes, ...] = ()
    result: bytes = b""
    model: bytes = b""
    messages: tuple[bytes, ...] = ()


class Exchange(Protocol):
    """Asks silos, each by its number; returns the messages of those who replied in time."""

    def __call__(
        self, number: int, phase: str, asked: Mapping[int, Enquiry]
    ) -> Mapping[int, tuple[bytes, ...]]: ...


@dataclass
class ServerSeat:
    """The server of a run.

    `greet` asks every silo for its hello at a start, from the number of the next round and the
    model it starts from, and returns them, signed and read.  `exchange` carries a step of a round;
    `took_part` is told of whom a result is.
    """

    party: records.Party
    roster: Mapping[str, bytes]
    plan: bytes
    greet: Callable[[int, Checkpoint], Mapping[int, tuple[bytes, Hello]]]
    exchange: Exchange
    took_part: Callable[[Sequence[str], int], None]
    drawn_here: int = 0
    giving_up: bool = False
    result: bytes = b""
    _hellos: Mapping[int, tuple[bytes, Hello]] = field(default_factory=dict)
    _first: dict[int, Enquiry] = field(default_factory=dict)
    _followed: frozenset[int] = frozenset()
    """The silos that were there to the end of the last round: they make its model themselves."""

    def federation(self, settings: Settings) -> tuple[Federation, dict[str, str]]:
        """Return a federation without any record."""
        return HeldRecords(None).federation(settings)

    def connect(self, system: System) -> None:
        """Have the system's sums made of what the silos send."""
        by: Aggregator = system.aggregator  # type: ignore[attr-defined]
        sums = MaskedSums(self, by) if isinstance(by, MaskedAggregator) else PlainSums(self, by)
        system.aggregator = sums  # type: ignore[attr-defined]

    def turn(self, number: int, kept: Checkpoint) -> Checkpoint:
        """Return `kept`: the server has released all models itself.

        At a start every silo says how far it has come.  Where one has begun this round already, it
        is begun here as well, and given up: it is spent everywhere.
        """
        if not self._hellos:
            self._hellos = self.greet(number, kept)
        self.giving_up = number <= _begun_by_silos([h.round for _, h in self._hellos.values()])
        signed_hellos = tuple(self._hellos[silo][0] for silo in sorted(self._hellos))
        fresh = not self.result  # the first round of a start
        digest = model_digest(kept.parameters)
        behind = {
            silo
            for silo, (_, hello) in self._hellos.items()
            if (hello.model != digest if fresh else silo not in self._followed)
        }
        model = ReleasedModel.of(kept.round, kept.parameters, kept.state).pack() if behind else b""
        self._first = {
            silo: Enquiry(
                hellos=signed_hellos if fresh else (),
                result=self.result,
                model=model if silo in behind else b"",
            )
            for silo in self._hellos
        }
        return kept

    @property
    def greeted(self) -> bool:
        """Whether the silos have said hello in this start."""
        return bool(self._hellos)

    def begin(self, number: int) -> dict[int, Enquiry]:
        """Return what the first requests of a round hold; `MissingParty` where it is given up."""
        if self.giving_up:
            raise MissingParty(
                f"Round {number} was begun by a silo, and this log did not know it.",
                "It is spent there, so it is spent here; an older copy of this log was restored.",
                "Nothing is to be done: the run goes on with the next round.",
            )
        return self._first

    def session(self) -> bytes:
        """Return the session of this start."""
        hellos = tuple(self._hellos[silo][0] for silo in sorted(self._hellos))
        return session_of(self.plan, hellos)

    def summed(
        self, number: int, total: IntArray, silos: tuple[int, ...], followed: Collection[int]
    ) -> Sum:
        """Keep the result of a round for the silos; `followed` were there at its end."""
        self.result = Result.of(number, total, silos).pack()
        self._followed = frozenset(followed)
        self.took_part([silo_name(silo) for silo in silos], number)
        return Sum(total, silos, made_here=())


def _begun_by_silos(rounds: Sequence[int]) -> int:
    """Return the last round that a silo has begun, so far as another silo bears that out.

    A silo that is alone is believed for one round more than the others: one that lies spends no
    more than a round at each start, and is not able to spend a whole plan.
    """
    *_, second, largest = sorted(rounds)
    return min(largest, second + 1)


def planning_seat(party: records.Party, roster: Mapping[str, bytes]) -> ServerSeat:
    """Return the seat of a server that only plans a run, and asks nobody."""

    def nobody(*_: object) -> NoReturn:
        raise MissingParty("A run that is only planned asks no silo.")

    def exchange(
        number: int, phase: str, asked: Mapping[int, Enquiry]
    ) -> Mapping[int, tuple[bytes, ...]]:
        return nobody(number, phase, asked)

    return ServerSeat(party, roster, b"", nobody, exchange, nobody)


class PlainSums:
    """Sums in the clear, of vectors that the silos send."""

    network: Final = None

    def __init__(self, seat: ServerSeat, by: Aggregator) -> None:
        self._seat, self.security = seat, by.security

    def total(
        self,
        number: int,
        silos: Sequence[Silo],
        length: int,
        *,
        present: Sequence[int] | None = None,
        largest: int | None = None,
    ) -> Sum:
        """Return the sum of the silos' vectors; all of them must have come."""
        rows = self._rows(number, length, len(silos))
        for row in rows:
            check_largest(row, largest)
        total = np.asarray(np.sum(rows, axis=0, dtype=np.int64))
        everybody = tuple(range(len(silos)))
        return self._seat.summed(number, total, everybody, everybody)

    def float_rows(self, number: int, rows: FloatArray) -> FloatArray:
        """Return the rows that the silos send."""
        sent = self._rows(number, rows.shape[1], len(rows)).view(np.float64)
        total = np.asarray(np.sum(sent, axis=0))
        everybody = tuple(range(len(rows)))
        self._seat.summed(number, total.view(np.int64), everybody, everybody)
        return sent

    def _rows(self, number: int, length: int, silos: int) -> IntArray:
        asked = self._seat.begin(number)
        replies = self._seat.exchange(number, VECTOR, asked)
        rows = np.zeros((silos, length), np.int64)
        for silo in range(silos):
            sent = replies.get(silo)
            if sent is None:
                raise MissingParty(
                    f"{silo_name(silo)} did not send its vector in time (round {number}).",
                    "A sum in the clear is of all silos.",
                    "See why it is not there, and go on; the round is spent.",
                )
            if len(sent) != 1 or len(sent[0]) != 8 * length:
                raise ProtocolFault(
                    f"{silo_name(silo)} did not send {length:,} integers.",
                    "Another vector would be stretched, and its noise used more than once.",
                    "Find out which model it has, and begin again.",
                )
            rows[silo] = np.frombuffer(sent[0], "<i8")
        return rows


class MaskedSums:
    """Masked sums: the steps of `fl.secagg.server.Server`, each with one exchange before it."""

    def __init__(self, seat: ServerSeat, by: MaskedAggregator) -> None:
        self._seat, self._by, self.security = seat, by, by.security
        self.network = PartyNetwork(by.network.names, SERVER)
        self._post = self.network.post(SERVER)
        self._servers: dict[int, Server] = {}

    def total(
        self,
        number: int,
        silos: Sequence[Silo],
        length: int,
        *,
        present: Sequence[int] | None = None,
        largest: int | None = None,
    ) -> Sum:
        """Return the sum of the silos' vectors.

        Raises `MissingParty` where too few are left at any step, and as the server's steps do.
        """
        first = self._seat.begin(number)
        server = self._server(length)
        try:
            server.begin(number)
            self._exchange(number, KEYS, first, server.expected)
            server.collect_keys()
            self._exchange(number, SHARES, {}, server.expected)
            server.relay_shares()
            self._exchange(number, WORDS, {}, server.expected)
            for name in server.expected:
                server.add(name)
            server.name_survivors()
            if self._by.terms(length).signed:
                self._exchange(number, CONFIRM, {}, server.expected)
                server.relay_confirmations()
            followed = self._exchange(number, RECOVER, {}, server.expected)
            unmasked, names = server.unmask()
        except BaseException:
            server.stop()
            raise
        there = tuple(silo for silo in range(len(silos)) if silo_name(silo) in names)
        return self._seat.summed(number, signed(unmasked), there, followed)

    def _exchange(
        self, number: int, phase: str, first: Mapping[int, Enquiry], expected: Sequence[str]
    ) -> Collection[int]:
        """Carry what lies in the outbox to those from whom something is expected, and back.

        Returns the silos that replied.
        """
        asked = {}
        for silo, name in enumerate(self._seat.roster):
            messages = self.network.taken_out(name)
            if name in expected:
                asked[silo] = first.get(silo, Enquiry(messages=messages))
        replies = self._seat.exchange(number, phase, asked)
        for silo, messages in replies.items():
            for raw in messages:
                self.network.take_in(raw, silo_name(silo))
        return replies.keys()

    def _server(self, length: int) -> Server:
        if length not in self._servers:
            session = framed(
                b"privplan network sum", self._seat.session(), length.to_bytes(8, "little")
            )
            group = Group(self._by.terms(length), self._seat.roster, session)
            self._servers[length] = Server(self._post, group)
        return self._servers[length]
