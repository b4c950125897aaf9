"""prv_accountant as a second opinion: privacy loss random variables, composed between bounds.

Each leaf is a privacy loss random variable Y = ln P(x)/Q(x), x ~ P.  The library puts it on a mesh
of width h that keeps its mean, convolves, and brackets

    delta(epsilon + error) - slack  <=  true delta  <=  delta(epsilon - error) + slack

`library_workarounds` lists what is worked around so that both ends are guarantees.
Source: Gopi, Lee, Wutschitz: Numerical Composition of Differential Privacy, arXiv 2106.02848,
Theorem 5.5 and Remark 5.6.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from .. import events as ev
from .. import validate
from ..arrays import FloatArray
from ..composition import Composition
from ..errors import Unsupported
from ..guarantee import Bounds, Neighbours, Step, unique_steps
from .base import Answer, refuse_unattained
from .library_workarounds import (
    LIBRARY_OUTWARD_RELATIVE,
)
from .microsoft_losses import PRV, PRV_ACCOUNTANT, LeafLoss, LossVariable, leaf_loss

MESH_RENYI_ORDERS: Final = (*range(2, 64), 96, 128, 256)
MAX_MESH_POINTS: Final = 2**22
MIN_DELTA_SLACK: Final = 1e-10


@dataclass(frozen=True)
class _Composition:
    """The library's composition, with every error that its two readings must allow for."""

    result: Any
    error: float
    slack: float

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Return bounds on epsilon at `delta`."""
        read = self.result.compute_epsilon
        lower, _, upper = PRV_ACCOUNTANT.call(lambda: read(delta, self.slack, self.error))
        return _checked(float(lower), float(upper))

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Return bounds on delta at `epsilon`."""
        read = self.result.compute_delta_estimate
        lower, upper = PRV_ACCOUNTANT.call(
            lambda: (float(read(epsilon + self.error)), float(read(epsilon - self.error)))
        )
        return _checked(lower - self.slack, upper + self.slack)


class MicrosoftEngine:
    """Bounds from prv_accountant, from both sides for Gaussian, Laplace and sampled Gaussian noise.

    `eps_error` is half the width of the answer in epsilon, a number above 0: time grows with its
    inverse.  `Pure` and `Approximate` are composed too, with the lower end 0.

    Neighbours: all three for unsampled events, add-remove and zero-out for Poisson-sampled ones.

    Raises `Unsupported` for every other event, and where the library crashes, would run out of
    memory, or would lose delta in rounding.

    >>> answer = MicrosoftEngine().epsilon(Composition.of(ev.Gaussian(1.0)), 1e-5, "add-remove")
    >>> answer.bounds.lower < 4.377 < answer.bounds.upper
    True
    """

    name = "microsoft"

    def __init__(self, eps_error: float = 0.01) -> None:
        self._error = validate.positive(eps_error=eps_error)

    def epsilon(self, composition: Composition, delta: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest epsilon at `delta`, strictly between 0 and 1, in nats."""
        target = validate.open_probability(delta=delta)
        slack = target / 1000.0
        return self._answer(
            composition, neighbours, lambda _: slack, lambda total: total.epsilon(target)
        )

    def delta(self, composition: Composition, epsilon: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest delta at `epsilon`, 0 or above, in nats.

        The upper end is 1e-10 at least, and more beyond 10,000 releases.
        """
        point = validate.non_negative(epsilon=epsilon)

        def slack(runs: int) -> float:
            return MIN_DELTA_SLACK * max(1.0, runs / 1e4)

        return self._answer(
            composition, neighbours, slack, lambda total: total.delta(point), most=1.0
        )

    def _answer(
        self,
        composition: Composition,
        neighbours: Neighbours,
        slack_of: Callable[[int], float],
        read: Callable[[_Composition], tuple[float, float]],
        most: float = math.inf,
    ) -> Answer:
        """Return the larger reading of both directions, outward, and never above `most`."""
        refuse_unattained(composition, self.name)
        with np.errstate(all="ignore"):
            parts = PRV_ACCOUNTANT.call(
                lambda: [
                    (leaf_loss(leaf.event, neighbours), leaf.count)
                    for leaf in composition
                    if not (isinstance(leaf.event, ev.Poisson) and leaf.event.rate == 0.0)
                ]
            )
            losses, counts = [loss for loss, _ in parts], [count for _, count in parts]
            runs = sum(counts)
            readings = [(0.0, 0.0)]
            if parts:
                totals = self._compositions(losses, counts, slack_of(runs))
                readings = [read(total) for total in totals]
        lower, upper = (max(ends) for ends in zip(*readings, strict=True))
        attained = all(loss.attained for loss in losses)
        composed = Step("composition", f"{runs} loss variables are convolved by FFT.", PRV)
        conversion = Step(
            "conversion",
            f"The bounds are those of prv_accountant at an error of {self._error:g} in epsilon; "
            + (
                "the lower end is that of a pair of data sets which attains every loss."
                if attained
                else "the lower end is 0, because a stated parameter is only an upper bound."
            ),
            PRV,
            (
                "Both directions were composed and the larger answer was taken.",
                "The error of the library's means, times the count, was added to the width.",
                "The ends are rounded outward.",
            ),
        )
        low = max(0.0, lower * (1.0 - LIBRARY_OUTWARD_RELATIVE)) if attained else 0.0
        high = max(0.0, min(most, upper) * (1.0 + LIBRARY_OUTWARD_RELATIVE))
        steps = [*(loss.step for loss in losses), composed, conversion]
        return Answer(Bounds(low, high), unique_steps(steps))

    def _compositions(
        self, losses: Sequence[LeafLoss], counts: Sequence[int], slack: float
    ) -> list[_Composition]:
        """Return the composition of one direction or, where they differ, of both."""
        reach = _reach(losses, counts, self._error, slack)
        # Where both directions have one loss variable, one composition answers for both.
        directions = [[loss.forwards for loss in losses], [loss.backwards for loss in losses]]
        if directions[0] == directions[1]:
            directions.pop()
        return [_compose(direction, counts, self._error, slack, reach) for direction in directions]


def _checked(lower: float, upper: float) -> tuple[float, float]:
    if math.isnan(lower) or math.isnan(upper) or lower > upper:
        raise PRV_ACCOUNTANT.refusal(f"It answered [{lower}, {upper}].")
    return lower, upper


def _compose(
    variables: Sequence[LossVariable],
    counts: Sequence[int],
    error: float,
    slack: float,
    reach: float,
) -> _Composition:
    runs = sum(counts)
    # Rounding of the cdf differences and of the convolutions; see `library_workarounds`.
    rounding = runs * (1e-15 + 3200.0 * float(np.finfo(np.longdouble).eps))
    if rounding > slack:
        raise Unsupported(
            f"The microsoft engine cannot resolve delta here: {runs} releases lose "
            f"{rounding:.1g} of it in rounding.",
            f"At most {slack:.1g} may be lost.",
            "Ask for a larger delta, or leave the choice of the engine to privplan.",
        )

    def build() -> _Composition:
        from prv_accountant import PRVAccountant

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            accountant = PRVAccountant(
                prvs=[variable.prv for variable in variables],
                eps_error=error,
                delta_error=slack,
                max_self_compositions=list(counts),
                eps_max=reach,
            )
            # The distance of the means on the mesh to the exact ones widens the answer.
            drift = sum(
                count * abs(float(np.dot(part.domain.ts(), part.pmf)) - variable.mean)
                for part, variable, count in zip(
                    accountant.composer.prvs, variables, counts, strict=True
                )
            )
            result = accountant.compute_composition(list(counts))
        return _Composition(result, error + drift, slack + rounding)

    return PRV_ACCOUNTANT.call(build)


def _reach(losses: Sequence[LeafLoss], counts: Sequence[int], error: float, slack: float) -> float:
    """Return how far the mesh must reach: Remark 5.6, from Renyi bounds at integer orders."""
    runs = sum(counts)
    curves = [np.array([loss.renyi(order) for order in MESH_RENYI_ORDERS]) for loss in losses]
    total = sum(curve * count for curve, count in zip(curves, counts, strict=True))
    tails = [_epsilon_of(np.asarray(total), slack / 4.0)]
    tails += [_epsilon_of(curve, slack / (8.0 * runs)) for curve in curves]
    # The composed loss leaves the mesh, or one loss does, with a share of the slack at most.
    reach = max(error, *tails, *(loss.atom for loss in losses)) + 3.0
    # Theorem 5.5: the mesh at which the error in epsilon is met for so many runs.
    mesh = error / math.sqrt(runs / 2.0 * math.log(12.0 / slack))
    points = 2.0 * reach / mesh
    if not points <= MAX_MESH_POINTS:
        raise Unsupported(
            f"The microsoft engine would need a grid of {points:.2g} points.",
            f"The loss may reach {reach:.3g}, and an error of {error:g} in epsilon over {runs} "
            f"releases needs a mesh of {mesh:.2g}.",
            f"Allow a larger error: MicrosoftEngine(eps_error={error * 10:g}).",
        )
    return reach


def _epsilon_of(curve: FloatArray, delta: float) -> float:
    """Return epsilon at `delta` from a curve over `MESH_RENYI_ORDERS`; inf where it has none."""
    orders = np.array(MESH_RENYI_ORDERS, dtype=float)
    epsilons = curve + np.log1p(-1.0 / orders) - np.log(delta * orders) / (orders - 1.0)
    return float(np.min(np.where(np.isnan(epsilons), np.inf, epsilons)))
