"""What all parties agree on beforehand, of a session and of one of its rounds: all of it public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ....accountant import validate
from ....accountant.errors import InvalidInput
from ...crypto.keys import framed
from ...crypto.paillier.packing import Packing

_INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True)
class Terms:
    """Of a session: how many nodes, 2 or above, and the bits of the server's Paillier key.

    `weak` allows fewer bits than are secure; for tests.
    """

    nodes: int
    key_bits: int = 3072
    weak: bool = False

    def __post_init__(self) -> None:
        if validate.count(nodes=self.nodes) < 2:
            raise InvalidInput(
                "`nodes` must be at least 2.",
                "With one node there is nobody else's noise to take off.",
            )
        validate.count(key_bits=self.key_bits)

    @property
    def modulus_bytes(self) -> int:
        """Bytes of the modulus n."""
        return -(-self.key_bits // 8)

    @property
    def ciphertext_bytes(self) -> int:
        """Bytes of a ciphertext, at most."""
        return 2 * self.modulus_bytes

    def digest(self) -> bytes:
        """Return 32 bytes that stand for these terms."""
        numbers = (self.nodes, self.key_bits, int(self.weak))
        return framed(b"noise removal: terms", *(one.to_bytes(8, "little") for one in numbers))


@dataclass(frozen=True)
class RoundTerms:
    """Of a round: `values` of each node's noise, none of them above `largest` in magnitude.

    Raises `InvalidInput` unless `largest` is in 1 .. 10^18, the sum of all nodes fits in 64 bits
    with its sign, and a slot for it fits in the key.
    """

    session: Terms
    values: int
    largest: int

    def __post_init__(self) -> None:
        validate.count(values=self.values)
        if validate.count(largest=self.largest) * self.session.nodes > _INT64_MAX:
            raise InvalidInput(
                f"`largest` times {self.session.nodes} nodes must be below 2^63.",
                "The sum of the noise would not fit in 64 bits.",
                "Use a coarser step, or less noise.",
            )
        _ = self.packing

    @property
    def packing(self) -> Packing:
        """Slots for the sum of all nodes."""
        return Packing.plan(self.session.key_bits, self.session.nodes * self.largest)

    @property
    def packs(self) -> int:
        """How many ciphertexts a node sends."""
        return self.packing.blocks(self.values)

    def label(self, first: int, second: int) -> bytes:
        """Return what the masks of two nodes are bound to, besides the session and the round."""
        return b"noise removal %d %d of %d up to %d" % (first, second, self.values, self.largest)
