"""Private weighting refuses keys that are malformed, swapped, or not of the silo that they name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from privplan.accountant.errors import ProtocolFault
from privplan.fl.crypto.keys import Identity, KeyPair
from privplan.fl.crypto.paillier.keys import generate
from privplan.fl.parties.network import Message
from privplan.fl.uldp.weighting import messages as said
from privplan.fl.uldp.weighting.introductions import facts, introduce
from privplan.fl.uldp.weighting.protocol import names

from ..cases import for_each
from .meddling import (
    Meddler,
    carry_out,
    changed,
    check_silence,
    dropped,
    put,
    require_end,
    terms_of,
)

PRIME = 2**255 - 19
MODULI = {
    "even": 2**256 - 2,
    "too short": 2**254 + 1,
    "prime": 2**256 - 189,
    "square": (2**128 - 159) ** 2,
    "a small factor": 3 * ((2**256 - 1) // 3 - ((2**256 - 1) // 3) % 2 - 1),
    "zero": 0,
}


@for_each("name", MODULI)
def test_a_malformed_public_key(name, opened) -> None:
    value = MODULI[name]
    assert (value.bit_length() == 256) == (name not in ("too short", "zero"))
    meddler = Meddler(said.ServerKey, changed(modulus=lambda _: value.to_bytes(32, "big")))
    require_end(meddler, opened)


@for_each("bits", [128, 248, 264, 512])
def test_a_public_key_of_another_size(bits, opened) -> None:
    value = int(generate(bits, small=True).public.n)
    meddler = Meddler(said.ServerKey, changed(modulus=lambda _: value.to_bytes(bits // 8, "big")))
    with pytest.raises(ProtocolFault, match="a key of 256 bits"):
        carry_out(terms_of(), meddler)
    assert not opened


def test_silos_that_were_told_different_keys_do_not_accept_each_other(opened) -> None:
    other = int(generate(256, small=True).public.n).to_bytes(32, "big")
    meddler = Meddler(said.ServerKey, changed(modulus=lambda _: other))
    with pytest.raises(ProtocolFault, match="signature"):
        carry_out(terms_of(), meddler)
    assert not opened


@for_each("name", ["silo-0", "silo-2"])
def test_the_server_cannot_put_itself_between_silos(name, opened) -> None:
    own = KeyPair.new().public
    with pytest.raises(ProtocolFault, match="signature"):
        carry_out(terms_of(), Meddler(said.SiloKeys, changed(publics=put(name, own))))
    forged = Identity.new()

    def replaced(message: Message) -> list[Message]:
        body = said.SiloKeys.unpack(message.body)
        agreed = facts(message.session, terms_of(), meddler.modulus or b"")
        made = introduce(forged, name, own, agreed)
        publics = {**body.publics, name: own}
        signatures = {**body.signatures, name: made.signature}
        return [replace(message, body=said.SiloKeys(publics, signatures).pack())]

    meddler = Meddler(said.SiloKeys, replaced)
    with pytest.raises(ProtocolFault, match="signature"):
        carry_out(terms_of(), meddler)
    assert not opened


def swapped(mapping: Any) -> Any:
    return {**mapping, "silo-0": mapping["silo-2"], "silo-2": mapping["silo-0"]}


@for_each(
    "fields",
    [
        {"signatures": swapped},
        {"publics": swapped},
        {"publics": swapped, "signatures": swapped},
        {"publics": dropped("silo-2")},
        {"publics": dropped("silo-2"), "signatures": dropped("silo-2")},
        {"publics": put("silo-3", bytes(32)), "signatures": put("silo-3", bytes(64))},
        {"signatures": put("silo-2", bytes(64))},
        {"publics": put("silo-1", KeyPair.new().public)},
        {"publics": lambda mapping: dict.fromkeys(mapping, mapping["silo-1"])},
    ],
)
def test_a_list_of_keys_that_is_not_the_silos_own(fields, opened) -> None:
    require_end(Meddler(said.SiloKeys, changed(**fields)), opened)


LOW_ORDER = [
    *(bytes(32), bytes([1]) + bytes(31)),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    *((2**255 - 20).to_bytes(32, "little"), (2**255 - 19).to_bytes(32, "little")),
]


@for_each("point", LOW_ORDER)
def test_a_point_of_low_order_even_if_it_is_signed(point, opened) -> None:
    terms = terms_of()
    identities = {name: Identity.new() for name in names(terms)[1:]}

    def signed(message: Message) -> list[Message]:
        agreed = facts(message.session, terms, meddler.modulus or b"")
        body = introduce(identities["silo-2"], "silo-2", point, agreed)
        return [replace(message, body=body.pack())]

    meddler = Meddler(said.SiloKey, signed, silo="silo-2")
    with pytest.raises(ProtocolFault, match="low order") as caught:
        carry_out(terms, meddler, identities)
    assert not opened
    check_silence(caught.value)


def test_one_key_under_two_names_even_if_both_have_signed_it(opened) -> None:
    terms = terms_of()
    identities = {name: Identity.new() for name in names(terms)[1:]}
    own = KeyPair.new().public

    def signed(message: Message) -> list[Message]:
        body = said.SiloKeys.unpack(message.body)
        agreed = facts(message.session, terms, meddler.modulus or b"")
        made = {name: introduce(identities[name], name, own, agreed) for name in others}
        publics = {**body.publics, **dict.fromkeys(others, own)}
        signatures = {**body.signatures, **{name: made[name].signature for name in others}}
        return [replace(message, body=said.SiloKeys(publics, signatures).pack())]

    others = ("silo-0", "silo-2")
    meddler = Meddler(said.SiloKeys, signed)
    with pytest.raises(ProtocolFault, match="two names"):
        carry_out(terms, meddler, identities)
    assert not opened


def test_a_key_of_another_session_is_not_accepted(opened) -> None:
    terms = terms_of()
    identities = {name: Identity.new() for name in names(terms)[1:]}
    kept: list[bytes] = []

    def keeping(message: Message) -> list[Message]:
        kept.append(message.body)
        return [message]

    carry_out(terms, Meddler(said.SiloKey, keeping), identities)
    before = len(opened)
    with pytest.raises(ProtocolFault, match="signature"):
        carry_out(
            terms,
            Meddler(said.SiloKey, lambda message: [replace(message, body=kept[0])]),
            identities,
        )
    assert len(opened) == before
