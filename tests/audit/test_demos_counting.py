"""Lower bounds from counts: their error rate, summed exactly over all counts that can be seen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from privplan.accountant.errors import InvalidInput
from privplan.audit.demos.counting import delta_lower, delta_lower_known, epsilon_lower_known
from privplan.audit.statistics import Counts

from ..cases import for_each

RUNS = 60


def counts(hits: int, false_alarms: int, runs: int = RUNS) -> Counts:
    return Counts(false_alarms=false_alarms, negatives=runs, misses=runs - hits, positives=runs)


@for_each("epsilon", [0.0, 0.5, 2.0])
@for_each(("likely", "rare"), [(0.5, 0.1), (0.9, 0.05), (0.3, 0.29), (0.6, 0.0)])
def test_delta_is_overstated_in_at_most_alpha_of_all_cases(
    likely: float, rare: float, epsilon: float
) -> None:
    truth = max(likely - math.exp(epsilon) * rare, 0.0)
    hits = binom.pmf(np.arange(RUNS + 1), RUNS, likely)
    alarms = binom.pmf(np.arange(RUNS + 1), RUNS, rare)
    wrong = sum(
        hits[k] * alarms[j]
        for k in range(RUNS + 1)
        for j in range(RUNS + 1)
        if hits[k] * alarms[j] > 1e-12
        and delta_lower(counts(k, j), epsilon=epsilon, alpha=0.05) > truth
    )
    assert wrong <= 0.05


@for_each("likely", [0.02, 0.3, 0.9, 1.0])
def test_with_known_false_alarms_the_same(likely: float) -> None:
    rare, delta = 1e-6, 1e-3
    pmf = binom.pmf(np.arange(RUNS + 1), RUNS, likely)
    for bound, truth in (
        (
            lambda seen: epsilon_lower_known(
                seen, delta=delta, log_false_alarm=math.log(rare), alpha=0.05
            ),
            math.log((likely - delta) / rare),
        ),
        (
            lambda seen: delta_lower_known(
                seen, epsilon=3.0, log_false_alarm=math.log(rare), alpha=0.05
            ),
            likely - math.exp(3.0) * rare,
        ),
    ):
        wrong = sum(pmf[k] for k in range(RUNS + 1) if bound(counts(k, 0)) > truth + 1e-12)
        assert wrong <= 0.05


def test_more_runs_show_nearly_all() -> None:
    many = 10**6
    seen = counts(450_000, 0, many)
    assert delta_lower(seen, epsilon=1.0) == pytest.approx(0.45, abs=2e-3)
    assert delta_lower_known(seen, epsilon=700.0, log_false_alarm=-math.inf) > 0.449
    tail = -1000.0  # below what a float holds
    assert epsilon_lower_known(seen, delta=0.0, log_false_alarm=tail) == pytest.approx(
        1000.0 + math.log(0.45), abs=1e-2
    )


def test_an_event_that_cannot_happen_leaves_no_epsilon() -> None:
    assert epsilon_lower_known(counts(30, 0), delta=1e-5, log_false_alarm=-math.inf) == math.inf


@for_each("log_q", [-math.inf, -100.0, math.log(1e-6)])
def test_false_alarms_that_cannot_be_leave_no_bound(log_q: float) -> None:
    """What is said to be known of q is refuted by the counts: no number, least of all infinite."""
    for bound in (
        lambda: epsilon_lower_known(counts(30, 3), delta=1e-5, log_false_alarm=log_q),
        lambda: delta_lower_known(counts(30, 3), epsilon=1.0, log_false_alarm=log_q),
    ):
        with pytest.raises(InvalidInput, match="3 false alarms in 60"):
            bound()


def test_false_alarms_that_are_due_are_no_fault() -> None:
    seen = counts(30, 6)
    shown = epsilon_lower_known(seen, delta=0.0, log_false_alarm=math.log(0.1))
    assert shown == epsilon_lower_known(counts(30, 0), delta=0.0, log_false_alarm=math.log(0.1))
    assert epsilon_lower_known(counts(30, RUNS), delta=0.0, log_false_alarm=0.0) == 0.0


def test_nothing_seen_shows_nothing() -> None:
    assert delta_lower(counts(0, 0), epsilon=0.0) == 0.0
    assert delta_lower(counts(RUNS, 0), epsilon=1e6) == 0.0  # e^1e6 is not computed
    assert epsilon_lower_known(counts(0, 0), delta=0.0, log_false_alarm=-math.inf) == 0.0
    assert epsilon_lower_known(counts(1, 0), delta=0.5, log_false_alarm=-1.0) == 0.0


@for_each("bad", [0.1, math.nan, math.inf])
def test_a_probability_has_no_positive_logarithm(bad: float) -> None:
    with pytest.raises(InvalidInput, match="log_false_alarm"):
        delta_lower_known(counts(1, 0), epsilon=0.0, log_false_alarm=bad)
    with pytest.raises(InvalidInput, match="log_false_alarm"):
        epsilon_lower_known(counts(1, 0), delta=0.0, log_false_alarm=bad)
