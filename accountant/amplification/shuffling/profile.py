"""A certified bound on a hockey stick, and the pair of distributions that it amounts to.

Let h(a) = sup over neighbours of (P - a Q)+, a = e^eps.  It is convex, and where the bound holds
for every ordered pair of neighbours it holds for h(a) = 1 - a + a h(1/a) too.  So the lower convex
hull of bounds at finitely many orders, and of what they say at the inverse orders, is a bound at
every order; and a convex piecewise linear h is the hockey stick of a pair on finitely many
outcomes: a kink at a_j where the slope rises by q_j is an outcome with loss log a_j, Q mass q_j
and P mass a_j q_j.  What remains beyond the last order is mass at an infinite loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...arrays import BoolArray, FloatArray
from ...guarantee import Step
from ...rootfinding import Bracket, enclose, narrow

MAX_OUTCOME_EPSILON: Final = 500.0
"""Largest epsilon of an outcome; what is beyond counts as an infinite loss."""

SEARCH_LOG_EPSILON_RANGE: Final = 90.0
"""How far below the start a search for an epsilon goes, as a log."""

MAX_PROFILE_POINTS: Final = 600
"""Most orders at which a bound is evaluated for its pair."""

PAIR_MASS_INFLATION: Final = 1e-11
"""Relative rise of the masses, above the error of some 10^3 differences of slopes."""


@dataclass(frozen=True)
class Profile:
    """A certified bound on delta(epsilon) that holds for every ordered pair of neighbours.

    `log_delta` takes epsilon >= 0 and returns an upper bound on log delta, -inf where it is 0.
    `log_deltas`, where it is given, does so for many at once.  Beyond `largest_loss` delta is 0.
    Under replace-one the pairs come in both orders, so delta(-e) = 1 - e^-e + e^-e delta(e) bounds
    negative epsilons.
    """

    log_delta: Callable[[float], float]
    largest_loss: float
    steps: tuple[Step, ...]
    log_deltas: Callable[[FloatArray], FloatArray] | None = None


def smallest_epsilon(profile: Profile, delta: float, relative: float = 1e-6) -> float:
    """Return an epsilon at which the profile is at most `delta` in (0, 1), and nearly the least.

    The bound is evaluated at the very number that is returned.  Infinite where there is none up
    to e^20.
    """
    target = math.log(delta) - 1e-13

    def above(log_epsilon: float) -> float:
        return profile.log_delta(math.exp(log_epsilon)) - target

    if profile.log_delta(0.0) <= target:
        return 0.0
    bracket = _bracket(above, profile.largest_loss)
    if bracket is None:
        least = math.exp(_start(profile.largest_loss) - SEARCH_LOG_EPSILON_RANGE)
        return least if profile.log_delta(least) <= target else profile.largest_loss
    epsilon = math.exp(narrow(above, bracket, absolute=relative).high)
    return min(epsilon, profile.largest_loss)


def _start(largest_loss: float) -> float:
    """Return the log epsilon at which a search begins."""
    return math.log(min(largest_loss, 1.0)) - 2.0


def _bracket(above: Callable[[float], float], largest_loss: float) -> Bracket | None:
    """Return a bracket, in log epsilon, around the crossing of a function that falls."""
    start = _start(largest_loss)
    most = math.log(largest_loss) if largest_loss < math.inf else 20.0
    return enclose(above, start, 0.7, start - SEARCH_LOG_EPSILON_RANGE, most)


def atoms(
    profile: Profile, *, accuracy: float = 4e-4, negligible: float = 1e-30
) -> tuple[FloatArray, FloatArray]:
    """Return (log P, log Q) of a pair whose hockey stick bounds the profile's at every order.

    It is the lower convex hull, in e^epsilon, of the profile at chosen epsilons, and never below
    it.  Epsilons are added until a chord costs about `accuracy` * epsilon, out to where delta is
    `negligible` (then the rest is an infinite loss) or 0.  The pair is its own reverse.
    """
    if profile.largest_loss == 0.0 or profile.log_delta(0.0) == -math.inf:
        return np.zeros(1), np.zeros(1)
    epsilons, deltas = _sampled(profile, accuracy, negligible)
    epsilons, deltas = _hull(epsilons, deltas)
    slopes = _slopes(epsilons, deltas)
    # A kink at a_j: Q-mass q_j is the rise of the slope, P-mass a_j q_j.
    rises = np.diff(np.append(slopes, 0.0))
    rising = rises > 0.0
    losses = epsilons[1:][rising]
    log_q = np.log(rises[rising]) + PAIR_MASS_INFLATION
    log_p = log_q + losses
    last = float(deltas[-1]) * (1.0 + PAIR_MASS_INFLATION)
    infinite = math.log(last) if last > 0.0 else -math.inf
    rest = 1.0 - last - math.fsum(np.exp(log_p)) - math.fsum(np.exp(log_q))
    # Neither side may hold less than 1 in all; a bit more at loss 0 only adds below order 1.
    none = np.array([-math.inf])
    middle = np.array([math.log(max(rest, 0.0) + 1e-15 * (2.0 + losses.size))])
    ends = np.array([infinite])
    log_first = np.concatenate((none, log_q[::-1], middle, log_p, ends))
    log_second = np.concatenate((ends, log_p[::-1], middle, log_q, none))
    possible = np.isfinite(log_first) | np.isfinite(log_second)
    return log_first[possible], log_second[possible]


def _sampled(profile: Profile, accuracy: float, negligible: float) -> tuple[FloatArray, FloatArray]:
    """Return epsilons from 0 up, and bounds on delta there that never rise."""
    top = _negligible_epsilon(profile, math.log(negligible))
    epsilons = np.linspace(0.0, top, 17)
    deltas = _deltas(profile, epsilons)
    # Halve where a chord costs too much; more points only tighten the bound.
    while epsilons.size < MAX_PROFILE_POINTS:
        coarse = _too_coarse(epsilons, np.minimum.accumulate(deltas), accuracy)
        if not coarse.any():
            break
        added = 0.5 * (epsilons[:-1] + epsilons[1:])[coarse]
        computed = _deltas(profile, added)
        order = np.argsort(np.concatenate((epsilons, added)))
        epsilons = np.concatenate((epsilons, added))[order]
        deltas = np.concatenate((deltas, computed))[order]
    return epsilons, np.minimum.accumulate(deltas)


def _deltas(profile: Profile, epsilons: FloatArray) -> FloatArray:
    if profile.log_deltas is not None:
        logs = profile.log_deltas(epsilons)
    else:
        logs = np.array([profile.log_delta(epsilon) for epsilon in epsilons.tolist()])
    return np.asarray(np.minimum(np.exp(np.minimum(logs, 0.0)) * (1.0 + 1e-12), 1.0))


def _negligible_epsilon(profile: Profile, target: float) -> float:
    """Return the epsilon at which delta is negligible, or the largest loss if that comes first."""
    largest = min(profile.largest_loss, MAX_OUTCOME_EPSILON)

    def above(log_epsilon: float) -> float:
        return profile.log_delta(math.exp(log_epsilon)) - target

    bracket = _bracket(above, largest)
    if bracket is None:
        return largest
    high = math.exp(narrow(above, bracket, absolute=0.03, steps=12).high)
    # Where delta vanishes at the largest loss only, the bracket ends there.
    return largest if high > 0.9 * largest else high


def _slopes(epsilons: FloatArray, deltas: FloatArray) -> FloatArray:
    """Return the slopes of the chords of h in a = e^epsilon, none above 0."""
    gap = np.exp(epsilons[:-1]) * np.expm1(np.diff(epsilons))
    return np.asarray(np.diff(deltas) / gap)


def _hull(epsilons: FloatArray, deltas: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the lower convex hull of the points and of their inverse orders.

    The hull is its own mirror image, so orders from 1 up tell it; only the corner at 1 also
    depends on those below, and where it is none it is lowered onto the chord that passes there.
    """
    corners: list[int] = []
    for index in range(epsilons.size):
        while len(corners) > 1 and _is_above(epsilons, deltas, (corners[-2], corners[-1], index)):
            corners.pop()
        corners.append(index)
    epsilons, deltas = epsilons[corners], deltas[corners]
    while epsilons.size > 2 and 1.0 - deltas[0] + 2.0 * _slopes(epsilons[:2], deltas[:2])[0] < 0.0:
        # The chord from 1/a to a, at 1: (2 h(a) + a - 1) / (a + 1).
        order_minus_1 = math.expm1(epsilons[1])
        deltas[0] = min(
            deltas[0], (2.0 * deltas[1] + order_minus_1) / (2.0 + order_minus_1) * (1.0 + 1e-15)
        )
        if not _is_above(epsilons, deltas, (0, 1, 2)):
            break
        epsilons, deltas = np.delete(epsilons, 1), np.delete(deltas, 1)
    return epsilons, deltas


def _is_above(epsilons: FloatArray, deltas: FloatArray, three: tuple[int, int, int]) -> bool:
    """Say whether the middle one of three points lies on or above the chord of the others."""
    slope_before, slope_after = _slopes(epsilons[list(three)], deltas[list(three)])
    return bool(slope_before >= slope_after)


def _too_coarse(epsilons: FloatArray, deltas: FloatArray, accuracy: float) -> BoolArray:
    """Say between which epsilons a chord may cost more than `accuracy`.

    h lies below its chord and above the neighbouring chords, prolonged; a quarter of the distance
    is what a smooth h loses.  Where delta is far below all that is ever asked, more is allowed.
    """
    slopes = _slopes(epsilons, deltas)
    slope_before = np.concatenate(([-1.0 + deltas[0] - slopes[0]], slopes[:-1]))
    slope_after = np.append(slopes[1:], 0.0)
    gap = np.exp(epsilons[:-1]) * np.expm1(np.diff(epsilons))
    left, right = np.maximum(slopes - slope_before, 0.0), np.maximum(slope_after - slopes, 0.0)
    # A bound that is too large at 0 is looked at as closely.
    left[0] = abs(slopes[0] - slope_before[0])
    room = gap * left * right / np.maximum(left + right, 1e-300)
    scale = max(min(2.5 * float(deltas[0]), float(epsilons[-1]) / 4.0), 1e-300)
    middle = np.maximum(0.5 * (epsilons[:-1] + epsilons[1:]), 0.4 * scale)
    # d delta/d eps from the slope in a = e^eps.
    steepness = np.exp(epsilons[:-1]) * np.abs(slopes)
    allowed = accuracy * np.where(deltas[:-1] < 1e-18, 4.0, 1.0) * middle
    separated = np.diff(epsilons) > np.minimum(0.02 * scale, 0.02 * middle)
    return np.asarray((0.25 * room > allowed * steepness) & separated)
