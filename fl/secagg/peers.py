"""Who may add up among themselves by additive shares, and what the log states of it.

Nothing heavy is imported: an audit asks without the packages of the protocol.
"""

from __future__ import annotations

from typing import Final

from ...accountant import records, validate
from ...accountant.errors import InvalidInput, there_are

MIN_PEERS: Final = 3
"""Silos below which the sum, less one's own vector, is another's."""

OF_TWO_PEERS: Final = "Of two, each learns what the other sent."
"""Why there must be more."""

RING_BITS: Final = 64


def security_among(silos: int, colluders: int = 0, fewest: int | None = None) -> records.Security:
    """Return the public facts of additive shares among so many silos.

    `fewest` is the smallest group that sums; None: all silos take part in every round.
    """
    return records.Security(
        "additive-shares",
        parties=silos,
        fewest=silos if fewest is None else fewest,
        ring_bits=RING_BITS,
        colluders=colluders,
    )


def require_peers(
    silos: int, *, colluders: int = 0, dropouts: int = 0, fewest: int | None = None
) -> None:
    """Raise `InvalidInput` where silos cannot add up among themselves, or too few would hide.

    `fewest` is the smallest group that sums; None: all silos take part in every round.
    """
    if dropouts:
        raise InvalidInput(
            "`dropouts` in [security] must be 0 for additive shares.",
            "Every share is needed: without one of them there is no sum.",
            'Leave `dropouts` out, or write aggregation = "masked".',
        )
    if silos < MIN_PEERS:
        raise InvalidInput(
            f"Additive shares need {MIN_PEERS} silos, and {there_are(silos, 'silo')}.",
            OF_TWO_PEERS,
            'Have more silos, or write aggregation = "plain".',
        )
    group = silos if fewest is None else validate.count(fewest=fewest)
    if not MIN_PEERS <= group <= silos:
        raise InvalidInput(
            f"`fewest` must be from {MIN_PEERS} to the {silos} silos; it is {group}.",
            "Of two, each learns what the other sent, and there is no group of more than all.",
            "Give the smallest group that may sum.",
        )
    if colluders > group - MIN_PEERS:
        among = f"{silos} silos" if fewest is None else f"{group} silos, the smallest group"
        raise InvalidInput(
            f"`colluders` in [security] must be from 0 to {group - MIN_PEERS} for additive shares "
            f"of {among}; it is {colluders}.",
            "A peer and its colluders know what all of them sent; two others must be left.",
            "Lower `colluders`, or have more silos.",
        )
