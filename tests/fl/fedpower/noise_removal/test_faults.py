"""Whatever goes wrong between the parties of noise removal ends it, for everybody."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault

pytest.importorskip("gmpy2")
pytest.importorskip("phe")

from privplan.fl.crypto.keys import Identity, KeyPair
from privplan.fl.crypto.paillier.keys import generate
from privplan.fl.fedpower.noise_removal import messages as said
from privplan.fl.fedpower.noise_removal.driver import NoiseRemoval
from privplan.fl.fedpower.noise_removal.introductions import Introduction
from privplan.fl.fedpower.noise_removal.terms import RoundTerms, Terms
from privplan.fl.parties.network import Body, Message

from ....cases import for_each
from ...meddling import changed, check_silence, dropped, put
from .sessions import KEY_BITS, drawn, network_of

NODES = 3
NOISES = np.array([[1_000_003] * 40, [-2_000_029] * 40, [3_000_017] * 40])
LARGEST = 2**40
KINDS = [said.ServerKey, said.NodeKey, said.NodeKeys, said.Selection, said.Removal]

Change = Callable[[Message], Iterable[Message]]


def modulus_of(bits: int) -> bytes:
    return int(generate(bits, small=True).public.n).to_bytes(-(-bits // 8), "big")


class Meddler:
    """Changes the first message of a kind that is sent to, or by, one node."""

    def __init__(self, kind: type[Body], change: Change, *, node: str = "silo-1") -> None:
        self.kind, self.change, self.node = kind.kind, change, node
        self.done, self.modulus = False, 0

    def __call__(self, message: Message) -> Iterable[Message]:
        if message.kind == said.ServerKey.kind:
            self.modulus = int.from_bytes(said.ServerKey.unpack(message.body).modulus, "big")
        right = message.kind == self.kind and self.node in (message.sender, message.receiver)
        if self.done or not right:
            return [message]
        self.done = True
        return list(self.change(message))


def carry_out(meddler: Any, noises: Any = None) -> list[int]:
    """Carry out a setup and a round; then look whether the session knows that it is over."""
    _, posts = network_of(NODES, meddling=meddler)
    session = NoiseRemoval(posts, NODES, key_bits=KEY_BITS, weak=True)
    draws = drawn(NOISES) if noises is None else noises
    try:
        return session.removed(1, draws, largest=LARGEST).tolist()
    except ProtocolFault:
        with pytest.raises(ProtocolFault, match="ended"):
            session.removed(2, drawn(NOISES), largest=LARGEST)
        raise


def stopped(meddler: Meddler, opened: list[int], kind: type[ProtocolFault] = ProtocolFault) -> str:
    """Return what the error says: nothing is decrypted, and no value shown."""
    with pytest.raises(kind) as caught:
        carry_out(meddler)
    assert meddler.done
    assert not opened
    check_silence(caught.value)
    return str(caught.value)


def test_without_a_fault_it_comes_to_its_end(opened) -> None:
    meddler = Meddler(said.Removal, lambda message: [message])
    assert len(carry_out(meddler)) == 40
    assert meddler.done
    assert len(opened) == 1


@for_each("node", ["silo-0", "silo-1", "silo-2"])
@for_each("kind", KINDS)
def test_a_message_that_is_missing_at_any_step(kind, node, opened) -> None:
    stopped(Meddler(kind, lambda _: [], node=node), opened, MissingParty)


UNEXPECTED: dict[str, Change] = {
    "twice": lambda message: [message, message],
    "another round": lambda message: [replace(message, round=message.round + 1)],
    "another session": lambda message: [replace(message, session=bytes(16))],
    "another kind": lambda message: [replace(message, kind="noise-removal.other")],
    "cut": lambda message: [replace(message, body=message.body[:-1])],
    "long": lambda message: [replace(message, body=message.body + bytes(5000))],
    "empty": lambda message: [replace(message, body=b"")],
}
FIELDS = [
    (said.ServerKey, "modulus"),
    (said.NodeKey, "public"),
    (said.NodeKey, "signature"),
    (said.Selection, "ciphertext"),
]
LENGTHS: dict[str, Callable[[bytes], bytes]] = {
    "short": lambda raw: raw[:-1],
    "one more": lambda raw: raw + b"\0",
    "empty": lambda _: b"",
    "double": lambda raw: raw + raw,
}
CIPHERTEXTS: dict[str, Callable[[Any], Any]] = {
    "one less": lambda parts: parts[:-1],
    "none": lambda _: (),
    "one more": lambda parts: (*parts, parts[0]),
    "one short": lambda parts: (parts[0][:-1], *parts[1:]),
    "one long": lambda parts: (parts[0] + b"\0", *parts[1:]),
    "one empty": lambda parts: (b"", *parts[1:]),
}
STRANGER, FOREIGN = Identity.new(), KeyPair.new()
KEYS = {
    "publics": [
        dropped("silo-2"),
        *(put(name, FOREIGN.public) for name in ("silo-3", "silo-0", "silo-1")),
        lambda keys: dict.fromkeys(keys, keys["silo-0"]),
        lambda keys: {**keys, "silo-0": keys["silo-2"], "silo-2": keys["silo-0"]},
    ],
    "signatures": [
        dropped("silo-0"),
        put("silo-0", bytes(64)),
        put("silo-2", STRANGER.sign(b"silo-2")),
    ],
}
CHANGES = [
    *((name, kind, change) for kind in KINDS for name, change in UNEXPECTED.items()),
    *(
        (f"{field} {name}", kind, changed(**{field: other}))
        for kind, field in FIELDS
        for name, other in LENGTHS.items()
    ),
    *((name, said.Removal, changed(ciphertexts=other)) for name, other in CIPHERTEXTS.items()),
    *(
        (f"{field} {number}", said.NodeKeys, changed(**{field: other}))
        for field, others in KEYS.items()
        for number, other in enumerate(others)
    ),
    *(
        (f"{bits} bits", said.ServerKey, changed(modulus=lambda _, bits=bits: modulus_of(bits)))
        for bits in (KEY_BITS // 2, KEY_BITS - 2, KEY_BITS + 2)
    ),
    *(
        ("no key", said.ServerKey, changed(modulus=lambda _, n=n: n.to_bytes(128, "big")))
        for n in (2**1023 + 2, 2**1023, (2**512 - 1) ** 2)
    ),
]


@for_each("name, kind, change", CHANGES)
def test_a_message_or_a_content_that_is_not_what_is_expected(name, kind, change, opened) -> None:
    """Other messages, lengths and numbers; other keys among the nodes, and moduli that are none."""
    assert name
    stopped(Meddler(kind, change), opened)


# --- ciphertexts ----------------------------------------------------------------------------------


def as_ciphertext(value: int) -> bytes:
    return value.to_bytes(KEY_BITS // 4, "big")


VALUES: dict[str, Callable[[int], int]] = {
    "0": lambda _: 0,
    "n": lambda n: n,
    "a multiple of n": lambda n: n * (n - 5),
    "n^2": lambda n: n * n,
    "above n^2": lambda n: n * n + 1,
    "all ones": lambda _: 2 ** (2 * KEY_BITS) - 1,
}


@for_each("name", VALUES)
@for_each("kind", [said.Selection, said.Removal])
def test_a_ciphertext_that_is_no_unit_or_out_of_range(kind, name, opened) -> None:
    def change(message: Message) -> list[Message]:
        octets = as_ciphertext(VALUES[name](meddler.modulus))
        body: Body = said.Selection(octets)
        if kind is said.Removal:
            body = said.Removal((octets, *said.Removal.unpack(message.body).ciphertexts[1:]))
        return [replace(message, body=body.pack())]

    meddler = Meddler(kind, change)
    stopped(meddler, opened)


@for_each(
    "other",
    [lambda parts: parts[::-1], lambda parts: (as_ciphertext(1),) * len(parts)],
    ids=["in another order", "ones"],
)
def test_ciphertexts_whose_masks_do_not_cancel_are_not_shown(other) -> None:
    """The server decrypts something uniform: it fits 40 slots with less than 2^-80."""
    with pytest.raises(ProtocolFault, match="does not fit its slots") as caught:
        carry_out(Meddler(said.Removal, changed(ciphertexts=other)))
    check_silence(caught.value)


def test_a_message_of_an_earlier_round(opened) -> None:
    for kind in (said.Selection, said.Removal):
        kept: list[Message] = []

        def meddling(
            message: Message, kind: type[Body] = kind, kept: list[Message] = kept
        ) -> list[Message]:
            if message.kind == kind.kind and "silo-2" in (message.sender, message.receiver):
                kept.append(message)
                return [kept[0]]
            return [message]

        _, posts = network_of(NODES, meddling=meddling)
        session = NoiseRemoval(posts, NODES, key_bits=KEY_BITS, weak=True)
        session.removed(1, drawn(NOISES), largest=LARGEST)
        opened.clear()
        with pytest.raises(ProtocolFault, match="another session or round"):
            session.removed(2, drawn(NOISES), largest=LARGEST)
        assert not opened


def test_another_nodes_message_does_not_pass(opened) -> None:
    meddler = Meddler(said.Removal, lambda message: [replace(message, sender="silo-0")])
    stopped(meddler, opened)


# --- a node answers once --------------------------------------------------------------------------


def session_at(number: int) -> NoiseRemoval:
    """Return a session whose parties have entered a round; everybody has a selection."""
    _, posts = network_of(NODES)
    session = NoiseRemoval(posts, NODES, key_bits=KEY_BITS, weak=True)
    terms = RoundTerms(session.terms, 40, LARGEST)
    session._server.begin(terms, number)
    for node in session._nodes:
        node.begin(terms, number)
    session._server.select()
    return session


def test_a_node_refuses_a_second_request_of_a_round() -> None:
    session = session_at(4)
    node = session._nodes[0]
    node.blind()
    session._server.select()  # a second selection, before the node has left the round
    with pytest.raises(ProtocolFault, match="nobody asked for"):
        node.answer(NOISES[0])
    for number in (4, 3):
        with pytest.raises(InvalidInput, match="already"):
            node.begin(RoundTerms(session.terms, 40, LARGEST), number)


def test_a_node_does_not_answer_unblinded_or_twice() -> None:
    node = session_at(1)._nodes[0]
    with pytest.raises(InvalidInput, match="no blinding"):
        node.answer(NOISES[0])
    session = session_at(1)
    node = session._nodes[0]
    node.blind()
    node.answer(NOISES[0])
    # Even where its post is in the round again, and it has blinded anew.
    node._post.enter(node._member.session, 1, {said.Selection: 10**6})
    session._server.select()
    node.blind()
    with pytest.raises(ProtocolFault, match="already"):
        node.answer(NOISES[0])


# --- noise ----------------------------------------------------------------------------------------


@for_each("node", range(NODES))
@for_each(
    "noise",
    [
        np.array([LARGEST + 1] + [0] * 39),
        np.array([0] * 39 + [-LARGEST - 1]),
        np.array([np.iinfo(np.int64).min] + [0] * 39),
        np.zeros((40, 1), np.int64),
        *(np.zeros(40, kind) for kind in (np.float64, np.int32, np.uint64)),
        [0] * 40,
        None,
    ],
)
def test_noise_that_is_not_within_its_bound(noise, node, opened) -> None:
    draws: list[Any] = drawn(NOISES)
    draws[node] = lambda: noise
    with pytest.raises(ProtocolFault) as caught:
        carry_out(None, draws)
    assert not opened
    check_silence(caught.value)
    assert f"silo-{node}" in str(caught.value)


def test_noise_of_another_length(opened) -> None:
    draws: list[Any] = drawn(NOISES)
    draws[1] = lambda: np.zeros(39, np.int64)
    with pytest.raises(ProtocolFault, match="40 values"):
        carry_out(None, draws)
    assert not opened


def test_a_node_that_cannot_draw_ends_the_session(opened) -> None:
    def refuses() -> Any:
        raise InvalidInput("The budget is spent.")

    _, posts = network_of(NODES)
    session = NoiseRemoval(posts, NODES, key_bits=KEY_BITS, weak=True)
    with pytest.raises(InvalidInput, match="spent"):
        session.removed(1, [*drawn(NOISES)[:2], refuses], largest=LARGEST)
    with pytest.raises(ProtocolFault, match="ended"):
        session.removed(2, drawn(NOISES), largest=LARGEST)
    assert not opened


# --- keys -----------------------------------------------------------------------------------------


def test_nodes_that_were_given_different_keys_reject_each_other(opened) -> None:
    other = modulus_of(KEY_BITS)
    assert "signature" in stopped(Meddler(said.ServerKey, changed(modulus=lambda _: other)), opened)


def test_a_roster_of_other_nodes() -> None:
    terms, own = Terms(2, KEY_BITS, weak=True), Identity.new()
    for roster in (
        {"silo-0": own.public},
        {"silo-0": STRANGER.public, "silo-1": own.public},
        {"silo-0": own.public, "silo-1": STRANGER.public, "silo-2": STRANGER.public},
    ):
        _, posts = network_of(2)
        with pytest.raises(InvalidInput, match="roster"):
            Introduction(0, terms, own, roster, posts["silo-0"])
