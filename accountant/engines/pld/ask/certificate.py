"""Certificates that a composition meets one (epsilon, delta)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ....errors import Unsupported
from ....guarantee import Bounds, Step, agreed
from ....rootfinding import log_odds_over
from ..compose.delta_bounds import DeltaBound, fitting_width, lower_delta_bound, upper_delta_bound
from ..compose.directions import Direction, grid_points_needed
from ..compose.estimate import SaddlePoint
from ..compose.questions import EpsilonAt, Question, crossing
from ..grid.loss_grid import GridTooFine

MAX_REMAINING_GAP_SHARE: Final = 0.5
"""What a narrower grid must leave, at most, of the distance between the ends."""

MAX_NARROWING_STEP: Final = 8.0
"""Most by which one grid is narrower than the last."""

PLD_SHOWS: Final = "The pld engine shows"
"""What is said of a lower end of this engine above its own upper end: a fault in it."""

UNCHECKED_REFINEMENT_POINTS: Final = 1e5
"""Points of a grid that is narrowed without asking whether the last one helped."""

MAX_REFINED_POINTS: Final = 1e6
"""Most points of a grid that is only there to bring the ends nearer."""

WIDE_INTERVAL_TOLERANCES: Final = 4.0
"""How many times the tolerance an interval is said to be wide at."""


@dataclass(frozen=True)
class ChosenGrid:
    """The parameters of an upper bound for one direction: saddle point, width and delta."""

    direction: Direction
    saddle: SaddlePoint
    width: float
    delta: float


@dataclass(frozen=True, eq=False)
class CertifiedDirection:
    """An upper bound on delta for one direction.

    `grid` is the one that was chosen, `width` the width that was used, `saddle` where the answer is
    expected.
    """

    direction: Direction
    saddle: SaddlePoint
    width: float
    upper: DeltaBound
    grid: ChosenGrid


@dataclass(frozen=True, eq=False)
class Certificate:
    """Upper bounds on delta for every direction, made to be tight around one (epsilon, delta).

    `participation` bounds delta too, at any epsilon; where it is enough, no direction is needed.
    `dismissed` bounds the epsilon of directions that were not composed, because no sum of their
    losses exceeds the target.  `answered` returns the log of what the question for delta answers
    at epsilon, at most: it may choose other grids.
    """

    directions: tuple[CertifiedDirection, ...]
    participation: float
    epsilon: float
    delta: float
    tolerance: float
    steps: tuple[Step, ...]
    dismissed: float = 0.0
    answered: Callable[[], float] | None = None

    @property
    def log_excess(self) -> float:
        """Log odds of the certified delta at epsilon over the target's: at most 0 if it is met."""
        directions = [each.upper(self.epsilon) for each in self.directions]
        return log_odds_over(min(max(directions, default=0.0), self._log_drawn), self.delta)

    @cached_property
    def answered_excess(self) -> float:
        """The same for the delta that `PldEngine.delta` answers at epsilon."""
        answered = 0.0 if self.answered is None else self.answered()
        return log_odds_over(min(answered, self._log_drawn), self.delta)

    @property
    def _log_drawn(self) -> float:
        return math.log(self.participation) if self.participation > 0.0 else -math.inf

    @cached_property
    def epsilon_upper(self) -> float:
        """The epsilon that is certified at delta."""
        if self.participation <= self.delta:
            return 0.0
        target = math.log(self.delta)
        directions = (crossing(each.upper, target, each.saddle)[1] for each in self.directions)
        return max(self.dismissed, *directions)

    def bounds(self) -> Bounds:
        """Return bounds on epsilon at delta; the lower end from the worst direction alone."""
        return self._bounds

    @cached_property
    def _bounds(self) -> Bounds:
        if self.participation <= self.delta:
            return Bounds.exactly(0.0)
        upper = self.epsilon_upper
        worst = self.directions[0]
        lower, gap = 0.0, math.inf
        if worst.direction.lower_pairs:
            question = EpsilonAt(self.delta)
            saddle = question.saddle(worst.direction.lower_estimate)
            # Narrower grids for the lower end only: the upper end was certified before.
            for finer in (1.0, 3.0, 9.0):
                if (
                    finer > 1.0
                    and grid_points_needed(worst.direction, saddle, worst.width / finer)
                    > MAX_REFINED_POINTS
                ):
                    break
                with contextlib.suppress(GridTooFine):
                    width = fitting_width(worst.direction.dominating, worst.width / finer)
                    for end in lower_ends(worst.direction, question, width):
                        lower = max(lower, end)
                near = lower == upper or upper - lower <= self.tolerance * upper
                if near or not worst.direction.is_tight:
                    break
                costly = (
                    grid_points_needed(worst.direction, saddle, worst.width / finer)
                    > UNCHECKED_REFINEMENT_POINTS
                )
                if costly and upper - lower > MAX_REMAINING_GAP_SHARE * gap:
                    break
                gap = upper - lower
        return agreed(lower, upper, PLD_SHOWS)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings where the interval stayed wide although the worst data sets are known."""
        if not self.directions or not self.directions[0].direction.is_tight:
            return ()
        return wide_interval_warnings("epsilon", self._bounds, self.tolerance * self._bounds.upper)


def wide_interval_warnings(name: str, bounds: Bounds, tolerance: float) -> tuple[str, ...]:
    """Return a warning where the ends lie much farther apart than `tolerance`, else nothing."""
    if (
        math.isinf(bounds.upper)
        or bounds.upper - bounds.lower <= WIDE_INTERVAL_TOLERANCES * tolerance
    ):
        return ()
    return (
        f"The interval stayed wide: {name} lies between {bounds.lower:.6g} and {bounds.upper:.6g}. "
        "The upper end is proven all the same; the losses spread too far, or delta is too near 1, "
        "for a grid that brings the ends nearer in a few seconds.",
    )


def lower_ends(direction: Direction, question: Question, width: float) -> Iterator[float]:
    """Yield a lower end of the answer for each set of lower-bound pairs; the largest counts.

    Raises `GridTooFine`, perhaps after the first.
    """
    for lower_pairs, estimate in direction.lower_candidates(question):
        saddle = question.saddle(estimate)
        bound = lower_delta_bound(lower_pairs, width, saddle, question.scale(saddle))
        yield question.lower(bound, saddle)


def narrower(width: float, gap: float, target_gap: float) -> float:
    """Return the width of the next grid: the gap falls with its square; aim below the target."""
    ratio = gap / target_gap if target_gap > 0.0 else 64.0
    return width / min(max(1.25 * math.sqrt(ratio), 1.5), MAX_NARROWING_STEP)


def shown_on_finer_grids(
    direction: Direction, question: Question, saddle: SaddlePoint, width: float
) -> float:
    """Return a lower end from grids narrower than `width`, which showed none; 0 if these do not.

    A grid can miss a heavy outcome at the largest loss.
    """
    for finer in (4.0, 16.0, 64.0):
        if grid_points_needed(direction, saddle, width / finer) > MAX_REFINED_POINTS:
            break
        with contextlib.suppress(GridTooFine):
            fitted = fitting_width(direction.dominating, width / finer)
            shown = max(lower_ends(direction, question, fitted), default=0.0)
            if shown > 0.0:
                return shown
    return 0.0


def upper_on(grid: ChosenGrid) -> tuple[DeltaBound, float]:
    """Return an upper bound on a grid, or on the next wider one that can be computed; its width."""
    pairs, width = grid.direction.dominating, grid.width
    # Each doubling of the width halves the number of points.
    for _ in range(40):
        try:
            fitted = fitting_width(pairs, width)
            return upper_delta_bound(pairs, fitted, grid.saddle, grid.delta), fitted
        except GridTooFine:
            width *= 2.0
    raise Unsupported("The losses of this event spread too far for any grid.")
