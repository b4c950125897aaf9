"""ULDP-AVG and ULDP-SGD whose weights are known, and the functions that build either system.

    silo s:  D_s = sum_u w_su clip_C(d_su) + N(0, sigma^2 C^2 / |S|)

Each silo knows the weights of its users.  What the server sees is decided by the aggregation:
every D_s (`plain`) or only their sum (`masked`, `shares`).  The algorithm is in `averaging`; the
same under weights that nobody knows is in `hidden_weights`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import Gaussian, Ticket
from ...accountant.mechanisms.banded_gaussian import COEFFICIENT_BITS
from ..aggregation.choice import WEIGHTING, require_packages
from ..aggregation.clip_check import ClipCheck, norms_of
from ..aggregation.sums import noisy_sum
from ..aggregation.user_weights import checked_weights, user_weights
from ..data.federation import Federation
from ..frame.model import Parameters
from ..frame.setup import Setup, setup
from ..frame.state import State
from ..training.local_training import LocalTraining
from .averaging import RoundSum, UldpAvg
from .correlated import Schedule

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..settings.schema import Settings

SystemClass = TypeVar("SystemClass", bound="UldpAvg")


class UldpAvgKnownWeights(UldpAvg):
    """ULDP-AVG or ULDP-SGD with known weights; see the module.

    `setup.training.weighting` is the rule of the weights: `uniform`, 1 / |S| everywhere, or
    `records`, in proportion to the user's records in the silo.
    """

    state = State()

    def __init__(self, setup: Setup, *, step: str, schedule: Schedule | None = None) -> None:
        super().__init__(setup, step=step, schedule=schedule)
        rule = setup.training.weighting
        # Sums over silos are at most 1 in exact arithmetic, which the sensitivity C relies on.
        self.weights = checked_weights(user_weights(rule, setup.federation.counts))
        self._present = [np.flatnonzero(column > 0.0) for column in self.weights.T]

    def mechanism(self, noise_multiplier: float) -> Gaussian:
        """Return the noise of one round, on the grid on which updates are summed.

        With a schedule: of the first round.
        """
        alone = self.terms.summed(noise_multiplier)
        if self.schedule is None:
            return alone
        return self.schedule.noise(alone, self.schedule.block(1), 1)

    def summed(self, ticket: Ticket, number: int, parameters: Parameters) -> RoundSum:
        """Return the noisy sum of one round, as the aggregator adds it up."""
        if self.schedule is not None:
            return self._summed_in_block(self.schedule, ticket, number, parameters)
        mechanism = self.mechanism(self.promise.noise_multiplier)
        # One draw for all silos: a user is in the whole round or in none of it.
        joining = self.joining(ticket)
        again = ClipCheck(ticket.intent, mechanism, self.setup.silos, parameters.size)
        # Silo s: D_s without noise, integers on the grid; `noisy_sum` adds the noise silo by silo.
        totals, norms = self._totals(joining, parameters, number, mechanism, again)
        monitor = self.residuals.monitor(ticket.intent.noise)
        arrived = noisy_sum(
            self.aggregator, number, mechanism, ticket, list(totals), monitor=monitor
        )
        return RoundSum(
            mechanism.units(arrived.total),
            len(arrived.silos),
            norms,
            {"joined": int(joining.sum()), **monitor.items(), **again.items(totals)},
        )

    def _summed_in_block(
        self, schedule: Schedule, ticket: Ticket, number: int, parameters: Parameters
    ) -> RoundSum:
        """Return the noisy sum of a round that shares correlated noise with others."""
        assert self.block is not None
        mechanism = self.banded_mechanism(number)
        joining = schedule.joining(number, self.setup.federation.names)
        # Terms are clipped on a coarser grid than the noise's, so that C x stands on that.
        terms = mechanism.terms_alone
        again = ClipCheck(ticket.intent, terms, self.setup.silos, parameters.size)
        totals, norms = self._totals(joining, parameters, number, terms, again)
        # What a silo sends holds its last sums too; the noise on it is fresh, so residuals that
        # are taken of these rows are white.
        rows = self.block.rows(mechanism, totals)
        monitor = self.residuals.monitor(ticket.intent.noise)
        arrived = noisy_sum(self.aggregator, number, mechanism, ticket, list(rows), monitor=monitor)
        round_sum = RoundSum(
            self.block.solved(mechanism, mechanism.units(arrived.total)),
            len(arrived.silos),
            norms,
            {
                "joined": int(joining.sum()),
                **monitor.items(),
                **self.block.checked(again, rows, 1.0 / 2**COEFFICIENT_BITS),
            },
        )
        if self.block.finish(number):
            self.residuals.forget()
        return round_sum

    def _totals(
        self,
        joining: BoolArray,
        parameters: Parameters,
        number: int,
        mechanism: Gaussian,
        again: ClipCheck,
    ) -> tuple[IntArray, list[FloatArray]]:
        """Return sum_u w_su clip_C(d_su) of each silo, (silos, D) integers, and the norms |d_su|.

        A term is truncated towards 0 on the grid, so no clipped term gets longer.
        """
        users = [present[joining[present]] for present in self._present]
        totals = np.zeros((self.setup.silos, parameters.size), np.int64)
        norms, silos = [np.empty(0)], [np.empty(0, np.int64)]
        for block in self.updates(parameters, users, number):
            weights = self.weights[block.user, block.silo]
            totals += mechanism.totals(block.rows, block.silo, self.setup.silos, weights)
            norms.append(norms_of(block.rows))
            again.add(block.rows, block.silo, norms[-1], weights, block.user)
            silos.append(block.silo)
        norm, silo = np.concatenate(norms), np.concatenate(silos)
        return totals, [norm[silo == index] for index in range(self.setup.silos)]


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
    """Return ULDP-AVG (`step` is `average`) or ULDP-SGD (`gradient`) with overridden hooks.

    `hooks` is a subclass of `UldpAvg` that overrides hooks and declares its `state`; it is combined
    with the class that sums updates as the settings' aggregation demands.
    """
    parts = setup(settings, federation, local)
    schedule = Schedule.of_settings(settings)
    if parts.aggregation != "private-weighting":
        system = _with_hooks(hooks, UldpAvgKnownWeights)
        # Hooks of other packages may have a constructor that knows of no schedule.
        if schedule is None:
            return system(parts, step=step)
        return system(parts, step=step, schedule=schedule)
    if schedule is not None:
        raise InvalidInput(
            "Correlated noise is not for private weighting.",
            "What silos send would hold their last rounds too, under weights that nobody knows.",
            'Write aggregation = "masked", or leave `noise` out.',
        )
    # Refused before any module is imported that needs the missing packages.
    require_packages(WEIGHTING)
    if settings.as_published:
        from .published_weights import UldpAvgAsPublished

        return _with_hooks(hooks, UldpAvgAsPublished)(parts, step=step)
    from .hidden_weights import UldpAvgHiddenWeights  # brings cryptography with it

    return _with_hooks(hooks, UldpAvgHiddenWeights)(parts, step=step, streams=streams)


def _with_hooks(hooks: type[UldpAvg], system: type[SystemClass]) -> type[SystemClass]:
    """Return a class with the hooks of one and the sum of the other, and the state of the hooks."""
    if hooks is UldpAvg:
        return system
    state = {"state": vars(hooks)["state"]} if "state" in vars(hooks) else {}
    return cast("type[SystemClass]", type(hooks.__name__, (hooks, system), state))
