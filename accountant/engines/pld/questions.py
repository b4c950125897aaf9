"""What can be asked of a bound: the epsilon at a delta, or the delta at an epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

from ...rootfinding import enclose, narrow
from .estimate import Estimate, Saddle
from .sides import Side

FLOOR: Final = 1e-250
"""Smallest delta that is certified; tails of a single round are cut well below it."""


class Question(Protocol):
    """What is asked of a side: the epsilon at a delta, or the delta at an epsilon."""

    @property
    def least_delta(self) -> float:
        """About the delta of the answer: what mechanisms are fitted to, and estimates good for."""

    @property
    def ceiling(self) -> float:
        """What no answer exceeds."""

    def saddle(self, estimate: Estimate) -> Saddle:
        """Return where the answer is expected."""

    def size(self, saddle: Saddle) -> float:
        """Return about how large the answer is."""

    def scale(self, saddle: Saddle) -> float:
        """Return about which delta the answer lies at."""

    def tolerance(self, upper: float, accuracy: float, saddle: Saddle) -> float:
        """Return how far apart the ends may lie."""

    def at_largest_loss(self, largest: float) -> float:
        """Return an upper end that needs no more than a bound on the sum of all losses."""

    def upper(self, side: Side, saddle: Saddle) -> float:
        """Return an upper end."""

    def lower(self, side: Side, saddle: Saddle) -> float:
        """Return a lower end."""


@dataclass(frozen=True)
class EpsilonAt:
    """The epsilon at which delta is `target`."""

    target: float
    ceiling = math.inf

    @property
    def least_delta(self) -> float:
        return self.target

    def saddle(self, estimate: Estimate) -> Saddle:
        return estimate.epsilon(self.target)

    def size(self, saddle: Saddle) -> float:
        return saddle.epsilon

    def scale(self, saddle: Saddle) -> float:  # noqa: ARG002
        return self.target

    def tolerance(self, upper: float, accuracy: float, saddle: Saddle) -> float:  # noqa: ARG002
        return accuracy * upper

    def at_largest_loss(self, largest: float) -> float:
        return max(largest, 0.0)

    def upper(self, side: Side, saddle: Saddle) -> float:
        return crossing(side, math.log(self.target), saddle)[1]

    def lower(self, side: Side, saddle: Saddle) -> float:
        return crossing(side, math.log(self.target), saddle)[0]


@dataclass(frozen=True)
class DeltaAt:
    """The delta at which epsilon is `target`; `least_delta` is about that delta.

    Its grids are those on which the epsilon at `least_delta` would be asked for, so that both
    questions about one point get one answer.  Below `FLOOR` there is no such question.
    """

    target: float
    least_delta: float
    ceiling = 1.0

    def saddle(self, estimate: Estimate) -> Saddle:
        if self.least_delta <= FLOOR:
            return estimate.delta(self.target)
        return estimate.epsilon(self.least_delta)

    def size(self, saddle: Saddle) -> float:
        return saddle.log_delta if self.least_delta <= FLOOR else saddle.epsilon

    def scale(self, saddle: Saddle) -> float:  # noqa: ARG002
        return self.least_delta

    def tolerance(self, upper: float, accuracy: float, saddle: Saddle) -> float:
        return upper * accuracy * max(saddle.epsilon * saddle.tilt, 1.0)

    def at_largest_loss(self, largest: float) -> float:
        return 0.0 if largest <= self.target else 1.0

    def upper(self, side: Side, saddle: Saddle) -> float:  # noqa: ARG002
        return min(math.exp(side.log_delta(self.target)), 1.0)

    def lower(self, side: Side, saddle: Saddle) -> float:  # noqa: ARG002
        return math.exp(side.log_delta(self.target))


def crossing(side: Side, log_delta: float, saddle: Saddle) -> tuple[float, float]:
    """Return epsilons (low, high) next to each other, at which the side's delta was computed:
    above the target at low (or low is 0), and at most the target at high (or high is infinite).

    So `high` of an upper side is an upper end, and `low` of a lower side a lower end.
    """

    def excess(epsilon: float) -> float:
        value = side.log_delta(epsilon) - log_delta
        if math.isnan(value):
            raise FloatingPointError("a bound on delta is not a number")
        return value

    step = 0.01 / max(saddle.tilt, 1e-3)  # delta falls by about a hundredth
    bracket = enclose(excess, max(saddle.epsilon, 0.0), step, 0.0, 1e12)
    if bracket is None:
        return (0.0, 0.0) if excess(0.0) <= 0.0 else (0.0, math.inf)
    found = narrow(excess, bracket, relative=1e-9)
    return found.low, found.high
