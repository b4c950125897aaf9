"""The least mu whose Gaussian, N(0, 1) against N(mu, 1), is at least as easy to tell apart.

At one false positive rate alpha with smallest miss rate f that is

    mu(alpha) = -Phi^-1(f) - Phi^-1(alpha).

It is asked for at every alpha from a stated one up to where alpha = f.  Beyond that point the two
data sets change sides, and with them the two rates: there is nothing new.  Lower bounds on f are
maxima of lines.  The Gaussian's power is concave in alpha, so it lies above a line between two
points where it does at both: the ends of intervals are enough.
Source: Dong, Roth and Su 2022, arXiv 1905.02383v3, Definition 2.6 and Theorem 3.2 (composition).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import ndtri

from ..arrays import FloatArray
from ..composition import Composition
from ..guarantee import Bounds, Neighbours, agreed
from .attack_power import AttackPower
from .release_mu import composed_mu
from .shapes import ULP, Lines

QUANTILE_ROUNDING: Final = 1e-11
"""Relative rounding of sums of two quantiles."""

UPPER_POINTS: Final = 1200
"""Ends of the intervals over which lines stand for f."""

LOWER_POINTS: Final = 48
"""At how many false positive rates a lower end is tried."""

LEAST_FPR: Final = 1e-9
"""Where lines still have digits; below, the largest loss or a closed form must do."""


def gaussian_mu_from(power: AttackPower, from_fpr: float) -> Bounds:
    """Return bounds on the least mu at every FPR from `from_fpr` to where FPR and miss rate meet.

    At `from_fpr` itself if they meet before it.
    """
    if power.mu is not None:
        return power.mu
    meeting = power.meeting
    upper = max(
        _largest_on(floor, from_fpr, max(meeting.upper, from_fpr)) for floor in power.floors
    )
    lower = _attained_on(power, from_fpr, max(meeting.lower, from_fpr))
    return agreed(lower, upper)


def gaussian_mu_everywhere(
    power: AttackPower, parts: Composition, neighbours: Neighbours
) -> Bounds:
    """Return bounds on the least mu at every FPR, infinite where none is proven."""
    if power.mu is not None:
        return power.mu
    meeting = power.meeting
    shift = composed_mu(parts, neighbours)
    upper = min(shift.upper, _below_largest_loss(power, meeting.upper))
    lower = shift.lower
    if lower >= upper * (1.0 - 4.0 * QUANTILE_ROUNDING):
        return Bounds(lower, upper)
    lower = max(lower, _attained_on(power, LEAST_FPR, max(meeting.lower, LEAST_FPR)))
    # What shows the unit for certain, with some probability, does so at FPR 0.
    if power.miss(0.0).upper < 1.0:
        lower = math.inf
    return agreed(lower, upper)


def _largest_on(floor: Lines, low: float, high: float) -> float:
    """Return an upper bound on mu(alpha) over [low, high], from lines below f."""
    alphas = np.geomspace(low, high, UPPER_POINTS) if high > low else np.array([low, low])
    alphas[0], alphas[-1] = low, max(low, high)
    # Each interval has the line that is highest at its middle: any other would do, less tightly.
    left, right = alphas[:-1], alphas[1:]
    lines = floor.best(np.sqrt(left * right))
    return max(
        float(_mus(np.maximum(floor.on(lines, ends) - 2.0 * ULP, 0.0), ends, 1.0).max())
        for ends in (left, right)
    )


def _attained_on(power: AttackPower, low: float, high: float) -> float:
    """Return a lower bound on the largest mu(alpha) over [low, high]: that of the best of a few."""
    alphas = np.geomspace(low, high, LOWER_POINTS) if high > low else np.array([low])
    shifts = [_mu_at(power.miss(float(alpha)).upper, float(alpha), -1.0) for alpha in alphas]
    best = int(np.argmax(shifts))
    near = np.geomspace(
        alphas[max(best - 1, 0)], alphas[min(best + 1, alphas.size - 1)], LOWER_POINTS // 2
    )
    inside = np.clip(near, low, max(high, low))
    shifts += [_mu_at(power.miss(float(alpha)).upper, float(alpha), -1.0) for alpha in inside]
    return max(*shifts, 0.0)


def _mu_at(miss: float, alpha: float, sign: float) -> float:
    return float(_mus(np.array([miss]), np.array([alpha]), sign)[0])


def _mus(misses: FloatArray, alphas: FloatArray, sign: float) -> FloatArray:
    """Return mu(alpha), rounded up (`sign` 1) or down (-1)."""
    by_miss, by_alpha = -ndtri(misses), -ndtri(alphas)
    # Infinite where nothing is missed, or nobody accused; the two never cancel here.
    size = 1.0 + np.abs(by_miss) + np.abs(by_alpha)
    return np.asarray(
        by_miss + by_alpha + sign * QUANTILE_ROUNDING * np.where(np.isfinite(size), size, 1.0)
    )


def _below_largest_loss(power: AttackPower, meeting: float) -> float:
    """Return an upper bound on mu at every FPR by the largest loss L, infinite without one.

    TPR is at most e^L FPR.  Where that is all that is known, mu(alpha) rises with alpha (Mills'
    ratio rises), so up to some alpha it is largest there, and from there on the lines count.
    """
    if not power.largest_loss < 700.0:
        return math.inf
    growth = math.exp(power.largest_loss) * (1.0 + 1e-12)
    bounds = []
    for share in (1e-3, 1e-5, 1e-7):
        start = min(share / growth, 0.5 * meeting)
        steep = float(ndtri(growth * start) - ndtri(start)) + QUANTILE_ROUNDING * 20.0
        rest = max(_largest_on(floor, start, meeting) for floor in power.floors)
        bounds.append(max(steep, rest))
    return min(bounds)
