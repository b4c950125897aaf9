"""Ways in which the statistics were wrong, or could be misled, and are no more."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import binom

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.risk.shapes import Lines
from privplan.accountant.risk.trade_off import TradeOff
from privplan.audit.statistics import (
    Counts,
    counts_at,
    family_test,
    lower_rate,
    mahloujifar_rejects,
    scaled,
    steinke_p_value,
    trade_off,
    upper_rate,
)

from ..cases import for_each

# --- the family of discrete Gaussian noise ----------------------------------------------------


def discrete_gaussian(deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (false alarms, misses) of the half lines, of a sum that moves by 1."""
    z = np.arange(-60, 61)
    p = np.exp(-(z**2) / (2.0 * deviation**2))
    p /= p.sum()
    tail = np.append(np.cumsum(p[::-1])[::-1], 0.0)
    return tail[1:], 1.0 - tail[:-1]


def test_little_discrete_noise_is_in_no_family() -> None:
    # A quarter more noise than claimed shows more at one threshold: no order, no family.
    alarms, misses = discrete_gaussian(0.62)
    claimed = trade_off(ev.DiscreteGaussian(0.5, 1))
    assert (misses < claimed(alarms) - 0.02).any()
    with pytest.raises(Unsupported, match="Discrete Gaussian"):
        family_test(
            Counts(24, 10_000, 8168, 10_000), ev.DiscreteGaussian(0.5, 1), "add-remove", 0.1
        )
    with pytest.raises(Unsupported):
        scaled(ev.Repeat(2, ev.Poisson(0.1, ev.DiscreteGaussian(1.0, 4))), 0.7)
    assert scaled(ev.DiscreteGaussian(3.0, 1), 1.0) == ev.DiscreteGaussian(3.0, 1)


@for_each("deviation", [3.0, 3.7, 5.0])
def test_enough_discrete_noise_is_ordered(deviation: float) -> None:
    alarms, misses = discrete_gaussian(deviation)
    for factor in (1.003, 1.03, 1.5):
        more_alarms, more_misses = discrete_gaussian(deviation * factor)
        for slope in np.geomspace(1.0, 1e4, 60):
            least = (slope * alarms + misses).min() / (1.0 + slope)
            assert (slope * more_alarms + more_misses).min() / (1.0 + slope) >= least - 1e-12


# --- many trials ------------------------------------------------------------------------------


def tail(count: int, trials: int, rate: float) -> mp.mpf:
    """Return P[Bin(trials, rate) <= count], with 60 digits."""
    with mp.workdps(60):
        p = mp.mpf(rate)
        term = total = (1 - p) ** trials
        for i in range(1, count + 1):
            term = term * (trials - i + 1) / i * p / (1 - p)
            total += term
        return total


@for_each(("trials", "alpha"), [(10**8, 1e-4), (2 * 10**8, 0.025), (10**7, 0.4)])
@for_each("count", [1, 2, 1000])
def test_ends_from_many_trials(trials: int, alpha: float, count: int) -> None:
    # Of 1000 in 2 x 10^8 the inverse beta function said "at least 1520".
    lower, upper = lower_rate(count, trials, alpha), upper_rate(count, trials, alpha)
    assert 0.0 < lower < count / trials < upper < 3.0 * (count + 3) / trials
    assert 1 - tail(count - 1, trials, lower) <= alpha * (1.0 + 1e-8)
    assert tail(count, trials, upper) <= alpha * (1.0 + 1e-10)


# --- guesses ----------------------------------------------------------------------------------


def test_rates_of_false_violations_where_canaries_depend_on_each_other() -> None:
    # Exact.  With probability w_k every canary answers by randomized response of epsilon_k.
    rng = np.random.default_rng(23)
    for _ in range(60):
        m, parts = int(rng.choice([5, 20, 100])), int(rng.integers(1, 4))
        r, alpha = int(rng.integers(1, m + 1)), float(rng.choice([0.01, 0.05, 0.3]))
        weights = rng.dirichlet(np.ones(parts + 1)) * [*[1.0] * parts, 0.0]
        if rng.random() < 0.5:
            weights *= alpha / weights.sum()  # all is told just often enough
        epsilons = np.minimum(rng.exponential(4.0, parts + 1), 30.0)
        epsilons[-1], weights[-1] = 0.0, 1.0 - weights[:-1].sum()
        truth = 1.0 / (1.0 + np.exp(-epsilons))
        tried = np.linspace(0.0, 32.0, 400)
        deltas = (weights * np.maximum(truth - np.exp(tried)[:, None] * (1.0 - truth), 0.0)).sum(1)
        shape = TradeOff(Lines.of(tried, deltas, deltas))

        def probability(
            right: int, r: int = r, w: np.ndarray = weights, t: np.ndarray = truth
        ) -> float:
            return float((w * binom.sf(right - 1, r, t)).sum())

        refuted = [v for v in range(r + 1) if mahloujifar_rejects(m, r, v, shape, alpha)]
        assert not refuted or probability(refuted[0]) <= alpha * (1.0 + 1e-9)
        for at in (0, 10, 40):
            at_least = [
                v
                for v in range(r + 1)
                if steinke_p_value(m, r, v, epsilon=float(tried[at]), delta=float(deltas[at]))
                <= alpha
            ]
            assert not at_least or probability(at_least[0]) <= alpha * (1.0 + 1e-9)


# --- small things -----------------------------------------------------------------------------


@for_each("scores", [["a", "b"], [[1.0], [1.0, 2.0]], [1j, 2.0]])
def test_scores_that_are_no_numbers(scores: list[object]) -> None:
    with pytest.raises(InvalidInput):
        counts_at(scores, [True, False], 0.0)  # type: ignore[arg-type]
    assert math.isfinite(upper_rate(1, 2, 0.5))
