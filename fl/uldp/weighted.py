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
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...accountant import events as ev
from ...accountant import records
from ...accountant.mechanisms import About, Gate, Gaussian, Ticket
from ...accountant.randomness import poisson
from ..federation import Federation, Indices
from ..local import Part, TorchLocal
from ..promise import PHASE
from ..setup import Promised, Setup, setup, users_only
from ..system import Parameters, Round, digest
from .facts import about_norms, norms_of
from .sums import weighted_sum, weighted_views
from .weights import checked_weights, user_weights

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..models import Model
    from ..settings import Settings

Updates: TypeAlias = Callable[[Parameters, Sequence[Indices], int], Iterator[Part]]
"""From a model, users of each silo and a round, to one update for each user in each silo."""

SAMPLING: Final = "sampling/users"
"""The stream that draws who joins."""


class Weighted(Promised):
    """ULDP-AVG (`step` is `average`) or ULDP-SGD (`gradient`); see the module.

    `setup.training.weighting` is the rule of the weights: `uniform` or `records`.  Raises
    `InvalidInput` for a unit or a relation that it does not protect.
    """

    def __init__(self, setup: Setup, *, step: str) -> None:
        super().__init__(setup)
        users_only(setup)
        rule = setup.training.weighting
        self.weights = checked_weights(user_weights(rule, setup.federation.counts))
        self._updates = _UPDATES[step](setup)
        self._present = [np.flatnonzero(column > 0.0) for column in self.weights.T]

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round: sigma C on the sum over all silos, in |S| shares."""
        own = self.setup
        return weighted_sum(
            noise_multiplier,
            bound=own.training.clip,
            users=own.users,
            silos=own.silos,
            rule=own.training.weighting,
        )

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return one round as who sees the model, the server, and one of the silos see it.

        The server draws the sample and sees every silo's update, and a silo trains on those who
        were drawn: for both, nobody hides in the sample.
        """
        own = self.setup
        return weighted_views(
            noise_multiplier,
            silos=own.silos,
            rule=own.training.weighting,
            neighbours=own.privacy.neighbours,
            rate=own.privacy.sampling_rate,
        )

    def round(self, number: int, parameters: Parameters, gate: Gate) -> Round:
        """Make one round: sample the users, sum what each silo sends, divide by constants."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        intent = mechanism.intent(self._about(number, parameters), self.setup.privacy.neighbours)
        with gate.open(intent) as ticket:
            joining = self._joining(ticket)
            totals, norms = self._totals(joining, parameters, number, mechanism)
            names = [f"noise/silo-{silo}" for silo in self._silos]
            total = np.sum(mechanism.noisy(ticket, list(totals), names), axis=0)
            constant = self.setup.privacy.sampling_rate * self.setup.users * self.setup.silos
            moved = parameters + self.setup.training.global_rate / constant * total
            released = ticket.close(
                normaliser=records.Normaliser("constant", constant),
                aggregate=total.tobytes(),
                model_out=digest(moved),
                sealed={"joined": int(joining.sum()), **about_norms(norms, mechanism.bound)},
                values=total.size,
            )
        return Round(moved, released)

    @property
    def _silos(self) -> range:
        return range(self.setup.silos)

    def _about(self, number: int, parameters: Parameters) -> About:
        rate = self.setup.privacy.sampling_rate
        sampling = records.Sampling()
        if rate < 1.0:
            sampling = records.Sampling("poisson", "user", rate, "server")
        return About(
            number,
            PHASE,
            sampling,
            self.promise.views,
            digest(parameters),
            self.promise.event,
        )

    def _joining(self, ticket: Ticket) -> NDArray[np.bool_]:
        """Return which users join, in all silos alike: (users,)."""
        rate = self.setup.privacy.sampling_rate
        if rate == 1.0:
            return np.ones(self.setup.users, bool)
        return poisson(ticket.stream(SAMPLING), self.setup.users, rate)

    def _totals(
        self, joining: NDArray[np.bool_], parameters: Parameters, number: int, mechanism: Gaussian
    ) -> tuple[NDArray[np.int64], list[NDArray[np.float64]]]:
        """Return each silo's sum of updates, clipped and weighted, and the updates' norms."""
        users = [own[joining[own]] for own in self._present]
        totals = np.zeros((self.setup.silos, parameters.size), np.int64)
        norms, silos = [np.empty(0)], [np.empty(0, np.int64)]
        for part in self._updates(parameters, users, number):
            weights = self.weights[part.user, part.silo]
            totals += mechanism.totals(part.rows, part.silo, self.setup.silos, weights)
            norms.append(norms_of(part.rows))
            silos.append(part.silo)
        size, silo = np.concatenate(norms), np.concatenate(silos)
        return totals, [size[silo == one] for one in self._silos]


def average(settings: Settings, federation: Federation, model: Model, _: Streams) -> Weighted:
    """Return ULDP-AVG."""
    return Weighted(_setup(settings, federation, model), step="average")


def gradient(settings: Settings, federation: Federation, model: Model, _: Streams) -> Weighted:
    """Return ULDP-SGD."""
    return Weighted(_setup(settings, federation, model), step="gradient")


def _setup(settings: Settings, federation: Federation, model: Model) -> Setup:
    return setup(settings, federation, TorchLocal(settings, federation, model))


def _trained(own: Setup) -> Updates:
    return own.local.user_deltas


def _descended(own: Setup) -> Updates:
    def updates(parameters: Parameters, users: Sequence[Indices], number: int) -> Iterator[Part]:
        for part in own.local.user_gradients(parameters, users, number):
            yield replace(part, rows=-part.rows)

    return updates


_UPDATES: Final[Mapping[str, Callable[[Setup], Updates]]] = {
    "average": _trained,
    "gradient": _descended,
}
