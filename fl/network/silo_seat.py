"""The seat of a silo: its records, its share of the noise, and its steps of the sum.

Between `turn` and the end of a round the silo gives out what the protocol asks for, step by step,
and each of its messages answers one request.  The result of a round, a noisy sum that everybody may
see, comes with the first request of the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from ...accountant import records
from ...accountant.arrays import FloatArray
from ...accountant.errors import MissingParty, ProtocolFault
from ..aggregation.masked_sums import MaskedAggregator, words_of
from ..aggregation.sums import Aggregator, Silo, Sum, check_largest, integers_of
from ..crypto.keys import Identity, framed
from ..frame.model import model_digest
from ..parties.network import SERVER, silo_name
from ..parties.party_network import PartyNetwork
from ..running.checkpoint import Checkpoint
from ..secagg.client import Client
from ..secagg.group import Group
from .conversation import Conversation, ExpectedRequest
from .planned_run import HeldRecords
from .wire import (
    CONFIRM,
    FINISH,
    KEYS,
    RECOVER,
    SHARES,
    VECTOR,
    WORDS,
    ReleasedModel,
    Request,
    Result,
)

if TYPE_CHECKING:
    from ..data.federation import Federation
    from ..frame.system import System
    from ..settings.schema import Settings

TookPart: TypeAlias = Callable[[Sequence[str], int], None]
"""Told which silos took part in a round, when its result is known."""

NUMBERS: Final = np.dtype("<f8")


class SiloSeat:
    """One silo of a run, in the thread that makes its rounds.

    `conversation` brings requests, `last` is the last round of the plan.  `kept` is the model that
    the silo waits with for its next turn, once it does.
    """

    def __init__(
        self,
        party: records.Party,
        held: HeldRecords,
        identity: Identity,
        roster: Mapping[str, bytes],
        conversation: Conversation,
        took_part: TookPart,
    ) -> None:
        assert held.silo is not None
        self.party, self.drawn_here = party, 1
        self.silo: int = held.silo
        self.conversation, self.took_part = conversation, took_part
        self.kept: Checkpoint | None = None
        self.last = 0
        self.session = b""
        self.giving_up = False
        self.first_phase = VECTOR
        self._held, self._identity, self._roster = held, identity, dict(roster)
        self._may_be_missing = False

    def federation(self, settings: Settings) -> tuple[Federation, dict[str, str]]:
        """Return the federation in which only this silo's records are."""
        self._may_be_missing = settings.security.dropouts > 0
        return self._held.federation(settings)

    def connect(self, system: System) -> None:
        """Have the system's sums made with the others."""
        by: Aggregator = system.aggregator  # type: ignore[attr-defined]
        sums = MaskedSums(self, by) if isinstance(by, MaskedAggregator) else PlainSums(self, by)
        self.first_phase = KEYS if isinstance(sums, MaskedSums) else VECTOR
        system.aggregator = sums  # type: ignore[attr-defined]

    def turn(self, number: int, kept: Checkpoint) -> Checkpoint:
        """Return what round `number` starts from, once the server asks for it, or for a later one.

        Where it asks for a later one, or says that the run is done, this round is begun and given
        up: it is spent everywhere.
        """
        self.kept = kept
        phases = (self.first_phase, FINISH)
        expected = ExpectedRequest(number, phases, upwards=True, last=self.last)
        request = self.conversation.next(expected)
        self.giving_up = request.round > number or request.phase == FINISH
        if self.giving_up or not request.model:
            return kept
        return _taken_over(kept, ReleasedModel.unpack(request.model))

    def begin(self, number: int) -> Request:
        """Return the request that a round began with; `MissingParty` where it is given up."""
        if self.giving_up:
            raise _made_without(number)
        return self.conversation.next(ExpectedRequest(number, (self.first_phase,)))

    def step(self, number: int, phase: str, network: PartyNetwork) -> None:
        """Give out what lies in the outbox, and take in what comes with the next request.

        Raises `MissingParty` where the server went on without this silo: the round is given up, and
        the request is taken up again by the next turn.
        """
        self.conversation.answer(network.taken_out())
        request = self._next(
            number, ExpectedRequest(number, (phase,), last=self.last, later=self._later)
        )
        for raw in request.messages:
            network.take_in(raw, SERVER)

    def _next(self, number: int, expected: ExpectedRequest) -> Request:
        request = self.conversation.next(expected)
        if expected.gives_up(request):
            self.giving_up = True
            raise _made_without(number)
        return request

    @property
    def _later(self) -> tuple[str, ...]:
        """The phases by which a server goes on without this silo, where the plan lets it."""
        return (self.first_phase, FINISH) if self._may_be_missing else ()

    def result(self, number: int, length: int, sent: tuple[bytes, ...]) -> Sum:
        """Give out the last messages of a round, and return its sum when it comes."""
        self.conversation.answer(sent)
        first = FINISH if number >= self.last else self.first_phase
        expected = ExpectedRequest(
            number + 1, (first,), last=self.last, result_of=number, later=self._later
        )
        request = self._next(number, expected)
        result = Result.unpack(request.result)
        if result.round != number or not _are_silos(result.silos, len(self._roster)):
            raise ProtocolFault(
                f"The result of round {number} did not come with what follows it.",
                "A silo goes on from the sum of what the silos gave out, and from nothing else.",
                "Find out what the server did; the round is spent.",
            )
        self.took_part([silo_name(silo) for silo in result.silos], number)
        return Sum(result.steps(length), result.silos, made_here=(self.silo,))

    def group(self, by: MaskedAggregator, length: int) -> Group:
        """Return the group of this start for a sum of so many integers."""
        session = framed(b"privplan network sum", self.session, length.to_bytes(8, "little"))
        return Group(by.terms(length), self._roster, session)

    @property
    def identity(self) -> Identity:
        """The silo's own key, by which the others know it."""
        return self._identity


class PlainSums:
    """Sums in the clear: the server gets this silo's vector, and sends the sum."""

    network: Final = None

    def __init__(self, seat: SiloSeat, by: Aggregator) -> None:
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
        """Return the sum of all silos' vectors, of which only this silo's is made here."""
        _require_all(present)
        seat = self._seat
        seat.begin(number)
        sent = integers_of(silos[seat.silo], seat.silo)
        check_largest(sent, largest)
        return seat.result(number, length, (np.ascontiguousarray(sent, "<i8").tobytes(),))

    def float_rows(self, number: int, rows: FloatArray) -> FloatArray:
        """Return the sum of all silos' rows as one row, of which only this silo's is known here."""
        seat = self._seat
        seat.begin(number)
        row = np.ascontiguousarray(rows[seat.silo], NUMBERS)
        summed = seat.result(number, row.size, (row.tobytes(),))
        return summed.total.view(np.float64).reshape(1, -1)


class MaskedSums:
    """Masked sums: what leaves the silo hides its vector, and the sum is all that is unmasked."""

    def __init__(self, seat: SiloSeat, by: MaskedAggregator) -> None:
        self._seat, self._by, self.security = seat, by, by.security
        self.network = PartyNetwork(by.network.names, silo_name(seat.silo))
        self._post = self.network.post(self.network.here)
        self._clients: dict[int, Client] = {}

    def total(
        self,
        number: int,
        silos: Sequence[Silo],
        length: int,
        *,
        present: Sequence[int] | None = None,
        largest: int | None = None,
    ) -> Sum:
        """Return the sum of all silos' vectors, of which only this silo's is made here.

        Raises what the steps of `fl.secagg.client.Client` raise.
        """
        _require_all(present)
        seat, network = self._seat, self.network
        seat.begin(number)
        client = self._client(length)
        try:
            client.advertise(number)
            seat.step(number, SHARES, network)
            client.share()
            seat.step(number, WORDS, network)
            client.mask(lambda: words_of(silos[seat.silo], seat.silo, largest))
            if self._by.terms(length).signed:
                seat.step(number, CONFIRM, network)
                client.confirm()
            seat.step(number, RECOVER, network)
            client.recover()
            received = seat.result(number, length, network.taken_out())
            client.finish()
        except BaseException:
            client.stop()
            raise
        return received

    def _client(self, length: int) -> Client:
        if length not in self._clients:
            group = self._seat.group(self._by, length)
            self._clients[length] = Client(self._post, group, self._seat.identity)
        return self._clients[length]


def _made_without(number: int) -> MissingParty:
    return MissingParty(
        f"Round {number} was made without this silo.",
        "The server went on with what comes after it; it is spent here all the same.",
        "Nothing is to be done: the run goes on with a later round.",
    )


def _require_all(present: Sequence[int] | None) -> None:
    if present is not None:
        raise ProtocolFault(
            "A schedule of silos does not go over a network.",
            "Every silo is asked in every round.",
            "Run it in one process.",
        )


def _are_silos(numbers: tuple[int, ...], silos: int) -> bool:
    return list(numbers) == sorted(set(numbers)) and set(numbers) <= set(range(silos))


def _taken_over(kept: Checkpoint, released: ReleasedModel) -> Checkpoint:
    """Return a model that others released while this silo was away, instead of the one it kept.

    It is public, and whatever it is, what one person moves is bounded: so it is taken as it is.
    """
    parameters = _numbers(released.parameters, kept.parameters)
    if set(released.state) != set(kept.state) or not np.isfinite(parameters).all():
        raise _other_model()
    state = {name: _numbers(released.state[name], array) for name, array in kept.state.items()}
    return replace(kept, round=released.round, parameters=parameters, state=state)


def _numbers(raw: bytes, like: FloatArray) -> FloatArray:
    if len(raw) != like.nbytes:
        raise _other_model()
    return np.frombuffer(raw, NUMBERS).astype(np.float64).reshape(like.shape)


def _other_model() -> ProtocolFault:
    return ProtocolFault(
        "The model that the server sent is of another shape than the plan's.",
        "A silo goes on from a model of the plan, and from no other.",
        "Find out what the server did; the round is spent.",
    )


def kept_digest(kept: Checkpoint | None) -> str:
    """Return the digest of the model that a silo has kept; empty where it has none."""
    return "" if kept is None else model_digest(kept.parameters)
