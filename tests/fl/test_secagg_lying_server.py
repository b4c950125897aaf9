"""A server of a masked sum that lies: what it can show parties, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from privplan.accountant.errors import InvalidInput, ProtocolFault
from privplan.fl.crypto.keys import KeyPair
from privplan.fl.parties.network import SERVER, Message, Network
from privplan.fl.secagg import messages as says
from privplan.fl.secagg import server as serving
from privplan.fl.secagg.client import Client
from privplan.fl.secagg.committee import Committee
from privplan.fl.secagg.group import joined
from privplan.fl.secagg.terms import choose

from ..cases import for_each
from .secagg_committees import (
    IDENTITIES,
    NAMES,
    SESSION,
    TERMS,
    Change,
    Changing,
    advertising,
    committee,
    flipped,
    inputs,
    kinds,
    put,
    stopped,
    without,
)


def require_unsaid(lie: Changing, kind: str) -> None:
    """Require that a lie ends the round before silo-1 says anything of this kind."""
    _, network = stopped(lie)
    assert kind not in {m.kind for m in network.said("silo-1")}


@for_each(
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
    require_unsaid(Changing(says.Adverts, change, receiver="silo-1"), "secagg-shares")


@for_each("which", [0, 32])
def test_keys_that_the_server_puts_in_the_place_of_others_get_no_shares(which: int) -> None:
    def swap(body: says.Adverts) -> says.Adverts:
        raw, own = body.adverts["silo-3"], KeyPair.new().public
        return says.Adverts(put(body.adverts, silo_3=raw[:which] + own + raw[which + 32 :]))

    fault, network = stopped(Changing(says.Adverts, swap, receiver="silo-1"))
    assert "silo-3" in fault.what
    assert "secagg-shares" not in {m.kind for m in network.said("silo-1")}


def test_parties_that_are_shown_different_keys_do_not_understand_each_other() -> None:
    """A colluder signs two pairs of keys; nobody can aim at the graph of one party alone."""
    second = advertising("silo-4", IDENTITIES["silo-4"], KeyPair.new().public, KeyPair.new().public)
    other = joined(second(None))

    def equivocate(body: says.Adverts) -> says.Adverts:
        return says.Adverts(put(body.adverts, silo_4=other))

    lie = Changing(says.Adverts, equivocate, receiver="silo-1")
    network = Network([SERVER, *NAMES], keep=True, meddling=lie)
    posts = {name: network.post(name) for name in network.names}
    with pytest.raises(ProtocolFault, match="does not open"):
        Committee(posts, TERMS, SESSION, IDENTITIES).sum(1, inputs())
    assert "secagg-masked" not in kinds(network)


@for_each(
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
    require_unsaid(Changing(says.RelayedShares, change, receiver="silo-1"), "secagg-masked")


@for_each(
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


@for_each("server", ["malicious", "honest-but-curious"])
def test_survivors_who_never_shared_get_nothing(server: str) -> None:
    """silo-4 sent no shares; the server says that its words arrived."""
    terms = choose(5, length=6, dropouts=1, server=server)  # type: ignore[arg-type]
    lie = Changing(says.Survivors, lambda b: says.Survivors((*b.names, "silo-4")))

    def meddling(message: Message) -> Iterable[Message]:
        return () if message.sender == "silo-4" else lie(message)

    _, network = stopped(meddling, terms)
    assert not kinds(network) & {"secagg-confirmed", "secagg-recovery"}


@for_each("told", [1, 2, 3, 4])
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


@for_each(
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
    require_unsaid(Changing(says.Confirmations, change, receiver="silo-1"), "secagg-recovery")


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
