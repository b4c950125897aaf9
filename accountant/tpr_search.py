"""Less noise for a TPR than one (epsilon, delta) certifies, by the trade-off function itself.

One epsilon proves the TPR only with the larger delta of both orders of the data sets, and where
losses lie on atoms the best epsilon jumps as noise changes.  The trade-off function of each order
(`risk.attack_power`) has the best of all epsilons for that order, so what it proves at a value of
the unknown is never worse but for the width of its grid.

The value that meets a TPR at an FPR, by the best of several epsilons.

A delta at one epsilon certifies TPR <= e^eps FPR + delta, a line above the trade-off function; the
best line touches it at the FPR.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from . import events as ev
from .calibration_aims import EventAt, search
from .calibration_targets import RiskTarget, TprTarget
from .certified_search import SEARCH_PRECISION, CertifiedValue, Unknown
from .certifiers import Certifier, certifiers_for
from .composition import Composition
from .errors import TargetUnreachable, Unsupported
from .guarantee import Neighbours
from .risk.attack_power import AttackPower, proven_power
from .risk.trade_off import gaussian_mu
from .rootfinding import Bracket, enclose, narrow

MAX_TANGENTS: Final = 8
"""Most epsilons at which a TPR is certified in one search; two or three are the rule."""

TANGENT_GAIN: Final = 5e-6
"""Relative gain in the unknown from which on another epsilon is tried."""

QUICK_TANGENTS: Final = 3
"""After so many epsilons that helped, a value and its epsilon are looked for together."""

TANGENTS_BEFORE_CURVES: Final = 3
"""So many of them where the trade-off function is searched next."""

LEAST_CURVE_TPR: Final = 1e-6
"""Smallest TPR that a curve of deltas, with its absolute errors, tells to a relative 1e-6."""

LARGEST_TANGENT_EPSILON: Final = 40.0
"""Largest epsilon of a tangent: beyond, with an FPR below e^-40, the trade-off function helps."""


def risk_certifier(
    target: RiskTarget, epsilon: float, probe: Composition, relation: Neighbours, engine: str
) -> Certifier:
    """Return what certifies, by one engine, that the delta at an epsilon meets the target."""
    (certifier,) = certifiers_for(probe, epsilon, target.delta(epsilon), relation, engine)
    return certifier


@dataclass(frozen=True)
class TangentSearch:
    """The best value of an unknown for a TPR, as one engine certifies it."""

    target: TprTarget
    relation: Neighbours
    engine: str
    event_at: EventAt

    def best(self, quantity: Unknown) -> CertifiedValue:
        """Return the best value over all epsilons, at each of which a delta meets the target.

        At the best epsilon the line e^eps FPR + delta touches the trade-off function at the FPR;
        what an epsilon next to it costs is of second order, unless losses end in an atom there.
        """
        target, event_at = self.target, self.event_at
        epsilon, best = target.first_epsilon, None
        # The trade-off function, which a search by pld ends with, knows all epsilons at once.
        is_first = self.engine == "pld" and target.value >= LEAST_CURVE_TPR
        tangents = TANGENTS_BEFORE_CURVES if is_first else MAX_TANGENTS
        for tried in range(tangents):
            probe = Composition.of(event_at(quantity.start))
            certifier = risk_certifier(target, epsilon, probe, self.relation, self.engine)
            gain = math.inf
            try:
                candidate = search(quantity, certifier, event_at)
            except TargetUnreachable:
                # Perhaps not at this epsilon: a delta that no noise lowers calls for a smaller one.
                at = quantity.strongest
            else:
                at = candidate.value
                if best is not None:
                    gain = quantity.coordinate(best.value) - quantity.coordinate(at)
                if gain > 0.0:
                    best, quantity = candidate, replace(quantity, start=at)
            if gain <= TANGENT_GAIN or (best is not None and tried == tangents - 1):
                break
            parts, slope = Composition.of(event_at(at)), target.line_slope
            nearer = target.admissible(certifier.tangent(parts, slope, LARGEST_TANGENT_EPSILON)[0])
            if tried == QUICK_TANGENTS:
                # The best epsilon moves as fast as the value does: look for both at once.
                nearer = self._touching(quantity, certifier)
            if abs(nearer - epsilon) <= 1e-9 * epsilon:
                break
            epsilon = nearer
        if best is None:
            raise TargetUnreachable("No epsilon certifies this target.")
        return best

    def _touching(self, quantity: Unknown, certifier: Certifier) -> float:
        """Return the epsilon of the tangent at the value where the TPR is about the target's."""
        target, event_at = self.target, self.event_at
        allowed = math.exp(target.first_epsilon) * target.line_slope + target.delta(
            target.first_epsilon
        )

        def tangent(coordinate: float) -> tuple[float, float]:
            parts = Composition.of(event_at(quantity.value(coordinate)))
            return certifier.tangent(parts, target.line_slope, LARGEST_TANGENT_EPSILON)

        ends = sorted(map(quantity.coordinate, (quantity.weakest, quantity.strongest)))
        bracket = enclose(
            lambda coordinate: math.log(tangent(coordinate)[1] / allowed),
            quantity.coordinate(quantity.start),
            0.05,
            *ends,
        )
        if bracket is None:
            return target.admissible(tangent(quantity.coordinate(quantity.start))[0])
        root = narrow(
            lambda coordinate: math.log(tangent(coordinate)[1] / allowed),
            bracket,
            absolute=TANGENT_GAIN,
            steps=30,
        )
        return target.admissible(tangent(root.high)[0])


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
    event_at: EventAt

    def below(self, start: float) -> float | None:
        """Return a value that protects less than `start` and meets the target, or None.

        None too where the gain would not be worth it, and where the closed form of a Gaussian
        leaves nothing to gain.
        """
        composition = Composition.of(self.event_at(start))
        if gaussian_mu(composition, self.relation) is not None:
            return None
        coordinate = self.quantity.coordinate(start)
        if self.quantity.sign > 0 and any(map(composition.inside, _LATTICES)):
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
