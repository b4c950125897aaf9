"""The messages of the private weighting protocol as it was published, and how long each may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from ...parties.message_bodies import Body, Limits, room

KEY_BYTES: Final = 32
"""Bytes of a public key, and of a seed under a key."""


@dataclass(frozen=True)
class PublicModulus(Body):
    """Setup (a): the Paillier modulus, big-endian."""

    kind: ClassVar[str] = "published-modulus"
    modulus: bytes


@dataclass(frozen=True)
class PublicPoints(Body):
    """Setup (a), (b): one silo's public key, and then those of all."""

    kind: ClassVar[str] = "published-points"
    points: tuple[bytes, ...]


@dataclass(frozen=True)
class HiddenSeed(Body):
    """Setup (c): R xor SK_0s, 32 bytes for each silo but the first."""

    kind: ClassVar[str] = "published-seed"
    hidden: tuple[bytes, ...]


@dataclass(frozen=True)
class Histogram(Body):
    """Setup (e): r_u n_su plus masks, modulo n, for each user."""

    kind: ClassVar[str] = "published-histogram"
    blinded: tuple[bytes, ...]


@dataclass(frozen=True)
class Inverses(Body):
    """Round (a): Enc(1 / B_u) for each user."""

    kind: ClassVar[str] = "published-inverses"
    ciphertexts: tuple[bytes, ...]


@dataclass(frozen=True)
class Updates(Body):
    """Round (c): one ciphertext for each parameter."""

    kind: ClassVar[str] = "published-updates"
    ciphertexts: tuple[bytes, ...]


def limits(users: int, silos: int, key_bits: int, dimensions: int = 0) -> Limits:
    """Return how long each message may be; no update is taken in the setup, of 0 dimensions."""
    residue = -(-key_bits // 8)
    return {
        PublicModulus: room(residue),
        PublicPoints: room(*[KEY_BYTES] * silos),
        HiddenSeed: room(*[KEY_BYTES] * silos),
        Histogram: room(*[residue] * users),
        Inverses: room(*[2 * residue] * users),
        Updates: room(*[2 * residue] * dimensions),
    }


def wide(value: int, below: int) -> bytes:
    """Return a number as big-endian bytes, as many as all numbers below a bound need."""
    return value.to_bytes((below.bit_length() + 7) // 8, "big")
