"""Renyi curves of single releases with noise: one function for each event type."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np

from ... import events as ev
from ...arrays import FloatArray
from ...guarantee import Neighbours, Step
from ..base import Registry, contribution
from ..correlated_noise import correlated_noise
from .moments import RENYI_OUTWARD_FACTOR, Pair, renyi


@dataclass(frozen=True)
class Curve:
    """An upper bound on both Renyi divergences of neighbouring outputs, at every order.

    `at` maps orders a > 1 to R(a) in nats; `limit` bounds R at all orders (so `limit` is a pure
    epsilon; infinite where there is none).  `slack` is the probability of an event outside of
    which the curve holds: neighbouring outputs are (1-slack) P' + slack P'' and
    (1-slack) Q' + slack Q'', and the curve bounds both divergences of P' and Q'.

    `lower`, where it is known, bounds R(a) from below: it is the divergence of the outputs with
    the unit from those without it (replace-one: with one value from those with another), on data
    sets that are the same at every order and may be the same for other releases.  `listed` are
    orders at which the curve has a corner, so that a search for the best order tries them.
    """

    at: Callable[[FloatArray], FloatArray]
    limit: float
    steps: tuple[Step, ...]
    slack: float = 0.0
    lower: Callable[[FloatArray], FloatArray] | None = None
    listed: tuple[float, ...] = ()


LEAST_SLACK: Final = 5e-324
"""The smallest probability above 0 that a float can be."""

curve: Registry[Curve] = Registry("rdp")
"""Event type -> the function that returns its `Curve`."""

NOTHING = Curve(
    at=np.zeros_like,
    limit=0.0,
    steps=(Step("mechanism", "Nothing depends on the data: R(a) = 0.", "by definition"),),
)
"""The curve of a release that no unit takes part in."""


def set_aside(probability: float) -> float:
    """Return the probability of an event that can happen, as a slack: above 0, at most 1.

    One that underflows is rounded up: slack 0 would say that losses have a bound.
    """
    return min(max(probability, LEAST_SLACK), 1.0)


def quadratic(rho: float) -> Callable[[FloatArray], FloatArray]:
    """Return the curve R(a) = rho a of a rho-zCDP mechanism, rounded outward."""
    return lambda orders: rho * orders * RENYI_OUTWARD_FACTOR


def interpolated(
    at_integers: Callable[[FloatArray], FloatArray],
) -> Callable[[FloatArray], FloatArray]:
    """Extend bounds on R at integer orders to real ones: (a-1) R(a) is convex, and 0 at a = 1.

    Source: van Erven and Harremoes 2014, Corollary 2, arXiv 1206.2459v2.
    """

    def at(orders: FloatArray) -> FloatArray:
        below = np.floor(orders)
        above = np.where(below == orders, below, below + 1.0)
        # Each integer order is asked for once, though many real orders share it.
        needed, where = np.unique(np.concatenate((below, above)), return_inverse=True)
        moments = np.zeros_like(needed)
        real = needed > 1.0
        moments[real] = (needed[real] - 1.0) * at_integers(needed[real])
        low, high = np.split(moments[where], 2)
        share = orders - below
        # The chord of a convex function lies above it: an upper bound between integers.
        chord = np.where(share > 0.0, (1.0 - share) * low + share * high, low)
        return np.asarray(chord / (orders - 1.0) * RENYI_OUTWARD_FACTOR)

    return at


def of_pair(pair: Pair) -> Callable[[FloatArray], FloatArray]:
    """Return the curve of a pair of distributions given as points."""
    return lambda orders: renyi(pair, orders)


def pure_pair(epsilon: float) -> Pair:
    """Return binary randomized response, which dominates every epsilon-DP mechanism.

    Source: Kairouz, Oh and Viswanath 2015, Theorem 2 (delta = 0), arXiv 1311.0776v4.
    """
    # Q-masses 1/(1 + e^eps) and e^eps/(1 + e^eps), with losses +eps and -eps.
    total = np.logaddexp(0.0, epsilon)
    return Pair(np.array([-total, epsilon - total]), np.array([epsilon, -epsilon]))


def capped(
    values: Callable[[FloatArray], FloatArray], limit: float
) -> Callable[[FloatArray], FloatArray]:
    """Return the smaller of a curve and its bound at infinite order (R never decreases)."""
    return lambda orders: np.minimum(values(orders), limit)


def _pure_curve(epsilon: float, statement: str, source: str) -> Curve:
    at = capped(of_pair(pure_pair(epsilon)), epsilon) if epsilon else np.zeros_like
    return Curve(
        at=at,
        limit=epsilon,
        lower=lowered(at),
        steps=(Step("mechanism", statement, source),),
    )


def lowered(at: Callable[[FloatArray], FloatArray]) -> Callable[[FloatArray], FloatArray]:
    """Return the lower end of a curve that is exact but for the rounding outward."""
    return lambda orders: np.maximum(at(orders) * (2.0 - RENYI_OUTWARD_FACTOR**4), 0.0)


@curve.register(ev.Gaussian)
def gaussian(event: ev.Gaussian, neighbours: Neighbours) -> Curve:
    """R(a) = a c^2 / (2 s^2), with noise multiplier s and c bounds between neighbours.

    Source: Mironov 2017, Proposition 7, arXiv 1702.07476v3.
    """
    c = contribution(neighbours)
    at = quadratic(_rho(event.noise_multiplier, c))
    return Curve(
        at=at,
        limit=math.inf,
        lower=lowered(at),
        steps=(
            Step(
                "mechanism",
                f"Gaussian noise {event.noise_multiplier:.6g}, neighbours {c} apart: "
                f"R(a) = a {c**2} / (2 noise^2).",
                "Mironov 2017, Proposition 7, arXiv 1702.07476v3",
            ),
        ),
    )


def shift_ratio(c: int, noise: float) -> float:
    """Return c / noise, rounded up: the pure epsilon of Laplace noise on neighbours c apart."""
    ratio = c / noise
    # Exact rational comparison: a ratio that was rounded down is raised by one unit.
    if math.isinf(ratio) or Fraction(ratio) * Fraction(noise) >= c:
        return ratio
    return math.nextafter(ratio, math.inf)


def _rho(noise: float, c: int) -> float:
    ratio = c / noise
    return ratio * ratio / 2.0


def matrix_gaussian(event: ev.MatrixGaussian, neighbours: Neighbours) -> Curve:
    """R(a) = a c^2 / (2 s^2), with s the noise over the largest sensitivity of C.

    From below s is the noise over what vectors attain; with a hidden bin nothing is known.

    matrix_bins.py enters it, with what hides under balls in bins.

    Source: Denisov et al. 2022, Theorem 2.1, arXiv 2202.08312, and as for `Gaussian`.
    """
    correlated = correlated_noise(event, neighbours)
    whole, attained = gaussian(correlated.dominating, neighbours), correlated.attained
    lower = None if attained is None else gaussian(attained, neighbours).lower
    return replace(whole, lower=lower, steps=(correlated.step, *whole.steps))


@curve.register(ev.DiscreteGaussian)
def discrete_gaussian(event: ev.DiscreteGaussian, neighbours: Neighbours) -> Curve:
    """R(a) <= a c^2 / (2 s^2), as for continuous noise; with equality at integer orders.

    Completing the square, E_Q[(P/Q)^a] = e^{a(a-1) D^2/(2 t^2)} times a ratio of two sums of
    e^{-x^2/(2 t^2)}, over the integers moved by a D and over the integers; the latter is the
    largest, by Poisson summation.
    Source: Canonne, Kamath and Steinke 2020, Theorem 4, arXiv 2004.00010v5.
    """
    c = contribution(neighbours)
    rho = _rho(event.noise_multiplier, c)
    return Curve(
        at=quadratic(rho),
        limit=math.inf,
        lower=lambda orders: _between_integers(rho, orders),
        steps=(
            Step(
                "mechanism",
                f"Discrete Gaussian noise {event.noise_multiplier:.6g}, neighbours {c} apart: "
                f"R(a) <= a {c**2} / (2 noise^2).",
                "Canonne, Kamath and Steinke 2020, Theorem 4, arXiv 2004.00010v5",
                ("both noise centres are integers",),
            ),
        ),
    )


def _between_integers(rho: float, orders: FloatArray) -> FloatArray:
    """Return what R(a) is at least, where it is rho a at integers n >= 2.

    (a-1) R(a) = f(a) is convex with f(n) = rho n (n-1), so beyond two integers it lies above the
    line through them: that through n - 1 and n, or that through n + 1 and n + 2, n the integer at
    or below a.
    """
    n = np.floor(orders)
    share = orders - n
    from_below = (n - 1.0) * (n + 2.0 * share)
    from_above = (n + 1.0) * (n - 2.0 * (1.0 - share))
    lines = np.where(share > 0.0, np.maximum(from_below, from_above), n * (n - 1.0))
    # A few units of the larger terms are more than what they lose.
    rounded = lines * (2.0 - RENYI_OUTWARD_FACTOR) - 1e-14 * orders**2 * (share > 0.0)
    return np.asarray(rho * np.maximum(rounded, 0.0) / (orders - 1.0) * (1.0 - 1e-14))


@curve.register(ev.Laplace)
def laplace(event: ev.Laplace, neighbours: Neighbours) -> Curve:
    """R(a) = 1/(a-1) log(a/(2a-1) e^{(a-1)t} + (a-1)/(2a-1) e^{-a t}), with t = c / scale.

    The scale is in contribution bounds.  The logarithm is convex in t and 0 at t = 0, so a
    contribution that is spread over coordinates costs no more than one that is not.
    Source: Mironov 2017, Proposition 6, arXiv 1702.07476v3.
    """
    t = shift_ratio(contribution(neighbours), event.noise_multiplier)
    shown = Step(
        "mechanism",
        f"Laplace noise of scale {event.noise_multiplier:.6g}, neighbours "
        f"{contribution(neighbours)} apart in L1.",
        "Mironov 2017, Proposition 6, arXiv 1702.07476v3",
    )
    if t < 1e-5:  # the closed form would cancel; the bound below is as good to a factor 1 + t
        return replace(_pure_curve(t, "", ""), steps=(shown,), lower=None)
    at = capped(lambda orders: _laplace(orders, t), t)
    # Attained by a contribution in one coordinate; the closed form is rounded up by 1e-10.
    return Curve(at=at, limit=t, steps=(shown,), lower=lambda orders: at(orders) * (1.0 - 4e-10))


def _laplace(orders: FloatArray, t: float) -> FloatArray:
    beta, twice = orders - 1.0, 2.0 * orders - 1.0
    # Up to e^600 through expm1, so that small divergences keep their digits; then the leading term.
    grown = beta * t
    excess = orders / twice * np.expm1(np.minimum(grown, 600.0)) + beta / twice * np.expm1(
        -orders * t
    )
    moments = np.where(grown < 600.0, np.log1p(excess), grown + np.log(orders / twice) + 1e-15)
    return np.asarray(moments / beta * (1.0 + 1e-10))


@curve.register(ev.DiscreteLaplace)
def discrete_laplace(event: ev.DiscreteLaplace, neighbours: Neighbours) -> Curve:
    """R(a) of two discrete Laplace distributions whose integer centres lie c D apart.

    Exact up to 1,024 integers between the centres, else an upper bound; see `laplace_pair`.
    Source: Ghosh, Roughgarden and Sundararajan 2012 (the mechanism), arXiv 0811.2841v3.
    """
    c = contribution(neighbours)
    t = shift_ratio(c, event.noise_multiplier)
    at = capped(of_pair(laplace_pair(t, c * event.sensitivity)), t)
    return Curve(
        at=at,
        limit=t,
        lower=lowered(at) if c * event.sensitivity <= MAX_LAPLACE_POINTS else None,
        steps=(
            Step(
                "mechanism",
                f"Discrete Laplace noise {event.noise_multiplier:.6g}, neighbours {c} apart: the "
                "sum over its losses.",
                "Ghosh, Roughgarden and Sundararajan 2012, arXiv 0811.2841v3",
                ("both noise centres are integers",),
            ),
        ),
    )


MAX_LAPLACE_POINTS: Final = 1024
"""Most steps between two points of discrete Laplace noise that are not joined."""


def laplace_pair(t: float, steps: int | None, most: int = MAX_LAPLACE_POINTS) -> Pair:
    """Return points that stand for discrete Laplace noise with `steps` integers per shift t.

    With x_0 = 0 < ... < x_n = t the multiples of t/steps, the loss at x_j is 2 x_j - t and its
    Q-mass e^{-x_j} (tanh(w_j/2) + tanh(w_{j+1}/2))/2, where w are the widths on either side
    (infinite at the ends).  On a coarser set of x these are the masses after each point between
    two of them has been split onto both, so that P and Q keep their sums: a mean-preserving
    spread of P/Q, which can only raise a divergence.  So it also bounds continuous Laplace noise
    (`steps` None), whose points are all of [0, t].  The spread multiplies R - R_exact by about
    the square of t / most.
    Source: the spread is the connect-the-dots argument of Doroshenko, Ghazi, Kamath, Kumar and
    Manurangsi 2022, arXiv 2207.04380v1.
    """
    x: FloatArray
    if steps is None:
        x = np.linspace(0.0, t, most + 1)
    elif steps <= most:
        x = np.asarray(np.arange(steps + 1) * (t / steps), np.float64)
    else:
        integers = np.unique(np.round(np.linspace(0.0, steps, most + 1)))
        x = np.asarray(integers * (t / steps), np.float64)
    # Q-mass over e^-x: tanh of half the widths on both sides, which are infinite at the ends.
    half = np.tanh(np.diff(x) / 2.0) / 2.0
    share = np.concatenate(([0.5], half)) + np.concatenate((half, [0.5]))
    return Pair(np.log(share) - x, 2.0 * x - t)
