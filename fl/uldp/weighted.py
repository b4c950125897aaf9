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

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...accountant import events as ev
from ...accountant import records
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import About, Gate, Gaussian, Ticket
from ...accountant.randomness import poisson
from ...accountant.sensitivity import uldp
from ...accountant.sensitivity.release import up
from ..federation import Federation, Indices
from ..local import Parts, Rows, TorchLocal
from ..promise import PHASE
from ..setup import Promised, Setup, setup, users_only
from ..system import Parameters, Round, digest
from .facts import about_norms
from .weights import checked_weights, stated, user_weights

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..models import Model
    from ..settings import Settings

Updates: TypeAlias = Callable[[Parameters, int, Indices, int], Parts]
"""From a model, a silo, users of it and a round, to one update for each user."""

SAMPLING: Final = "sampling/users"
"""The stream that draws who joins."""

_ROOM: Final = 2**61
"""Largest sum of a silo, in steps of the grid; noise has as much room again in 64 bits."""


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
        self.stated = stated(rule)
        self._updates = _UPDATES[step](setup)
        self._present = [np.flatnonzero(column > 0.0) for column in self.weights.T]

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round: sigma C on the sum over all silos, in |S| shares."""
        clip = self.setup.training.clip
        made = Gaussian(
            bound=clip,
            std=up(Fraction(noise_multiplier) * Fraction(clip)),
            shares=self.setup.silos,
            terms="unit",
            weights=self.stated,
            unit="user",
        )
        if self.setup.users * Fraction(clip) / Fraction(made.grid) > _ROOM:
            raise InvalidInput(
                "The clip is too many steps of the noise's grid for so many users.",
                "A sum that overflows would wrap around, and no noise covers that.",
                "Give more noise.",
            )
        return made

    def views(self, noise_multiplier: float) -> Mapping[str, ev.Event]:
        """Return one round as who sees the model, the server, and one of the silos see it.

        The server draws the sample and sees every silo's update, and a silo trains on those who
        were drawn: for both, nobody hides in the sample.
        """
        own, silos = self.setup.privacy, self.setup.silos
        worst = uldp.worst_weights(silos)
        split = worst
        if self.stated.rule == "uniform":
            split = np.full((1, silos), up(Fraction(1, silos)))

        def seen(weights: Rows, *, separately: bool) -> ev.Event:
            return uldp.weighted_release(
                noise_multiplier,
                rounds=1,
                weights=weights,
                neighbours=own.neighbours,
                rate=own.sampling_rate,
                together=not separately,
                knows_sample=separately,
            ).event

        views = {
            "model": seen(worst, separately=False),
            "server": seen(split, separately=True),
        }
        if silos > 1:
            views["silo"] = uldp.insider_release(
                noise_multiplier,
                rounds=1,
                silos=silos,
                weighting=self.stated.rule,
                neighbours=own.neighbours,
            ).event
        return views

    def round(self, number: int, parameters: Parameters, gate: Gate) -> Round:
        """Make one round: sample the users, sum what each silo sends, divide by constants."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        intent = mechanism.intent(self._about(number, parameters), self.setup.privacy.neighbours)
        with gate.open(intent) as ticket:
            joining = self._joining(ticket)
            totals, norms = [], []
            for silo in self._silos:
                own = self._present[silo]
                found = self._total(silo, own[joining[own]], parameters, number, mechanism)
                totals.append(found[0])
                norms.append(found[1])
            names = [f"noise/silo-{silo}" for silo in self._silos]
            total = np.sum(mechanism.noisy(ticket, totals, names), axis=0)
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

    def _total(
        self, silo: int, users: Indices, parameters: Parameters, number: int, mechanism: Gaussian
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the sum of these users' updates, clipped and weighted, and the updates' norms."""
        total, norms = np.zeros(parameters.size, np.int64), [np.empty(0)]
        for places, rows in self._updates(parameters, silo, users, number):
            total += mechanism.total(rows, self.weights[users[places], silo])
            norms.append(np.linalg.norm(rows, axis=1))
        return total, np.concatenate(norms)


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
    def updates(parameters: Parameters, silo: int, users: Indices, number: int) -> Parts:
        for places, rows in own.local.user_gradients(parameters, silo, users, number):
            yield places, -rows

    return updates


_UPDATES: Final[Mapping[str, Callable[[Setup], Updates]]] = {
    "average": _trained,
    "gradient": _descended,
}
