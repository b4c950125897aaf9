"""Where the canaries of one run lie, what they send, and what is kept of a round.

    simple, double    over all coordinates, each canary by signs of its own, +1 or -1 at random
    topk              in k coordinates of its own, which are its largest

Under `double` which coordinates a canary sends is drawn by the system; whichever they are, each of
them pulls along the sign that the observer looks for there.  Its update is twice as long in k of
them, its favoured ones, though the clip leaves the same of all: where the largest are sent, and not
those that are drawn, more shows there than is claimed.  Two canaries by random signs are
nearly orthogonal, and what one shows of the other is a part of its noise.  The other users' updates
are 0, and so are the k coordinates that they send under `topk`, the first ones: with each message
of a canary there are dummies alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.mechanisms import Ticket
from ..canaries import CANARY_NORM_IN_CLIPS
from ..data.federation import Indices
from ..frame.model import Parameters
from ..shuffling import ReceivedMessages, Shuffling, Terms
from ..shuffling.ideal import IdealShuffling, MixedSums
from ..shuffling.rounds import checked_messages
from ..training.local_training import NoTraining, UpdateBlock
from .canary_scores import Scores
from .terms import DOUBLE, TOPK, FlameTerms

MOST_OF_USERS: Final = 8
MOST_OF_COORDINATES: Final = 8
"""One in so many users, and of so many coordinates, is a canary where they pull all over."""


@dataclass(frozen=True)
class Layout:
    """The layout of canaries among the users of one run.

    `known` users tell the observer what they sent, and are no canaries; with `apart` it sees each
    message with its sender.
    """

    terms: FlameTerms
    known: int
    apart: bool

    @property
    def blocks(self) -> bool:
        """Whether each canary has coordinates of its own."""
        return self.terms.protocol == TOPK and self.terms.chosen < self.terms.dimensions

    @cached_property
    def first(self) -> int:
        """The first coordinate in which canaries lie; quiet users have those before it."""
        terms = self.terms
        room = terms.dimensions >= 2 * terms.chosen
        return terms.chosen if self.blocks and room and not self.apart else 0

    @cached_property
    def room(self) -> int:
        """How many canaries lie in one run: 1 or more."""
        terms, honest = self.terms, self.terms.users - self.known
        if self.apart:  # where each message is seen by itself, nothing lies across another
            return honest
        if self.blocks:
            return max(1, min(honest, (terms.dimensions - self.first) // terms.chosen))
        return max(1, min(honest // MOST_OF_USERS, terms.dimensions // MOST_OF_COORDINATES))

    def signs(self, rng: np.random.Generator) -> FloatArray:
        """Return the signs of the canaries of a run, (room, d): +1, -1, and 0 where none lies."""
        terms, room = self.terms, self.room
        if not self.blocks:
            return np.where(rng.random((room, terms.dimensions)) < 0.5, 1.0, -1.0)
        signs = np.zeros((room, terms.dimensions))
        np.put_along_axis(signs, self._places, rng.choice((-1.0, 1.0), self._places.shape), axis=1)
        return signs

    @property
    def favours(self) -> bool:
        """Whether canaries favour some coordinates: where others are drawn, and sums show them."""
        terms = self.terms
        return terms.protocol == DOUBLE and not self.apart and terms.chosen < terms.dimensions

    def favoured(self, rng: np.random.Generator) -> BoolArray | None:
        """Return which coordinates each canary favours, (room, d); None where it cannot choose."""
        if not self.favours:
            return None
        terms = self.terms
        order = rng.random((self.room, terms.dimensions)).argsort(axis=1)
        return np.asarray(order < terms.chosen)

    @cached_property
    def _places(self) -> IntArray:
        """The coordinates of each canary, where it has its own: (room, k)."""
        firsts = np.zeros(self.room, np.int64)
        if not self.apart:
            firsts = self.first + self.terms.chosen * np.arange(self.room)
        return firsts[:, None] + np.arange(self.terms.chosen)


class CanaryUpdates(NoTraining):
    """A `LocalTraining` in which the first users are canaries, and the others' updates are 0.

    `directions` (m, d) are those of the canaries by their coins, set before each run: +1, -1 or 0
    of each coordinate, or more where it is favoured.  They turn round by round, so that noise that
    is used again cancels out.
    """

    def __init__(self, dimensions: int, *, clip: float) -> None:
        self._length = CANARY_NORM_IN_CLIPS * clip
        self.directions: FloatArray = np.zeros((1, dimensions))

    def initial(self) -> Parameters:
        return np.zeros(self.directions.shape[1])

    def turn(self, number: int) -> float:
        """Return which way canaries pull in round `number`: +1 or -1; public."""
        return 1.0 if number % 2 == 0 else -1.0

    def user_deltas(
        self, parameters: Parameters, users: Sequence[Indices], number: int
    ) -> Iterator[UpdateBlock]:
        canaries = np.arange(len(self.directions))
        rows = self._length * self.turn(number) * self.directions
        yield UpdateBlock(canaries, np.zeros_like(canaries), rows)


class WatchedIdeal(IdealShuffling):
    """Messages on arrays."""

    def __init__(self, terms: Terms, *, colluders: int, scores: Scores) -> None:
        super().__init__(terms, colluders=colluders)
        self._scores, self.arrived = scores, np.zeros(terms.dimensions)

    def round(self, number: int, ticket: Ticket, messages: ArrayLike, **given: Any) -> MixedSums:
        self.arrived = np.zeros(self.terms.dimensions)
        self.sent, self.places = _sent(self.terms, messages, **given)
        return super().round(number, ticket, messages, **given)

    def add(self, sums: IntArray, coordinates: IntArray, values: IntArray) -> None:
        super().add(sums, coordinates, values)
        counted = self._scores.of(values)
        self.arrived += np.bincount(coordinates, counted, minlength=len(self.arrived))


class WatchedShuffling(Shuffling):
    """Messages in ciphertexts, through the parties."""

    def __init__(self, terms: Terms, *, colluders: int, scores: Scores) -> None:
        super().__init__(terms, colluders=colluders)
        self._scores, self.arrived = scores, np.zeros(terms.dimensions)

    def round(
        self, number: int, ticket: Ticket, messages: ArrayLike, **given: Any
    ) -> ReceivedMessages:
        self.sent, self.places = _sent(self.terms, messages, **given)
        received = super().round(number, ticket, messages, **given)
        self.arrived = self._scores.of(received.messages[:, :, 0]).sum(axis=1)
        return received


def _sent(
    terms: Terms, messages: ArrayLike, *, places: ArrayLike | None = None, **_: object
) -> tuple[IntArray, IntArray]:
    sent, chosen = checked_messages(terms, messages, places)
    return sent[:, :, 0], chosen


WatchedTransport: TypeAlias = WatchedIdeal | WatchedShuffling
"""Either of them: what was sent and what arrived in the last round.

`arrived` (d,) is what was counted of all messages of each coordinate; `sent` (users, k) are the
messages of the users, and `places` their coordinates.
"""
