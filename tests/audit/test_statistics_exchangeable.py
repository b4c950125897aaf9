"""Intervals for exchangeable canaries.  Assertions on rates fail by chance with prob. < 1e-6."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import binom

from privplan.accountant.errors import InvalidInput
from privplan.audit.statistics import (
    exchangeable_epsilon,
    exchangeable_upper,
    exchangeable_upper_wilson,
    lower_rate,
)

SURE = 1.0 - 1e-6


def hanging_together(
    rng: np.random.Generator, runs: int, canaries: int, rate: float, correlation: float
) -> NDArray[np.bool_]:
    """Return rows that share one outcome with probability `correlation`, else are independent."""
    own = rng.random((runs, canaries)) < rate
    shared = rng.random((runs, 1)) < rate
    return np.where(rng.random((runs, 1)) < correlation, shared, own)


@pytest.mark.parametrize("correlation", [0.0, 0.1, 1.0])
@pytest.mark.parametrize(("runs", "rate"), [(40, 0.02), (40, 0.4), (400, 0.1)])
def test_the_bound_is_wrong_no_more_often_than_alpha(
    runs: int, rate: float, correlation: float
) -> None:
    rng = np.random.default_rng(51)
    repetitions, alpha = 600, 0.2
    wrong = sum(
        exchangeable_upper(hanging_together(rng, runs, 20, rate, correlation), alpha) < rate
        for _ in range(repetitions)
    )
    assert wrong <= binom.ppf(SURE, repetitions, alpha)
    # The control: canaries of one run counted as if they were independent.
    if correlation == 1.0:
        pooled = 0
        for _ in range(repetitions):
            ones = int(hanging_together(rng, runs, 20, 1.0 - rate, correlation).sum())
            pooled += lower_rate(ones, runs * 20, alpha) > 1.0 - rate
        assert pooled > binom.ppf(SURE, repetitions, alpha)


@pytest.mark.parametrize("correlation", [0.0, 0.1, 0.5])
def test_the_asymptotic_end_is_about_as_sure_as_it_says(correlation: float) -> None:
    rng = np.random.default_rng(52)
    repetitions, alpha, rate = 600, 0.2, 0.3
    wrong = sum(
        exchangeable_upper_wilson(hanging_together(rng, 200, 20, rate, correlation), alpha) < rate
        for _ in range(repetitions)
    )
    assert wrong <= binom.ppf(SURE, repetitions, alpha)


def test_one_canary_a_run_is_the_wilson_interval() -> None:
    x = np.array([[1]] * 7 + [[0]] * 93)
    z = float(-ndtri(0.025))
    by_hand = brentq(lambda p: 100 * (p - 0.07) ** 2 - z * z * p * (1 - p), 0.07, 1.0)
    assert exchangeable_upper_wilson(x, 0.05) == pytest.approx(by_hand)


def test_the_second_order_end_solves_its_equation() -> None:
    x = hanging_together(np.random.default_rng(53), 60, 8, 0.2, 0.3).astype(float)
    n, k, z = 60, 8, float(-ndtri(0.05))
    mean = x.mean(axis=1)
    pairs = np.array([(row.sum() ** 2 - row.sum()) / (k * (k - 1)) for row in x]).mean()
    second = brentq(lambda p: n * (p - pairs) ** 2 - z * z * p * (1 - p), pairs, 1.0)

    def equation(p: float) -> float:
        variance = p / k + (k - 1) / k * second - p * p
        return float(n * (p - mean.mean()) ** 2 - z * z * variance)

    found = exchangeable_upper_wilson(x, 0.1)
    assert found == pytest.approx(brentq(equation, mean.mean(), 1.0))


def test_the_bound_by_hand() -> None:
    x = hanging_together(np.random.default_rng(54), 3000, 50, 0.2, 0.01)
    rows = x.mean(axis=1)
    log = math.log(4 / 0.05)
    bernstein = rows.mean() + math.sqrt(2 * rows.var(ddof=1) * log / 3000) + 7 * log / (3 * 2999)
    assert exchangeable_upper(x, 0.05) == pytest.approx(bernstein)
    # Nothing seen in n runs: (1 - p)^n = alpha / 2.
    assert exchangeable_upper(np.zeros((30, 9)), 0.05) == pytest.approx(1 - 0.025 ** (1 / 30))


def test_many_canaries_that_do_not_hang_together_narrow_the_bound() -> None:
    rng = np.random.default_rng(55)
    apart = [
        exchangeable_upper(hanging_together(rng, 1000, canaries, 0.3, 0.0), 0.05)
        for canaries in (1, 10, 100)
    ]
    assert apart[0] > apart[1] > apart[2] > 0.3
    together = exchangeable_upper(hanging_together(rng, 1000, 100, 0.3, 1.0), 0.05)
    assert together > apart[1]


def test_epsilon_from_runs() -> None:
    rng = np.random.default_rng(56)
    q = 1.0 / (1.0 + math.e**2)
    alarms, misses = (hanging_together(rng, 2000, 30, q, 0.2) for _ in range(2))
    bound = exchangeable_epsilon(alarms, misses, delta=1e-5)
    estimate = exchangeable_epsilon(alarms, misses, delta=1e-5, asymptotic=True)
    assert 0.8 * 2.0 < bound < estimate < 2.0
    assert exchangeable_epsilon(alarms, misses, delta=0.2) < bound
    assert exchangeable_epsilon(~alarms, misses, delta=1e-5) == 0.0
    assert exchangeable_epsilon(np.ones((5, 2)), np.ones((5, 2)), delta=0.0) == 0.0


@pytest.mark.parametrize("x", [[], [0.0, 1.0], [[0.5]], [[math.nan]], [[2]]])
def test_what_is_no_table_of_errors_is_refused(x: object) -> None:
    for upper in (exchangeable_upper, exchangeable_upper_wilson):
        with pytest.raises(InvalidInput):
            upper(x, 0.05)  # type: ignore[arg-type]
