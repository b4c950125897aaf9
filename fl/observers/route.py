"""How the terms of one round travel: what decides who sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ...accountant.records import Sampling, Security

CURVE_KEY_BITS: Final = 256
MIN_MODULUS_BITS: Final = 2048
"""Bits of the analyzer's key under which messages count as encrypted: a curve's, or a modulus's."""


@dataclass(frozen=True)
class Route:
    """How one round's terms travel: what the table depends on.

    `unit` is what is clipped together, `messages` says that each unit sends a message of its own,
    and `dropouts` of the noise shares may be missing.
    """

    aggregation: str
    silos: int
    security: Security | None = None
    dropouts: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    unit: str = "user"
    messages: bool = False

    @property
    def shuffled(self) -> bool:
        """Whether messages lose their senders."""
        return self.aggregation == "shuffle"

    @property
    def told(self) -> int:
        """How many of the parties may tell what they know."""
        return 0 if self.security is None else self.security.colluders


def is_encrypted(security: Security | None) -> bool:
    """Return whether a shuffler holds ciphertexts only."""
    if security is None or security.protocol != "shuffler":
        return False
    return security.key_bits == CURVE_KEY_BITS or security.key_bits >= MIN_MODULUS_BITS
