"""The least rho of a mechanism, from its Renyi curve: R(a) <= rho a at every order a > 1."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ..engines.rdp.curves import Curve
from ..engines.rdp.moments import OUTWARD, FloatArray

_TIGHT: Final = 1e-5
"""Relative distance to the supremum of R(a)/a at which the search stops."""

_MOST_ORDERS: Final = 20_000
_AT_ONCE: Final = 256
"""Orders that are evaluated together, so that curves given as points need little memory."""


def least_rho(found: Curve) -> float:
    """Return a rho with R(a) <= rho a for every a > 1, rounded up; infinite where none is known.

    For a pure epsilon (`found.limit`), R(a) is at most epsilon, and at most a epsilon^2/2.  The
    search is tighter.  Above the last order A that is looked at, R(a)/a is at most epsilon / A.
    Between two orders it is at most R at the upper one over the lower one, because R never
    decreases; and at most the largest product of two chords, of (a-1) R(a) and of 1/(a(a-1)),
    because both are convex.  Intervals are halved while that is more than 1e-5 above the largest
    R(a)/a that was met.

    Source: Bun and Steinke 2016, Proposition 3.3, arXiv 1605.02065v1 (epsilon^2/2); van Erven and
    Harremoes 2014, Theorem 3 and Corollary 2, arXiv 1206.2459v2 (monotone, convex); the search is
    derived here.
    """
    limit = found.limit
    if limit == 0.0:
        return 0.0
    if math.isinf(limit):
        return math.inf
    known = min(limit, limit * limit / 2.0 * OUTWARD)
    orders = np.geomspace(1.0, 16.0 + 16.0 / limit, 64)
    values = _at(found, orders[1:])
    while True:
        ratios = values / orders[1:]
        least = float(ratios.max(initial=0.0))
        above = _between(orders, values)
        if least > 0.0 and limit / orders[-1] > least:
            more = np.geomspace(orders[-1], min(1.01 * limit / least, 1e300), 16)[1:]
            orders, values = np.append(orders, more), np.append(values, _at(found, more))
            continue
        wide = above > least * (1.0 + _TIGHT)
        if not wide.any() or orders.size + int(wide.sum()) > _MOST_ORDERS:
            break
        between = np.sqrt(orders[:-1][wide] * orders[1:][wide])
        between = between[(between > orders[:-1][wide]) & (between < orders[1:][wide])]
        if not between.size:
            break
        orders = np.append(orders, between)
        values = np.append(values, _at(found, between))
        order = np.argsort(orders)
        # `orders` has one more entry than `values`: the 1.0 in front.
        values = values[order[1:] - 1]
        orders = orders[order]
    bound = max(float(above.max()), limit / float(orders[-1])) * OUTWARD
    return min(known, bound)


def _between(orders: FloatArray, values: FloatArray) -> FloatArray:
    """Return upper bounds on R(a)/a between neighbouring orders; `values` belong to orders[1:]."""
    monotone = values / orders[:-1]
    lower, upper = orders[1:-1], orders[2:]
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


def _at(found: Curve, orders: FloatArray) -> FloatArray:
    blocks = np.split(orders, range(_AT_ONCE, orders.size, _AT_ONCE))
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.concatenate([found.at(block) for block in blocks])
    return np.where(np.isnan(values), found.limit, np.minimum(values, found.limit))
