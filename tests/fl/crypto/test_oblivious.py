"""Oblivious transfer: what opens, what never does, and what is refused."""

from __future__ import annotations

import copy
import hashlib
import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privplan.accountant.errors import InvalidInput, ProtocolFault
from privplan.accountant.randomness import Secret, Streams
from privplan.fl.crypto import oblivious
from privplan.fl.crypto.oblivious import Receiver, Sender, Transfer, real_slots, shared_choices

from ...cases import for_each
from ...chance import limits

nacl: Any = pytest.importorskip("nacl.bindings")

ORDER = 2**252 + 27742317777372353535851937790883648493


def transfer(**changed: Any) -> Transfer:
    terms: dict[str, Any] = {"session": b"a session", "round": 3, "silo": "silo-1"}
    return Transfer(**{**terms, "users": 4, "slots": 5, "length": 24, **changed})


def messages(terms: Transfer) -> list[list[bytes]]:
    def message(user: int, slot: int) -> bytes:
        return hashlib.shake_128(f"{user}/{slot}".encode()).digest(terms.length)

    return [[message(user, slot) for slot in range(terms.slots)] for user in range(terms.users)]


def sides(choices: Any = (0, 0, 0, 0), **changed: Any) -> tuple[Transfer, Sender, Receiver]:
    """Return terms, the sender, and a receiver who has chosen."""
    terms = transfer(**changed)
    sender = Sender(terms)
    return terms, sender, Receiver(terms, sender.point, np.array(choices))


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_every_choice_opens_its_own_message(data: st.DataObject) -> None:
    users, slots = data.draw(st.integers(1, 4)), data.draw(st.integers(2, 12))
    choices = data.draw(st.lists(st.integers(0, slots - 1), min_size=users, max_size=users))
    length = data.draw(st.sampled_from([1, 31, 256]))
    terms, sender, receiver = sides(choices, users=users, slots=slots, length=length)
    own = messages(terms)
    answer = sender.encrypt(receiver.requests, own)
    assert len(receiver.requests) == terms.request_bytes
    assert len(answer) == terms.answer_bytes
    assert receiver.open(answer) == [own[user][slot] for user, slot in enumerate(choices)]


def test_the_first_and_the_last_slot_of_all_users() -> None:
    terms, sender, receiver = sides([0, 299], users=2, slots=300, length=3)
    own = messages(terms)
    assert receiver.open(sender.encrypt(receiver.requests, own)) == [own[0][0], own[1][299]]


def test_the_receivers_key_opens_no_other_slot() -> None:
    terms, sender, receiver = sides([2], users=1, slots=6)
    secret = bytes(receiver._secrets[0])
    answer = sender.encrypt(receiver.requests, messages(terms))
    shared = nacl.crypto_scalarmult_ed25519_noclamp(secret, sender.point)
    key = oblivious._key(oblivious._bound(terms, sender.point), 0, receiver.requests, shared)
    opened = []
    for slot in range(terms.slots):
        one = answer[slot * (terms.length + 16) : (slot + 1) * (terms.length + 16)]
        try:
            nacl.crypto_aead_chacha20poly1305_ietf_decrypt(one, None, bytes(12), key)
        except Exception:
            continue
        opened.append(slot)
    assert opened == [2]


def test_no_key_is_used_twice_in_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The zero nonce needs it: over silos, rounds and users, and with one choice everywhere."""
    seen: list[bytes] = []
    true = oblivious._key
    monkeypatch.setattr(oblivious, "_key", lambda *parts: seen.append(true(*parts)) or seen[-1])
    for number in range(3):
        for silo in ("silo-0", "silo-1"):
            terms, sender, receiver = sides([1] * 4, round=number, silo=silo)
            sender.encrypt(receiver.requests, messages(terms))
    assert len(set(seen)) == len(seen) == 3 * 2 * 4 * 5


@for_each(
    "changed",
    [{"session": b"b session"}, {"round": 4}, {"silo": "silo-2"}, {"users": 3}, {"slots": 6}],
)
def test_keys_are_bound_to_what_was_agreed(changed: dict[str, Any]) -> None:
    point = nacl.crypto_scalarmult_ed25519_base_noclamp(bytes([7]) + bytes(31))
    own = oblivious._key(oblivious._bound(transfer(), point), 0, point, point)
    other = oblivious._key(oblivious._bound(transfer(**changed), point), 0, point, point)
    assert own != other


def test_keys_are_bound_to_the_user_and_both_points() -> None:
    one, two = (nacl.crypto_scalarmult_ed25519_base_noclamp(bytes([n]) + bytes(31)) for n in (7, 9))
    keys = {
        oblivious._key(oblivious._bound(transfer(), sent), user, request, one)
        for sent in (one, two)
        for user in (0, 1)
        for request in (one, two)
    }
    assert len(keys) == 8


def test_requests_are_fresh_and_uniform_whatever_is_chosen() -> None:
    """Each bit of R is as often 1 for choice 0 as for choice 3.

    False alarms: 756 looks at shares of 400, at 1e-6 together.
    """
    terms = transfer(users=400, slots=4, length=1)
    sender = Sender(terms)
    bits = []
    for slot in (0, 3):
        requests = Receiver(terms, sender.point, np.full(400, slot)).requests
        points = np.frombuffer(requests, np.uint8).reshape(400, 32)
        assert len({row.tobytes() for row in points}) == 400
        bits.append(np.unpackbits(points, axis=1, bitorder="little")[:, :252].mean(axis=0))
    low, high = limits(stats.binom(400, 0.5), looks=756)
    assert low <= 400 * np.min(bits) <= 400 * np.max(bits) <= high
    assert abs(bits[0] - bits[1]).max() < limits(stats.norm(scale=(0.5 / 400) ** 0.5), looks=756)[1]


def test_selection_is_the_same_as_indexing() -> None:
    rng = np.random.default_rng(1)
    table = rng.integers(0, 256, (50, 9, 17), dtype=np.uint8)
    choices = rng.integers(0, 9, 50)
    found = oblivious._selected(table, choices)
    assert (found == table[np.arange(50), choices]).all()


def test_selection_neither_branches_on_a_choice_nor_indexes_by_it() -> None:
    """Read from the source: choices enter only through integer arithmetic."""
    text = inspect.getsource(oblivious._selected).split('"""')[2]
    assert " if " not in text
    assert "[choices" not in text


# --- points ---------------------------------------------------------------------------------------

ZERO_POINT = bytes([1]) + bytes(31)
ORDER_TWO = (2**255 - 20).to_bytes(32, "little")  # y = -1
ORDER_FOUR = bytes(32)  # y = 0


def mixed() -> bytes:
    """A point of the curve outside the prime-order group: a multiple of B, plus one of order 2."""
    base = nacl.crypto_scalarmult_ed25519_base_noclamp(bytes([5]) + bytes(31))
    return bytes(nacl.crypto_core_ed25519_add(base, ORDER_TWO))


def off_the_curve() -> bytes:
    return next(
        bytes([low]) + bytes(31)
        for low in range(2, 50)
        if not nacl.crypto_core_ed25519_is_valid_point(bytes([low]) + bytes(31))
    )


def beyond_the_field() -> bytes:
    return (2**255 - 18).to_bytes(32, "little")  # y = p + 1, which is 1


POINTS = [
    ZERO_POINT,
    ORDER_TWO,
    ORDER_FOUR,
    mixed(),
    off_the_curve(),
    beyond_the_field(),
    bytes(31),
    b"",
    b"\xff" * 32,
]


@for_each("point", POINTS)
def test_a_bad_point_from_the_server_or_a_silo_is_refused(point: bytes) -> None:
    terms, sender, receiver = sides()
    with pytest.raises(ProtocolFault, match="no valid point"):
        Receiver(terms, point, np.zeros(4, np.int64))
    if len(point) == 32:
        asked = receiver.requests[:64] + point + receiver.requests[96:]
        with pytest.raises(ProtocolFault, match="no valid point") as caught:
            sender.encrypt(asked, messages(terms))
        assert point.hex() not in str(caught.value)


# --- counts, lengths and repetitions --------------------------------------------------------------


def opened() -> tuple[Sender, Receiver, bytes]:
    terms, sender, receiver = sides([0, 1, 2, 4])
    return sender, receiver, sender.encrypt(receiver.requests, messages(terms))


def test_a_retry_resends_the_same_bytes_and_nothing_else_is_answered_or_taken() -> None:
    sender, receiver, answer = opened()
    assert sender.encrypt(receiver.requests, []) == answer
    other = Receiver(sender.transfer, sender.point, np.array([3, 3, 3, 3]))
    with pytest.raises(ProtocolFault, match="second time"):
        sender.encrypt(other.requests, messages(sender.transfer))
    assert receiver.open(answer) == receiver.open(bytes(answer))
    spoilt = answer[:-1] + bytes([answer[-1] ^ 1])  # in a slot that was not taken from
    with pytest.raises(ProtocolFault, match="second time"):
        receiver.open(spoilt)


def test_a_spoilt_message_stops_everything() -> None:
    _, receiver, answer = opened()
    with pytest.raises(ProtocolFault, match="does not open"):
        receiver.open(bytes([answer[0] ^ 1]) + answer[1:])
    with pytest.raises(ProtocolFault):
        receiver.open(answer)


def test_an_answer_for_another_round_does_not_open() -> None:
    terms, sender, receiver = sides()
    sender.transfer = transfer(round=4)
    with pytest.raises(ProtocolFault, match="does not open"):
        receiver.open(sender.encrypt(receiver.requests, messages(terms)))


def test_requests_and_answers_of_a_wrong_size_are_refused() -> None:
    for size in (0, 31, 96, 127, 129, 160):
        with pytest.raises(ProtocolFault, match="wrong size"):
            Sender(transfer()).encrypt(bytes(size), messages(transfer()))
    _, receiver, answer = opened()
    for wrong in (b"", answer[:-1], answer + b"\0"):
        with pytest.raises(ProtocolFault, match="wrong size"):
            receiver.open(wrong)


@for_each(
    "wrong",
    [
        lambda own: own[:-1],
        lambda own: [own[0][:-1], *own[1:]],
        lambda own: [[own[0][0] + b"x", *own[0][1:]], *own[1:]],
    ],
)
def test_own_messages_of_another_shape_are_refused(wrong: Any) -> None:
    terms, sender, receiver = sides()
    with pytest.raises(InvalidInput):
        sender.encrypt(receiver.requests, wrong(messages(terms)))


@for_each("choices", [[0, 1, 2], [0, 1, 2, 5], [0, 1, 2, -1], [0.0, 1.0, 2.0, 3.0], [[0, 1, 2, 3]]])
def test_choices_of_another_shape_or_range_are_refused(choices: Any) -> None:
    with pytest.raises(InvalidInput, match="choices"):
        Receiver(transfer(), Sender(transfer()).point, np.array(choices))


@for_each(
    "name, wrong",
    [
        *(("session", b""), ("session", bytes(256)), ("silo", "")),
        *(("round", -1), ("users", 0), ("slots", 1), ("slots", 65536), ("length", 0)),
    ],
)
def test_terms_out_of_range_are_refused(name: str, wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        transfer(**{name: wrong})


def test_secrets_are_not_pickled() -> None:
    for side in sides()[1:]:
        for way in (copy.copy, copy.deepcopy, pickle.dumps):  # a copy could use its keys again
            with pytest.raises(TypeError, match="not pickled or copied"):
                way(side)
        assert "object at" in repr(side)


def test_numpys_integers_make_the_same_keys() -> None:
    whole = {"round": 3, "users": 4, "slots": 2, "length": 5}
    same = transfer(**{name: np.int64(number) for name, number in whole.items()})
    assert same == transfer(**whole)
    sender = Sender(same)
    receiver = Receiver(transfer(**whole), sender.point, np.array([0, 1, 1, 0]))
    answer = sender.encrypt(receiver.requests, [[b"first", b"other"]] * 4)
    assert receiver.open(answer) == [b"first", b"other", b"other", b"first"]


# --- sampling -------------------------------------------------------------------------------------


def test_all_silos_choose_alike_and_rounds_differ() -> None:
    seed = Secret(bytes(range(32)))
    first = shared_choices(seed, b"s", 1, 200, 10)
    assert (first == shared_choices(seed, b"s", 1, 200, 10)).all()
    assert (first != shared_choices(seed, b"s", 2, 200, 10)).any()
    assert (first != shared_choices(seed, b"t", 1, 200, 10)).any()
    assert (first != shared_choices(Secret(bytes(32)), b"s", 1, 200, 10)).any()
    assert first.shape == (200,)
    assert set(first.tolist()) == set(range(10))


def test_exactly_so_many_slots_are_real() -> None:
    for chosen in (0, 1, 4, 10):
        real = real_slots(Streams.seeded(1).stream("slots"), 50, 10, chosen)
        assert (real.sum(axis=1) == chosen).all()
    with pytest.raises(InvalidInput, match="seed"):
        shared_choices(Secret(bytes(4)), b"s", 1, 5, 10)
    with pytest.raises(InvalidInput, match="chosen"):
        real_slots(Streams.seeded(1).stream("slots"), 50, 10, 11)


def test_users_take_part_with_the_stated_rate() -> None:
    """3 of 10: each slot, and the slot that is taken, is real 30% of the time.

    False alarms: seeded, so none at random; the band is 5 standard deviations.
    """
    users = 20_000
    real = real_slots(Streams.seeded(2).stream("slots"), users, 10, 3)
    taken = real[np.arange(users), shared_choices(Secret(bytes(32)), b"s", 0, users, 10)]
    band = 5 * (0.3 * 0.7 / users) ** 0.5
    assert abs(taken.mean() - 0.3) < band
    assert abs(real.mean(axis=0) - 0.3).max() < band
    assert abs((taken[1:] & taken[:-1]).mean() - 0.09) < band
