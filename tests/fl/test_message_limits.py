"""What another party sends is measured before it is read, and read before anything is made of it.

A message of 4 MB takes no memory to speak of, whatever it holds and whatever it is said to be.
"""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Final

import msgpack
import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, ProtocolFault
from privplan.accountant.mechanisms import Gate, LaplaceMessages, RoundDescription
from privplan.accountant.randomness import Streams
from privplan.fl.crypto.fixed_point_sums import FixedPoint
from privplan.fl.crypto.keys import Identity
from privplan.fl.disco import float_shares
from privplan.fl.fedpower.noise_removal.driver import NoiseRemoval
from privplan.fl.fedpower.noise_removal.messages import round_limits, setup_limits
from privplan.fl.fedpower.noise_removal.terms import RoundTerms
from privplan.fl.fedpower.noise_removal.terms import Terms as NoiseTerms
from privplan.fl.observers.names import COORDINATOR
from privplan.fl.parties import party_network
from privplan.fl.parties.message_bodies import Body, Limits, named, room, scalars
from privplan.fl.parties.network import SERVER, Message, Network, silo_name
from privplan.fl.secagg import decentralised, gathering
from privplan.fl.secagg import messages as sums
from privplan.fl.secagg.committee import Committee
from privplan.fl.secagg.group import Group
from privplan.fl.secagg.group import limits as sum_limits
from privplan.fl.secagg.terms import choose
from privplan.fl.shuffling import Shuffling
from privplan.fl.shuffling import Terms as ShuffleTerms
from privplan.fl.uldp.weighting import published_messages as published
from privplan.fl.uldp.weighting.messages import limits as weighting_limits
from privplan.fl.uldp.weighting.protocol import PrivateWeighting, names
from privplan.fl.uldp.weighting.published import PublishedWeighting
from privplan.fl.uldp.weighting.terms import WeightingTerms

from ..accountant.mechanism_tickets import Memory
from ..cases import for_each

LONG: Final = 4 * 10**6
LITTLE: Final = 2_000_000
"""Bytes that reading a message of four million may take."""

SESSION: Final = bytes(range(16))

DRAWN_BY: Final = ("nobody", "server", "oblivious-transfer")


@contextmanager
def little_memory() -> Iterator[None]:
    """Require that a block never holds more memory than that, beyond what there was."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LITTLE


HOSTILE: Final[dict[str, bytes]] = {
    "empty mappings": b"\x80" * LONG,
    "a list of empty mappings": b"\xdd" + struct.pack(">I", LONG) + b"\x80" * LONG,
    "a list of four billion": b"\xdd\xff\xff\xff\xff" + b"\x00" * LONG,
    "nested lists": b"\x91" * LONG,
    "lists of fifteen": b"\x9f" * LONG,
    "nested mappings": b"\x81\xa1a" * (LONG // 3),
    "a mapping of lists": b"\xdf" + struct.pack(">I", LONG // 4) + b"\x90" * LONG,
    "huge integers": b"\x91" + b"\xcf" + b"\xff" * LONG,
    "extensions": b"\xc7\x00\x05" * (LONG // 3),
    "bytes that are not there": b"\x91\xc6\xff\xff\xff\xff" + b"\x00" * LONG,
    "nothing": b"\xc0" * LONG,
}


def weighting(drawn_by: str = "nobody") -> WeightingTerms:
    more: dict[str, Any] = {"slots": 3, "chosen": 2} if drawn_by == DRAWN_BY[2] else {}
    return WeightingTerms(
        users=3, silos=3, dimensions=9, largest=2**9 - 1, tail=2**40, key_bits=256, count_limit=10,
        digits=10, weak_key=True, drawn_by=drawn_by, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def group_of(silos: int = 4) -> Group:
    roster = {silo_name(one): Identity.new().public for one in range(silos)}
    return Group(choose(silos, length=5, dropouts=1), roster, SESSION)


def peers(count: int = 3) -> tuple[decentralised.Group, dict[str, Identity]]:
    own = {f"peer-{one}": Identity.new() for one in range(count)}
    grid = FixedPoint(step=2.0**-10, bound=100.0, terms=count, modulus=2**64)
    roster = {name: identity.public for name, identity in own.items()}
    return decentralised.Group(roster, count, grid, length=7), own


FLOAT_TENSORS: Final = (5, 2)

NOISE: Final = RoundTerms(NoiseTerms(3, 256, weak=True), 40, 1000)


TABLES: Final[Mapping[str, Callable[[], Limits]]] = {
    "masked sum": lambda: sum_limits(group_of()),
    "weighting": lambda: weighting_limits(weighting(DRAWN_BY[2])),
    "decentralised sum": lambda: peers()[0].limits,
    "float shares": lambda: float_shares.limits(FLOAT_TENSORS),
    "gathering": lambda: gathering.limits(peers()[0], SESSION),
    "published": lambda: published.limits(3, 3, 256, 9),
    "shuffle": lambda: ShuffleTerms(4, 3, 2, padded_to=5).limits,
    "noise removal": lambda: {**setup_limits(NOISE.session), **round_limits(NOISE)},
}

KINDS: Final = [(name, kind) for name, table in TABLES.items() for kind in table()]


# --- every kind, every limit ----------------------------------------------------------------------


def test_every_kind_of_message_has_a_limit() -> None:
    def every(kind: type[Body]) -> set[type[Body]]:
        return {kind}.union(*map(every, kind.__subclasses__()))

    ours = {kind for kind in every(Body) - {Body} if kind.__module__.startswith("privplan.fl.")}
    # What a network carries around them is limited as a whole: test_network_refusals.
    around = ("privplan.fl.network.", party_network.__name__)
    ours = {kind for kind in ours if not kind.__module__.startswith(around)}
    assert ours == {kind for _, kind in KINDS}


@for_each(("name", "kind"), KINDS)
def test_a_message_that_is_too_long_is_the_fault_of_who_sent_it(
    name: str, kind: type[Body]
) -> None:
    limits = TABLES[name]()
    for raw in (bytes(limits[kind] + 1), HOSTILE["a list of empty mappings"]):
        network = Network(["a", "b"], meddling=lambda one, raw=raw: [replace(one, body=raw)])
        sender, receiver = network.post("a"), network.post("b")
        for post in (sender, receiver):
            post.enter(SESSION, 1, limits)
        sender.send("b", filled(kind))
        with little_memory(), pytest.raises(ProtocolFault, match="from a to b is longer") as caught:
            receiver.receive(kind, "a")
        assert caught.value.next_step


def filled(kind: type[Body]) -> Body:
    """Return a body of a kind that holds nothing."""
    empty: dict[str, Any] = {"tuple": (), "Mapping": {}, "bytes": b"", "int": 0, "str": ""}
    return kind(*[empty[str(item.type).split("[")[0]] for item in fields(kind)])  # type: ignore[arg-type]


@for_each("what", HOSTILE)
@for_each("kind", [one for _, one in KINDS if one is not sums.MaskedWords])
def test_reading_hostile_bytes_takes_next_to_no_memory(kind: type[Body], what: str) -> None:
    """Even where nobody measured them: what is wrong is seen before what follows is read."""
    with little_memory(), pytest.raises(ProtocolFault, match="well-formed"):
        kind.unpack(HOSTILE[what])


@for_each("what", HOSTILE)
def test_a_right_beginning_does_not_help(what: str) -> None:
    head = msgpack.packb([b"", {}], use_bin_type=True)[:-1]  # all but the mapping
    raw = head + HOSTILE[what]
    with little_memory(), pytest.raises(ProtocolFault):
        sums.Shares.unpack(raw)


@dataclass(frozen=True)
class Anything(Body):
    kind: ClassVar[str] = "limits-anything"
    number: int
    text: str
    parts: tuple[bytes, ...]
    numbers: tuple[int, ...]
    by_name: Mapping[str, bytes]


EDGES: Final = [0, 1, 127, 128, 255, 256, 2**16 - 1, 2**16, 2**32 - 1, 2**32, 2**63 - 1]
INTEGERS: Final = [*EDGES, -1, -32, -33, -128, -129, -(2**15) - 1, -(2**31) - 1, -(2**63)]


@for_each("length", [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_what_is_packed_is_read_at_every_length_of_a_header(length: int) -> None:
    names = {f"name-{one}": b"" for one in range(min(length, 300))}
    sent = Anything(7, "é" * length, (b"\x80" * length,) * 20, tuple(INTEGERS), names)
    raw = sent.pack()
    assert Anything.unpack(raw) == sent
    inside = [len(sent.text.encode()), *[length] * 20, *[8] * len(INTEGERS)]
    assert len(raw) <= room(8, *inside, *named(names, 0))
    assert list(scalars(raw)) == [
        7, sent.text, *sent.parts, *sent.numbers,
        *[part for pair in names.items() for part in pair],
    ]  # fmt: skip


def test_as_many_names_as_a_long_header_counts() -> None:
    sent = Anything(0, "", (), (), {str(one): b"" for one in range(70_000)})
    assert Anything.unpack(sent.pack()) == sent


@for_each("what", HOSTILE)
def test_looking_through_a_transcript_makes_nothing_of_lists(what: str) -> None:
    raw = HOSTILE[what][:30_000]
    with little_memory(), pytest.raises(ProtocolFault):
        assert list(scalars(raw)) == []


def test_a_kind_that_a_round_has_no_limit_for_is_not_read() -> None:
    network = Network(["a", "b"])
    sender, receiver = network.post("a"), network.post("b")
    sender.enter(SESSION, 1, {})
    receiver.enter(SESSION, 1, {})
    sender.send("b", filled(Anything))
    with pytest.raises(InvalidInput, match="takes no"):
        receiver.receive(Anything, "a")


# --- whole protocols ------------------------------------------------------------------------------


class Meddler:
    """Puts hostile bytes in the place of the first message of a kind."""

    def __init__(self, kind: type[Body]) -> None:
        self.kind, self.done = kind.kind, False
        self.longest: dict[str, int] = {}

    def __call__(self, message: Message) -> Iterable[Message]:
        most = max(message.size, self.longest.get(message.kind, 0))
        self.longest[message.kind] = most
        if self.done or message.kind != self.kind:
            return [message]
        self.done = True
        return [replace(message, body=HOSTILE["a list of empty mappings"])]


def masked(meddler: Meddler) -> None:
    network = Network([SERVER, *map(silo_name, range(4))], meddling=meddler)
    committee = Committee.on(network, choose(4, length=5, dropouts=1), SESSION)
    words = np.arange(5, dtype=np.uint64)
    committee.sum(1, dict.fromkeys(map(silo_name, range(4)), words))


def weighted(meddler: Meddler, drawn_by: str = "nobody") -> None:
    terms = weighting(drawn_by)
    counts = np.array([[1, 2, 3], [0, 3, 1], [1, 0, 0]])
    session = PrivateWeighting(terms, counts, Network(names(terms), meddling=meddler))
    extra: dict[str, Any] = {
        "nobody": {},
        "server": {"joining": np.array([True, False, True])},
        "oblivious-transfer": {"stream": Streams.seeded(2).stream("slots")},
    }[drawn_by]
    digits = np.full((1, 9), 100)
    session.round(1, [([0], digits), ([0], digits), ([1], digits)], [[5] * 9] * 3, **extra)


def among_peers(meddler: Meddler) -> None:
    group, own = peers()
    network = Network(list(own), meddling=meddler)
    posts = {name: network.post(name) for name in own}
    inputs = dict.fromkeys(own, np.arange(7))
    decentralised.decentralised_sum(posts, group, own, SESSION, 1, inputs)


def gathered(meddler: Meddler) -> None:
    agreed, own = peers()
    network = Network([*own, COORDINATOR], meddling=meddler)
    posts = {name: network.post(name) for name in network.names}
    inputs = dict.fromkeys(own, np.arange(7))
    gathering.gathered_sum(posts, agreed, own, SESSION, 1, inputs)


def shared_as_floats(meddler: Meddler) -> None:
    by = float_shares.FloatShareAggregator(3)
    by.network._meddling = meddler
    by.float_total(1, np.zeros((3, sum(FLOAT_TENSORS))), FLOAT_TENSORS)


def as_published(meddler: Meddler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "privplan.fl.uldp.weighting.published.Network",
        lambda parties, keep: Network(parties, keep=keep, meddling=meddler),
    )
    session = PublishedWeighting([[1, 2, 3], [2, 3, 1], [1, 1, 1]], key_bits=256, count_limit=6)
    session.round(1, np.zeros((3, 3, 9)), np.zeros((3, 9)))


def shuffled(meddler: Meddler) -> None:
    mechanism = LaplaceMessages(1.0, 4.0)
    about = RoundDescription(1, "test", draws=2, event_override=ev.NoGuarantee("a test"))
    gate = Gate(None, Memory(), Streams.seeded(1))
    own = Shuffling(ShuffleTerms(4, 3, 2, padded_to=5))
    own.network._meddling = meddler
    ticket = gate.open(mechanism.intent(about, "replace-one"))
    places = np.array([[0, 1], [1, 2], [2, 0], [0, 1]])
    own.round(1, ticket, np.zeros((4, 2), int), places=places, mechanism=mechanism)


def noise_removed(meddler: Meddler) -> None:
    network = Network([SERVER, *map(silo_name, range(3))], meddling=meddler)
    posts = {name: network.post(name) for name in network.names}
    session = NoiseRemoval(posts, 3, key_bits=256, weak=True)
    session.removed(1, [lambda: np.ones(40, np.int64)] * 3, largest=1000)


def of(table: str) -> list[type[Body]]:
    return [kind for name, kind in KINDS if name == table]


PROTOCOLS: Final[dict[str, Callable[..., None]]] = {
    "masked sum": masked,
    "weighting": weighted,
    "decentralised sum": among_peers,
    "gathering": gathered,
    "float shares": shared_as_floats,
    "shuffle": shuffled,
    "noise removal": noise_removed,
    "published": as_published,
}


@for_each(("name", "kind"), [*KINDS, *(("gathering", one) for one in of("decentralised sum"))])
def test_a_protocol_ends_at_a_message_that_is_too_long(
    name: str, kind: type[Body], monkeypatch: pytest.MonkeyPatch
) -> None:
    meddler, more = Meddler(kind), {}
    if name == "published":
        more = {"monkeypatch": monkeypatch}
    elif "transfer" in kind.kind:
        more = {"drawn_by": DRAWN_BY[2]}
    with little_memory(), pytest.raises(ProtocolFault, match="longer"):
        PROTOCOLS[name](meddler, **more)
    assert meddler.done


def test_limits_are_near_to_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit far above what a protocol needs would be none."""
    every: list[tuple[Callable[[Meddler], None], Limits]] = [
        (masked, TABLES["masked sum"]()),
        *((partial(weighted, drawn_by=one), weighting_limits(weighting(one))) for one in DRAWN_BY),
        (among_peers, TABLES["decentralised sum"]()),
        (gathered, TABLES["gathering"]()),
        (shared_as_floats, TABLES["float shares"]()),
        (shuffled, TABLES["shuffle"]()),
        (noise_removed, TABLES["noise removal"]()),
        (partial(as_published, monkeypatch=monkeypatch), TABLES["published"]()),
    ]
    seen = set()
    for carry_out, limits in every:
        never = Meddler(Anything)
        carry_out(never)
        for kind, most in limits.items():
            if kind.kind in never.longest:
                seen.add(kind)
                assert never.longest[kind.kind] <= most <= 3 * never.longest[kind.kind] + 100, kind
    assert seen == {kind for _, kind in KINDS}
