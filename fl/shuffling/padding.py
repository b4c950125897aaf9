"""What the shuffler adds to the messages of a round, and what it leaves out.

Both transports use it, so that under one seed the same messages are kept and the same dummies are
drawn: in blocks of a fixed size, as where a draw is cut decides what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ...accountant.arrays import BoolArray, IntArray
from ...accountant.mechanisms import Messages, Ticket
from ...accountant.randomness import Stream, grouped_order
from .terms import Terms, fault

DUMMIES_STREAM: Final = "shuffler/dummies"
"""A stream of the shuffler; it stands in the release."""

BLOCK_MESSAGES: Final = 2**20
"""How many dummies are drawn at once: 8 MB of integers."""


def lacking(terms: Terms, places: IntArray) -> IntArray:
    """Return how many messages each coordinate lacks, (dimensions,); below 0 where too many came.

    Raises `ProtocolFault` for too many where these are refused.
    """
    missing = terms.count - np.bincount(places, minlength=terms.dimensions)
    if terms.overflow == "refuse" and (missing < 0).any():
        raise fault("A coordinate has more messages than it is padded to.")
    return np.asarray(missing, np.int64)


def kept_messages(stream: Stream, terms: Terms, places: IntArray, missing: IntArray) -> BoolArray:
    """Return which messages there is room for: of too many a uniform set, (messages,)."""
    kept = np.ones(len(places), bool)
    crowded = np.flatnonzero(missing[places] < 0)
    if not len(crowded):
        return kept
    order = grouped_order(stream, places[crowded])
    sorted_places = places[crowded][order]
    # The position of each message in the random order of its coordinate.
    ranks = np.arange(len(order)) - np.searchsorted(sorted_places, sorted_places)
    kept[crowded[order[ranks >= terms.count]]] = False
    return kept


def dummies_drawn(terms: Terms, needed: int) -> int:
    """Return how many dummies are drawn for so many that are needed.

    Where messages may be left out, as many as there could be: how many were needed does not show
    in what was drawn.
    """
    return terms.dimensions * terms.count if terms.overflow == "cap" else needed


def dummy_blocks(
    mechanism: Messages, ticket: Ticket, terms: Terms, needed: int
) -> Iterator[IntArray]:
    """Yield the dummies that are needed, block by block; all that could be needed are drawn."""
    drawn = dummies_drawn(terms, needed)
    for first in range(0, drawn, BLOCK_MESSAGES):
        part = mechanism.dummies(ticket, min(BLOCK_MESSAGES, drawn - first), DUMMIES_STREAM)
        yield part[: max(0, needed - first)]
