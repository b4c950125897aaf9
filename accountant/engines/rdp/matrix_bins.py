"""Renyi curves of correlated noise; under balls in bins what hides a unit's bin, without sampling.

The pair is L = P/Q of amplification/bins.py.  It is compared with a Gaussian of squared sensitivity
c beside the mean M of n independent log-normal ratios of variance parameter d, so with the moments
of amplification/bin_moments.py

    (a-1) R(P, Q) <= a (a-1) c / 2 + log E M^a,   (a-1) R(Q, P) <= a (a-1) c / 2 + log E M^-(a-1),

and the larger counts.  Every comparison gives a curve; their least at each order holds.  Under
replace-one the bin is counted as known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ... import events as ev
from ...amplification.bin_moments import MAX_POWER, log_negative_moments, log_power_moments
from ...amplification.bins import HiddenBins, bin_comparisons
from ...arrays import FloatArray
from ...guarantee import Neighbours, Step
from .curves import Curve, curve, interpolated, matrix_gaussian
from .moments import RENYI_OUTWARD_FACTOR


@curve.register(ev.MatrixGaussian)
def correlated(event: ev.MatrixGaussian, neighbours: Neighbours) -> Curve:
    """Return the curve of a strategy, for any participation."""
    if isinstance(event.participation, ev.BallsInBins):
        return bins_curve(event, neighbours)
    return matrix_gaussian(event, neighbours)


def bins_curve(event: ev.MatrixGaussian, neighbours: Neighbours) -> Curve:
    """Return the least curve of all comparisons; under replace-one that of a known bin."""
    known = matrix_gaussian(event, neighbours)
    hidden = [each for each in bin_comparisons(event).above if each.bins > 1]
    if neighbours == "replace-one" or not hidden:
        return known
    step = Step(
        "sampling",
        "The bin is hidden: moments of means of independent log-normal ratios, of 1 of "
        f"{hidden[0].bins:,} up to {hidden[-1].bins:,} bins at a time, beside what shows of every "
        "bin; the least at each order, and the larger of both directions.",
        "derived in amplification/bins.py and amplification/bin_moments.py",
        (
            "each unit's bin is uniform, the same in every pass, independent and secret",
            f"neighbours: {neighbours}",
        ),
    )

    def at(orders: FloatArray) -> FloatArray:
        return np.minimum(known.at(orders), _forward_and_backward(hidden, orders))

    return Curve(at, math.inf, (*known.steps, step))


def _forward_and_backward(hidden: Sequence[HiddenBins], orders: FloatArray) -> FloatArray:
    # A finite bound for each direction at each order, the least of all comparisons.
    forward = np.min([_forward(each, orders) for each in hidden], axis=0)
    backward = np.min([_backward(each, orders) for each in hidden], axis=0)
    return np.asarray(np.maximum(forward, backward) * RENYI_OUTWARD_FACTOR)


def _forward(compared: HiddenBins, orders: FloatArray) -> FloatArray:
    moments = log_power_moments(compared.bins, compared.hidden)

    def at_integers(integers: FloatArray) -> FloatArray:
        few = np.minimum(integers, float(MAX_POWER)).astype(np.intp)
        hiding = np.where(integers <= MAX_POWER, moments[few], np.inf)
        # Beyond, E M^a is at most E W^a.
        hiding = np.minimum(hiding, 0.5 * integers * (integers - 1.0) * compared.hidden)
        return np.asarray(0.5 * integers * compared.shared + hiding / (integers - 1.0))

    return interpolated(at_integers)(orders)


def _backward(compared: HiddenBins, orders: FloatArray) -> FloatArray:
    moments = log_negative_moments(compared.bins, compared.hidden, orders - 1.0)
    return np.asarray(0.5 * orders * compared.shared + moments / (orders - 1.0))
