"""Whoever sends what the protocol does not allow ends the round, and learns nothing from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.fl.crypto.keys import Identity, KeyPair, agree, lock, unlock
from privplan.fl.crypto.masks import mask_into
from privplan.fl.crypto.shamir import combine
from privplan.fl.parties.network import SERVER, Body, Message, Network, silo_name
from privplan.fl.secagg import messages as says
from privplan.fl.secagg import server as serving
from privplan.fl.secagg.client import Client
from privplan.fl.secagg.committee import Committee
from privplan.fl.secagg.group import Group, View, joined
from privplan.fl.secagg.limits import limits
from privplan.fl.secagg.terms import Terms, choose

SESSION = b"a session of this test"
TERMS = choose(5, length=6, dropouts=1, colluders=1)
NAMES = [silo_name(i) for i in range(5)]
KINDS: dict[str, type[Body]] = {
    one.kind: one
    for one in (
        says.Advert,
        says.Adverts,
        says.Shares,
        says.RelayedShares,
        says.MaskedWords,
        says.Survivors,
        says.Confirmation,
        says.Confirmations,
        says.Recovery,
    )
}
LAST = ("secagg-confirmations", "secagg-recovery")
"""What nothing follows between the same two, or what they are not missed at."""

LOW_ORDER = bytes(32)
NOT_CANONICAL = b"\xff" * 32

Change = Callable[[Any], Any]


class Changing:
    """A network on which bodies of one kind are changed, from or to whom it may concern."""

    def __init__(
        self,
        kind: type[Body],
        change: Change,
        *,
        sender: str | None = None,
        receiver: str | None = None,
    ) -> None:
        self._of = (kind, sender, receiver)
        self._change = change
        self.done = 0

    def __call__(self, message: Message) -> Iterable[Message]:
        kind, sender, receiver = self._of
        if (
            message.kind != kind.kind
            or sender not in (None, message.sender)
            or receiver not in (None, message.receiver)
        ):
            return (message,)
        self.done += 1
        return (replace(message, body=self._change(kind.unpack(message.body)).pack()),)


def inputs(terms: Terms = TERMS) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        silo_name(i): rng.integers(0, 2**64 - 1, terms.length, dtype=terms.words)
        for i in range(terms.parties)
    }


def committee(meddling: Any = None, terms: Terms = TERMS) -> tuple[Committee, Network]:
    names = [silo_name(i) for i in range(terms.parties)]
    network = Network([SERVER, *names], keep=True, meddling=meddling)
    return Committee.on(network, terms, SESSION), network


def stopped(meddling: Any, terms: Terms = TERMS) -> tuple[ProtocolFault, Network]:
    """Return the fault that ends a round on such a network."""
    one, network = committee(meddling, terms)
    with pytest.raises(ProtocolFault) as found:
        one.sum(1, inputs(terms))
    assert tells_no_secret(str(found.value))
    with pytest.raises(InvalidInput, match="was stopped"):
        one.sum(2, inputs(terms))
    return found.value, network


def tells_no_secret(text: str) -> bool:
    return not re.search(r"b'|\\x|[0-9a-f]{12}|\d{6}", text)


def kinds(network: Network) -> set[str]:
    return {m.kind for name in (*NAMES, SERVER) for m in network.said(name)}


def flipped(raw: bytes, place: int = 0) -> bytes:
    return raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]


def put(mapping: Any, **entries: bytes) -> dict[str, bytes]:
    return {**mapping, **{name.replace("_", "-"): raw for name, raw in entries.items()}}


def without(mapping: Any, *names: str) -> dict[str, bytes]:
    return {name: raw for name, raw in mapping.items() if name not in names}


# --- on the way -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_is_sent_twice_ends_the_round(kind: str) -> None:
    def twice(message: Message) -> Iterable[Message]:
        again = message.kind == kind and "silo-2" in (message.sender, message.receiver)
        return (message, message) if again else (message,)

    stopped(twice)


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_of_another_round_ends_the_round(kind: str) -> None:
    old: list[Message] = []

    def replay(message: Message) -> Iterable[Message]:
        if message.kind != kind or "silo-2" not in (message.sender, message.receiver):
            return (message,)
        old.append(message)
        return (old[0],) if message.round == 2 else (message,)

    one, _ = committee(replay)
    one.sum(1, inputs())
    with pytest.raises(ProtocolFault, match="another session or round"):
        one.sum(2, inputs())


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "secagg-masked"])
def test_a_body_of_another_round_ends_the_round_even_in_a_message_of_this_one(kind: str) -> None:
    old: list[Message] = []

    def replay(message: Message) -> Iterable[Message]:
        if message.kind != kind or "silo-2" not in (message.sender, message.receiver):
            return (message,)
        old.append(message)
        return (replace(message, body=old[0].body),)

    one, _ = committee(replay)
    one.sum(1, inputs())
    if kind == "secagg-survivors":  # names alone, and the same ones
        one.sum(2, inputs())
        return
    with pytest.raises(ProtocolFault):
        one.sum(2, inputs())


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_of_another_session_ends_the_round(kind: str) -> None:
    def other(message: Message) -> Iterable[Message]:
        wrong = message.kind == kind and "silo-2" in (message.sender, message.receiver)
        return (replace(message, session=b"another") if wrong else message,)

    fault, _ = stopped(other)
    assert "another session" in fault.what


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in LAST])
def test_messages_in_another_order_end_the_round(kind: str) -> None:
    """Each is held back until the same two parties exchange the next one."""
    held: list[Message] = []

    def later(message: Message) -> Iterable[Message]:
        if message.kind == kind and "silo-2" in (message.sender, message.receiver):
            held.append(message)
            return ()
        ready = [m for m in held if (m.sender, m.receiver) == (message.sender, message.receiver)]
        for one in ready:
            held.remove(one)
        return (message, *ready)

    terms = choose(5, length=6, dropouts=0, colluders=1)
    with pytest.raises(ProtocolFault):
        committee(later, terms)[0].sum(1, inputs(terms))


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "secagg-masked"])
def test_any_bit_that_is_flipped_in_a_body_ends_the_round(kind: str) -> None:
    for place in range(3, 400, 37):

        def flip(message: Message, place: int = place) -> Iterable[Message]:
            wrong = message.kind == kind and "silo-2" in (message.sender, message.receiver)
            if not wrong:
                return (message,)
            return (replace(message, body=flipped(message.body, place % message.size)),)

        stopped(flip)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [lambda raw: raw[:-1], lambda raw: raw + b"\x00", lambda _: b""])
def test_a_body_of_another_length_ends_the_round(kind: str, change: Change) -> None:
    def cut(message: Message) -> Iterable[Message]:
        wrong = message.kind == kind and "silo-2" in (message.sender, message.receiver)
        return (replace(message, body=change(message.body)) if wrong else message,)

    stopped(cut)


# --- parties that lie -----------------------------------------------------------------------------


def advertising(name: str, identity: Identity, lock_key: bytes, mask_key: bytes) -> Change:
    """Return what puts other keys into an advert, with their owner's own signature."""

    def change(_: says.Advert) -> says.Advert:
        group = Group(TERMS, ROSTER, SESSION)
        claim = group.claim(1, name, lock_key, mask_key)
        return says.Advert(lock_key, mask_key, identity.sign(claim))

    return change


OWN = {name: Identity.new() for name in NAMES}
ROSTER = {name: one.public for name, one in OWN.items()}


@pytest.mark.parametrize("bad", [LOW_ORDER, NOT_CANONICAL, b"", bytes(31), bytes([9]) + bytes(32)])
@pytest.mark.parametrize("which", ["lock", "mask"])
def test_a_key_that_is_malformed_or_of_low_order_ends_the_round(bad: bytes, which: str) -> None:
    good = KeyPair.new().public
    lock_key, mask_key = (bad, good) if which == "lock" else (good, bad)
    lie = Changing(
        says.Advert,
        advertising("silo-2", OWN["silo-2"], lock_key, mask_key),
        sender="silo-2",
    )
    network = Network([SERVER, *NAMES], keep=True, meddling=lie)
    posts = {name: network.post(name) for name in network.names}
    with pytest.raises(ProtocolFault, match=r"public key.*silo-2"):
        Committee(posts, TERMS, SESSION, OWN).sum(1, inputs())
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("what", ["seeds", "keys"])
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


@pytest.mark.parametrize(
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


# --- a server that lies ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda b: says.Adverts(without(b.adverts, "silo-1")),
        lambda b: says.Adverts(put(b.adverts, silo_1=b.adverts["silo-0"])),
        lambda b: says.Adverts(without(b.adverts, "silo-0", "silo-2")),
        lambda b: says.Adverts(put(b.adverts, silo_9=b.adverts["silo-0"])),
        lambda b: says.Adverts(put(b.adverts, silo_0=b.adverts["silo-0"][:-1])),
        lambda b: says.Adverts(put(b.adverts, silo_0=b.adverts["silo-2"])),
        lambda _: says.Adverts({}),
    ],
)
def test_a_list_of_keys_that_is_wrong_gets_no_shares(change: Change) -> None:
    _, network = stopped(Changing(says.Adverts, change, receiver="silo-1"))
    assert "secagg-shares" not in {m.kind for m in network.said("silo-1")}


@pytest.mark.parametrize("which", [0, 32])
def test_keys_that_the_server_puts_in_the_place_of_others_get_no_shares(which: int) -> None:
    def swap(body: says.Adverts) -> says.Adverts:
        raw, own = body.adverts["silo-3"], KeyPair.new().public
        return says.Adverts(put(body.adverts, silo_3=raw[:which] + own + raw[which + 32 :]))

    fault, network = stopped(Changing(says.Adverts, swap, receiver="silo-1"))
    assert "silo-3" in fault.what
    assert "secagg-shares" not in {m.kind for m in network.said("silo-1")}


def test_parties_that_are_shown_different_keys_do_not_understand_each_other() -> None:
    """A colluder signs two pairs of keys; nobody can aim at the graph of one party alone."""
    second = advertising("silo-4", OWN["silo-4"], KeyPair.new().public, KeyPair.new().public)
    other = joined(second(None))

    def equivocate(body: says.Adverts) -> says.Adverts:
        return says.Adverts(put(body.adverts, silo_4=other))

    lie = Changing(says.Adverts, equivocate, receiver="silo-1")
    network = Network([SERVER, *NAMES], keep=True, meddling=lie)
    posts = {name: network.post(name) for name in network.names}
    with pytest.raises(ProtocolFault, match="does not open"):
        Committee(posts, TERMS, SESSION, OWN).sum(1, inputs())
    assert "secagg-masked" not in kinds(network)


@pytest.mark.parametrize(
    "change",
    [
        lambda b: replace(b, locked=without(b.locked, "silo-0")),
        lambda b: replace(b, sharing=b.sharing[1:]),
        lambda b: replace(b, sharing=b.sharing[1:], locked=without(b.locked, "silo-1")),
        lambda b: replace(b, sharing=("silo-1", "silo-2"), locked=without(b.locked, "silo-0")),
        lambda b: replace(b, sharing=tuple(n for n in b.sharing if n != "silo-1")),
        lambda b: replace(b, sharing=b.sharing[::-1]),
        lambda b: replace(b, sharing=(*b.sharing, "silo-4")),
        lambda b: replace(b, sharing=(*b.sharing, "silo-9")),
        lambda b: replace(b, locked=put(b.locked, silo_0=b.locked["silo-2"])),
        lambda b: replace(b, locked=put(b.locked, silo_0=flipped(b.locked["silo-0"], 40))),
        lambda b: replace(b, locked=put(b.locked, silo_0=b.locked["silo-0"][:20])),
        lambda b: replace(b, locked=put(b.locked, silo_1=b.locked["silo-2"])),
        lambda b: replace(b, sharing=(), locked={}),
    ],
)
def test_shares_that_are_relayed_wrongly_get_no_words(change: Change) -> None:
    _, network = stopped(Changing(says.RelayedShares, change, receiver="silo-1"))
    assert "secagg-masked" not in {m.kind for m in network.said("silo-1")}


@pytest.mark.parametrize(
    "names",
    [
        (),
        ("silo-1",),
        ("silo-0", "silo-1", "silo-2"),  # below the fewest
        ("silo-0", "silo-2", "silo-3", "silo-4"),  # without the one that is told
        ("silo-1", "silo-0", "silo-2", "silo-3", "silo-4"),
        ("silo-0", "silo-1", "silo-2", "silo-3", "silo-9"),
        ("silo-0", "silo-0", "silo-1", "silo-2", "silo-3"),
    ],
)
def test_survivors_that_cannot_be_get_no_signature(names: tuple[str, ...]) -> None:
    lie = Changing(says.Survivors, lambda _: says.Survivors(names), receiver="silo-1")
    _, network = stopped(lie)
    assert not {m.kind for m in network.said("silo-1")} & {"secagg-confirmed", "secagg-recovery"}


def test_the_fewest_are_insisted_on_before_anything_is_given_away() -> None:
    for kind, change, refused in (
        (says.Adverts, lambda b: says.Adverts(without(b.adverts, "silo-3", "silo-4")), "shares"),
        (
            says.RelayedShares,
            lambda b: says.RelayedShares(
                tuple(n for n in b.sharing if n not in ("silo-3", "silo-4")),
                without(b.locked, "silo-3", "silo-4"),
            ),
            "masked",
        ),
        (says.Survivors, lambda b: says.Survivors(b.names[:3]), "confirmed"),
    ):
        fault, network = stopped(Changing(kind, change))
        assert "Only 3 parties" in fault.what
        assert f"secagg-{refused}" not in kinds(network)


@pytest.mark.parametrize("server", ["malicious", "honest-but-curious"])
def test_survivors_who_never_shared_get_nothing(server: str) -> None:
    """silo-4 sent no shares; the server says that its words arrived."""
    terms = choose(5, length=6, dropouts=1, server=server)  # type: ignore[arg-type]
    lie = Changing(says.Survivors, lambda b: says.Survivors((*b.names, "silo-4")))

    def meddling(message: Message) -> Iterable[Message]:
        return () if message.sender == "silo-4" else lie(message)

    _, network = stopped(meddling, terms)
    assert not kinds(network) & {"secagg-confirmed", "secagg-recovery"}


@pytest.mark.parametrize("told", [1, 2, 3, 4])
def test_a_server_that_tells_parties_different_survivors_gets_no_shares(
    monkeypatch: pytest.MonkeyPatch, told: int
) -> None:
    """The first few hear that silo-4 is gone, the others that silo-0 is."""
    monkeypatch.setattr(serving, "verify", lambda *_: None)  # this server does not mind

    def lie(body: says.Survivors, gone: str) -> says.Survivors:
        return says.Survivors(tuple(n for n in body.names if n != gone))

    first = NAMES[:told]

    def meddling(message: Message) -> Iterable[Message]:
        if message.kind != "secagg-survivors":
            return (message,)
        gone = "silo-4" if message.receiver in first else "silo-0"
        if gone == message.receiver:
            return ()
        return (replace(message, body=lie(says.Survivors.unpack(message.body), gone).pack()),)

    _, network = stopped(meddling)
    assert "secagg-recovery" not in kinds(network)


@pytest.mark.parametrize(
    "change",
    [
        lambda b: says.Confirmations(without(b.signatures, "silo-0", "silo-2")),
        lambda b: says.Confirmations(without(b.signatures, "silo-1")),
        lambda b: says.Confirmations(put(b.signatures, silo_0=b.signatures["silo-2"])),
        lambda b: says.Confirmations(put(b.signatures, silo_0=bytes(64))),
        lambda b: says.Confirmations(put(b.signatures, silo_0=b"")),
        lambda b: says.Confirmations(put(b.signatures, silo_9=b.signatures["silo-2"])),
        lambda b: says.Confirmations(put(b.signatures, silo_1=b.signatures["silo-2"])),
        lambda _: says.Confirmations({}),
    ],
)
def test_signatures_that_are_wrong_get_no_shares(change: Change) -> None:
    _, network = stopped(Changing(says.Confirmations, change, receiver="silo-1"))
    assert "secagg-recovery" not in {m.kind for m in network.said("silo-1")}


def test_nobody_gives_shares_of_both_kinds_of_one_party() -> None:
    """Over all runs of this test, by what each party has sent."""
    for gone in (None, "silo-0", "silo-3"):

        def meddling(message: Message, gone: str | None = gone) -> Iterable[Message]:
            lost = message.kind == "secagg-masked" and message.sender == gone
            return () if lost else (message,)

        one, network = committee(meddling)
        one.sum(1, inputs())
        for name in NAMES:
            said = [m for m in network.said(name) if m.kind == "secagg-recovery"]
            assert len(said) == (name != gone)
            for message in said:
                body = says.Recovery.unpack(message.body)
                assert not set(body.seeds) & set(body.keys)
                assert set(body.keys) == ({gone} if gone else set())


def test_a_party_that_is_asked_again_gives_nothing_more() -> None:
    one, network = committee()
    one.sum(1, inputs())
    client: Client = one._clients["silo-1"]
    before = len(network.said("silo-1"))
    for again in (client.recover, client.confirm, client.share):
        with pytest.raises(InvalidInput, match="not the next one"):
            again()
    with pytest.raises(InvalidInput, match="not the next one"):
        client.mask(inputs()["silo-1"])
    assert len(network.said("silo-1")) == before


def test_a_second_list_of_survivors_ends_the_round() -> None:
    """Asked first about all, then about all but silo-0: the second question is a fault."""

    def ask_twice(message: Message) -> Iterable[Message]:
        if message.kind != "secagg-survivors" or message.receiver != "silo-1":
            return (message,)
        names = says.Survivors.unpack(message.body).names
        return (message, replace(message, body=says.Survivors(names[1:]).pack()))

    _, network = stopped(ask_twice)
    assert "secagg-recovery" not in {m.kind for m in network.said("silo-1")}

    terms = choose(5, length=6, dropouts=1, server="honest-but-curious")
    _, network = stopped(ask_twice, terms)
    assert [m.kind for m in network.said("silo-1")].count("secagg-recovery") == 1


# --- wrong use ------------------------------------------------------------------------------------


def test_a_client_needs_the_identity_of_the_roster() -> None:
    network = Network([SERVER, *NAMES])
    group = Group(TERMS, ROSTER, SESSION)
    with pytest.raises(InvalidInput, match="another identity"):
        Client(network.post("silo-1"), group, OWN["silo-2"])


def test_the_server_refuses_steps_out_of_order() -> None:
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
