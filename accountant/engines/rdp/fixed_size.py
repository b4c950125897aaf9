"""Renyi curves under sampling of a fixed number of units without replacement.

Two bounds under replace-one.  `amplified` needs no more than the base curve.  `profile_pair` needs
a pair (P, Q) that dominates the base release and that an involution swaps.

**Why the profile holds.**  Replace unit x by x'.  With probability q = batch / population it is
in the sample, so the outputs are (1-q) A + q B and (1-q) A + q B', where A, B and B' are averages
over samples that can be matched one to one so that any two of them differ in one place.  By
advanced joint convexity, for c >= 1,

    H_{1+q(c-1)}((1-q)A + qB || (1-q)A + qB') = q H_c(B || (1-s)A + sB'),  s in [0, 1],

which is at most q H_c(P||Q) = H_{1+q(c-1)}((1-q)Q + qP || Q).  Orders below 1 follow by exchanging
the two data sets: there the hockey stick is at most that of P against (1-q)P + qQ.  Finally

    r^a = 1 + a(r-1) + int_1^oo f''(c) (r-c)_+ dc + int_0^1 f''(c) (c-r)_+ dc,   f(c) = c^a,

turns a bound on all hockey sticks into one on E[r^a]: the part of (1+u)^a - 1 - a u where u > 0
comes from the first pair, the part where u < 0 from the second.

**Add-remove.**  Compare n units with the same without one, m drawn either way: the outputs are
(1-q) A + q B and A with A and B as above, so the pair is (1-q) Q + q P against Q for every order,
where P and Q differ in one replaced unit: two steps of the release.
Source: Balle, Barthe and Gaboardi 2018, Theorem 2, arXiv 1807.01647v2; Zhu, Dong and Wang 2022,
arXiv 2106.08567v4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Final

import numpy as np
from scipy.special import gammaln, roots_legendre

from ... import events as ev
from ...arrays import FloatArray
from ...composition import Composition, Leaf
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from ..base import require_both_drawn
from .curves import Curve, curve, interpolated, laplace_pair, pure_pair, shift_ratio
from .joint import joint, joint_of_leaves
from .moments import (
    MAX_QUADRATURE_NODES,
    MAX_QUADRATURE_NOISE,
    MIN_QUADRATURE_NOISE,
    RENYI_OUTWARD_FACTOR,
    Pair,
    mixed,
    renyi,
)
from .releases import response_pair

MAX_SUMMED_ORDER: Final = 20_000
"""Integer orders beyond this get the curve without sampling instead."""

_GAUSS_LEGENDRE_POINTS: Final = 16

Profile = Callable[[float, FloatArray], FloatArray]
"""From the rate and orders to bounds on R; infinite where there is none."""


@curve.register(ev.FixedSize)
def fixed_size(event: ev.FixedSize, neighbours: Neighbours) -> Curve:
    """The curve of a release on a fixed-size sample.

    A batch that is the whole population is the base event, unless a unit may be gone.  Raises
    `Unsupported` for a base that is itself sampled or that has a delta.  Several releases on one
    sample are one release, whose curve is the sum of theirs.
    """
    if event.batch == event.population:
        require_both_drawn(event.batch, event.population, neighbours)
        return joint(event.event, neighbours)
    rate = event.batch / event.population
    sampled = without_replacement(event.event, rate, neighbours)
    how = f"{event.batch} of {event.population} units without replacement."
    last = sampled.steps[-1]
    return replace(sampled, steps=(*sampled.steps[:-1], replace(last, statement=how)))


def without_replacement(inner: ev.Event, rate: float, neighbours: Neighbours) -> Curve:
    """Return the curve of `inner` on a sample of a fixed size, `rate` of the population (below 1).

    Replace-one: the smaller of the two bounds of this module and the base curve (a replaced unit
    changes at most one place of the sample).  Zero-out is a case of it; a guarantee that is stated
    for zero-out counts twice then, for a unit that gives way to another goes by way of zero.
    Add-remove: the curve under Poisson sampling of two steps of the base, as a drawn unit stands
    in for another one; see the docstring of the module.
    """
    if neighbours == "add-remove":
        return _present_or_absent(inner, rate)
    conditions = ["replace-one, for the base curve too"]
    parts = Composition.of(inner)
    if neighbours == "zero-out":
        conditions = ["a unit at 0 is one value that may replace it"]
        # A release whose noise says what any change costs is asked as it is.
        parts = Composition(leaf for each in parts for leaf in _by_way_of_zero(each))
    _refuse_other_than_unsampled(inner, parts)
    base = joint_of_leaves(parts, "replace-one")
    if base.slack > 0.0:
        raise _refused(inner)
    if rate == 1.0:  # rounded; all curves grow with the rate
        return base
    # The pure epsilon under sampling: log(1 + q (e^eps - 1)).
    limit = base.limit
    if 0.0 < limit < 700.0:
        limit = math.log1p(rate * math.expm1(limit)) * RENYI_OUTWARD_FACTOR
    single = parts.single
    make = None if single is None else _PROFILES.get(type(single))
    at = _smallest(base, rate, limit, make(single) if make else None)
    source = (
        "Balle, Barthe and Gaboardi 2018, Theorem 2, arXiv 1807.01647v2; Zhu, Dong and Wang 2022, "
        "arXiv 2106.08567v4"
        if make
        else "Wang, Balle and Kasiviswanathan 2019, Theorem 9 and Corollary 10, arXiv 1808.00087v2"
    )
    step = Step("sampling", f"A sample of fixed size, rate {rate:.6g}.", source, tuple(conditions))
    return Curve(at, limit, (*base.steps, step))


def _by_way_of_zero(leaf: Leaf) -> Composition:
    if isinstance(leaf.event, _SUMS):
        return Composition([leaf])
    twice = Composition.of(ev.Group(2, leaf.event))
    return Composition(replace(each, count=each.count * leaf.count) for each in twice)


def named(inner: ev.Event) -> str:
    """Return what is sampled in words: each release of a composition by its type."""
    if not isinstance(inner, (ev.Compose, ev.Repeat)):
        return f"`{inner.type}`"
    return " and ".join(dict.fromkeys(f"`{leaf.event.type}`" for leaf in Composition.of(inner)))


def _refuse_other_than_unsampled(inner: ev.Event, parts: Composition) -> None:
    if not parts or any(type(leaf.event) not in UNSAMPLED for leaf in parts):
        raise _refused(inner)


def _refused(inner: ev.Event) -> Unsupported:
    return Unsupported(
        f"The rdp engine cannot account for fixed-size sampling of {named(inner)}.",
        "The amplification bound is only used here for an unsampled release with a Renyi "
        "curve at every order.",
        "Leave the choice of the engine to privplan.",
        otherwise="Account for it without sampling, under replace-one: a batch reveals no more "
        "than that.",
    )


def _present_or_absent(inner: ev.Event, rate: float) -> Curve:
    parts = Composition.of(inner)
    known = all(type(leaf.event) in UNSAMPLED - {ev.ZCDP} for leaf in parts)
    twice = _two_steps(inner, parts) if parts and known else None
    if twice is None:
        raise Unsupported(
            f"The rdp engine cannot account for fixed-size sampling of {named(inner)} under "
            "add-remove.",
            "A drawn unit stands in for another one, and the Renyi curve of that alone does not "
            "bound what a sample of it reveals.",
            "Ask under replace-one, or leave the choice of the engine to privplan.",
            otherwise="Ask under replace-one.",
        )
    sampled = curve(ev.Poisson(rate, twice), "add-remove")
    step = Step(
        "sampling",
        f"A sample of fixed size, rate {rate:.6g}.",
        "the pair of Poisson sampling with two steps of the release: derived in "
        "engines/rdp/fixed_size.py",
        ("the sample is as large with the unit as without it",),
    )
    return replace(sampled, steps=(*sampled.steps, step))


def _two_steps(inner: ev.Event, parts: Composition) -> ev.Event | None:
    """Return a release that dominates two steps of all in `inner`; None where none is known."""
    grown = Composition.of(ev.Group(2, inner))
    single = grown.single
    if single is not None:
        return single
    if parts.single is not None:
        return None
    # Several: binary randomized response at their largest losses together dominates them.
    together = joint_of_leaves(grown, "add-remove")
    bounded = math.isfinite(together.limit) and together.slack == 0.0
    return ev.Pure(together.limit) if bounded else None


def _smallest(
    base: Curve, rate: float, limit: float, profile: Profile | None
) -> Callable[[FloatArray], FloatArray]:
    general = amplified(base, rate)

    def at(orders: FloatArray) -> FloatArray:
        values = np.minimum(base.at(orders), limit)
        if profile is not None:
            sharper = profile(rate, orders)
            values = np.minimum(values, sharper)
            # The general bound is dear: only at orders that the profile does not reach.
            missing = np.isinf(sharper)
        else:
            missing = np.ones(orders.shape, dtype=bool)
        if missing.any():
            values[missing] = np.minimum(values[missing], general(orders[missing]))
        return values

    return at


def amplified(base: Curve, rate: float) -> Callable[[FloatArray], FloatArray]:
    """Return the bound that holds for every base curve e, by its values at integers a >= 2.

    With q the rate and e(inf) the limit of e,

        (a-1) R(a) <= log(1 + q^2 C(a,2) min(4(e^{e(2)} - 1), e^{e(2)} min(2, (e^{e(inf)} - 1)^2))
                            + sum_{j=3}^a q^j C(a,j) e^{(j-1) e(j)} min(2, (e^{e(inf)} - 1)^j)),

    interpolated between integers.
    Source: Wang, Balle and Kasiviswanathan 2019, Theorem 9 and Corollary 10, arXiv 1808.00087v2.
    """
    return interpolated(lambda orders: _at_integers(base, rate, orders))


def _at_integers(base: Curve, rate: float, orders: FloatArray) -> FloatArray:
    values = base.at(orders)
    summed = orders <= MAX_SUMMED_ORDER
    if not summed.any():
        return values
    # Terms without C(a, j)'s part in a are common to all orders, and computed once.
    j = np.arange(2.0, orders[summed].max() + 1.0)
    terms = _log_terms(base, rate, j)
    for index in np.flatnonzero(summed):
        a = orders[index]
        upto = slice(0, int(a) - 1)
        logs = terms[upto] - gammaln(a - j[upto] + 1.0) + gammaln(a + 1.0)
        # log(1 + sum of terms), raised by the rounding of gammaln, which grows with a.
        moment = np.logaddexp(0.0, _log_sum(logs) + 1e-13 * a)
        values[index] = min(values[index], moment / (a - 1.0) * RENYI_OUTWARD_FACTOR)
    return values


def _log_terms(base: Curve, rate: float, j: FloatArray) -> FloatArray:
    """Return the logarithms of the summands, without the a-dependent part of C(a, j)."""
    at = base.at(j)
    log_ratio = _log_expm1(base.limit) if 0.0 < base.limit < 1.0 else math.inf
    tails = (j - 1.0) * at + np.minimum(math.log(2.0), j * log_ratio)
    # j = 2 has a bound of its own, min(4 (e^e(2) - 1), e^e(2) min(2, ...)).
    tails[0] = min(_log_expm1(float(at[0])) + math.log(4.0), tails[0])
    return np.asarray(j * math.log(rate) - gammaln(j + 1.0) + tails)


def _log_expm1(x: float) -> float:
    if x == 0.0:
        return -math.inf
    return x + math.log(-math.expm1(-x))


def _log_sum(logs: FloatArray) -> float:
    peak = float(logs.max())
    if math.isinf(peak):
        return peak
    return peak + math.log(float(np.exp(logs - peak).sum()))


def profile_pair(rate: float, base: Pair) -> Pair:
    """Return the points whose sum of (1+u)^a - 1 - a u bounds E[r^a] - 1 for the sample.

    Points of `base` with P > Q become (1-q)Q + qP against Q, those with P < Q become P against
    (1-q)P + qQ; the masses no longer add up to 1, which that sum does not need.
    """
    # P > Q: the pair (1-q)Q + qP against Q; P < Q: P against (1-q)P + qQ.
    up, down = base.losses > 0.0, base.losses < 0.0
    below = base.losses[down]
    other = mixed(rate, -below)
    return Pair(
        np.concatenate((base.log_weights[up], base.log_weights[down] + below + other)),
        np.concatenate((mixed(rate, base.losses[up]), -other)),
    )


def _gaussian_profile(event: ev.Gaussian) -> Profile:
    sigma = event.noise_multiplier

    def at(rate: float, orders: FloatArray) -> FloatArray:
        values = np.full_like(orders, np.inf)
        if not MIN_QUADRATURE_NOISE < sigma < MAX_QUADRATURE_NOISE:
            return values
        # Compared as Python's integers: at orders such as 1e18 a count overflows.
        fits = np.array(
            [
                _panels(sigma, a)[2] * _GAUSS_LEGENDRE_POINTS < MAX_QUADRATURE_NODES
                for a in orders.tolist()
            ]
        )
        if fits.any():
            base = _gaussian_base(sigma, float(orders[fits].max()))
            values[fits] = renyi(profile_pair(rate, base), orders[fits])
        return values

    return at


def _panels(sigma: float, order: float) -> tuple[FloatArray, FloatArray, int]:
    """Return the widths of panels left and right of the midpoint 1, and how many there are.

    Gauss-Legendre with 16 points errs by about 6^-32 times the integrand's size on the ellipse
    of sum of half-axes 6 half-widths.  Its half-height is 2.9 half-widths, less than
    pi sigma^2 / 2, where the mixture has its zeros; on the left the mixture is raised to 1 - a,
    and the height is kept to where that is at most about e^10 larger.
    """
    # Panels short enough for the poles pi sigma^2/2 off the line; left also for the power 1 - a.
    right = min(0.75 * sigma, sigma * sigma)
    left = min(right, 3.0 * sigma * sigma / math.sqrt(order))
    reach_left, reach_right = 2.0 + 11.0 * sigma, 2.0 * order + 11.0 * sigma
    count_left, count_right = math.ceil(reach_left / left), math.ceil(reach_right / right)
    if (count_left + count_right) * _GAUSS_LEGENDRE_POINTS >= MAX_QUADRATURE_NODES:
        return np.empty(0), np.empty(0), count_left + count_right
    return np.full(count_left, left), np.full(count_right, right), count_left + count_right


def _gaussian_base(sigma: float, order: float) -> Pair:
    """Return quadrature nodes of N(2, sigma^2) against N(0, sigma^2), split where they cross."""
    left, right, _ = _panels(sigma, order)
    widths = np.concatenate((left, right))
    starts = 1.0 - left.sum() + np.concatenate(([0.0], np.cumsum(widths)[:-1]))
    # Panels meet at 1, where both densities cross and the two pairs take over.
    starts[left.size :] = 1.0 + np.concatenate(([0.0], np.cumsum(right)[:-1]))
    nodes, weights = _legendre()
    distance = starts[:, None] - 1.0 + widths[:, None] * (nodes + 1.0) / 2.0
    density = -(((distance + 1.0) / sigma) ** 2) / 2.0 - math.log(sigma * math.sqrt(2.0 * math.pi))
    log_weights = density + np.log(widths[:, None] * weights / 2.0)
    return Pair(log_weights.ravel(), (2.0 * distance / sigma**2).ravel())


@cache
def _legendre() -> tuple[FloatArray, FloatArray]:
    nodes, weights = roots_legendre(_GAUSS_LEGENDRE_POINTS)
    return np.asarray(nodes), np.asarray(weights)


def _of_pair(base: Pair) -> Profile:
    return lambda rate, orders: renyi(profile_pair(rate, base), orders)


def _laplace_profile(event: ev.Laplace) -> Profile:
    return _of_pair(laplace_pair(shift_ratio(2, event.noise_multiplier), None))


def _discrete_laplace_profile(event: ev.DiscreteLaplace) -> Profile:
    return _of_pair(laplace_pair(shift_ratio(2, event.noise_multiplier), 2 * event.sensitivity))


_PROFILES: Final[dict[type[ev.Event], Callable[[Any], Profile]]] = {
    ev.Gaussian: _gaussian_profile,
    ev.Laplace: _laplace_profile,
    ev.DiscreteLaplace: _discrete_laplace_profile,
    ev.Pure: lambda event: _of_pair(pure_pair(event.epsilon)),
    ev.Local: lambda event: _of_pair(pure_pair(event.epsilon)),
    ev.RandomizedResponse: lambda event: _of_pair(response_pair(event.epsilon, event.categories)),
}
"""Base events whose dominating pair under replace-one is known and symmetric."""

_SUMS: Final = (ev.Gaussian, ev.Laplace, ev.DiscreteGaussian, ev.DiscreteLaplace)
"""Releases whose noise says what any change of a unit costs."""

UNSAMPLED: Final = frozenset(
    {*_SUMS, *_PROFILES, ev.Exponential, ev.Approximate, ev.ZCDP, ev.NoGuarantee}
)
"""Releases that a sample of a fixed size is accounted around."""
