"""The Renyi curve of discrete Gaussian noise that never leaves [-bound, +bound]."""

from __future__ import annotations

import math

import numpy as np

from ... import events as ev
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from ..base import contribution
from .curves import LEAST_SLACK, Curve, capped, curve, of_pair, set_aside
from .moments import Pair

MAX_LISTED_OUTCOMES = 200_000
"""Most outcomes whose moments are summed."""


@curve.register(ev.TruncatedDiscreteGaussian)
def truncated_discrete_gaussian(
    event: ev.TruncatedDiscreteGaussian, neighbours: Neighbours
) -> Curve:
    """The curve on the outcomes that both data sets may have; what only one has is set aside.

    With the noise in [-B, B] and centres 0 and c D, the outcomes in [c D - B, B] have both, and by
    symmetry each data set gives them the same probability 1 - s; there R is a sum over outcomes.
    Any smaller shift shows less: log-concave noise has monotone likelihood ratios, so the best test
    is a threshold, and its power grows with the shift.  Source: derived here.
    """
    shift, bound = contribution(neighbours) * event.sensitivity, event.bound
    sigma = event.noise_multiplier * event.sensitivity
    if 2 * bound + 1 > MAX_LISTED_OUTCOMES:
        raise Unsupported(f"A bound of {bound:,} gives too many outcomes to list.")
    z = np.arange(-bound, bound + 1, dtype=float)
    logs = -0.5 * (z / sigma) ** 2
    masses = np.exp(logs) / math.fsum(np.exp(logs).tolist())
    statement = (
        f"Discrete Gaussian noise of standard deviation {sigma:.6g} before it is cut at {bound:,}, "
        f"shifted by {shift:,}"
    )
    if shift > 2 * bound:
        step = Step("mechanism", f"{statement}: the two never meet.", "derived here")
        return Curve(np.zeros_like, 0.0, (step,), slack=1.0)
    common = np.arange(shift - bound, bound + 1, dtype=float)
    alone = masses[: common[0].astype(int) + bound]
    # Each mass may have lost as much as the smallest float, or all of it.
    slack = set_aside(math.fsum(alone.tolist()) * (1.0 + 1e-12) + alone.size * LEAST_SLACK)
    around, moved = -0.5 * (common / sigma) ** 2, -0.5 * ((common - shift) / sigma) ** 2
    weights = around - float(np.logaddexp.reduce(around))
    limit = float((moved - around).max()) * (1.0 + 1e-14)
    step = Step(
        "mechanism",
        f"{statement}; outcomes of probability {slack:.6g} are one data set's alone.",
        "derived in engines/rdp/truncated_noise.py",
        ("both noise centres are integers",),
    )
    return Curve(capped(of_pair(Pair(weights, moved - around)), limit), limit, (step,), slack=slack)
