"""Certificates that a composition meets one (epsilon, delta)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ...errors import EnginesDisagree, Unsupported
from ...guarantee import Bounds, Step
from .directions import Direction
from .estimate import Saddle
from .grid import GridTooFine
from .questions import EpsilonAt, crossing
from .sides import Side, fitting_width, lower_side, upper_side


@dataclass(frozen=True)
class ChosenGrid:
    """What fixes an upper bound for one direction: a saddle and a delta nearby, and a width."""

    way: Direction
    about: Saddle
    width: float
    delta: float


@dataclass(frozen=True, eq=False)
class CertifiedDirection:
    """An upper bound on delta for one direction.

    `grid` is the one that was chosen, `width` the width that was used, `saddle` where the answer is
    expected.
    """

    way: Direction
    saddle: Saddle
    width: float
    upper: Side
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
    warnings: tuple[str, ...] = ()

    @property
    def log_excess(self) -> float:
        """Log of the certified delta at epsilon over the target: at most 0 if it is met."""
        ways = [each.upper.log_delta(self.epsilon) for each in self.directions]
        return min(max(ways, default=0.0), self._log_drawn) - math.log(self.delta)

    @cached_property
    def answered_excess(self) -> float:
        """The same, as the question for delta answers it when it is asked by itself."""
        answered = 0.0 if self.answered is None else self.answered()
        return min(answered, self._log_drawn) - math.log(self.delta)

    @property
    def _log_drawn(self) -> float:
        return math.log(self.participation) if self.participation > 0.0 else -math.inf

    @cached_property
    def epsilon_upper(self) -> float:
        """The epsilon that is certified at delta."""
        if self.participation <= self.delta:
            return 0.0
        target = math.log(self.delta)
        ways = (crossing(each.upper, target, each.saddle)[1] for each in self.directions)
        return max(self.dismissed, *ways)

    def bounds(self) -> Bounds:
        """Return bounds on epsilon at delta; the lower end from the worst direction alone."""
        if self.participation <= self.delta:
            return Bounds.exactly(0.0)
        target, upper = math.log(self.delta), self.epsilon_upper
        worst = self.directions[0]
        lower = 0.0
        if worst.way.attained:
            saddle = EpsilonAt(self.delta).saddle(worst.way.attained_estimate)
            for finer in (1.0, 3.0, 9.0):
                with contextlib.suppress(GridTooFine):
                    width = fitting_width(worst.way.dominating, worst.width / finer)
                    side = lower_side(worst.way.attained, width, saddle, self.delta)
                    lower = max(lower, crossing(side, target, saddle)[0])
                if upper - lower <= self.tolerance * upper or not worst.way.is_attained:
                    break
        return ordered(lower, upper)


def ordered(lower: float, upper: float) -> Bounds:
    """Return the bounds; raise `EnginesDisagree` if the lower end came out above the upper end.

    That would be a fault in this engine, and no number is better than a wrong one.
    """
    if lower > upper:
        raise EnginesDisagree(
            f"The pld engine shows at least {lower:.17g} and at most {upper:.17g}.",
            "Both cannot be true, so one of them is wrong and no number is given.",
            "Please report this event to the authors of privplan; --engine rdp may answer.",
        )
    return Bounds(lower, upper)


def upper_on(grid: ChosenGrid) -> tuple[Side, float]:
    """Return an upper side on a grid, or on the next wider one that can be computed; its width."""
    pairs, width = grid.way.dominating, grid.width
    for _ in range(40):
        try:
            fitted = fitting_width(pairs, width)
            return upper_side(pairs, fitted, grid.about, grid.delta), fitted
        except GridTooFine:
            width *= 2.0
    raise Unsupported("The losses of this event spread too far for any grid.")
