"""Renyi curves of partition selection: what noise hides, and the new keys that nothing hides."""

from __future__ import annotations

import math

from scipy.special import log_ndtr

from ... import events as ev
from ...guarantee import Neighbours, Step
from .curves import Curve, curve, set_aside


@curve.register(ev.TruncatedGeometricSelection)
def truncated_geometric(event: ev.TruncatedGeometricSelection, neighbours: Neighbours) -> Curve:
    """The curve of as many (epsilon, delta)-DP choices as counts move."""
    single = curve(ev.Approximate(event.epsilon, event.delta), "add-remove")
    return _of_counts(single, event.delta, event.partitions, neighbours, "keys kept or not")


@curve.register(ev.ThresholdSelection)
def threshold(event: ev.ThresholdSelection, neighbours: Neighbours) -> Curve:
    """The curve of noisy counts; a new key that passes the threshold is set aside."""
    above = (event.threshold - 1.0) / event.noise_scale
    if event.noise == "gaussian":
        single = curve(ev.Gaussian(event.noise_scale), "add-remove")
        shown = math.exp(float(log_ndtr(-above)))
    else:
        single = curve(ev.Laplace(event.noise_scale), "add-remove")
        shown = 0.5 * math.exp(-abs(above))
        shown = shown if above >= 0.0 else 1.0 - shown
    shown *= 1.0 + 1e-11  # its own rounding
    return _of_counts(
        single, set_aside(shown), event.partitions, neighbours, "noisy counts of keys"
    )


def _of_counts(single: Curve, alone: float, keys: int, neighbours: Neighbours, what: str) -> Curve:
    """Return the curve of all counts that a unit moves, `alone` set aside for each of its keys."""
    counts = 2 * keys if neighbours == "replace-one" else keys
    # 1 - (1 - d)^counts, rounded up: replaced, either data set may show a key of its own.
    slack = min(alone, 1.0)
    if counts > 1 and slack < 1.0:
        slack = -math.expm1(counts * math.log1p(-slack)) * (1.0 + 1e-11)
    slack = set_aside(slack) if alone > 0.0 else 0.0
    step = Step(
        "mechanism",
        f"{what.capitalize()}, {counts:,} of which move by one; a key of one data set alone is "
        f"seen with probability {slack:.6g} at most.",
        "derived in engines/rdp/selections.py",
        (f"neighbours: {neighbours}",),
    )
    return Curve(
        lambda orders: counts * single.at(orders),
        counts * single.limit,
        (*single.steps, step),
        slack=slack,
    )
