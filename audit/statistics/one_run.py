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
from numpy.typing import ArrayLike
from scipy.special import bdtr, bdtrc, betaln, expit, log_expit

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.errors import InvalidInput
from .binomial import Array, as_scores
from .family import FamilyResult, result, smallest_rejected
from .gaussian import LARGEST_MU, gdp_epsilon
from .tradeoff import TradeOff, gaussian_trade_off, reached, trade_off

MARGIN: Final = 1e-9
"""Relative allowance for rounding in sums of up to a million terms."""

PRECISION: Final = 1e-6
"""Relative width at which the search for the largest rejected parameter stops."""

LARGEST_EPSILON: Final = 500.0

UNFAIR: Final = 1e-9
"""Coins that are less likely than that, if fair, are refused."""

SHARES: Final = (0.0, 0.001, 0.003, 0.01, 0.02, 0.05, 0.1, 0.25)
"""Shares of canaries, on either side, among which `plan_guesses` chooses."""


def guess(scores: ArrayLike, coins: ArrayLike, guesses: int, *, said_in: int | None = None) -> int:
    """Return how many of r guesses are correct: the highest scores "in", the lowest "out".

    `scores` and `coins` have shape (m,); r = `guesses`, of which `said_in` say "in" (half, and the
    odd one, unless given), must be fixed before the scores are seen: see `plan_guesses`.  Range:
    1 <= r <= m, 0 <= said_in <= r.  Equal scores are ordered by a fixed shuffle, so that units that
    are listed by their coins do not make the guesses good.  Raises `InvalidInput` for coins that
    fair ones would be with probability below 1e-9.
    """
    score, coin = as_scores(scores, coins)
    _require_fair(int(coin.sum()), coin.size)
    r = _most("guesses", validate.count(guesses=guesses), "canaries", score.size)
    if said_in is None:
        said_in = r - r // 2
    _most("said_in", validate.count_from(0, said_in=said_in), "guesses", r)
    order = np.lexsort((np.random.default_rng(0).permutation(score.size), score))
    out, inside = order[: r - said_in], order[score.size - said_in :]
    return int((~coin[out]).sum() + coin[inside].sum())


def plan_guesses(
    event: ev.Event, neighbours: str, canaries: int, *, delta: float, alpha: float = 0.05
) -> tuple[int, int]:
    """Return from the claim alone (r, how many of them say "in"), for `guess` and the bounds here.

    The pair at which `steinke` would give the most if the claimed mechanism did as badly as it may,
    less two standard deviations.  Few guesses are surer, and under Poisson sampling only a high
    score says much, so often no guess says "out".
    """
    m = validate.count(canaries=canaries)
    miss = reached(event, neighbours)
    alphas = np.concatenate((np.geomspace(1e-9, 0.5, 400), 1.0 - np.geomspace(0.5, 1e-9, 400)))
    misses = miss(alphas)
    tops, tops_right = _shares(0.5 * (alphas + 1.0 - misses), 0.5 * (1.0 - misses))
    flops, flops_right = _shares(0.5 * (1.0 - alphas + misses), 0.5 * (1.0 - alphas))
    best, plan = -1.0, (1, 1)
    for share_in in SHARES:
        for share_out in SHARES:
            said_in, said_out = round(share_in * m), round(share_out * m)
            if (r := said_in + said_out) == 0:
                continue
            right = m * (
                np.interp(share_in, tops, tops_right) + np.interp(share_out, flops, flops_right)
            )
            sure = right - 2.0 * (right * max(1.0 - right / r, 0.0)) ** 0.5
            found = steinke(m, r, min(max(int(sure), 0), r), delta=delta, alpha=alpha)
            if found > best:
                best, plan = found, (r, said_in)
    return plan


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

    def rejects(epsilon: float) -> bool:
        return steinke_p_value(m, r, v, epsilon=epsilon, delta=delta) <= alpha

    return _largest(rejects, LARGEST_EPSILON)


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
    bound = float(bdtrc(v - 1, r, expit(epsilon)))
    if delta > 0.0:
        below = np.cumsum(np.exp(_log_binomial(np.arange(v - 1.0, -1.0, -1.0), r, epsilon)))
        bound += 2.0 * m * delta * float((below / np.arange(1, v + 1)).max())
    return min(1.0, bound * (1.0 + MARGIN))


def mahloujifar_rejects(
    canaries: int, guesses: int, correct: int, shape: TradeOff, alpha: float = 0.05
) -> bool:
    """Return whether a mechanism with this trade-off function gets v right with prob. < `alpha`.

    Holds for every mechanism that satisfies it, dependent canaries or not.  `shape` must be convex
    and its own inverse, as those of `trade_off` are.  Ranges as for `steinke`.
    Source: Mahloujifar, Melis, Chaudhuri 2024, arXiv 2410.22235, Theorem 3.2 and Algorithm 3.
    """
    m, r, v = _checked(canaries, guesses, correct)
    return _rejects(m, r, v, shape.shape.one, validate.open_probability(alpha=alpha))


def mahloujifar_gaussian(
    canaries: int, guesses: int, correct: int, *, delta: float, alpha: float = 0.05
) -> float:
    """Return a lower bound on epsilon for mechanisms that satisfy mu-GDP for some mu.

    The epsilon at `delta` of the largest mu that is rejected at level `alpha`: a statement about
    the Gaussian family, dependent canaries or not.  Ranges and source as for `mahloujifar_rejects`.

    >>> round(mahloujifar_gaussian(10_000, 2_500, 2_136, delta=1e-5), 5)
    2.47345
    """
    m, r, v = _checked(canaries, guesses, correct)
    validate.open_probability(alpha=alpha)
    validate.open_probability(delta=delta)

    def rejects(mu: float) -> bool:
        return _rejects(m, r, v, gaussian_trade_off(mu).shape.one, alpha)

    return gdp_epsilon(_largest(rejects, LARGEST_MU), delta)


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
        return _rejects(m, r, v, shape.shape.one, alpha)

    factor = smallest_rejected(rejects, event, neighbours)
    rejected = rejects(trade_off(event, neighbours))
    return result(factor, rejected, event, neighbours, delta, alpha)


def _rejects(m: int, r: int, v: int, f: Callable[[float], float], tau: float) -> bool:
    """Return whether the least of R_0 + H_0 is more than r/m, where it would have to be r/m."""
    limit = r / m * (1.0 + MARGIN)
    right, wrong = tau * v / m, tau * (r - v) / m
    for i in range(v - 1, -1, -1):
        least = max(wrong, f(1.0 - right))
        right += i / (r - i) * (least - wrong)
        wrong = least
        if right + wrong > limit:
            return True
    return right + wrong > limit


def _log_binomial(k: Array, r: int, epsilon: float) -> Array:
    """Return log P[Bin(r, 1 / (1 + e^-epsilon)) = k]."""
    ways = -betaln(k + 1.0, r - k + 1.0) - math.log(r + 1.0)
    return np.asarray(ways + k * log_expit(epsilon) + (r - k) * log_expit(-epsilon))


def _shares(said: Array, right: Array) -> tuple[Array, Array]:
    """Return both, sorted by the first, from (0, 0) on."""
    order = np.argsort(said)
    return np.append(0.0, said[order]), np.append(0.0, right[order])


def _largest(rejects: Callable[[float], bool], most: float) -> float:
    """Return about the largest parameter that is rejected, one that was tried; 0 if none is.

    More is allowed under a larger parameter, and any rejected one is a bound: for each the set of
    v that rejects it reaches up from some v on, so all of them together are one such set.
    """
    if not rejects(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while rejects(high):
        low, high = high, 2.0 * high
        if high > most:
            return low
    while high - low > PRECISION * high and high > 1e-9:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if rejects(middle) else (low, middle)
    return low


def _checked(canaries: int, guesses: int, correct: int) -> tuple[int, int, int]:
    m, r = validate.count(canaries=canaries), validate.count(guesses=guesses)
    _most("guesses", r, "canaries", m)
    return m, r, _most("correct", validate.count_from(0, correct=correct), "guesses", r)


def _require_fair(into: int, units: int) -> None:
    if 2.0 * float(bdtr(min(into, units - into), units, 0.5)) < UNFAIR:
        raise InvalidInput(
            f"`coins` must be fair: {into:,} of {units:,} units were in.",
            "Who guesses what is more frequent is right more often than half of the time.",
            "Throw a fair coin for every canary, and pass on all of them.",
        )


def _most(name: str, value: int, other: str, most: int) -> int:
    if value > most:
        raise InvalidInput(
            f"`{name}` must be at most the number of {other} ({most}); it is {value}.",
            next_step="Check how they were counted.",
        )
    return value
