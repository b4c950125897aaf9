"""Where the canaries of one run lie, and which way each of their coordinates pulls.

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

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from .terms import DOUBLE, TOPK, FlameTerms

if TYPE_CHECKING:
    from ...accountant.arrays import BoolArray, FloatArray, IntArray

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
