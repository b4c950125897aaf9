"""Heads and receipts: what a data set had spent at an entry of its history, signed.

The private key stands outside the database and its backups: whoever can write the database alone
can sign nothing.
Source: Ed25519, RFC 8032.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import require_fields
from ...fl.ledger_client.receipts import STATEMENT_PREFIX, signature_holds
from ...fl.log.hash_chain import canonical, is_hash
from ...fl.log.signing import require_library
from .balances import Vector, of_texts, texts
from .names import name_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT: Final = "privplan-ledger/1"

_ROTATION: Final = b"privplan-ledger/1 next key\n"
"""Domain separation: prefixed to what is signed, so that no other signature by the key fits."""

MAX_SIZE: Final = 32
"""Most numbers of a vector that is read."""


_OF_CLAIM: Final = ("state", "request")


@dataclass(frozen=True)
class Statement:
    """What a data set had spent after entry `seq`, whose hash is `hash`.

    `claim` is the claim that the entry is about, `state` its state then, and `request` the digest
    of what was asked with its key; None in a head, and what older services did not sign.
    """

    data_set: str
    seq: int
    hash: str
    balances: Mapping[str, Vector]
    cap: Vector
    certified: bool
    frozen: bool
    claim: str | None = None
    state: str | None = None
    request: str | None = None

    def to_json(self) -> dict[str, object]:
        """Return the statement as it is signed; numbers of budget units are decimal strings."""
        said = {"state": self.state, "request": self.request}
        return {
            "format": FORMAT,
            "data_set": self.data_set,
            "seq": self.seq,
            "hash": self.hash,
            "balances": {name: texts(spent) for name, spent in self.balances.items()},
            "cap": texts(self.cap),
            "certified": self.certified,
            "frozen": self.frozen,
            "claim": self.claim,
            **{name: value for name, value in said.items() if value is not None},
        }


@dataclass(frozen=True)
class SignedStatement:
    """A statement, the public key of whoever signed it, and the signature, in hex."""

    statement: Statement
    key: str
    signature: str

    def to_json(self) -> dict[str, object]:
        """Return the statement with its signature."""
        return {**self.statement.to_json(), "key": self.key, "signature": self.signature}

    @classmethod
    def from_json(cls, source: object) -> Self:
        """Return a head or a receipt; `InvalidInput` for what is none."""
        try:
            return cls._from_json(source)
        except (ValueError, TypeError, AttributeError):
            raise InvalidInput(
                "This is no head or receipt of a ledger.",
                "It is a JSON object as the service gave it.",
                "Give it unchanged.",
            ) from None

    @classmethod
    def _from_json(cls, source: Any) -> Self:
        known = ("format", "data_set", "seq", "hash", "balances", "cap", "certified", "frozen")
        fields = (*known, "claim", "key", "signature", *_OF_CLAIM)
        require_fields(source, fields, "receipt", optional=_OF_CLAIM, otherwise="")
        size = len(source["cap"])
        if source["format"] != FORMAT or not is_hash(source["hash"]) or size > MAX_SIZE:
            raise ValueError
        if type(source["seq"]) is not int or source["seq"] < 0:
            raise ValueError
        if any(type(source[name]) is not bool for name in ("certified", "frozen")):
            raise ValueError
        if any(not isinstance(source[name], str) for name in ("key", "signature")):
            raise ValueError
        if any(name in source and not isinstance(source[name], str) for name in _OF_CLAIM):
            raise ValueError
        balances = {
            name_of(block=name): of_texts(spent, size) for name, spent in source["balances"].items()
        }
        statement = Statement(
            name_of(data_set=source["data_set"]),
            source["seq"],
            source["hash"],
            balances,
            of_texts(source["cap"], size),
            source["certified"],
            source["frozen"],
            None if source["claim"] is None else name_of(claim=source["claim"]),
            *map(source.get, _OF_CLAIM),
        )
        return cls(statement, source["key"], source["signature"])

    def holds(self, keys: frozenset[str]) -> bool:
        """Return whether one of these public keys, in hex, signed the statement."""
        message = STATEMENT_PREFIX + canonical(self.statement.to_json()).encode("ascii")
        return self.key in keys and signature_holds(self.key, self.signature, message)


class Signer:
    """Signs by the private key of the service, which no method shows."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = key.public_key().public_bytes_raw().hex()

    @classmethod
    def fresh(cls) -> Self:
        """Return a signer with a new key, which is gone when the process ends."""
        library = require_library()
        return cls(library.Ed25519PrivateKey.generate())

    def sign(self, statement: Statement) -> SignedStatement:
        """Return the statement with its signature."""
        message = STATEMENT_PREFIX + canonical(statement.to_json()).encode("ascii")
        return SignedStatement(statement, self.public, self._key.sign(message).hex())

    def hand_over(self, data_set: str, prev: str, key: str) -> str:
        """Return the signature by which this key names the next one in a history."""
        return self._key.sign(rotation_message(data_set, prev, key)).hex()


def rotation_message(data_set: str, prev: str, key: str) -> bytes:
    """Return what the old key signs: the data set, the hash before, and the new public key."""
    return _ROTATION + canonical([data_set, prev, key]).encode("ascii")
