"""Renyi curves of single releases: partition selection, a shuffled round, truncated noise."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from ... import events as ev
from ...amplification.shuffling.rounds import round_pair
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from ..base import contribution
from .curves import LEAST_SLACK, Curve, capped, curve, of_pair, set_aside
from .moments import Pair


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
        "derived in engines/rdp/releases.py",
        (f"neighbours: {neighbours}",),
    )
    return Curve(
        lambda orders: counts * single.at(orders),
        counts * single.limit,
        (*single.steps, step),
        slack=slack,
    )


@curve.register(ev.Shuffle)
def shuffle(event: ev.Shuffle, neighbours: Neighbours) -> Curve:
    """The curve of the pair of one round; its infinite loss is an event set aside.

    What dominates at every order of the hockey stick has the larger Renyi divergences, too.
    Replace-one, and zero-out as a case of it; raises `Unsupported` under add-remove.
    Source: the pair is derived in `amplification.shuffling`.
    """
    dominating = round_pair(event, neighbours)
    log_p, log_q = dominating.outcomes
    # Outcomes that only P has are set aside with their mass, rounded up: the slack.
    finite = np.isfinite(log_p) & np.isfinite(log_q)
    alone = log_p[np.isneginf(log_q) & (log_p > -np.inf)]
    slack = set_aside(float(np.exp(alone).sum()) * (1.0 + 1e-12)) if alone.size else 0.0
    losses = log_p[finite] - log_q[finite]
    limit = float(losses.max()) * (1.0 + 1e-12)
    if limit == 0.0:
        return Curve(np.zeros_like, 0.0, dominating.steps, slack)
    # The rest is renormalised: divided by 1 - slack.
    pair = Pair(log_q[finite] - math.log1p(-slack), losses)
    return Curve(capped(of_pair(pair), limit), limit, dominating.steps, slack)


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
        "derived in engines/rdp/releases.py",
        ("both noise centres are integers",),
    )
    return Curve(capped(of_pair(Pair(weights, moved - around)), limit), limit, (step,), slack=slack)
