"""Who may add up among themselves by additive shares, and what the log states of it.

Nothing heavy is imported: an audit asks without the packages of the protocol.
"""

from __future__ import annotations

from typing import Final

from ...accountant import records
from ...accountant.errors import InvalidInput, there_are

MIN_PEERS: Final = 3
"""Silos below which the sum, less one's own vector, is another's."""

RING_BITS: Final = 64


def security_among(silos: int, colluders: int = 0) -> records.Security:
    """Return the public facts of additive shares among so many silos."""
    return records.Security(
        "additive-shares",
        parties=silos,
        fewest=silos,
        ring_bits=RING_BITS,
        colluders=colluders,
    )


def require_peers(silos: int, *, colluders: int = 0, dropouts: int = 0) -> None:
    """Raise `InvalidInput` where silos cannot add up among themselves, or too few would hide."""
    if dropouts:
        raise InvalidInput(
            "`dropouts` in [security] must be 0 for additive shares.",
            "Every share is needed: without one of them there is no sum.",
            'Leave `dropouts` out, or write aggregation = "masked".',
        )
    if silos < MIN_PEERS:
        raise InvalidInput(
            f"Additive shares need {MIN_PEERS} silos, and {there_are(silos, 'silo')}.",
            "Of two, each learns what the other sent.",
            'Have more silos, or write aggregation = "plain".',
        )
    if colluders > silos - MIN_PEERS:
        raise InvalidInput(
            f"`colluders` in [security] must be from 0 to {silos - MIN_PEERS} for additive shares "
            f"of {silos} silos; it is {colluders}.",
            "A peer and its colluders know what all of them sent; two others must be left.",
            "Lower `colluders`, or have more silos.",
        )
