"""What travels between the server and the guards, as bytes that are read by their types alone.

server -> guard   Request   signed by the server: which plan, run, start, round and phase it is of
guard -> server   Reply     signed by the silo: to which request, and what it holds or why not

Whoever carries them is trusted with nothing: a request that was not signed by the server of the
plan is none, and a reply is of one request alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, TypeVar

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import ProtocolFault
from ..crypto.keys import Identity, framed, verify
from ..frame.state import Arrays
from ..parties.message_bodies import Body

HELLO: Final = "hello"
FINISH: Final = "finish"
VECTOR: Final = "vector"
"""Phases: the first of every start, the last of a run, and the only one of a sum in the clear."""

KEYS: Final = "keys"
SHARES: Final = "shares"
WORDS: Final = "words"
CONFIRM: Final = "confirm"
RECOVER: Final = "recover"
"""The phases of a masked sum, in their order (`fl.secagg.messages`)."""

STARTED_ANEW: Final = "The guard was started anew, and goes on with the next start of the server."
"""What a guard says that was killed in the middle of a start, and is back."""

AnyBody = TypeVar("AnyBody", bound=Body)


@dataclass(frozen=True)
class Request(Body):
    """What the server asks of one guard.

    `plan` is the digest of the plan and `version` that of the code; `run` names the run, `segment`
    counts the starts of the server.  `hellos` are the signed hellos of all silos, in the first
    request of a round after a start; `result` a packed `Result` of the round before, and `model` a
    packed `ReleasedModel` for a silo that missed the end of it.  `messages` are the protocol's.
    """

    kind: ClassVar[str] = "network-request"
    plan: bytes
    version: str
    run: str
    segment: int
    round: int
    phase: str
    hellos: tuple[bytes, ...] = ()
    result: bytes = b""
    model: bytes = b""
    messages: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Reply(Body):
    """What a guard gives out: `refused` is why not, in one sentence, or empty."""

    kind: ClassVar[str] = "network-reply"
    request: bytes
    refused: str = ""
    hello: bytes = b""
    messages: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Hello(Body):
    """What a silo says of itself at a start, signed, for the server and for all other silos.

    `nonce` is fresh; `spent` counts the intents in its log, `lines` its lines, and `head` is the
    hash of the last one; `round` is the last round that was begun, `model` the digest of the model
    that was kept, and `closed` is 1 where the run is closed here.
    """

    kind: ClassVar[str] = "network-hello"
    plan: bytes
    version: str
    run: str
    segment: int
    name: str
    nonce: bytes
    spent: int
    lines: int
    head: str
    round: int
    model: str
    closed: int = 0


@dataclass(frozen=True)
class Result(Body):
    """The noisy sum of a round: little-endian numbers of 8 bytes each, and whose are in it."""

    kind: ClassVar[str] = "network-result"
    round: int
    total: bytes
    silos: tuple[int, ...]

    @classmethod
    def of(cls, number: int, total: IntArray, silos: tuple[int, ...]) -> Result:
        """Return the result of a round."""
        return cls(number, np.ascontiguousarray(total, "<i8").tobytes(), silos)

    def steps(self, length: int) -> IntArray:
        """Return the sum (length,); `ProtocolFault` for another length."""
        if len(self.total) != 8 * length:
            raise ProtocolFault(
                "The sum that the server sent has another length than was agreed.",
                "Another vector is not the sum of what the silos gave out.",
                "Find out what the server did; what was given out is spent.",
            )
        return np.frombuffer(self.total, "<i8").astype(np.int64)


@dataclass(frozen=True)
class ReleasedModel(Body):
    """A model that was released, with its state: little-endian float64 numbers."""

    kind: ClassVar[str] = "network-released"
    round: int
    parameters: bytes
    state: Mapping[str, bytes]

    @classmethod
    def of(cls, number: int, parameters: FloatArray, state: Arrays) -> ReleasedModel:
        """Return the model after a round."""
        arrays = {name: _raw(array) for name, array in state.items()}
        return cls(number, _raw(parameters), arrays)


@dataclass(frozen=True)
class _SignedBody(Body):
    kind: ClassVar[str] = "network-signed"
    content: bytes
    signature: bytes


def _raw(array: FloatArray) -> bytes:
    return np.ascontiguousarray(array, "<f8").tobytes()


def signed(identity: Identity, body: Body) -> bytes:
    """Return a body in bytes, with a signature that is good for its kind alone."""
    content = body.pack()
    return _SignedBody(content, identity.sign(_statement(type(body), content))).pack()


def opened(public: bytes, kind: type[AnyBody], raw: bytes) -> AnyBody:
    """Return the body that `signed` was given; `ProtocolFault` unless this identity signed it."""
    read = _SignedBody.unpack(raw)
    verify(public, read.signature, _statement(kind, read.content))
    return kind.unpack(read.content)


def digest_of(raw: bytes) -> bytes:
    """Return the SHA-256 digest by which a request is known."""
    return hashlib.sha256(raw).digest()


def session_of(plan: bytes, hellos: tuple[bytes, ...]) -> bytes:
    """Return the session of a start: every silo's fresh nonce is in it, so it never comes again."""
    return framed(b"privplan network session", plan, *hellos)


def _statement(kind: type[Body], content: bytes) -> bytes:
    return framed(b"privplan network message", kind.kind.encode(), content)
