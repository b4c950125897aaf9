"""Sessions of private weighting in which a message is changed on its way, for tests of faults."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import ProtocolFault
from privplan.accountant.randomness import Streams
from privplan.fl.crypto.keys import Identity
from privplan.fl.parties.network import Body, Message, Network
from privplan.fl.uldp.weighting import messages as said
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


def check_silence(error: Exception) -> None:
    """Refuse an error that shows anything that could be a value."""
    assert not re.search(r"\d{5,}|[0-9a-f]{12,}|\\x", str(error).replace("every", "")), str(error)
    assert error.__context__ is None or error.__suppress_context__


def require_end(
    meddler: Meddler,
    opened: list[int],
    drawn_by: str = "nobody",
    error: type[Exception] = ProtocolFault,
) -> None:
    """Require that a session ends in silence, with nothing decrypted."""
    with pytest.raises(error) as caught:
        carry_out(terms_of(drawn_by), meddler)
    assert meddler.done
    assert not opened
    check_silence(caught.value)


def changed(**fields: Any) -> Change:
    """Return the change of some fields of a message's body, by functions of their values."""

    def change(message: Message) -> list[Message]:
        (kind,) = [one for one in Body.__subclasses__() if one.kind == message.kind]
        body = kind.unpack(message.body)
        new = {name: function(getattr(body, name)) for name, function in fields.items()}
        return [replace(message, body=replace(body, **new).pack())]  # type: ignore[type-var]

    return change


def put(name: str, value: bytes) -> Callable[[Any], Any]:
    """Return the change of a mapping that puts another value under a name."""
    return lambda mapping: {**mapping, name: value}


def dropped(name: str) -> Callable[[Any], Any]:
    """Return the change of a mapping that leaves a name out."""
    return lambda mapping: {key: one for key, one in mapping.items() if key != name}
