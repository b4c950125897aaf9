"""The least mu with which a whole plan is no easier to tell apart than Gaussian noise, up to s.

For a plan with the hockey sticks delta(e) (of the worse order of the neighbours), it is the least
mu with

    delta(e) <= s + (1 - s) delta_mu(e)        at every e >= 0,

where delta_mu is that of N(0, 1) against N(mu, 1).

**At every e, not on a grid only** (derived here).  Let x = e^e.  As functions of x both sides are
suprema of P(S) - x Q(S) over events S, or a constant plus such, so they are convex and fall.

1. U bounds delta at the points x_0 = 1 < x_1 < ... < x_n.  Between two of them the convex delta
   lies below the chord of its own values there, hence below the chord of U.
2. A convex right side lies above its tangent at any x* of that interval.  If U lies below the
   tangent at both ends, then the chord of U does in between, for both are straight; and so
   delta <= chord <= tangent <= right side.  Any x* will do: where the slopes are equal the test is
   exact but for the chord's own excess.  The slope of delta_mu is -Phi(-e/mu - mu/2), the
   probability under N(0, 1) of the event that attains it.
3. Beyond x_n delta only falls, and U(x_n) <= s there.

Nothing is asked of mu between tests: what is returned has passed its own test, with every
rounding on the safe side.  Below e = 0, H_x(P||Q) = 1 - x + x H_{1/x}(Q||P) holds of every pair,
of the right side too, and it grows with its last term: there it is the other order above 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import log_ndtr, ndtri

from ..composition import Composition
from ..engines.base import guarded
from ..engines.gdp import gaussian_delta
from ..engines.pld.ask.upper_profile import UpperProfile
from ..errors import Unsupported
from ..neighbours import Neighbours
from ..rootfinding import bisect

FIRST_POINTS: Final = 33
"""Points of the profile to begin with; more are set where they decide."""

REFINEMENTS: Final = 5
"""Most times that points are set where they decide."""

FAILING_SHARE: Final = 1e-3
"""How much less mu, relatively, would fail the test where points decide."""

TIGHT_SHARE: Final = 0.25
"""At the last point the profile is at most s; for deltas down to this share of s it is tight."""

LEAST_MU: Final = 1e-6
"""No smaller mu is looked for: such a plan is a millionth of a budget that is worth keeping."""

LARGEST_MU: Final = 1e3
"""A larger mu is none: it tells the data sets apart for certain."""

MU_PRECISION: Final = 1e-7
"""Relative distance from the least mu that passes the test."""

TANGENT_ERROR: Final = 1e-12
"""Relative error of the slope of a tangent, and of what it is multiplied with."""

MAX_LOSS: Final = 600.0
"""Largest epsilon at which a tangent is computed: e^epsilon is still a number."""


@dataclass(frozen=True)
class ProfilePoints:
    """Upper bounds on delta at ascending epsilons, from 0 to where delta is at most s."""

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]

    @property
    def intervals(self) -> tuple[tuple[float, float, float, float], ...]:
        """Both ends of each interval, and the bounds there."""
        at, deltas = self.epsilons, self.deltas
        return tuple(zip(at, at[1:], deltas, deltas[1:], strict=False))


@lru_cache(maxsize=256)
def least_mu(composition: Composition, neighbours: Neighbours, slack: float) -> float:
    """Return a mu above 0 that dominates a plan up to `slack`, infinite where none is known.

    It is certified at every epsilon, and near the least that is.  Range: `slack` in (0, 1).
    Raises `Unsupported` where no dominating pairs are known.
    """
    with guarded("pld"):
        profile = UpperProfile(composition, neighbours, TIGHT_SHARE * slack)
        last = _first_within(profile.at, slack)
        if last is None:
            return math.inf
        at = np.linspace(0.0, last, FIRST_POINTS).tolist()
        points = ProfilePoints(tuple(at), tuple(map(profile.at, at)))
        mu = _least_passing(points, slack)
        # Where the chords themselves decide, shorter ones are nearer to the profile.
        for _ in range(REFINEMENTS):
            if math.isinf(mu):
                break
            points = _refined(points, profile.at, mu * (1.0 - FAILING_SHARE), slack)
            last_mu, mu = mu, min(mu, _least_passing(points, slack))
            if mu > last_mu * (1.0 - 0.01 * FAILING_SHARE):
                break
    return mu


def _least_passing(points: ProfilePoints, slack: float) -> float:
    """Return about the least mu that passes the test on these points; infinite if none does."""

    def fails(mu: float) -> bool:
        return not dominates(mu, slack, points)

    low = high = LEAST_MU
    while fails(high):
        low, high = high, 2.0 * high
        if high > LARGEST_MU:
            return math.inf
    if high == LEAST_MU:
        return high
    return bisect(
        fails,
        low,
        high,
        stop=lambda a, b: b - a <= MU_PRECISION * b,
        middle=lambda a, b: 0.5 * (a + b),
    )[1]


def _refined(
    points: ProfilePoints, delta: Callable[[float], float], mu: float, slack: float
) -> ProfilePoints:
    """Return the points with three more in each interval that does not pass the test at `mu`."""
    known = dict(zip(points.epsilons, points.deltas, strict=True))
    for low, high, at_low, at_high in points.intervals:
        if not _chord_below(mu, slack, low, high, at_low, at_high):
            between = np.linspace(low, high, 5)[1:-1].tolist()
            known |= {epsilon: delta(epsilon) for epsilon in between}
    return ProfilePoints(*zip(*sorted(known.items()), strict=True))


def _first_within(delta: Callable[[float], float], slack: float) -> float | None:
    """Return about the least epsilon at which delta is at most `slack`; None beyond `MAX_LOSS`."""
    high = 1.0
    while delta(high) > slack:
        high *= 2.0
        if high > MAX_LOSS:
            return None
    return bisect(
        lambda epsilon: delta(epsilon) > slack,
        0.0,
        high,
        stop=lambda a, b: b - a <= 1e-3 * b,
        middle=lambda a, b: 0.5 * (a + b),
    )[1]


def dominates(mu: float, slack: float, points: ProfilePoints) -> bool:
    """Return whether delta(e) <= slack + (1 - slack) delta_mu(e) is certain at every e >= 0."""
    if points.epsilons[0] != 0.0 or points.deltas[-1] > slack:
        return False
    return all(_chord_below(mu, slack, *each) for each in points.intervals)


def _chord_below(
    mu: float, slack: float, low: float, high: float, delta_low: float, delta_high: float
) -> bool:
    """Return whether a tangent of the right side lies above the chord between two points."""
    # A tangent that lies above a larger chord is enough, and 0 there is nothing to prove.
    if delta_low <= slack:
        return True
    touch = _parallel(mu, slack, low, high, delta_low, delta_high)
    value = gaussian_delta(mu, touch).lower
    # e^touch times the slope in x = e^epsilon, at most 1.
    slope = math.exp(min(touch + float(log_ndtr(-touch / mu - mu / 2.0)), 0.0))
    for epsilon, delta in ((low, delta_low), (high, delta_high)):
        fall = slope * math.expm1(epsilon - touch)
        fall += abs(fall) * TANGENT_ERROR
        tangent = slack + (1.0 - slack) * (value - fall)
        if delta > tangent - 4e-16 * (1.0 + abs(fall)):
            return False
    return True


def _parallel(
    mu: float, slack: float, low: float, high: float, delta_low: float, delta_high: float
) -> float:
    """Return about where the right side falls as steeply as the chord, within the interval."""
    falls = (delta_low - delta_high) / (1.0 - slack)
    share = falls * math.exp(-low) / math.expm1(high - low)
    if not 0.0 < share < 1.0:
        return low if share >= 1.0 else high
    touch = -mu * (float(ndtri(share)) + mu / 2.0)
    return min(max(touch, low), high)


def squared(mu: float) -> Fraction | float:
    """Return mu^2 exactly, as a price needs it."""
    return Fraction(mu) ** 2 if math.isfinite(mu) else math.inf


def refuse_without_slack(slack: float) -> None:
    """Raise `Unsupported` for a plan that needs a slack where there is none."""
    if slack <= 0.0:
        raise Unsupported(
            "A plan with sampling costs mu^2 only up to a part of delta, and none is set aside.",
            "Its rare losses are larger than those of Gaussian noise that is as private.",
            "Set a slack aside when the data set is made.",
        )
