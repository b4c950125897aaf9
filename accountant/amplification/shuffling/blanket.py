"""The privacy blanket bound: how much one message stands out among those that owe nothing to it.

Each of n users draws, independently, whether the message comes from the blanket (probability
gamma) or from the rest of its law.  Reveal who does not, and remove those: what hides the one user
is M ~ Bin(n, gamma) messages from omega, and for the worst pair of values

    delta(eps) <= (1 / (gamma n)) E[(L_1 + ... + L_M)+],   L = (mu_0 - e^eps mu_1) / omega,

over omega.  With Y = L / gamma and B ~ Bernoulli(gamma) that is E[(sum of n copies of B Y)+] / n,
a sum of independent copies: `sums.log_expected_excess` bounds it.  At n = 1 it is the local
hockey stick, and it never exceeds that, by (a + b)+ <= a+ + b+.

Source: Balle, Bell, Gascon, Nissim 2019, "The Privacy Blanket of the Shuffle Model"
(arXiv 1903.02837); the worst pair and the spread are derived in `randomizers`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np

from ... import validate
from ...guarantee import Step
from ...rootfinding import bisect
from ..sums import MAX_TRANSFORM_POINTS, log_chernoff_excess, log_expected_excess
from .profile import Profile
from .randomizers import MAX_AMPLIFIED_LOSS, Blanket, Randomizer

LOG_10: Final = math.log(10.0)

MAX_BLANKET_USERS: Final = 10**10
"""More users are counted as so many: one more message can always be added by the analyzer."""

MIN_OUTSIDE_LOG10: Final = -290.0
"""No less probability than 10 to this power is left out of a blanket."""

UNBOUNDED_LOSS_ACCURACY: Final = 1e-3
"""Accuracy of the sum where losses have no end."""

UNBOUNDED_LOSS_MAX_POINTS: Final = 1 << 17
"""Most lattice points of the sum where losses have no end."""


def blanket_profile(randomizer: Randomizer, users: int) -> Profile:
    """Return the blanket bound on delta(epsilon) of one shuffled round, epsilon 0 or above.

    Each of `users` (1 or above) sends one message through a shuffler; the analyzer sees the
    multiset of messages.  It holds for every ordered pair of data sets under replace-one, hence
    under zero-out where the zeroed value is one that the randomizer takes.

    >>> from .randomizers import LaplaceRandomizer
    >>> profile = blanket_profile(LaplaceRandomizer(1.0), 10_000)
    >>> round(math.exp(profile.log_delta(0.0378431)) * 10_000, 4)
    0.01
    """
    counted_users = min(validate.count(users=users), MAX_BLANKET_USERS)
    blanket_without = cache(randomizer.blanket)

    def log_delta(epsilon: float) -> float:
        if epsilon >= randomizer.largest_loss:
            return -math.inf
        # The shuffler can only help, so the local delta is always a bound.
        best = min(randomizer.log_local_delta(epsilon), 0.0)
        if counted_users == 1 or MAX_AMPLIFIED_LOSS < randomizer.largest_loss < math.inf:
            return best
        if randomizer.largest_loss < math.inf:
            return min(best, _log_delta(blanket_without(0.0), counted_users, epsilon))
        return min(best, _without_far_losses(blanket_without, counted_users, epsilon, best))

    step = Step(
        "shuffling",
        f"{users:,} users, {randomizer.description}: the privacy blanket, summed numerically.",
        "Balle, Bell, Gascon, Nissim 2019, arXiv 1903.02837; worst pair: derived in "
        "amplification/shuffling/randomizers.py",
        (
            "every user sends one message by this randomizer, independently of the others",
            "the analyzer sees the messages in random order and nothing else",
            f"no user colludes with the analyzer: with c who do, count {users:,} - c",
            "one user's value is replaced by another that the randomizer takes",
        ),
    )
    return Profile(log_delta, randomizer.largest_loss, (step,))


def _without_far_losses(
    blanket_without: Callable[[float], Blanket], users: int, epsilon: float, most: float
) -> float:
    """Return a bound on log delta where losses have no end, at most `most` as far as is known.

    What is left out adds to delta by itself; what is kept of the far losses makes the sum uneven,
    and its lattice coarse.  Tens to thousands of times below delta is best.
    """

    def truncated(exponent: float) -> Blanket:
        return blanket_without(10.0 ** max(0.5 * math.floor(2.0 * exponent), MIN_OUTSIDE_LOG10))

    # Delta is at most about where the Chernoff bound of the sum equals what is left out.
    low, high = float(MIN_OUTSIDE_LOG10), min(max(most / LOG_10, MIN_OUTSIDE_LOG10 + 1.0), -0.5)

    def sum_is_larger(exponent: float) -> bool:
        log_sum = log_chernoff_excess(*truncated(exponent).terms(epsilon), users)
        return log_sum - math.log(users) > exponent * LOG_10

    low, high = bisect(
        sum_is_larger,
        low,
        high,
        stop=lambda low, high: high - low <= 0.5,
        middle=lambda low, high: max(0.5 * (low + high), 2.0 * high),  # where answers are
    )
    best, exponent = math.inf, high - 3.5
    # Each try is a bound; the next leaves out about as much as the last answer suggests.
    for _ in range(4):
        log_delta = _log_delta(
            truncated(exponent), users, epsilon, UNBOUNDED_LOSS_ACCURACY, UNBOUNDED_LOSS_MAX_POINTS
        )
        best = min(best, log_delta)
        delta_exponent = min(best, most) / LOG_10
        better = delta_exponent - min(1.5 - 0.25 * delta_exponent, 3.0)
        if abs(better - exponent) < 1.0 or log_delta > best:
            break
        exponent = better
    return best


def _log_delta(
    blanket: Blanket,
    users: int,
    epsilon: float,
    accuracy: float = 2e-4,
    max_points: int = MAX_TRANSFORM_POINTS,
) -> float:
    """Return log of E[(sum of B Y)+] / n plus what was left out."""
    # Terms B Y of one user, values rounded up; n copies are summed.
    values, log_masses = blanket.terms(epsilon)
    log_sum = log_expected_excess(
        values,
        log_masses,
        users,
        mass_error=blanket.mass_error,
        accuracy=accuracy,
        max_points=max_points,
    )
    log_delta = log_sum - math.log(users)
    if blanket.outside > 0.0:
        log_delta = float(np.logaddexp(log_delta, math.log(blanket.outside)))
    return log_delta + 1e-14 * (1.0 + abs(log_delta)) if math.isfinite(log_delta) else log_delta
