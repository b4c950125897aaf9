"""A shuffled round that goes wrong, and who may take part in one."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.accountant.mechanisms import (
    GaussianMessages,
    ShuffledRound,
)
from privplan.fl.parties.network import Message
from privplan.fl.shuffling import Shuffling, Terms
from privplan.fl.shuffling.parties import Analyzer
from privplan.fl.shuffling.terms import ANALYZER, SHUFFLER, Bundle, MixedBoxes

from ..accountant.mechanism_tickets import Memory
from ..cases import for_each
from .shuffled_rounds import OWN, carried, opened


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
        if message.kind != MixedBoxes.kind:
            return (message,)
        body = MixedBoxes.unpack(message.body)
        return (replace(message, body=(change(body) if body.coordinate == 1 else body).pack()),)

    return meddling


def wrapped(kind: str, change: Any) -> Any:
    def meddling(message: Message) -> tuple[Message, ...]:
        hit = message.kind == kind and message.sender in ("client-1", SHUFFLER)
        return change(message) if hit else (message,)

    return meddling


BOX = Terms(4, 2, 2).box


def sent(**change: Any) -> Any:
    """Change the envelope of the bundle of client 1."""
    return wrapped(Bundle.kind, lambda m: (replace(m, **change),))


def boxes(change: Any) -> Any:
    """Change the boxes of client 1."""
    return bundle(lambda b: replace(b, boxes=change(b.boxes)))


def places(change: Any) -> Any:
    return bundle(lambda b: replace(b, places=change(b.places)))


def handed_on(change: Any) -> Any:
    """Change the boxes that the shuffler hands on of coordinate 1."""
    return mixed(lambda b: replace(b, boxes=change(b.boxes)))


FAULTS = {
    "a bundle is missing": (wrapped(Bundle.kind, lambda _: ()), "client-1"),
    "a bundle comes twice": (wrapped(Bundle.kind, lambda m: (m, m)), "client-1"),
    "a bundle of another round": (sent(round=9), "client-1"),
    "a bundle of another session": (sent(session=b"x"), "client-1"),
    "a bundle of another kind": (sent(kind="x"), "client-1"),
    "no bundle": (sent(body=b"\x93"), "client-1 to shuffler is not a well-formed"),
    "too few places": (places(lambda raw: raw[:4]), "client-1 did not send 2"),
    "too few boxes": (boxes(lambda raw: raw[:BOX]), "client-1 sent boxes of another length"),
    "one coordinate twice": (places(lambda raw: raw[:4] * 2), "client-1 sent a coordinate"),
    "no such coordinate": (places(lambda raw: raw[:4] + b"\7\0\0\0"), "client-1 sent a coordinate"),
    "one box twice": (boxes(lambda raw: raw[:BOX] * 2), "same box was sent twice, by client-1."),
    "boxes under the wrong coordinate": (
        boxes(lambda raw: raw[BOX:] + raw[:BOX]),
        "shuffler handed on a message that is of another coordinate",
    ),
    "a bit on its way to the shuffler": (boxes(lambda raw: changed_at(raw, 70)), "does not open"),
    "mixed boxes are missing": (wrapped(MixedBoxes.kind, lambda _: ()), "shuffler"),
    "mixed boxes come twice": (wrapped(MixedBoxes.kind, lambda m: (m, m)), "shuffler"),
    "mixed boxes of another round": (
        wrapped(MixedBoxes.kind, lambda m: (replace(m, round=9),)),
        "shuffler",
    ),
    "a box was left out": (handed_on(lambda raw: raw[BOX:]), "another number of messages"),
    "a box was put in the place of another": (
        handed_on(lambda raw: raw[:BOX] * 2 + raw[2 * BOX :]),
        "same box on twice",
    ),
    "boxes are handed on as of another coordinate": (
        mixed(lambda b: replace(b, coordinate=0)),
        "another number of messages",
    ),
    "a bit on its way to the analyzer": (
        handed_on(lambda raw: changed_at(raw, 3)),
        "does not open",
    ),
}


@for_each("name", FAULTS)
def test_every_fault_ends_the_round_for_all_and_nothing_is_opened(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    meddling, why = FAULTS[name]
    raised = MissingParty if "missing" in name else ProtocolFault
    terms = Terms(4, 2, 2)
    own = Shuffling(terms, keep=True)
    own.network._meddling = meddling
    handed: list[object] = []
    monkeypatch.setattr("privplan.fl.shuffling.parties.ReceivedMessages", handed.append)
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


def test_a_message_that_could_make_a_sum_wrap_around_is_refused_and_not_named() -> None:
    with pytest.raises(ProtocolFault, match="too large") as caught:
        carried(Terms(4), np.array([[0], [0], [0], [4_611_686_018_427_387_904]]))
    assert "4611686018427387904" not in str(caught.value)


def test_the_analyzer_is_not_copied_and_the_shufflers_randomness_is_stated() -> None:
    own = Shuffling(Terms(3))
    analyzer = Analyzer(own.terms, own._key, own._posts[ANALYZER], b"s", 1)
    with pytest.raises(TypeError):
        pickle.dumps(analyzer)
    memory = Memory()
    ticket = opened(memory=memory)
    messages = OWN.messages(ticket, np.zeros((4, 1)), "messages")
    Shuffling(Terms(4, padded_to=6)).round(1, ticket, messages, mechanism=OWN)
    ticket.close()
    assert len(memory.lines[-1].streams) == 3  # type: ignore[attr-defined]


@for_each(
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


@for_each(
    ("messages", "places"),
    [
        *((np.zeros((3, 2), int), None), (np.zeros((4, 1), int), None), (np.zeros((4, 2)), None)),
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
