"""`rdp`: the Renyi divergences of an event at given orders, from both sides.

`from_rdp` goes from bounds at a few orders to (epsilon, delta), by two conversions, each of which
holds at every order a = b + 1 with R(a) <= r:

    classical    epsilon = r + log(1/delta) / b
    improved     epsilon = r + log(b/a) - (log delta + log a) / b

The improved one is never larger: the difference is (log a)/b - log(b/a) > 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from .. import events as ev
from .. import validate
from ..amplification.group import Divergence
from ..arrays import FloatArray
from ..composition import Composition, Leaf
from ..engines import rdp as _rdp  # noqa: F401  (it enters the curves of all events)
from ..engines.base import guarded
from ..engines.rdp.conversion import epsilon_at_orders, log_delta_at_orders
from ..engines.rdp.curves import Curve, curve
from ..engines.rdp.moments import RENYI_OUTWARD_FACTOR
from ..errors import InvalidInput
from ..guarantee import Bounds, Guarantee, Step, agreed, unique_steps
from ..nearest_names import named_keywords
from ..neighbours import Neighbours, as_neighbours
from ..schedules import shown

_ORDERS_AT_ONCE: Final = 128
"""Orders that are evaluated together: curves given as points take memory for each of them."""

_UNDERFLOW: Final = 1e-300
"""More than a divergence can lose, or gain, by underflow."""


def counted_curves(composition: Composition, neighbours: Neighbours) -> list[tuple[Curve, Leaf]]:
    """Return the curve of every leaf; raise `Unsupported` for one that has none."""
    return [(curve(leaf.event, neighbours), leaf) for leaf in composition]


def upper_divergence(parts: Sequence[tuple[Curve, Leaf]], orders: FloatArray) -> FloatArray:
    """Return upper bounds on R at orders above 1; infinite where none is known.

    What holds only outside of an event of small probability bounds no divergence: infinite.
    """
    total = np.zeros_like(orders)
    for part, leaf in parts:
        if part.slack > 0.0:
            return np.full_like(orders, math.inf)
        if part.limit > 0.0:
            total += leaf.count * (_at(part.at, orders, math.inf) + _UNDERFLOW)
    return np.asarray(
        total if len(parts) == 1 == parts[0][1].count else total * RENYI_OUTWARD_FACTOR
    )


def lower_divergence(parts: Sequence[tuple[Curve, Leaf]], orders: FloatArray) -> FloatArray:
    """Return lower bounds on R, attained by one pair of data sets; 0 where none is known.

    Every `lower` is of the outputs with the unit from those without it, so that they add up.  The
    divergence of a pair never falls with the order: what holds at an order holds at larger ones.
    """
    total = np.zeros_like(orders)
    for part, leaf in parts:
        if part.lower is not None and leaf.fully_observed and not leaf.by_lemma:
            values = _at(part.lower, orders, 0.0)
            # What overflowed may be any number: nothing is known of it from below.
            values[np.isinf(values)] = 0.0
            total += leaf.count * np.maximum(values - _UNDERFLOW, 0.0)
    ascending = np.argsort(orders)
    total[ascending] = np.maximum.accumulate(total[ascending])
    return np.asarray(np.minimum(total, np.finfo(np.float64).max) * (2.0 - RENYI_OUTWARD_FACTOR))


def checked_ends(lower: FloatArray, upper: FloatArray, quantity: str) -> None:
    """Raise `EnginesDisagree` where a lower end lies above an upper end."""
    crossed = np.flatnonzero(lower > upper)
    for first in crossed[:1]:
        agreed(float(lower[first]), float(upper[first]), f"{quantity} is")


def _at(values: Divergence, orders: FloatArray, unknown: float) -> FloatArray:
    """Return the values at all orders, block by block; `unknown` in the place of what is none."""
    blocks = np.split(orders, range(_ORDERS_AT_ONCE, orders.size, _ORDERS_AT_ONCE))
    with np.errstate(over="ignore", invalid="ignore"):
        result = np.concatenate([values(block) for block in blocks])
    result[np.isnan(result)] = unknown
    return np.asarray(result)


@dataclass(frozen=True, eq=False)
class RenyiCurve:
    """Bounds on the Renyi divergence R(a) of neighbouring outputs, the larger of both directions.

    `orders`, `lower` and `upper` are float64 arrays of one length, R in nats.  The upper end is
    infinite where no bound is known, the lower end 0 where no pair of data sets is known that
    attains more.
    """

    orders: FloatArray
    lower: FloatArray
    upper: FloatArray
    neighbours: Neighbours
    derivation: tuple[Step, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)

    def event(self) -> ev.Renyi:
        """Return the event that says no more than the upper ends at these orders.

        Raises `InvalidInput` where no upper end is finite.
        """
        finite = np.isfinite(self.upper)
        if not finite.any():
            raise InvalidInput(
                "No upper end of this curve is finite.",
                "An event of the type `renyi` needs a bound at one order at least.",
                "Ask for smaller orders.",
            )
        ascending = np.argsort(self.orders[finite])
        orders, first = np.unique(self.orders[finite][ascending], return_index=True)
        values = self.upper[finite][ascending][first]
        return ev.Renyi(tuple(orders.tolist()), tuple(values.tolist()))


def rdp(
    event: ev.EventLike, orders: Iterable[float], *, neighbours: str = "add-remove"
) -> RenyiCurve:
    """Return bounds on the Renyi divergence of an event at each of `orders`.

        R(a) = sup over neighbouring outputs (P, Q) of 1/(a-1) log E_Q[(P/Q)^a]

    Range: orders above 1, in any sequence.  `neighbours` is `add-remove`, `replace-one` or
    `zero-out` of one record.  Releases add up at each order; the plan is fixed beforehand.

    Raises `InvalidInput` for values out of range, `Unsupported` for a release or relation whose
    Renyi divergence is not known here.
    Source: Mironov 2017, Definition 4 and Proposition 1, arXiv 1702.07476v3.

    >>> rdp(ev.Repeat(10, ev.Gaussian(2.0)), [2.0, 8.0]).upper.round(6).tolist()
    [2.5, 10.0]
    """
    relation = as_neighbours(neighbours)
    at = checked_orders(orders)
    known = ev.known_event(event)
    parts = Composition.of(known)
    with guarded("rdp"):
        curves = counted_curves(parts, relation)
        upper = upper_divergence(curves, at)
        lower = lower_divergence(curves, at)
    checked_ends(lower, upper, "The Renyi divergence")
    listed, summaries = shown(parts)
    kept = {id(leaf) for leaf in listed}
    steps = [step for part, leaf in curves if id(leaf) in kept for step in part.steps]
    composition = Step(
        "composition",
        f"The curves of {parts.releases:,} releases add up at each order.",
        "Mironov 2017, Proposition 1, arXiv 1702.07476v3",
        ("the plan is fixed before the first release",),
    )
    warnings = []
    aside = [leaf.event.type for part, leaf in curves if part.slack > 0.0]
    if aside:
        warnings.append(
            f"`{aside[0]}` may reveal everything with a small probability, so no divergence is "
            "finite; ask for delta by epsilon (privacy_profile)."
        )
    elif not np.isfinite(upper).all():
        warnings.append(
            f"No bound is known at order {at[~np.isfinite(upper)].min():g} and, maybe, others."
        )
    return RenyiCurve(
        at, lower, upper, relation, unique_steps((*steps, *summaries, composition)), tuple(warnings)
    )


def checked_orders(orders: Iterable[float]) -> FloatArray:
    """Return the orders as an array; raise `InvalidInput` unless all are finite and above 1."""
    numbers = np.array(validate.listed(orders=orders))
    for index, order in enumerate(numbers.tolist()):
        if not 1.0 < order < math.inf:
            raise InvalidInput(
                f"`orders[{index}]` must be a finite number above 1; it is {order:g}.",
                "Order 1 is the Kullback-Leibler divergence, which says nothing of (epsilon, "
                "delta) by itself.",
                "Give orders such as 2, 4 and 8.",
            )
    return numbers


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
    """Return the relation of a curve; refuse values with it, and another relation."""
    if values is not None:
        raise InvalidInput(
            "`values` are given with a curve, which has its own.",
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
