"""Renyi curves of mixtures of Gaussians: k records under Poisson sampling, at real orders.

With w_i = Bin(k, q)(i), P = sum_i w_i N(i, s^2) and Q = N(0, s^2) (replace-one: P against its
mirror image), which is the worst case; see `engines/pld/pairs/groups.py`, whose argument holds for
every test and so for every divergence.  The ratio of P to N(0, s^2) is

    e^G(x) = sum_i w_i e^(i (x - i/2)/s^2),

a polynomial of degree k in y = e^(x/s^2).  Everything is the trapezoid rule on the line, so all
that is needed is how the integrand behaves off it.

**Zeros.**  All k roots of the polynomial in y are negative numbers.  (1 - q + q y)^k has only such
roots.  If f of degree k has, and c > k, so have c f + y f' and c f - y f': up to a power of |y|
they are the derivatives of |y|^c f and |y|^-c f, so by Rolle one root lies between any two of f,
and one more before 0 or, since |y|^-c f vanishes at infinity, beyond the last.  Together they
multiply the coefficient of y^i by c^2 - i^2.  N times that, divided by c^2 with c^2 = 2 s^2 N,
tends to multiplying by e^(-i^2/(2 s^2)), and the roots follow.  So e^G(x + i t) has no zero for
|t| < pi s^2, real powers of it are analytic there, and, factor by factor with v = t/s^2,

    cos(v/2)^k e^G(x) <= |e^G(x + i t)| <= e^G(x),

because |1 + r e^(i v)| >= cos(v/2) (1 + r) for r >= 0.

**Other weights**, of a unit that contributes one of a few amounts.  With weights w_i and amounts
c_i the pair is P = sum_i w_i N(c_i, s^2) against N(0, s^2), or against its mirror image under
replace-one; engines/pld/pairs/gaussian_mixtures.py derives it for every test, and so for every
divergence.  Two bounds, of which the smaller counts:

**Which amount it was is seen.**  Joint convexity of E_Q[(P/Q)^a] gives, with d_i = c_i, or 2 c_i
under replace-one,

    (a-1) R(a) <= log sum_i w_i e^(a (a-1) d_i^2 / (2 s^2)).

**The trapezoid rule**, as above, on the ratio e^G(x) = sum_i w_i e^(c_i (x - c_i/2)/s^2), in a
unit in which the largest amount is at most 1.  Off the line, at x + i t with v = t/s^2, the
angles of all terms lie in [0, v], so for v < pi/2

    cos(v) e^G(x) <= |e^G(x + i t)| <= e^G(x),

and e^G has no zero there.  For v <= 1, cos(v) >= cos(v/2)^5: at v = 1 the logarithms are in the
ratio 4.72, and it falls to 4 as v does.  So a ratio that is raised to 1 - a counts like an exponent
of 5 (a - 1) in the rule for binomial weights.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.special import gammaln

from ... import events as ev
from ...arrays import FloatArray, IndexArray
from ...events.contributions import distribution
from ...guarantee import Neighbours, Step
from ..base import contribution
from .curves import Curve, curve
from .moments import (
    MAX_QUADRATURE_NODES,
    MAX_QUADRATURE_NOISE,
    MAX_SHIFT_ANGLE,
    MIN_QUADRATURE_NOISE,
    QUADRATURE_LOG_ACCURACY,
    QUADRATURE_MISSED_MASS,
    RENYI_OUTWARD_FACTOR,
    Pair,
    renyi,
    trapezoid_step,
)

MAX_MIXTURE_RECORDS: Final = 100_000
"""For more records the curve is infinite here."""

NODES_PER_BLOCK: Final = 256
"""How many nodes are taken at once."""

_TAIL_DEVIATIONS: Final = 11.0


class ShiftMoments(ABC):
    """Noise moved by c_i bounds with weight w_i, against noise that is not moved, or moved back."""

    noise: float
    replaced: bool

    @property
    @abstractmethod
    def centres(self) -> FloatArray:
        """The moves c_i, ascending from 0 or above; in a unit of about 1 where there are few."""

    @property
    @abstractmethod
    def log_weights(self) -> FloatArray:
        """The logarithms of the weights."""

    @property
    @abstractmethod
    def ratio_scale(self) -> float:
        """What the rounding of a ratio grows with besides its logarithm."""

    @abstractmethod
    def steps(self, orders: FloatArray, backwards: bool) -> FloatArray:
        """Return the trapezoid step for each order."""

    def at(self, orders: FloatArray) -> FloatArray:
        """Return the larger of the divergences of both directions; infinite where it is not known.

        One direction is enough under replace-one, where the pair is its own mirror image.
        """
        if self.replaced:
            return self._direction(orders, backwards=False)
        return np.maximum(
            self._direction(orders, backwards=False), self._direction(orders, backwards=True)
        )

    def _direction(self, orders: FloatArray, backwards: bool) -> FloatArray:
        values = np.full_like(orders, np.inf)
        if (
            not MIN_QUADRATURE_NOISE < self.noise < MAX_QUADRATURE_NOISE
            or self.farthest > MAX_MIXTURE_RECORDS
        ):
            return values
        # Orders whose rule would need too many nodes stay infinite: no bound from here.
        steps = self.steps(orders, backwards)
        fits = self._length(orders) / steps < MAX_QUADRATURE_NODES
        if fits.any():
            fitting_orders = orders[fits]
            pair = self._pair(float(fitting_orders.max()), float(steps[fits].min()), backwards)
            # What the rule misses, and what errors of the ratios add, raise the divergence.
            missed = (
                QUADRATURE_MISSED_MASS + 4.0 * self._ratio_error(pair)
            ) * fitting_orders + QUADRATURE_MISSED_MASS
            values[fits] = renyi(pair, fitting_orders) + missed / (fitting_orders - 1.0)
        return values

    @property
    def farthest(self) -> float:
        """The largest move."""
        return float(self.centres[-1])

    def _ratio_error(self, pair: Pair) -> float:
        """Return the relative error of the ratio of densities at the nodes.

        Of the weights, and of what is added up in the exponents.  A factor 1 + e to every ratio
        adds a e/(a - 1) to R(a), and as much through E_Q[u], which is 0.
        """
        largest = float(np.abs(pair.losses).max())
        return 8.0 * 2.0**-53 * (4.0 + self.ratio_scale + 2.0 * largest)

    def _length(self, orders: FloatArray) -> FloatArray:
        return self.farthest * (2.0 * orders + 1.0) + 2.0 * _TAIL_DEVIATIONS * self.noise

    def _pair(self, order: float, step: float, backwards: bool) -> Pair:
        """Return nodes that hold all but 1e-22 of the integral at orders up to `order`.

        The integrand's logarithm is that of N(0, s^2) plus multiples of G(x) and G(-x), whose
        slopes lie in [0, k/s^2].  So its peaks lie between -(a-1) k (backwards) and a k (2 a - 1
        times k under replace-one), and beyond the last of them it falls faster than a Gaussian
        does, while inwards it falls no faster.  Both distributions themselves are held, too.
        """
        lowest = -(order - 1.0) * self.farthest if backwards else 0.0
        highest = self.farthest if backwards else order * self.farthest
        if self.replaced:
            lowest, highest = -self.farthest, (2.0 * order - 1.0) * self.farthest
        low = math.floor((lowest - _TAIL_DEVIATIONS * self.noise) / step)
        high = math.ceil((highest + _TAIL_DEVIATIONS * self.noise) / step)
        x = np.asarray(np.arange(low, high + 1, dtype=np.float64) * step, np.float64)
        # Q-mass of each node: normal density times the step, as a logarithm.
        z = x / self.noise
        weights = -z * z / 2.0 + math.log(step / (self.noise * math.sqrt(2.0 * math.pi)))
        losses = self._log_ratio(x)
        if self.replaced:
            # Under replace-one Q is the mirror image, so its log ratio is that at -x.
            other = self._log_ratio(-x)
            return Pair(weights + other, losses - other)
        return Pair(weights + losses, -losses) if backwards else Pair(weights, losses)

    def _log_ratio(self, x: FloatArray) -> FloatArray:
        """Return G at each position."""
        result = np.empty_like(x)
        # In blocks of nodes, each with the few i that matter there: shape (nodes, indices).
        for start in range(0, x.size, NODES_PER_BLOCK):
            part = slice(start, start + NODES_PER_BLOCK)
            i = self._relevant_indices(float(x[part].min()), float(x[part].max()))
            terms = self._terms(x[part, None], i)
            # log-sum-exp over i, around the largest term of each node.
            peak = terms.max(axis=1)
            result[part] = peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))
        return result

    def _terms(self, x: FloatArray, i: IndexArray) -> FloatArray:
        shifts = self.centres[i]
        return np.asarray(self.log_weights[i] + shifts * (x - 0.5 * shifts) / self.noise**2)

    def _relevant_indices(self, low: float, high: float) -> IndexArray:
        """Return the i that hold all but e^-39 of e^G at every position in [low, high].

        Later terms gain on earlier ones as x grows, so those too late at `high` are so everywhere,
        and those too early at `low`.
        """
        i = np.arange(self.centres.size)
        least = -QUADRATURE_LOG_ACCURACY - math.log(self.centres.size)
        at_low, at_high = self._terms(np.array(low), i), self._terms(np.array(high), i)
        # Terms of at least e^-40 of the largest, over their number; all others together are below
        # e^-39.
        first = np.flatnonzero(at_low >= at_low.max() + least)[0]
        last = np.flatnonzero(at_high >= at_high.max() + least)[-1]
        return i[first : last + 1]


@dataclass(frozen=True)
class Mixture(ShiftMoments):
    """`size` records that each join with probability `rate`, and the noise; see the module."""

    size: int
    rate: float
    noise: float
    replaced: bool

    @cached_property
    def centres(self) -> FloatArray:
        """The numbers 0, ..., k."""
        return np.arange(self.size + 1.0)

    @cached_property
    def log_weights(self) -> FloatArray:
        """The logarithms of the binomial weights."""
        i = self.centres
        # log Bin(k, q)(i) = log C(k, i) + i log q + (k - i) log(1 - q).
        log_binomial = gammaln(self.size + 1.0) - gammaln(i + 1.0) - gammaln(self.size - i + 1.0)
        log_absent = (self.size - i) * math.log1p(-self.rate)
        return np.asarray(log_binomial + i * math.log(self.rate) + log_absent)

    @property
    def ratio_scale(self) -> float:
        """That of three log-gammas (4 units each)."""
        return 3.0 * math.lgamma(self.size + 1.0) + 4.0 * float(np.abs(self.log_weights).max())

    def steps(self, orders: FloatArray, backwards: bool) -> FloatArray:
        """Return the trapezoid step for each order: a polynomial of degree k costs k times one."""
        raised = self.replaced or backwards  # a ratio is raised to 1 - a
        exponent = self.size * (orders - 1.0) if raised else np.zeros_like(orders)
        return trapezoid_step(self.noise, exponent, MAX_SHIFT_ANGLE)


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
        "engines/pld/pairs/gaussian_mixtures.py",
        ("what a unit contributes is drawn afresh in each release, and not seen",),
    )
    return Curve(
        lambda orders: np.fmin(mixture.seen(orders), mixture.at(orders)), math.inf, (step,)
    )
