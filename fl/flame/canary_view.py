"""What an observer sees of canaries in a round, and how much noise lies along each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ...accountant.errors import Unsupported
from ..observers.names import ANALYZER, CLIENT, COLLUDING, SHUFFLER
from .canary_patterns import Layout
from .canary_scores import scores_of
from .terms import TOPK, FlameTerms

if TYPE_CHECKING:
    from ...accountant.arrays import BoolArray, FloatArray
    from .canary_scores import Counted, Scores
    from .canary_transport import WatchedTransport
    from .system import Flame


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
        over_full = terms.padded_to is not None and terms.padded_to < terms.users
        if terms.protocol == TOPK or (over_full and terms.table.overflow == "cap"):
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
            # Quiet users have the first coordinates, with a canary where it has these, too.
            quiet_users = 0 if layout.first else terms.users - 1
            quiet_noise = max(0, quiet_users - self.taken_off) * quiet.variance
            dummy_noise = (self._places - 1 - quiet_users) * scores.dummy.variance
            each = canary.variance + quiet_noise + dummy_noise
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
            parts = [self._look(transport, signs * here) for here in (favoured, ~favoured)]
            looks = _alike(np.array(parts), self.terms.chosen / self.terms.dimensions)
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


def _alike(parts: FloatArray, share: float) -> FloatArray:
    """Return two numbers of each unit that it moves alike, (2, m), of which all of it is the sum.

    The first part is seen in a `share` of the coordinates, and the second in all others: both are
    brought to the noise of all of them, and rotated.
    """
    favoured, others = parts[0] / math.sqrt(share), parts[1] / math.sqrt(1.0 - share)
    first, second = math.sqrt(share), math.sqrt(1.0 - share)
    along, across = first * favoured + second * others, first * others - second * favoured
    return np.array([along + across, along - across]) / math.sqrt(2.0)
