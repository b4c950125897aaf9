"""ULDP-AVG and ULDP-SGD, made from settings; and the systems whose weights are known.

    silo s:  D_s = sum_u w_su clip_C(d_su) + N(0, sigma^2 C^2 / |S|)

A silo knows the weights of its users; whether the server could compute them is decided by the
aggregation.  Formulas and hooks stand in `averaging`, hidden weights in `hidden_weights`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ...accountant.mechanisms import Gaussian, Ticket
from ..aggregation.clip_check import Recomputed
from ..aggregation.sums import noisy_sum
from ..aggregation.term_norms import norms_of
from ..aggregation.user_weights import checked_weights, user_weights
from ..crypto import dependencies
from ..data.federation import Federation
from ..frame.model import Parameters
from ..frame.setup import Setup, setup
from ..frame.state import State
from ..training.local_training import LocalTraining
from .averaging import RoundSum, UldpAvg

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..settings.schema import Settings

T = TypeVar("T", bound="UldpAvg")


class UldpAvgKnownWeights(UldpAvg):
    """ULDP-AVG or ULDP-SGD with weights that are known; see the module.

    `setup.training.weighting` is the rule of the weights: `uniform` or `records`.
    """

    state = State()

    def __init__(self, setup: Setup, *, step: str) -> None:
        super().__init__(setup, step=step)
        rule = setup.training.weighting
        self.weights = checked_weights(user_weights(rule, setup.federation.counts))
        self._present = [np.flatnonzero(column > 0.0) for column in self.weights.T]

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round, on the grid on which updates are summed."""
        return self.summing(noise_multiplier)

    def summed(self, ticket: Ticket, number: int, parameters: Parameters) -> RoundSum:
        """Return the noisy sum of one round, as the aggregator adds it up."""
        mechanism = self.mechanism(self.promise.noise_multiplier)
        joining = self.joining(ticket)
        again = Recomputed(ticket.intent, mechanism, self.setup.silos, parameters.size)
        totals, norms = self._totals(joining, parameters, number, mechanism, again)
        watch = self.residuals.watch(ticket.intent.noise)
        arrived = noisy_sum(self.aggregator, number, mechanism, ticket, list(totals), watch=watch)
        return RoundSum(
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
    settings: Settings, federation: Federation, local: LocalTraining, streams: Streams
) -> UldpAvg:
    """Return ULDP-AVG."""
    return hooked(UldpAvg, settings, federation, local, streams)


def gradient(
    settings: Settings, federation: Federation, local: LocalTraining, streams: Streams
) -> UldpAvg:
    """Return ULDP-SGD."""
    return hooked(UldpAvg, settings, federation, local, streams, "gradient")


def hooked(
    hooks: type[UldpAvg],
    settings: Settings,
    federation: Federation,
    local: LocalTraining,
    streams: Streams,
    step: str = "average",
) -> UldpAvg:
    """Return ULDP-AVG (`step` is `average`) or ULDP-SGD (`gradient`) with the hooks of a class.

    `hooks` derives from `UldpAvg`, overrides hooks of it and states its `state`; how updates are
    summed is added to it, as the settings say.
    """
    known = setup(settings, federation, local)
    if known.aggregation != "private-weighting":
        return _joined(hooks, UldpAvgKnownWeights)(known, step=step)
    dependencies.require(dependencies.WEIGHTING)
    if settings.as_published:
        from .published_weights import UldpAvgAsPublished

        return _joined(hooks, UldpAvgAsPublished)(known, step=step)
    from .hidden_weights import UldpAvgHiddenWeights  # brings cryptography with it

    return _joined(hooks, UldpAvgHiddenWeights)(known, step=step, streams=streams)


def _joined(hooks: type[UldpAvg], summing: type[T]) -> type[T]:
    """Return the class that has both, and states what the hooks state, if they do."""
    if hooks is UldpAvg:
        return summing
    stated = {"state": vars(hooks)["state"]} if "state" in vars(hooks) else {}
    return cast("type[T]", type(hooks.__name__, (hooks, summing), stated))
