"""Lower bounds on delta at every epsilon at once, each set of them attained by two fixed data sets.

The pmf that a pair dominates has a hockey stick below the pair's at every alpha, and so has its
composition.  On a grid that hockey stick is linear in alpha = e^epsilon between the grid's points,
and it is computed as in `curve`, with all errors subtracted.  So it bounds the power of the best
test of those two data sets from below, at every false positive rate: that power is the minimum
over alpha of h(alpha) + alpha x FPR, a minimum that lies at a grid point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ...arrays import FloatArray
from ...composition import Leaf
from ...guarantee import Neighbours
from .compose import compose
from .curve import CURVE_CENTRE_DELTA, CURVE_TAIL_DELTA, MAX_ROUND_POINTS, delta_sums
from .delta_bounds import discretized_rounds, fitting_width, informative_lower_pmf
from .directions import CountedPairs, Direction, composition_directions, initial_width
from .estimate import SaddlePointEstimate
from .grid import GridTooFine
from .noise import UNIT_ROUNDOFF
from .pmf_rows import lower_pmf_rows
from .questions import EpsilonAt

MIN_ROUND_POINTS: Final = 2.0**12
"""Fewest grid points on which the losses of one round lie."""

MIN_CROWDED_POINTS: Final = 2.0**16
"""The same where most losses are small and crowd at an end, and a few are large: a grid that fits
the large ones would lower the small ones too far."""

COMPARED_AT: Final = (0.1, 1e-3, 1e-6)
"""Deltas at which those of several data sets are chosen that seem to show most."""

MAX_WIDENINGS: Final = 12
"""Most doublings of the grid's width; a wider one would show nothing."""


@dataclass(frozen=True, eq=False)
class AttainedCurve:
    """Lower bounds `deltas` on delta at ascending `epsilons`, of any sign, for two data sets.

    Between the nodes, from (alpha 0, `total`) to the first and from the last to `beyond`, chords in
    alpha = e^epsilon are lower bounds, too.
    """

    epsilons: FloatArray
    deltas: FloatArray
    total: float
    beyond: float


def attained_curves(
    leaves: Sequence[Leaf], neighbours: Neighbours, accuracy: float = 1e-5
) -> tuple[AttainedCurve, ...]:
    """Return lower bounds on delta by epsilon: a curve for each pair of data sets and order.

    None where no pair of data sets is known.  `accuracy` is as in `delta_curves`.
    """
    return tuple(itertools.chain(*attained_orders(leaves, neighbours, accuracy)))


def attained_orders(
    leaves: Sequence[Leaf], neighbours: Neighbours, accuracy: float = 1e-5
) -> tuple[tuple[AttainedCurve, ...], ...]:
    """Return the curves of `attained_curves` in the order (with, without), and in the reverse one
    where it differs."""
    return tuple(
        tuple(_curves(direction, accuracy))
        for direction in composition_directions(leaves, neighbours, CURVE_TAIL_DELTA)
    )


def _curves(direction: Direction, accuracy: float) -> Iterator[AttainedCurve]:
    # The same data sets may show most at several deltas.
    shown = {
        id(pairs): (pairs, estimate)
        for delta in COMPARED_AT
        for pairs, estimate in direction.lower_candidates(EpsilonAt(delta))
    }
    for pairs, estimate in shown.values():
        curve = _curve(direction, pairs, estimate, accuracy)
        if curve is not None:
            yield curve


def _curve(
    direction: Direction, pairs: CountedPairs, estimate: SaddlePointEstimate, accuracy: float
) -> AttainedCurve | None:
    width = initial_width(direction, estimate.epsilon(CURVE_CENTRE_DELTA), accuracy)
    tail = CURVE_TAIL_DELTA * 1e-7 / direction.rounds
    ranges = [pair.loss_range(tail) for pair, _ in pairs]
    reach = max(high - low for low, high in ranges)
    is_crowded = any(pair.support_end is not None for pair, _ in pairs)
    least = MIN_CROWDED_POINTS if is_crowded else MIN_ROUND_POINTS
    width = max(min(width, reach / least), reach / MAX_ROUND_POINTS)
    for _ in range(MAX_WIDENINGS):
        try:
            return _on_grid(pairs, fitting_width(pairs, width), estimate)
        except GridTooFine:
            width *= 2.0
        except FloatingPointError:  # losses beyond all numbers; another order may be shown
            break
    return None


def _on_grid(pairs: CountedPairs, width: float, estimate: SaddlePointEstimate) -> AttainedCurve:
    untilted = replace(estimate.epsilon(CURVE_CENTRE_DELTA), tilt=0.0)
    rounds = discretized_rounds(
        pairs, width, untilted, CURVE_TAIL_DELTA, lower_pmf_rows, informative_lower_pmf
    )
    # A round with an infinite loss is seen for certain; rounded down.
    infinite = rounds.infinite_mass * (1.0 - 1e-12)
    if rounds.is_empty():
        return AttainedCurve(np.zeros(1), np.full(1, infinite), infinite, infinite)
    composed = compose(rounds, 0.0)
    sums, errors = delta_sums(composed, width)
    scale = math.exp(composed.cumulant - composed.relative_error)
    # What is true of the grid holds a slack further down: a loss may be off by that much.
    epsilons = np.nextafter(composed.losses - composed.slack, -math.inf)
    deltas = _lowered(sums - errors, scale, infinite)
    mass = float(composed.tilted.sum() - errors[0])
    total = float(_lowered(np.array([mass]), scale, infinite)[0])
    return AttainedCurve(epsilons, deltas, total, infinite)


def _lowered(finite: FloatArray, scale: float, infinite: float) -> FloatArray:
    """Return the scaled finite part and the infinite mass together, rounded down, in [0, 1]."""
    whole = np.maximum(finite, 0.0) * scale + infinite
    return np.asarray(np.clip(whole * (1.0 - 8.0 * UNIT_ROUNDOFF), 0.0, 1.0))
