"""`from_rdp`: from bounds on Renyi divergences at a few orders to (epsilon, delta).

Two conversions, each of which holds at every order a = b + 1 with R(a) <= r:

    classical    epsilon = r + log(1/delta) / b
    improved     epsilon = r + log(b/a) - (log delta + log a) / b

The improved one is never larger: the difference is (log a)/b - log(b/a) > 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np

from .. import validate
from ..arrays import FloatArray
from ..decoding import named_keywords
from ..engines.rdp.conversion import epsilon_at_orders, log_delta_at_orders
from ..errors import InvalidInput
from ..guarantee import Bounds, Guarantee, Step
from ..neighbours import as_neighbours
from .renyi_curve import RenyiCurve, checked_orders

CONVERSION_SOURCES: Final = {
    "improved": "Canonne, Kamath and Steinke 2020, Proposition 12, arXiv 2004.00010v4",
    "classical": "Mironov 2017, Proposition 3, arXiv 1702.07476v3",
}
"""Where each conversion stands."""

_CLASSICAL_ROUNDING: Final = 4e-16


@named_keywords
def from_rdp(
    orders: Iterable[float] | RenyiCurve,
    values: Iterable[float] | None = None,
    delta: float | None = None,
    *,
    epsilon: float | None = None,
    conversion: str = "improved",
    neighbours: str | None = None,
) -> Guarantee:
    """Return the epsilon at `delta`, or the delta at `epsilon`, that Renyi divergences prove.

        improved     epsilon = R(a) + log((a-1)/a) - (log delta + log a)/(a-1)
        classical    epsilon = R(a) + log(1/delta)/(a-1)

    `values` are upper bounds on R at `orders`, 0 or above; an infinite one says nothing.  The curve
    that `rdp` returns may stand for both.  Each order is used as it is listed, by the `improved` or
    the `classical` conversion, and the best of them answers; `account` of a `renyi` event also
    looks between the orders.  `neighbours` is the relation that the values hold for: add-remove if
    not given, or that of the curve.  The lower end is 0: a curve bounds a mechanism from above
    alone.  Range: orders above 1 and ascending, `delta` in (0, 1), `epsilon` 0 or above.

    Raises `InvalidInput` for a list that is no Renyi curve and for values out of range.
    Source: improved: Canonne, Kamath and Steinke 2020, Proposition 12, arXiv 2004.00010v4;
    classical: Mironov 2017, Proposition 3, arXiv 1702.07476v3.

    >>> round(from_rdp([2.0, 4.0, 8.0], [1.0, 2.0, 4.0], 1e-5).epsilon.upper, 4)
    5.0879
    >>> round(from_rdp([8.0], [4.0], delta=1e-5, conversion="classical").epsilon.upper, 4)
    5.6447
    """
    validate.choice(tuple(CONVERSION_SOURCES), conversion=conversion)
    if (delta is None) == (epsilon is None):
        raise InvalidInput(
            "Give exactly one of `delta` and `epsilon`.", "The other one is what is computed."
        )
    warnings: tuple[str, ...] = ()
    if isinstance(orders, RenyiCurve):
        neighbours = _relation_of(orders, values, neighbours)
        listed, warnings = orders.event(), orders.warnings
        orders, values = listed.orders, listed.values
    relation = as_neighbours("add-remove" if neighbours is None else neighbours)
    at, bounds = _checked_curve(orders, values)
    if delta is not None:
        given = validate.open_probability(delta=delta)
        each = _epsilons(at, bounds, math.log(given), conversion)
        best = int(each.argmin())
        upper = max(0.0, float(each[best]))
        epsilon_bounds, delta_bounds = Bounds(0.0, upper), Bounds.exactly(given)
        how = f"epsilon {upper:.6g} at delta {given:.6g}"
    else:
        given = validate.non_negative(epsilon=epsilon)
        logs = _log_deltas(at, bounds, given, conversion)
        best = int(logs.argmin())
        upper = min(1.0, math.nextafter(math.exp(min(0.0, float(logs[best]))), 2.0))
        epsilon_bounds, delta_bounds = Bounds.exactly(given), Bounds(0.0, upper)
        how = f"delta {upper:.6g} at epsilon {given:.6g}"
    step = Step(
        "conversion",
        f"Order {at[best]:.6g}, R = {bounds[best]:.6g}, gives {how} ({conversion}).",
        CONVERSION_SOURCES[conversion],
        ("the values bound both directions of all neighbouring data sets",),
    )
    return Guarantee(
        epsilon_bounds,
        delta_bounds,
        relation,
        "rdp",
        derivation=(step,),
        warnings=(*warnings, *_falling_warnings(at, bounds), *_edge_warnings(at, bounds, best)),
    )


def _relation_of(curve: RenyiCurve, values: object, neighbours: str | None) -> str:
    """Return the relation of a curve; refuse values beside it, and another relation."""
    if values is not None:
        raise InvalidInput(
            "`values` are given beside a curve, which has its own.",
            "A curve of `rdp` holds orders and upper bounds.",
            "Give from_rdp(curve, delta=1e-5).",
        )
    if neighbours not in (None, curve.neighbours):
        raise InvalidInput(
            f"`neighbours` must be {curve.neighbours}, the relation of the curve; it is "
            f"{neighbours}.",
            "A divergence between other neighbours may be larger.",
            f"Ask rdp(event, orders, neighbours={neighbours!r}) for the curve.",
        )
    return curve.neighbours


def _checked_curve(
    orders: Iterable[float], values: Iterable[float] | None
) -> tuple[FloatArray, FloatArray]:
    if values is None:
        raise InvalidInput(
            "`values` are missing.",
            "A list of orders says nothing without the divergence at each of them.",
            "Give from_rdp(orders, values, delta=1e-5), or the curve that rdp returned.",
        )
    at, bounds = checked_orders(orders), np.array(validate.listed(values=values))
    if at.size != bounds.size:
        raise InvalidInput(
            f"`values` must have as many numbers as `orders` ({at.size}); it has {bounds.size}.",
            next_step="Give one of `values` for each of `orders`.",
        )
    descents = np.flatnonzero(np.diff(at) <= 0.0)
    if descents.size:
        raise InvalidInput(
            f"`orders` must be ascending; `orders[{descents[0] + 1}]` is not above the one before.",
            next_step="Sort the orders, and give each of them once.",
        )
    for index in np.flatnonzero(bounds < 0.0)[:1].tolist():
        raise InvalidInput(
            f"`values[{index}]` must be 0 or above; it is {bounds[index]:g}.",
            "No Renyi divergence is negative.",
            "Give the divergence in nats at each order.",
        )
    return at, bounds


def _epsilons(at: FloatArray, bounds: FloatArray, log_delta: float, conversion: str) -> FloatArray:
    if conversion == "improved":
        return epsilon_at_orders(at, bounds, log_delta)
    return np.asarray((bounds - log_delta / (at - 1.0)) * (1.0 + 2.0 * _CLASSICAL_ROUNDING))


def _log_deltas(at: FloatArray, bounds: FloatArray, epsilon: float, conversion: str) -> FloatArray:
    if conversion == "improved":
        return log_delta_at_orders(at, bounds, epsilon)
    rounding = _CLASSICAL_ROUNDING * (bounds + epsilon)
    return np.asarray((at - 1.0) * (bounds - epsilon + 2.0 * rounding))


def _falling_warnings(at: FloatArray, bounds: FloatArray) -> tuple[str, ...]:
    """Return a warning where values fall: bounds may, but the curve of a mechanism does not."""
    finite = np.flatnonzero(np.isfinite(bounds))
    falls = np.flatnonzero(np.diff(bounds[finite]) < 0.0)
    if not falls.size:
        return ()
    before, later = finite[falls[0]], finite[falls[0] + 1]
    return (
        f"`values[{later}]`, {bounds[later]:.6g} at order {at[later]:g}, is below "
        f"`values[{before}]`, {bounds[before]:.6g}: no Renyi divergence falls as its order grows.  "
        "If each is a bound, the smaller one holds at all lower orders too, and what is proven "
        "here is right; if not, check that they are R in nats, each at its own order.",
    )


def _edge_warnings(at: FloatArray, bounds: FloatArray, best: int) -> tuple[str, ...]:
    finite = np.flatnonzero(np.isfinite(bounds))
    if not finite.size:
        return ("No value is finite, so nothing is proven.",)
    if best == finite[-1] and at.size > 1:
        return (f"The last order, {at[best]:g}, is the best: larger orders may prove more.",)
    if best == finite[0] and at.size > 1:
        return (f"The first order, {at[best]:g}, is the best: smaller orders may prove more.",)
    return ()
