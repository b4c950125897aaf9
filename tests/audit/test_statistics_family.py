"""The claim test and where its threshold comes from.

Rates of false violations are simulated at the boundary of a mechanism that keeps its claim; the
assertions fail by chance with probability below 1e-6.  Controls show that they can fail.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.risk.trade_off import attained_trade_off
from privplan.audit.statistics import (
    Counts,
    claim_only,
    claim_rank,
    claim_rejected,
    counts_at,
    counts_at_rank,
    family_test,
    gdp_epsilon,
    mu_lower,
    scaled,
    trade_off,
    upper_rate,
)
from privplan.audit.statistics.family import FACTOR_PRECISION_RELATIVE

from ..cases import for_each

SURE = 1.0 - 1e-6
DELTA = 1e-5
GAUSSIAN = ev.Gaussian(1.0)
SAMPLED = ev.Repeat(50, ev.Poisson(0.1, ev.Gaussian(1.0)))

Scores = tuple[NDArray[np.float64], NDArray[np.bool_]]


def gaussian_scores(rng: np.random.Generator, units: int, noise: float = 1.0) -> Scores:
    coins = rng.random(units) < 0.5
    return coins + noise * rng.standard_normal(units), coins


def sampled_scores(rng: np.random.Generator, units: int, noise: float = 1.0) -> Scores:
    """Return claimed log likelihood ratios of `SAMPLED`, whose noise really is `noise`."""
    coins = rng.random(units) < 0.5
    scores = np.zeros(units)
    for _ in range(50):
        seen = noise * rng.standard_normal(units) + (coins & (rng.random(units) < 0.1))
        scores += np.log1p(0.1 * np.expm1(seen - 0.5))
    return scores, coins


# --- the claim test -------------------------------------------------------------------------------


def test_under_gaussian_noise_it_is_the_mu_test() -> None:
    counts = Counts(150, 5000, 4100, 5000)
    found = family_test(counts, GAUSSIAN, "add-remove", DELTA)
    mu = mu_lower(counts)
    assert found.factor == pytest.approx(1.0 / mu, rel=1.1 * FACTOR_PRECISION_RELATIVE)
    assert found.factor >= 1.0 / mu
    assert found.epsilon == pytest.approx(gdp_epsilon(mu, DELTA), rel=3e-4)
    assert found.epsilon <= gdp_epsilon(mu, DELTA)
    assert not found.rejected
    assert found.counts is counts


def test_what_it_reports_was_rejected_and_a_little_less_was_not() -> None:
    counts = Counts(1000, 10_000, 4800, 10_000)
    found = family_test(counts, SAMPLED, "add-remove", DELTA)
    assert found.factor is not None
    f, n = counts.upper(0.05)
    assert n < trade_off(scaled(SAMPLED, found.factor))(f)
    assert n >= trade_off(scaled(SAMPLED, found.factor / (1.0 + 1.01 * FACTOR_PRECISION_RELATIVE)))(
        f
    )
    known = account(scaled(SAMPLED, found.factor), delta=DELTA).epsilon
    assert found.epsilon == known.lower
    assert found.rejected == (found.factor <= 1.0) == claim_rejected(counts, SAMPLED, "add-remove")


@for_each("event", [GAUSSIAN, SAMPLED, ev.Laplace(2.0)], ids=str)
def test_fewer_errors_and_less_confidence_show_more(event: ev.Event) -> None:
    def epsilon(counts: Counts, alpha: float = 0.05, tried: int = 1) -> float:
        return family_test(counts, event, "add-remove", DELTA, alpha, thresholds=tried).epsilon

    here = epsilon(Counts(100, 4000, 3500, 4000))
    assert epsilon(Counts(80, 4000, 3500, 4000)) > here
    assert epsilon(Counts(100, 4000, 3400, 4000)) > here
    assert epsilon(Counts(100, 4000, 3500, 4000), alpha=0.2) > here
    assert epsilon(Counts(100, 4000, 3500, 4000), tried=10) < here


@for_each(
    "counts",
    [
        Counts(50, 100, 50, 100),
        Counts(0, 100, 100, 100),
        Counts(100, 100, 0, 100),
        Counts(0, 1, 0, 1),
    ],
)
def test_nothing_shown_is_0(counts: Counts) -> None:
    found = family_test(counts, SAMPLED, "add-remove", DELTA)
    assert (found.factor, found.epsilon, found.rejected) == (None, 0.0, False)


def test_no_error_at_all_is_far_from_any_claim() -> None:
    found = family_test(Counts(0, 3000, 0, 3000), GAUSSIAN, "add-remove", DELTA)
    assert found.rejected
    assert found.epsilon == pytest.approx(
        gdp_epsilon(-2 * ndtri(upper_rate(0, 3000, 0.025)), DELTA), rel=1e-3
    )
    # Half of these units are never drawn, so that many misses there must be.
    rare = ev.Repeat(7, ev.Poisson(0.1, ev.Gaussian(1.0)))
    impossible = family_test(Counts(0, 10**5, 10**4, 10**5), rare, "add-remove", DELTA)
    assert impossible.rejected
    assert 50.0 < impossible.epsilon < math.inf  # no further


def test_what_cannot_be_a_claim_is_refused() -> None:
    counts = Counts(1, 100, 1, 100)
    with pytest.raises(Unsupported):
        family_test(counts, ev.NoGuarantee("shown"), "add-remove", DELTA)
    with pytest.raises(Unsupported):
        family_test(counts, ev.Shuffle(100, ev.Local(1.0)), "add-remove", DELTA)
    for delta, alpha in ((0.0, 0.05), (1.0, 0.05), (DELTA, 0.0), (DELTA, 1.0)):
        with pytest.raises(InvalidInput):
            family_test(counts, GAUSSIAN, "add-remove", delta, alpha)
    with pytest.raises(InvalidInput):
        family_test(counts, GAUSSIAN, "some", DELTA)


@for_each(
    ("event", "rate"),
    [(GAUSSIAN, 0.02), (SAMPLED, 0.05), (SAMPLED, 0.6), (ev.Laplace(1.0), 0.1)],
    ids=str,
)
def test_a_kept_claim_is_rejected_no_more_often_than_alpha(event: ev.Event, rate: float) -> None:
    # The best test that there is, so the misses lie on the boundary (or, far right, above it).
    rng = np.random.default_rng(31)
    runs, n, alpha = 1000, 400, 0.2
    alarms = rng.binomial(n, rate, runs)
    misses = rng.binomial(n, float(attained_trade_off(event)(np.array([rate]))[0]), runs)
    pairs = [Counts(int(a), n, int(b), n) for a, b in zip(alarms, misses, strict=True)]
    rejected = sum(claim_rejected(one, event, "add-remove", alpha) for one in pairs)
    assert rejected <= binom.ppf(SURE, runs, alpha)
    # The control: against a claim of a third more noise it fails.
    worse = scaled(event, 4 / 3)
    assert sum(claim_rejected(one, worse, "add-remove", alpha) for one in pairs) > rejected


# --- thresholds -----------------------------------------------------------------------------------


def test_a_rank_by_hand() -> None:
    scores = [5.0, 4.0, 3.0, 2.0, 1.0, 4.5, 3.0, 0.0]
    coins = [False] * 5 + [True] * 3
    assert counts_at_rank(scores, coins, 0) == (5.0, Counts(0, 5, 3, 3))
    assert counts_at_rank(scores, coins, 2) == (3.0, Counts(2, 5, 2, 3))
    assert counts_at_rank(scores, coins, 4) == (1.0, Counts(4, 5, 1, 3))
    with pytest.raises(InvalidInput):
        counts_at_rank(scores, coins, 5)


def test_ties_do_not_make_a_rank_look_better() -> None:
    # Three at the top: none lies above the threshold, but the rank counts as the rank.
    scores, coins = [1.0, 1.0, 1.0, 0.0, 2.0, 0.0], [False] * 4 + [True] * 2
    threshold, counts = counts_at_rank(scores, coins, 2)
    assert threshold == 1.0
    assert counts == Counts(2, 4, 1, 2)
    assert counts_at(scores, coins, threshold).false_alarms == 0


def test_a_rank_s_false_alarm_rate_is_what_clopper_pearson_says() -> None:
    # The rate at the (k+1)-th largest of n uniform scores is Beta(k+1, n-k): the level is exact.
    rng = np.random.default_rng(32)
    runs, n, rank, alpha = 4000, 60, 4, 0.1
    upper = upper_rate(rank, n, alpha)
    above = 0
    for scores in rng.random((runs, n)):
        everybody = np.append(scores, 0.5)
        threshold, _ = counts_at_rank(everybody, np.arange(n + 1) == n, rank)
        above += 1.0 - threshold > upper
    assert binom.ppf(1.0 - SURE, runs, alpha) <= above <= binom.ppf(SURE, runs, alpha)


def best_rank(scores: NDArray[np.float64], coins: NDArray[np.bool_], alpha: float) -> bool:
    """Return what must not be done: whether any of 40 ranks of the same data rejects."""
    ranks = np.linspace(1, 150, 40).astype(int)
    return any(
        claim_rejected(counts_at_rank(scores, coins, int(rank))[1], GAUSSIAN, "add-remove", alpha)
        for rank in ranks
    )


def test_each_way_to_a_threshold_keeps_its_level() -> None:
    rng = np.random.default_rng(33)
    runs, alpha = 160, 0.3
    wrong = {"rank": 0, "claim": 0, "chosen on the same data": 0}
    for _ in range(runs):
        scores, coins = gaussian_scores(rng, 400)
        _, ranked = counts_at_rank(scores, coins, 60)
        wrong["rank"] += claim_rejected(ranked, GAUSSIAN, "add-remove", alpha)
        claim = claim_only(scores, coins, GAUSSIAN, "add-remove", DELTA, alpha=alpha)
        truth = gdp_epsilon(1.0, DELTA) * (1.0 + 1e-9)
        wrong["claim"] += claim.rejected or claim.epsilon > truth
        wrong["chosen on the same data"] += best_rank(scores, coins, alpha)
    allowed = binom.ppf(SURE, runs, alpha)
    assert max(wrong["rank"], wrong["claim"]) <= allowed
    assert wrong["chosen on the same data"] > max(wrong["rank"], wrong["claim"])


def test_the_rank_comes_from_the_claim_and_the_numbers_alone() -> None:
    rank = claim_rank(GAUSSIAN, "add-remove", 5000, 5000)
    # Near where the best of all ranks lies, if misses are as the claim has them.
    ranks = np.arange(1, 4000, 25)
    misses = 5000 * ndtr(-ndtri((ranks + 1) / 5001) - 1.0)
    mus = [
        mu_lower(Counts(int(k), 5000, round(b), 5000)) for k, b in zip(ranks, misses, strict=True)
    ]
    there = mu_lower(Counts(rank, 5000, round(5000 * ndtr(-ndtri((rank + 1) / 5001) - 1.0)), 5000))
    assert there > 0.995 * max(mus)
    assert claim_rank(GAUSSIAN, "add-remove", 1, 1) == 0


def test_a_claim_is_found_again_and_halved_noise_is_seen() -> None:
    rng = np.random.default_rng(35)
    truth = account(SAMPLED, delta=DELTA).epsilon.upper
    scores, coins = sampled_scores(rng, 40_000)
    found = claim_only(scores, coins, SAMPLED, "add-remove", DELTA)
    assert not found.rejected
    assert 0.8 * truth < found.epsilon <= truth
    # A threshold fixed on the claimed likelihood ratio saw nothing of this; a rank does.
    scores, coins = sampled_scores(rng, 4000, noise=0.5)
    found = claim_only(scores, coins, SAMPLED, "add-remove", DELTA)
    assert found.rejected
    assert found.epsilon > truth


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InvalidInput):
        claim_only([1.0, math.nan], [True, False], GAUSSIAN, "add-remove", DELTA)


@for_each("alpha", [0.0, 1.0, 1.5, math.nan])
def test_a_level_is_a_probability(alpha: float) -> None:
    rng = np.random.default_rng(36)
    args = (*gaussian_scores(rng, 50), GAUSSIAN, "add-remove")
    with pytest.raises(InvalidInput):
        claim_rank(GAUSSIAN, "add-remove", 5, 5, alpha)
    with pytest.raises(InvalidInput):
        claim_only(*args, DELTA, alpha=alpha)
