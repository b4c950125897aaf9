"""Delta at every epsilon at once: for trade-off functions, where small deltas do not matter.

One transform without a tilt gives delta(eps) for all eps >= 0 up to an absolute error of about
1e-12, too coarse for a certificate at a small delta (`sides` has that), and plenty for the error
rates of a test.  With masses p_i on losses l_i of a grid of width w, T_j = sum_{i > j} p_i and
D_j = delta(l_j),

    D_j = (1 - e^-w) T_j + e^-w D_{j+1},

a recursion in which no digits cancel; it is solved by doubling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ...composition import Leaf
from ...errors import Unsupported
from ...guarantee import Neighbours
from .compose import OUTSIDE, Composed, compose
from .directions import Direction, directions, participation, starting_width
from .grid import Grid, GridTooFine, Law
from .laws import upper_law
from .noise import UNIT_ROUNDOFF, Array
from .rounds import Repeated, Rounds
from .sides import fitting_width

SMALL: Final = 1e-7
"""The delta that a mechanism which adapts to one is fitted to, and the grid's tails."""

CENTRE: Final = 1e-3
"""The delta around which the grid is as fine as `accuracy` says."""


FINEST: Final = 2.0**17
"""Most grid points on which the losses of one round that matter may lie."""


@dataclass(frozen=True, eq=False)
class DeltaCurve:
    """Upper bounds `deltas` on delta at ascending `epsilons`, for one direction.

    The true delta falls, is convex in x = e^epsilon, and tends to 1 as x tends to 0.  So a chord
    between two nodes, or from (0, 1) to the first, is an upper bound, and the last delta is one for
    every larger epsilon.
    """

    epsilons: Array
    deltas: Array

    def at(self, epsilons: Array) -> Array:
        """Return upper bounds at other epsilons, of any sign."""
        ends = np.concatenate(([-math.inf], self.epsilons))
        deltas = np.concatenate(([1.0], self.deltas))
        right = np.minimum(np.searchsorted(ends, epsilons), ends.size - 1)
        left = right - 1
        # Where on the chord, in e^epsilon: 1 at the left end, 0 at the right end.
        above = np.expm1(np.minimum(epsilons - ends[right], 0.0))
        share = np.clip(above / np.expm1(ends[left] - ends[right]), 0.0, 1.0)
        found = share * deltas[left] + (1.0 - share) * deltas[right]
        return np.asarray(np.minimum(found * (1.0 + 16.0 * UNIT_ROUNDOFF), 1.0))


def delta_curves(
    leaves: Sequence[Leaf], neighbours: Neighbours, accuracy: float = 1e-5
) -> tuple[DeltaCurve, ...]:
    """Return upper bounds on delta by epsilon: (with, without), and the reverse where it differs.

    `accuracy` is the relative width in epsilon that the grid aims at.  Raises `Unsupported` for
    leaves without a dominating pair here.
    """
    drawn = participation(leaves)
    return tuple(
        _curve(way, accuracy, min(drawn, 1.0)) for way in directions(leaves, neighbours, SMALL)
    )


def _curve(way: Direction, accuracy: float, drawn: float) -> DeltaCurve:
    width = starting_width(way, way.estimate.epsilon(CENTRE), accuracy)
    # Next to a largest possible loss that width would fall without end.
    tail = SMALL * 1e-7 / way.rounds
    ranges = [pair.loss_range(tail) for pair, _ in way.dominating]
    width = max(width, *((high - max(low, -way.largest_loss)) / FINEST for low, high in ranges))
    for _ in range(40):
        try:
            return _on_grid(way, fitting_width(way.dominating, width), tail, drawn)
        except GridTooFine:
            width *= 2.0
    raise Unsupported("The losses of this event spread too far for any grid.")


def _on_grid(way: Direction, width: float, tail: float, drawn: float) -> DeltaCurve:
    laws = (
        _raised(
            upper_law(pair, Grid(width, pair.anchors[0] if pair.anchors else 0.0), tail),
            -max(way.largest_loss, 0.0),
        )
        for pair, _ in way.dominating
    )
    counts = (count for _, count in way.dominating)
    rounds = Rounds(tuple(map(Repeated, laws, counts)))
    if rounds.is_empty():
        return DeltaCurve(np.zeros(1), np.full(1, min(rounds.infinite_mass, drawn)))
    composed = compose(rounds, 0.0)
    finite = _deltas(composed, width)
    deltas = np.clip((finite + rounds.infinite_mass) * (1.0 + 4.0 * UNIT_ROUNDOFF), 0.0, drawn)
    # A loss may be off by the slack: what is true of the grid holds a slack further up.
    epsilons = np.nextafter(composed.losses + composed.slack, math.inf)
    deltas = np.minimum.accumulate(deltas)
    # The last of nodes that rounding makes one; and of those below 0, the nearest.
    kept = np.append(epsilons[1:] > np.maximum(epsilons[:-1], 0.0), True)
    return DeltaCurve(epsilons[kept], deltas[kept])


def _raised(law: Law, least: float) -> Law:
    """Return the law with all losses below `least` moved up to it, or just below.

    Where no sum of losses exceeds -`least`, a sum with one such loss is not above 0 before or
    after, and delta is the same at every epsilon of 0 or above.  A long tail shrinks to a point.
    """
    below = int(np.searchsorted(law.losses, least)) - 1
    if below < 1:
        return law
    masses = law.masses[below:].copy()
    masses[0] = law.masses[: below + 1].sum() * (1.0 + law.masses.size * UNIT_ROUNDOFF)
    return replace(law, first=law.first + below, masses=masses)


def _deltas(composed: Composed, width: float) -> Array:
    """Return upper bounds on the finite part of delta at each loss of the window."""
    size = composed.losses.size
    beyond = np.zeros(size)
    beyond[:-1] = np.cumsum(composed.tilted[:0:-1])[::-1]
    sums = -math.expm1(-width) * beyond
    step = 1
    while step < size:  # from sums over `step` terms to sums over twice as many
        sums[:-step] += math.exp(-width * step) * sums[step:]
        step *= 2
    # The weights are at most 1, so their 2-norm is at most the root of their number.
    noise = composed.noise * np.sqrt(np.arange(size, 0.0, -1.0))
    rounding = 8.0 * size * UNIT_ROUNDOFF
    total = np.maximum(sums, 0.0) + noise + 2.0 * OUTSIDE + rounding
    return np.asarray(total * math.exp(composed.cumulant + composed.relative))
