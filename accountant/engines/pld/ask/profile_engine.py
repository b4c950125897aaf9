"""Delta at many epsilons of the same leaves: what was composed for one answers the next ones.

A bound on delta that was composed around one saddle point is a bound at every epsilon, and tight
for some deviations of the tilted losses on either side.  It answers wherever its ends are as near
to each other as those of a question by itself; elsewhere that question is asked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from ....composition import Composition
from ....guarantee import Bounds, Neighbours, agreed
from ...base import Answer
from ..compose.delta_bounds import DeltaBound, lower_delta_bound
from ..compose.directions import participation, worst_first
from ..compose.questions import LEAST_DELTA
from ..grid.loss_grid import GridTooFine
from .certificate import PLD_SHOWS, upper_on
from .engine import COARSE_WIDTH_FACTOR, PldEngine

FALL: Final = 1e-12
"""By how much delta may fall from the first epsilon on until the tails that were cut count."""

MAX_MISSES: Final = 2
"""After so many bounds that were too wide where they were made, none is made any more."""

NEARER: Final = 0.4
"""How far apart the ends may lie, as a share of the tolerance of a question by itself."""

LEAST_SCALE: Final = 1e-290
"""Smallest delta that tails are cut for."""


class ProfileEngine(PldEngine):
    """The pld engine for delta at ascending epsilons; it remembers what it composed."""

    def __init__(self) -> None:
        super().__init__()
        self._remembered: dict[tuple[Composition, Neighbours], _Profile] = {}
        self._misses: dict[tuple[Composition, Neighbours], int] = {}

    def delta(self, composition: Composition, epsilon: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest delta at which `composition` is (epsilon, delta)-DP."""
        asked = composition, neighbours
        tolerance = self.tolerance * NEARER
        last = self._remembered.get(asked)
        bounds = last.at(epsilon, tolerance) if last is not None else None
        if bounds is None and self._misses.get(asked, 0) < MAX_MISSES:
            profile = self._profile(composition, epsilon, neighbours)
            if profile is not None:
                self._remembered[asked] = profile
                bounds = profile.at(epsilon, tolerance)
            if bounds is None:
                self._misses[asked] = self._misses.get(asked, 0) + 1
        if bounds is None:
            return super().delta(composition, epsilon, neighbours)
        return Answer(bounds, ())

    def _profile(
        self, composition: Composition, epsilon: float, neighbours: Neighbours
    ) -> _Profile | None:
        """Return bounds around an epsilon, None where the worst data sets are not known."""
        question, directions = self.delta_question(composition, neighbours, epsilon)
        if not all(direction.is_tight for direction in directions):
            return None
        (worst, saddle), *others = worst_first(question, directions)
        scale = max(question.scale(saddle) * FALL, LEAST_SCALE)
        grid = replace(self._grid(question, worst, saddle, 1.0), delta=scale)
        upper, width = upper_on(grid)
        try:
            lower = lower_delta_bound(worst.lower_pairs, width, saddle, scale)
        except GridTooFine:
            return None
        uppers = [(upper, worst.largest_loss)]
        for direction, its_saddle in others:
            coarse = self._grid(question, direction, its_saddle, COARSE_WIDTH_FACTOR)
            uppers.append((upper_on(replace(coarse, delta=scale))[0], direction.largest_loss))
        return _Profile(epsilon, saddle.tilt, tuple(uppers), lower, participation(composition))


@dataclass(frozen=True, eq=False)
class _Profile:
    """Upper bounds on log delta for every direction, and a lower one that the worst attains.

    `tilt` is the slope of log delta at `epsilon`, which grows from there on.
    """

    epsilon: float
    tilt: float
    uppers: tuple[tuple[DeltaBound, float], ...]
    lower: DeltaBound
    ceiling: float

    def at(self, epsilon: float, tolerance: float) -> Bounds | None:
        """Return bounds on delta; None where they are not within the tolerance."""
        needed = [upper(epsilon) for upper, largest in self.uppers if largest > epsilon]
        upper = max((max(math.exp(each), LEAST_DELTA) for each in needed), default=0.0)
        upper = min(upper, self.ceiling, 1.0)
        lower = math.exp(self.lower(epsilon)) if needed else 0.0
        if upper - lower > tolerance * upper * max(epsilon * self.tilt, 1.0):
            return None
        return agreed(lower, upper, PLD_SHOWS)
