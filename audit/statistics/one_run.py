"""One run, many canaries: lower bounds that hold however the canaries depend on each other.

Of m canaries each is in by a fair coin of its own.  After the run, r guesses are made (r fixed
before it), v of them correct.

`steinke`.  If the mechanism is (epsilon, delta)-DP and W ~ Bin(r, 1 / (1 + e^-epsilon)),

    P[at least v correct] <= P[W >= v] + 2 m delta max_{1 <= i <= v} P[v > W >= v - i] / i.

`mahloujifar`.  If it is f-DP, write p_i for the probability of i correct guesses, and

    R_i = sum_{l >= i} l p_l / m,   H_i = sum_{l >= i} (r - l) p_l / m.

For a canary j, a value b of its coin, and an event about the output and the other coins, f-DP
compares "guess b at j and at least i - 1 others correct" under both values; averaged over j, b and
all else (f is convex) that reads R_i <= 1 - f(H_{i-1}), hence H_{i-1} >= f(1 - R_i) (f is its own
inverse).  And R_{i-1} - R_i = (i-1)/(r-i+1) (H_{i-1} - H_i).  Starting from P[at least v correct]
= tau, with R_v >= tau v/m and R_v + H_v = tau r/m, the recursion gives the least that R_0 + H_0 can
be; but it is r/m.  If the least is more, the probability is below tau.  (That all of tau sits at v
is the least: mass further up only raises R at every step, and R + H with it, for i/(r-i) falls as
i falls.)

Source: Steinke, Nasr, Jagielski 2023, arXiv 2305.08846, Theorem 5.2; Mahloujifar, Melis, Chaudhuri
2024, arXiv 2410.22235, Theorem 3.2 and Algorithm 3.  Both are loose by construction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from scipy.special import bdtrc, betaln, expit, log_expit

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from ...accountant.risk.trade_off import TradeOff, trade_off
from ...accountant.rootfinding import bisect, mean
from .family import FamilyResult, family_result, smallest_rejected

SUM_ROUNDING_RELATIVE: Final = 1e-9
"""Relative allowance for rounding in sums of up to a million terms."""

EPSILON_PRECISION_RELATIVE: Final = 1e-6
"""Relative width at which the search for the largest rejected parameter stops."""

MAX_SEARCHED_EPSILON: Final = 500.0


def steinke(
    canaries: int, guesses: int, correct: int, *, delta: float, alpha: float = 0.05
) -> float:
    """Return a lower bound on epsilon at `delta` for any mechanism: wrong with prob. <= `alpha`.

    `canaries` m, `guesses` r <= m, `correct` v <= r; see the module.  No other r may have been
    tried on the same run.  Range: `delta` in [0, 1), `alpha` in (0, 1).
    Source: Steinke, Nasr, Jagielski 2023, arXiv 2305.08846, Theorem 5.2.

    >>> round(steinke(1000, 100, 90, delta=1e-5), 5)
    1.62614
    """
    m, r, v = _checked(canaries, guesses, correct)
    validate.probability(delta=delta)
    validate.open_probability(alpha=alpha)

    # Null: (epsilon, delta)-DP.  A rejected epsilon is one that is too small to explain v.
    def rejects(epsilon: float) -> bool:
        return steinke_p_value(m, r, v, epsilon=epsilon, delta=delta) <= alpha

    return _largest_rejected(rejects, MAX_SEARCHED_EPSILON)


def steinke_p_value(
    canaries: int, guesses: int, correct: int, *, epsilon: float, delta: float
) -> float:
    """Return a bound on P[at least v correct] under any (epsilon, delta)-DP mechanism, in [0, 1].

    Arguments and source as for `steinke`; `epsilon` 0 or above.
    """
    m, r, v = _checked(canaries, guesses, correct)
    validate.non_negative(epsilon=epsilon)
    if v == 0:
        return 1.0
    # P[W >= v], W ~ Bin(r, 1 / (1 + e^-epsilon)): what pure DP allows.
    bound = float(bdtrc(v - 1, r, expit(epsilon)))
    if delta > 0.0:
        # P[v > W >= v - i] for i = 1..v, (v,); the largest of them over i is the price of delta.
        below = np.cumsum(np.exp(_log_binomial(np.arange(v - 1.0, -1.0, -1.0), r, epsilon)))
        bound += 2.0 * m * delta * float((below / np.arange(1, v + 1)).max())
    return min(1.0, bound * (1.0 + SUM_ROUNDING_RELATIVE))


def mahloujifar_rejects(
    canaries: int, guesses: int, correct: int, shape: TradeOff, alpha: float = 0.05
) -> bool:
    """Return whether a mechanism with this trade-off function gets v right with prob. < `alpha`.

    Holds for every mechanism that satisfies it, dependent canaries or not.  `shape` must be convex
    and its own inverse, as those of `trade_off` are.  Ranges as for `steinke`.
    Source: Mahloujifar, Melis, Chaudhuri 2024, arXiv 2410.22235, Theorem 3.2 and Algorithm 3.
    """
    m, r, v = _checked(canaries, guesses, correct)
    f, tau = shape.shape.at, validate.open_probability(alpha=alpha)
    limit = r / m * (1.0 + SUM_ROUNDING_RELATIVE)
    right, wrong = tau * v / m, tau * (r - v) / m
    # From i = v - 1 down to 0: `right` is the least R_{i+1}, `wrong` the least H_{i+1}.
    for i in range(v - 1, -1, -1):
        least = max(wrong, f(1.0 - right))  # H_i >= f(1 - R_{i+1}); f is rounded down, so less
        right += i / (r - i) * (least - wrong)  # R_i - R_{i+1} = i / (r - i) (H_i - H_{i+1})
        wrong = least
        if right + wrong > limit:
            return True  # sums only grow from here, and R_0 + H_0 would have to be r / m
    return right + wrong > limit


def mahloujifar(
    canaries: int,
    guesses: int,
    correct: int,
    event: ev.Event,
    neighbours: str,
    delta: float,
    alpha: float = 0.05,
) -> FamilyResult:
    """Return the smallest factor on the claimed noise that one run rejects, and its epsilon.

    Unlike `family_test` it holds for every mechanism that satisfies the trade-off function of the
    event, whatever the dependence between canaries.  Ranges and source as for
    `mahloujifar_rejects`.
    """
    m, r, v = _checked(canaries, guesses, correct)
    validate.open_probability(alpha=alpha)

    def rejects(shape: TradeOff) -> bool:
        return mahloujifar_rejects(m, r, v, shape, alpha)

    factor = smallest_rejected(rejects, event, neighbours)
    rejected = rejects(trade_off(event, neighbours))
    return family_result(factor, rejected, event, neighbours, delta, alpha)


def _log_binomial(k: FloatArray, r: int, epsilon: float) -> FloatArray:
    """Return log P[Bin(r, 1 / (1 + e^-epsilon)) = k]."""
    # log C(r, k) = -log B(k + 1, r - k + 1) - log(r + 1): no factorial overflows.
    ways = -betaln(k + 1.0, r - k + 1.0) - math.log(r + 1.0)
    return np.asarray(ways + k * log_expit(epsilon) + (r - k) * log_expit(-epsilon))


def _largest_rejected(rejects: Callable[[float], bool], most: float) -> float:
    """Return about the largest parameter that is rejected, one that was tried; 0 if none is.

    More is allowed under a larger parameter, and any rejected one is a bound: for each the set of
    v that rejects it reaches up from some v on, so all of them together are one such set.
    """
    if not rejects(0.0):
        return 0.0
    # Double until a parameter is not rejected, then bisect; `low` was always itself rejected,
    # so the bound errs downwards.
    low, high = 0.0, 1.0
    while rejects(high):
        low, high = high, 2.0 * high
        if high > most:
            return low

    def narrow_enough(low: float, high: float) -> bool:
        return high - low <= EPSILON_PRECISION_RELATIVE * high or high <= 1e-9

    return bisect(rejects, low, high, stop=narrow_enough, middle=mean)[0]


def _checked(canaries: int, guesses: int, correct: int) -> tuple[int, int, int]:
    m, r = validate.count(canaries=canaries), validate.count(guesses=guesses)
    _require_at_most("guesses", r, "canaries", m)
    return m, r, _require_at_most("correct", validate.count_from(0, correct=correct), "guesses", r)


def _require_at_most(name: str, value: int, other: str, most: int) -> int:
    if value > most:
        raise InvalidInput(
            f"`{name}` must be at most the number of {other} ({most}); it is {value}.",
            next_step="Check how they were counted.",
        )
    return value
