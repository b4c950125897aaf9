"""The pld engine: bounds on epsilon and delta from both sides, on a grid that fits the question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ....composition import Composition
from ....errors import Unsupported
from ....guarantee import Bounds, Neighbours, agreed
from ....rootfinding import log_odds_over
from ....schedules import kind, sketched
from ...base import Answer
from ..compose.delta_bounds import fitting_width, upper_delta_bound
from ..compose.directions import (
    Direction,
    composed_steps,
    directions_of,
    estimate_level,
    grid_points_needed,
    initial_width,
    participation,
    participation_steps,
    quantized_delta,
    quantized_saddle,
    worst_at,
    worst_first,
)
from ..compose.estimate import SaddlePoint
from ..compose.questions import MIN_CERTIFIED_DELTA, DeltaAt, EpsilonAt, Question
from ..grid.loss_grid import GridTooFine
from .certificate import (
    MAX_REFINED_POINTS,
    MAX_REMAINING_GAP_SHARE,
    PLD_SHOWS,
    UNCHECKED_REFINEMENT_POINTS,
    Certificate,
    CertifiedDirection,
    ChosenGrid,
    lower_ends,
    narrower,
    shown_on_finer_grids,
    upper_on,
    wide_interval_warnings,
)

MOST_LOSS: Final = 1e9
"""About the largest epsilon that is looked for on a grid; beyond that Renyi bounds are as good."""

MAX_GRIDS_PER_DIRECTION: Final = 12
"""Most grids that are tried for one direction."""

MAX_REFINEMENT: Final = 40.0
"""How much narrower than first chosen a grid may get; beyond that the answer stays wide."""

MAX_FIRST_GRID_POINTS: Final = 2e6
"""Most points of the first grid: an enormous epsilon gets a wider one, and fewer digits."""

COARSE_WIDTH_FACTOR: Final = 4.0
"""How much wider the grid is on which a direction is first looked at that may not matter."""

MAX_SADDLE_POINT_DELTA: Final = 0.1
"""Largest delta that a saddle point is trusted to estimate: it is made for tails."""

ESTIMATE_WIDTH_FACTOR: Final = 16.0
"""How much wider the grid of a certificate is that stands in for an estimate."""

INITIAL_DELTA: Final = 1e-6
"""Where the search for the delta at an epsilon begins; any other would do."""

MAX_DELTA_ESTIMATES: Final = 4
"""Most estimates of that delta."""


class PldEngine:
    """Certified privacy-loss-distribution accounting.

    `accuracy` is the relative width of the answer that is aimed at (in epsilon): the grid is
    chosen from it by the known second-order error of the pmfs.  It is refined while the answer is
    wider than `tolerance`, as far as there is a lower bound to compare with.

    Both questions about one point agree: what `certificate` certifies at (epsilon, delta) is what
    `epsilon` answers at that delta, and what `delta` answers at that epsilon, or less than that.
    """

    name = "pld"

    def __init__(self, accuracy: float = 5e-5, tolerance: float = 5e-4) -> None:
        self.accuracy = accuracy
        self.tolerance = tolerance

    def epsilon(self, composition: Composition, delta: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest epsilon at which `composition` is (epsilon, delta)-DP.

        Raises `Unsupported` for leaves without a dominating pair here, below
        `MIN_CERTIFIED_DELTA`, and where epsilon would be beyond about `MOST_LOSS`.
        """
        if participation(composition) <= delta:
            return Answer(Bounds.exactly(0.0), participation_steps(composition, neighbours))
        _refuse_below_floor(delta)
        directions = directions_of(composition, neighbours, delta)
        return self._answer(composition, neighbours, EpsilonAt(delta), directions)

    def delta(self, composition: Composition, epsilon: float, neighbours: Neighbours) -> Answer:
        """Return bounds on the smallest delta at which `composition` is (epsilon, delta)-DP."""
        question, directions = self.delta_question(composition, neighbours, epsilon)
        answer = self._answer(composition, neighbours, question, _needed_at(epsilon, directions))
        participation_bound = participation(composition)
        if answer.bounds.upper <= participation_bound:
            return answer
        return replace(answer, bounds=agreed(answer.bounds.lower, participation_bound, PLD_SHOWS))

    def estimate(
        self, composition: Composition, epsilon: float, delta: float, neighbours: Neighbours
    ) -> float:
        """Return about log(delta at epsilon / delta); nothing rests on it."""
        participation_bound = participation(composition)
        if participation_bound == 0.0:
            return -math.inf
        _refuse_below_floor(delta)
        # The pair of a shuffled round costs most, and has rare losses so large that they, and not
        # what is likely, would decide where the saddle point lies.
        shuffled = any("shuffle" in kind(leaf.event) for leaf in composition)
        if delta > MAX_SADDLE_POINT_DELTA or shuffled:
            return self.certificate(
                composition, epsilon, delta, neighbours, ESTIMATE_WIDTH_FACTOR
            ).log_excess
        saddle, _ = worst_at(directions_of(sketched(composition), neighbours, delta), epsilon)
        return log_odds_over(min(saddle.log_delta, math.log(participation_bound)), delta)

    def certificate(
        self,
        composition: Composition,
        epsilon: float,
        delta: float,
        neighbours: Neighbours,
        coarser: float = 1.0,
    ) -> Certificate:
        """Return whether `composition` is certified (epsilon, delta)-DP, and how far it is from it.

        `coarser` widens the grids: a cheaper certificate, which is as valid and less tight.
        The grids are those on which `epsilon` would answer, so that it agrees, and where the target
        is met, those on which `delta` would.  Directions other than the worst are first looked at
        on a coarser one, which is enough where they are not the worst even so.
        """
        participation_bound = participation(composition)
        if participation_bound <= delta:
            steps = participation_steps(composition, neighbours)
            return Certificate((), participation_bound, epsilon, delta, self.tolerance, steps)
        _refuse_below_floor(delta)
        directions = _needed_at(epsilon, directions_of(composition, neighbours, delta))
        question = EpsilonAt(delta)
        certified: list[CertifiedDirection] = []
        dismissed_epsilon, worst_log_delta = 0.0, -math.inf
        for direction, saddle in worst_first(question, directions):
            if certified and direction.largest_loss <= epsilon:
                dismissed_epsilon = max(dismissed_epsilon, direction.largest_loss)
                continue
            for factor in (COARSE_WIDTH_FACTOR, 1.0) if certified else (1.0,):
                each = self._upper(question, direction, saddle, coarser * factor)
                if each.upper(epsilon) <= worst_log_delta:
                    break
            certified.append(each)
            worst_log_delta = max(worst_log_delta, each.upper(epsilon))
        if epsilon == 0.0 and worst_log_delta > math.log(delta):
            # One order alone was looked at, which says nothing of epsilon in the other.
            dismissed_epsilon = math.inf
        steps = composed_steps(composition, neighbours, [each.width for each in certified], delta)
        answered = partial(
            self._delta_answered, composition, epsilon, delta, neighbours, certified, directions
        )
        return Certificate(
            tuple(certified),
            participation_bound,
            epsilon,
            delta,
            self.tolerance,
            steps,
            dismissed_epsilon,
            answered,
        )

    def _delta_answered(
        self,
        composition: Composition,
        epsilon: float,
        delta: float,
        neighbours: Neighbours,
        certified: Sequence[CertifiedDirection],
        directions: Sequence[Direction],
    ) -> float:
        """Return the log of what `delta` answers at epsilon, at most; `certified` was certified
        there.

        Where it chooses the same grids, which is the rule, hardly anything is composed.
        """
        question, directions = self.delta_question(
            composition, neighbours, epsilon, directions, delta
        )
        certified_on = {each.grid: each for each in certified}
        log_delta = -math.inf
        needed = worst_first(question, _needed_at(epsilon, directions))
        for index, (direction, saddle) in enumerate(needed):
            upper = math.log(question.ceiling)
            if question.at_largest_loss(direction.largest_loss) == 0.0:
                upper = -math.inf
            for factor in (COARSE_WIDTH_FACTOR, 1.0) if index else (1.0,):
                if upper > math.log(delta):
                    grid = self._grid(question, direction, saddle, factor)
                    known = certified_on.get(grid)
                    each = known or self._upper(question, direction, saddle, factor)
                    upper = min(upper, each.upper(epsilon))
            log_delta = max(log_delta, upper)
        return log_delta

    def delta_question(
        self,
        composition: Composition,
        neighbours: Neighbours,
        epsilon: float,
        known_directions: Sequence[Direction] = (),
        known_at: float = 0.0,
    ) -> tuple[DeltaAt, Sequence[Direction]]:
        """Return the question for delta at an epsilon, and the directions for it.

        About which delta that is, estimates say first, then a coarse bound.  Of pairs that are
        fitted to a delta, those count that seem to leave least: every fit is a bound at every
        epsilon.  `known_directions` are for a question about `known_at`, and used where they fit.
        """

        def directions_at(delta: float) -> Sequence[Direction]:
            fit = (
                known_directions
                and not known_directions[0].adapted
                and estimate_level(delta) == estimate_level(known_at)
            )
            return known_directions if fit else directions_of(composition, neighbours, delta)

        # A fixed point: the directions depend on delta, and delta on the directions.
        guess = INITIAL_DELTA
        tried: list[_Candidate] = []
        for _ in range(MAX_DELTA_ESTIMATES):
            tried.append(_candidate(directions_at(guess), epsilon))
            estimated, worst = tried[-1].delta, tried[-1].worst
            close = (
                abs(math.log(estimated / guess)) < 0.1
                if worst.adapted
                else estimate_level(estimated) == estimate_level(guess)
            )
            last, guess = guess, estimated
            if close:
                break
        if worst.adapted:
            # Fitted to a delta, a bound may jump; then guesses go to and fro, around others.
            if not close:
                tried.append(_candidate(directions_at(math.sqrt(last * guess)), epsilon))
            best = min(tried, key=lambda each: each.delta)
            return DeltaAt(epsilon, self._coarse_delta(best, epsilon)), best.directions
        guess = self._coarse_delta(tried[-1], epsilon)
        return DeltaAt(epsilon, guess), directions_at(guess)

    def _coarse_delta(self, tried: _Candidate, epsilon: float) -> float:
        """Return a bound on delta at epsilon by a coarse grid, which starts a finer question."""
        if tried.delta <= MIN_CERTIFIED_DELTA:
            return tried.delta
        question = EpsilonAt(tried.delta)
        coarse = self._upper(question, tried.worst, tried.saddle, COARSE_WIDTH_FACTOR)
        return max(math.exp(min(coarse.upper(epsilon), 0.0)), MIN_CERTIFIED_DELTA)

    def _grid(
        self, question: Question, direction: Direction, saddle: SaddlePoint, coarser: float
    ) -> ChosenGrid:
        """Return the first grid for a direction."""
        quantized = quantized_saddle(saddle)
        width = initial_width(direction, quantized, self.accuracy) * coarser
        width *= max(grid_points_needed(direction, quantized, width) / MAX_FIRST_GRID_POINTS, 1.0)
        return ChosenGrid(direction, quantized, width, quantized_delta(question.scale(saddle)))

    def _upper(
        self, question: Question, direction: Direction, saddle: SaddlePoint, coarser: float
    ) -> CertifiedDirection:
        grid = self._grid(question, direction, saddle, coarser)
        bound, used_width = upper_on(grid)
        return CertifiedDirection(direction, saddle, used_width, bound, grid)

    def _answer(
        self,
        composition: Composition,
        neighbours: Neighbours,
        question: Question,
        directions: Sequence[Direction],
    ) -> Answer:
        lower = upper = 0.0
        widths: list[float] = []
        ordered = worst_first(question, directions)
        if ordered[0][1].epsilon > MOST_LOSS:
            raise Unsupported(
                f"The losses add up to about {ordered[0][1].epsilon:.2g}, too much for a grid.",
                "Nobody is protected at such an epsilon, and Renyi bounds it as well.",
            )
        for direction, saddle in ordered:
            sufficient = upper if widths else None
            bounds, width = self._bounds(direction, saddle, question, sufficient)
            lower, upper = max(lower, bounds.lower), max(upper, bounds.upper)
            widths.append(width)
        overall = Bounds(lower, upper)
        steps = composed_steps(composition, neighbours, widths, question.least_delta)
        worst, saddle = ordered[0]
        target_gap = question.tolerance(upper, self.tolerance, saddle)
        warnings = (
            wide_interval_warnings(question.name, overall, target_gap) if worst.is_tight else ()
        )
        return Answer(overall, steps, warnings)

    def _bounds(
        self,
        direction: Direction,
        saddle: SaddlePoint,
        question: Question,
        sufficient: float | None,
    ) -> tuple[Bounds, float]:
        """Return bounds for one direction and the grid width that gave them.

        An upper end of at most `sufficient` is not refined: another direction is known to be worse.
        """
        largest_loss_bound = question.at_largest_loss(direction.largest_loss)
        if largest_loss_bound <= (sufficient or 0.0):
            return Bounds(0.0, largest_loss_bound), 0.0
        upper = largest_loss_bound
        # A direction that another one exceeds even on a coarse grid needs no finer one.
        if sufficient is not None:
            coarse = self._upper(question, direction, saddle, COARSE_WIDTH_FACTOR)
            upper = min(upper, question.upper(coarse.upper, saddle))
            if upper <= sufficient and (direction.is_tight or not direction.lower_pairs):
                return Bounds(0.0, upper), coarse.width
        grid = self._grid(question, direction, saddle, 1.0)
        width = used_width = grid.width
        min_width_allowed, min_width, has_upper = 0.0, width / MAX_REFINEMENT, False
        lower, gap = 0.0, math.inf
        # Every grid gives a valid interval; the best ends of all grids are kept.
        for _ in range(MAX_GRIDS_PER_DIRECTION):
            fitted = fitting_width(direction.dominating, width)
            try:
                bound = upper_delta_bound(direction.dominating, fitted, grid.saddle, grid.delta)
                upper = min(upper, question.upper(bound, saddle))
                used_width, has_upper = fitted, True
                is_enough = upper <= (sufficient or 0.0) and direction.is_tight
                if is_enough or not direction.lower_pairs:
                    break
                for end in lower_ends(direction, question, fitted):
                    lower = max(lower, end)
            except GridTooFine:
                min_width_allowed = width
                if has_upper:
                    break
                width *= 2.0
                continue
            target_gap = question.tolerance(upper, self.tolerance, saddle)
            if lower == upper or upper - lower <= target_gap or not direction.is_tight:
                break
            # The error is of second order: if a costly grid hardly helped, no narrower one will.
            costly = grid_points_needed(direction, saddle, width) > UNCHECKED_REFINEMENT_POINTS
            if costly and upper - lower > MAX_REMAINING_GAP_SHARE * gap:
                break
            gap = upper - lower
            width = max(narrower(width, gap, target_gap), min_width_allowed)
            points = grid_points_needed(direction, saddle, width)
            if width < min_width or points > MAX_REFINED_POINTS:
                break
        if lower == 0.0 and direction.lower_pairs and not direction.is_tight:
            lower = shown_on_finer_grids(direction, question, saddle, width)
        return agreed(lower, min(upper, question.ceiling), PLD_SHOWS), used_width


@dataclass(frozen=True, eq=False)
class _Candidate:
    """Directions, the worst of them, and about its delta at an epsilon; nothing rests on it."""

    directions: Sequence[Direction]
    worst: Direction
    saddle: SaddlePoint
    delta: float


def _candidate(directions: Sequence[Direction], epsilon: float) -> _Candidate:
    saddle, worst = worst_at(directions, epsilon)
    estimated = max(math.exp(min(saddle.log_delta, 0.0)), MIN_CERTIFIED_DELTA)
    return _Candidate(directions, worst, saddle, estimated)


def _needed_at(epsilon: float, directions: Sequence[Direction]) -> Sequence[Direction]:
    """Return the directions that a delta at `epsilon` needs.

    At 0 it is the total variation distance, which is the same in both orders of the data sets.
    """
    return directions[:1] if epsilon == 0.0 else directions


def _refuse_below_floor(delta: float) -> None:
    if delta < MIN_CERTIFIED_DELTA:
        raise Unsupported(
            f"The pld engine certifies delta down to {MIN_CERTIFIED_DELTA:g}; {delta:g} was asked.",
            next_step="The rdp engine has no floor.",
        )
