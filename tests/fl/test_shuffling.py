"""Messages through a shuffler: what the analyzer has, what each party sees, and every fault.

Statistical tests use seeded streams where they can; those on ciphertexts draw afresh, and raise a
false alarm once in 10^9 runs.
"""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.accountant.mechanisms import (
    Gate,
    GaussianMessages,
    LaplaceMessages,
    ResponseMessages,
    RoundDescription,
    ShuffledRound,
    Ticket,
)
from privplan.accountant.randomness import Streams
from privplan.audit.attacks.masks import reused_keystream
from privplan.fl.crypto.sealed_box import BOX_BYTES, BoxKey, sealed
from privplan.fl.parties import Message
from privplan.fl.shuffling import Received, Shuffling, Terms
from privplan.fl.shuffling.parties import Analyzer
from privplan.fl.shuffling.terms import ANALYZER, SHUFFLER, Bundle, Mixed

from ..accountant.mechanism_tickets import Memory

FALSE_ALARM = 1e-9
OWN = LaplaceMessages(1.0, 4.0)


def opened(mechanism: Any = OWN, draws: int = 1, seed: int = 1, memory: Any = None) -> Ticket:
    gate = Gate(None, memory or Memory(), Streams.seeded(seed))
    about = RoundDescription(1, "test", draws=draws, event_override=ev.NoGuarantee("a test"))
    return gate.open(mechanism.intent(about, "replace-one"))


def carried(terms: Terms, messages: Any, **more: Any) -> tuple[Shuffling, Received]:
    own = Shuffling(terms, keep=True)
    return own, own.round(1, opened(), messages, **more)


def multisets(received: Received) -> list[Counter[tuple[int, ...]]]:
    return [Counter(map(tuple, one.tolist())) for one in received.messages]


# --- equal to the plain computation ---------------------------------------------------------------


def test_the_analyzer_has_every_message_and_the_exact_sum() -> None:
    rng = np.random.default_rng(1)
    messages = rng.integers(-(2**50), 2**50, (9, 4))
    _, found = carried(Terms(9, 4, 4), messages)
    assert found.messages.shape == (4, 9, 1)
    assert multisets(found) == [Counter((v,) for v in column) for column in messages.T.tolist()]
    assert found.sums[:, 0].tolist() == messages.sum(axis=0).tolist()


def test_whole_vectors_stay_together() -> None:
    messages = np.arange(30).reshape(6, 1, 5)
    _, found = carried(Terms(6, width=5), messages)
    assert multisets(found) == [Counter(map(tuple, messages[:, 0].tolist()))]
    assert found.sums.tolist() == [messages[:, 0].sum(axis=0).tolist()]


def test_a_noisy_sum_through_the_shuffler_is_that_of_the_messages() -> None:
    terms = Terms(12, 3, 3)
    mechanism = LaplaceMessages(1.0, 4.0, shuffled=terms.shuffled())
    ticket = opened(mechanism, draws=3)
    messages = mechanism.messages(ticket, np.full((12, 3), 0.5), "messages")
    found = Shuffling(terms).round(1, ticket, messages)
    assert found.sums[:, 0].tolist() == messages.sum(axis=0).tolist()
    release = ticket.close(values=3)
    assert release > 0
    assert mechanism.event("replace-one", draws=3) == ev.Repeat(3, ev.Shuffle(12, ev.Laplace(4.0)))


def test_words_are_counted_among_dummies() -> None:
    terms = Terms(50, padded_to=80)
    mechanism = ResponseMessages(1.0, 4)
    ticket = opened(mechanism)
    words = mechanism.messages(ticket, np.zeros((50, 1), int), "messages")
    found = Shuffling(terms).round(1, ticket, words, mechanism=mechanism)
    counts = found.counts(4)
    assert counts.sum() == 80
    assert (counts[0] >= np.bincount(words[:, 0], minlength=4)).all()
    with pytest.raises(ProtocolFault, match="none of the words"):
        found.counts(2)


def test_chosen_coordinates_are_padded_to_one_number_of_messages() -> None:
    terms = Terms(20, 6, 2, padded_to=15)
    rng = np.random.default_rng(2)
    places = np.array([rng.permutation(6)[:2] for _ in range(20)])
    messages = 10**12 + np.arange(40).reshape(20, 2)
    _, found = carried(terms, messages, places=places, mechanism=OWN)
    for place, bag in enumerate(multisets(found)):
        sent = {int(v) for v, at in zip(messages.flat, places.flat, strict=True) if at == place}
        assert bag.total() == 15
        assert {v for (v,) in bag if v >= 10**11} == sent


def test_dummies_have_the_mechanisms_own_law() -> None:
    """All slots of one coordinate but two are dummies: Laplace of scale 4 around 0."""
    terms = Terms(2, 2, 1, padded_to=1_000)
    _, found = carried(terms, np.full((2, 1), 2**40), places=np.zeros((2, 1), int), mechanism=OWN)
    drawn = OWN.units(found.messages[1, :, 0]) / 4.0
    edges = np.array([-3, -2, -1, -0.5, 0.0, 0.5, 1, 2, 3])
    below = np.where(edges < 0, 0.5 * np.exp(edges), 1 - 0.5 * np.exp(-edges))
    chances = np.diff([0.0, *below, 1.0])
    counts = np.bincount(np.searchsorted(edges, drawn), minlength=10)
    assert chisquare(counts, chances * 1_000).pvalue > 1e-6


def test_the_order_is_uniform() -> None:
    """All 6 orders of 3 clients' messages, over 300 rounds; seeded, so a pass stays a pass."""
    terms, streams = Terms(3), Streams.seeded(8)
    own = Shuffling(terms)
    gate = Gate(None, Memory(), streams)
    about = RoundDescription(1, "test", event_override=ev.NoGuarantee("a test"))
    codes = Counter[tuple[int, ...]]()
    for number in range(300):
        ticket = gate.open(OWN.intent(about, "replace-one"))
        found = own.round(number, ticket, np.arange(3)[:, None])
        ticket.abort()
        codes[tuple(found.messages[0, :, 0].tolist())] += 1
    assert len(codes) == 6
    assert chisquare(list(codes.values())).pvalue > FALSE_ALARM


def test_too_many_messages_end_the_round_or_are_capped_at_random() -> None:
    terms = Terms(10, 3, 1, padded_to=6)
    places = np.array([[0]] * 8 + [[1]] * 2)
    messages = 10**12 + np.arange(10)[:, None]
    with pytest.raises(ProtocolFault, match="more messages than it is padded to"):
        carried(terms, messages, places=places, mechanism=OWN)
    kept = set()
    for seed in range(6):
        ticket = opened(seed=seed)
        own = Shuffling(replace(terms, overflow="cap"))
        found = own.round(1, ticket, messages, places=places, mechanism=OWN)
        assert found.messages.shape == (3, 6, 1)
        survivors = found.messages[0, :, 0]
        assert (survivors >= 10**12).all()
        kept.add(tuple(sorted(survivors.tolist())))
        # As much randomness is stated whatever was lacking.
        assert ticket.stream("shuffler/order").position == 32
    assert len(kept) > 1


# --- what each party sees -------------------------------------------------------------------------


def test_the_shuffler_sees_boxes_of_one_length_and_which_coordinates() -> None:
    terms = Terms(5, 3, 3)
    messages = np.full((5, 3), 987_654_321)
    own, _ = carried(terms, messages)
    seen = own.network.view(SHUFFLER)
    assert {one.sender for one in seen} == {f"client-{n}" for n in range(5)}
    assert {one.kind for one in seen} == {Bundle.kind}
    assert len({one.size for one in seen}) == 1
    boxes = [box for one in seen for box in split(Bundle.unpack(one.body).boxes, terms.box)]
    assert len(set(boxes)) == 15
    word = np.array([987_654_321], "<i8").tobytes()
    assert not any(word in one.body for one in seen)
    said = Mixed.unpack(own.network.view(ANALYZER)[0].body).boxes
    assert word not in said
    # The control: the analyzer's key opens the same boxes.
    inside = own._key.opened(boxes)
    assert all(one is not None and word in one for one in inside)


def split(raw: bytes, length: int) -> list[bytes]:
    return [raw[at : at + length] for at in range(0, len(raw), length)]


def test_boxes_look_random_and_none_shares_a_keystream_with_another() -> None:
    key = BoxKey()
    content = bytes(4_000)
    boxes = split(sealed(key.public, [content] * 8), len(content) + BOX_BYTES)
    counts = np.bincount(np.frombuffer(b"".join(boxes), np.uint8), minlength=256)
    assert chisquare(counts).pvalue > FALSE_ALARM
    hidden = {str(n): box[32:] for n, box in enumerate(boxes)}
    assert not reused_keystream(hidden).found
    hidden["twice"] = bytes(a ^ 1 for a in hidden["0"])
    assert reused_keystream(hidden).found  # the control


def test_the_analyzer_sees_no_sender() -> None:
    terms = Terms(7, 2, 2)
    messages = np.arange(14).reshape(7, 2)
    own, found = carried(terms, messages)
    seen = own.network.view(ANALYZER)
    assert {one.sender for one in seen} == {SHUFFLER}
    assert not any(f"client-{n}".encode() in one.body for one in seen for n in range(7))
    assert len({one.size for one in seen}) == 1
    # The same box that a client sent is what the analyzer opens: only the shuffler links them.
    sent = {
        box
        for one in own.network.view(SHUFFLER)
        for box in split(Bundle.unpack(one.body).boxes, terms.box)
    }
    assert {box for one in seen for box in split(Mixed.unpack(one.body).boxes, terms.box)} == sent
    assert found.messages.dtype == np.int64


def test_dummies_cannot_be_told_from_messages_by_the_analyzer() -> None:
    terms = Terms(3, padded_to=9)
    own, _ = carried(terms, np.zeros((3, 1), int), mechanism=OWN)
    (seen,) = own.network.view(ANALYZER)
    inside = own._key.opened(split(Mixed.unpack(seen.body).boxes, terms.box))
    assert len({len(one) for one in inside if one is not None}) == 1
    assert len({bytes(one[:20]) for one in inside if one is not None}) == 1  # tag and coordinate


def test_clients_receive_nothing() -> None:
    own, _ = carried(Terms(3), np.zeros((3, 1), int))
    assert all(own.network.view(f"client-{n}") == () for n in range(3))


def test_secrets_do_not_show_themselves() -> None:
    own, _ = carried(Terms(3), np.zeros((3, 1), int))
    assert repr(own._key) == "BoxKey(<secret>)"
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            way(own._key)
    assert b"<secret>" in repr(own._key.opened([b"x", sealed(own._key.public, [b"y"])])).encode()


# --- faults ---------------------------------------------------------------------------------------


def changed_at(raw: bytes, at: int, bit: int = 1) -> bytes:
    return raw[:at] + bytes([raw[at] ^ bit]) + raw[at + 1 :]


def bundle(change: Any) -> Any:
    """Change the bundle of client 1."""

    def meddling(message: Message) -> tuple[Message, ...]:
        if message.sender != "client-1":
            return (message,)
        body = change(Bundle.unpack(message.body))
        return (replace(message, body=body.pack()),)

    return meddling


def mixed(change: Any) -> Any:
    """Change what the shuffler hands on of coordinate 1."""

    def meddling(message: Message) -> tuple[Message, ...]:
        if message.kind != Mixed.kind:
            return (message,)
        body = Mixed.unpack(message.body)
        return (replace(message, body=(change(body) if body.place == 1 else body).pack()),)

    return meddling


def wrapped(kind: str, change: Any) -> Any:
    def meddling(message: Message) -> tuple[Message, ...]:
        hit = message.kind == kind and message.sender in ("client-1", SHUFFLER)
        return change(message) if hit else (message,)

    return meddling


BOX = Terms(4, 2, 2).box
FAULTS = {
    "a bundle is missing": (wrapped(Bundle.kind, lambda _: ()), MissingParty, "client-1"),
    "a bundle comes twice": (wrapped(Bundle.kind, lambda m: (m, m)), ProtocolFault, "client-1"),
    "a bundle of another round": (
        wrapped(Bundle.kind, lambda m: (replace(m, round=9),)),
        ProtocolFault,
        "client-1",
    ),
    "a bundle of another session": (
        wrapped(Bundle.kind, lambda m: (replace(m, session=b"x"),)),
        ProtocolFault,
        "client-1",
    ),
    "a bundle of another kind": (
        wrapped(Bundle.kind, lambda m: (replace(m, kind="x"),)),
        ProtocolFault,
        "client-1",
    ),
    "a bundle that is no bundle": (
        wrapped(Bundle.kind, lambda m: (replace(m, body=b"\x93"),)),
        ProtocolFault,
        "client-1 to shuffler is not a well-formed",
    ),
    "too few places": (
        bundle(lambda b: replace(b, places=b.places[:4])),
        ProtocolFault,
        "client-1 did not send 2",
    ),
    "too few boxes": (
        bundle(lambda b: replace(b, boxes=b.boxes[:BOX])),
        ProtocolFault,
        "client-1 sent boxes of another length",
    ),
    "one coordinate twice": (
        bundle(lambda b: replace(b, places=b.places[:4] * 2)),
        ProtocolFault,
        "client-1 sent a coordinate",
    ),
    "no such coordinate": (
        bundle(lambda b: replace(b, places=b.places[:4] + b"\x07\0\0\0")),
        ProtocolFault,
        "client-1 sent a coordinate",
    ),
    "one box twice": (
        bundle(lambda b: replace(b, boxes=b.boxes[:BOX] * 2)),
        ProtocolFault,
        "same box was sent twice, by client-1.",
    ),
    "boxes under the wrong coordinate": (
        bundle(lambda b: replace(b, boxes=b.boxes[BOX:] + b.boxes[:BOX])),
        ProtocolFault,
        "shuffler handed on a message that is of another coordinate",
    ),
    "a bit of a box on its way to the shuffler": (
        bundle(lambda b: replace(b, boxes=changed_at(b.boxes, 70))),
        ProtocolFault,
        "does not open",
    ),
    "mixed boxes are missing": (wrapped(Mixed.kind, lambda _: ()), MissingParty, "shuffler"),
    "mixed boxes come twice": (wrapped(Mixed.kind, lambda m: (m, m)), ProtocolFault, "shuffler"),
    "mixed boxes of another round": (
        wrapped(Mixed.kind, lambda m: (replace(m, round=9),)),
        ProtocolFault,
        "shuffler",
    ),
    "a box was left out": (
        mixed(lambda b: replace(b, boxes=b.boxes[BOX:])),
        ProtocolFault,
        "another number of messages",
    ),
    "a box was put in the place of another": (
        mixed(lambda b: replace(b, boxes=b.boxes[:BOX] * 2 + b.boxes[2 * BOX :])),
        ProtocolFault,
        "same box on twice",
    ),
    "boxes are handed on as of another coordinate": (
        mixed(lambda b: replace(b, place=0)),
        ProtocolFault,
        "another number of messages",
    ),
    "a bit of a box on its way to the analyzer": (
        mixed(lambda b: replace(b, boxes=changed_at(b.boxes, 3))),
        ProtocolFault,
        "does not open",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_ends_the_round_for_all_and_nothing_is_opened(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    meddling, raised, why = FAULTS[name]
    terms = Terms(4, 2, 2)
    own = Shuffling(terms, keep=True)
    own.network._meddling = meddling
    handed: list[object] = []
    monkeypatch.setattr("privplan.fl.shuffling.parties.Received", handed.append)
    with pytest.raises(raised, match=why):
        own.round(1, opened(), np.arange(8).reshape(4, 2))
    # A second copy that nobody asked for is found when the analyzer leaves; it hands out nothing.
    assert handed == []
    own.network._meddling = None
    with pytest.raises(InvalidInput, match="stopped by an earlier fault"):
        own.round(2, opened(), np.arange(8).reshape(4, 2))


def test_boxes_of_an_earlier_round_are_found() -> None:
    own = Shuffling(Terms(4, 2, 2), keep=True)
    own.round(1, opened(), np.arange(8).reshape(4, 2))
    earlier = next(m for m in own.network.view(SHUFFLER) if m.sender == "client-1")
    own.network._meddling = bundle(lambda _: Bundle.unpack(earlier.body))
    with pytest.raises(ProtocolFault, match="shuffler handed on a message that belongs to another"):
        own.round(2, opened(seed=2), np.arange(8).reshape(4, 2))


def test_a_client_that_sends_the_boxes_of_another_is_named_with_it() -> None:
    own, seen = Shuffling(Terms(4, 2, 2)), {}

    def copying(message: Message) -> tuple[Message, ...]:
        seen[message.sender] = message.body
        return (
            (replace(message, body=seen["client-1"]),)
            if message.sender == "client-3"
            else (message,)
        )

    own.network._meddling = copying
    with pytest.raises(ProtocolFault, match="sent twice, by client-1 and by client-3"):
        own.round(1, opened(), np.arange(8).reshape(4, 2))


def test_a_message_that_could_make_a_sum_wrap_around_is_refused() -> None:
    with pytest.raises(ProtocolFault, match="too large"):
        carried(Terms(4), np.array([[0], [0], [0], [2**62]]))


def test_an_error_names_no_message() -> None:
    own = Shuffling(Terms(4))
    with pytest.raises(ProtocolFault) as caught:
        own.round(1, opened(), np.array([[0], [0], [0], [4_611_686_018_427_387_904]]))
    assert "4611686018427387904" not in str(caught.value)


def test_the_analyzer_is_not_copied() -> None:
    own = Shuffling(Terms(3))
    analyzer = Analyzer(own.terms, own._key, own._posts[ANALYZER], b"s", 1)
    with pytest.raises(TypeError):
        pickle.dumps(analyzer)


# --- who may take part ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"clients": 0}, "clients"),
        ({"clients": 5, "dimensions": 2, "chosen": 3}, "chosen"),
        ({"clients": 5, "dimensions": 3, "chosen": 2}, "must be padded"),
        ({"clients": 5, "width": 2, "padded_to": 9}, "several integers"),
        ({"clients": 5, "padded_to": 4}, "5 or above"),
        ({"clients": 5, "padded_to": 0}, "padded_to"),
        ({"clients": 5, "overflow": "drop"}, "overflow"),
    ],
)
def test_terms_that_hide_less_than_they_say_are_refused(given: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        Terms(**given)


def test_the_log_states_the_protocol_and_clients_that_collude_hide_nobody() -> None:
    terms = Terms(100, 8, 2, padded_to=90)
    own = Shuffling(terms, colluders=10)
    said = own.security
    assert (said.protocol, said.parties, said.fewest, said.colluders) == ("shuffler", 100, 100, 10)
    assert terms.shuffled(10) == ShuffledRound(90, 8, 2, 80)  # colluders take up places
    assert Terms(100).shuffled() == ShuffledRound(100)
    with pytest.raises(InvalidInput, match="tell the analyzer nothing"):
        Shuffling(Terms(5), colluders=4)
    with pytest.raises(InvalidInput, match="local event"):
        Terms(5, width=2).shuffled()


@pytest.mark.parametrize(
    ("messages", "places"),
    [
        (np.zeros((3, 2), int), None),
        (np.zeros((4, 1), int), None),
        (np.zeros((4, 2)), None),
        (np.zeros((4, 2), int), np.zeros((4, 1), int)),
        (np.zeros((4, 2), int), np.full((4, 2), 2)),
        (np.zeros((4, 2), int), np.full((4, 2), -1)),
    ],
)
def test_other_arrays_are_refused_before_anything_is_sent(messages: Any, places: Any) -> None:
    own = Shuffling(Terms(4, 2, 2))
    with pytest.raises(InvalidInput):
        own.round(1, opened(), messages, places=places)
    assert sum(own.network.sent.values()) == 0
    own.round(1, opened(), np.zeros((4, 2), int))  # nothing was stopped


def test_dummies_need_a_mechanism_that_can_draw_them() -> None:
    own = Shuffling(Terms(4, padded_to=6))
    with pytest.raises(InvalidInput, match="no mechanism is given"):
        own.round(1, opened(), np.zeros((4, 1), int))
    normal = GaussianMessages(1.0, 4.0)
    with pytest.raises(Exception, match="two tails"):
        own.round(1, opened(normal), np.zeros((4, 1), int), mechanism=normal)
    assert sum(own.network.sent.values()) > 0
    with pytest.raises(InvalidInput, match="stopped"):
        own.round(2, opened(), np.zeros((4, 1), int), mechanism=OWN)


def test_the_shufflers_randomness_stands_in_the_release() -> None:
    memory = Memory()
    ticket = opened(memory=memory)
    messages = OWN.messages(ticket, np.zeros((4, 1)), "messages")
    Shuffling(Terms(4, padded_to=6)).round(1, ticket, messages, mechanism=OWN)
    ticket.close()
    assert len(memory.lines[-1].streams) == 3  # type: ignore[attr-defined]
