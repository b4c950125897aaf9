"""Rates from counts, and what they say about epsilon and mu.

Rates of false violations are computed or simulated at the boundary of a correct mechanism; where
simulated, the assertion fails by chance with probability below 1e-6.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binom

from privplan.accountant.errors import InvalidInput
from privplan.audit.statistics import (
    Counts,
    counts_at,
    epsilon_lower,
    gdp_epsilon,
    lower_rate,
    mu_lower,
    upper_rate,
)

from ..cases import for_each

SURE = 1.0 - 1e-6


def exact_tail(count: int, trials: int, rate: float) -> mp.mpf:
    """Return P[Bin(trials, rate) <= count], with 50 digits."""
    with mp.workdps(50):
        p = mp.mpf(rate)
        return mp.fsum(
            mp.binomial(trials, i) * p**i * (1 - p) ** (trials - i) for i in range(count + 1)
        )


# --- Clopper-Pearson --------------------------------------------------------------------------


def test_published_ceiling() -> None:
    # No error in 10,000 and 10,000: ln(1e4 / 3.69) = 7.9 is the most that counts can show.
    assert 1e4 * upper_rate(0, 10_000, 0.025) == pytest.approx(3.689, abs=1e-3)
    assert epsilon_lower(Counts(0, 10_000, 0, 10_000), delta=1e-5) == pytest.approx(7.905, abs=1e-3)


@for_each("trials", [1, 7, 60])
@for_each("alpha", [0.4, 0.025, 1e-9])
def test_ends_have_exactly_their_level(trials: int, alpha: float) -> None:
    for count in range(trials + 1):
        upper, lower = upper_rate(count, trials, alpha), lower_rate(count, trials, alpha)
        nearer, nearer_lower = upper * (1.0 - 4e-12), lower * (1.0 + 4e-12)
        if count < trials:
            assert exact_tail(count, trials, upper) <= alpha <= exact_tail(count, trials, nearer)
        else:
            assert upper == 1.0
        if count > 0:
            below = 1 - exact_tail(count - 1, trials, lower)
            assert below <= alpha <= 1 - exact_tail(count - 1, trials, nearer_lower)
        else:
            assert lower == 0.0


@for_each("rate", [0.001, 0.05, 0.37, 0.5])
def test_an_end_is_wrong_no_more_often_than_it_says(rate: float) -> None:
    counts = np.arange(401, dtype=float)
    likely = binom.pmf(counts, 400, rate)
    for alpha in (0.3, 0.05, 0.001):
        assert likely[upper_rate(counts, 400, alpha) < rate].sum() <= alpha
        assert likely[lower_rate(counts, 400, alpha) > rate].sum() <= alpha


@given(st.integers(0, 10**9), st.integers(1, 10**9), st.floats(1e-12, 0.5))
def test_ends_enclose_what_was_seen_and_more_trials_narrow_them(
    count: int, trials: int, alpha: float
) -> None:
    count = min(count, trials)
    seen = count / trials
    assert lower_rate(count, trials, alpha) <= seen <= upper_rate(count, trials, alpha)
    assert upper_rate(2 * count, 2 * trials, alpha) <= upper_rate(count, trials, alpha) + 1e-15


def test_numbers_and_lists_agree() -> None:
    listed = upper_rate(np.array([0.0, 3.0]), 10, 0.1)
    assert listed.tolist() == [upper_rate(0, 10, 0.1), upper_rate(3, 10, 0.1)]


@for_each(("count", "trials"), [(-1, 5), (6, 5), (0, 0), (math.nan, 5)])
def test_impossible_counts_are_refused(count: float, trials: float) -> None:
    with pytest.raises(InvalidInput):
        upper_rate(count, trials, 0.05)


# --- counts -----------------------------------------------------------------------------------


def test_counts_at_a_threshold() -> None:
    counts = counts_at([0.0, 1.0, 2.0, 3.0, 1.0], [False, False, True, True, True], 1.0)
    assert counts == Counts(false_alarms=0, negatives=2, misses=1, positives=3)
    assert counts.hits == 2


@for_each(
    ("scores", "coins"),
    [
        ([1.0, math.nan], [True, False]),
        ([1.0, 2.0], [True, True]),
        ([1.0, 2.0], [False, False]),
        ([1.0, 2.0, 3.0], [True, False]),
        ([[1.0], [2.0]], [[True], [False]]),
        ([1.0, 2.0], [2, 0]),
    ],
)
def test_scores_that_no_test_can_be_made_of_are_refused(scores: object, coins: object) -> None:
    with pytest.raises(InvalidInput):
        counts_at(scores, coins, 0.0)  # type: ignore[arg-type]


@for_each("given_counts", [(3, 2, 0, 1), (0, 1, 2, 1), (0, 0, 0, 1), (-1, 2, 0, 1)])
def test_counts_that_do_not_add_up_are_refused(given_counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(InvalidInput):
        Counts(*given_counts)


# --- epsilon ----------------------------------------------------------------------------------


def boundary(epsilon: float, delta: float, false_alarms: float) -> float:
    """Return the least miss rate that (epsilon, delta)-DP allows."""
    steep = 1.0 - delta - math.exp(epsilon) * false_alarms
    return max(0.0, steep, math.exp(-epsilon) * (1.0 - delta - false_alarms))


@for_each(("epsilon", "delta", "rate"), [(1.0, 0.0, 0.05), (1.0, 0.01, 0.7), (0.1, 0.1, 0.3)])
def test_epsilon_is_above_the_truth_no_more_often_than_alpha(
    epsilon: float, delta: float, rate: float
) -> None:
    rng = np.random.default_rng(11)
    runs, n, alpha = 1500, 300, 0.2
    alarms = rng.binomial(n, rate, runs)
    misses = rng.binomial(n, boundary(epsilon, delta, rate), runs)
    wrong = sum(
        epsilon_lower(Counts(int(a), n, int(b), n), delta=delta, alpha=alpha) > epsilon
        for a, b in zip(alarms, misses, strict=True)
    )
    assert wrong <= binom.ppf(SURE, runs, alpha)


def test_the_best_of_many_thresholds_pays_for_all_of_them() -> None:
    rng = np.random.default_rng(12)
    runs, n, tests, alpha = 120, 300, 60, 0.1
    alarms = rng.binomial(n, 0.05, (runs, tests))
    misses = rng.binomial(n, boundary(1.0, 0.0, 0.05), (runs, tests))
    wrong = {1: 0, tests: 0}
    for run in range(runs):
        counts = [
            Counts(int(a), n, int(b), n) for a, b in zip(alarms[run], misses[run], strict=True)
        ]
        for tried in wrong:
            best = max(epsilon_lower(c, delta=0.0, alpha=alpha, thresholds=tried) for c in counts)
            wrong[tried] += best > 1.0
    assert wrong[tests] <= binom.ppf(SURE, runs, alpha)
    assert wrong[1] > binom.ppf(SURE, runs, alpha)  # the control: what is not paid for shows


def test_epsilon_by_hand() -> None:
    counts = Counts(10, 1000, 400, 1000)
    f, n = counts.upper(0.05)
    assert f == upper_rate(10, 1000, 0.025)
    assert n == upper_rate(400, 1000, 0.025)
    assert epsilon_lower(counts, delta=0.1) == pytest.approx(math.log((0.9 - n) / f))
    mirrored = Counts(400, 1000, 10, 1000)
    assert epsilon_lower(mirrored, delta=0.1) == epsilon_lower(counts, delta=0.1)


@given(
    st.integers(0, 500),
    st.integers(0, 500),
    st.floats(0.0, 0.5),
    st.floats(1e-9, 0.4),
    st.integers(1, 50),
)
def test_epsilon_falls_with_errors_delta_confidence_and_thresholds(
    alarms: int, misses: int, delta: float, alpha: float, tried: int
) -> None:
    here = epsilon_lower(Counts(alarms, 501, misses, 501), delta=delta, alpha=alpha)
    assert here >= 0.0
    assert epsilon_lower(Counts(alarms + 1, 501, misses, 501), delta=delta, alpha=alpha) <= here
    assert epsilon_lower(Counts(alarms, 501, misses + 1, 501), delta=delta, alpha=alpha) <= here
    assert epsilon_lower(Counts(alarms, 501, misses, 501), delta=delta + 0.1, alpha=alpha) <= here
    assert epsilon_lower(Counts(alarms, 501, misses, 501), delta=delta, alpha=alpha / 2) <= here
    more = epsilon_lower(
        Counts(alarms, 501, misses, 501), delta=delta, alpha=alpha, thresholds=tried
    )
    assert more <= here


def test_a_coin_shows_nothing() -> None:
    assert epsilon_lower(Counts(500, 1000, 500, 1000), delta=1e-5) == 0.0
    assert epsilon_lower(Counts(1000, 1000, 0, 1000), delta=1e-5) == 0.0
    assert epsilon_lower(Counts(1000, 1000, 1000, 1000), delta=0.0) == 0.0
    with pytest.raises(InvalidInput):
        epsilon_lower(Counts(0, 1, 0, 1), delta=1.0)


# --- the Gaussian family ------------------------------------------------------------------------


@for_each(("epsilon", "mu"), [(1, 0.268051), (2, 0.501552), (4, 0.924931), (8, 1.666031)])
def test_published_mu(epsilon: float, mu: float) -> None:
    assert gdp_epsilon(mu, 1e-5) == pytest.approx(epsilon, rel=1e-5)


def test_no_mu_no_loss() -> None:
    assert gdp_epsilon(0.0, 1e-5) == 0.0
    assert mu_lower(Counts(0, 10, 10, 10)) == 0.0
    assert mu_lower(Counts(10, 10, 0, 10)) == 0.0
    assert mu_lower(Counts(5, 10, 5, 10)) == 0.0


@for_each(("mu", "threshold"), [(0.5, 0.25), (1.0, 1.5), (2.0, 0.0)])
def test_mu_is_above_the_truth_no_more_often_than_alpha(mu: float, threshold: float) -> None:
    rng = np.random.default_rng(13)
    runs, n, alpha = 1500, 500, 0.2
    alarms = rng.binomial(n, ndtr(-threshold), runs)
    misses = rng.binomial(n, ndtr(threshold - mu), runs)
    found = [
        mu_lower(Counts(int(a), n, int(b), n), alpha=alpha)
        for a, b in zip(alarms, misses, strict=True)
    ]
    assert sum(one > mu for one in found) <= binom.ppf(SURE, runs, alpha)
    assert np.median(found) > 0.7 * mu  # and it does find what there is


def test_mu_overstates_other_mechanisms() -> None:
    # What the docstring warns of: Laplace noise of epsilon 1, a threshold half way.
    n = 10**6
    errors = round(0.5 * math.exp(-0.5) * n)
    counts = Counts(errors, n, errors, n)
    assert gdp_epsilon(mu_lower(counts), 1e-5) == pytest.approx(4.3, abs=0.3)
    assert 0.8 < epsilon_lower(counts, delta=0.0) <= 1.0
