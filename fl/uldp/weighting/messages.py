"""The messages of the private weighting protocol, in the order in which they are sent.

Numbers are big-endian bytes of a fixed length: of n for residues modulo n, twice that for
ciphertexts; several of them stand one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from ....accountant.errors import ProtocolFault
from ...crypto.keys import KEY_BYTES, LOCK_BYTES, SIGNATURE_BYTES
from ...crypto.oblivious import POINT_BYTES, TAG_BYTES
from ...parties.message_bodies import Body, Limits, named, room
from ...parties.network import silo_name
from .terms import WeightingTerms

CHECK_BYTES: Final = 32
"""Bytes by which silos show that they have the same seed."""

SEED_BYTES: Final = KEY_BYTES

# --- setup (round 0) ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ServerKey(Body):
    """Server to silos: its Paillier modulus n."""

    kind: ClassVar[str] = "weighting.server-key"
    modulus: bytes


@dataclass(frozen=True)
class SiloKey(Body):
    """Silo to server: its X25519 key of this session, signed by its identity."""

    kind: ClassVar[str] = "weighting.silo-key"
    public: bytes
    signature: bytes


@dataclass(frozen=True)
class SiloKeys(Body):
    """Server to silos: what all silos sent as `SiloKey`, by name."""

    kind: ClassVar[str] = "weighting.silo-keys"
    publics: Mapping[str, bytes]
    signatures: Mapping[str, bytes]


@dataclass(frozen=True)
class LockedSeeds(Body):
    """Silo 0 to server: the seed R for each other silo, which only that silo can unlock."""

    kind: ClassVar[str] = "weighting.locked-seeds"
    by_silo: Mapping[str, bytes]


@dataclass(frozen=True)
class LockedSeed(Body):
    """Server to a silo: the seed that silo 0 has locked for it."""

    kind: ClassVar[str] = "weighting.locked-seed"
    locked: bytes


@dataclass(frozen=True)
class Histogram(Body):
    """Silo to server: r_u c_su under the silos' masks modulo n, for each user.

    `check` (`CHECK_BYTES`) is derived from R one-way: equal where the silos have the same seed.
    """

    kind: ClassVar[str] = "weighting.histogram"
    residues: bytes
    check: bytes


# --- rounds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inverses(Body):
    """Server to silos: a ciphertext for each user, of B_u^-1, or of 0 if it does not take part.

    Each is followed by powers of it, `WeightingTerms.pieces` numbers in all.
    Sent once, at the end of the setup, where nobody is drawn; otherwise in every round, made anew.
    """

    kind: ClassVar[str] = "weighting.inverses"
    ciphertexts: bytes


@dataclass(frozen=True)
class TransferOpening(Body):
    """Server to a silo: it offers `slots` such ciphertexts for each user."""

    kind: ClassVar[str] = "weighting.transfer-opening"
    point: bytes


@dataclass(frozen=True)
class TransferRequests(Body):
    """Silo to server: it takes one for each user, and does not show which."""

    kind: ClassVar[str] = "weighting.transfer-requests"
    requests: bytes


@dataclass(frozen=True)
class TransferAnswer(Body):
    """Server to a silo: all of them, each under its own key."""

    kind: ClassVar[str] = "weighting.transfer-answer"
    answer: bytes


@dataclass(frozen=True)
class Update(Body):
    """Silo to server: its weighted and noisy sum, packed, under masks and fresh randomness."""

    kind: ClassVar[str] = "weighting.update"
    ciphertexts: bytes


def limits(terms: WeightingTerms) -> Limits:
    """Return the most bytes of each message, whoever receives it."""
    silos = [silo_name(silo) for silo in range(terms.silos)]
    locked, ciphertext = LOCK_BYTES + SEED_BYTES, terms.ciphertext_bytes
    return {
        ServerKey: room(terms.modulus_bytes),
        SiloKey: room(KEY_BYTES, SIGNATURE_BYTES),
        SiloKeys: room(*named(silos, KEY_BYTES), *named(silos, SIGNATURE_BYTES)),
        LockedSeeds: room(*named(silos, locked)),
        LockedSeed: room(locked),
        Histogram: room(terms.users * terms.modulus_bytes, CHECK_BYTES),
        Inverses: room(terms.users * terms.pieces * ciphertext),
        TransferOpening: room(POINT_BYTES),
        TransferRequests: room(terms.users * POINT_BYTES),
        TransferAnswer: room(terms.users * (terms.slots or 0) * (ciphertext + TAG_BYTES)),
        Update: room(terms.blocks * ciphertext),
    }


# --- numbers as bytes -----------------------------------------------------------------------------


def numbers(values: Iterable[int], size: int) -> bytes:
    """Return numbers of `size` bytes each, one after the other."""
    return b"".join(int(value).to_bytes(size, "big") for value in values)


def separated(raw: bytes, count: int, size: int, sender: str) -> list[bytes]:
    """Return `count` parts of `size` bytes each; `ProtocolFault` for another length."""
    if len(raw) != count * size:
        raise ProtocolFault(
            f"{sender} did not send {count} numbers of {size} bytes.",
            "What has another length was made for other terms.",
            "See that all parties agree on the terms, and begin a new session.",
        )
    return [raw[at : at + size] for at in range(0, len(raw), size)]
