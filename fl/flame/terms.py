"""What decides the guarantee of a FLAME round: who sends how much, and how it is mixed; all public.

    simple    every user sends all d coordinates
    double    every user sends k of them, chosen at random whatever the data are
    topk      every user sends its k largest, so the choice depends on the data

A message is a coordinate of the user's update, clipped to [-C, C], with noise of its own; the noise
multiplier b makes it an epsilon0-local one, epsilon0 = 2 / b, whichever randomizer is used.

Source: Liu, Cao, Chen, Guo and Yoshikawa 2021, AAAI, arXiv 2009.08063v4, Algorithms 2 to 4; the
bounds are the accountant's (`accountant/amplification/shuffling`).

Words in place of numbers: coordinates in [-C, C] as one of b + 1 steps, and their sum back.

    y = floor or ceiling of b (x + C) / (2 C), at random so that its mean is that number
    z = y, or another word, by randomized response with the truth of probability p
    E[z] - b / 2 = (p - (1 - p) / b) (b x / (2 C)),     and of a dummy 0

so the sum of z - b / 2 over all messages of a coordinate, dummies among them, is an unbiased sum of
the values but for a factor.

Source: Balle, Bell, Gascon and Nissim 2019, arXiv 1903.02837v1, Algorithm 1, with words 0 to b.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal

import numpy as np

from ...accountant import events as ev
from ...accountant import records
from ...accountant.amplification.shuffling.double import overflow_probability
from ...accountant.amplification.shuffling.mixer import mixer_event
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import LaplaceMessages, ResponseMessages, ShuffledRound
from ...accountant.mechanisms.messages import Messages
from ...accountant.randomness import Stream
from ...accountant.rootfinding import first_integer
from ...accountant.sensitivity.release import down, up
from ..frame.held_out_messages import VOTE_MIDDLE, VOTE_NUMBERS
from ..observers.names import ANALYZER, CLIENT, COLLUDING, MODEL, SHUFFLER
from .settings import LAPLACE, FlameSettings, RandomizerName


def words_of(stream: Stream, values: FloatArray, clip: float, steps: int) -> IntArray:
    """Return a word of 0 to `steps` for each value, clipped to +-`clip`, of the same shape.

    What is no number counts as 0.  A value between two words becomes either, so that the mean is
    the value but for 2^-53.
    """
    finite = np.where(np.isfinite(values), values, 0.0)
    scaled = (np.clip(finite, -clip, clip) + clip) * (steps / (2.0 * clip))
    lower = np.clip(np.floor(scaled), 0, steps)
    # 53 random bits as a fraction in [0, 1): up with the probability of the fraction.
    fractions = (stream.integers64(values.size) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    up = fractions.reshape(values.shape) < scaled - lower
    return np.asarray(np.minimum(lower + up, steps), np.int64)


def unbiased_sums(
    sums: IntArray, messages: int, epsilon: float, clip: float, steps: int
) -> FloatArray:
    """Return sums of values from sums of words, (dimensions,), of so many messages each."""
    truth = 1.0 / (1.0 + steps * math.exp(-epsilon))
    slope = truth - (1.0 - truth) / steps
    centred = sums.astype(np.float64) - messages * (steps / 2.0)
    return centred * (2.0 * clip / steps / slope)


Protocol = Literal["simple", "double", "topk"]

SIMPLE: Final = "simple"
DOUBLE: Final = "double"
TOPK: Final = "topk"

RELATION: Final = "replace-one"

OVERFLOW_PART: Final = 0.01
"""The part of delta, over all rounds, that a padding found here may overflow with."""

USUAL_PADDING_FACTOR: Final = 2
"""How many times the least padding is taken where none is given.

Dummies are cover.  At the least padding a full coordinate has hardly any: 1,000 users who send 65
of 650 coordinates five times with epsilon0 4 have epsilon 123 at n_p = 167, and 5.9 at twice that.
"""

_INDEX_SETS: Final = ev.NoGuarantee(
    "which coordinates of a user are its largest is raw data, and the shuffler sees it"
)
_TUPLES: Final = ev.NoGuarantee(
    "what a user sends stays together, and which coordinates it sends depends on its data"
)
_OVERFLOW: Final = ev.NoGuarantee(
    "more users may send a coordinate than it is padded to, and that depends on their data"
)


@dataclass(frozen=True)
class FlameTerms:
    """The public facts of every round.

    - `users` n, of whom `colluders` may tell the analyzer all they know; `dimensions` d.
    - `chosen` k; `table`: the settings; `clip` C; `padded_to` n_p, None for `simple`.
    """

    protocol: Protocol
    users: int
    dimensions: int
    chosen: int
    clip: float
    colluders: int
    padded_to: int | None
    table: FlameSettings

    @property
    def selection(self) -> Literal["oblivious", "data-dependent"]:
        """Whether the choice of coordinates depends on data: not where all of them are sent."""
        chooses = self.protocol == TOPK and self.chosen < self.dimensions
        return "data-dependent" if chooses else "oblivious"

    @property
    def sent(self) -> int:
        """How many messages a user sends, decoys among them."""
        return self.chosen + self.table.decoys

    @property
    def sends_all(self) -> bool:
        """Whether a user always sends all coordinates, decoys among them.

        Then what it sends is as private as the messages of the k that it chose, whoever sees it
        (`accountant.amplification.shuffling.overlap`).
        """
        return self.table.granularity == "coordinate" and self.sent == self.dimensions

    @cached_property
    def mixed(self) -> ShuffledRound | None:
        """How all messages are mixed; None where those of a user stay together."""
        if self.table.granularity == "tuple":
            return None
        if self.protocol == SIMPLE:
            return ShuffledRound(self.users)
        assert self.padded_to is not None
        return ShuffledRound(
            self.users,
            self.dimensions,
            self.chosen,
            self.padded_to,
            selection=self.selection,
            overflow=self.table.overflow,
        )

    @property
    def unsound(self) -> ev.NoGuarantee | None:
        """Why nothing is proven before who sees the mixed messages; None where something is."""
        if self.protocol != TOPK or self.chosen == self.dimensions:
            return None
        if self.table.granularity == "tuple":
            return _TUPLES
        assert self.padded_to is not None
        return _OVERFLOW if self.padded_to < self.users else None

    def mechanism(self, noise_multiplier: float) -> LaplaceMessages | ResponseMessages:
        """Return the randomizer of one message, of epsilon0 = 2 / `noise_multiplier`."""
        mixed = None if self.mixed is None else self.mixed.without(self.colluders)
        table = self.table
        return randomizer(
            table.randomizer, noise_multiplier, clip=self.clip, steps=table.steps, mixed=mixed
        )

    def views(self, noise_multiplier: float) -> dict[str, ev.Event]:
        """Return one round as each observer sees it."""
        mechanism = self.mechanism(noise_multiplier)
        each = mechanism.local_event(RELATION, self.chosen)
        shown = self.protocol == TOPK and self.chosen < self.dimensions and not self.sends_all
        together = _INDEX_SETS if shown else each
        mixed = self.mixed_event(mechanism)
        one_less = replace(self, colluders=self.colluders + 1)
        client = one_less.mixed_event(one_less.mechanism(noise_multiplier))
        return {
            MODEL: mixed,
            ANALYZER: mixed,
            SHUFFLER: self._before_shuffler(mechanism, each, mixed),
            CLIENT: client,
            COLLUDING: together,
        }

    def _before_shuffler(
        self, mechanism: LaplaceMessages | ResponseMessages, each: ev.Event, mixed: ev.Event
    ) -> ev.Event:
        """Return one round as the shuffler sees it, which reads no message and gets the model.

        Where all is sent by all and nothing is added, the model is all that it learns, and the
        number for the mixed messages holds.  Else it knows what hides a user from the analyzer: the
        choice, and the dummies (`accountant.amplification.shuffling.mixer`).
        """
        # Decoys hide which coordinates are the largest only where every coordinate is sent.
        if self.protocol == TOPK and not self.sends_all:
            return _INDEX_SETS
        if self.mixed is None or self.protocol == TOPK:
            return each
        if self.protocol == SIMPLE:
            return mixed
        if not isinstance(mechanism, LaplaceMessages):
            return each
        assert self.padded_to is not None
        event = mixer_event(
            mechanism.message_event(RELATION),
            users=self.users - self.colluders,
            dimensions=self.dimensions,
            chosen=self.chosen,
            padded_to=self.padded_to - self.colluders,
            coarseness=mechanism.grid / mechanism.bound,
        )
        return each if event is None else event

    def mixed_event(self, mechanism: Messages) -> ev.Event:
        """Return one round as who sees the mixed messages sees it."""
        if self.unsound is not None:
            return self.unsound
        return mechanism.event(RELATION, draws=self.chosen)

    def reaches(self, *rests_on: str) -> Mapping[str, records.Reach]:
        """Return what of a round reaches each observer."""
        told = self.colluders
        if self.mixed is None:
            together = records.Reach("each", colluders=told, rests_on=rests_on)
            reaches = dict.fromkeys((MODEL, ANALYZER, SHUFFLER, CLIENT, COLLUDING), together)
            return {**reaches, CLIENT: replace(together, colluders=told + 1)}
        seen = self.mixed.reach(*rests_on, colluders=told)
        mixer = apart = self._apart()
        if self.protocol != TOPK:
            also = ("dummies", *apart.also)
            mixer = replace(apart, sees="sum", also=also, colluders=told, rests_on=rests_on)
        return {
            MODEL: seen,
            ANALYZER: seen,
            SHUFFLER: mixer,
            CLIENT: replace(seen, colluders=told + 1),
            COLLUDING: apart,
        }

    def _apart(self) -> records.Reach:
        """Return each message with its sender.

        Where all are sent, which of them a user chose does not show in what it sends.
        """
        if self.chosen == self.dimensions:
            return records.Reach("each", also=("identities", "sizes"))
        if self.sends_all:
            return records.Reach(
                "each",
                also=("identities", "sizes"),
                dimensions=self.dimensions,
                chosen=self.dimensions,
                selection="oblivious",
            )
        return records.Reach(
            "each",
            also=("identities", "index-sets", "sizes"),
            dimensions=self.dimensions,
            chosen=self.chosen,
            selection=self.selection,
        )


def votes_terms(users: int, colluders: int, table: FlameSettings) -> FlameTerms:
    """Return the public facts of the round of votes: all send both numbers, as in `simple`."""
    sent = replace(table, chosen=None, decoys=0, padded_to=None)
    numbers = VOTE_NUMBERS
    return FlameTerms(SIMPLE, users, numbers, numbers, VOTE_MIDDLE, colluders, None, sent)


def randomizer(
    name: RandomizerName,
    noise_multiplier: float,
    *,
    clip: float,
    steps: int,
    mixed: ShuffledRound | None = None,
) -> LaplaceMessages | ResponseMessages:
    """Return the randomizer of one coordinate, of epsilon0 = 2 / `noise_multiplier` or less."""
    if name == LAPLACE:
        std = up(Fraction(noise_multiplier) * Fraction(clip))
        return LaplaceMessages(clip, std, shuffled=mixed)
    epsilon = down(2 / Fraction(noise_multiplier))
    return ResponseMessages(epsilon, steps + 1, shuffled=mixed)


def padding(protocol: Protocol, table: FlameSettings, users: int) -> int | None:
    """Return n_p where the settings say it, or what follows from the protocol; None for `simple`.

    For `topk` as many as there are users, so that nothing overflows.
    """
    if protocol == SIMPLE:
        return None
    if table.padded_to is not None or protocol == DOUBLE:
        return table.padded_to
    return users


def least_padding(users: int, dimensions: int, chosen: int, failure: float) -> int:
    """Return the least n_p that a coordinate passes with probability at most `failure` in a round.

    Of n users each sends a coordinate with probability k / d, independently:
    P <= d P(Bin(n, k / d) > n_p).  Range: `failure` in (0, 1).
    """

    def rare(padded_to: int) -> bool:
        event = ev.SampledShuffle(
            *(users, dimensions, chosen, padded_to),
            *("coordinate", "oblivious", "refuse", ev.Local(1.0)),
        )
        return overflow_probability(event) <= failure

    if not 0.0 < failure < 1.0:
        raise InvalidInput("`failure` must be a number in (0, 1).")
    return first_integer(rare, max(2, users * chosen // dimensions), users)


def usual_padding(users: int, dimensions: int, chosen: int, failure: float) -> int:
    """Return the n_p of `double` where none is given: twice the least, at most the users."""
    return min(users, USUAL_PADDING_FACTOR * least_padding(users, dimensions, chosen, failure))
