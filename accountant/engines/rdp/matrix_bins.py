"""Renyi curves of correlated noise; under balls in bins what hides a unit's bin, without sampling.

The pair is L = P/Q of amplification/bins.py.  It is compared with a Gaussian of squared sensitivity
c with the mean M of n independent log-normal ratios of variance parameter d, so with the moments
of amplification/bin_moments.py

    (a-1) R(P, Q) <= a (a-1) c / 2 + log E M^a,   (a-1) R(Q, P) <= a (a-1) c / 2 + log E M^-(a-1),

and the larger counts.  For R(P, Q) neighbours on a circle of bins may overlap besides.  Every
comparison gives a curve; their least at each order holds.  Under replace-one the bin is counted as
known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import numpy as np

from ... import events as ev
from ...amplification.bin_moments import (
    log_negative_moments,
    log_power_moments,
    log_ring_moments,
)
from ...amplification.bins import BinRing, HiddenBins, bin_comparisons
from ...arrays import FloatArray
from ...guarantee import Neighbours, Step
from ..correlated_noise import HIDDEN_BIN
from .curves import Curve, curve, interpolated, matrix_gaussian
from .moments import RENYI_OUTWARD_FACTOR

SCOUTED_POWERS: Final = (2.0, 8.0, 32.0)
"""The powers whose moments say which comparisons are computed."""

MOST_PROMISING: Final = 2
"""How many are for each of them."""


@curve.register(ev.MatrixGaussian)
def correlated(event: ev.MatrixGaussian, neighbours: Neighbours) -> Curve:
    """Return the curve of a strategy, for any participation."""
    if isinstance(event.participation, ev.BallsInBins):
        return bins_curve(event, neighbours)
    return matrix_gaussian(event, neighbours)


def bins_curve(event: ev.MatrixGaussian, neighbours: Neighbours) -> Curve:
    """Return the least curve of all comparisons; under replace-one that of a known bin."""
    assert isinstance(event.participation, ev.BallsInBins)
    known = matrix_gaussian(event, neighbours)
    compared = bin_comparisons(event)
    hidden = _promising([each for each in compared.above if each.bins > 1])
    if neighbours == "replace-one" or not hidden:
        return known
    step = Step(
        "sampling",
        "The bin is hidden: moments of means of independent log-normal ratios, for 1 of "
        f"{event.participation.bins:,} bins, some at a time, with what shows of every bin; the "
        "least at each order, and the larger of both directions.",
        "derived in amplification/bins.py and amplification/bin_moments.py",
        (
            HIDDEN_BIN,
            f"neighbours: {neighbours}",
        ),
    )

    forward_curves = _forward(hidden, compared.rings)

    def at(orders: FloatArray) -> FloatArray:
        # For each direction the least of all comparisons, then the larger of both.
        forward = np.min([each(orders) for each in forward_curves], axis=0)
        backward = np.min([_backward(each, orders) for each in hidden], axis=0)
        both = np.maximum(forward, backward) * RENYI_OUTWARD_FACTOR
        return np.asarray(np.minimum(known.at(orders), both))

    return Curve(at, math.inf, (*known.steps, step))


def _promising(hidden: Sequence[HiddenBins]) -> list[HiddenBins]:
    """Return those with the least moments at a small and at a large power, about."""

    def log_moment(each: HiddenBins, power: float) -> float:
        growth = 0.5 * power * (power - 1.0)
        most = growth * each.hidden - (power - 1.0) * math.log(each.bins)
        return (
            growth * each.shared + math.log1p(math.exp(min(most, 600.0))) + max(most - 600.0, 0.0)
        )

    chosen = {
        each
        for power in SCOUTED_POWERS
        for each in sorted(hidden, key=partial(log_moment, power=power))[:MOST_PROMISING]
    }
    return sorted(chosen, key=lambda each: each.bins)


def _forward(
    hidden: Sequence[HiddenBins], rings: Sequence[BinRing]
) -> list[Callable[[FloatArray], FloatArray]]:
    """Return a curve of R(P, Q) for each comparison."""
    curves = []
    for each in hidden:
        moments = log_power_moments(each.bins, each.hidden)
        curves.append(_curve_of_moments(moments, each.shared, each.hidden))
    for ring in rings:
        moments = log_ring_moments(ring.bins, ring.hidden, ring.near)
        curves.append(_curve_of_moments(moments, ring.shared, ring.hidden))
    return curves


def _curve_of_moments(
    moments: FloatArray, shared: float, hidden: float
) -> Callable[[FloatArray], FloatArray]:
    def at_integers(integers: FloatArray) -> FloatArray:
        known = np.minimum(integers, moments.size - 1.0)
        hiding = np.where(integers == known, moments[known.astype(np.intp)], np.inf)
        # Beyond, E L^a is at most that of a single bin.
        hiding = np.minimum(hiding, 0.5 * integers * (integers - 1.0) * hidden)
        return np.asarray(0.5 * integers * shared + hiding / (integers - 1.0))

    return interpolated(at_integers)


def _backward(compared: HiddenBins, orders: FloatArray) -> FloatArray:
    moments = log_negative_moments(compared.bins, compared.hidden, orders - 1.0)
    return np.asarray(0.5 * orders * compared.shared + moments / (orders - 1.0))
