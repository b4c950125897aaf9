"""The threshold of the claim test: a rank, fixed by the claim and never by the data counted.

Not a score but a rank is fixed.  The claim alone says how many false alarms k to allow, and
the threshold is the (k+1)-th largest score of the units that were out.  Its false alarm rate is
then a Beta(k + 1, n - k) variable at most, whose quantile is the Clopper-Pearson end for k of n, so
nothing is lost by looking at those scores; the units that were in are another sample.  A threshold
fixed as a score is as valid, but scores move with the noise: fixed on the claimed likelihood ratio
it saw nothing of halved noise under Poisson sampling.

A threshold that is chosen on some of the units and counted on the others is in `audit.canaries`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput
from ...accountant.risk.trade_off import TradeOff, attained_trade_off, trade_off
from .binomial import Counts, as_scores, counts_at, upper_rate
from .family import FamilyResult, family_test, scaled, smallest_rejected

CANDIDATE_RANKS: Final = 400
"""Thresholds among which one is chosen."""


def claim_rank(
    event: ev.Event, neighbours: str, negatives: int, positives: int, alpha: float = 0.05
) -> int:
    """Return how many false alarms to allow among `negatives`, from the claim alone.

    It is the number at which the best test of the claimed event, doing as well as it may, would
    give the most: the smallest factor in `family_test` at level `alpha`.
    """
    validate.open_probability(alpha=alpha)
    n_out, n_in = validate.count(negatives=negatives), validate.count(positives=positives)
    # Candidate ranks k, (candidates,), dense where few false alarms are allowed.
    ranks = np.unique(np.geomspace(1.0, max(n_out / 2.0, 1.0), CANDIDATE_RANKS).astype(int)) - 1
    # Expected misses at false alarm rate (k + 1) / (n + 1), if the claim is exactly true.  Only
    # the power rests on it: any rank that the claim fixes gives a valid test.
    misses = n_in * attained_trade_off(event, neighbours)((ranks + 1.0) / (n_out + 1.0))
    upper = _upper_rates(ranks.astype(float), n_out, misses, n_in, alpha)
    return int(ranks[_best_candidate(upper, event, neighbours)])


def counts_at_rank(scores: ArrayLike, coins: ArrayLike, false_alarms: int) -> tuple[float, Counts]:
    """Return the threshold that allows `false_alarms`, and the counts of the test.

    The threshold is the (k+1)-th largest score among units that were out (`coins` False).  Valid as
    long as k = `false_alarms` was fixed before; the counts say k even where ties leave fewer, for
    that is what the bound needs.  Range: 0 <= k < number of units out.
    """
    score, coin = as_scores(scores, coins)
    out = score[~coin]
    rank = validate.count_from(0, false_alarms=false_alarms)
    if rank >= out.size:
        raise InvalidInput(
            f"`false_alarms` must be below the number of units that were out ({out.size}); "
            f"it is {rank}.",
            next_step="Allow fewer false alarms, or use more units.",
        )
    # The (k + 1)-th largest score of the negatives, at index n - 1 - k of the ascending order.
    threshold = float(np.partition(out, out.size - 1 - rank)[out.size - 1 - rank])
    seen = counts_at(score, coin, threshold)
    return threshold, replace(seen, false_alarms=rank)


def claim_only(
    scores: ArrayLike,
    coins: ArrayLike,
    event: ev.Event,
    neighbours: str,
    delta: float,
    *,
    alpha: float = 0.05,
) -> FamilyResult:
    """Return the claim test at the rank that the claim prescribes; see `family_test`.

    `scores` (higher: rather in) and `coins` (True: in) have shape (m,); units are independent.
    """
    score, coin = as_scores(scores, coins)
    n_in = int(coin.sum())
    rank = claim_rank(event, neighbours, coin.size - n_in, n_in, alpha)
    counts = counts_at_rank(score, coin, rank)[1]
    return family_test(counts, event, neighbours, delta, alpha)


def _upper_rates(
    alarms: FloatArray, n_out: int, misses: FloatArray, n_in: int, alpha: float
) -> tuple[FloatArray, FloatArray]:
    half = alpha / 2.0
    return upper_rate(alarms, n_out, half), upper_rate(misses, n_in, half)


def _best_candidate(upper: tuple[FloatArray, FloatArray], event: ev.Event, neighbours: str) -> int:
    """Return the candidate that rejects the smallest factor, the first where none rejects any."""
    false_alarms, misses = upper

    # By how much a candidate beats a member's trade-off function: f_c(F) - N, (candidates,).
    def margins(shape: TradeOff) -> FloatArray:
        return shape(false_alarms) - misses

    def some(shape: TradeOff) -> bool:
        return bool((margins(shape) > 0.0).any())

    factor = smallest_rejected(some, event, neighbours)
    # At the smallest factor that any candidate rejects, the one with the largest margin.
    last = 1.0 if factor is None else factor
    return int(np.argmax(margins(trade_off(scaled(event, last), neighbours))))
