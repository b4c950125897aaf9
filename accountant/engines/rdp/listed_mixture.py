"""Renyi curves of sums with Gaussian noise to which a unit contributes one of a few amounts.

With weights w_i and amounts c_i the pair is P = sum_i w_i N(c_i, s^2) against N(0, s^2), or against
its mirror image under replace-one; engines/pld/gaussian_mixtures.py derives it for every test, and
so for every divergence.  Two bounds, of which the smaller counts:

**Which amount it was is seen.**  Joint convexity of E_Q[(P/Q)^a] gives, with d_i = c_i, or 2 c_i
under replace-one,

    (a-1) R(a) <= log sum_i w_i e^(a (a-1) d_i^2 / (2 s^2)).

**The trapezoid rule** of mixture.py on the ratio e^G(x) = sum_i w_i e^(c_i (x - c_i/2)/s^2), in a
unit in which the largest amount is at most 1.  Beside the line, at x + i t with v = t/s^2, the
angles of all terms lie in [0, v], so for v < pi/2

    cos(v) e^G(x) <= |e^G(x + i t)| <= e^G(x),

and e^G has no zero there.  For v <= 1, cos(v) >= cos(v/2)^5: at v = 1 the logarithms are in the
ratio 4.72, and it falls to 4 as v does.  So a ratio that is raised to 1 - a counts like an exponent
of 5 (a - 1) in the rule for binomial weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ... import events as ev
from ...arrays import FloatArray
from ...events.contributions import distribution
from ...guarantee import Neighbours, Step
from ..base import contribution
from .curves import Curve, curve
from .mixture import ShiftMoments
from .moments import RENYI_OUTWARD_FACTOR
from .quadrature import trapezoid_step

MAX_LISTED_ANGLE = 1.0
"""Largest angle to which the line of integration moves."""

WEIGHT_ERROR_UNITS = 1e4
"""The error of a weight, some 1e-12, in the units in which the rule counts rounding."""


@dataclass(frozen=True)
class ListedMixture(ShiftMoments):
    """Amounts in [0, 1] with their weights, and the noise in the same unit."""

    amounts: tuple[float, ...]
    weights: tuple[float, ...]
    noise: float
    replaced: bool

    @cached_property
    def centres(self) -> FloatArray:
        """The amounts."""
        return np.asarray(self.amounts)

    @cached_property
    def log_weights(self) -> FloatArray:
        """The logarithms of the weights."""
        return np.asarray(np.log(np.asarray(self.weights)))

    @property
    def ratio_scale(self) -> float:
        """That of the weights, of what is left of 1 too."""
        rest = self.weights[0] if self.amounts[0] == 0.0 else 1.0
        return WEIGHT_ERROR_UNITS / min(max(rest * 1e3, 1e-300), 1.0) + 4.0 * float(
            np.abs(self.log_weights).max()
        )

    def steps(self, orders: FloatArray, backwards: bool) -> FloatArray:
        """Return the trapezoid step for each order."""
        raised = self.replaced or backwards
        exponent = 5.0 * (orders - 1.0) if raised else np.zeros_like(orders)
        return trapezoid_step(self.noise, exponent, MAX_LISTED_ANGLE)

    def seen(self, orders: FloatArray) -> FloatArray:
        """Return the bound in which it is seen which amount it was."""
        moved = (2.0 if self.replaced else 1.0) * self.centres
        exponents = (orders * (orders - 1.0))[:, None] * (moved / self.noise) ** 2 / 2.0
        logs = np.logaddexp.reduce(self.log_weights + exponents, axis=1)
        # A weight's error is below 1e-12, and so is that of the sum's logarithm.
        return np.asarray((np.maximum(logs, 0.0) + 2e-12) / (orders - 1.0) * RENYI_OUTWARD_FACTOR)


@curve.register(ev.GaussianMixture)
def gaussian_mixture(event: ev.GaussianMixture, neighbours: Neighbours) -> Curve:
    """The curve of a random contribution, for any of the three relations.

    Source: Choquette-Choo, Ganesh, Steinke and Thakurta 2023, arXiv 2310.15526 (the pair).
    """
    amounts = distribution(event)
    unit = 2.0 ** math.frexp(max(amounts))[1]  # a power of two: nothing is rounded
    mixture = ListedMixture(
        tuple(amount / unit for amount in amounts),
        tuple(max(weight, 1e-300) for weight in amounts.values()),
        event.noise_multiplier / unit,
        contribution(neighbours) == 2,
    )
    other = "its mirror image" if mixture.replaced else "N(0)"
    step = Step(
        "mechanism",
        f"sum_i w_i N(c_i) against {other}; noise {event.noise_multiplier:.6g}, "
        f"{len(event.contributions):,} contributions of up to {max(amounts):.6g} bounds.",
        "Choquette-Choo, Ganesh, Steinke and Thakurta 2023, arXiv 2310.15526; derived in "
        "engines/pld/gaussian_mixtures.py",
        ("what a unit contributes is drawn afresh in each release, and not seen",),
    )
    return Curve(
        lambda orders: np.fmin(mixture.seen(orders), mixture.at(orders)), math.inf, (step,)
    )
