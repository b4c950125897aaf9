"""Renyi curves of other single releases: stated numbers, responses, partition selection, a shuffle.

**Bounds on R at a few orders** only, and no more, are known of a release.  The listed values v_i
bound both divergences at orders a_i = 1 + b_i.  What they say of other orders follows from one
fact: f(b) = b R(1 + b) is convex in b on [0, b_n], and tends to 0 as b does, as R(a_1) is finite.
So on both sides of b take any two of the points

    (0, 0), (b_1, b_1 v_1), ..., (b_n, b_n v_n):

f lies below its chord between their abscissae, and that below the chord of the points, as weights
are not negative.  The least of all these chords is the lower convex hull of the points.  The chord
from (0, 0) says that R(1 + b) <= v_i for b <= b_i, so nothing is gained by using that R never
falls, and values that fall as orders rise do no harm: the smaller one counts below, too.  Beyond
a_n nothing is known, and the bound is infinite.

Source: van Erven and Harremoes 2014, Corollary 2 (convexity), arXiv 1206.2459v2; the hull is
derived here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import log_ndtr

from ... import events as ev
from ...amplification.shuffling.rounds import round_pair
from ...arrays import FloatArray
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from ..base import contribution
from .curves import (
    LEAST_SLACK,
    NOTHING,
    Curve,
    _pure_curve,
    capped,
    curve,
    lowered,
    of_pair,
    quadratic,
    set_aside,
)
from .moments import RENYI_OUTWARD_FACTOR, Pair


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


@curve.register(ev.Renyi)
def renyi_at_orders(event: ev.Renyi, neighbours: Neighbours) -> Curve:  # noqa: ARG001
    """The lower hull of b R(1 + b) through the listed orders; infinite above the last of them.

    The values hold for the relation that is named; see the docstring of the module.
    """
    if 0.0 in event.values:
        # A divergence of 0 at one order is that of equal distributions: 0 at every order.
        return NOTHING
    hull = lower_hull(event.orders, event.values)
    last = event.orders[-1]

    def at(orders: FloatArray) -> FloatArray:
        return hull_values(hull, last, orders)

    return Curve(
        at=at,
        limit=math.inf,
        steps=(
            Step(
                "mechanism",
                f"R(a) as stated at {len(event.orders)} orders from {event.orders[0]:.6g} to "
                f"{last:.6g}; between them chords of the convex (a-1) R(a), beyond them nothing.",
                "van Erven and Harremoes 2014, Corollary 2, arXiv 1206.2459v2; derived in "
                "engines/rdp/releases.py",
                ("the values bound both directions of all neighbouring data sets",),
            ),
        ),
        listed=event.orders,
    )


def lower_hull(orders: Sequence[float], values: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Return the corners (b, b R) of the lower convex hull of (0, 0) and all (a - 1, (a - 1) R).

    Range: `orders` above 1 and ascending, `values` 0 or above and finite.

    >>> [corners.tolist() for corners in lower_hull([2.0, 3.0, 5.0], [1.0, 9.0, 2.0])]
    [[0.0, 1.0, 4.0], [0.0, 1.0, 8.0]]
    """
    corners = [(0.0, 0.0)]
    for order, value in zip(orders, values, strict=True):
        b = order - 1.0
        corner = (b, b * value)
        # A corner on or above the line past it is none; a wrong choice costs tightness alone.
        while len(corners) > 1 and _slope(corners[-2], corners[-1]) >= _slope(corners[-2], corner):
            corners.pop()
        corners.append(corner)
    return np.array([b for b, _ in corners]), np.array([moment for _, moment in corners])


def _slope(left: tuple[float, float], right: tuple[float, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def hull_values(hull: tuple[FloatArray, FloatArray], last: float, orders: FloatArray) -> FloatArray:
    """Return bounds on R at `orders` above 1, from a hull that ends at order `last`."""
    corners, moments = hull
    b = orders - 1.0
    right = np.clip(np.searchsorted(corners, b), 1, corners.size - 1)
    left = right - 1
    # Both weights are positive, so that the sum keeps its digits.
    share = np.clip((b - corners[left]) / (corners[right] - corners[left]), 0.0, 1.0)
    chord = (1.0 - share) * moments[left] + share * moments[right]
    # On the first chord R is the value at its end, however small b is.
    first = moments[1] / corners[1]
    values = np.where(left == 0, first, chord / b) * RENYI_OUTWARD_FACTOR
    return np.where(orders > last, np.inf, values)


@curve.register(ev.RandomizedResponse)
def randomized_response(event: ev.RandomizedResponse, neighbours: Neighbours) -> Curve:
    """R(a) of k-ary randomized response on two different inputs, under replace-one.

    E_Q[(P/Q)^a] = (e^{a eps} + e^{(1-a) eps} + k - 2) / (e^eps + k - 1).  Under add-remove and
    zero-out only epsilon is stated, so there the event is `Pure(epsilon)`.
    Source: Mironov 2017, Proposition 5 for k = 2, arXiv 1702.07476v3; the sum for k above 2.
    """
    epsilon, k = event.epsilon, event.categories
    if neighbours != "replace-one":
        return replace(pure(ev.Pure(epsilon), neighbours), lower=None)
    if epsilon == 0.0:
        return NOTHING
    at = capped(of_pair(response_pair(epsilon, k)), epsilon)
    return Curve(
        at=at,
        limit=epsilon,
        lower=lowered(at),
        steps=(
            Step(
                "mechanism",
                f"{k}-ary randomized response, epsilon {epsilon:.6g}: the sum over its outcomes.",
                "Mironov 2017, Proposition 5, arXiv 1702.07476v3",
            ),
        ),
    )


def response_pair(epsilon: float, categories: int) -> Pair:
    """Return the outputs of k-ary randomized response on two different inputs."""
    total = np.logaddexp(epsilon, math.log(categories - 1))
    weights, losses = [-total, epsilon - total], [epsilon, -epsilon]
    if categories > 2:
        weights.append(math.log(categories - 2) - total)
        losses.append(0.0)
    return Pair(np.array(weights), np.array(losses))


@curve.register(ev.Pure)
@curve.register(ev.Local)
def pure(event: ev.Pure | ev.Local, neighbours: Neighbours) -> Curve:  # noqa: ARG001
    """R(a) = 1/(a-1) log((e^{a eps} + e^{(1-a) eps}) / (e^eps + 1)), for any eps-DP mechanism.

    Attained by binary randomized response; the neighbours are those of `event.epsilon`.
    Source: Kairouz, Oh and Viswanath 2015, Theorem 2, arXiv 1311.0776v4.
    """
    return _pure_curve(
        event.epsilon,
        f"Pure epsilon {event.epsilon:.6g}: binary randomized response is the worst case.",
        "Kairouz, Oh and Viswanath 2015, Theorem 2, arXiv 1311.0776v4",
    )


@curve.register(ev.Exponential)
def exponential(event: ev.Exponential, neighbours: Neighbours) -> Curve:  # noqa: ARG001
    """R(a) of the worst mechanism whose losses lie in an interval of length eps.

    For losses in [t - eps, t] with mean ratio 1, the convex E_Q[(P/Q)^a] is largest when only the
    two ends occur; the worst t solves a linear equation in e^t.  With
    c = (1 - e^{-a eps}) / (1 - e^{-eps}),

        R(a) = t + log(c/a)/(a-1),   e^t = (a-1)/a (1 - e^{-a eps}) / (e^{-eps} - e^{-a eps}),

    and never more than a eps^2/8 (zCDP) or eps.
    Source: Dong, Durfee and Rogers 2020, arXiv 1909.13830v2 (bounded range, two-point worst
    case); Cesar and Rogers 2021, arXiv 2004.07223v2 (a eps^2/8).
    """
    epsilon = event.epsilon
    if epsilon == 0.0:
        return NOTHING
    return Curve(
        at=capped(lambda orders: _bounded_range(orders, epsilon), epsilon),
        limit=epsilon,
        steps=(
            Step(
                "mechanism",
                f"Losses in an interval of length {epsilon:.6g}: two-point worst case.",
                "Dong, Durfee and Rogers 2020, arXiv 1909.13830v2",
            ),
        ),
    )


def _bounded_range(orders: FloatArray, epsilon: float) -> FloatArray:
    beta = orders - 1.0
    # R(a) = t + log(c/a)/(a-1): t from `log_top` and `log_bottom`, c from `log_c`.
    log_top = np.log(-np.expm1(-orders * epsilon))
    log_c = log_top - math.log(-math.expm1(-epsilon))
    log_bottom = -epsilon + np.log(-np.expm1(-beta * epsilon))
    values = np.log(beta / orders) + log_top - log_bottom + (log_c - np.log(orders)) / beta
    size = 1.0 + epsilon + np.abs(np.log(beta)) + np.log(orders)
    size += np.abs(log_top) + np.abs(log_bottom) + np.abs(log_c)
    # Added on top: the terms may cancel, the rounding is relative to their sizes.
    rounding = 1e-15 * size * (1.0 + 1.0 / beta)
    quadratic_bound = epsilon * epsilon / 8.0 * orders * RENYI_OUTWARD_FACTOR
    return np.minimum(np.maximum(values, 0.0) + rounding, quadratic_bound)


@curve.register(ev.ZCDP)
def zcdp(event: ev.ZCDP, neighbours: Neighbours) -> Curve:  # noqa: ARG001
    """R(a) = rho a.  Source: Bun and Steinke 2016, Definition 1.1, arXiv 1605.02065v1."""
    if event.rho == 0.0:
        return NOTHING
    at = quadratic(event.rho)
    return Curve(
        at=at,
        limit=math.inf,
        lower=lowered(at),  # attained by Gaussian noise
        steps=(
            Step(
                "mechanism",
                f"zCDP with rho {event.rho:.6g}: R(a) = rho a.",
                "Bun and Steinke 2016, Definition 1.1, arXiv 1605.02065v1",
            ),
        ),
    )


@curve.register(ev.Approximate)
def approximate(event: ev.Approximate, neighbours: Neighbours) -> Curve:
    """The curve of `Pure(epsilon)`, outside an event of probability delta.

    Outputs that are (eps, delta)-close both ways are a post-processing of a pair that reveals
    everything with probability delta and is binary randomized response otherwise.
    Source: Kairouz, Oh and Viswanath 2015, Theorem 2, arXiv 1311.0776v4.
    """
    inner = pure(ev.Pure(event.epsilon), neighbours)
    return replace(
        inner,
        slack=event.delta,
        lower=None if event.delta > 0.0 else inner.lower,
        steps=(
            Step(
                "mechanism",
                f"Epsilon {event.epsilon:.6g} and delta {event.delta:.6g}: binary randomized "
                f"response, and everything with probability {event.delta:.6g}.",
                "Kairouz, Oh and Viswanath 2015, Theorem 2, arXiv 1311.0776v4",
            ),
        ),
    )


@curve.register(ev.NoGuarantee)
def no_guarantee(event: ev.NoGuarantee, neighbours: Neighbours) -> Curve:  # noqa: ARG001
    """R(a) is infinite."""
    return Curve(
        at=lambda orders: np.full_like(orders, np.inf),
        limit=math.inf,
        steps=(Step("mechanism", f"No guarantee: {event.reason}", "by definition"),),
    )
