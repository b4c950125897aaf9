"""What decides the guarantee of a FLAME round: who sends how much, and how it is mixed; all public.

    simple    every user sends all d coordinates
    double    every user sends k of them, chosen at random whatever the data are
    topk      every user sends its k largest, so the choice depends on the data

A message is a coordinate of the user's update, clipped to [-C, C], with noise of its own; the noise
multiplier b makes it an epsilon0-local one, epsilon0 = 2 / b, whichever randomizer is used.

Source: Liu, Cao, Chen, Guo and Yoshikawa 2021, AAAI, arXiv 2009.08063v4, Algorithms 2 to 4; the
bounds are the accountant's (`accountant/amplification/shuffling`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Literal

from ...accountant import events as ev
from ...accountant import records
from ...accountant.amplification.shuffling.mixer import mixer_event
from ...accountant.mechanisms import (
    LaplaceMessages,
    ResponseMessages,
    ShuffledRound,
    UnblanketedResponses,
)
from ...accountant.mechanisms.messages import Messages
from ...accountant.sensitivity.release import down, up
from ..declarations.declaration import HELD_OUT, TRAIN
from ..declarations.shared_tables import PrivacySettings
from ..frame.expected_log import NOISE_FOUND, ExpectedLog, ExpectedPhase, NotStated, votes_noise
from ..frame.held_out_messages import VOTE_MIDDLE, VOTE_NUMBERS
from ..frame.initial_model import initial_size
from ..frame.terms import PublicSetup, Terms, by_terms, typed
from ..observers.names import ANALYZER, CLIENT, COLLUDING, MODEL, SHUFFLER
from .padding import OVERFLOW_PART, padding, usual_padding
from .settings import DOUBLE as DOUBLE
from .settings import LAPLACE, RESPONSES, SEALED, SIMPLE, TABLE, FlameSettings, Protocol
from .settings import TOPK as TOPK

if TYPE_CHECKING:
    from ..declarations.stated_settings import StatedSettings

RELATION: Final = "replace-one"

CURVE_KEY_BITS: Final = 256

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
class FlameTerms(Terms):
    """The public facts of every round.

    - `users` n, of whom `colluders` may tell the analyzer all they know; `dimensions` d.
    - `chosen` k; `table`: the settings; `clip` C; `padded_to` n_p, None for `simple`.

    As published (`table.as_published`) nothing is proven of it, and `published` says why.
    """

    protocol: Protocol
    users: int
    dimensions: int
    chosen: int
    clip: float
    colluders: int
    padded_to: int | None
    table: FlameSettings

    @classmethod
    def of(
        cls, setup: PublicSetup, table: FlameSettings, protocol: Protocol, size: int, chosen: int
    ) -> FlameTerms:
        """Return the facts of a run whose model has so many numbers, of which `chosen` are sent.

        As published what a user sends stays together.
        """
        if table.as_published:
            table = replace(table, granularity="tuple")
        padded_to = padding(protocol, table, setup.users)
        if padded_to is None and protocol != SIMPLE:
            failure = setup.privacy.delta * OVERFLOW_PART / setup.rounds
            padded_to = usual_padding(setup.users, size, chosen, failure)
        clip, colluders = setup.training.clip, setup.security.colluders
        return cls(protocol, setup.users, size, chosen, clip, colluders, padded_to, table)

    @property
    def neighbours(self) -> str:
        """Who takes part is public, so somebody is replaced by another."""
        return RELATION

    @property
    def draws(self) -> int:
        """Every user's messages, one by one."""
        return self.chosen

    @property
    def divisor(self) -> float:
        """By what a coordinate's sum is divided: n, or n k / d; a public constant."""
        if self.protocol != DOUBLE:
            return float(self.users)
        return self.users * self.chosen / self.dimensions

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
        if table.randomizer == LAPLACE:
            std = up(Fraction(noise_multiplier) * Fraction(self.clip))
            return LaplaceMessages(self.clip, std, shuffled=mixed)
        epsilon = down(2 / Fraction(noise_multiplier))
        if table.as_published:
            return UnblanketedResponses(epsilon, table.steps + 1)
        return ResponseMessages(epsilon, table.steps + 1, shuffled=mixed)

    @property
    def published(self) -> ev.NoGuarantee:
        """The event of a round as published, before everybody: each of the reasons that it has."""
        responses, topk = self.table.randomizer == RESPONSES, self.protocol == TOPK
        overflows = topk and self.padded_to is not None and self.padded_to < self.users
        reasons = (
            (True, "what a user sends stays together, as whole tuples are mixed"),
            (responses, "the word 0 is sent only by who means it, as others are drawn from 1 on"),
            (topk, "which coordinates are largest is raw data, and goes with them"),
            (
                overflows,
                "more users may send a coordinate than it is padded to, by what their data are",
            ),
            (self.protocol == SIMPLE, "its epsilon is for coordinates that are mixed apart"),
            (self.protocol != SIMPLE, "its epsilon takes index sets for known and for hidden"),
            (not responses, "its bound on a message is mistyped"),
        )
        why = "; ".join(reason for holds, reason in reasons if holds)
        return ev.NoGuarantee(f"FLAME as published: {why}")

    def views(self, noise_multiplier: float) -> dict[str, ev.Event]:
        """Return one round as each observer sees it."""
        if self.table.as_published:
            return dict.fromkeys((MODEL, ANALYZER, SHUFFLER, CLIENT, COLLUDING), self.published)
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

    def expected(self, privacy: PrivacySettings, intent: records.RoundIntent) -> ExpectedPhase:
        """Return what a round states, with its event and what reaches whom.

        Noise that was calibrated is known from the log alone: its deviation of Laplace noise, and
        of words, which state none, their event.
        """
        given, event = privacy.noise_multiplier, None
        mechanism = self.mechanism(1.0 if given is None else given)
        if given is None and isinstance(mechanism, LaplaceMessages):
            if not 0.0 < intent.noise.std < math.inf:
                raise NotStated(NOISE_FOUND)
            mechanism = replace(mechanism, std=intent.noise.std)
        known = given is not None or isinstance(mechanism, LaplaceMessages)
        if known and not self.table.as_published:
            event = self.mixed_event(mechanism)
        return self.stated(mechanism, event=event, reaches=self.reaches())


def votes_terms(users: int, colluders: int, table: FlameSettings) -> FlameTerms:
    """Return the public facts of the round of votes: all send both numbers, as in `simple`."""
    sent = replace(table, chosen=None, decoys=0, padded_to=None)
    numbers = VOTE_NUMBERS
    return FlameTerms(SIMPLE, users, numbers, numbers, VOTE_MIDDLE, colluders, None, sent)


def _terms(
    protocol: Protocol, given: StatedSettings, intent: records.RoundIntent, values: int | None
) -> FlameTerms:
    """Return the terms of a configuration; the model's size is that of a release, or is stated."""
    table: FlameSettings = given.complete(TABLE)
    stated = (intent.reaches or {}).get(SHUFFLER)
    if values is None and stated is not None:
        values = stated.dimensions
    if values is None and protocol == SIMPLE:
        values = intent.noise.draws  # all coordinates are sent: as many as the model has
    if values is None:
        raise NotStated("the size of the model")
    chosen = values if protocol == SIMPLE else table.chosen
    if chosen is None:
        raise NotStated("[flame] chosen")
    return FlameTerms.of(given, table, protocol, values, chosen)


def _values(protocol: Protocol, given: StatedSettings, intent: records.RoundIntent) -> int | None:
    """Return how many coordinates the model has: all of them are summed up, and released.

    In `simple` a user draws once for each of them, whatever the model is; where the model is known
    here and has more, these count.  The other protocols draw fewer, so there the model decides.
    """
    size = initial_size(given.training.model, given.data.name, given.data.schema)
    return max(intent.noise.draws, size or 0) if protocol == SIMPLE else size


def _votes(given: StatedSettings) -> ExpectedPhase:
    """Return what the release of votes states, of all users by the randomizer of the training."""
    terms = votes_terms(given.users, given.security.colluders, given.complete(TABLE))
    mechanism = terms.mechanism(votes_noise(given))
    reaches = terms.reaches(*terms.table.rests_on)
    of_round = terms.stated(mechanism, event=terms.mixed_event(mechanism), reaches=reaches)
    return replace(of_round, normaliser=None)


def _security(given: StatedSettings) -> records.Security:
    table: FlameSettings = given.of(TABLE)
    return records.Security(
        "shuffler",
        parties=given.users,
        fewest=given.users,
        key_bits=CURVE_KEY_BITS if table.transport == SEALED else 0,
        colluders=given.security.colluders,
    )


def _sealed(given: StatedSettings) -> Mapping[str, tuple[str, ...]]:
    """Return what each release seals: nothing, as no party has a sum before its noise."""
    votes = given.evaluation.held_out_noise is not None
    return dict.fromkeys((TRAIN, HELD_OUT) if votes else (TRAIN,), ())


def _expected(protocol: Protocol) -> ExpectedLog:
    return ExpectedLog(
        by_terms(partial(_terms, protocol)),
        typed(_security),
        votes=typed(_votes),
        values=typed(partial(_values, protocol)),
        sealed=typed(_sealed),
    )


EXPECTED_SIMPLE: Final = _expected(SIMPLE)
EXPECTED_DOUBLE: Final = _expected(DOUBLE)
EXPECTED_TOPK: Final = _expected(TOPK)
