"""What is said in a masked sum, step by step, and what is signed.

advertise   party -> server   Advert          two public keys, signed
            server -> party   Adverts         those of everybody
share       party -> server   Shares          shares of its secrets, locked for each neighbour
            server -> party   RelayedShares         those that are for it, and who has sent some
mask        party -> server   MaskedWords          its words, masked
            server -> party   Survivors       whose words arrived
confirm     party -> server   Confirmation       that list, signed (a malicious server only)
            server -> party   Confirmations   everybody's signatures
recover     party -> server   Recovery        shares of what masks the sum
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, Self

from ...accountant.errors import MissingParty, ProtocolFault
from ..crypto.keys import KEY_BYTES
from ..parties.message_bodies import Body

SHARE_BYTES: Final = 2 * KEY_BYTES
"""Bytes of what one holder gets: a share of the seed, then one of the private mask key."""


@dataclass(frozen=True)
class Advert(Body):
    """A party's keys of this round: one to lock messages with, one to agree on masks."""

    kind: ClassVar[str] = "secagg-advert"
    lock_key: bytes
    mask_key: bytes
    signature: bytes


@dataclass(frozen=True)
class Adverts(Body):
    """Everybody's keys and signatures, by name: 32, 32 and 64 bytes in one piece."""

    kind: ClassVar[str] = "secagg-adverts"
    adverts: Mapping[str, bytes]


@dataclass(frozen=True)
class Shares(Body):
    """By receiver, a share of the own mask's seed and one of the private mask key, locked.

    `commitment` binds the party to the seed; nobody else needs it but the server, to check.
    """

    kind: ClassVar[str] = "secagg-shares"
    commitment: bytes
    locked: Mapping[str, bytes]


@dataclass(frozen=True)
class RelayedShares(Body):
    """What neighbours have locked for this party, by sender; `sharing` are all who sent some."""

    kind: ClassVar[str] = "secagg-relayed"
    sharing: tuple[str, ...]
    locked: Mapping[str, bytes]


@dataclass(frozen=True)
class MaskedWords(Body):
    """Masked words, little-endian: the body is these bytes alone, which are not copied again."""

    kind: ClassVar[str] = "secagg-masked"
    words: bytes

    def pack(self) -> bytes:
        """Return the words."""
        return self.words

    @classmethod
    def unpack(cls, raw: bytes) -> Self:
        """Return the words, whose number is for the receiver to check."""
        return cls(raw)


@dataclass(frozen=True)
class Survivors(Body):
    """Those whose masked words arrived, in the roster's order."""

    kind: ClassVar[str] = "secagg-survivors"
    names: tuple[str, ...]


@dataclass(frozen=True)
class Confirmation(Body):
    """A signature of who shared and who survived."""

    kind: ClassVar[str] = "secagg-confirmed"
    signature: bytes


@dataclass(frozen=True)
class Confirmations(Body):
    """Signatures of the same, by name."""

    kind: ClassVar[str] = "secagg-confirmations"
    signatures: Mapping[str, bytes]


@dataclass(frozen=True)
class Recovery(Body):
    """One share each: of survivors, of the own mask's seed; of others, of the private mask key."""

    kind: ClassVar[str] = "secagg-recovery"
    seeds: Mapping[str, bytes]
    keys: Mapping[str, bytes]


def statement(purpose: bytes, *parts: bytes) -> bytes:
    """Return bytes that say this and nothing else: every part is preceded by its length."""
    whole = (b"privplan masked sum", purpose, *parts)
    return b"".join(len(part).to_bytes(8, "little") + part for part in whole)


def listed(names: tuple[str, ...]) -> bytes:
    """Return a list of names as one part of a statement."""
    return statement(b"names", *(name.encode() for name in names))


def fault(what: str) -> ProtocolFault:
    """Return the error of a message that the protocol does not allow."""
    return ProtocolFault(
        what,
        "The party that sent it is broken or dishonest, or somebody changed it on its way.",
        "Find out which party it is, and begin again with a new committee; nothing was summed.",
    )


def too_few(what: str) -> MissingParty:
    """Return the error of a step that too few have reached."""
    return MissingParty(
        what,
        "With fewer than was agreed, the sum would say too much, or could not be unmasked.",
        "See why parties are missing, and begin again; the budget of the round is spent.",
    )


@contextmanager
def blamed_on(name: str) -> Iterator[None]:
    """Say whose message it was, where one is found to be wrong."""
    try:
        yield
    except MissingParty:
        raise
    except ProtocolFault as error:
        raise fault(f"{error.what} It is about a message of {name}.") from None
