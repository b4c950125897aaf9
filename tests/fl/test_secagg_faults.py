"""Whoever sends what the protocol does not allow ends the round, and learns nothing from it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.fl.crypto.keys import Identity, KeyPair, agree, lock, unlock
from privplan.fl.crypto.masks import mask_into
from privplan.fl.crypto.shamir import combine
from privplan.fl.parties.network import SERVER, Message, Network, silo_name
from privplan.fl.secagg import messages as says
from privplan.fl.secagg import server as serving
from privplan.fl.secagg.client import Client
from privplan.fl.secagg.committee import Committee
from privplan.fl.secagg.group import Group, View, joined, limits
from privplan.fl.secagg.terms import choose

from ..cases import for_each
from .secagg_committees import (
    IDENTITIES,
    LOW_ORDER,
    NAMES,
    NOT_CANONICAL,
    ROSTER,
    SESSION,
    TERMS,
    Change,
    Changing,
    advertising,
    flipped,
    inputs,
    kinds,
    put,
    stopped,
    without,
)


@for_each("bad", [LOW_ORDER, NOT_CANONICAL, b"", bytes(31), bytes([9]) + bytes(32)])
@for_each("which", ["lock", "mask"])
def test_a_key_that_is_malformed_or_of_low_order_ends_the_round(bad: bytes, which: str) -> None:
    good = KeyPair.new().public
    lock_key, mask_key = (bad, good) if which == "lock" else (good, bad)
    lie = Changing(
        says.Advert,
        advertising("silo-2", IDENTITIES["silo-2"], lock_key, mask_key),
        sender="silo-2",
    )
    network = Network([SERVER, *NAMES], keep=True, meddling=lie)
    posts = {name: network.post(name) for name in network.names}
    with pytest.raises(ProtocolFault, match=r"public key.*silo-2"):
        Committee(posts, TERMS, SESSION, IDENTITIES).sum(1, inputs())
    assert kinds(network) == {"secagg-advert"}


def test_keys_under_another_signature_end_the_round() -> None:
    def forged(_: says.Advert) -> says.Advert:
        return says.Advert(KeyPair.new().public, KeyPair.new().public, bytes(64))

    fault, network = stopped(Changing(says.Advert, forged, sender="silo-2"))
    assert "signature" in fault.what
    assert "silo-2" in fault.what
    assert kinds(network) == {"secagg-advert"}


def test_a_colluder_with_the_key_of_another_takes_off_no_mask() -> None:
    """Everybody has two neighbours; the one colluder copies the mask key of its neighbour's other.

    It sees the others' keys first, and draws its own until the graph is so.  If only keys told
    masks apart, its neighbour would add one and take off the same, and have its own mask left, the
    shares of whose seed the server is sent.
    """
    terms = choose(51, length=1000, colluders=1, server="honest-but-curious")
    assert (terms.degree, terms.threshold) == (2, 2)
    names = [silo_name(i) for i in range(51)]
    own = {name: Identity.new() for name in names}
    group = Group(terms, {name: own[name].public for name in names}, SESSION)
    network = Network([SERVER, *names])
    liar = names[-1]
    clients = {name: Client(network.post(name), group, own[name]) for name in names[:-1]}
    server = network.post(SERVER)
    server.enter(SESSION, 1, limits(group))
    for client in clients.values():
        client.advertise(1)
    adverts = server.gather(says.Advert, clients)

    def drawn() -> tuple[KeyPair, View, str, str] | None:
        pair = KeyPair.new()
        copied = adverts[victim].mask_key
        claim = group.claim(1, liar, pair.public, copied)
        adverts[liar] = says.Advert(pair.public, copied, own[liar].sign(claim))
        view = View(group, 1, dict(adverts))
        for between in view.neighbours(liar):
            (other,) = set(view.neighbours(between)) - {liar}
            if other == victim and group.sign(between, other) != group.sign(between, liar):
                return pair, view, between, other
        return None

    victim = "silo-3"
    pair, view, between, other = next(found for found in iter(drawn, 0) if found)
    everybody = says.Adverts({name: joined(view.adverts[name]) for name in view.present})
    shares = {}
    for name in (between, other):
        server.send(name, everybody)
        clients[name].share()
        shares[name] = server.receive(says.Shares, name)
    key = agree(pair, view.adverts[between].lock_key, view.context(b"lock"))
    forged = lock(key, bytes(64), view.address(liar, between))
    locked = {other: shares[other].locked[between], liar: forged}
    server.send(between, says.RelayedShares(tuple(names), locked))
    clients[between].mask(np.zeros(1000, np.uint64))
    left = np.frombuffer(server.receive(says.MaskedWords, between).words, "<u8").copy()
    server.send(between, says.Survivors(tuple(names)))
    clients[between].recover()
    one = server.receive(says.Recovery, between).seeds[between]
    two = unlock(key, shares[between].locked[liar], view.address(between, liar))[:32]
    seed = combine({group.holders[between]: one, group.holders[liar]: two}, 2)
    assert serving.commitment_to(seed) == shares[between].commitment
    mask_into(left, seed, session=SESSION, round=1, label=b"own", sign=-1)
    assert len(np.unique(left)) > 990


@for_each(
    "change",
    [
        lambda b: replace(b, locked=without(b.locked, "silo-0")),
        lambda b: replace(b, locked=put(b.locked, silo_9=bytes(92))),
        lambda b: replace(b, locked=put(b.locked, silo_2=bytes(92))),
        lambda b: replace(b, locked=put(b.locked, silo_0=bytes(91))),
        lambda b: replace(b, locked=put(b.locked, silo_0=b.locked["silo-1"])),
        lambda b: replace(b, locked={}),
        lambda b: replace(b, commitment=b""),
        lambda b: replace(b, commitment=bytes(32)),
    ],
)
def test_shares_that_are_not_those_of_the_protocol_end_the_round(change: Change) -> None:
    fault, _ = stopped(Changing(says.Shares, change, sender="silo-2"))
    assert "silo-2" in fault.what


@for_each("what", ["seeds", "keys"])
def test_a_wrong_share_ends_the_round(what: str) -> None:
    """With a dropout at the masked words, so that there are shares of both kinds."""

    def wrong(body: says.Recovery) -> says.Recovery:
        shares = getattr(body, what)
        name = "silo-0" if what == "seeds" else "silo-4"
        return replace(body, **{what: {**shares, name: flipped(shares[name], 9)}})

    lie = Changing(says.Recovery, wrong, sender="silo-1")

    def meddling(message: Message) -> Iterable[Message]:
        lost = message.kind == "secagg-masked" and message.sender == "silo-4"
        return () if lost else lie(message)

    fault, _ = stopped(meddling)
    assert lie.done == 1
    assert re.search("silo-0" if what == "seeds" else "silo-4", fault.what)


def test_wrong_shares_are_found_without_any_to_spare() -> None:
    """With exactly the threshold of answers nothing contradicts; commitment and public key do."""
    terms = choose(4, length=6, dropouts=1, server="honest-but-curious")
    assert terms.threshold == 3
    for what, gone in (("seeds", "secagg-recovery"), ("keys", "secagg-masked")):

        def wrong(body: says.Recovery, what: str = what) -> says.Recovery:
            shares = getattr(body, what)
            return replace(body, **{what: {n: flipped(s, 9) for n, s in shares.items()}})

        lie = Changing(says.Recovery, wrong, sender="silo-1")

        def meddling(message: Message, lie: Changing = lie, gone: str = gone) -> Iterable[Message]:
            return () if message.kind == gone and message.sender == "silo-3" else lie(message)

        fault, _ = stopped(meddling, terms)
        assert "recovered" in fault.what


@for_each(
    "change",
    [
        lambda b: replace(b, keys=put(b.keys, silo_0=b.seeds["silo-0"])),
        lambda b: replace(b, keys=dict(b.seeds), seeds={}),
        lambda b: replace(b, seeds=without(b.seeds, "silo-1")),
        lambda b: replace(b, seeds=put(b.seeds, silo_0=b"")),
        lambda b: replace(b, seeds=put(b.seeds, silo_9=bytes(32))),
        lambda b: replace(b, seeds={}),
    ],
)
def test_answers_that_were_not_asked_for_end_the_round(change: Change) -> None:
    fault, _ = stopped(Changing(says.Recovery, change, sender="silo-1"))
    assert "silo-1" in fault.what


def test_a_client_needs_its_identity_and_the_server_its_steps_in_order() -> None:
    network = Network([SERVER, *NAMES])
    group = Group(TERMS, ROSTER, SESSION)
    with pytest.raises(InvalidInput, match="another identity"):
        Client(network.post("silo-1"), group, IDENTITIES["silo-2"])
    network = Network([SERVER, *NAMES])
    server = serving.Server(network.post(SERVER), Group(TERMS, ROSTER, SESSION))
    with pytest.raises(InvalidInput, match="no round"):
        server.collect_keys()
    server.begin(1)
    with pytest.raises(InvalidInput, match="no keys"):
        server.relay_shares()
    with pytest.raises(InvalidInput, match="No words"):
        server.add("silo-1")
    with pytest.raises(MissingParty):
        server.collect_keys()
