"""An upper bound on delta at every epsilon at once, of one pair that dominates a whole composition.

For each order of the neighbours the pairs of all leaves are composed a few times, around saddle
points at different deltas.  Each of these bounds holds at every epsilon, so the least of them does;
it is tight around each of its points.

The other order of the neighbours has the same pairs in reverse.  So what is bounded here is one
pair of distributions, the product of the leaves' pairs, read in both directions, and the bound is
on all of its hockey sticks: those of orders below 1 are those of the reverse above 1.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import Final, TypeAlias

from ....composition import Composition
from ....guarantee import Neighbours
from ..compose.delta_bounds import DeltaBound
from ..compose.directions import Direction, directions_of
from ..compose.questions import EpsilonAt
from .certificate import ChosenGrid, upper_on
from .engine import PldEngine

PROFILE_LEVELS: Final = (0.5, 0.1, 1e-3)
"""Deltas around which a composition is bounded, besides the least one that is asked about."""

PROFILE_ACCURACY: Final = 2e-4
"""Relative error in epsilon that grids are chosen for: each is read at many epsilons."""


_BoundsByEpsilon: TypeAlias = tuple[tuple[float, DeltaBound], ...]


class UpperProfile(PldEngine):
    """Upper bounds on delta of a composition, in both orders of the neighbours, at any epsilon.

    They are tight for deltas down to about `least_delta`.  Raises `Unsupported` for leaves without
    a dominating pair.
    """

    def __init__(
        self, composition: Composition, neighbours: Neighbours, least_delta: float
    ) -> None:
        super().__init__(PROFILE_ACCURACY)
        directions = directions_of(composition, neighbours, least_delta)
        levels = sorted({*PROFILE_LEVELS, least_delta}, reverse=True)
        self._directions = [
            (self._bounds_by_epsilon(each, levels), each.largest_loss) for each in directions
        ]

    def _bounds_by_epsilon(self, direction: Direction, levels: Sequence[float]) -> _BoundsByEpsilon:
        """Return bounds for one direction, by the epsilon that each is made around, ascending."""
        bounds: dict[ChosenGrid, tuple[float, DeltaBound]] = {}
        for level in levels:
            question = EpsilonAt(level)
            saddle = question.saddle(direction.estimate)
            grid = self._grid(question, direction, saddle, 1.0)
            if grid not in bounds:
                bounds[grid] = saddle.epsilon, upper_on(grid)[0]
        return tuple(sorted(bounds.values(), key=lambda each: each[0]))

    def at(self, epsilon: float) -> float:
        """Return a bound on delta at `epsilon`, 0 or above, of the worse order."""
        return max(
            (
                _least(bounds, epsilon)
                for bounds, largest_loss in self._directions
                if epsilon < largest_loss
            ),
            default=0.0,
        )


def _least(bounds: _BoundsByEpsilon, epsilon: float) -> float:
    """Return the least of the bounds that are made around the nearest epsilons on both sides."""
    above = bisect.bisect([centre for centre, _ in bounds], epsilon)
    nearest = bounds[max(above - 1, 0) : above + 1]
    log_delta = min(0.0, *(bound(epsilon) for _, bound in nearest))
    # An exponential, rounded up; what underflows is the smallest number above 0.
    return math.nextafter(math.exp(log_delta) * (1.0 + 4e-16), 1.0)
