"""What the tests of secagg committees have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, ProtocolFault
from privplan.fl.crypto.keys import Identity
from privplan.fl.parties.network import SERVER, Body, Message, Network, silo_name
from privplan.fl.secagg import messages as says
from privplan.fl.secagg.committee import Committee
from privplan.fl.secagg.group import Group
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


def advertising(name: str, identity: Identity, lock_key: bytes, mask_key: bytes) -> Change:
    """Return what puts other keys into an advert, with their owner's own signature."""

    def change(_: says.Advert) -> says.Advert:
        group = Group(TERMS, ROSTER, SESSION)
        claim = group.claim(1, name, lock_key, mask_key)
        return says.Advert(lock_key, mask_key, identity.sign(claim))

    return change


IDENTITIES = {name: Identity.new() for name in NAMES}
ROSTER = {name: identity.public for name, identity in IDENTITIES.items()}
