"""What peers say to one another in a sum, and the group that they have agreed on.

The protocol is that of `decentralised`; everything that its signatures and keys bind is here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from ...accountant import validate
from ...accountant.arrays import IntArray, UInt64Array
from ...accountant.errors import InvalidInput
from ..crypto import additive, keys
from ..crypto.additive import WholeRing
from ..crypto.fixed_point_sums import FixedPoint
from ..parties.message_bodies import Body, Limits, room
from .peers import MIN_PEERS


@dataclass(frozen=True)
class Hello(Body):
    """A fresh X25519 key and the sender's signature of it; see `Group.context`."""

    kind: ClassVar[str] = "peer-hello"
    public: bytes
    signature: bytes


@dataclass(frozen=True)
class Share(Body):
    """The seed of one share, locked for the receiver."""

    kind: ClassVar[str] = "peer-share"
    locked: bytes


@dataclass(frozen=True)
class PartialSum(Body):
    """The receiver's slice of the sender's partial sum: words, their low bytes only; signed."""

    kind: ClassVar[str] = "peer-partial"
    words: bytes
    signature: bytes


@dataclass(frozen=True)
class TotalSlice(Body):
    """The sender's slice of the total: words, their low bytes only; signed."""

    kind: ClassVar[str] = "peer-total"
    words: bytes
    signature: bytes


@dataclass(frozen=True)
class Confirmation(Body):
    """A digest of the whole total; signed."""

    kind: ClassVar[str] = "peer-confirmation"
    digest: bytes
    signature: bytes


@dataclass(frozen=True)
class Group:
    """What all peers have agreed on beforehand.

    `roster` gives each peer's Ed25519 public key by its name, `fewest` (3 or above) how many there
    must be, `grid` what the integers are and that the sum of all fits (modulus 2^64; a `WholeRing`
    lets it wrap around), `length` how many integers a vector has.  Raises `InvalidInput` where
    there are fewer peers, more of them than terms of the grid, or two with one key.
    """

    roster: Mapping[str, bytes]
    fewest: int
    grid: FixedPoint | WholeRing
    length: int

    def __post_init__(self) -> None:
        """Check the group."""
        roster = dict(self.roster)
        object.__setattr__(self, "roster", roster)
        validate.count(length=self.length)
        if len(roster) < validate.count_from(MIN_PEERS, fewest=self.fewest):
            raise InvalidInput(
                f"There are {len(roster)} peers, and there must be {self.fewest}.",
                "In a small group the total says much about each.",
                "Wait until there are enough.",
            )
        if len(set(roster.values())) != len(roster):
            raise InvalidInput("Two peers have the same key.", "One party must not count twice.")
        if any(len(public) != keys.KEY_BYTES for public in roster.values()):
            raise InvalidInput(f"A peer's key must have {keys.KEY_BYTES} bytes.")
        if self.grid.modulus != 2**64 or self.grid.terms < len(roster):
            raise InvalidInput(
                "The grid must be for the ring modulo 2^64, and for as many terms as peers.",
                "Otherwise the sum may wrap around.",
            )

    @cached_property
    def peers(self) -> tuple[str, ...]:
        """All names, in the order of the slices."""
        return tuple(sorted(self.roster))

    @property
    def width(self) -> int:
        """Bytes of a word that travel."""
        return self.grid.bytes_needed

    @cached_property
    def limits(self) -> Limits:
        """How long each message may be."""
        slices = [self.part(peer) for peer in self.peers]
        words = self.width * max(part.stop - part.start for part in slices)
        return {
            Hello: room(keys.KEY_BYTES, keys.SIGNATURE_BYTES),
            Share: room(keys.LOCK_BYTES + additive.SEED_BYTES),
            PartialSum: room(words, keys.SIGNATURE_BYTES),
            TotalSlice: room(words, keys.SIGNATURE_BYTES),
            Confirmation: room(hashlib.sha256().digest_size, keys.SIGNATURE_BYTES),
        }

    def among(self, names: Iterable[str]) -> Group:
        """Return the group of these peers, on the same terms; there must be `fewest` of them."""
        return replace(self, roster={name: self.roster[name] for name in names})

    def check_member(self, name: str, identity: keys.Identity) -> None:
        """Raise `InvalidInput` for a party that is not in the group under this identity."""
        if self.roster.get(name) != identity.public:
            raise InvalidInput(f"{name} is not in the group under this identity.")

    def words(self, steps: IntArray) -> UInt64Array:
        """Return a peer's vector as fresh words; `InvalidInput` for one that is not right.

        That is one of another length, or beyond the grid's bound.
        """
        if not isinstance(steps, np.ndarray) or steps.shape != (self.length,):
            raise InvalidInput(f"A vector must have {self.length} integers.")
        return self.grid.to_ring(steps).view(np.uint64)

    def part(self, peer: str) -> slice:
        """Return which part of a vector a peer adds up."""
        index, count = self.peers.index(peer), len(self.peers)
        return slice(self.length * index // count, self.length * (index + 1) // count)

    def context(self, session: bytes, round: int) -> bytes:
        """Return a digest of all this, the session and the round: what signatures and keys bind."""
        grid = (self.grid.step.hex(), self.grid.bound.hex(), str(self.grid.terms))
        parts = [session, str(round).encode(), str(self.fewest).encode(), str(self.length).encode()]
        parts += [number.encode() for number in grid]
        for name in self.peers:
            parts += [name.encode(), self.roster[name]]
        return keys.framed(b"privplan decentralised sum", *parts)
