"""Messages of a masked sum that are repeated, moved or changed on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from privplan.accountant.errors import ProtocolFault
from privplan.fl.parties.network import Message
from privplan.fl.secagg.terms import choose

from ..cases import for_each
from .secagg_committees import KINDS, LAST, committee, flipped, inputs, stopped


def met(message: Message, kind: str) -> bool:
    """Return whether a message of this kind comes from silo-2, or goes there."""
    return message.kind == kind and "silo-2" in (message.sender, message.receiver)


CHANGES: dict[str, Callable[[Message], Iterable[Message]]] = {
    "twice": lambda message: (message, message),
    "another session": lambda message: (replace(message, session=b"another"),),
    "cut": lambda message: (replace(message, body=message.body[:-1]),),
    "longer": lambda message: (replace(message, body=message.body + b"\0"),),
    "empty": lambda message: (replace(message, body=b""),),
}


@for_each("kind", KINDS)
@for_each("change", CHANGES)
def test_a_message_that_is_changed_ends_the_round(change: str, kind: str) -> None:
    fault, _ = stopped(lambda one: CHANGES[change](one) if met(one, kind) else (one,))
    assert change != "another session" or change in fault.what


@for_each("kind", KINDS)
def test_a_message_of_another_round_ends_the_round(kind: str) -> None:
    old: list[Message] = []

    def replay(message: Message) -> Iterable[Message]:
        if not met(message, kind):
            return (message,)
        old.append(message)
        return (old[0],) if message.round == 2 else (message,)

    one, _ = committee(replay)
    one.sum(1, inputs())
    with pytest.raises(ProtocolFault, match="another session or round"):
        one.sum(2, inputs())


@for_each("kind", [k for k in KINDS if k != "secagg-masked"])
def test_a_body_of_another_round_ends_the_round_even_in_a_message_of_this_one(kind: str) -> None:
    old: list[Message] = []

    def replay(message: Message) -> Iterable[Message]:
        if not met(message, kind):
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


@for_each("kind", [k for k in KINDS if k not in LAST])
def test_messages_in_another_order_end_the_round(kind: str) -> None:
    """Each is held back until the same two parties exchange the next one."""
    held: list[Message] = []

    def later(message: Message) -> Iterable[Message]:
        if met(message, kind):
            held.append(message)
            return ()
        ready = [m for m in held if (m.sender, m.receiver) == (message.sender, message.receiver)]
        for one in ready:
            held.remove(one)
        return (message, *ready)

    terms = choose(5, length=6, dropouts=0, colluders=1)
    with pytest.raises(ProtocolFault):
        committee(later, terms)[0].sum(1, inputs(terms))


@for_each("kind", [k for k in KINDS if k != "secagg-masked"])
def test_any_bit_that_is_flipped_in_a_body_ends_the_round(kind: str) -> None:
    for place in range(3, 400, 67):

        def flip(message: Message, place: int = place) -> Iterable[Message]:
            if not met(message, kind):
                return (message,)
            return (replace(message, body=flipped(message.body, place % message.size)),)

        stopped(flip)
