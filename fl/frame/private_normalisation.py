"""The private release of the feature moments that records are normalised by, before the training.

    silo s sends   sum_u w_su row_su + N(0, sigma^2 B^2 / |S|)

row_su holds the first and second moments of user u's records in silo s, scaled by the features'
public range, with L2 norm at most B (`fl.data.normalise.bounded_moments_contributions`); w_su is
the user's weight there in training, sum_s w_su <= 1.  Adding or removing a user therefore moves the
sum by at most B, whatever its records are.  It is released once, over all users and silos.  The sum
is divided by |U| or, where weights need not sum to 1 (`uniform`), by the noisy sum of the weights,
which is released in the same vector.

An observer of the model sees the moments too: without them the model cannot be used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.arrays import FloatArray, IntArray
from ...accountant.mechanisms import Gate, Gaussian, RoundDescription
from ...accountant.plan import PlannedPhase
from ...accountant.records import Reach
from ..aggregation.clip_check import ClipCheck, norms_of
from ..aggregation.residuals import Residuals
from ..aggregation.sums import Aggregator, PlainAggregator, noisy_sum
from ..aggregation.user_weights import WEIGHTINGS, checked_weights, user_weights
from ..aggregation.weighted_sum import weighted_sum, weighted_views
from ..data import normalise
from ..data.federation import Federation
from ..data.moments import Moments
from ..observers.reaches import Route, reaches_of
from ..settings.schema import SecuritySettings
from .phases import Phase, PhaseOutcome, SaveArrays, SingleRelease
from .state import Arrays, State

NORMALISE: Final = "normalise"
"""The name of the phase."""

MOMENTS_ROUND: Final = 0
"""The number of its one round, before the first round of training."""

MOMENTS_DESCRIPTION: Final = "the moments that features are normalised by"


@dataclass(frozen=True, eq=False)
class MomentsRelease:
    """One noisy sum of the users' moments; nothing is drawn before `release`.

    - `noise_multiplier`: sigma above; `rule`: how users are weighted, `uniform` or `records`.
    - `federation`: the records with raw features; `lower`, `upper`: the public range of each
      feature, or of all.
    - `aggregator`: adds up what silos send, by the protocol that `security` configures.
    - `coalitions`: sizes of coalitions of the server with silos that get an event of their own,
      besides `security.colluders`.

    Raises `InvalidInput` for noise that is not above 0, and for another rule.
    """

    noise_multiplier: float
    rule: str
    neighbours: str
    federation: Federation
    lower: ArrayLike
    upper: ArrayLike
    aggregator: Aggregator = field(default_factory=PlainAggregator)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    coalitions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        validate.positive(normalisation_noise=self.noise_multiplier)
        validate.choice(WEIGHTINGS, weighting=self.rule)

    @property
    def counted(self) -> bool:
        """Whether the sum of all weights is released too, where it is no public constant."""
        return self.rule == "uniform" and self.federation.silos > 1

    @cached_property
    def mechanism(self) -> Gaussian:
        """The noise of the one sum."""
        federation = self.federation
        bound = normalise.contribution_bound(self._width, counted=self.counted)
        return weighted_sum(
            self.noise_multiplier,
            bound=bound,
            users=federation.users,
            silos=federation.silos,
            rule=self.rule,
            tolerated_dropouts=self.security.dropouts,
        )

    @cached_property
    def views(self) -> Mapping[str, ev.Event]:
        """Its event for each observer."""
        return weighted_views(
            self.noise_multiplier,
            silos=self.federation.silos,
            rule=self.rule,
            neighbours=self.neighbours,
            aggregation=self.security.aggregation,
            tolerated_dropouts=self.security.dropouts,
            coalitions=tuple(sorted({*self.coalitions, self.security.colluders} - {0})),
            colluders=self.security.colluders,
        )

    @property
    def reaches(self) -> Mapping[str, Reach]:
        """Which of its messages reach each observer, by the aggregation; nobody is sampled."""
        route = Route(
            self.security.aggregation,
            self.federation.silos,
            self.aggregator.security,
            self.mechanism.noise().tolerated_dropouts,
        )
        return reaches_of(self.views, route)

    def restate(self, views: Mapping[str, ev.Event]) -> None:
        """Take over the events that a log announced, on resume; the noise is the same."""
        self.__dict__["views"] = dict(views)

    @property
    def phase(self) -> PlannedPhase:
        """The phase in a plan: one round, with noise that is given."""
        return PlannedPhase(NORMALISE, self.noise_multiplier, self.views["model"], 1, self.views)

    def as_phase(self, use: Callable[[Federation], None]) -> Phase:
        """Return the phase of a system; `use` is called with the normalised federation."""

        def release(gate: Gate, keep: SaveArrays) -> Arrays:
            return self.release(gate, lambda moments: keep(moments.to_arrays())).to_arrays()

        def digest(arrays: Arrays) -> str:
            return _moments_in(arrays).digest

        def follow(arrays: Arrays) -> PhaseOutcome:
            moments = self.moments(_moments_in(arrays).released)
            federation = moments.applied(self.federation)
            use(federation)
            return PhaseOutcome(moments.to_arrays(), federation)

        return Phase(
            self.phase,
            MOMENTS_ROUND,
            once=SingleRelease(MOMENTS_DESCRIPTION, self.state, release, digest, follow),
        )

    @property
    def state(self) -> State:
        """The arrays that it adds to the state: the release; range, mean and scale by feature."""
        features = (self._width,)
        return State(
            normalisation_released=(2 * self._width + self.counted,),
            normalisation_lower=features,
            normalisation_upper=features,
            normalisation_mean=features,
            normalisation_scale=features,
        )

    def release(self, gate: Gate, keep: Callable[[Moments], None]) -> Moments:
        """Make the one intent and the one release; return the moments.

        `keep` is called with the moments before the release is logged, as they cannot be drawn
        again; what it keeps counts only once the log has the release.  Raises what `keep` raises.
        """
        mechanism = self.mechanism
        others = {observer: event for observer, event in self.views.items() if observer != "model"}
        about = RoundDescription(
            MOMENTS_ROUND,
            NORMALISE,
            views=others,
            event_override=self.views["model"],
            reaches=self.reaches,
        )
        # All that the log states before the draw: bound, noise, weights and who sees what.
        intent = mechanism.intent(about, self.neighbours)
        width = 2 * self._width + self.counted
        again = ClipCheck(intent, mechanism, self.federation.silos, width)
        totals = self.totals(again)  # before the intent, so that a crash here spends nothing
        with gate.open(intent) as ticket:
            monitor = Residuals().monitor(intent.noise)
            arrived = noisy_sum(
                self.aggregator, MOMENTS_ROUND, mechanism, ticket, totals, NORMALISE, monitor
            )
            moments = self.moments(mechanism.units(arrived.total))
            keep(moments)
            ticket.close(
                aggregate=moments.content,
                sealed={**monitor.items(), **again.items(totals)},
                values=moments.released.size,
                shares=len(arrived.silos),
            )
        return moments

    def totals(self, again: ClipCheck | None = None) -> list[IntArray]:
        """Return each silo's sum without noise, integers on the mechanism's grid; private.

        `again` is given every row with its weight, and recomputes the sums for the sealed sidecar.
        """
        federation, by_silo = self.federation, self.federation.by_silo()
        weights = checked_weights(user_weights(self.rule, federation.counts))
        totals = []
        for silo in range(federation.silos):
            records = by_silo.records(silo)
            rows = normalise.bounded_moments_contributions(
                federation.features[records],
                federation.user[records],
                users=federation.users,
                lower=self.lower,
                upper=self.upper,
                counted=self.counted,
            ).rows
            present = np.flatnonzero(weights[:, silo] > 0.0)
            # Only users with a weight here are in the sum; without records it is 0.
            user_rows, user_weight = rows[present], weights[present, silo]
            if again is not None:
                silos = np.full(len(present), silo)
                again.add(user_rows, silos, norms_of(user_rows), user_weight, present)
            totals.append(self.mechanism.total(user_rows, user_weight))
        return totals

    def moments(self, released: FloatArray) -> Moments:
        """Return the moments that the noisy sum gives: post-processing, the same in every call.

        Raises `InvalidInput` for a vector of another length.
        """
        federation = self.federation
        # A function of the released vector and public constants alone, so it costs nothing.
        lower, upper = self._by_feature(self.lower), self._by_feature(self.upper)
        mean, scale = normalise.moments_from_sum(
            released,
            users=federation.users,
            lower=lower,
            upper=upper,
            deviation=self.mechanism.std,
            fewest=federation.users / federation.silos if self.counted else None,
        )
        return Moments(np.asarray(released, np.float64), lower, upper, mean, scale)

    @property
    def _width(self) -> int:
        return math.prod(self.federation.features.shape[1:])

    def _by_feature(self, values: ArrayLike) -> FloatArray:
        """Return one value for each feature: (d,)."""
        record = self.federation.features.shape[1:]
        return np.broadcast_to(np.asarray(values, np.float64), record).reshape(-1).copy()


def _moments_in(arrays: Arrays) -> Moments:
    moments = Moments.from_arrays(arrays)
    assert moments is not None  # the names were checked
    return moments
