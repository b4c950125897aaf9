"""The privacy blanket bound on delta(epsilon) of n shuffled messages.

Notation: mu_0 and mu_1 are the distributions of the message of a worst pair of values, omega is
the blanket distribution, and gamma the blanket's probability: every message distribution is a
mixture of omega, with weight gamma, and of a remainder that depends on the user's value.

Each of n users draws, independently, whether the message comes from omega or from the remainder.
Reveal to the analyzer who drew the remainder, and remove their messages: this can only raise delta.
The one user is then hidden by M ~ Bin(n, gamma) messages from omega, and

    delta(eps) <= (1 / (gamma n)) E[(L_1 + ... + L_M)+],   L_i = (mu_0 - e^eps mu_1) / omega,

each L_i at an independent draw from omega.  With Y = L / gamma and B ~ Bernoulli(gamma) the right
side is E[(B_1 Y_1 + ... + B_n Y_n)+] / n, a sum of n independent and identically distributed terms,
of which `sums.log_expected_excess` computes an upper bound.  At n = 1 it is the local hockey-stick
divergence, and for no n does it exceed that, because (a + b)+ <= a+ + b+.

Source: Balle, Bell, Gascon, Nissim 2019, "The Privacy Blanket of the Shuffle Model"
(arXiv 1903.02837); the worst pair, and the discretisation of the loss, are derived in
`randomizers`.
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
"""Natural logarithm of 10: turns an exponent of 10 into a log."""

MAX_BLANKET_USERS: Final = 10**10
"""Most users that are counted; fewer give an upper bound, as more messages only post-process."""

MIN_OUTSIDE_LOG10: Final = -290.0
"""Least probability, as an exponent of 10, that a truncated blanket omits."""

UNBOUNDED_LOSS_ACCURACY: Final = 1e-3
"""Relative accuracy of the bound on the sum for a randomizer with unbounded privacy loss."""

UNBOUNDED_LOSS_MAX_POINTS: Final = 1 << 17
"""Most lattice points of that sum."""

BOUNDED_LOSS_ACCURACY: Final = 2e-4
"""Relative accuracy of the bound on the sum for a randomizer with bounded privacy loss."""

LARGEST_LEFT_OUT: Final = 1.0 - 1e-9
"""Beyond this mass of losses too large to be summed, the local delta stands alone."""

_MAX_TRUNCATIONS: Final = 4
"""Most truncated blankets for which the sum is evaluated."""


def blanket_profile(randomizer: Randomizer, users: int) -> Profile:
    """Return the blanket bound on delta(epsilon) of one shuffled round, for epsilon >= 0.

    Each of `users` (1 or above) sends one message through a shuffler; the analyzer sees the
    multiset of messages.  The bound is an upper one, rounding included.  It holds for every ordered
    pair of data sets under replace-one, hence under zero-out where the zeroed value is one that
    the randomizer takes.  Raises `InvalidInput` for `users` below 1.

    Source: Balle, Bell, Gascon, Nissim 2019, arXiv 1903.02837.

    >>> from .randomizers import LaplaceRandomizer
    >>> profile = blanket_profile(LaplaceRandomizer(1.0), 10_000)
    >>> round(math.exp(profile.log_delta(0.0378431)) * 10_000, 4)
    0.01
    """
    counted_users = min(validate.count(users=users), MAX_BLANKET_USERS)
    truncated_blanket = cache(randomizer.blanket)  # the same few for every epsilon
    # A blanket leaves out the losses above the largest that are summed, so where nearly all lie
    # there no sum says more than the local delta.
    beyond = math.exp(min(randomizer.log_local_delta(MAX_AMPLIFIED_LOSS), 0.0))
    alone = counted_users == 1 or beyond > LARGEST_LEFT_OUT

    def log_delta(epsilon: float) -> float:
        if epsilon >= randomizer.largest_loss:
            return -math.inf
        # Shuffling is post-processing of the local messages, so the local delta is always a bound.
        log_local_delta = min(randomizer.log_local_delta(epsilon), 0.0)
        if alone or MAX_AMPLIFIED_LOSS < randomizer.largest_loss < math.inf:
            return log_local_delta
        if randomizer.largest_loss < math.inf:
            amplified = _log_delta(truncated_blanket(0.0), counted_users, epsilon)
        else:
            amplified = _unbounded_loss_log_delta(
                truncated_blanket, counted_users, epsilon, log_local_delta
            )
        return min(log_local_delta, amplified)

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


def _unbounded_loss_log_delta(
    truncated_blanket: Callable[[float], Blanket],
    users: int,
    epsilon: float,
    log_local_delta: float,
) -> float:
    """Return an upper bound on log delta of a randomizer whose privacy loss is unbounded.

    `truncated_blanket(p)` omits the losses that mu_0 exceeds with probability about p.  What is
    omitted adds p to delta; the large losses that are kept make the lattice of the sum coarse, and
    the bound looser.  A p between tens and thousands of times below delta is best.
    """

    def blanket_at(exponent: float) -> Blanket:
        # Exponents in steps of a half, so that the cached blankets serve many epsilons.
        return truncated_blanket(10.0 ** max(0.5 * math.floor(2.0 * exponent), MIN_OUTSIDE_LOG10))

    exponent = _delta_exponent(blanket_at, users, epsilon, log_local_delta) - 3.5
    best = math.inf
    # Every evaluation is an upper bound, so the least counts, however p was chosen.
    for _ in range(_MAX_TRUNCATIONS):
        log_delta = _log_delta(
            blanket_at(exponent), users, epsilon, UNBOUNDED_LOSS_ACCURACY, UNBOUNDED_LOSS_MAX_POINTS
        )
        best = min(best, log_delta)
        # The next truncation omits a factor of 10^1.5 to 10^3 less than the delta that is known.
        delta_exponent = min(best, log_local_delta) / LOG_10
        next_exponent = delta_exponent - min(1.5 - 0.25 * delta_exponent, 3.0)
        if abs(next_exponent - exponent) < 1.0 or log_delta > best:
            break
        exponent = next_exponent
    return best


def _delta_exponent(
    blanket_at: Callable[[float], Blanket], users: int, epsilon: float, log_local_delta: float
) -> float:
    """Return about the largest log10 delta: where Chernoff's bound equals the omitted probability.

    It chooses where to truncate, and the final bound does not rest on it.
    """
    # Bisection over x, the log10 of the omitted probability: Chernoff's bound / n against 10^x.
    low = float(MIN_OUTSIDE_LOG10)
    high = min(max(log_local_delta / LOG_10, MIN_OUTSIDE_LOG10 + 1.0), -0.5)

    def sum_is_larger(exponent: float) -> bool:
        log_sum = log_chernoff_excess(*blanket_at(exponent).terms(epsilon), users)
        return log_sum - math.log(users) > exponent * LOG_10

    return bisect(
        sum_is_larger,
        low,
        high,
        stop=lambda low, high: high - low <= 0.5,
        middle=lambda low, high: max(0.5 * (low + high), 2.0 * high),  # where most deltas are
    )[1]


def _log_delta(
    blanket: Blanket,
    users: int,
    epsilon: float,
    accuracy: float = BOUNDED_LOSS_ACCURACY,
    max_points: int = MAX_TRANSFORM_POINTS,
) -> float:
    """Return an upper bound on log(E[(B_1 Y_1 + ... + B_n Y_n)+] / n + omitted probability)."""
    # The values of B Y are rounded up, and the masses carry their relative error.
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
    # Upwards by more than the rounding of the two logs above.
    return log_delta + 1e-14 * (1.0 + abs(log_delta)) if math.isfinite(log_delta) else log_delta
