"""Messages through a shuffler: what the analyzer has, what each party sees, and every fault.

Statistical tests use seeded streams where they can; those on ciphertexts draw afresh, and raise a
false alarm once in 10^9 runs."""

from __future__ import annotations

import copy
import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chisquare

from privplan.accountant import events as ev
from privplan.accountant.errors import ProtocolFault
from privplan.accountant.mechanisms import (
    Gate,
    LaplaceMessages,
    ResponseMessages,
    RoundDescription,
)
from privplan.accountant.randomness import Streams
from privplan.audit.attack_methods.masks import reused_keystream
from privplan.fl.crypto.sealed_box import BOX_BYTES, BoxKey, sealed
from privplan.fl.shuffling import Shuffling, Terms
from privplan.fl.shuffling.terms import ANALYZER, SHUFFLER, Bundle, MixedBoxes

from ..accountant.mechanism_tickets import Memory
from .shuffled_rounds import FALSE_ALARM, OWN, carried, multisets, opened


def test_the_analyzer_has_every_message_and_the_exact_sum() -> None:
    rng = np.random.default_rng(1)
    messages = rng.integers(-(2**50), 2**50, (9, 4))
    _, found = carried(Terms(9, 4, 4), messages)
    assert found.messages.shape == (4, 9, 1)
    assert multisets(found) == [Counter((v,) for v in column) for column in messages.T.tolist()]
    assert found.sums[:, 0].tolist() == messages.sum(axis=0).tolist()
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
    said = MixedBoxes.unpack(own.network.view(ANALYZER)[0].body).boxes
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
    assert not reused_keystream(hidden).detected
    hidden["twice"] = bytes(a ^ 1 for a in hidden["0"])
    assert reused_keystream(hidden).detected  # the control


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
    assert {
        box for one in seen for box in split(MixedBoxes.unpack(one.body).boxes, terms.box)
    } == sent
    assert found.messages.dtype == np.int64


def test_dummies_cannot_be_told_from_messages_by_the_analyzer() -> None:
    terms = Terms(3, padded_to=9)
    own, _ = carried(terms, np.zeros((3, 1), int), mechanism=OWN)
    (seen,) = own.network.view(ANALYZER)
    inside = own._key.opened(split(MixedBoxes.unpack(seen.body).boxes, terms.box))
    assert len({len(one) for one in inside if one is not None}) == 1
    assert len({bytes(one[:20]) for one in inside if one is not None}) == 1  # tag and coordinate


def test_clients_receive_nothing_and_secrets_do_not_show_themselves() -> None:
    own, _ = carried(Terms(3), np.zeros((3, 1), int))
    assert all(own.network.view(f"client-{n}") == () for n in range(3))
    own, _ = carried(Terms(3), np.zeros((3, 1), int))
    assert repr(own._key) == "BoxKey(<secret>)"
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            way(own._key)
    assert b"<secret>" in repr(own._key.opened([b"x", sealed(own._key.public, [b"y"])])).encode()
