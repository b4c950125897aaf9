"""ROC, area, and hits at few false alarms.  Assertions on rates fail by chance with p < 1e-6."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from privplan.accountant.errors import InvalidInput
from privplan.audit.statistics import lower_rate, roc, upper_rate

SURE = 1.0 - 1e-6

scored = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30).filter(
    lambda rows: len({member for _, member in rows}) == 2
)


@given(scored)
def test_against_enumeration(rows: list[tuple[int, bool]]) -> None:
    inside = [score for score, member in rows if member]
    outside = [score for score, member in rows if not member]
    found = roc([float(score) for score, _ in rows], [member for _, member in rows])
    pairs = [(a > b) + 0.5 * (a == b) for a in inside for b in outside]
    assert found.auc == pytest.approx(sum(pairs) / len(pairs))
    assert (found.members, found.strangers) == (len(inside), len(outside))
    for cut, alarms, hits in zip(found.thresholds, found.false_alarms, found.hits, strict=True):
        assert alarms == pytest.approx(sum(b > cut for b in outside) / len(outside))
        assert hits == pytest.approx(sum(a > cut for a in inside) / len(inside))
    assert (found.false_alarms[0], found.hits[0]) == (0.0, 0.0)
    assert (found.false_alarms[-1], found.hits[-1]) == (1.0, 1.0)
    trapezoids = np.diff(found.false_alarms) * 0.5 * (found.hits[1:] + found.hits[:-1])
    assert trapezoids.sum() == pytest.approx(found.auc)
    low, high = found.auc_interval()
    assert 0.0 <= low <= found.auc <= high <= 1.0


def test_the_standard_error_by_hand() -> None:
    # DeLong, by its definition with all pairs.
    rng = np.random.default_rng(71)
    inside, outside = rng.normal(1.0, 1.0, 30), rng.normal(0.0, 1.0, 20)
    found = roc(np.concatenate((inside, outside)), np.arange(50) < 30)
    wins = (inside[:, None] > outside) + 0.5 * (inside[:, None] == outside)
    by_hand = wins.mean(axis=1).var(ddof=1) / 30 + wins.mean(axis=0).var(ddof=1) / 20
    assert found.standard_error == pytest.approx(math.sqrt(by_hand))
    assert math.isnan(roc([1.0, 2.0], [True, False]).standard_error)


@pytest.mark.parametrize(
    ("shift", "members", "strangers"), [(0.0, 30, 30), (1.0, 40, 200), (2.5, 25, 25)]
)
def test_the_interval_of_the_area_is_wrong_no_more_often_than_alpha(
    shift: float, members: int, strangers: int
) -> None:
    rng = np.random.default_rng(72)
    runs, alpha, truth = 500, 0.2, float(ndtr(shift / math.sqrt(2.0)))
    wrong = 0
    for _ in range(runs):
        scores = rng.standard_normal(members + strangers)
        member = np.arange(members + strangers) < members
        low, high = roc(scores + shift * member, member).auc_interval(alpha)
        wrong += not low <= truth <= high
    assert wrong <= binom.ppf(SURE, runs, alpha)


def test_scores_that_hang_together_within_a_side_do_not_fool_the_interval() -> None:
    # Two values only: the area is then as coarse as it can be.
    rng = np.random.default_rng(73)
    runs, alpha = 500, 0.2
    wrong = 0
    for _ in range(runs):
        member = np.arange(60) < 30
        scores = (rng.random(60) < np.where(member, 0.7, 0.4)).astype(float)
        low, high = roc(scores, member).auc_interval(alpha)
        wrong += not low <= 0.7 * 0.6 + 0.5 * (0.7 * 0.4 + 0.3 * 0.6) <= high
    assert wrong <= binom.ppf(SURE, runs, alpha)


def test_hits_at_a_false_alarm_rate_by_hand() -> None:
    outside = np.arange(100.0)
    inside = np.array([97.5, 98.5, 99.5, 50.0])
    scores, member = np.concatenate((outside, inside)), np.arange(104) >= 100
    found = roc(scores, member).tpr_at(0.01)
    assert (found.threshold, found.tpr) == (98.0, 0.5)  # one stranger, 99, above
    assert found.lower == lower_rate(2, 4, 0.05 / 3)
    assert found.upper == upper_rate(2, 4, 0.05 / 3)
    assert found.fpr_upper == upper_rate(1, 100, 0.05 / 3)
    assert roc(scores, member).tpr_at(0.02).threshold == 97.0


@pytest.mark.parametrize(("strangers", "fpr"), [(999, 0.001), (99, 0.01), (1, 0.5)])
def test_a_rate_that_the_strangers_do_not_support_is_refused(strangers: int, fpr: float) -> None:
    scores, member = np.arange(strangers + 2.0), np.arange(strangers + 2) < 2
    with pytest.raises(InvalidInput, match=f"at least {round(1 / fpr)} "):
        roc(scores, member).tpr_at(fpr)
    roc(np.append(scores, 0.5), np.append(member, False)).tpr_at(fpr)


def test_hit_rates_are_wrong_no_more_often_than_alpha() -> None:
    rng = np.random.default_rng(74)
    runs, alpha, fpr = 800, 0.3, 0.05
    wrong, promised = 0, 0
    for _ in range(runs):
        member = np.arange(160) < 60
        scores = rng.standard_normal(160) + 1.5 * member
        found = roc(scores, member).tpr_at(fpr, alpha)
        hit, alarm = ndtr(1.5 - found.threshold), ndtr(-found.threshold)
        wrong += not (found.lower <= hit <= found.upper and alarm <= found.fpr_upper)
        # The control: that the hit rate seen is at least that of the best test at `fpr`.
        promised += found.tpr > ndtr(ndtri(fpr) + 1.5)
    assert wrong <= binom.ppf(SURE, runs, alpha)
    assert promised > binom.ppf(SURE, runs, alpha)


def test_ties_are_no_hits() -> None:
    found = roc(np.ones(110), np.arange(110) < 10)
    assert found.auc == 0.5
    assert found.tpr_at(0.1).tpr == 0.0


def test_curves_for_plots_keep_their_ends() -> None:
    rng = np.random.default_rng(75)
    found = roc(rng.random(5000), rng.random(5000) < 0.5)
    curve = found.curve(100)
    assert len(curve) <= 102
    assert curve[-1] == (1.0, 1.0)
    assert all(a <= b for (a, _), (b, _) in itertools.pairwise(curve))
    assert roc([1.0, 2.0], [True, False]).curve() == ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))


@pytest.mark.parametrize(
    ("scores", "members"),
    [
        ([1.0, math.nan], [True, False]),
        ([1.0], [True]),
        ([1.0, 2.0], [False, False]),
        ([1.0, 2.0], [True]),
    ],
)
def test_what_has_no_roc_is_refused(scores: list[float], members: list[bool]) -> None:
    with pytest.raises(InvalidInput):
        roc(scores, members)
