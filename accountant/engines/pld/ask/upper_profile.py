"""An upper bound on delta at every epsilon at once, of one pair that dominates a whole composition.

For each order of the neighbours the pairs of all leaves are composed a few times, around saddle
points at different deltas.  Each of these bounds holds at every epsilon, so the least of them does;
it is tight around each of its points.

The other order of the neighbours has the same pairs in reverse.  So what is bounded here is one
pair of distributions, the product of the leaves' pairs, read in both directions, and the bound is
on all of its hockey sticks: those of orders below 1 are those of the reverse above 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from ....composition import Composition
from ....guarantee import Neighbours
from ..compose.delta_bounds import DeltaBound
from ..compose.directions import directions_of, participation
from ..compose.questions import EpsilonAt
from .certificate import upper_on
from .engine import PldEngine

PROFILE_LEVELS: Final = (0.5, 0.1, 1e-3)
"""Deltas around which a composition is bounded, besides the least one that is asked about."""

PROFILE_ACCURACY: Final = 2e-4
"""Relative error in epsilon that grids are chosen for: each is read at many epsilons."""


class UpperProfile(PldEngine):
    """Upper bounds on delta of a composition, in both orders of the neighbours, at any epsilon.

    They are tight for deltas down to about `least_delta`.  Raises `Unsupported` for leaves without
    a dominating pair.
    """

    def __init__(
        self, composition: Composition, neighbours: Neighbours, least_delta: float
    ) -> None:
        super().__init__(PROFILE_ACCURACY)
        self._most = min(participation(composition), 1.0)
        directions = directions_of(composition, neighbours, least_delta)
        levels = sorted({*PROFILE_LEVELS, least_delta}, reverse=True)
        self._directions: list[tuple[Sequence[DeltaBound], float]] = []
        for direction in directions:
            bounds: dict[object, DeltaBound] = {}
            for level in levels:
                question = EpsilonAt(level)
                saddle = question.saddle(direction.estimate)
                grid = self._grid(question, direction, saddle, 1.0)
                bounds[grid] = upper_on(grid)[0]
            self._directions.append((tuple(bounds.values()), direction.largest_loss))

    def at(self, epsilon: float) -> float:
        """Return a bound on delta at `epsilon`, 0 or above, of the worse order."""
        worst = 0.0
        for bounds, largest_loss in self._directions:
            if epsilon >= largest_loss:
                continue
            worst = max(worst, _least(bounds, epsilon))
        return min(worst, self._most)


def _least(bounds: Sequence[Callable[[float], float]], epsilon: float) -> float:
    log_delta = min(0.0, *(bound(epsilon) for bound in bounds))
    # An exponential, rounded up; what underflows is the smallest number above 0.
    return math.nextafter(math.exp(log_delta) * (1.0 + 4e-16), 1.0)
