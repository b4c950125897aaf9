"""The runs of a rehearsal of FLAME: which canaries lie where, and what an observer sees of them.

Every run has a gate, an odometer and noise of its own; `canaries` says what is looked for.

The "training" of canaries among FLAME's users: updates ten clips long in every coordinate.

They replace what training gives, before the system's own choice of coordinates, clip and noise: a
canary that is put in after the clip would not show that the clip is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NoReturn, cast

import numpy as np

from ...accountant import events as ev
from ...accountant.errors import Unsupported, counted
from ..canaries import (
    CANARY_NORM_IN_CLIPS,
    RehearsalRequest,
    canary_federation,
    model_size,
    require_observer,
    rounds_to_simulate,
    simulate_rounds,
)
from ..frame.system import build
from ..observers.names import ANALYZER, CLIENT, COLLUDING, MODEL, SHUFFLER
from ..training.local_training import UpdateBlock
from .canary_transport import WatchedIdeal, WatchedShuffling
from .canary_view import CanaryView
from .sealing_cost import processor_seconds, sealed_messages
from .settings import SEALED, FlameSettings

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray, IntArray
    from ..canaries import Coins
    from ..data.federation import Federation, Indices
    from ..frame.model import Parameters
    from ..settings.schema import Settings
    from ..training.local_training import Rows
    from .canary_patterns import Layout
    from .canary_transport import WatchedTransport
    from .system import Flame
    from .terms import FlameTerms


class CanaryUpdates:
    """A `LocalTraining` in which the first users are canaries, and the others' updates are 0.

    `directions` (m, d) are those of the canaries by their coins, set before each run: +1, -1 or 0
    of each coordinate, or more where it is favoured.  They turn round by round, so that noise that
    is used again cancels out.
    """

    def __init__(self, dimensions: int, *, clip: float) -> None:
        self._length = CANARY_NORM_IN_CLIPS * clip
        self.directions: FloatArray = np.zeros((1, dimensions))

    def use(self, federation: Federation) -> None:
        """Go on as before: there are no features."""

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

    def user_gradients(
        self, parameters: Parameters, users: Sequence[Indices], number: int
    ) -> NoReturn:
        """Refuse: FLAME asks for updates alone."""
        raise NotImplementedError

    def silo_deltas(self, parameters: Parameters, number: int) -> Rows:
        """Refuse, likewise."""
        raise NotImplementedError

    def record_gradients(self, models: Rows, chosen: Indices, step: int) -> Rows:
        """Refuse, likewise."""
        raise NotImplementedError


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


@dataclass(frozen=True, eq=False)
class CanaryRuns:
    """The runs of a rehearsal: which canaries lie where, and what an observer sees of them."""

    request: RehearsalRequest
    coins: Coins
    rng: np.random.Generator

    @cached_property
    def training(self) -> CanaryUpdates:
        """The training of every run."""
        settings = self.request.settings
        return CanaryUpdates(model_size(settings), clip=settings.training.clip)

    @cached_property
    def system(self) -> Flame:
        """The system of every run; its transport and its canaries change.

        Raises `InvalidInput` and `Unsupported` as `require_observer`, and the latter where nothing
        is claimed before the observer.
        """
        settings = self.request.settings
        present = np.ones((settings.data.users, 1), np.int64)
        streams = self.request.streams()
        federation = canary_federation(present)
        system = cast("Flame", build(settings, federation, self.training, streams))
        observer = self.request.observer
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

    @property
    def layout(self) -> Layout:
        """Where canaries lie in a run."""
        return self.view.layout

    @cached_property
    def rounds(self) -> int:
        """How many rounds are made."""
        return rounds_to_simulate(self.system.plan(), self.request.rounds)

    @cached_property
    def runs(self) -> int:
        """How many runs there are."""
        return -(-len(self.coins) // self.layout.room)

    @cached_property
    def sealed(self) -> int:
        """How many of them have ciphertexts."""
        return sealed_runs(self.request.settings, self.system.terms, self.rounds, self.runs)

    def seen(self) -> FloatArray:
        """Make all runs; return what each look at a round shows of each unit."""
        room = self.layout.room
        seen = np.empty((self.rounds * self.view.looks, len(self.coins)))
        for run, first in enumerate(range(0, len(self.coins), room)):
            units = np.arange(first, min(first + room, len(self.coins)))
            seen[:, units] = self._run(run, units)
        return seen

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of the rehearsal."""
        notes = [f"{self.layout.room} units at most in each of {counted(self.runs, 'run')}"]
        if self.request.settings.of(FlameSettings).transport == SEALED and self.sealed < self.runs:
            sealed = counted(self.sealed, "run")
            notes.append(f"{sealed} with a ciphertext for each message, all others without")
        if self.layout.apart:
            notes.append("as is claimed, each message is seen with its sender")
        return tuple(notes)

    def _transport(self, run: int) -> WatchedTransport:
        make = WatchedShuffling if run < self.sealed else WatchedIdeal
        return make(
            self.system.sent_terms, colluders=self.system.terms.colluders, scores=self.view.scores
        )

    def _run(self, run: int, units: IntArray) -> FloatArray:
        """Make one run with some of the units in it: (rounds x looks, n)."""
        signs, favoured = self.layout.signs(self.rng), self.layout.favoured(self.rng)
        pulls = np.ones(len(signs))
        pulls[: len(units)] = np.where(self.coins.into[units], 1.0, -1.0)
        lengths = 1.0 if favoured is None else 1.0 + favoured
        self.training.directions = pulls[:, None] * signs * lengths
        self.system.shuffling = transport = self._transport(run)
        looks: list[FloatArray] = []

        def each(number: int, before: Parameters, after: Parameters) -> None:
            del before, after
            seen = self.view.seen(transport, signs, favoured) * self.training.turn(number)
            looks.append(seen[:, : len(units)])

        simulate_rounds(self.system, self.request.streams(run), rounds=self.rounds, each=each)
        return np.concatenate(looks)
