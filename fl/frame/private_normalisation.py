"""The phase in which moments of the features are released, before anything is trained on them.

    silo s sends   sum_u w_su row_su + N(0, sigma^2 B^2 / |S|)

where row_su holds the first and second moments of user u's records in silo s, scaled from their
public range, of L2 norm at most B (`datasets.normalise.bounded_moments_contributions`), and w_su
is the weight that the user has there in training, sum_s w_su <= 1.  So a user who goes moves the
sum by B, whatever its records are; all silos take part, all users are in it, and it is released
once.  The sum is divided by |U|, or, where weights need not sum to 1 (`uniform`), by their sum,
which is a value of the same noisy vector.

Whoever sees a model sees the moments too: without them the model cannot be used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.mechanisms import About, Gate, Gaussian
from ...accountant.plan import PlannedPhase
from ...accountant.records import Reach
from ..aggregation.clip_check import Recomputed
from ..aggregation.residuals import Residuals
from ..aggregation.sums import Aggregator, Plain, noisy_sum
from ..aggregation.term_norms import norms_of
from ..aggregation.user_weights import RULES, checked_weights, user_weights
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
"""Its one round, before the first round of training."""

MOMENTS_DESCRIPTION: Final = "the moments that features are normalised by"


@dataclass(frozen=True, eq=False)
class MomentsRelease:
    """One noisy sum of users' moments; nothing is drawn until `release`.

    `federation` has features as they are read, `lower` and `upper` are their public range, for each
    feature or for all.  `rule` is that of the weights, `noise_multiplier` sigma above, and
    `aggregator` adds up what silos send, as `security` says, and `coalitions` are those of the
    server with silos for which there is a view beside that of `security`.  Raises `InvalidInput`
    for noise that is not above 0 and another rule.
    """

    noise_multiplier: float
    rule: str
    neighbours: str
    federation: Federation
    lower: ArrayLike
    upper: ArrayLike
    aggregator: Aggregator = field(default_factory=Plain)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    coalitions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        validate.positive(normalisation_noise=self.noise_multiplier)
        validate.choice(RULES, weighting=self.rule)

    @property
    def counted(self) -> bool:
        """Whether the sum of all weights is released too, as it is no public constant."""
        return self.rule == "uniform" and self.federation.silos > 1

    @cached_property
    def mechanism(self) -> Gaussian:
        """The noise of the one sum."""
        own = self.federation
        bound = normalise.contribution_bound(self._width, counted=self.counted)
        return weighted_sum(
            self.noise_multiplier,
            bound=bound,
            users=own.users,
            silos=own.silos,
            rule=self.rule,
            tolerated_dropouts=self.security.dropouts,
        )

    @cached_property
    def views(self) -> Mapping[str, ev.Event]:
        """What each observer sees of it."""
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
        """What of it reaches each observer, as the frame's table has it; nobody is drawn."""
        route = Route(
            self.security.aggregation,
            self.federation.silos,
            self.aggregator.security,
            self.mechanism.noise().tolerated_dropouts,
        )
        return reaches_of(self.views, route)

    def restate(self, views: Mapping[str, ev.Event]) -> None:
        """State from now on what a log announced; what is drawn is the same."""
        self.__dict__["views"] = dict(views)

    @property
    def phase(self) -> PlannedPhase:
        """The phase as it stands in a plan: one round, its noise given."""
        return PlannedPhase(NORMALISE, self.noise_multiplier, self.views["model"], 1, self.views)

    def as_phase(self, use: Callable[[Federation], None]) -> Phase:
        """Return the phase as a system lists it; `use` is given the federation, normalised."""

        def release(gate: Gate, keep: SaveArrays) -> Arrays:
            return self.release(gate, lambda moments: keep(moments.to_arrays())).to_arrays()

        def digest(arrays: Arrays) -> str:
            return _known(arrays).digest

        def follow(arrays: Arrays) -> PhaseOutcome:
            moments = self.moments(_known(arrays).released)
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
        """The arrays that stay: what was released, and what follows from it for each feature."""
        features = (self._width,)
        return State(
            normalisation_released=(2 * self._width + self.counted,),
            normalisation_lower=features,
            normalisation_upper=features,
            normalisation_mean=features,
            normalisation_scale=features,
        )

    def release(self, gate: Gate, keep: Callable[[Moments], None]) -> Moments:
        """Release the moments: one intent and one release, or an error and nothing to go on with.

        `keep` is called before the release stands in the log, with what cannot be made again; it
        is worth nothing to a run whose log does not have the release.  Raises what it raises.
        """
        mechanism = self.mechanism
        others = {who: event for who, event in self.views.items() if who != "model"}
        about = About(
            MOMENTS_ROUND,
            NORMALISE,
            views=others,
            event_override=self.views["model"],
            reaches=self.reaches,
        )
        intent = mechanism.intent(about, self.neighbours)
        width = 2 * self._width + self.counted
        again = Recomputed(intent, mechanism, self.federation.silos, width)
        totals = self.totals(again)  # before the intent: a run that is cut off here spends nothing
        with gate.open(intent) as ticket:
            watch = Residuals().watch(intent.noise)
            arrived = noisy_sum(
                self.aggregator, MOMENTS_ROUND, mechanism, ticket, totals, NORMALISE, watch
            )
            made = self.moments(mechanism.units(arrived.total))
            keep(made)
            ticket.close(
                aggregate=made.content,
                sealed={**watch.items(), **again.items(totals)},
                values=made.released.size,
                shares=len(arrived.silos),
            )
        return made

    def totals(self, again: Recomputed | None = None) -> list[NDArray[np.int64]]:
        """Return the sum of each silo on the grid, without noise: private.

        `again` is shown every row, and its weight.
        """
        own, groups = self.federation, self.federation.by_silo()
        weights = checked_weights(user_weights(self.rule, own.counts))
        found = []
        for silo in range(own.silos):
            held = groups.records(silo)
            rows = normalise.bounded_moments_contributions(
                own.features[held],
                own.user[held],
                users=own.users,
                lower=self.lower,
                upper=self.upper,
                counted=self.counted,
            ).rows
            present = np.flatnonzero(weights[:, silo] > 0.0)
            chosen, heavy = rows[present], weights[present, silo]
            if again is not None:
                where = np.full(len(present), silo)
                again.add(chosen, where, norms_of(chosen), heavy, present)
            found.append(self.mechanism.total(chosen, heavy))
        return found

    def moments(self, released: NDArray[np.float64]) -> Moments:
        """Return what follows from the noisy sum; a post-processing, the same whenever it is made.

        Raises `InvalidInput` for a vector of another length.
        """
        own = self.federation
        lower, upper = (self._each(one) for one in (self.lower, self.upper))
        mean, scale = normalise.moments_from_sum(
            released,
            users=own.users,
            lower=lower,
            upper=upper,
            deviation=self.mechanism.std,
            fewest=own.users / own.silos if self.counted else None,
        )
        return Moments(np.asarray(released, np.float64), lower, upper, mean, scale)

    @property
    def _width(self) -> int:
        return math.prod(self.federation.features.shape[1:])

    def _each(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return one value for each feature: (d,)."""
        record = self.federation.features.shape[1:]
        return np.broadcast_to(np.asarray(values, np.float64), record).reshape(-1).copy()


def _known(arrays: Arrays) -> Moments:
    moments = Moments.from_arrays(arrays)
    assert moments is not None  # the names were checked
    return moments
