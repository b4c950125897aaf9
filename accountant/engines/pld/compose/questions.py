"""The two questions: epsilon at a delta, and delta at an epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
from scipy.special import ndtri

from ....rootfinding import enclose, narrow
from ..grid.noise import dot
from .delta_bounds import DeltaBound
from .estimate import QuadraturePoints, SaddlePoint, SaddlePointEstimate

MIN_CERTIFIED_DELTA: Final = 1e-250
"""Smallest delta that is certified; tails of a single round are cut well below it."""


MIN_BULK_DELTA: Final = 0.1
"""Delta above which an answer may lie in the bulk of the losses, where a saddle point says little.
"""

WIDE_LOSS_DEVIATION: Final = 3.0
"""Deviation of the losses from which on delta is about the share of them beyond epsilon."""

LARGEST_LOSS: Final = 1e30
"""An epsilon above every finite loss that a grid has."""

LEAST_DELTA: Final = 5e-324
"""The smallest delta above 0 that a float can be."""


class Question(Protocol):
    """A question to a bound: epsilon at a delta, or delta at an epsilon."""

    @property
    def name(self) -> str:
        """The quantity in question: `epsilon` or `delta`."""

    @property
    def least_delta(self) -> float:
        """About the delta of the answer: what mechanisms are fitted to, and estimates good for."""

    @property
    def ceiling(self) -> float:
        """What no answer exceeds."""

    def saddle(self, estimate: SaddlePointEstimate) -> SaddlePoint:
        """Return where the answer is expected."""

    def size(self, saddle: SaddlePoint) -> float:
        """Return about how large the answer is."""

    def scale(self, saddle: SaddlePoint) -> float:
        """Return about which delta the answer lies at, or how far it is from 1 if that is less."""

    def tolerance(self, upper: float, accuracy: float, saddle: SaddlePoint) -> float:
        """Return how far apart the ends may lie."""

    def at_largest_loss(self, largest: float) -> float:
        """Return an upper end that needs no more than a bound on the sum of all losses."""

    def upper(self, bound: DeltaBound, saddle: SaddlePoint) -> float:
        """Return an upper end."""

    def lower(self, bound: DeltaBound, saddle: SaddlePoint) -> float:
        """Return a lower end."""


@dataclass(frozen=True)
class EpsilonAt:
    """The epsilon at which delta is `target`."""

    target: float
    name = "epsilon"
    ceiling = math.inf

    @property
    def least_delta(self) -> float:
        return self.target

    def saddle(self, estimate: SaddlePointEstimate) -> SaddlePoint:
        return _saddle(estimate, self.target)

    def size(self, saddle: SaddlePoint) -> float:
        return saddle.epsilon

    def scale(self, saddle: SaddlePoint) -> float:
        return _distance_to_ends(self.target)

    def tolerance(self, upper: float, accuracy: float, saddle: SaddlePoint) -> float:
        return accuracy * upper

    def at_largest_loss(self, largest: float) -> float:
        return max(largest, 0.0)

    def upper(self, bound: DeltaBound, saddle: SaddlePoint) -> float:
        return crossing(bound, math.log(self.target), saddle)[1]

    def lower(self, bound: DeltaBound, saddle: SaddlePoint) -> float:
        return crossing(bound, math.log(self.target), saddle)[0]


@dataclass(frozen=True)
class DeltaAt:
    """The delta at which epsilon is `target`; `least_delta` is about that delta.

    Its grids are those on which the epsilon at `least_delta` would be asked for, so that both
    questions about one point get one answer.  Below `MIN_CERTIFIED_DELTA` there is no such
    question.
    """

    target: float
    least_delta: float
    name = "delta"
    ceiling = 1.0

    def saddle(self, estimate: SaddlePointEstimate) -> SaddlePoint:
        if self.least_delta <= MIN_CERTIFIED_DELTA:
            return estimate.delta(self.target)
        return _saddle(estimate, self.least_delta)

    def size(self, saddle: SaddlePoint) -> float:
        return saddle.log_delta if self.least_delta <= MIN_CERTIFIED_DELTA else saddle.epsilon

    def scale(self, saddle: SaddlePoint) -> float:
        return _distance_to_ends(self.least_delta)

    def tolerance(self, upper: float, accuracy: float, saddle: SaddlePoint) -> float:
        return upper * accuracy * max(saddle.epsilon * saddle.tilt, 1.0)

    def at_largest_loss(self, largest: float) -> float:
        return 0.0 if largest <= self.target else 1.0

    def upper(self, bound: DeltaBound, saddle: SaddlePoint) -> float:
        # Asked for where a loss may be larger: delta is above 0, even where it underflows.
        return min(max(math.exp(bound(self.target)), LEAST_DELTA), 1.0)

    def lower(self, bound: DeltaBound, saddle: SaddlePoint) -> float:
        return math.exp(bound(self.target))


def _distance_to_ends(delta: float) -> float:
    return max(min(delta, 1.0 - delta), min(delta, 1e-15))


def _saddle(estimate: SaddlePointEstimate, delta: float) -> SaddlePoint:
    """Return where this delta is expected: by the saddle point, or in the bulk as if normal.

    In the bulk delta is about P(S > eps), S the sum of the losses with mean m and deviation s, so
    eps = m + s z(1 - delta), and the tilt solves t s^2 - 1/t = eps - m.
    """
    saddle = estimate.epsilon(delta)
    spread = math.sqrt(saddle.plain_variance)
    left = (1.0 - delta) / max(1.0 - estimate.infinite_mass, 1e-300)
    if delta <= MIN_BULK_DELTA or spread < WIDE_LOSS_DEVIATION or not 0.0 < left < 1.0:
        return saddle
    mean = sum(part.count * _mean(part) for part in estimate.parts)
    off = spread * float(ndtri(left))
    # The positive root of t s^2 - 1/t = eps - m.
    tilt = 0.5 * (off + math.hypot(off, 2.0 * spread)) / saddle.plain_variance
    return replace(
        saddle, epsilon=mean + off, log_delta=math.log(delta), tilt=tilt, variance=spread * spread
    )


def _mean(atoms: QuadraturePoints) -> float:
    weights = np.exp(atoms.log_p)
    return dot(weights, atoms.losses) / float(weights.sum())


def crossing(bound: DeltaBound, log_delta: float, saddle: SaddlePoint) -> tuple[float, float]:
    """Return epsilons (low, high) next to each other, at which the bound's delta was computed:
    above the target at low (or low is 0), and at most the target at high (or high is infinite).
    Where it is above the target at every epsilon, both are infinite.

    So `high` of an upper bound is an upper end, and `low` of a lower bound a lower end.
    """

    def excess(epsilon: float) -> float:
        value = bound(epsilon) - log_delta
        if math.isnan(value):
            raise FloatingPointError("a bound on delta is not a number")
        return value

    # Start the bracket at the estimate, which is nearly always within a few steps.
    step = 0.01 / max(saddle.tilt, 1e-3)  # delta falls by about a hundredth
    bracket = enclose(excess, max(saddle.epsilon, 0.0), step, 0.0, 1e12)
    if bracket is None:
        if excess(0.0) <= 0.0:
            return 0.0, 0.0
        # Above the target however far: what is left is the mass at an infinite loss.
        return (math.inf if excess(LARGEST_LOSS) > 0.0 else 0.0), math.inf
    root = narrow(excess, bracket, relative=1e-9)
    return root.low, root.high
