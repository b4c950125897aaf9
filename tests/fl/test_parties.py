"""Parties, messages and the network between them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgpack
import pytest

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.accountant.randomness import Secret
from privplan.fl.parties.network import SERVER, Body, Message, Network, Post, silo_name

from ..cases import for_each

SESSION = bytes(range(16))


@dataclass(frozen=True)
class Full(Body):
    kind: ClassVar[str] = "full"
    number: int
    words: bytes
    parts: tuple[bytes, ...]
    by_name: Mapping[str, int]


@dataclass(frozen=True)
class Bye(Body):
    kind: ClassVar[str] = "bye"
    number: int


@dataclass(frozen=True)
class Pair(Body):
    kind: ClassVar[str] = "pair"
    number: int
    words: bytes


LIMITS = {Full: 1_000, Bye: 20}

A = Full(-5, b"\x00\xff", (b"a", b""), {"silo-0": 3})


def two(**others: object) -> tuple[Network, Post, Post]:
    network = Network([SERVER, silo_name(0)], keep=True, **others)  # type: ignore[arg-type]
    server, silo = network.post(SERVER), network.post("silo-0")
    server.enter(SESSION, 1, LIMITS)
    silo.enter(SESSION, 1, LIMITS)
    return network, server, silo


def test_a_body_arrives_as_it_was_sent() -> None:
    network, server, silo = two()
    silo.send(SERVER, A)
    assert server.receive(Full, "silo-0") == A
    server.leave()
    assert network.sent == {SERVER: 0, "silo-0": len(A.pack())}


@for_each(
    "raw",
    [
        b"",
        b"\xc1",
        b"\x90",
        A.pack() + b"\x00",
        A.pack()[:-1],
        Bye(1).pack(),
        msgpack.packb(["1", b"", (), {}]),
        msgpack.packb([True, b"", (), {}]),
        msgpack.packb([1.0, b"", (), {}]),
        msgpack.packb([1, "text", (), {}]),
        msgpack.packb([1, b"", (b"", 1), {}]),
        msgpack.packb([1, b"", (), {"a": b"1"}]),
        msgpack.packb([1, b"", (), {3: 1}]),
        msgpack.packb([2**63, b"", (), {}]),
        msgpack.packb([1, b"", (), {"a": 2**64 - 1}]),
        msgpack.packb([1, b"", msgpack.ExtType(5, b""), {}]),
        msgpack.packb([1, b"", (msgpack.Timestamp(1, 2),), {}]),
        b"\x94\x01\xc4\x00\x90\x81\xa1\xff\x01",  # a name that is no UTF-8
        b"\x94\x01\xc4\x00\xdd\xff\xff\xff\xff",  # a list of 2^32 - 1
        b"\x91" * 100_000,
    ],
)
def test_bytes_that_hold_another_body_are_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolFault, match="well-formed") as caught:
        Full.unpack(raw)
    assert caught.value.__context__ is None  # what the library says quotes the bytes


def test_other_types_names_that_stand_twice_and_bodies_without_a_kind_are_refused() -> None:
    """MessagePack's are named tuples: of an integer and bytes, as this body is."""
    with pytest.raises(ProtocolFault, match="well-formed"):
        Pair.unpack(msgpack.packb(msgpack.ExtType(5, b"bytes")))
    # The later entry would hide the first, and parties could read different ones.
    twice = b"\x94\x01\xc4\x00\x90\x82\xa1a\x01\xa1a\x02"
    with pytest.raises(ProtocolFault, match="well-formed"):
        Full.unpack(twice)
    assert Full.unpack(twice.replace(b"\xa1a\x02", b"\xa1b\x02")).by_name == {"a": 1, "b": 2}

    class Nothing(Body):
        pass

    with pytest.raises(InvalidInput, match="must be a dataclass with a kind"):
        Nothing().pack()


@for_each(
    "body",
    [
        Full(1, Secret(b"SECRET"), (), {}),
        Full(1, b"", (b"", Secret(b"SECRET")), {}),
        Full(1, b"", (), {"a": 2**63}),
        Full(-(2**63) - 1, b"", (), {}),
        Full("1", b"", (), {}),  # type: ignore[arg-type]
        Full(True, b"", (), {}),
        Full(1, bytearray(2), (), {}),
        Full(1, b"", [b""], {}),  # type: ignore[arg-type]
    ],
)
def test_neither_a_secret_nor_another_type_is_ever_sent(body: Full) -> None:
    network, _, silo = two()
    with pytest.raises(InvalidInput, match="type that it must have") as caught:
        silo.send(SERVER, body)
    assert "SECRET" not in str(caught.value)
    assert not network.view(SERVER)


def test_the_longest_integers_travel_and_a_message_shows_no_body() -> None:
    for number in (-(2**63), 2**63 - 1):
        assert Bye.unpack(Bye(number).pack()) == Bye(number)
    network, _, silo = two()
    silo.send(SERVER, Full(1, b"SECRET", (), {}))
    assert "SECRET" not in repr(network.view(SERVER))


def test_nobody_speaks_or_listens_outside_a_round() -> None:
    network = Network(["a", "b"])
    first, second = network.post("a"), network.post("b")
    with pytest.raises(InvalidInput, match="in no round"):
        first.send("b", Bye(1))
    first.enter(SESSION, 1, LIMITS)
    first.send("b", Bye(1))
    with pytest.raises(InvalidInput, match="in no round"):
        second.receive(Bye, "a")
    first.leave()
    with pytest.raises(InvalidInput, match="in no round"):
        first.send("b", Bye(2))


@for_each(("session", "number"), [(b"", 1), (16, 1), ("s", 1), (b"s", -1)])
def test_a_round_needs_a_session_and_a_number(session: Any, number: int) -> None:
    with pytest.raises(InvalidInput):
        Network(["a"]).post("a").enter(session, number, LIMITS)


def test_every_prefix_and_every_flipped_bit_is_understood_or_refused() -> None:
    whole = A.pack()
    for cut in range(len(whole)):
        with pytest.raises(ProtocolFault):
            Full.unpack(whole[:cut])
    for place, bit in itertools.product(range(len(whole)), range(8)):
        raw = bytearray(whole)
        raw[place] ^= 1 << bit
        try:
            found = Full.unpack(bytes(raw))
        except ProtocolFault:
            continue
        assert isinstance(found.number, int)
        assert all(isinstance(one, bytes) for one in found.parts)


def test_what_is_missing_another_too_often_or_too_late_is_found() -> None:
    _, server, silo = two()
    with pytest.raises(MissingParty, match="silo-0 did not send 'bye' to server in time"):
        server.receive(Bye, "silo-0")
    assert server.gather_present(Bye, ["silo-0"]) == {}
    silo.send(SERVER, Bye(1))
    with pytest.raises(ProtocolFault, match="is not 'full'"):
        server.receive(Full, "silo-0")
    _, server, silo = two(meddling=lambda message: (message, message))
    silo.send(SERVER, Bye(1))
    assert server.receive(Bye, "silo-0") == Bye(1)
    with pytest.raises(ProtocolFault, match="nobody asked for"):
        server.leave()
    _, server, silo = two()
    silo.send(SERVER, Bye(1))
    with pytest.raises(ProtocolFault, match="nobody asked for"):
        server.enter(SESSION, 2, LIMITS)


@for_each(("session", "number"), [(SESSION, 2), (bytes(16), 1)])
def test_another_round_or_session_is_refused(session: bytes, number: int) -> None:
    _, server, silo = two()
    silo.enter(session, number, LIMITS)
    silo.send(SERVER, Bye(1))
    with pytest.raises(ProtocolFault, match="another session or round"):
        server.receive(Bye, "silo-0")


def test_a_party_that_was_away_lets_old_messages_go() -> None:
    _, server, silo = two()
    silo.send(SERVER, Bye(1))
    server.enter(SESSION, 2, LIMITS, forget=True)
    silo.enter(SESSION, 2, LIMITS)
    silo.send(SERVER, Bye(2))
    assert server.receive(Bye, "silo-0") == Bye(2)


def test_a_view_is_what_was_received_and_nothing_else() -> None:
    def lose_the_second(message: Message) -> Iterable[Message]:
        return () if Bye.unpack(message.body).number == 2 else (message,)

    network, server, silo = two(meddling=lose_the_second)
    silo.send(SERVER, Bye(1))
    silo.send(SERVER, Bye(2))
    server.send("silo-0", Bye(3))
    assert [Bye.unpack(one.body).number for one in network.view(SERVER)] == [1]
    assert [Bye.unpack(one.body).number for one in network.said(SERVER)] == [3]


def test_a_name_has_one_post_and_knows_only_parties() -> None:
    network = Network(["a", "b"])
    own = network.post("a")
    for wrong in (
        lambda: network.post("a"),
        lambda: network.post("c"),
        lambda: own.send("c", Bye(1)),
        lambda: own.send("a", Bye(1)),
        lambda: Network(["a", "a"]),
    ):
        with pytest.raises(InvalidInput):
            wrong()
