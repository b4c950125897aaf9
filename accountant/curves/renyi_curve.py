"""`rdp`: the Renyi divergences of an event at given orders, from both sides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from .. import events as ev
from .. import validate
from ..account import guarded
from ..amplification.group import Divergence
from ..arrays import FloatArray
from ..composition import Leaf, leaves
from ..engines import rdp as _rdp  # noqa: F401  (it enters the curves of all events)
from ..engines.rdp.curves import Curve, curve
from ..engines.rdp.moments import RENYI_OUTWARD_FACTOR
from ..errors import EnginesDisagree, InvalidInput
from ..guarantee import Step, unique_steps
from ..neighbours import Neighbours, as_neighbours
from ..schedules import shown

_ORDERS_AT_ONCE: Final = 128
"""Orders that are evaluated together: curves given as points take memory for each of them."""

_UNDERFLOW: Final = 1e-300
"""More than a divergence can lose, or gain, by underflow."""


def counted_curves(leaves: Sequence[Leaf], neighbours: Neighbours) -> list[tuple[Curve, Leaf]]:
    """Return the curve of every leaf; raise `Unsupported` for one that has none."""
    return [(curve(leaf.event, neighbours), leaf) for leaf in leaves]


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
    if crossed.size:
        raise EnginesDisagree(
            f"{quantity} is at least {lower[crossed[0]]:.9g} and at most {upper[crossed[0]]:.9g}.",
            "Both cannot be true, so one of them is wrong and no number is given.",
            "Please report this event to the authors of privplan.",
        )


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
    parts = leaves(known)
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
        f"The curves of {sum(leaf.count for leaf in parts):,} releases add up at each order.",
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
