"""Whatever goes wrong between the parties of private weighting ends it, for everybody."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.fl.crypto.keys import Identity
from privplan.fl.parties.network import SERVER, Message, Network
from privplan.fl.uldp.weighting import messages as said
from privplan.fl.uldp.weighting.enrolment import Enrolment
from privplan.fl.uldp.weighting.protocol import PrivateWeighting, names

from ..cases import for_each
from .meddling import (
    STEPS,
    TRANSFER,
    Meddler,
    carry_out,
    changed,
    check_silence,
    dropped,
    put,
    require_end,
    terms_of,
)


def test_without_a_fault_it_comes_to_its_end(opened: list[int]) -> None:
    for drawn_by in ("nobody", "server", "oblivious-transfer"):
        meddler = Meddler(said.Update, lambda message: [message])
        assert len(carry_out(terms_of(drawn_by), meddler)) == 9
        assert meddler.done
    assert len(opened) == 3


@for_each(("drawn_by", "kind"), STEPS)
def test_a_party_that_is_missing_at_any_step(drawn_by, kind, opened) -> None:
    require_end(Meddler(kind, lambda _: []), opened, drawn_by, MissingParty)


@for_each("silo", ["silo-0", "silo-1", "silo-2"])
def test_any_silo_that_is_missing_at_the_end(silo, opened) -> None:
    with pytest.raises(MissingParty, match=silo):
        carry_out(terms_of(), Meddler(said.Update, lambda _: [], silo=silo))
    assert not opened


@for_each(("drawn_by", "kind"), STEPS)
@for_each(
    "change",
    [
        lambda message: [message, message],
        lambda message: [replace(message, round=message.round + 1)],
        lambda message: [replace(message, session=bytes(16))],
        lambda message: [replace(message, kind="weighting.other")],
        lambda message: [replace(message, body=message.body[:-1])],
        lambda message: [replace(message, body=b"")],
    ],
    ids=["twice", "another round", "another session", "another kind", "cut", "empty"],
)
def test_a_message_that_is_not_what_is_expected_next(drawn_by, kind, change, opened) -> None:
    require_end(Meddler(kind, change), opened, drawn_by)


def test_a_message_of_an_earlier_round(opened) -> None:
    terms = terms_of("server")
    kept: list[Message] = []

    def meddling(message: Message) -> list[Message]:
        if message.kind == said.Update.kind and message.sender == "silo-2":
            kept.append(message)
            return [kept[0]]
        return [message]

    network = Network(names(terms), meddling=meddling)
    session = PrivateWeighting(terms, np.ones((3, 3), int), network)
    rows = [([], np.empty((0, 9), int))] * 3
    everybody = np.ones(3, bool)
    session.round(1, rows, [[0] * 9] * 3, joining=everybody)
    with pytest.raises(ProtocolFault, match="another session or round"):
        session.round(2, rows, [[0] * 9] * 3, joining=everybody)
    assert len(opened) == 1


def test_messages_out_of_order(opened) -> None:
    held: list[Message] = []

    def meddling(message: Message) -> list[Message]:
        if message.receiver == "silo-1" and message.kind == said.SiloKeys.kind:
            held.append(message)
            return []
        if message.receiver == "silo-1" and message.kind == said.LockedSeed.kind:
            return [message, *held]
        return [message]

    with pytest.raises(ProtocolFault):
        carry_out(terms_of(), meddling)
    assert not opened


LENGTHS = [
    *((said.ServerKey, "modulus"), (said.SiloKey, "public"), (said.SiloKey, "signature")),
    *((said.LockedSeed, "locked"), (said.Histogram, "residues"), (said.Histogram, "check")),
    *((said.Inverses, "ciphertexts"), (said.Update, "ciphertexts")),
    *((said.TransferOpening, "point"), (said.TransferRequests, "requests")),
    (said.TransferAnswer, "answer"),
]


@for_each(("kind", "field"), LENGTHS)
@for_each(
    "other",
    [
        *(lambda raw: raw[:-1], lambda raw: raw + b"\0", lambda _: b""),
        *(lambda raw: raw[: len(raw) // 2], lambda raw: raw + raw),
    ],
)
def test_a_content_of_a_wrong_length(kind, field, other, opened) -> None:
    drawn_by = "oblivious-transfer" if kind in TRANSFER else "nobody"
    require_end(Meddler(kind, changed(**{field: other})), opened, drawn_by)


def flipped(raw: bytes) -> bytes:
    return raw[:-1] + bytes([raw[-1] ^ 1])


@for_each(
    ("kind", "fields"),
    [
        (said.LockedSeed, {"locked": flipped}),
        (said.LockedSeeds, {"by_silo": lambda one: {name: flipped(one[name]) for name in one}}),
        (said.LockedSeeds, {"by_silo": dropped("silo-2")}),
        (said.LockedSeeds, {"by_silo": put("silo-0", bytes(60))}),
        (
            said.LockedSeeds,
            {"by_silo": lambda one: {"silo-1": one["silo-2"], "silo-2": one["silo-1"]}},
        ),
        (said.Histogram, {"check": flipped}),
        (said.Histogram, {"residues": lambda raw: b"\xff" * len(raw)}),
    ],
)
def test_a_seed_or_a_histogram_that_was_changed(kind, fields, opened) -> None:
    require_end(Meddler(kind, changed(**fields)), opened)


def test_blinded_counts_that_have_no_inverse(opened) -> None:
    """Columns that sum to 0 modulo n: the silos send the same, and one of them minus twice that."""

    def meddling(message: Message) -> list[Message]:
        if message.kind == said.ServerKey.kind:
            known.append(int.from_bytes(said.ServerKey.unpack(message.body).modulus, "big"))
        if message.kind != said.Histogram.kind:
            return [message]
        value = known[0] - 2 if message.sender == "silo-2" else 1
        body = said.Histogram.unpack(message.body)
        new = replace(body, residues=value.to_bytes(32, "big") * 3)
        return [replace(message, body=new.pack())]

    known: list[int] = []
    with pytest.raises(ProtocolFault, match="inverse") as caught:
        carry_out(terms_of(), meddling)
    assert not opened
    check_silence(caught.value)


@for_each("kind", [said.Inverses, said.Update])
@for_each("bad", ["zero", "n", "n squared", "all ones"])
def test_a_ciphertext_out_of_range_or_not_coprime(kind, bad, opened) -> None:
    def change(message: Message) -> list[Message]:
        n = int.from_bytes(meddler.modulus or b"", "big")
        value = {"zero": 0, "n": n, "n squared": n * n, "all ones": 2**512 - 1}[bad]
        body = kind.unpack(message.body)
        new = replace(body, ciphertexts=body.ciphertexts[:-64] + value.to_bytes(64, "big"))
        return [replace(message, body=new.pack())]

    meddler = Meddler(kind, change)
    require_end(meddler, opened)


@for_each("kind", [said.Inverses, said.Update])
def test_a_ciphertext_of_something_else_does_not_pass_for_a_sum(kind) -> None:
    """Seen only when it is opened, where it is a number that no sum can be."""
    two = (2).to_bytes(64, "big")
    change = changed(ciphertexts=lambda raw: two * (len(raw) // 64))
    meddler = Meddler(kind, change)
    with pytest.raises(ProtocolFault) as caught:
        carry_out(terms_of(), meddler)
    assert meddler.done
    check_silence(caught.value)


def test_a_request_of_no_valid_point_and_an_answer_that_was_changed(opened) -> None:
    for kind, fields in (
        (said.TransferOpening, {"point": lambda _: bytes(32)}),
        (said.TransferRequests, {"requests": lambda raw: bytes(32) + raw[32:]}),
        (said.TransferAnswer, {"answer": lambda raw: bytes(len(raw))}),
    ):
        require_end(Meddler(kind, changed(**fields)), opened, "oblivious-transfer")


def enrolment(shares: Any, **change: Any) -> Enrolment:
    terms = terms_of()
    identity = Identity.new()
    roster = {name: Identity.new().public for name in names(terms)[1:]}
    roster["silo-1"] = identity.public
    given = {"roster": roster} | change
    post = Network([SERVER, *names(terms)[1:]]).post("silo-1")
    return Enrolment(1, terms, shares, identity, given["roster"], post)


WRONG_SHARES = [
    *([977, 0, 0], [4, 0, 0], [-977, 0, 0], [1, 1], [0.5, 0, 0], [float("nan"), 0, 0]),
    *([[1], [1, 1], [0]], [2**70, 0, 0], np.array([2**64 - 977, 0, 0], np.uint64)),
]


@for_each("shares", WRONG_SHARES, ids=str)
def test_a_silo_refuses_wrong_counts_of_its_own_at_the_door(shares: Any) -> None:
    """Before it enters a session; and no count and no user stands in the message."""
    enrolment([3, 0, 3])
    with pytest.raises(InvalidInput) as caught:
        enrolment(shares)
    error = caught.value
    assert all((error.what, error.why, error.next_step))
    assert "977" not in str(error)
    assert not re.search(r"user \d|silo-\d", str(error))


@for_each("wrong", [-977, -1])
def test_a_session_with_a_negative_count_sends_nothing(wrong: int) -> None:
    terms, sent = terms_of(), []
    counts = np.array([[1, 2, 3], [0, wrong, 1], [1, 0, 0]])

    def watched(message: Message) -> Iterable[Message]:
        sent.append(message)
        return [message]

    network = Network(names(terms), meddling=watched)
    with pytest.raises(InvalidInput) as caught:
        PrivateWeighting(terms, counts, network)
    assert not sent
    assert all((caught.value.what, caught.value.why, caught.value.next_step))
    assert str(wrong) not in str(caught.value)


def test_a_roster_of_others_is_refused() -> None:
    for roster in ({}, dict.fromkeys(names(terms_of())[1:], bytes(32))):
        with pytest.raises(InvalidInput, match=r"roster|Roster"):
            enrolment([0, 0, 0], roster=roster)
