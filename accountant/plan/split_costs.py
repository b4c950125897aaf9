"""Costs of a split of the privacy budget over phases, by which the cheapest split is chosen.

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
from typing import Final, TypeAlias

from .. import validate
from ..errors import InvalidInput
from .phases import Phase

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
