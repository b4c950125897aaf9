"""The release of how users who were held out of the training vote on the last model.

    silo s sends   sum_u w_su (v_su, 1 - v_su) + N(0, sigma^2 / |S|) in each of two values

v_su is the share of user u's records in silo s that the model answers right, from 0 to 1, so the
row (v, 1 - v) has L2 norm at most 1; w_su are the weights of the training's rule, sum_s w_su <= 1.
Adding or removing a user therefore moves the sum by at most 1, whatever its records are and in
however many silos they lie, although no silo knows of another's: uniform weights, 1 / |S|, need no
knowledge; by records, a user has one vote exactly, and silos know what they know in training.

The release follows the rounds, once.  Its cost is composed with theirs: that who is held out is not
trained on would allow less under add-remove, and not where an id may be replaced by another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.mechanisms import Gate, Gaussian, RoundDescription
from ...accountant.plan import PlannedPhase
from ...accountant.records import Reach
from ..aggregation.clip_check import ClipCheck, norms_of
from ..aggregation.residuals import Residuals
from ..aggregation.sums import Aggregator, PlainAggregator, noisy_sum
from ..aggregation.user_weights import WEIGHTINGS, checked_weights, user_weights
from ..aggregation.weighted_sum import weighted_sum, weighted_views
from ..data.held_out import HeldOutRows
from ..declarations.declaration import HELD_OUT
from ..observers.names import MODEL
from ..observers.reaches import Route, reaches_of
from ..settings.schema import SecuritySettings
from .held_out_score import HeldOutScore, logged
from .model import Parameters, model_digest
from .phases import Phase, PhaseOutcome, SaveArrays, SingleRelease
from .state import Arrays, State

VOTES_DESCRIPTION: Final = "the votes of users who were held out"

VOTE_BOUND: Final = 1.0
"""The L2 norm of one user's vote, over all silos."""

UNPROMISED: Final = ev.NoGuarantee("the rounds before it have no guarantee")

RELEASED_VOTES: Final = "held_out_released"
VOTES_DEVIATION: Final = "held_out_deviation"
"""Arrays of the model's file: right and wrong votes with noise, and the deviation of either."""


@dataclass(frozen=True, eq=False)
class HeldOutRelease:
    """One noisy sum of users' votes; nothing is drawn before `release`.

    - `noise_multiplier`: sigma above; `rule`: how users are weighted, `uniform` or `records`.
    - `rows`: the records that are measured on; `right(parameters)`: which of them a model answers
      right, (rows,), each by itself.
    - `users`: |U|, public, and `share`: how much of them is held out; neither bounds anything.
    - `aggregator`, `security`, `coalitions`: as of `fl.frame.private_normalisation`.
    - `promises`: whether the rounds before it promise anything; where not, votes are noised all
      the same, and promise nothing either.

    Raises `InvalidInput` for noise that is not above 0, and for another rule.
    """

    noise_multiplier: float
    rule: str
    neighbours: str
    rows: HeldOutRows = field(repr=False)
    right: Callable[[Parameters], BoolArray]
    users: int
    share: float
    aggregator: Aggregator = field(default_factory=PlainAggregator)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    coalitions: tuple[int, ...] = ()
    promises: bool = True

    def __post_init__(self) -> None:
        validate.positive(held_out_noise=self.noise_multiplier)
        validate.choice(WEIGHTINGS, weighting=self.rule)

    @cached_property
    def mechanism(self) -> Gaussian:
        """The noise of the one sum."""
        return votes_sum(
            self.noise_multiplier,
            users=self.users,
            silos=self.rows.silos,
            rule=self.rule,
            dropouts=self.security.dropouts,
        )

    @cached_property
    def views(self) -> Mapping[str, ev.Event]:
        """Its event for each observer; nobody is sampled."""
        views = weighted_views(
            self.noise_multiplier,
            silos=self.rows.silos,
            rule=self.rule,
            neighbours=self.neighbours,
            aggregation=self.security.aggregation,
            drawn_by="shared-secret" if self.security.aggregation == "shares" else "server",
            tolerated_dropouts=self.security.dropouts,
            coalitions=tuple(sorted({*self.coalitions, self.security.colluders} - {0})),
            colluders=self.security.colluders,
        )
        return views if self.promises else {MODEL: UNPROMISED}

    @property
    def reaches(self) -> Mapping[str, Reach]:
        """Which of its messages reach each observer, by the aggregation."""
        route = Route(
            self.security.aggregation,
            self.rows.silos,
            self.aggregator.security,
            self.mechanism.noise().tolerated_dropouts,
        )
        return reaches_of(self.views, route)

    @property
    def phase(self) -> PlannedPhase:
        """The phase in a plan: one round, with noise that is given."""
        return PlannedPhase(HELD_OUT, self.noise_multiplier, self.views["model"], 1, self.views)

    def as_phase(self, number: int) -> Phase:
        """Return the phase of a system, whose one round has this number."""

        def release(parameters: Parameters, gate: Gate, keep: SaveArrays) -> Arrays:
            return self.release(number, parameters, gate, keep)

        return Phase(
            self.phase,
            number,
            once=SingleRelease(
                VOTES_DESCRIPTION,
                State(**{RELEASED_VOTES: (2,), VOTES_DEVIATION: (1,)}),
                None,
                lambda arrays: _digest(arrays[RELEASED_VOTES]),
                lambda arrays: PhaseOutcome(dict(arrays)),
                of_model=release,
                needed=False,
                metrics=lambda arrays: logged(*arrays[RELEASED_VOTES].tolist()),
            ),
        )

    def release(self, number: int, parameters: Parameters, gate: Gate, keep: SaveArrays) -> Arrays:
        """Make the one intent and the one release, of votes on a model; return its arrays.

        `keep` is called with them before the release is logged.  Raises what `keep` raises.
        """
        mechanism = self.mechanism
        others = {observer: event for observer, event in self.views.items() if observer != "model"}
        about = RoundDescription(
            number,
            HELD_OUT,
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
            deviation = intent.noise.share_std * len(arrived.silos) ** 0.5
            arrays = {RELEASED_VOTES: released, VOTES_DEVIATION: np.array([deviation])}
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
        counts = held.counts
        # Refused where a user's weights sum to more than 1: the bound rests on it.
        weights = checked_weights(user_weights(self.rule, counts))
        cell = held.user * held.silos + held.silo
        right = np.bincount(cell, self.right(parameters), minlength=counts.size)
        # One row for each user in each silo where it has a record, silo by silo.
        silo, user = np.nonzero(counts.T)
        # A user without a record in a silo has no row there, and a vote of neither kind.
        share = right.reshape(counts.shape)[user, silo] / counts[user, silo]
        votes, weight = np.stack((share, 1.0 - share), axis=1), weights[user, silo]
        if again is not None:
            again.add(votes, silo, norms_of(votes), weight, user)
        return self.mechanism.totals(votes, silo, held.silos, weight)

    def score(self, arrays: Arrays) -> HeldOutScore | None:
        """Return what the released arrays say; None where nothing was released."""
        if RELEASED_VOTES not in arrays:
            return None
        right, wrong = arrays[RELEASED_VOTES].tolist()
        (deviation,) = arrays[VOTES_DEVIATION].tolist()
        return HeldOutScore(right, wrong, deviation, self.users * self.share)


def votes_sum(
    noise_multiplier: float, *, users: int, silos: int, rule: str, dropouts: int = 0
) -> Gaussian:
    """Return the noise of such a sum over all silos; raises as `weighted_sum`."""
    return weighted_sum(
        noise_multiplier,
        bound=VOTE_BOUND,
        users=users,
        silos=silos,
        rule=rule,
        tolerated_dropouts=dropouts,
    )


def _digest(released: FloatArray) -> str:
    return model_digest(released)
