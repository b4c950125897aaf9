"""Canaries for FLAME's users: updates of +C or -C in every coordinate that they send.

Who takes part is seen, so a unit is exchanged.  One that is in pulls its coordinates along signs of
its own, and one that is out the other way; all signs turn round by round.  An update is ten clips
long in each coordinate: a clip that is missing shows.  All other users' updates are 0, and dummies
lie around 0: there is no quieter round with Laplace noise.

| observer | what is looked at, along the signs of a canary | against the claim |
|---|---|---|
| analyzer | all messages of each coordinate, one by one | the best of all sums over messages |
| model | the sum of each coordinate | loses up to sqrt 2 of the shift |
| client | the sum, less what it sent itself | likewise |
| shuffler, colluding; tuples | each message with its sender | the likelihood ratio itself |
| shuffler that sees sums | these less its dummies, in coordinates that were sent | as the model |

`canary_scores` says what is counted of a message, `canary_layout` where canaries lie and what
they send.

**How many.**  Where each has coordinates of its own (`topk`), a run has as many as there is room
for; where all lie over all coordinates, an eighth of the users or of the coordinates; where each
message is seen with its sender, all users.

**What the tests assume.**  That a unit that is in is told from one that is out no better than is
claimed, which is so for any score, and the tests of the audit compare ranks alone: what is seen
need not be Gaussian, and with few messages it is not.  The tier `claim` also takes canaries to be
independent.  They are, but for those of one run that lie across one another: their scores hang
together by 1 / d, in squares, of which the coins take away the sign.

**Transport.**  Both transports give the same messages.  Ciphertexts carry the messages of the first
runs, as many as fit into half a minute and none where one run takes longer.

**What is not found.**  An order of messages that is not mixed: no sum shows it, and what reaches
whom stands in the log.  A round that is given up because too many users sent a coordinate ends the
rehearsal.

**Which coordinates are sent.**  Under `double` a canary's update is longest in k coordinates.  What
these show, and what the others do, is rotated into two numbers that it moves alike (`looks`): their
sum is all that it shows where coordinates are drawn.  Where the largest are sent, another weight
shows more, which may still be within the claim.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Final, cast

import numpy as np

from ...accountant import events as ev
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import Unsupported, counted
from ..canaries import (
    CanaryHarness,
    CanaryObservations,
    MakeRounds,
    RehearsalRequest,
    canary_federation,
    equal_shifts,
    model_size,
    require_observer,
)
from ..frame.model import Parameters
from ..frame.system import build
from ..observers.names import ANALYZER, CLIENT, COLLUDING, MODEL, SHUFFLER
from ..settings.schema import Settings
from .canary_layout import CanaryUpdates, Layout, WatchedIdeal, WatchedShuffling, WatchedTransport
from .canary_scores import Counted, Scores, scores_of
from .sealing_cost import processor_seconds, sealed_messages
from .settings import SEALED, FlameSettings
from .system import Flame
from .terms import TOPK, FlameTerms

_RUN_WORK: Final = 8_000
"""What a round of a run costs besides its messages, in steps of half a microsecond."""

_MESSAGE_WORK: Final = 3
"""What a message costs, in such steps."""

OBSERVERS: Final = (MODEL, ANALYZER, CLIENT, SHUFFLER, COLLUDING)
"""The observers that are rehearsed."""

MOST_SEALED_SECONDS: Final = 25.0
"""Most processor time of runs that go through ciphertexts."""


def sealed_runs(settings: Settings, terms: FlameTerms, rounds: int, runs: int) -> int:
    """Return how many runs have ciphertexts: the first ones, as many as fit into half a minute."""
    if settings.of(FlameSettings).transport != SEALED:
        return 0
    messages = sealed_messages(terms.users, terms.sent, terms.dimensions, terms.padded_to)
    return min(runs, int(MOST_SEALED_SECONDS / (rounds * processor_seconds(messages))))


def simulate(request: RehearsalRequest) -> CanaryObservations:
    """Return what an observer sees of users that pull one way or the other.

    Raises `Unsupported` where nothing is claimed before the observer, `InvalidInput` for one that
    the plan does not know and where real users are to be with the canaries, and `ProtocolFault`
    for a round that is given up.
    """
    return FlameCanaries(request).simulated()


def work(settings: Settings, silos: int, canaries: int) -> int:  # noqa: ARG001
    """Return the work of a round of all runs, as far as settings tell: every message of each.

    The observer is not known here: it is as for who sees all that is mixed.
    """
    table, users, dimensions = settings.of(FlameSettings), settings.data.users, model_size(settings)
    sent = dimensions if table.chosen is None else table.chosen + table.decoys
    messages = max(users * sent, dimensions * (table.padded_to or 0))
    room = max(1, min(users // 8, dimensions // 8))
    return -(-canaries // room) * (_RUN_WORK + _MESSAGE_WORK * messages)


class FlameCanaries(CanaryHarness[WatchedTransport]):
    """Users in runs of FLAME, and the messages or sums that are seen of them."""

    observers = OBSERVERS
    alone = "Their updates would take the place of canaries."

    @cached_property
    def training(self) -> CanaryUpdates:
        """The training of every run."""
        settings = self.request.settings
        return CanaryUpdates(model_size(settings), clip=settings.training.clip)

    @cached_property
    def system(self) -> Flame:
        """The system of every run; its transport and its canaries change."""
        settings, observer = self.request.settings, self.request.observer
        federation = canary_federation(np.ones((settings.data.users, 1), np.int64))
        streams = self.request.streams()
        system = cast("Flame", build(settings, federation, self.training, streams))
        require_observer(system.plan(), observer, OBSERVERS)
        event = system.views(system.promise.noise_multiplier)[observer]
        if isinstance(event, ev.NoGuarantee):
            raise Unsupported(
                f"Nothing is claimed of {system.name} before this observer, so no canary tests it.",
                f"It is known that {event.reason}.",
                "See `privplan audit demo flame-topk`, which shows what that gives away.",
            )
        return system

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
        observer = self.request.observer
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
        if self.request.observer != SHUFFLER or self.system.reaches()[SHUFFLER].sees == "each":
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
        return self.terms.colluders + (self.request.observer == CLIENT)

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
        pulled = self.terms.chosen * self.kept * self.scores.value(1.0).mean
        return pulled / math.sqrt(self.looks * self.variance)

    @cached_property
    def looks(self) -> int:
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

    @cached_property
    def room(self) -> int:
        return self.layout.room

    @cached_property
    def sealed(self) -> int:
        """How many of the runs have ciphertexts."""
        return sealed_runs(self.request.settings, self.terms, self.rounds, self.runs)

    def notes(self) -> tuple[str, ...]:
        notes = [f"{self.room} units at most in each of {counted(self.runs, 'run')}"]
        if self.request.settings.of(FlameSettings).transport == SEALED and self.sealed < self.runs:
            sealed = counted(self.sealed, "run")
            notes.append(f"{sealed} with a ciphertext for each message, all others without")
        if self.layout.apart:
            notes.append("as is claimed, each message is seen with its sender")
        return tuple(notes)

    def place(self, run: int, units: IntArray) -> MakeRounds:
        layout, terms = self.layout, self.terms
        self.signs, self.favoured = layout.signs(self.rng), layout.favoured(self.rng)
        pulls = np.ones(len(self.signs))
        pulls[: len(units)] = np.where(self.coins.into[units], 1.0, -1.0)
        lengths = 1.0 if self.favoured is None else 1.0 + self.favoured
        self.training.directions = pulls[:, None] * self.signs * lengths
        kind = WatchedShuffling if run < self.sealed else WatchedIdeal
        self.system.shuffling = self.transport = kind(
            self.system.sent_terms, colluders=terms.colluders, scores=self.scores
        )
        return self.rounds_of(self.system, self.request.streams(run))

    def observe(self, number: int, before: Parameters, after: Parameters) -> WatchedTransport:
        return self.transport

    def score(self, number: int, seen: WatchedTransport) -> FloatArray:
        if self.favoured is None:
            looks = self._look(seen, self.signs)[None]
        else:
            share = self.terms.chosen / self.terms.dimensions
            # Both parts are brought to the noise of all coordinates, and rotated until the canary
            # moves them alike: their sum is all of it.
            sizes = np.sqrt([share, 1.0 - share])
            parts = [self._look(seen, self.signs * at) for at in (self.favoured, ~self.favoured)]
            looks = equal_shifts(sizes) @ (np.array(parts) / sizes[:, None])
        turned = looks / math.sqrt(self.variance) * self.training.turn(number)
        return np.asarray(turned[:, : len(self.here)])

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
