"""Transports of a rehearsal, which keep what was sent and what arrived of the last round."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..shuffling import Shuffling
from ..shuffling.ideal import IdealShuffling
from ..shuffling.rounds import checked_messages

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from ...accountant.arrays import FloatArray, IntArray
    from ...accountant.mechanisms import Messages, Ticket
    from ..shuffling import ReceivedMessages, Terms
    from ..shuffling.ideal import MixedSums
    from .canary_scores import Scores


class WatchedIdeal(IdealShuffling):
    """Messages on arrays; `arrived` (d,) is what was counted of all messages of each coordinate.

    `sent` (users, k) are the messages of the users, and `places` their coordinates.
    """

    def __init__(self, terms: Terms, *, colluders: int, scores: Scores) -> None:
        super().__init__(terms, colluders=colluders)
        self._scores = scores
        self.arrived: FloatArray = np.zeros(terms.dimensions)
        self.sent: IntArray = np.empty((0, 0), np.int64)
        self.places: IntArray = np.empty((0, 0), np.int64)

    def round(
        self,
        number: int,
        ticket: Ticket,
        messages: ArrayLike,
        *,
        places: ArrayLike | None = None,
        mechanism: Messages | None = None,
    ) -> MixedSums:
        """Return the sums of a round."""
        self.arrived = np.zeros(self.terms.dimensions)
        sent, self.places = checked_messages(self.terms, messages, places)
        self.sent = sent[:, :, 0]
        return super().round(number, ticket, messages, places=places, mechanism=mechanism)

    def add(self, sums: IntArray, coordinates: IntArray, values: IntArray) -> None:
        """Add messages to the sums of their coordinates, and what is counted of them."""
        super().add(sums, coordinates, values)
        counted = self._scores.of(values)
        self.arrived += np.bincount(coordinates, counted, minlength=len(self.arrived))


class WatchedShuffling(Shuffling):
    """Messages in ciphertexts, through the parties; kept is what `WatchedIdeal` keeps."""

    def __init__(self, terms: Terms, *, colluders: int, scores: Scores) -> None:
        super().__init__(terms, colluders=colluders)
        self._scores = scores
        self.arrived: FloatArray = np.zeros(terms.dimensions)
        self.sent: IntArray = np.empty((0, 0), np.int64)
        self.places: IntArray = np.empty((0, 0), np.int64)

    def round(
        self,
        number: int,
        ticket: Ticket,
        messages: ArrayLike,
        *,
        places: ArrayLike | None = None,
        mechanism: Messages | None = None,
    ) -> ReceivedMessages:
        """Return what the analyzer has of a round."""
        sent, self.places = checked_messages(self.terms, messages, places)
        self.sent = sent[:, :, 0]
        received = super().round(number, ticket, messages, places=places, mechanism=mechanism)
        self.arrived = self._scores.of(received.messages[:, :, 0]).sum(axis=1)
        return received


WatchedTransport: TypeAlias = WatchedIdeal | WatchedShuffling
"""Either of them."""
