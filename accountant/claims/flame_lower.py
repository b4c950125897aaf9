"""Exact tests on concrete neighbouring data: what FLAME reveals at the very least.

**Counts.**  One user's messages are randomized 1s under one data set and 0s under the other; all
other messages are those of value 1/2, so each exceeds 1/2 with probability 1/2.  The number of
messages above 1/2, over all coordinates, is Bin(k, s) + Bin(N - k, 1/2), with s the chance that a
1 stays above 1/2, and 1 - s under the other data set.  It does not matter which k coordinates were
sent, and the count can be computed from what the analyzer receives, however it was shuffled.  Any
threshold gives epsilon >= log((P[count >= c] - delta) / Q[count >= c]).

**Tuples.**  Where whole tuples are shuffled, they stay whole: one tuple whose k messages together
favour a 1 so strongly that none of the others does points at the user.

Probabilities are lowered (P) and raised (Q) by more than the error of SciPy's binomials, which is
checked against exact sums in the tests.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.stats import binom

from ..arrays import FloatArray

_BINOMIAL_ERROR: Final = 1e-7
"""Far more than the relative error of a binomial probability or tail, or of a sum of them.

So it is from SciPy 1.17 on; the tails of 1.16 err by 1e-6 at 10^11 trials.
"""

_RARE_OUTCOME: Final = 1e-40
"""Outcomes of the user's own messages that are less likely than this are left out of P, and
counted in full in Q."""


def laplace_stays(local_epsilon: float) -> float:
    """Return the chance that 1 with Laplace noise of scale 1 / eps_l stays above 1/2."""
    return 1.0 - 0.5 * math.exp(-local_epsilon / 2.0)


def response_stays(local_epsilon: float) -> float:
    """Return the chance that binary randomized response answers truthfully."""
    return 1.0 / (1.0 + math.exp(-local_epsilon))


def count_epsilon(stays: float, own: int, messages: int, delta: float) -> float:
    """Return a lower bound on epsilon at `delta`, from the count of messages above 1/2.

    `own` of `messages` come from the user; `stays` is s above.  Relation: replace-one.
    """
    test = _CountTest(stays, own, messages - own)
    mean, deviation = 0.5 * (messages - own) + own * stays, math.sqrt(0.25 * messages)
    # The loss of a threshold has one peak in the threshold: a coarse look, then a fine one.
    coarse = np.unique(np.rint(mean + deviation * np.linspace(-2.0, 7.0, 91)))
    losses = [test.loss(int(threshold), delta) for threshold in coarse]
    best = coarse[int(np.argmax(losses))]
    fine = np.unique(np.rint(best + deviation * np.linspace(-0.1, 0.1, 21)))
    return max(0.0, *losses, *(test.loss(int(threshold), delta) for threshold in fine))


class _CountTest:
    """The laws of the count: the user's part as masses, the others' as upper tails."""

    def __init__(self, stays: float, own: int, others: int) -> None:
        # The user's counts but for outcomes below e-40, which P loses and Q counts in full.
        low = binom.ppf(_RARE_OUTCOME, own, 1.0 - stays)
        high = binom.isf(_RARE_OUTCOME, own, stays)
        self.user_counts = np.arange(max(int(low), 0), min(int(high), own) + 1)
        self.with_1 = binom.pmf(self.user_counts, own, stays)
        self.with_0 = binom.pmf(self.user_counts, own, 1.0 - stays)
        centre, reach = 0.5 * others, 8.0 * math.sqrt(0.25 * (own + others)) + own
        self.first = max(0, math.floor(centre - reach))
        counts = np.arange(self.first, min(others, math.ceil(centre + reach)) + 1)
        masses = binom.pmf(counts, others, 0.5)
        upper_tail = float(binom.sf(counts[-1], others, 0.5))
        self.tails = np.concatenate((np.cumsum(masses[::-1])[::-1] + upper_tail, [upper_tail]))

    def loss(self, threshold: int, delta: float) -> float:
        """Return log((P - delta) / Q) of "the count is at least `threshold`", or 0."""
        least = threshold - self.user_counts - self.first
        inside = (least >= 0) & (least < self.tails.size)
        reached = self.tails[np.clip(least, 0, self.tails.size - 1)]
        p = float(self.with_1 @ np.where(inside, reached, 0.0)) * (1.0 - _BINOMIAL_ERROR) - delta
        q = float(self.with_0 @ np.where(least < 0, 1.0, reached)) * (1.0 + _BINOMIAL_ERROR)
        q += 2.0 * _RARE_OUTCOME
        return math.log(p / q) * (1.0 - _BINOMIAL_ERROR) - _BINOMIAL_ERROR if p > q else 0.0


SCORE_STEPS: Final = 64
"""Steps into which the score of one message is cut, on each side of 0."""


def tuple_epsilon(local_epsilon: float, chosen: int, tuples: int, delta: float) -> float:
    """Return a lower bound on epsilon at `delta` where `tuples` whole tuples are shuffled.

    The user's `chosen` values are all 1 or all 0, everybody else's 1/2 (as are dummies).  A tuple
    scores the sum of its messages' losses between 1 and 1/2, eps_l (|y - 1/2| - |y - 1|), each
    rounded to a grid; the test asks whether any tuple scores above a threshold.  Any score is a
    valid test.  Relation: replace-one.
    """
    at_one, half = (_score_masses(local_epsilon, centre) for centre in (1.0, 0.5))
    user, other = (_upper_tails(_power(masses, chosen)) for masses in (at_one, half))
    zero = _upper_tails(_power(_score_masses(local_epsilon, 0.0), chosen))
    p = user * (1.0 - _BINOMIAL_ERROR) - delta
    q = ((tuples - 1) * other + zero) * (1.0 + _BINOMIAL_ERROR)  # the union bound
    # Every threshold is a test; the largest log((P - delta)/Q) counts, rounded down.
    good = (p > q) & (q > 0.0)
    if not good.any():
        return 0.0
    return float(np.log(p[good] / q[good]).max()) * (1.0 - _BINOMIAL_ERROR)


def _score_masses(local_epsilon: float, centre: float) -> FloatArray:
    """Return the masses of the 2 SCORE_STEPS + 1 scores, for Laplace noise around `centre`."""
    cuts = 0.5 + (np.arange(1, 2 * SCORE_STEPS + 1) - 0.5) / (4.0 * SCORE_STEPS)
    places = local_epsilon * np.concatenate(([-np.inf], cuts - centre, [np.inf]))
    # From whichever tail is the smaller, so that no digits cancel.
    low, high = laplace_below(places), laplace_below(-places)
    return np.asarray(np.where(low[1:] < 0.5, np.diff(low), -np.diff(high)))


def laplace_below(x: FloatArray) -> FloatArray:
    """Return the distribution function of Laplace noise of scale 1."""
    tail = 0.5 * np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0.0, tail, 1.0 - tail))


def _power(masses: FloatArray, count: int) -> FloatArray:
    """Return the `count`-fold convolution, by direct sums: no term is ever subtracted."""
    result = np.ones(1)
    for bit in bin(count)[2:]:
        result = np.convolve(result, result)
        if bit == "1":
            result = np.convolve(result, masses)
    return result


def _upper_tails(masses: FloatArray) -> FloatArray:
    return np.asarray(np.cumsum(masses[::-1])[::-1])
