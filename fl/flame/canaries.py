"""Canaries for FLAME's users: updates of +C or -C in every coordinate that they send.

Who takes part is seen, so a unit is exchanged.  One that is in pulls its coordinates along signs of
its own, and one that is out the other way; all signs turn round by round.  An update is ten clips
long in each coordinate: a clip that is missing shows.  All other users' updates are 0, and dummies
lie around 0: there is no quieter crowd with Laplace noise.

| observer | what is looked at, along the signs of a canary | against the claim |
|---|---|---|
| analyzer | all messages of each coordinate, one by one | the best of all sums over messages |
| model | the sum of each coordinate | loses up to sqrt 2 of the shift |
| client | the sum, less what it sent itself | likewise |
| shuffler, colluding; tuples | each message with its sender | the likelihood ratio itself |
| shuffler that sees sums | these less its dummies, in coordinates that were sent | as the model |

`canary_scores` says what is counted of a message, `canary_view` where canaries lie and how much
noise lies along each.

**How many.**  Where each has coordinates of its own (`topk`), a run has as many as there is room
for; where all lie over all coordinates, an eighth of the users or of the coordinates; where each
message is seen with its sender, all users.  There are as many runs as it takes, each with a gate,
an odometer and noise of its own; the plan is certified once.

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

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, cast

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import events as ev
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import Unsupported, counted
from ...accountant.mechanisms import Ticket
from ..canaries import (
    CANARY_NORM_IN_CLIPS,
    CanaryHarness,
    CanaryObservations,
    MakeRounds,
    RehearsalRequest,
    canary_federation,
    model_size,
    require_observer,
)
from ..data.federation import Indices
from ..frame.model import Parameters
from ..frame.system import build
from ..observers.names import ANALYZER, CLIENT, COLLUDING, MODEL, SHUFFLER
from ..settings.schema import Settings
from ..shuffling import ReceivedMessages, Shuffling, Terms
from ..shuffling.ideal import IdealShuffling, MixedSums
from ..shuffling.rounds import checked_messages
from ..training.local_training import NoTraining, UpdateBlock
from .canary_scores import Scores
from .canary_view import CanaryView, WatchedTransport
from .sealing_cost import processor_seconds, sealed_messages
from .settings import SEALED, FlameSettings
from .system import Flame
from .terms import FlameTerms

_RUN_WORK: Final = 8_000
"""What a round of a run costs beside its messages, in steps of half a microsecond."""

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
    the plan does not know and where real users are to be beside the canaries, and `ProtocolFault`
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
        """Return the first model."""
        return np.zeros(self.directions.shape[1])

    def turn(self, number: int) -> float:
        """Return which way canaries pull in round `number`: +1 or -1; public."""
        return 1.0 if number % 2 == 0 else -1.0

    def user_deltas(
        self,
        parameters: Parameters,  # noqa: ARG002
        users: Sequence[Indices],  # noqa: ARG002
        number: int,
    ) -> Iterator[UpdateBlock]:
        """Yield the updates of the canaries; all others have none."""
        canaries = np.arange(len(self.directions))
        rows = self._length * self.turn(number) * self.directions
        yield UpdateBlock(canaries, np.zeros_like(canaries), rows)


class WatchedIdeal(IdealShuffling):
    """Messages on arrays."""

    def __init__(self, terms: Terms, *, colluders: int, scores: Scores) -> None:
        super().__init__(terms, colluders=colluders)
        self._scores, self.arrived = scores, np.zeros(terms.dimensions)

    def round(self, number: int, ticket: Ticket, messages: ArrayLike, **given: Any) -> MixedSums:
        """Return the sums of a round."""
        self.arrived = np.zeros(self.terms.dimensions)
        self.sent, self.places = _sent(self.terms, messages, **given)
        return super().round(number, ticket, messages, **given)

    def add(self, sums: IntArray, coordinates: IntArray, values: IntArray) -> None:
        """Add messages to the sums of their coordinates, and what is counted of them."""
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
        """Return what the analyzer has of a round."""
        self.sent, self.places = _sent(self.terms, messages, **given)
        received = super().round(number, ticket, messages, **given)
        self.arrived = self._scores.of(received.messages[:, :, 0]).sum(axis=1)
        return received


def _sent(
    terms: Terms, messages: ArrayLike, *, places: ArrayLike | None = None, **_: object
) -> tuple[IntArray, IntArray]:
    sent, chosen = checked_messages(terms, messages, places)
    return sent[:, :, 0], chosen


class FlameCanaries(CanaryHarness["WatchedTransport"]):
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
        made = build(settings, federation, self.training, self.request.streams())
        system = cast("Flame", made)
        require_observer(system.plan(), observer, OBSERVERS)
        event = system.views(system.promise.noise_multiplier)[observer]
        if isinstance(event, ev.NoGuarantee):
            raise Unsupported(
                f"Nothing is claimed of {system.name} before this observer, so no canary tests it.",
                f"It is known that {event.reason}.",
                "See `privplan audit demo flame-topk`, which shows what that gives away.",
            )
        return system

    @cached_property
    def view(self) -> CanaryView:
        """What the observer sees of a run."""
        return CanaryView(self.request.observer, self.system)

    @cached_property
    def room(self) -> int:
        return self.view.layout.room

    @cached_property
    def looks(self) -> int:
        return self.view.looks

    @cached_property
    def shift(self) -> float:
        return self.view.shift

    @cached_property
    def sealed(self) -> int:
        """How many of the runs have ciphertexts."""
        return sealed_runs(self.request.settings, self.system.terms, self.rounds, self.runs)

    def notes(self) -> tuple[str, ...]:
        notes = [f"{self.room} units at most in each of {counted(self.runs, 'run')}"]
        if self.request.settings.of(FlameSettings).transport == SEALED and self.sealed < self.runs:
            sealed = counted(self.sealed, "run")
            notes.append(f"{sealed} with a ciphertext for each message, all others without")
        if self.view.layout.apart:
            notes.append("as is claimed, each message is seen with its sender")
        return tuple(notes)

    def place(self, run: int, units: IntArray) -> MakeRounds:
        layout, terms = self.view.layout, self.system.terms
        self.signs, self.favoured = layout.signs(self.rng), layout.favoured(self.rng)
        pulls = np.ones(len(self.signs))
        pulls[: len(units)] = np.where(self.coins.into[units], 1.0, -1.0)
        lengths = 1.0 if self.favoured is None else 1.0 + self.favoured
        self.training.directions = pulls[:, None] * self.signs * lengths
        kind = WatchedShuffling if run < self.sealed else WatchedIdeal
        self.system.shuffling = self.transport = kind(
            self.system.sent_terms, colluders=terms.colluders, scores=self.view.scores
        )
        return self.rounds_of(self.system, self.request.streams(run))

    def observe(self, number: int, before: Parameters, after: Parameters) -> WatchedTransport:  # noqa: ARG002
        return self.transport

    def score(self, number: int, seen: WatchedTransport) -> FloatArray:
        looks = self.view.seen(seen, self.signs, self.favoured) * self.training.turn(number)
        return looks[:, : len(self.here)]
