"""Whatever goes wrong between the parties of private weighting ends it, for everybody."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.accountant.randomness import Streams
from privplan.fl.crypto.keys import Identity, KeyPair
from privplan.fl.crypto.paillier.keys import PrivateKey, generate
from privplan.fl.parties.network import SERVER, Body, Message, Network
from privplan.fl.uldp.weighting import messages as said
from privplan.fl.uldp.weighting.enrolment import Enrolment
from privplan.fl.uldp.weighting.introductions import facts, introduce
from privplan.fl.uldp.weighting.protocol import PrivateWeighting, names
from privplan.fl.uldp.weighting.terms import WeightingTerms

SETUP = [said.ServerKey, said.SiloKey, said.SiloKeys, said.LockedSeeds, said.LockedSeed,
         said.Histogram]  # fmt: skip
TRANSFER = [said.TransferOpening, said.TransferRequests, said.TransferAnswer]
STEPS = [("nobody", one) for one in (*SETUP, said.Inverses, said.Update)]
STEPS += [("server", said.Inverses), ("server", said.Update)]
STEPS += [("oblivious-transfer", one) for one in (*TRANSFER, said.Update)]

Change = Callable[[Message], Iterable[Message]]


def terms_of(drawn_by: str = "nobody", **change: Any) -> WeightingTerms:
    more = {"slots": 3, "chosen": 2} if drawn_by == "oblivious-transfer" else {}
    given: dict[str, Any] = {
        "users": 3,
        "silos": 3,
        "dimensions": 9,
        "largest": 2**9 - 1,
        "tail": 2**40,
        "key_bits": 256,
        "count_limit": 10,
        "digits": 10,
        "weak_key": True,
        "drawn_by": drawn_by,
    }
    return WeightingTerms(**(given | more | change))


class Meddler:
    """Changes the first message of a kind that is sent to, or by, one party."""

    def __init__(self, kind: type[Body], change: Change, *, silo: str = "silo-1") -> None:
        self.kind, self.change, self.silo = kind.kind, change, silo
        self.done = False
        self.terms = self.session = self.modulus = None

    def __call__(self, message: Message) -> Iterable[Message]:
        if message.kind == said.ServerKey.kind:
            self.modulus = said.ServerKey.unpack(message.body).modulus
        if self.done or message.kind != self.kind:
            return [message]
        if message.kind != said.LockedSeeds.kind and self.silo not in (
            message.sender,
            message.receiver,
        ):
            return [message]
        self.done = True
        return list(self.change(message))


def carry_out(
    terms: WeightingTerms, meddler: Any, identities: dict[str, Identity] | None = None
) -> list[int]:
    """Carry out a setup and a round; then look whether the session knows that it is over."""
    network = Network(names(terms), keep=True, meddling=meddler)
    counts = np.array([[1, 2, 3], [0, 3, 1], [1, 0, 0]])
    session = PrivateWeighting(terms, counts, network, identities=identities)
    extra: dict[str, Any] = {
        "nobody": {},
        "server": {"joining": np.array([True, False, True])},
        "oblivious-transfer": {"stream": Streams.seeded(2).stream("slots")},
    }[terms.drawn_by]
    digits = np.full((1, 9), 100)
    rows = [([0], digits), ([0], digits), ([1], digits)]
    noise = [[1000 + silo] * 9 for silo in range(3)]
    try:
        return session.round(1, rows, noise, **extra)
    except ProtocolFault:
        with pytest.raises(ProtocolFault, match="ended"):
            session.round(2, rows, noise, **extra)
        raise


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return how many ciphertexts were decrypted."""
    seen: list[int] = []
    decrypt_many = PrivateKey.decrypt_many

    def watching(self: PrivateKey, ciphertexts: Any, *rest: Any) -> list[int]:
        seen.append(len(ciphertexts))
        return decrypt_many(self, ciphertexts, *rest)

    monkeypatch.setattr(PrivateKey, "decrypt_many", watching)
    return seen


def check_silence(error: Exception) -> None:
    """Refuse an error that shows anything that could be a value."""
    assert not re.search(r"\d{5,}|[0-9a-f]{12,}|\\x", str(error).replace("every", "")), str(error)
    assert error.__context__ is None or error.__suppress_context__


def changed(**fields: Any) -> Change:
    """Return the change of some fields of a message's body, by functions of their values."""

    def change(message: Message) -> list[Message]:
        (kind,) = [one for one in Body.__subclasses__() if one.kind == message.kind]
        body = kind.unpack(message.body)
        new = {name: function(getattr(body, name)) for name, function in fields.items()}
        return [replace(message, body=replace(body, **new).pack())]  # type: ignore[type-var]

    return change


def test_without_a_fault_it_comes_to_its_end(opened: list[int]) -> None:
    for drawn_by in ("nobody", "server", "oblivious-transfer"):
        meddler = Meddler(said.Update, lambda message: [message])
        assert len(carry_out(terms_of(drawn_by), meddler)) == 9
        assert meddler.done
    assert len(opened) == 3


@pytest.mark.parametrize(("drawn_by", "kind"), STEPS)
def test_a_party_that_is_missing_at_any_step(drawn_by, kind, opened) -> None:
    meddler = Meddler(kind, lambda _: [])
    with pytest.raises(MissingParty) as caught:
        carry_out(terms_of(drawn_by), meddler)
    assert meddler.done
    assert not opened
    check_silence(caught.value)


@pytest.mark.parametrize("silo", ["silo-0", "silo-1", "silo-2"])
def test_any_silo_that_is_missing_at_the_end(silo, opened) -> None:
    with pytest.raises(MissingParty, match=silo):
        carry_out(terms_of(), Meddler(said.Update, lambda _: [], silo=silo))
    assert not opened


@pytest.mark.parametrize(("drawn_by", "kind"), STEPS)
@pytest.mark.parametrize(
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
    meddler = Meddler(kind, change)
    with pytest.raises(ProtocolFault) as caught:
        carry_out(terms_of(drawn_by), meddler)
    assert meddler.done
    assert not opened
    check_silence(caught.value)


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
    (said.ServerKey, "modulus"),
    (said.SiloKey, "public"),
    (said.SiloKey, "signature"),
    (said.LockedSeed, "locked"),
    (said.Histogram, "residues"),
    (said.Histogram, "check"),
    (said.Inverses, "ciphertexts"),
    (said.Update, "ciphertexts"),
    (said.TransferOpening, "point"),
    (said.TransferRequests, "requests"),
    (said.TransferAnswer, "answer"),
]


@pytest.mark.parametrize(("kind", "field"), LENGTHS)
@pytest.mark.parametrize(
    "other",
    [
        lambda raw: raw[:-1],
        lambda raw: raw + b"\0",
        lambda _: b"",
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw + raw,
    ],
)
def test_a_content_of_a_wrong_length(kind, field, other, opened) -> None:
    drawn_by = "oblivious-transfer" if kind in TRANSFER else "nobody"
    meddler = Meddler(kind, changed(**{field: other}))
    with pytest.raises(ProtocolFault) as caught:
        carry_out(terms_of(drawn_by), meddler)
    assert meddler.done
    assert not opened
    check_silence(caught.value)


# --- keys -----------------------------------------------------------------------------------------

PRIME = 2**255 - 19
MODULI = {
    "even": 2**256 - 2,
    "too short": 2**254 + 1,
    "prime": 2**256 - 189,
    "square": (2**128 - 159) ** 2,
    "a small factor": 3 * ((2**256 - 1) // 3 - ((2**256 - 1) // 3) % 2 - 1),
    "zero": 0,
}


@pytest.mark.parametrize("name", MODULI)
def test_a_malformed_public_key(name, opened) -> None:
    value = MODULI[name]
    assert (value.bit_length() == 256) == (name not in ("too short", "zero"))
    meddler = Meddler(said.ServerKey, changed(modulus=lambda _: value.to_bytes(32, "big")))
    with pytest.raises(ProtocolFault) as caught:
        carry_out(terms_of(), meddler)
    assert meddler.done
    assert not opened
    check_silence(caught.value)


@pytest.mark.parametrize("bits", [128, 248, 264, 512])
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


def put(name: str, value: bytes) -> Callable[[Any], Any]:
    return lambda mapping: {**mapping, name: value}


@pytest.mark.parametrize("name", ["silo-0", "silo-2"])
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


def dropped(name: str) -> Callable[[Any], Any]:
    return lambda mapping: {key: one for key, one in mapping.items() if key != name}


@pytest.mark.parametrize(
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
    meddler = Meddler(said.SiloKeys, changed(**fields))
    with pytest.raises(ProtocolFault) as caught:
        carry_out(terms_of(), meddler)
    assert meddler.done
    assert not opened
    check_silence(caught.value)


LOW_ORDER = [
    bytes(32),
    bytes([1]) + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    (2**255 - 20).to_bytes(32, "little"),
    (2**255 - 19).to_bytes(32, "little"),
]


@pytest.mark.parametrize("point", LOW_ORDER)
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


# --- seeds, counts and ciphertexts ----------------------------------------------------------------


def flipped(raw: bytes) -> bytes:
    return raw[:-1] + bytes([raw[-1] ^ 1])


@pytest.mark.parametrize(
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
    meddler = Meddler(kind, changed(**fields))
    with pytest.raises(ProtocolFault) as caught:
        carry_out(terms_of(), meddler)
    assert meddler.done
    assert not opened
    check_silence(caught.value)


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


@pytest.mark.parametrize("kind", [said.Inverses, said.Update])
@pytest.mark.parametrize("bad", ["zero", "n", "n squared", "all ones"])
def test_a_ciphertext_out_of_range_or_not_coprime(kind, bad, opened) -> None:
    def change(message: Message) -> list[Message]:
        n = int.from_bytes(meddler.modulus or b"", "big")
        value = {"zero": 0, "n": n, "n squared": n * n, "all ones": 2**512 - 1}[bad]
        body = kind.unpack(message.body)
        new = replace(body, ciphertexts=body.ciphertexts[:-64] + value.to_bytes(64, "big"))
        return [replace(message, body=new.pack())]

    meddler = Meddler(kind, change)
    with pytest.raises(ProtocolFault) as caught:
        carry_out(terms_of(), meddler)
    assert meddler.done
    assert not opened
    check_silence(caught.value)


@pytest.mark.parametrize("kind", [said.Inverses, said.Update])
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
        meddler = Meddler(kind, changed(**fields))
        with pytest.raises(ProtocolFault) as caught:
            carry_out(terms_of("oblivious-transfer"), meddler)
        assert meddler.done
        check_silence(caught.value)
    assert not opened


# --- at a silo's door -----------------------------------------------------------------------------


def enrolment(shares: Any, **change: Any) -> Enrolment:
    terms = terms_of()
    identity = Identity.new()
    roster = {name: Identity.new().public for name in names(terms)[1:]}
    roster["silo-1"] = identity.public
    given = {"roster": roster} | change
    post = Network([SERVER, *names(terms)[1:]]).post("silo-1")
    return Enrolment(1, terms, shares, identity, given["roster"], post)


WRONG_SHARES = [
    [977, 0, 0],
    [4, 0, 0],
    [-977, 0, 0],
    [1, 1],
    [0.5, 0, 0],
    [float("nan"), 0, 0],
    [[1], [1, 1], [0]],
    [2**70, 0, 0],
    np.array([2**64 - 977, 0, 0], np.uint64),
]


@pytest.mark.parametrize("shares", WRONG_SHARES, ids=str)
def test_a_silo_refuses_wrong_counts_of_its_own_at_the_door(shares: Any) -> None:
    """Before it enters a session; and no count and no user stands in the message."""
    enrolment([3, 0, 3])
    with pytest.raises(InvalidInput) as caught:
        enrolment(shares)
    error = caught.value
    assert all((error.what, error.why, error.next_step))
    assert "977" not in str(error)
    assert not re.search(r"user \d|silo-\d", str(error))


@pytest.mark.parametrize("wrong", [-977, -1])
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
