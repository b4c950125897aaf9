"""ULDP-AVG and ULDP-SGD: every user's update is clipped in every silo, weighted, summed, noised.

    silo s:  D_s = sum_u w_su clip_C(d_su) + N(0, sigma^2 C^2 / |S|)
    server:  x + eta_g / (q |U| |S|) sum_s D_s

where d_su is how local training on user u's records in silo s moves the model (AVG), or the
negative of their mean gradient (SGD), and sum_s w_su <= 1, so that a user moves the sum by C.
A user joins a round with probability q, by one draw for all silos.  The lists of users and of
silos and the rate are public constants, as the accounting assumes: the sum is divided by them.

Source: Kato, Xiong, Takagi, Cao and Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, Algorithms 3
(AVG, SGD, weights by records) and 4 (sampled users).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...accountant import events as ev
from ...accountant import records
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import About, Gate, Gaussian, Ticket
from ...accountant.mechanisms.clip import Sparse
from ...accountant.randomness import poisson
from ..aggregation import noisy_sum
from ..crypto import packages
from ..federation import Federation, Indices
from ..local import Local, Part, Rows
from ..promise import PHASE
from ..recomputed import Recomputed
from ..residuals import Residuals
from ..setup import Promised, Setup, setup, users_only
from ..system import Parameters, Round, digest
from .facts import about_norms, norms_of
from .sums import weighted_sum, weighted_views
from .weights import checked_weights, user_weights

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..settings import Settings

Updates: TypeAlias = Callable[[Parameters, Sequence[Indices], int], Iterator[Part]]
"""From a model, users of each silo and a round, to one update for each user in each silo."""

Drawer: TypeAlias = Literal["server", "oblivious-transfer"]

SAMPLING: Final = "sampling/users"
"""The stream that draws who joins."""


@dataclass(frozen=True, eq=False)
class Summed:
    """The noisy sum of one round: `total` (D,) in units, and how many silos' noise is in it.

    `norms` are those of the updates before they were clipped, by silo, and `sealed` what else may
    only be sealed.
    """

    total: NDArray[np.float64]
    shares: int
    norms: Sequence[NDArray[np.float64]]
    sealed: Mapping[str, object]


class Weighting(Promised):
    """What ULDP-AVG (`step` is `average`) and ULDP-SGD (`gradient`) do, whoever knows the weights.

    Raises `InvalidInput` for a unit or a relation that they do not protect.
    """

    def __init__(self, setup: Setup, *, step: str) -> None:
        super().__init__(setup)
        users_only(setup)
        if setup.aggregation == "private-weighting" and setup.normalising is not None:
            raise InvalidInput(
                f"{setup.name} under private weighting does not normalise by private moments.",
                "The moments would be summed under weights in the clear, which tell the counts.",
                "Give normalisation = 'public', or aggregation = 'masked'.",
            )
        if setup.aggregation == "private-weighting" and setup.training.weighting != "records":
            raise InvalidInput(
                "Private weighting hides weights by records; uniform weights are public.",
                next_step="Give weighting = 'records', or aggregation = 'masked'.",
            )
        self.updates = _UPDATES[step](setup)
        self.residuals = Residuals()

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return one round as who sees the model, the server, and one of the silos see it."""
        own = self.setup
        return weighted_views(
            noise_multiplier,
            silos=own.silos,
            rule=own.training.weighting,
            neighbours=own.privacy.neighbours,
            rate=self.rate,
            aggregation=own.aggregation,
            drawn_by=self.drawn_by,
            tolerated_dropouts=own.security.dropouts,
            coalitions=own.coalitions,
        )

    def round(self, number: int, parameters: Parameters, gate: Gate) -> Round:
        """Make one round: sample the users, sum what each silo sends, divide by constants."""
        own = self.setup
        mechanism = self.mechanism(self.promise.noise_multiplier)
        intent = mechanism.intent(self._about(number, parameters), own.privacy.neighbours)
        with gate.open(intent) as ticket:
            found = self.summed(ticket, number, parameters)
            constant = self.rate * own.users * own.silos
            moved = parameters + own.training.global_rate / constant * found.total
            released = ticket.close(
                normaliser=records.Normaliser("constant", constant),
                aggregate=found.total.tobytes(),
                model_out=digest(moved),
                sealed={**found.sealed, **about_norms(found.norms, own.training.clip)},
                values=found.total.size,
                shares=found.shares,
            )
        return Round(moved, released)

    def summing(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round: sigma C on the sum over all silos, in |S| shares."""
        own = self.setup
        return weighted_sum(
            noise_multiplier,
            bound=own.training.clip,
            users=own.users,
            silos=own.silos,
            rule=own.training.weighting,
            tolerated_dropouts=own.security.dropouts,
        )

    def summed(self, ticket: Ticket, number: int, parameters: Parameters) -> Summed:
        """Return the noisy sum of one round."""
        raise NotImplementedError

    @property
    def rate(self) -> float:
        """The probability with which a user joins a round."""
        return self.setup.privacy.sampling_rate

    @property
    def drawn_by(self) -> Drawer:
        """Who draws the sample of users, where there is one."""
        return "server"

    def joining(self, ticket: Ticket) -> NDArray[np.bool_]:
        """Return which users join, in all silos alike: (users,)."""
        if self.rate == 1.0:
            return np.ones(self.setup.users, bool)
        return poisson(ticket.stream(SAMPLING), self.setup.users, self.rate)

    def _about(self, number: int, parameters: Parameters) -> About:
        sampling = records.Sampling()
        if self.rate < 1.0:
            sampling = records.Sampling("poisson", "user", self.rate, self.drawn_by)
        return About(
            number,
            PHASE,
            sampling,
            self.promise.views,
            digest(parameters),
            self.promise.event,
        )


class Weighted(Weighting):
    """ULDP-AVG or ULDP-SGD with weights that are known; see the module.

    `setup.training.weighting` is the rule of the weights: `uniform` or `records`.
    """

    def __init__(self, setup: Setup, *, step: str) -> None:
        super().__init__(setup, step=step)
        rule = setup.training.weighting
        self.weights = checked_weights(user_weights(rule, setup.federation.counts))
        self._present = [np.flatnonzero(column > 0.0) for column in self.weights.T]

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round, on the grid on which updates are summed."""
        return self.summing(noise_multiplier)

    def summed(self, ticket: Ticket, number: int, parameters: Parameters) -> Summed:
        """Return the noisy sum of one round, as the aggregator adds it up."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        joining = self.joining(ticket)
        again = Recomputed(ticket.intent, mechanism, self.setup.silos, parameters.size)
        totals, norms = self._totals(joining, parameters, number, mechanism, again)
        watch = self.residuals.watch(ticket.intent.noise)
        arrived = noisy_sum(self.aggregator, number, mechanism, ticket, list(totals), watch=watch)
        return Summed(
            mechanism.units(arrived.total),
            len(arrived.silos),
            norms,
            {"joined": int(joining.sum()), **watch.items(), **again.items(totals)},
        )

    def _totals(
        self,
        joining: NDArray[np.bool_],
        parameters: Parameters,
        number: int,
        mechanism: Gaussian,
        again: Recomputed,
    ) -> tuple[NDArray[np.int64], list[NDArray[np.float64]]]:
        """Return each silo's sum of updates, clipped and weighted, and the updates' norms."""
        users = [own[joining[own]] for own in self._present]
        totals = np.zeros((self.setup.silos, parameters.size), np.int64)
        norms, silos = [np.empty(0)], [np.empty(0, np.int64)]
        for part in self.updates(parameters, users, number):
            weights = self.weights[part.user, part.silo]
            totals += mechanism.totals(part.rows, part.silo, self.setup.silos, weights)
            norms.append(norms_of(part.rows))
            again.add(part.rows, part.silo, norms[-1], weights, part.user)
            silos.append(part.silo)
        size, silo = np.concatenate(norms), np.concatenate(silos)
        return totals, [size[silo == one] for one in range(self.setup.silos)]


def average(
    settings: Settings, federation: Federation, local: Local, streams: Streams
) -> Weighting:
    """Return ULDP-AVG."""
    return _made(settings, federation, local, streams, "average")


def gradient(
    settings: Settings, federation: Federation, local: Local, streams: Streams
) -> Weighting:
    """Return ULDP-SGD."""
    return _made(settings, federation, local, streams, "gradient")


def _made(
    settings: Settings, federation: Federation, local: Local, streams: Streams, step: str
) -> Weighting:
    own = setup(settings, federation, local)
    if own.aggregation != "private-weighting":
        return Weighted(own, step=step)
    packages.require(packages.WEIGHTING)
    if settings.as_published:
        from .published import Published

        return Published(own, step=step)
    from .hidden import Hidden  # brings cryptography with it

    return Hidden(own, step=step, streams=streams)


def _trained(own: Setup) -> Updates:
    return own.local.user_deltas


def _descended(own: Setup) -> Updates:
    def updates(parameters: Parameters, users: Sequence[Indices], number: int) -> Iterator[Part]:
        for part in own.local.user_gradients(parameters, users, number):
            yield replace(part, rows=_turned(part.rows))

    return updates


def _turned(rows: Rows | Sparse) -> Rows | Sparse:
    if isinstance(rows, Sparse):
        return replace(rows, values=-rows.values)
    return -rows


_UPDATES: Final[Mapping[str, Callable[[Setup], Updates]]] = {
    "average": _trained,
    "gradient": _descended,
}
