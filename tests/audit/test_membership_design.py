"""Who is in which model, and who trains them."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from scipy import stats

from privplan.accountant.errors import InvalidInput
from privplan.audit.shadows import Design, JoblibExecutor, SerialExecutor, design

from ..cases import for_each
from ..chance import limits

RNG = np.random.default_rng


def test_every_unit_is_in_half_of_the_shadows():
    plan = design(50, models=20, targets=6, rng=RNG(0))
    assert plan.shadows.shape == (14, 50)
    assert (plan.shadows.sum(0) == 7).all()
    assert (plan.shadows[::2] != plan.shadows[1::2]).all()
    assert plan.targets.shape == (6, 50)
    assert len(plan.inside) == 20


def test_the_coins_of_targets_are_fair_and_tell_nothing_of_those_of_shadows():
    """40 sums of 4,000 fair coins: one is beyond the limit once in 10^6."""
    plan = design(4000, models=12, targets=4, rng=RNG(1))
    _, most = limits(stats.norm(), looks=40)
    signs = 2.0 * plan.inside - 1.0
    between = signs[: len(plan.shadows)] @ signs[len(plan.shadows) :].T / 4000
    assert np.abs(between).max() < most / np.sqrt(4000)
    assert np.abs(signs[len(plan.shadows) :].mean(1)).max() < most / np.sqrt(4000)


def test_all_records_of_a_user_share_its_coin():
    user = np.array([0, 2, 1, 0, 2])
    plan = design(3, models=6, targets=2, rng=RNG(2))
    records = plan.inside_records(user)
    assert records.shape == (6, 5)
    assert (records == plan.inside[:, user]).all()
    assert (records[:, 0] == records[:, 3]).all()


@for_each(("models", "targets"), [(5, 2), (7, 2), (4, 4), (3, 4), (8, 0), (0, 1), (8, 1.5)])
def test_too_few_or_odd_shadows_are_refused(models, targets):
    with pytest.raises(InvalidInput):
        design(10, models=models, targets=targets, rng=RNG(0))


def test_shadows_that_are_no_opposite_pairs_are_refused():
    half = RNG(0).random((4, 10)) < 0.5
    with pytest.raises(InvalidInput, match="pairs"):
        Design(half, half[:1])
    with pytest.raises(InvalidInput, match="same units"):
        Design(np.stack([half[0], ~half[0]]), half[:, :5])


@for_each("executor", [SerialExecutor(), JoblibExecutor(2)])
def test_executors_answer_in_the_order_of_the_jobs(executor):
    assert executor.map(operator.neg, list(range(20))) == [-job for job in range(20)]


@for_each("executor", [SerialExecutor(), JoblibExecutor(2)])
def test_executors_raise_what_a_job_raises(executor):
    with pytest.raises(ZeroDivisionError):
        executor.map((1).__truediv__, [1, 0, 2])


def test_no_processes_are_refused():
    with pytest.raises(InvalidInput, match="processes"):
        JoblibExecutor(0)
