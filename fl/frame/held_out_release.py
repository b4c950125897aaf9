"""The release of how those who were held out of the training vote on the last model.

    silo s sends   sum of its votes (v, 1 - v) + its share of the noise in each of two values

The noise is N(0, sigma^2), or Laplace noise of scale sigma, which each silo adds whole.  What a
vote is, and how far a unit moves the sum, is in `held_out_votes`.  Of users, for example,
v_su is the share of user u's records in silo s that the model answers right, and w_su are the
weights of the training's rule, sum_s w_su <= 1.  So a user moves the sum by at most 1, whatever its
records are and in however many silos they lie, although no silo knows of another's: uniform
weights, 1 / |S|, need no knowledge; by records, a user has one vote exactly, and silos know what
they know in training.

The release follows the rounds, once.  Its cost is composed with theirs: that who is held out is not
trained on would allow less under add-remove, and not where an id may be replaced by another, nor
where a unit has records on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Protocol, TypeAlias

import numpy as np

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.mechanisms import Gate, RoundDescription, SharedNoise
from ...accountant.plan import PlannedPhase
from ...accountant.records import Reach, Sampling
from ..aggregation.clip_check import ClipCheck, norms_of
from ..aggregation.residuals import Residuals
from ..aggregation.sums import Aggregator, PlainAggregator, noisy_sum
from ..data.held_out import HeldOutRows
from ..declarations.declaration import HELD_OUT
from ..observers.names import MODEL
from ..observers.reaches import Route, reaches_of
from .held_out_score import HeldOutScore, logged, noise_deviation
from .held_out_votes import Casting
from .model import Parameters, model_digest
from .phases import Phase, PhaseOutcome, SaveArrays, SingleRelease
from .state import Arrays, State

VOTES_DESCRIPTION: Final = "the votes of users who were held out"

UNPROMISED: Final = ev.NoGuarantee("the rounds before it have no guarantee")

RELEASED_VOTES: Final = "held_out_released"
VOTES_DEVIATION: Final = "held_out_deviation"
"""Arrays of the model's file: right and wrong votes with noise, and the deviation of either."""

ReleaseVotes: TypeAlias = Callable[[int, Parameters, Gate, SaveArrays], Arrays]
"""From a round's number, the last model and the gate to the released arrays, which are kept."""


class VotesPhase(Protocol):
    """A release of votes as the frame knows it: what it plans, and how it is made after rounds."""

    @property
    def phase(self) -> PlannedPhase:
        """The phase in a plan: one round, with noise that is given."""

    def as_phase(self, number: int) -> Phase:
        """Return the phase of a system, whose one round has this number."""


@dataclass(frozen=True, eq=False)
class HeldOutRelease:
    """One noisy sum of votes; nothing is drawn before `release`.

    - `noise_multiplier`: sigma above; `mechanism`: the noise of the one sum.
    - `events`: its event for each observer; `sampling`: nobody is drawn, but a log states who
      chooses the records that vote.  `cast`: how votes are cast.
    - `rows`: the records that are measured on; `right(parameters)`: which of them a model answers
      right, (rows,), each by itself.
    - `votes`: the public number of votes, by which nothing is bounded.
    - `aggregator`: adds up what the silos send, and `aggregation` says what a server sees of it.
    - `promises`: whether the rounds before it promise anything; where not, votes are noised all
      the same, and promise nothing either.

    Raises `InvalidInput` for noise that is not above 0.
    """

    noise_multiplier: float
    mechanism: SharedNoise
    events: Mapping[str, ev.Event]
    cast: Casting
    neighbours: str
    rows: HeldOutRows = field(repr=False)
    right: Callable[[Parameters], BoolArray]
    votes: float
    aggregator: Aggregator = field(default_factory=PlainAggregator)
    aggregation: str = "plain"
    promises: bool = True
    sampling: Sampling = field(default_factory=Sampling)
    sees_each: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        validate.positive(held_out_noise=self.noise_multiplier)

    def of_votes(
        self,
        mechanism: SharedNoise,
        events: Mapping[str, ev.Event],
        cast: Casting,
        *,
        chosen_by: Literal["each-silo"] | None = None,
        sees_each: frozenset[str] = frozenset(),
    ) -> HeldOutRelease:
        """Return the release of votes that are cast, and noised, as a system has it.

        `chosen_by` says who chooses the records that vote, and `sees_each` which observers are
        accounted as who sees every silo's message, whatever the aggregation shows them.
        """
        return replace(
            self,
            mechanism=mechanism,
            events=events,
            cast=cast,
            sampling=Sampling(chosen_by=chosen_by),
            sees_each=sees_each,
        )

    @property
    def views(self) -> Mapping[str, ev.Event]:
        """Its event for each observer, as the plan has it."""
        return self.events if self.promises else {MODEL: UNPROMISED}

    @property
    def reaches(self) -> Mapping[str, Reach]:
        """Which of its messages reach each observer, by the aggregation."""
        route = Route(
            self.aggregation,
            self.rows.silos,
            self.aggregator.security,
            self.mechanism.noise().tolerated_dropouts,
            unit=self.mechanism.contribution.unit,
        )
        return reaches_of(self.views, route, self.sees_each)

    @property
    def phase(self) -> PlannedPhase:
        """The phase in a plan: one round, with noise that is given."""
        return PlannedPhase(HELD_OUT, self.noise_multiplier, self.views["model"], 1, self.views)

    def as_phase(self, number: int) -> Phase:
        """Return the phase of a system, whose one round has this number."""
        return phase_of_votes(self.phase, number, self.release)

    def release(self, number: int, parameters: Parameters, gate: Gate, keep: SaveArrays) -> Arrays:
        """Make the one intent and the one release, of votes on a model; return its arrays.

        `keep` is called with them before the release is logged.  Raises what `keep` raises.
        """
        mechanism = self.mechanism
        others = {observer: event for observer, event in self.views.items() if observer != "model"}
        about = RoundDescription(
            number,
            HELD_OUT,
            self.sampling,
            views=others,
            model_in=model_digest(parameters),
            event_override=self.views["model"],
            reaches=self.reaches,
        )
        intent = mechanism.intent(about, self.neighbours)
        again = ClipCheck(intent, mechanism, self.rows.silos, 2)
        totals = self.totals(parameters, again)  # before the intent: a crash here spends nothing
        with gate.open(intent) as ticket:
            monitor = Residuals().monitor(intent.noise)
            arrived = noisy_sum(
                self.aggregator, number, mechanism, ticket, list(totals), HELD_OUT, monitor
            )
            released = mechanism.units(arrived.total)
            # Noise that may be missing is made up for by the others, and all of it may arrive.
            deviation = noise_deviation(intent.noise, len(arrived.silos))
            arrays = arrays_of_votes(released, deviation)
            keep(arrays)
            ticket.close(
                aggregate=released.tobytes(),
                sealed={**monitor.items(), **again.items(totals)},
                values=released.size,
                shares=len(arrived.silos),
            )
        return arrays

    def totals(self, parameters: Parameters, again: ClipCheck | None = None) -> IntArray:
        """Return each silo's sum without noise, (silos, 2) on the mechanism's grid; private.

        `again` is given every vote with its weight, and recomputes the sums for the sealed sidecar.
        """
        held = self.rows
        cast = self.cast(held, self.right(parameters))
        if again is not None:
            again.add(cast.votes, cast.silo, norms_of(cast.votes), cast.weights, cast.user)
        return self.mechanism.totals(cast.votes, cast.silo, held.silos, cast.weights)

    def score(self, arrays: Arrays) -> HeldOutScore | None:
        """Return what the released arrays say; None where nothing was released."""
        if RELEASED_VOTES not in arrays:
            return None
        right, wrong = arrays[RELEASED_VOTES].tolist()
        (deviation,) = arrays[VOTES_DEVIATION].tolist()
        return HeldOutScore(right, wrong, deviation, self.votes)


def phase_of_votes(planned: PlannedPhase, number: int, release: ReleaseVotes) -> Phase:
    """Return the phase of votes, whose one round has this number, however they are summed."""

    def of_model(parameters: Parameters, gate: Gate, keep: SaveArrays) -> Arrays:
        return release(number, parameters, gate, keep)

    return Phase(
        planned,
        number,
        once=SingleRelease(
            VOTES_DESCRIPTION,
            State(**{RELEASED_VOTES: (2,), VOTES_DEVIATION: (1,)}),
            None,
            lambda arrays: _digest(arrays[RELEASED_VOTES]),
            lambda arrays: PhaseOutcome(dict(arrays)),
            of_model=of_model,
            needed=False,
            metrics=lambda arrays: logged(*arrays[RELEASED_VOTES].tolist()),
        ),
    )


def arrays_of_votes(released: FloatArray, deviation: float) -> Arrays:
    """Return what is kept of votes: right and wrong with noise, and the deviation of either."""
    return {RELEASED_VOTES: released, VOTES_DEVIATION: np.array([deviation])}


def _digest(released: FloatArray) -> str:
    return model_digest(released)
