"""The least rho of a mechanism, from its Renyi curve: R(a) <= rho a at every order a > 1."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ..arrays import FloatArray
from ..engines.rdp.curves import Curve
from ..engines.rdp.moments import RENYI_OUTWARD_FACTOR

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
