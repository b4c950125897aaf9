"""ROC and area.  Assertions on rates fail by chance with p < 1e-6."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binom

from privplan.accountant.errors import InvalidInput
from privplan.audit.statistics import roc

from ..cases import for_each

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


@for_each(("shift", "members", "strangers"), [(0.0, 30, 30), (1.0, 40, 200), (2.5, 25, 25)])
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


def test_equal_scores_count_half() -> None:
    found = roc(np.ones(110), np.arange(110) < 10)
    assert found.auc == 0.5


def test_curves_for_plots_keep_their_ends() -> None:
    rng = np.random.default_rng(75)
    found = roc(rng.random(5000), rng.random(5000) < 0.5)
    curve = found.curve(100)
    assert len(curve) <= 102
    assert curve[-1] == (1.0, 1.0)
    assert all(a <= b for (a, _), (b, _) in itertools.pairwise(curve))
    assert roc([1.0, 2.0], [True, False]).curve() == ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0))


@for_each(
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
