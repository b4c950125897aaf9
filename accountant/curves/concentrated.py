"""`zcdp`: the least rho of an event, and the noise that a rho allows.

An event is rho-zCDP where R(a) <= rho a at every order a > 1, so its least rho is the supremum of
R(a)/a.  Releases add up: rho of a sequence is at most the sum.

**Poisson samples of Gaussian noise gain nothing.**  With P = (1-q) Q + q P', E_Q[(P/Q)^a] is at
least q^a E_Q[(P'/Q)^a], so R(a) >= R'(a) + a log(q)/(a-1), and R(a)/a has the limit of R'(a)/a as a
grows.  For Gaussian noise R'(a)/a is rho at every order, so any sampling rate above 0 has that
rho.  Under replace-one the same holds of the part of the line where Q is below N(0): the limit is
then the rho of one bound, and that of two bounds is still an upper end.

**Correlated noise** is a Gaussian release of the noise over the sensitivity of its strategy.  A bin
that is drawn and hidden shows no more than one that is known.

**Groups.**  k records together have at most k^2 rho, along any chain of data sets.

Source: Bun and Steinke 2016, Definition 1.1, Lemma 2.3 (composition) and Proposition 1.9 (groups),
arXiv 1605.02065v1; the limits are derived here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

import numpy as np

from .. import events as ev
from .. import validate
from ..arrays import FloatArray
from ..composition import Composition, Leaf
from ..engines.base import contribution, guarded
from ..engines.correlated_noise import correlated_noise
from ..engines.rdp.curves import Curve
from ..engines.rdp.moments import RENYI_OUTWARD_FACTOR
from ..guarantee import Bounds, Step, unique_steps
from ..neighbours import Neighbours, as_neighbours
from .renyi_curve import checked_ends, counted_curves, lower_divergence, upper_divergence

_RHO_TOLERANCE_RELATIVE: Final = 1e-5
"""Relative distance to the supremum of R(a)/a at which the search stops."""

_MAX_ORDERS: Final = 20_000
_BLOCK_ORDERS: Final = 256
"""Orders that are evaluated together, so that curves given as points need little memory."""


def least_rho(renyi: Curve) -> float:
    """Return a rho with R(a) <= rho a for every a > 1, rounded up; infinite where none is known.

    For a pure epsilon (`renyi.limit`), R(a) is at most epsilon, and at most a epsilon^2/2.  The
    search is tighter.  Above the last order A that is looked at, R(a)/a is at most epsilon / A.
    Between two orders it is at most R at the upper one over the lower one, because R never
    decreases; and at most the largest product of two chords, of (a-1) R(a) and of 1/(a(a-1)),
    because both are convex.  Intervals are halved while that is more than 1e-5 above the largest
    R(a)/a that was met.

    Source: Bun and Steinke 2016, Proposition 3.3, arXiv 1605.02065v1 (epsilon^2/2); van Erven and
    Harremoes 2014, Theorem 3 and Corollary 2, arXiv 1206.2459v2 (monotone, convex); the search is
    derived here.
    """
    limit = renyi.limit
    if limit == 0.0:
        return 0.0
    if math.isinf(limit):
        return math.inf
    closed_form = min(limit, limit * limit / 2.0 * RENYI_OUTWARD_FACTOR)
    orders = np.geomspace(1.0, 16.0 + 16.0 / limit, 64)
    values = _at(renyi, orders[1:])
    while True:
        # Lower ends: R(a)/a at the orders that were evaluated; upper ends between them.
        ratios = values / orders[1:]
        least = float(ratios.max(initial=0.0))
        bounds = _interval_bounds(orders, values)
        # Above the last order R(a)/a is at most epsilon / A: go on until that is no larger.
        if least > 0.0 and limit / orders[-1] > least:
            more = np.geomspace(orders[-1], min(1.01 * limit / least, 1e300), 16)[1:]
            orders, values = np.append(orders, more), np.append(values, _at(renyi, more))
            continue
        # Halve, on a log scale, the intervals whose bound is still too loose.
        loose = bounds > least * (1.0 + _RHO_TOLERANCE_RELATIVE)
        if not loose.any() or orders.size + int(loose.sum()) > _MAX_ORDERS:
            break
        middles = np.sqrt(orders[:-1][loose] * orders[1:][loose])
        middles = middles[(middles > orders[:-1][loose]) & (middles < orders[1:][loose])]
        if not middles.size:
            break
        orders = np.append(orders, middles)
        values = np.append(values, _at(renyi, middles))
        order = np.argsort(orders)
        # `orders` has one more entry than `values`: the 1.0 in front.
        values = values[order[1:] - 1]
        orders = orders[order]
    bound = max(float(bounds.max()), limit / float(orders[-1])) * RENYI_OUTWARD_FACTOR
    return min(closed_form, bound)


def _interval_bounds(orders: FloatArray, values: FloatArray) -> FloatArray:
    """Return upper bounds on R(a)/a between neighbouring orders; `values` belong to orders[1:]."""
    # R never decreases: R(a)/a <= R(upper) / lower.
    monotone = values / orders[:-1]
    lower, upper = orders[1:-1], orders[2:]
    # Chords of the convex (a-1) R(a) and 1/(a(a-1)): their largest product bounds R(a)/a.
    g0, g1 = (lower - 1.0) * values[:-1], (upper - 1.0) * values[1:]
    d0, d1 = 1.0 / (lower * (lower - 1.0)), 1.0 / (upper * (upper - 1.0))
    rise, fall = g1 - g0, d1 - d0
    with np.errstate(divide="ignore", invalid="ignore"):
        peak = np.clip(-(g0 * fall + d0 * rise) / (2.0 * rise * fall), 0.0, 1.0)
    # A peak that is off by rounding loses its square, far less than what is added.
    peak = np.where(np.isnan(peak), 0.0, peak)
    product = (g0 + peak * rise) * (d0 + peak * fall)
    convex = np.maximum(product, np.maximum(g0 * d0, g1 * d1)) * (1.0 + 1e-10)
    return np.append(monotone[:1], np.minimum(monotone[1:], convex))


def _at(renyi: Curve, orders: FloatArray) -> FloatArray:
    blocks = np.split(orders, range(_BLOCK_ORDERS, orders.size, _BLOCK_ORDERS))
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.concatenate([renyi.at(block) for block in blocks])
    return np.where(np.isnan(values), renyi.limit, np.minimum(values, renyi.limit))


_SUMS: Final = (ev.Gaussian, ev.DiscreteGaussian)
_SEARCHED_ORDERS: Final = 1.0 + np.geomspace(1e-4, 1e6, 96)
"""Where R(a)/a is looked at for the lower end."""

_BY_DEFINITION: Final = "Bun and Steinke 2016, Definition 1.1, arXiv 1605.02065v1"


@dataclass(frozen=True)
class ZcdpGuarantee:
    """The least `rho` with R(a) <= rho a at every order, between bounds; the upper end is proven.

    It is infinite where no rho is known; `warnings` say why.
    """

    rho: Bounds
    neighbours: Neighbours
    derivation: tuple[Step, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)


def zcdp(event: ev.EventLike, *, neighbours: str = "add-remove") -> ZcdpGuarantee:
    """Return bounds on the least rho at which an event is rho-zCDP.

        rho = sup over a > 1 of R(a)/a

    Poisson sampling of Gaussian noise has the rho of the noise alone: R(a)/a tends to it as a
    grows.  An event with a delta of its own, or known at a few orders only, has none (infinite).

    Raises `InvalidInput` for values out of range, `Unsupported` for a release or relation whose
    Renyi divergence is not known here.
    Source: Bun and Steinke 2016, Definition 1.1, arXiv 1605.02065v1.

    >>> zcdp(ev.Repeat(50, ev.Gaussian(5.0))).rho.upper
    1.0
    >>> zcdp(ev.Poisson(0.01, ev.Gaussian(5.0))).rho == zcdp(ev.Gaussian(5.0)).rho
    True
    """
    relation = as_neighbours(neighbours)
    parts = Composition.of(ev.known_event(event))
    with guarded("rdp"):
        curves = counted_curves(parts, relation)
        upper, unbounded = _upper(curves, relation)
        lower = _lower(curves, relation)
    checked_ends(np.array([lower]), np.array([upper]), "Rho")
    step = Step("conversion", f"R(a) <= {upper:.6g} a at every order a > 1.", _BY_DEFINITION)
    sampled = tuple(
        Step(
            "sampling",
            "Poisson sampling of Gaussian noise has the rho of the noise alone, the limit of "
            "R(a)/a as a grows.",
            "derived in accountant/curves/concentrated.py",
        )
        for leaf in parts
        if isinstance(leaf.event, ev.Poisson) and isinstance(leaf.event.event, _SUMS)
    )
    steps = (step for part, _ in curves[:16] for step in part.steps)
    warnings = tuple(
        f"No finite rho is known for `{leaf.event.type}`: {_reason(part)}"
        for part, leaf in unbounded[:1]
    )
    derivation = unique_steps((*steps, *sampled[:1], step))
    return ZcdpGuarantee(Bounds(lower, upper), relation, derivation, warnings)


def noise_for_rho(rho: float, *, rounds: int = 1, neighbours: str = "add-remove") -> float:
    """Return the smallest noise multiplier of Gaussian noise with which `rounds` sums are rho-zCDP.

        noise = c sqrt(rounds / (2 rho)),   c = 2 under replace-one, else 1

    rounded up, so that rounds c^2 / (2 noise^2) <= rho holds exactly.  Range: `rho` above 0,
    `rounds` 1 or above.  Raises `InvalidInput` for values out of range.
    Source: Bun and Steinke 2016, Proposition 1.6, arXiv 1605.02065v1.

    >>> noise_for_rho(0.5), noise_for_rho(0.5, rounds=4, neighbours="replace-one")
    (1.0, 4.0)
    """
    budget = Fraction(validate.positive(rho=rho))
    count = validate.count(rounds=rounds)
    c = contribution(as_neighbours(neighbours))
    noise = c * math.sqrt(count / 2.0) / math.sqrt(rho)
    # The float below may do as well: first down, then up to the least that does.
    noise = math.nextafter(math.nextafter(noise, 0.0), 0.0)
    while Fraction(noise) ** 2 * 2 * budget < count * c * c:
        noise = math.nextafter(noise, math.inf)
    return noise


def _upper(
    curves: Sequence[tuple[Curve, Leaf]], relation: Neighbours
) -> tuple[float, list[tuple[Curve, Leaf]]]:
    """Return the sum of the rhos, rounded up, and the leaves that have none."""
    bounded = [(part, leaf) for part, leaf in curves if _is_bounded(part)]
    others = [(part, leaf) for part, leaf in curves if not _is_bounded(part)]
    closed = [_closed_form(leaf.event, relation) for _, leaf in others]
    if any(rho is None for rho in closed):
        without = [each for each, rho in zip(others, closed, strict=True) if rho is None]
        return math.inf, without
    total = sum(
        (
            rho * leaf.count
            for rho, (_, leaf) in zip(closed, others, strict=True)
            if rho is not None
        ),
        Fraction(0),
    )
    # Bounded losses: the supremum of their summed curves, at most the sum of the suprema.
    if bounded:
        limit = math.fsum(leaf.count * part.limit for part, leaf in bounded) * (1.0 + 1e-15)
        summed = Curve(lambda orders: upper_divergence(bounded, orders), limit, ())
        total += Fraction(least_rho(summed))
    return _rounded_up(total), []


def _is_bounded(part: Curve) -> bool:
    return math.isfinite(part.limit) and part.slack == 0.0


def _closed_form(event: ev.Event, relation: Neighbours) -> Fraction | None:
    """Return a rho of one release without a largest loss; None where none is known."""
    match event:
        case ev.Gaussian() | ev.DiscreteGaussian():
            shift = Fraction(contribution(relation)) / Fraction(event.noise_multiplier)
            return shift * shift / 2
        case ev.MatrixGaussian():
            return _closed_form(correlated_noise(event, relation).dominating, relation)
        case ev.ZCDP(rho):
            return Fraction(rho)
        case ev.Poisson(_, ev.Gaussian() | ev.DiscreteGaussian() as inner):
            return _closed_form(inner, relation)
        # A batch reveals no more than a release of which one unit is replaced, or set to zero.
        case ev.FixedSize(_, _, ev.Gaussian() | ev.DiscreteGaussian() as inner):
            return _closed_form(inner, "zero-out" if relation == "zero-out" else "replace-one")
        case ev.Group(size, inner):
            one_record = _closed_form(inner, relation)
            return None if one_record is None else size * size * one_record
        # A mixture is at most as far from another as its farthest components are (convexity).
        case ev.GaussianMixture(noise, amounts, _):
            shift = Fraction(contribution(relation)) * Fraction(max(amounts)) / Fraction(noise)
            return shift * shift / 2
        case ev.WithReplacement(batch, _, ev.Gaussian() | ev.DiscreteGaussian() as inner):
            whole = _closed_form(inner, "zero-out" if relation == "zero-out" else "replace-one")
            return None if whole is None else batch * batch * whole
        case ev.ClientSampled(_, inner):
            parts = [
                (_closed_form(leaf.event, relation), leaf.count) for leaf in Composition.of(inner)
            ]
            if any(rho is None for rho, _ in parts):
                return None
            return sum((rho * count for rho, count in parts if rho is not None), Fraction(0))
    return None


def _lower(curves: Sequence[tuple[Curve, Leaf]], relation: Neighbours) -> float:
    """Return what R(a)/a exceeds or tends to: the largest at some orders, and the limit."""
    ratios = lower_divergence(curves, _SEARCHED_ORDERS) / _SEARCHED_ORDERS
    # Once more around the largest; a poor search costs tightness alone.
    near = int(ratios.argmax())
    last = _SEARCHED_ORDERS.size - 1
    ends = _SEARCHED_ORDERS[max(near - 1, 0)], _SEARCHED_ORDERS[min(near + 1, last)]
    closer = np.geomspace(*ends, 64)
    largest = max(ratios.max(), (lower_divergence(curves, closer) / closer).max())
    at_infinity = sum(
        (leaf.count * _limit(leaf.event, relation) for _, leaf in curves if leaf.fully_observed),
        Fraction(0),
    )
    return max(float(largest) * (1.0 - 1e-15), _rounded_down(at_infinity))


def _limit(event: ev.Event, relation: Neighbours) -> Fraction:
    """Return what R(a)/a tends to at least, as a grows."""
    match event:
        case ev.Poisson(rate, ev.Gaussian() as inner) if rate > 0.0:
            return 1 / Fraction(inner.noise_multiplier) ** 2 / 2
        case ev.MatrixGaussian():
            attained = correlated_noise(event, relation).attained
            return Fraction(0) if attained is None else _limit(attained, relation)
        case ev.Gaussian() | ev.DiscreteGaussian() | ev.ZCDP():
            return _closed_form(event, relation) or Fraction(0)
    return Fraction(0)


def _reason(part: Curve) -> str:
    if part.slack > 0.0:
        return "it may reveal everything with a small probability."
    return "its Renyi divergence is not known to grow in proportion to the order."


def _rounded_up(value: Fraction) -> float:
    near = _nearest(value)
    return near if near == math.inf or Fraction(near) >= value else math.nextafter(near, math.inf)


def _rounded_down(value: Fraction) -> float:
    near = _nearest(value)
    return near if near < math.inf and Fraction(near) <= value else math.nextafter(near, 0.0)


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
