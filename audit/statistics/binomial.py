"""Error rates of a test from counts, with exact intervals, and what they say about epsilon.

A test says "in" where a score lies above a threshold.  Of units that were out, it is wrong with the
false alarm rate F; of units that were in, with the miss rate N.  Every (epsilon, delta)-DP
mechanism has, for every threshold that was fixed beforehand,

    1 - N <= e^epsilon F + delta   and   1 - F <= e^epsilon N + delta.

**The Gaussian family**: mu from error rates, and back to epsilon and delta.  mu is a statement
about mechanisms whose trade-off function is that of N(0, 1) against N(mu, 1):  Gaussian noise
without sampling.  For any other mechanism it overstates: Laplace noise of epsilon 1 comes out at
epsilon 4.3, delta 1e-5.  Use `family_test` where the claim is anything else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincc, betainccinv, betaincinv, ndtri

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.arrays import BoolArray, FloatArray
from ...accountant.composition import Composition
from ...accountant.engines.gdp import GdpEngine
from ...accountant.errors import InvalidInput

BETA_ROUNDING_RELATIVE: Final = 1e-12
"""Relative allowance for the rounding of an inverse beta function."""

CHECKED_FROM_TRIALS: Final = 1e5
"""Trials from which an inverse beta function is checked: with 10^8 some lie above what was seen."""


@overload
def upper_rate(count: float, trials: float, alpha: float) -> float: ...
@overload
def upper_rate(count: FloatArray, trials: ArrayLike, alpha: float) -> FloatArray: ...
def upper_rate(count: ArrayLike, trials: ArrayLike, alpha: float) -> float | FloatArray:
    """Return an upper confidence limit for the rate behind `count` of `trials`, at level alpha.

    One-sided Clopper-Pearson, U = BetaInv(1 - alpha; count + 1, trials - count), 1 where all
    count.  Range: 0 <= count <= trials, trials above 0, alpha in (0, 1); a number or an array.
    Raises `InvalidInput` outside of it.  Source: Clopper and Pearson 1934, Biometrika 26(4).

    >>> round(upper_rate(0, 10_000, 0.025), 7)
    0.0003688
    """
    k, n = _checked(count, trials, alpha)
    with np.errstate(invalid="ignore"):
        # Largest u with P[Bin(n, u) <= k] >= alpha, moved up by the rounding of the inverse.
        ends = np.asarray(
            betainccinv(k + 1.0, n - k, alpha) * (1.0 + BETA_ROUNDING_RELATIVE), dtype=float
        )
        ends = _checked_end(ends, k < n, n, alpha, lambda u: betaincc(k + 1.0, n - k, u), up=True)
    return _as_given(np.where(k >= n, 1.0, np.minimum(ends, 1.0)), count, trials)


@overload
def lower_rate(count: float, trials: float, alpha: float) -> float: ...
@overload
def lower_rate(count: FloatArray, trials: ArrayLike, alpha: float) -> FloatArray: ...
def lower_rate(count: ArrayLike, trials: ArrayLike, alpha: float) -> float | FloatArray:
    """Return a lower confidence limit for the rate behind `count` of `trials`, at level alpha.

    One-sided Clopper-Pearson, L = BetaInv(alpha; count, trials - count + 1), 0 where none counts.
    Ranges, errors and source as for `upper_rate`.
    """
    k, n = _checked(count, trials, alpha)
    with np.errstate(invalid="ignore"):
        # Smallest u with P[Bin(n, u) >= k] >= alpha, moved down by the rounding of the inverse.
        ends = np.asarray(
            betaincinv(k, n - k + 1.0, alpha) * (1.0 - BETA_ROUNDING_RELATIVE), dtype=float
        )
        ends = _checked_end(ends, k > 0.0, n, alpha, lambda u: betainc(k, n - k + 1.0, u), up=False)
    return _as_given(np.where(k <= 0.0, 0.0, ends), count, trials)


def _checked_end(
    ends: FloatArray,
    used: BoolArray,
    n: FloatArray,
    alpha: float,
    level: Callable[[FloatArray], ArrayLike],
    *,
    up: bool,
) -> FloatArray:
    """Return confidence limits, moved outwards until their level is at most `alpha`, to about 1e-9.

    The beta function itself is good to 1e-10 of its value for 10^7 trials, its inverse is not.
    """
    off = used & (n > CHECKED_FROM_TRIALS) & ~(np.asarray(level(ends)) <= alpha)
    if not off.any():
        return ends
    lows, highs = np.full(ends.shape, 1e-300), np.ones(ends.shape)
    # Bisection in the logarithm of the rate, which spans 700: 80 halvings are below a double.
    for _ in range(80):
        middles = np.sqrt(lows) * np.sqrt(highs)
        # `up`: the limit lies above where the tail exceeds alpha; a lower limit is the reverse.
        above = (np.asarray(level(middles)) > alpha) == up
        lows, highs = np.where(above, middles, lows), np.where(above, highs, middles)
    # The bracket's outer end: an upper limit errs upwards, a lower one downwards.
    outer = highs * (1.0 + BETA_ROUNDING_RELATIVE) if up else lows * (1.0 - BETA_ROUNDING_RELATIVE)
    return np.asarray(np.where(off, outer, ends), dtype=float)


def _checked(count: ArrayLike, trials: ArrayLike, alpha: float) -> tuple[FloatArray, FloatArray]:
    validate.open_probability(alpha=alpha)
    k, n = np.broadcast_arrays(np.asarray(count, dtype=float), np.asarray(trials, dtype=float))
    if not (np.isfinite(k).all() and np.isfinite(n).all()):
        raise InvalidInput("`count` and `trials` must be numbers; one of them is not.")
    if not ((n > 0.0).all() and (k >= 0.0).all() and (k <= n).all()):
        raise InvalidInput(
            "`count` must be from 0 to `trials`, and `trials` above 0.",
            "A rate is a number of trials that went one way, out of all.",
            "Check how they were counted.",
        )
    return k, n


def _as_given(ends: FloatArray, *given: ArrayLike) -> float | FloatArray:
    return float(ends) if all(np.ndim(argument) == 0 for argument in given) else ends


@dataclass(frozen=True)
class Counts:
    """What a test got wrong: `false_alarms` of `negatives` (units out), `misses` of `positives`.

    Range: `negatives` and `positives` 1 or above, and no more errors than units.  Raises
    `InvalidInput` otherwise.
    """

    false_alarms: int
    negatives: int
    misses: int
    positives: int

    def __post_init__(self) -> None:
        fields = {
            "negatives": validate.count(negatives=self.negatives),
            "positives": validate.count(positives=self.positives),
            "false_alarms": validate.count_from(0, false_alarms=self.false_alarms),
            "misses": validate.count_from(0, misses=self.misses),
        }
        for errors, units in (("false_alarms", "negatives"), ("misses", "positives")):
            if fields[errors] > fields[units]:
                raise InvalidInput(
                    f"`{errors}` must be at most `{units}` ({fields[units]}); "
                    f"it is {fields[errors]}.",
                    next_step="Check how they were counted.",
                )
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def hits(self) -> int:
        """The number of positives that the test calls in."""
        return self.positives - self.misses

    def upper(self, alpha: float) -> tuple[float, float]:
        """Return (F, N) that together are wrong with probability at most `alpha`: half each."""
        return (
            upper_rate(self.false_alarms, self.negatives, alpha / 2.0),
            upper_rate(self.misses, self.positives, alpha / 2.0),
        )


def counts_at(scores: ArrayLike, coins: ArrayLike, threshold: float) -> Counts:
    """Return what the test "in where the score is above `threshold`" gets wrong.

    `scores` and `coins` (True: in) have shape (m,).  The threshold must have been fixed before
    these scores were seen: one that is chosen on them finds violations where there are none.
    Raises `InvalidInput` for scores that are not numbers, and where nobody was in, or out.
    """
    score, coin = as_scores(scores, coins)
    if math.isnan(threshold):
        raise InvalidInput("`threshold` must be a number; it is not.")
    called_in = score > threshold  # ties are called out
    return Counts(
        int((called_in & ~coin).sum()),
        int((~coin).sum()),
        int((~called_in & coin).sum()),
        int(coin.sum()),
    )


def as_scores(scores: ArrayLike, coins: ArrayLike) -> tuple[FloatArray, BoolArray]:
    """Return scores and coins as arrays (m,); raise `InvalidInput` if no test can use them."""
    try:
        score, coin = np.asarray(scores, dtype=float), np.asarray(coins)
    except (TypeError, ValueError):
        raise InvalidInput(
            "`scores` and `coins` must be lists of numbers; one of them is not.",
            next_step="Give one score and one coin for each unit.",
        ) from None
    if score.ndim != 1 or score.shape != coin.shape:
        raise InvalidInput(
            "`scores` and `coins` must be lists of one length.",
            f"Their shapes are {score.shape} and {coin.shape}.",
            "Give one score and one coin for each unit.",
        )
    if coin.dtype != np.bool_ and not np.isin(coin, (0, 1)).all():
        raise InvalidInput("`coins` must be True (in) or False (out).")
    coin = coin.astype(np.bool_)
    if np.isnan(score).any():
        raise InvalidInput(
            "`scores` must be numbers; at least one is not.",
            "A unit without a score was neither told from the others nor not.",
            "Find out what became of it; leaving units out would bias the test.",
        )
    if coin.all() or not coin.any():
        raise InvalidInput(
            "A test needs at least one unit that was in and one that was out.",
            f"Of {coin.size} units, {int(coin.sum())} were in.",
            "Use more units.",
        )
    return score, coin


def epsilon_lower(
    counts: Counts, *, delta: float, alpha: float = 0.05, thresholds: int = 1
) -> float:
    """Return a lower bound on epsilon at `delta`, for any mechanism: wrong with prob. <= alpha.

        epsilon >= max{ 0, ln((1 - delta - N) / F), ln((1 - delta - F) / N) }

    with F and N the upper ends of both rates, wrong with probability at most alpha / 2 each; both
    inequalities need the same two events only.  Where the best of several `thresholds` is taken,
    say how many were tried, whether or not they were kept: alpha is divided by that (Bonferroni).
    Units must be independent of each other given the mechanism (one run each, or a mechanism that
    treats them independently).  Range: delta in [0, 1), alpha in (0, 1), thresholds 1 or above.
    Source: Kairouz, Oh, Viswanath 2017, arXiv 1311.0776 (the two inequalities); Jagielski, Ullman,
    Oprea 2020, arXiv 2006.07709 (with Clopper-Pearson).

    >>> round(epsilon_lower(Counts(0, 10_000, 0, 10_000), delta=1e-5), 3)
    7.905
    """
    level = level_of(alpha, thresholds)
    validate.probability(delta=delta)
    if delta >= 1.0:
        raise InvalidInput("`delta` must be below 1.", next_step="Give the delta of the claim.")
    return epsilon_of_rates(*counts.upper(level), delta)


def level_of(alpha: float, thresholds: int) -> float:
    """Return alpha / thresholds: Bonferroni's level for each of them."""
    return validate.open_probability(alpha=alpha) / validate.count(thresholds=thresholds)


def epsilon_of_rates(false_alarms: float, misses: float, delta: float) -> float:
    """Return the least epsilon at which error rates of at most these are possible, rounded down."""
    epsilon = 0.0
    # Both inequalities of the definition, solved for epsilon: 1 - N <= e^eps F + delta and
    # 1 - F <= e^eps N + delta.  F and N are upper limits, so the result errs downwards.
    for right, wrong in (
        (1.0 - delta - misses, false_alarms),
        (1.0 - delta - false_alarms, misses),
    ):
        if right > 0.0 and wrong > 0.0:
            epsilon = max(epsilon, math.log(right / wrong))
        elif right > 0.0:
            epsilon = math.inf
    return epsilon * (1.0 - BETA_ROUNDING_RELATIVE)


MAX_MU: Final = 1e6


def mu_lower(counts: Counts, *, alpha: float = 0.05, thresholds: int = 1) -> float:
    """Return a lower bound on mu, for Gaussian mechanisms only: wrong with probability <= alpha.

        mu >= Phi^-1(1 - F) - Phi^-1(N),  0 if that is negative,

    F and N the upper ends of false alarm and miss rate, alpha / 2 each; `thresholds` as in
    `epsilon_lower`.  What is rejected for a smaller mu is that the mechanism is *Gaussian* with
    that mu, not that it is (epsilon, delta)-DP.
    Source: Dong, Roth, Su 2022, arXiv 1905.02383v3, Definition 2.5 (mu-GDP).
    """
    false_alarms, misses = counts.upper(level_of(alpha, thresholds))
    if false_alarms >= 1.0 or misses >= 1.0:
        return 0.0
    # F and N are upper limits and Phi^-1 grows, so mu errs downwards.
    return max(0.0, (-float(ndtri(false_alarms)) - float(ndtri(misses))) * (1.0 - 1e-12))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon at which the Gaussian mechanism of `mu` has this delta, rounded down.

    Range: `mu` from 0 to 1e6, `delta` in (0, 1).
    Source: Dong, Roth, Su 2022, arXiv 1905.02383v3, Corollary 2.13.

    >>> round(gdp_epsilon(1.0, 1e-5), 6)
    4.377178
    """
    parts = _parts(mu)
    validate.open_probability(delta=delta)
    return GdpEngine().epsilon(parts, delta, "add-remove").bounds.lower if parts else 0.0


def _parts(mu: float) -> Composition:
    mu = validate.non_negative(mu=mu)
    if mu > MAX_MU:
        raise InvalidInput(f"`mu` must be at most {MAX_MU:g}; it is {mu:g}.")
    # A little more noise than 1 / mu, so that nothing is rounded up.
    if mu <= 1e-150:
        return Composition()
    return Composition.of(ev.Gaussian(math.nextafter(1.0 / mu, math.inf)))
