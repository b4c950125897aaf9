"""The ratios of noise at which a plan costs least: a search that nothing is proven by.

The search needs epsilon at thousands of splits, so it works on tables of Renyi curves over a grid
of noise multipliers, interpolated.  Whatever ratios it returns, their common factor is certified
afterwards like that of any other split.

Costs of a split of the privacy budget over phases, by which the cheapest split is chosen.

With noise multipliers n_i, scales c_i and T_i draws of noise (rounds, times the draws of one) of
the phases i whose noise is not fixed, so
that c_i n_i is the noise that counts (its standard deviation, where c_i is the clip norm):

variance    sum T_i (c_i n_i)^2    variance of the sum over all rounds
deviation   sum T_i c_i n_i        sum of the standard deviations of all rounds
average     sum (c_i n_i)^2 / T_i  sum of the variances of each phase's mean over its rounds
largest     max c_i n_i            largest standard deviation of a phase
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from .. import events as ev
from .. import validate
from ..arrays import FloatArray
from ..composition import Composition
from ..engines.rdp.curves import curve
from ..errors import InvalidInput, Unsupported
from ..neighbours import Neighbours
from ..odometer.budget_currencies import overheads
from .phases import Phase, grouped

Cost: TypeAlias = Callable[[Mapping[str, float]], float]
"""From the noise multiplier of each phase, by its name, to the cost of the plan; least is best."""

_NamedCost: TypeAlias = Callable[[Sequence[float], Sequence[int]], float]
"""From the standard deviations c_i n_i and the rounds T_i to the cost."""


def _variance(noise: Sequence[float], rounds: Sequence[int]) -> float:
    return math.fsum(count * std * std for std, count in zip(noise, rounds, strict=True))


def _deviation(noise: Sequence[float], rounds: Sequence[int]) -> float:
    return math.fsum(count * std for std, count in zip(noise, rounds, strict=True))


def _average(noise: Sequence[float], rounds: Sequence[int]) -> float:
    return math.fsum(std * std / count for std, count in zip(noise, rounds, strict=True))


def _largest(noise: Sequence[float], rounds: Sequence[int]) -> float:  # noqa: ARG001
    return max(noise)


_COSTS: Final[Mapping[str, _NamedCost]] = {
    "variance": _variance,
    "deviation": _deviation,
    "average": _average,
    "largest": _largest,
}

NAMES: Final = tuple(_COSTS)
"""The names of the built-in costs."""


def cost_of(cost: str | Cost, phases: Sequence[Phase]) -> Callable[[Sequence[float]], float]:
    """Return the cost as a function of the noise multipliers of `phases`, in their order.

    Raises `InvalidInput` for an unknown name, and for a cost that is not a number.
    """
    if not callable(cost):
        known = _COSTS[validate.choice(NAMES, cost=cost)]
        rounds = [phase.rounds * phase.draws for phase in phases]
        return lambda noise: known(
            [phase.scale * multiplier for phase, multiplier in zip(phases, noise, strict=True)],
            rounds,
        )

    def by_name(noise: Sequence[float]) -> float:
        named = {
            phase.name: float(multiplier) for phase, multiplier in zip(phases, noise, strict=True)
        }
        value = cost(named)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value):
            raise InvalidInput(
                f"`cost` must return a number; at {named} it returned {value!r:.60}.",
                next_step="Return a float: what this much noise costs.",
            )
        return float(value)

    return by_name


def name_of(cost: str | Cost) -> str:
    """Return the name of a cost, for texts."""
    return cost if isinstance(cost, str) else getattr(cost, "__name__", "cost")


_LOG_NOISES: Final = np.linspace(math.log(0.02), math.log(2e4), 100)
"""Logs of the noise multipliers of the tables; beyond, curves are extended by their slope."""

_ORDERS: Final = np.asarray(1.0 + np.geomspace(0.1, 512.0, 30))
_LOG_FACTORS: Final = np.linspace(-7.0, 14.0, 169)
"""Logs of the common factors among which the one that meets the target is sought."""

_MAX_LOG_DIVERGENCE: Final = 600.0
"""Largest log of a divergence that is kept: it is above every budget."""

_MAX_NOISE_LOG_RATIO: Final = 7.0
"""Largest log of a ratio between two phases."""


def cheapest_ratios(
    phases: Sequence[Phase],
    cost: Callable[[Sequence[float]], float],
    epsilon: float,
    delta: float,
    relation: Neighbours,
    group: int,
) -> tuple[float, ...]:
    """Return noise ratios, one for each phase, of about the least cost at (epsilon, delta).

    `cost` is of the noise of the phases that are not fixed.  Raises `Unsupported` for a phase
    without a Renyi curve.
    """
    free = [index for index, phase in enumerate(phases) if not phase.fixed]
    ratios = np.zeros(len(phases))
    if len(free) == 1:
        return (1.0,) * len(phases)
    from scipy.optimize import minimize  # slow to load, and few plans search

    tables = _Tables.of(phases, delta, relation, group)

    def objective(log_ratios: FloatArray) -> float:
        clipped = np.clip(log_ratios, -_MAX_NOISE_LOG_RATIO, _MAX_NOISE_LOG_RATIO)
        ratios[free[:-1]] = clipped
        factor = tables.log_factor(ratios, epsilon)
        if not math.isfinite(factor):
            return math.inf
        value = cost(np.exp(ratios[free] + factor).tolist())
        # Outside of the box: the cost at its edge and a penalty, so that the simplex comes back.
        return value + abs(value) * float(np.abs(log_ratios - clipped).sum())

    # Nelder-Mead over the logs of all ratios but the last, from equal noise, then once more nearby.
    log_ratios = np.zeros(len(free) - 1)
    for step in (1.0, 0.2):
        simplex = np.vstack((log_ratios, log_ratios + step * np.eye(log_ratios.size)))
        optimum = minimize(
            objective,
            log_ratios,
            method="Nelder-Mead",
            options={
                "initial_simplex": simplex,
                "xatol": 1e-4,
                "fatol": 1e-9 * abs(objective(log_ratios)),
                "maxfev": 400 * log_ratios.size,
            },
        )
        log_ratios = np.clip(optimum.x, -_MAX_NOISE_LOG_RATIO, _MAX_NOISE_LOG_RATIO)
    ratios[free[:-1]] = log_ratios
    return tuple(float(ratio) for ratio in np.exp(ratios))


@dataclass(frozen=True)
class _Tables:
    """For each observer: the phases that it sees, and their log R(a) by noise and by order."""

    seen: tuple[tuple[tuple[int, ...], FloatArray], ...]
    overhead: FloatArray

    @classmethod
    def of(cls, phases: Sequence[Phase], delta: float, relation: Neighbours, group: int) -> _Tables:
        observers = dict.fromkeys(observer for phase in phases for observer in phase.seen)
        by_observer = []
        for observer in observers:
            indices = tuple(i for i, phase in enumerate(phases) if observer in phase.seen)
            table = np.stack([_table(phases[i], observer, relation, group) for i in indices])
            by_observer.append((indices, table))
        return cls(tuple(by_observer), overheads(_ORDERS, delta))

    def log_factor(self, ratios: FloatArray, epsilon: float) -> float:
        """Return the log of the factor at which every observer's epsilon is about `epsilon`."""
        return max(
            self._crossing(ratios[list(indices)], table, epsilon) for indices, table in self.seen
        )

    def _crossing(self, ratios: FloatArray, table: FloatArray, epsilon: float) -> float:
        values = self._epsilon(_LOG_FACTORS, ratios, table)
        within = values <= epsilon
        if not within.any():
            return math.inf
        # The first factor of the grid that meets the target, and a finer grid below it.
        first = int(within.argmax())
        if first == 0:
            return float(_LOG_FACTORS[0])
        near = np.linspace(_LOG_FACTORS[first - 1], _LOG_FACTORS[first], 17)
        values = self._epsilon(near, ratios, table)
        return float(np.interp(-epsilon, -np.minimum.accumulate(values), near))

    def _epsilon(self, factors: FloatArray, ratios: FloatArray, table: FloatArray) -> FloatArray:
        """Return epsilon at each common factor, at the best of the orders."""
        # log R by linear interpolation in log noise: (factors, phases, orders); then the sum over
        # phases, turned into epsilon at each order.
        at = (factors[:, None] + ratios - _LOG_NOISES[0]) / (_LOG_NOISES[1] - _LOG_NOISES[0])
        below = np.clip(at.astype(np.int64), 0, _LOG_NOISES.size - 2)
        share = (at - below)[:, :, None]
        phase = np.arange(ratios.size)
        logs = (1.0 - share) * table[phase, below] + share * table[phase, below + 1]
        total = np.exp(np.minimum(logs, _MAX_LOG_DIVERGENCE)).sum(axis=1) + self.overhead
        return np.asarray(np.maximum(total.min(axis=1), 0.0))


def _table(phase: Phase, observer: str, relation: Neighbours, group: int) -> FloatArray:
    make_event = phase.seen[observer]
    # log R(a), (noises, orders), of all rounds of the phase as this observer sees them.
    rows = [
        _divergence(
            grouped([ev.Repeat(phase.events_of_a_unit, phase.event_at(make_event, noise))], group),
            relation,
        )
        for noise in np.exp(_LOG_NOISES).tolist()
    ]
    return np.clip(
        np.log(np.maximum(np.stack(rows), 1e-300)), -_MAX_LOG_DIVERGENCE, _MAX_LOG_DIVERGENCE
    )


def _divergence(event: ev.Event, relation: Neighbours) -> FloatArray:
    total = np.zeros_like(_ORDERS)
    for leaf in Composition.of(event):
        try:
            renyi = curve(leaf.event, relation)
        except Unsupported as refusal:
            raise Unsupported(
                f"The cheapest split is not known here: {refusal.what}",
                "Splits are compared by Renyi curves, and this phase has none.",
                "Give the split by weights, or use equal noise.",
            ) from None
        with np.errstate(over="ignore", invalid="ignore"):
            values = renyi.at(_ORDERS)
        total += leaf.count * np.where(np.isnan(values), np.inf, values)
    return total
