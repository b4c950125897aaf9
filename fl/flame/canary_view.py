"""Where the canaries of one run lie, what an observer sees of them and how much noise is there.

    simple, double    over all coordinates, each canary by signs of its own, +1 or -1 at random
    topk              in k coordinates of its own, which are its largest

Under `double` which coordinates a canary sends is drawn by the system; whichever they are, each of
them pulls along the sign that the observer looks for there.  Its update is twice as long in k of
them, its favoured ones, though the clip leaves the same of all: where the largest are sent, and not
those that are drawn, more shows there than is claimed.  Two canaries by random signs are
nearly orthogonal, and what one shows of the other is a part of its noise.  The other users' updates
are 0, and so are the k coordinates that they send under `topk`, the first ones: beside each message
of a canary there are dummies alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import Unsupported
from ..canaries import equal_shifts
from ..observers.names import ANALYZER, CLIENT, COLLUDING, SHUFFLER
from .canary_scores import Counted, Scores, scores_of
from .system import Flame
from .terms import DOUBLE, TOPK, FlameTerms


class WatchedTransport(Protocol):
    """The transport of a rehearsal: what was sent and what arrived in the last round.

    `arrived` (d,) is what was counted of all messages of each coordinate; `sent` (users, k) are the
    messages of the users, and `places` their coordinates.
    """

    arrived: FloatArray
    sent: IntArray
    places: IntArray


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


@dataclass(frozen=True, eq=False)
class CanaryView:
    """What an observer of a system sees of the canaries of a run."""

    observer: str
    system: Flame

    @property
    def terms(self) -> FlameTerms:
        """The public facts of every round."""
        return self.system.terms

    @cached_property
    def layout(self) -> Layout:
        """Where canaries lie in a run."""
        return Layout(self.terms, self.known, self.counted == "apart")

    @cached_property
    def counted(self) -> Counted:
        """What the observer sees of a round."""
        observer = self.observer
        if observer == COLLUDING or (observer == SHUFFLER and not self.mixes_sums):
            return "apart"
        if observer == ANALYZER:
            return "apart" if self.terms.mixed is None else "mixed"
        return "sums"

    @cached_property
    def mixes_sums(self) -> bool:
        """Whether the observer is a shuffler that is said to see sums, and its own dummies.

        Raises `Unsupported` where these are not told from messages here.
        """
        if self.observer != SHUFFLER or self.system.reaches()[SHUFFLER].sees == "each":
            return False
        terms = self.terms
        crowded = terms.padded_to is not None and terms.padded_to < terms.users
        if terms.protocol == TOPK or (crowded and terms.table.overflow == "cap"):
            raise Unsupported(
                "A shuffler that sees sums is rehearsed where all that it leaves in them is sent.",
                "Which coordinates are decoys, or which messages a cap left out, shows in them.",
                "Rehearse another observer: the analyzer sees all messages.",
            )
        return True

    @cached_property
    def scores(self) -> Scores:
        """What is counted of each message."""
        mechanism = self.system.mechanism(self.system.promise.noise_multiplier)
        return scores_of(mechanism, self.counted)

    @cached_property
    def known(self) -> int:
        """How many users the observer knows the messages of: the last ones."""
        return self.terms.colluders + (self.observer == CLIENT)

    @cached_property
    def kept(self) -> float:
        """The share of messages that are mixed where a coordinate may overflow, as is expected."""
        terms = self.terms
        if self.layout.apart or terms.padded_to is None or terms.padded_to >= terms.users:
            return 1.0
        from scipy.stats import binom

        senders = np.arange(terms.users + 1)
        law = binom.pmf(senders, terms.users, terms.chosen / terms.dimensions)
        return float(law @ np.minimum(senders, terms.padded_to)) / float(law @ senders)

    @cached_property
    def shift(self) -> float:
        """How far a unit moves a look, from the middle between in and out, in units of noise."""
        pulled = self.terms.chosen * self.kept * self.scores.value(1.0).mean
        return pulled / math.sqrt(self.looks * self.variance)

    @cached_property
    def looks(self) -> int:
        """How many numbers a round shows of each unit: two where it favours coordinates."""
        return 2 if self.layout.favours else 1

    @cached_property
    def variance(self) -> float:
        """The variance of what is seen in the direction of a canary, as claimed.

        That of all messages that lie along it and are not known: those of quiet users, dummies and
        canaries, and how far other canaries lie across it.
        """
        terms, layout, scores = self.terms, self.layout, self.scores
        canary, quiet = scores.value(1.0), scores.value(0.0)
        if layout.apart:
            return terms.chosen * canary.variance
        if self.mixes_sums:
            # In the coordinates that it sent lie its own messages, and a share of the others'.
            share = terms.chosen * terms.chosen / terms.dimensions
            others = (layout.room - 1) * (canary.variance + canary.mean**2)
            still = (terms.users - layout.room - self.taken_off) * quiet.variance
            return terms.chosen * canary.variance + share * (others + still)
        if layout.blocks:
            # Quiet users have the first coordinates, beside a canary where it has these, too.
            beside = 0 if layout.first else terms.users - 1
            quiet_beside = max(0, beside - self.taken_off) * quiet.variance
            dummies_beside = (self._places - 1 - beside) * scores.dummy.variance
            each = canary.variance + quiet_beside + dummies_beside
            return terms.chosen * each
        sent = terms.chosen * self.kept
        dummies = terms.dimensions * self._places - terms.users * sent
        still = (terms.users - layout.room - self.taken_off) * sent
        across = (layout.room - 1) * sent * canary.mean**2
        return (
            layout.room * sent * canary.variance
            + still * quiet.variance
            + dummies * scores.dummy.variance
            + across
        )

    @property
    def taken_off(self) -> int:
        """How many users' messages the observer takes off; none that a cap may have left out."""
        return self.known if self.kept == 1.0 else 0

    @property
    def _places(self) -> int:
        """How many messages each coordinate has."""
        return self.system.sent_terms.count

    def seen(
        self, transport: WatchedTransport, signs: FloatArray, favoured: BoolArray | None
    ) -> FloatArray:
        """Return what each look shows of each canary, in units of noise: (looks, room)."""
        if favoured is None:
            looks = self._look(transport, signs)[None]
        else:
            share = self.terms.chosen / self.terms.dimensions
            # Both parts are brought to the noise of all coordinates, and rotated until the canary
            # moves them alike: their sum is all of it.
            sizes = np.sqrt([share, 1.0 - share])
            parts = [self._look(transport, signs * here) for here in (favoured, ~favoured)]
            looks = equal_shifts(sizes) @ (np.array(parts) / sizes[:, None])
        return np.asarray(looks / math.sqrt(self.variance))

    def _look(self, transport: WatchedTransport, signs: FloatArray) -> FloatArray:
        """Return what a round shows along the signs of each canary: (room,)."""
        chosen = self.terms.chosen
        if self.layout.apart:
            places = transport.places[: len(signs), :chosen]
            along = np.take_along_axis(signs, places, axis=1)
            counted_each = self.scores.of(transport.sent[: len(signs), :chosen])
            return np.asarray((along * counted_each).sum(axis=1))
        if self.mixes_sums:
            return self._look_as_mixer(transport, signs)
        totals = transport.arrived
        if self.taken_off:
            told, places = transport.sent[-self.taken_off :], transport.places[-self.taken_off :]
            numbers = self.scores.of(told).ravel()
            totals = totals - np.bincount(places.ravel(), numbers, minlength=len(totals))
        return np.asarray(signs @ totals)

    def _look_as_mixer(self, transport: WatchedTransport, signs: FloatArray) -> FloatArray:
        """Return what sums without dummies show in the coordinates that each canary sent."""
        others = slice(0, self.terms.users - self.taken_off)
        numbers = self.scores.of(transport.sent[others]).ravel()
        places = transport.places[: len(signs)]
        totals = np.bincount(transport.places[others].ravel(), numbers, minlength=signs.shape[1])
        along = np.take_along_axis(signs, places, axis=1)
        return np.asarray((along * totals[places]).sum(axis=1))
