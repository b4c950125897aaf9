"""The value that meets a TPR at an FPR, by the best of several epsilons.

A delta at one epsilon certifies TPR <= e^eps FPR + delta, a line above the trade-off function; the
best line touches it at the FPR.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from . import events as ev
from .calibration_aims import EventAt, search
from .certified_search import CertifiedValue, Unknown
from .certifiers import Certifier, certifiers_for
from .composition import leaves
from .errors import TargetUnreachable
from .neighbours import Neighbours
from .rootfinding import enclose, narrow
from .targets import RiskTarget, TprTarget

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
    target: RiskTarget, epsilon: float, probe: ev.Event, relation: Neighbours, engine: str
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
            probe = event_at(quantity.start)
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
            parts, slope = leaves(event_at(at)), target.line_slope
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
            parts = leaves(event_at(quantity.value(coordinate)))
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
