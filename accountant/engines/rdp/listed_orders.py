"""The curve of a release of which bounds on R are known at a few orders only, and no more.

The listed values v_i bound both divergences at orders a_i = 1 + b_i.  What they say of other orders
follows from one fact: f(b) = b R(1 + b) is convex in b on [0, b_n], and tends to 0 as b does, as
R(a_1) is finite.  So on both sides of b take any two of the points

    (0, 0), (b_1, b_1 v_1), ..., (b_n, b_n v_n):

f lies below its chord between their abscissae, and that below the chord of the points, as weights
are not negative.  The least of all these chords is the lower convex hull of the points.  The chord
from (0, 0) says that R(1 + b) <= v_i for b <= b_i, so nothing is gained by using that R never
falls, and values that fall as orders rise do no harm: the smaller one counts below, too.  Beyond
a_n nothing is known, and the bound is infinite.

Source: van Erven and Harremoes 2014, Corollary 2 (convexity), arXiv 1206.2459v2; the hull is
derived here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import events as ev
from ...arrays import FloatArray
from ...guarantee import Neighbours, Step
from .curves import NOTHING, Curve, curve
from .moments import RENYI_OUTWARD_FACTOR


@curve.register(ev.Renyi)
def renyi_at_orders(event: ev.Renyi, neighbours: Neighbours) -> Curve:  # noqa: ARG001
    """The lower hull of b R(1 + b) through the listed orders; infinite above the last of them.

    The values hold for the relation that is named; see the docstring of the module.
    """
    if 0.0 in event.values:
        # A divergence of 0 at one order is that of equal distributions: 0 at every order.
        return NOTHING
    hull = lower_hull(event.orders, event.values)
    last = event.orders[-1]

    def at(orders: FloatArray) -> FloatArray:
        return hull_values(hull, last, orders)

    return Curve(
        at=at,
        limit=math.inf,
        steps=(
            Step(
                "mechanism",
                f"R(a) as stated at {len(event.orders)} orders from {event.orders[0]:.6g} to "
                f"{last:.6g}; between them chords of the convex (a-1) R(a), beyond them nothing.",
                "van Erven and Harremoes 2014, Corollary 2, arXiv 1206.2459v2; derived in "
                "engines/rdp/listed_orders.py",
                ("the values bound both directions of all neighbouring data sets",),
            ),
        ),
        listed=event.orders,
    )


def lower_hull(orders: Sequence[float], values: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Return the corners (b, b R) of the lower convex hull of (0, 0) and all (a - 1, (a - 1) R).

    Range: `orders` above 1 and ascending, `values` 0 or above and finite.

    >>> [corners.tolist() for corners in lower_hull([2.0, 3.0, 5.0], [1.0, 9.0, 2.0])]
    [[0.0, 1.0, 4.0], [0.0, 1.0, 8.0]]
    """
    corners = [(0.0, 0.0)]
    for order, value in zip(orders, values, strict=True):
        b = order - 1.0
        corner = (b, b * value)
        # A corner on or above the line past it is none; a wrong choice costs tightness alone.
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) >= _slope(corners[-2], corner):
            corners.pop()
        corners.append(corner)
    return np.array([b for b, _ in corners]), np.array([moment for _, moment in corners])


def _slope(left: tuple[float, float], right: tuple[float, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def hull_values(hull: tuple[FloatArray, FloatArray], last: float, orders: FloatArray) -> FloatArray:
    """Return bounds on R at `orders` above 1, from a hull that ends at order `last`."""
    corners, moments = hull
    b = orders - 1.0
    right = np.clip(np.searchsorted(corners, b), 1, corners.size - 1)
    left = right - 1
    # Both weights are positive, so that the sum keeps its digits.
    share = np.clip((b - corners[left]) / (corners[right] - corners[left]), 0.0, 1.0)
    chord = (1.0 - share) * moments[left] + share * moments[right]
    # On the first chord R is the value at its end, however small b is.
    first = moments[1] / corners[1]
    values = np.where(left == 0, first, chord / b) * RENYI_OUTWARD_FACTOR
    return np.where(orders > last, np.inf, values)
