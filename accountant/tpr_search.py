"""Less noise for a TPR than one (epsilon, delta) certifies, by the trade-off function itself.

One epsilon proves the TPR only with the larger delta of both orders of the data sets, and where
losses lie on atoms the best epsilon jumps as noise changes.  The trade-off function of each order
(`risk.attack_power`) has the best of all epsilons for that order, so what it proves at a value of
the unknown is never worse but for the width of its grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from . import events as ev
from .certified_search import SEARCH_PRECISION, Unknown
from .composition import leaves
from .errors import Unsupported
from .events.parts import events_inside
from .guarantee import Neighbours
from .risk.attack_power import AttackPower, proven_power
from .risk.trade_off import gaussian_mu
from .rootfinding import Bracket, enclose, narrow
from .targets import TprTarget

LEAST_GAIN: Final = 5e-5
"""Relative gain in the unknown from which on the trade-off function is searched."""

FIRST_STEP: Final = 1e-3
"""First step towards less protection, in logs of the unknown; each next one is twice as long."""

SCANNED_STEP: Final = 1.0 / 64.0
"""Distance of two points, in logs, where losses lie on a lattice and the TPR may rise and fall."""

SCANNED_POINTS: Final = 96
"""How many such points are looked at, down to e^-1.5 of the noise that the scan starts from."""

_LATTICES: Final = (ev.DiscreteGaussian, ev.TruncatedDiscreteGaussian)


@dataclass(frozen=True)
class TprSearch:
    """A search for the value that protects least among those whose TPR is proven to be low enough.

    `quantity` is the unknown, `event_at` the event at one of its values.
    """

    target: TprTarget
    relation: Neighbours
    quantity: Unknown
    event_at: Callable[[float], ev.Event]

    def below(self, start: float) -> float | None:
        """Return a value that protects less than `start` and meets the target, or None.

        None too where the gain would not be worth it, and where the closed form of a Gaussian
        leaves nothing to gain.
        """
        event = self.event_at(start)
        if gaussian_mu(leaves(event), self.relation) is not None:
            return None
        coordinate = self.quantity.coordinate(start)
        if self.quantity.sign > 0 and any(_lattices(event)):
            bracket = self._scanned(coordinate)
        else:
            bracket = self._walked(coordinate)
        if bracket is None:
            return None
        if bracket.low == bracket.high:
            return self.quantity.value(bracket.high)
        edge = narrow(self._excess, bracket, absolute=SEARCH_PRECISION, steps=40)
        return self.quantity.value(edge.high)

    def epsilon(self, value: float) -> float:
        """Return the epsilon whose delta bounds the TPR best, in the order where it is larger."""
        return self._power(value).tangent_epsilon(self.target.fpr)

    def _power(self, value: float) -> AttackPower:
        return proven_power(self.event_at(value), self.relation)

    def _excess(self, coordinate: float) -> float:
        """Return the log of the proven TPR over the target: at most 0 if that is met."""
        try:
            proven = self._power(self.quantity.value(coordinate)).tpr(self.target.fpr).upper
        except Unsupported:  # noise so small that no grid holds its losses
            return math.inf
        return math.log(proven / self.target.value)

    def _walked(self, start: float) -> Bracket | None:
        """Return a bracket of the first crossing below `start`, a point where all values meet it.

        None where a value that protects a little less misses the target.
        """
        least = self.quantity.coordinate(self.quantity.weakest)
        nearby = start - (LEAST_GAIN if not self.quantity.whole else self._next_whole(start))
        if nearby < least or self._excess(nearby) > 0.0:
            return None
        bracket = enclose(self._excess, nearby, FIRST_STEP, least, start)
        return bracket or Bracket(least, 0.0, least, 0.0)

    def _next_whole(self, start: float) -> float:
        value = self.quantity.value(start)
        return max(start - self.quantity.coordinate(value - self.quantity.sign), LEAST_GAIN)

    def _scanned(self, start: float) -> Bracket | None:
        """Return a bracket of the lowest crossing on a grid below `start`."""
        least = self.quantity.coordinate(self.quantity.weakest)
        points = [start - LEAST_GAIN, *(start - SCANNED_STEP * i for i in range(1, SCANNED_POINTS))]
        points = [point for point in points if point >= least]
        excesses = [self._excess(point) for point in points]
        meeting = [i for i, excess in enumerate(excesses) if excess <= 0.0]
        if not meeting:
            return None
        last = meeting[-1]
        if last + 1 == len(points):
            return Bracket(points[last], 0.0, points[last], 0.0)
        return Bracket(points[last + 1], excesses[last + 1], points[last], excesses[last])


def _lattices(event: ev.Event) -> Iterator[ev.Event]:
    for leaf in leaves(event):
        yield from (each for each in events_inside(leaf.event) if isinstance(each, _LATTICES))
