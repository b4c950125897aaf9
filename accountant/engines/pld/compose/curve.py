"""Bounds on delta at every epsilon at once: from above, and attained by two fixed data sets.

One transform without a tilt gives delta(eps) for all eps >= 0 up to an absolute error of about
1e-12, too coarse for a certificate at a small delta (`delta_bounds` has that), and plenty for the
error rates of a test.  With masses p_i on losses l_i of a grid of width w, T_j = sum_{i > j} p_i
and D_j = delta(l_j),

    D_j = (1 - e^-w) T_j + e^-w D_{j+1},

a recursion in which no digits cancel; it is solved by doubling.

The pmf that a pair dominates has a hockey stick below the pair's at every alpha, and so has its
composition.  On a grid that hockey stick is linear in alpha = e^epsilon between the grid's points,
and it is computed as above, with all errors subtracted.  So it bounds the power of the best
test of those two data sets from below, at every false positive rate: that power is the minimum
over alpha of h(alpha) + alpha x FPR, a minimum that lies at a grid point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ....arrays import FloatArray
from ....composition import Composition
from ....errors import Unsupported
from ....guarantee import Neighbours
from ..grid.loss_grid import Grid, GridTooFine, LossPmf
from ..grid.loss_pmfs import upper_pmf
from ..grid.noise import UNIT_ROUNDOFF
from ..grid.pair import Pair
from ..grid.pmf_rows import lower_pmf_rows, upper_pmf_rows
from .delta_bounds import discretized_rounds, fitting_width, informative_lower_pmf
from .directions import (
    CountedPairs,
    Direction,
    directions_of,
    initial_width,
    participation,
)
from .estimate import SaddlePointEstimate
from .questions import EpsilonAt
from .transform import WINDOW_TAIL_MASS, ComposedLoss, compose

CURVE_TAIL_DELTA: Final = 1e-7
"""The delta that a mechanism which adapts to one is fitted to, and the grid's tails."""

CURVE_CENTRE_DELTA: Final = 1e-3
"""The delta around which the grid is as fine as `accuracy` says."""


MAX_ROUND_POINTS: Final = 2.0**17
"""Most grid points on which the losses of one round that matter may lie."""


@dataclass(frozen=True, eq=False)
class DeltaCurve:
    """Upper bounds `deltas` on delta at ascending `epsilons`, for one direction.

    The true delta falls, is convex in x = e^epsilon, and tends to 1 as x tends to 0.  So a chord
    between two nodes, or from (0, 1) to the first, is an upper bound, and the last delta is one for
    every larger epsilon.
    """

    epsilons: FloatArray
    deltas: FloatArray

    def at(self, epsilons: FloatArray) -> FloatArray:
        """Return upper bounds at other epsilons, of any sign."""
        # The first chord begins at x = 0, epsilon = -inf, where delta is 1.
        ends = np.concatenate(([-math.inf], self.epsilons))
        deltas = np.concatenate(([1.0], self.deltas))
        right = np.minimum(np.searchsorted(ends, epsilons), ends.size - 1)
        left = right - 1
        # Where on the chord, in e^epsilon: 1 at the left end, 0 at the right end.
        above = np.expm1(np.minimum(epsilons - ends[right], 0.0))
        share = np.clip(above / np.expm1(ends[left] - ends[right]), 0.0, 1.0)
        chord = share * deltas[left] + (1.0 - share) * deltas[right]
        return np.asarray(np.minimum(chord * (1.0 + 16.0 * UNIT_ROUNDOFF), 1.0))


def delta_curves(
    composition: Composition, neighbours: Neighbours, accuracy: float = 1e-5
) -> tuple[DeltaCurve, ...]:
    """Return upper bounds on delta by epsilon: (with, without), and the reverse where it differs.

    `accuracy` is the relative width in epsilon that the grid aims at.  Raises `Unsupported` for
    leaves without a dominating pair here.
    """
    drawn = participation(composition)
    return tuple(
        _curve(direction, accuracy, min(drawn, 1.0))
        for direction in directions_of(composition, neighbours, CURVE_TAIL_DELTA)
    )


def _curve(direction: Direction, accuracy: float, drawn: float) -> DeltaCurve:
    width = initial_width(direction, direction.estimate.epsilon(CURVE_CENTRE_DELTA), accuracy)
    # Next to a largest possible loss that width would fall without end.
    # All rounds together move at most 1e-7 of CURVE_TAIL_DELTA to infinity.
    tail = CURVE_TAIL_DELTA * 1e-7 / direction.rounds
    ranges = [pair.loss_range(tail) for pair, _ in direction.dominating]
    largest = direction.largest_loss  # of every pair, so it is asked for once
    width = max(width, *((high - max(low, -largest)) / MAX_ROUND_POINTS for low, high in ranges))
    for _ in range(40):
        try:
            fitted = fitting_width(direction.dominating, width)
            return _ended(_on_grid(direction, largest, fitted, drawn), largest)
        except GridTooFine:
            width *= 2.0
    raise Unsupported("The losses of this event spread too far for any grid.")


def _ended(curve: DeltaCurve, largest_loss: float) -> DeltaCurve:
    """Return the curve with delta 0 from a bound on the sum of all losses on, where there is one.

    What the transform gets wrong is then not counted where nothing is left.
    """
    if math.isinf(largest_loss):
        return curve
    end = max(math.nextafter(largest_loss * (1.0 + 8.0 * UNIT_ROUNDOFF), math.inf), 0.0)
    before = curve.epsilons < end
    return DeltaCurve(np.append(curve.epsilons[before], end), np.append(curve.deltas[before], 0.0))


def _on_grid(direction: Direction, largest: float, width: float, drawn: float) -> DeltaCurve:
    def clipped(pair: Pair, grid: Grid, tail: float) -> LossPmf:
        return _clipped_below(upper_pmf(pair, grid, tail), -max(largest, 0.0))

    untilted = replace(direction.estimate.epsilon(CURVE_CENTRE_DELTA), tilt=0.0)
    rounds = discretized_rounds(
        direction.dominating, width, untilted, CURVE_TAIL_DELTA, upper_pmf_rows, clipped
    )
    if rounds.is_empty():
        return DeltaCurve(np.zeros(1), np.full(1, min(rounds.infinite_mass, drawn)))
    composed = compose(rounds, 0.0)
    finite = _deltas(composed, width)
    # A loss may be off by the slack: what is true of the grid holds a slack further up.
    epsilons = np.nextafter(composed.losses + composed.slack, math.inf)
    # Below 0, delta(eps) = 1 - e^eps + e^eps delta'(-eps), delta' of the other order.
    most = 1.0 - (1.0 - drawn) * np.exp(np.minimum(epsilons, 0.0)) + 8.0 * UNIT_ROUNDOFF
    deltas = np.clip((finite + rounds.infinite_mass) * (1.0 + 4.0 * UNIT_ROUNDOFF), 0.0, most)
    deltas = np.minimum.accumulate(deltas)
    # The last of nodes that rounding makes one; and of those below 0, the nearest.
    distinct = np.append(epsilons[1:] > np.maximum(epsilons[:-1], 0.0), True)
    return DeltaCurve(epsilons[distinct], deltas[distinct])


def _clipped_below(pmf: LossPmf, least: float) -> LossPmf:
    """Return the pmf with all losses below `least` moved up to it, or just below.

    Where no sum of losses exceeds -`least`, a sum with one such loss is not above 0 before or
    after, and delta is the same at every epsilon of 0 or above.  A long tail shrinks to a point.
    """
    below = int(np.searchsorted(pmf.losses, least)) - 1
    if below < 1:
        return pmf
    masses = pmf.masses[below:].copy()
    masses[0] = pmf.masses[: below + 1].sum() * (1.0 + pmf.masses.size * UNIT_ROUNDOFF)
    return replace(pmf, first=pmf.first + below, masses=masses)


def _deltas(composed: ComposedLoss, width: float) -> FloatArray:
    """Return upper bounds on the finite part of delta at each loss of the window."""
    sums, errors = delta_sums(composed, width)
    total = np.maximum(sums, 0.0) + errors
    return np.asarray(total * math.exp(composed.cumulant + composed.relative_error))


def delta_sums(composed: ComposedLoss, width: float) -> tuple[FloatArray, FloatArray]:
    """Return the finite part of delta at each loss of a window composed without a tilt, and bounds
    on its absolute errors; both are to be scaled by e^cumulant."""
    size = composed.losses.size
    # T_j = sum over i > j of the masses, then its weighted sums by doubling.
    beyond = np.zeros(size)
    beyond[:-1] = np.cumsum(composed.tilted[:0:-1])[::-1]
    sums = -math.expm1(-width) * beyond
    step = 1
    while step < size:  # from sums over `step` terms to sums over twice as many
        sums[:-step] += math.exp(-width * step) * sums[step:]
        step *= 2
    # The weights are at most 1, so their 2-norm is at most the root of their number.
    noise = composed.error_norm * np.sqrt(np.arange(size, 0.0, -1.0))
    rounding = 8.0 * size * UNIT_ROUNDOFF
    return sums, noise + 2.0 * WINDOW_TAIL_MASS + rounding


MIN_ROUND_POINTS: Final = 2.0**12
"""Fewest grid points on which the losses of one round lie."""

MIN_GATHERED_POINTS: Final = 2.0**16
"""The same where most losses are small and gather at an end, and a few are large: a grid that fits
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
    composition: Composition, neighbours: Neighbours, accuracy: float = 1e-5
) -> tuple[AttainedCurve, ...]:
    """Return lower bounds on delta by epsilon: a curve for each pair of data sets and order.

    None where no pair of data sets is known.  `accuracy` is as in `delta_curves`.
    """
    return tuple(itertools.chain(*attained_orders(composition, neighbours, accuracy)))


def attained_orders(
    composition: Composition, neighbours: Neighbours, accuracy: float = 1e-5
) -> tuple[tuple[AttainedCurve, ...], ...]:
    """Return the curves of `attained_curves` in the order (with, without), and in the reverse one
    where it differs."""
    return tuple(
        tuple(_curves(direction, accuracy))
        for direction in directions_of(composition, neighbours, CURVE_TAIL_DELTA)
    )


def _curves(direction: Direction, accuracy: float) -> Iterator[AttainedCurve]:
    # The same data sets may show most at several deltas.
    shown = {
        id(pairs): (pairs, estimate)
        for delta in COMPARED_AT
        for pairs, estimate in direction.lower_candidates(EpsilonAt(delta))
    }
    for pairs, estimate in shown.values():
        curve = _attained_curve(direction, pairs, estimate, accuracy)
        if curve is not None:
            yield curve


def _attained_curve(
    direction: Direction, pairs: CountedPairs, estimate: SaddlePointEstimate, accuracy: float
) -> AttainedCurve | None:
    width = initial_width(direction, estimate.epsilon(CURVE_CENTRE_DELTA), accuracy)
    tail = CURVE_TAIL_DELTA * 1e-7 / direction.rounds
    ranges = [pair.loss_range(tail) for pair, _ in pairs]
    reach = max(high - low for low, high in ranges)
    gathers = any(pair.support_end is not None for pair, _ in pairs)
    least = MIN_GATHERED_POINTS if gathers else MIN_ROUND_POINTS
    width = max(min(width, reach / least), reach / MAX_ROUND_POINTS)
    for _ in range(MAX_WIDENINGS):
        try:
            return _attained_on_grid(pairs, fitting_width(pairs, width), estimate)
        except GridTooFine:
            width *= 2.0
        except FloatingPointError:  # losses beyond all numbers; another order may be shown
            break
    return None


def _attained_on_grid(
    pairs: CountedPairs, width: float, estimate: SaddlePointEstimate
) -> AttainedCurve:
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
