"""A round among peers that goes wrong: every fault ends it for everybody, and names who."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.fl.parties.network import Body
from privplan.fl.secagg.decentralised import (
    Confirmation,
    Hello,
    PartialSum,
    Peer,
    Share,
    TotalSlice,
)

from ..cases import for_each
from .peer_sums import KINDS, SESSION, SIGNED, WRONG, Peers


def peer_of(peers: Peers, name: str, steps=None) -> Peer:
    """Return a peer of a group, with a vector of zeros where none is given."""
    own = np.zeros(11, np.int64) if steps is None else steps
    return Peer(peers.group, peers.identities[name], peers.posts[name], SESSION, 1, own)


def test_a_missing_peer_ends_the_round_for_all_and_the_next_one_begins_clean() -> None:
    peers = Peers()
    inputs = peers.inputs()
    with pytest.raises(MissingParty, match="silo-2"):
        peers.sum({name: one for name, one in inputs.items() if name != "silo-2"})
    assert not any(one.kind != Hello.kind for one in peers.network.view("silo-0"))
    assert np.array_equal(peers.sum(inputs, 2)["silo-2"], sum(inputs.values()))


@for_each("kind", KINDS)
def test_a_peer_that_falls_silent_at_any_step_is_missed(kind) -> None:
    def silent(message):
        return () if message.kind == kind and message.sender == "silo-1" else (message,)

    peers = Peers(meddling=silent)
    with pytest.raises(MissingParty, match="silo-1"):
        peers.sum(peers.inputs())


@for_each(("kind", "fault"), WRONG)
def test_a_message_that_is_wrong_ends_the_round(kind, fault) -> None:
    """One message of each kind: repeated, from elsewhere, of another length, or a bit changed.

    A changed bit of a partial sum is another vector of its sender's, which nobody can see.
    """
    met = []

    def meddling(message):
        if message.kind != kind or (message.sender, message.receiver) != ("silo-1", "silo-2"):
            return (message,)
        met.append(message)
        if fault == "twice":
            return (message, message)
        if fault in ("round", "session", "kind"):
            other = {"round": 7, "session": b"another", "kind": "other"}
            return (replace(message, **{fault: other[fault]}),)
        return (replace(message, body=changed(KINDS[kind].unpack(message.body), fault).pack()),)

    peers = Peers(meddling=meddling)
    with pytest.raises(ProtocolFault, match="silo-1"):
        peers.sum(peers.inputs())
    assert met


def changed(body: Body, fault: str, field: int = -1) -> Body:
    """Return a body of which a field is empty, longer by a byte, or differs in one bit."""
    name = fields(body)[field].name
    raw = getattr(body, name)
    new = {"empty": b"", "longer": raw + b"\0", "bit": bytes([raw[0] ^ 1]) + raw[1:]}[fault]
    return replace(body, **{name: new})


@for_each("fault", ["empty", "longer", "bit"])
@for_each("kind", SIGNED)
def test_words_that_were_changed_on_their_way_are_found_and_the_sender_named(kind, fault) -> None:
    """A flipped bit of a partial sum would be another vector, which nobody else can see."""

    def meddling(message):
        if (message.kind, message.sender, message.receiver) != (kind, "silo-1", "silo-2"):
            return (message,)
        body = changed(KINDS[kind].unpack(message.body), fault, 0)
        return (replace(message, body=body.pack()),)

    peers = Peers(meddling=meddling)
    with pytest.raises(ProtocolFault, match=r"silo-1|longer than"):
        peers.sum(peers.inputs())
    if fault == "bit":
        peers = Peers(meddling=meddling)
        with pytest.raises(ProtocolFault, match=f"silo-1's '{kind}' to silo-2 is not signed by it"):
            peers.sum(peers.inputs())


@for_each("kind", KINDS)
def test_what_was_said_in_an_earlier_round_is_not_said_now(kind) -> None:
    """With the right number on the envelope, which somebody on the way can write."""
    first: dict[tuple[str, str], bytes] = {}

    def meddling(message):
        if message.kind != kind or message.sender != "silo-1":
            return (message,)
        way = (message.sender, message.receiver)
        return (replace(message, body=first.setdefault(way, message.body)),)

    peers = Peers(meddling=meddling)
    inputs = peers.inputs()
    peers.sum(inputs, 1)
    with pytest.raises(ProtocolFault, match=r"silo-1's|share from silo-1 to silo-\d does not open"):
        peers.sum(inputs, 2)  # the same vectors, so the same total, but for its signature


@for_each("kind", [Share.kind, PartialSum.kind])
def test_what_was_meant_for_another_is_refused(kind) -> None:
    """Slices of one length, so that signatures and pairs' keys alone tell them apart."""
    kept = []

    def meddling(message):
        if message.kind != kind or message.sender != "silo-1":
            return (message,)
        if message.receiver == "silo-0":
            kept.append(message.body)
            return (message,)
        return (replace(message, body=kept[-1]),)

    peers = Peers(length=12, meddling=meddling)
    with pytest.raises(ProtocolFault, match=r"silo-1's|share from silo-1 to silo-\d does not open"):
        peers.sum(peers.inputs())


@for_each("kind", SIGNED)
def test_nobody_speaks_in_the_name_of_another(kind) -> None:
    kept = []

    def meddling(message):
        if message.kind != kind or message.receiver != "silo-3":
            return (message,)
        if message.sender == "silo-0":
            kept.append(message.body)
        return (replace(message, body=kept[0]),)

    peers = Peers(length=12, meddling=meddling)
    with pytest.raises(ProtocolFault, match="silo-1's"):
        peers.sum(peers.inputs())


def test_a_signature_of_one_step_is_none_of_another() -> None:
    """The same bytes, said as a partial sum and as a total."""
    peers = Peers()
    peer = peer_of(peers, "silo-0")
    said = {
        peer._statement(name, what, content, receiver)
        for name in ("silo-0", "silo-1")
        for what in (Hello, PartialSum, TotalSlice, Confirmation)
        for content in (b"", b"silo-2")
        for receiver in ("", "silo-2")
    }
    assert len(said) == 2 * 4 * 2 * 2
    assert {len(one) for one in said} == {32}


@for_each("public", [bytes(32), (1).to_bytes(32, "little"), bytes(31), b"\xff" * 32])
def test_a_bad_key_is_refused_even_when_it_is_signed(public) -> None:
    peers = Peers()
    made = [peer_of(peers, name) for name in peers.group.peers]
    made[0]._pair.public = public
    for peer in made:
        peer.hello()
    with pytest.raises(ProtocolFault, match="silo-0 sent silo-1 a public key that is none"):
        made[1].share()


def test_a_peer_that_tells_two_totals_is_found_out() -> None:
    """One slice of the total differs for one receiver: without the last step, models would fork."""

    def two_faced(message):
        way = (message.kind, message.sender, message.receiver)
        if way != (TotalSlice.kind, "silo-1", "silo-2"):
            return (message,)
        words = bytearray(TotalSlice.unpack(message.body).words)
        words[0] ^= 1
        lie = TotalSlice(bytes(words), made[1]._signed(TotalSlice, bytes(words)))
        return (replace(message, body=lie.pack()),)

    peers = Peers(meddling=two_faced)
    inputs = peers.inputs()
    made = [peer_of(peers, name, inputs[name]) for name in peers.group.peers]
    for step in (Peer.hello, Peer.share, Peer.slices, Peer.totals, Peer.confirm):
        for peer in made:
            step(peer)
    with pytest.raises(ProtocolFault, match="another total"):
        made[0].result()


def test_after_a_fault_a_peer_takes_no_further_step() -> None:
    peers = Peers()
    peer = peer_of(peers, "silo-0")
    with pytest.raises(InvalidInput, match="cannot take"):
        peer.slices()
    peer.hello()
    with pytest.raises(InvalidInput, match="cannot take"):
        peer.hello()
    with pytest.raises(MissingParty):
        peer.share()
    sent = peers.network.sent["silo-0"]
    for step in (peer.share, peer.slices, peer.totals, peer.confirm, peer.result):
        with pytest.raises(InvalidInput, match="cannot take"):
            step()
    assert peers.network.sent["silo-0"] == sent


def test_two_totals_are_no_total(monkeypatch) -> None:
    """Whatever let it happen: bits are compared once more where all peers are at hand."""
    result = Peer.result

    def forked(peer):
        total = result(peer)
        total[-1] += "silo-2" in repr(peer)
        return total

    peers = Peers()
    inputs = peers.inputs()
    assert np.array_equal(peers.sum(inputs, 1)["silo-2"], sum(inputs.values()))
    monkeypatch.setattr(Peer, "result", forked)
    with pytest.raises(ProtocolFault, match="different totals"):
        peers.sum(inputs, 2)
