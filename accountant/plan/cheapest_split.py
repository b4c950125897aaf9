"""The ratios of noise at which a plan costs least: a search that nothing is proven by.

The search needs epsilon at thousands of splits, so it works on tables of Renyi curves over a grid
of noise multipliers, interpolated.  Whatever ratios it returns, their common factor is certified
afterwards like that of any other split.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .. import events as ev
from ..composition import leaves
from ..engines.rdp.curves import curve
from ..engines.rdp.moments import FloatArray
from ..errors import Unsupported
from ..neighbours import Neighbours
from ..odometer.budget_currencies import overheads
from .phases import Phase, grouped

_NOISES: Final = np.linspace(math.log(0.02), math.log(2e4), 100)
"""Logs of the noise multipliers of the tables; beyond, curves are extended by their slope."""

_ORDERS: Final = np.asarray(1.0 + np.geomspace(0.1, 512.0, 30))
_FACTORS: Final = np.linspace(-7.0, 14.0, 169)
"""Logs of the common factors among which the one that meets the target is sought."""

_LARGEST: Final = 600.0
"""Largest log of a divergence that is kept: it is above every budget."""

_FARTHEST: Final = 7.0
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
    free = [place for place, phase in enumerate(phases) if not phase.fixed]
    ratios = np.zeros(len(phases))
    if len(free) == 1:
        return (1.0,) * len(phases)
    from scipy.optimize import minimize  # slow to load, and few plans search

    tables = _Tables.of(phases, delta, relation, group)

    def objective(place: FloatArray) -> float:
        inside = np.clip(place, -_FARTHEST, _FARTHEST)
        ratios[free[:-1]] = inside
        factor = tables.log_factor(ratios, epsilon)
        if not math.isfinite(factor):
            return math.inf
        value = cost(np.exp(ratios[free] + factor).tolist())
        # Outside of the box the cost of its edge, and a little more.
        return value + abs(value) * float(np.abs(place - inside).sum())

    place = np.zeros(len(free) - 1)
    for step in (1.0, 0.2):
        simplex = np.vstack((place, place + step * np.eye(place.size)))
        found = minimize(
            objective,
            place,
            method="Nelder-Mead",
            options={
                "initial_simplex": simplex,
                "xatol": 1e-4,
                "fatol": 1e-9 * abs(objective(place)),
                "maxfev": 400 * place.size,
            },
        )
        place = np.clip(found.x, -_FARTHEST, _FARTHEST)
    ratios[free[:-1]] = place
    return tuple(float(ratio) for ratio in np.exp(ratios))


@dataclass(frozen=True)
class _Tables:
    """For each observer: the phases that it sees, and their log R(a) by noise and by order."""

    seen: tuple[tuple[tuple[int, ...], FloatArray], ...]
    overhead: FloatArray

    @classmethod
    def of(cls, phases: Sequence[Phase], delta: float, relation: Neighbours, group: int) -> _Tables:
        observers = dict.fromkeys(observer for phase in phases for observer in phase.seen)
        seen = []
        for observer in observers:
            places = tuple(i for i, phase in enumerate(phases) if observer in phase.seen)
            table = np.stack([_table(phases[i], observer, relation, group) for i in places])
            seen.append((places, table))
        return cls(tuple(seen), overheads(_ORDERS, delta))

    def log_factor(self, ratios: FloatArray, epsilon: float) -> float:
        """Return the log of the factor at which every observer's epsilon is about `epsilon`."""
        return max(
            self._crossing(ratios[list(places)], table, epsilon) for places, table in self.seen
        )

    def _crossing(self, ratios: FloatArray, table: FloatArray, epsilon: float) -> float:
        values = self._epsilon(_FACTORS, ratios, table)
        met = values <= epsilon
        if not met.any():
            return math.inf
        first = int(met.argmax())
        if first == 0:
            return float(_FACTORS[0])
        near = np.linspace(_FACTORS[first - 1], _FACTORS[first], 17)
        values = self._epsilon(near, ratios, table)
        return float(np.interp(-epsilon, -np.minimum.accumulate(values), near))

    def _epsilon(self, factors: FloatArray, ratios: FloatArray, table: FloatArray) -> FloatArray:
        """Return epsilon at each common factor, at the best of the orders."""
        at = (factors[:, None] + ratios - _NOISES[0]) / (_NOISES[1] - _NOISES[0])
        below = np.clip(at.astype(np.int64), 0, _NOISES.size - 2)
        share = (at - below)[:, :, None]
        phase = np.arange(ratios.size)
        logs = (1.0 - share) * table[phase, below] + share * table[phase, below + 1]
        total = np.exp(np.minimum(logs, _LARGEST)).sum(axis=1) + self.overhead
        return np.asarray(np.maximum(total.min(axis=1), 0.0))


def _table(phase: Phase, observer: str, relation: Neighbours, group: int) -> FloatArray:
    make = phase.seen[observer]
    rows = [
        _divergence(grouped([ev.Repeat(phase.rounds, phase.made(make, noise))], group), relation)
        for noise in np.exp(_NOISES).tolist()
    ]
    return np.clip(np.log(np.maximum(np.stack(rows), 1e-300)), -_LARGEST, _LARGEST)


def _divergence(event: ev.Event, relation: Neighbours) -> FloatArray:
    total = np.zeros_like(_ORDERS)
    for leaf in leaves(event):
        try:
            found = curve(leaf.event, relation)
        except Unsupported as refusal:
            raise Unsupported(
                f"The cheapest split is not known here: {refusal.what}",
                "Splits are compared by Renyi curves, and this phase has none.",
                "Give the split by weights, or use equal noise.",
            ) from None
        with np.errstate(over="ignore", invalid="ignore"):
            values = found.at(_ORDERS)
        total += leaf.count * np.where(np.isnan(values), np.inf, values)
    return total
