"""The Renyi curve of a whole event, from both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..amplification.group import Divergence
from ..arrays import FloatArray
from ..composition import Leaf
from ..engines import rdp as _rdp  # noqa: F401  (it enters the curves of all events)
from ..engines.rdp.curves import Curve, curve
from ..engines.rdp.moments import RENYI_OUTWARD_FACTOR
from ..errors import EnginesDisagree
from ..neighbours import Neighbours

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
