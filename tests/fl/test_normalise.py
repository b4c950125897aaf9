"""Normalisation: contributions stay within their bound, and give the users' moments."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.datasets import normalise


def test_every_contribution_stays_within_the_stated_bound() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(0, 50, (300, 5)).astype(np.float32)
    features[:100] = rng.choice([-1e30, 1e30], (100, 5))  # far outside the range
    user = rng.integers(0, 40, 300)
    made = normalise.bounded_moments_contributions(
        features, user, users=42, lower=-3.0, upper=[1.0, 2.0, 3.0, 4.0, 5.0]
    )
    assert made.rows.shape == (42, 10)
    assert made.bound == pytest.approx(np.sqrt(1.25 * 5))
    assert np.linalg.norm(made.rows, axis=1).max() <= made.bound
    assert not made.rows[40:].any()
    extreme = normalise.bounded_moments_contributions(
        np.full((7, 5), 1e9, np.float32), np.zeros(7, np.int64), users=1, lower=-1.0, upper=1.0
    )
    assert np.linalg.norm(extreme.rows) == pytest.approx(extreme.bound)  # the bound is attained


def test_contributions_move_with_their_own_user_only() -> None:
    rng = np.random.default_rng(1)
    features, user = rng.random((60, 3)).astype(np.float32), rng.integers(0, 6, 60)
    both = [
        normalise.bounded_moments_contributions(
            features[kept], user[kept], users=6, lower=0.0, upper=1.0
        ).rows
        for kept in (user >= 0, user != 2)
    ]
    assert (np.delete(both[0], 2, axis=0) == np.delete(both[1], 2, axis=0)).all()
    assert not both[1][2].any()


def test_moments_without_noise_are_those_of_the_users() -> None:
    rng = np.random.default_rng(2)
    features = rng.normal([3.0, -1.0], [0.5, 2.0], (4000, 2)).astype(np.float32)
    lower, upper = np.array([0.0, -11.0]), np.array([6.0, 9.0])
    made = normalise.bounded_moments_contributions(
        features, np.arange(4000) % 100, users=100, lower=lower, upper=upper
    )
    mean, scale = normalise.moments_from_sum(
        made.rows.sum(axis=0), users=100, lower=lower, upper=upper
    )
    clipped = normalise.clip(features, lower, upper).astype(np.float64)
    assert mean == pytest.approx(clipped.mean(axis=0), abs=1e-6)
    assert scale == pytest.approx(clipped.std(axis=0), abs=1e-5)
    normal = normalise.apply(features, mean, scale)
    assert normal.dtype == np.float32
    assert normal.std(axis=0) == pytest.approx([1.0, 1.0], abs=1e-3)


def test_noise_never_makes_a_scale_zero() -> None:
    mean, scale = normalise.moments_from_sum(
        [1e9, -1e9, -1e9, 1e9], users=10, lower=[0.0, 0.0], upper=[4.0, 4.0]
    )
    assert mean.tolist() == [4.0, 0.0]
    assert (scale >= 0.05 * 2.0).all()


def test_bad_constants_are_refused() -> None:
    features = np.zeros((4, 2), np.float32)
    with pytest.raises(InvalidInput, match="`lower` must be below"):
        normalise.clip(features, 1.0, 1.0)
    with pytest.raises(InvalidInput, match="`scale` must be above 0"):
        normalise.apply(features, 0.0, [1.0, 0.0])
    with pytest.raises(InvalidInput, match="`mean` must be finite and fit"):
        normalise.apply(features, [0.0, 0.0, 0.0], 1.0)
    with pytest.raises(InvalidInput, match="`upper` must be finite"):
        normalise.clip(features, 0.0, np.nan)
    with pytest.raises(InvalidInput, match="two finite numbers per feature"):
        normalise.moments_from_sum([1.0, 2.0, 3.0], users=2, lower=0.0, upper=1.0)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_before_it_is_bounded(wrong: float) -> None:
    features = np.zeros((3, 2))
    features[1, 1] = wrong
    with pytest.raises(InvalidInput, match="row 1, column 1"):
        normalise.bounded_moments_contributions(
            features, np.zeros(3, np.int64), users=1, lower=0.0, upper=1.0
        )


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 5e-324), (-1.7e308, 1.7e308)])
def test_a_range_that_no_float_can_divide_by_is_refused(lower: float, upper: float) -> None:
    with pytest.raises(InvalidInput, match="`lower` must be below"):
        normalise.bounded_moments_contributions(
            np.zeros((3, 2), np.float32), np.zeros(3, np.int64), users=1, lower=lower, upper=upper
        )
