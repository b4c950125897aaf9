"""The pld engine: bounds on epsilon and delta from both sides, on a grid that fits the question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from ...composition import Leaf
from ...errors import Unsupported
from ...guarantee import Bounds, Neighbours
from ..base import Answer
from .certificate import Certificate, CertifiedDirection, ordered, upper_on
from .derivation import composed_steps, drawn_steps
from .directions import Direction, directions, participation, starting_width
from .estimate import Saddle
from .grid import GridTooFine
from .questions import FLOOR, DeltaAt, EpsilonAt, Question
from .sides import fitting_width, lower_side, upper_side

ATTEMPTS: Final = 12
"""Most grids that are tried for one direction."""

LARGEST_REFINEMENT: Final = 40.0
"""How much narrower than first chosen a grid may get; beyond that the answer stays wide."""


class PldEngine:
    """Certified privacy-loss-distribution accounting.

    `accuracy` is the relative width of the answer that is aimed at (in epsilon): the grid is
    chosen from it by the known second-order error of the laws.  It is refined while the answer is
    wider than `tolerance`, as far as there is a lower bound to compare with.
    """

    name = "pld"

    def __init__(self, accuracy: float = 5e-5, tolerance: float = 5e-4) -> None:
        self.accuracy = accuracy
        self.tolerance = tolerance

    def epsilon(self, leaves: Sequence[Leaf], delta: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest epsilon at which `leaves` are (epsilon, delta)-DP.

        Raises `Unsupported` for leaves without a dominating pair here, and below `FLOOR`.
        """
        if participation(leaves) <= delta:
            return Answer(Bounds.exactly(0.0), drawn_steps(leaves, neighbours))
        _refuse_below_floor(delta)
        return self._answer(leaves, neighbours, EpsilonAt(delta))

    def delta(self, leaves: Sequence[Leaf], epsilon: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest delta at which `leaves` are (epsilon, delta)-DP."""
        return self._answer(leaves, neighbours, DeltaAt(epsilon))

    def estimate(
        self, leaves: Sequence[Leaf], epsilon: float, delta: float, neighbours: Neighbours
    ) -> float:
        """Return about log(delta at epsilon / delta); nothing rests on it."""
        drawn = participation(leaves)
        if drawn == 0.0:
            return -math.inf
        _refuse_below_floor(delta)
        ways = directions(leaves, neighbours, delta)
        worst = max(way.estimate.delta(epsilon).log_delta for way in ways)
        return min(worst, math.log(drawn)) - math.log(delta)

    def certificate(
        self,
        leaves: Sequence[Leaf],
        epsilon: float,
        delta: float,
        neighbours: Neighbours,
        coarser: float = 1.0,
    ) -> Certificate:
        """Return whether `leaves` are certified (epsilon, delta)-DP, and how far they are from it.

        `coarser` widens the grids: a cheaper certificate, which is as valid and less tight.
        The grids are those on which `epsilon` would answer, so that it agrees.  Directions other
        than the worst are first looked at on a coarser one.
        """
        drawn = participation(leaves)
        if drawn <= delta:
            steps = drawn_steps(leaves, neighbours)
            return Certificate((), drawn, epsilon, delta, self.tolerance, steps)
        _refuse_below_floor(delta)
        ways = [(way.estimate.epsilon(delta), way) for way in directions(leaves, neighbours, delta)]
        ways.sort(key=lambda each: -each[0].epsilon)
        found: list[CertifiedDirection] = []
        dismissed = 0.0
        for saddle, way in ways:
            if found and way.largest_loss <= epsilon:
                dismissed = max(dismissed, way.largest_loss)
                continue
            for factor in (4.0, 1.0) if found else (1.0,):
                each = self._certified(way, saddle, coarser * factor, delta)
                if each.upper.log_delta(epsilon) <= math.log(delta):
                    break
            found.append(each)
        steps = composed_steps(leaves, neighbours, [each.width for each in found], delta)
        return Certificate(tuple(found), drawn, epsilon, delta, self.tolerance, steps, dismissed)

    def _certified(
        self, way: Direction, saddle: Saddle, coarser: float, delta: float
    ) -> CertifiedDirection:
        width = starting_width(way, saddle, self.accuracy) * coarser
        side, used = upper_on(way, saddle, width, delta)
        return CertifiedDirection(way, saddle, used, side)

    def _answer(self, leaves: Sequence[Leaf], neighbours: Neighbours, question: Question) -> Answer:
        ways = directions(leaves, neighbours, question.least_delta)
        worst_first = sorted(ways, key=lambda way: -question.size(question.saddle(way.estimate)))
        lower = upper = 0.0
        widths = []
        for way in worst_first:
            bounds, width = self._bounds(way, question, enough=upper)
            lower, upper = max(lower, bounds.lower), max(upper, bounds.upper)
            widths.append(width)
        steps = composed_steps(leaves, neighbours, widths, question.least_delta)
        return Answer(Bounds(lower, upper), steps)

    def _bounds(
        self, direction: Direction, question: Question, enough: float
    ) -> tuple[Bounds, float]:
        """Return bounds for one direction and the grid width that gave them.

        An upper end of at most `enough` is not refined: another direction is known to be worse.
        """
        saddle = question.saddle(direction.estimate)
        most = question.at_largest_loss(direction.largest_loss)
        if most <= enough:
            return Bounds(0.0, most), 0.0
        width = starting_width(direction, saddle, self.accuracy)
        finest, narrowest = 0.0, width / LARGEST_REFINEMENT
        lower, upper, used = 0.0, math.inf, width
        for _ in range(ATTEMPTS):
            fitted = fitting_width(direction.dominating, width)
            try:
                side = upper_side(direction.dominating, fitted, saddle, question.scale(saddle))
                upper, used = min(upper, question.upper(side, saddle)), fitted
                if not direction.attained or (upper <= enough and direction.is_attained):
                    break
                below = question.saddle(direction.attained_estimate)
                side = lower_side(direction.attained, fitted, below, question.scale(below))
                lower = max(lower, question.lower(side, below))
            except GridTooFine:
                finest = width
                if math.isfinite(upper):
                    break
                width *= 2.0
                continue
            wanted = question.tolerance(upper, self.tolerance, saddle)
            if upper - lower <= wanted or not direction.is_attained:
                break
            ratio = (upper - lower) / wanted if wanted > 0.0 else 64.0
            width = max(width / min(max(1.25 * math.sqrt(ratio), 1.5), 8.0), finest)
            if width < narrowest:
                break
        upper = min(upper, question.ceiling)
        return ordered(lower, upper), used


def _refuse_below_floor(delta: float) -> None:
    if delta < FLOOR:
        raise Unsupported(
            f"The pld engine certifies delta down to {FLOOR:g}; {delta:g} was asked.",
            next_step="The rdp engine has no floor.",
        )
