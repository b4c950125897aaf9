"""Normalisation: contributions stay within their bound, and give the users' moments."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.data import normalise

from ..cases import for_each


def test_every_contribution_stays_within_the_stated_bound() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(0, 50, (300, 5)).astype(np.float32)
    features[:100] = rng.choice([-1e30, 1e30], (100, 5))  # far outside the range
    user = rng.integers(0, 40, 300)
    made = normalise.bounded_moments_contributions(
        features, user, users=42, lower=-3.0, upper=[1.0, 2.0, 3.0, 4.0, 5.0]
    )
    assert made.rows.shape == (42, 10)
    assert made.bound == pytest.approx(np.sqrt(5))
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


def test_no_records_whatever_make_a_row_longer_than_its_bound() -> None:
    """Searched at random, from records at the ends, in the middle and between."""
    rng = np.random.default_rng(3)
    longest = 0.0
    for width, spread, counted in (
        (1, 1.0, False),
        (1, 3.0, True),
        (4, 0.3, True),
        (4, 9.0, False),
    ):
        features = rng.normal(0, spread, (4000, width)).astype(np.float32)
        user = rng.integers(0, 2000, 4000)
        made = normalise.bounded_moments_contributions(
            features, user, users=2000, lower=-1.0, upper=1.0, counted=counted
        )
        assert made.rows.shape == (2000, 2 * width + counted)
        assert made.bound == normalise.contribution_bound(width, counted=counted)
        assert made.bound == pytest.approx(np.sqrt(width + counted))
        found = np.linalg.norm(made.rows, axis=1).max()
        assert found <= made.bound * (1.0 + 1e-14)
        longest = max(longest, found / made.bound)
    assert longest > 0.999


def test_rows_that_are_counted_give_moments_whatever_they_weigh() -> None:
    rng = np.random.default_rng(4)
    features = rng.normal([2.0, -3.0], [0.5, 1.0], (3000, 2)).astype(np.float32)
    made = normalise.bounded_moments_contributions(
        features, np.arange(3000) % 60, users=80, lower=-8.0, upper=8.0, counted=True
    )
    assert made.rows[:60, -1].tolist() == [1.0] * 60
    assert not made.rows[60:].any()
    total = 0.25 * made.rows.sum(axis=0)
    mean, scale = normalise.moments_from_sum(
        total, users=80, lower=[-8.0, -8.0], upper=8.0, fewest=10.0
    )
    assert mean == pytest.approx(features.mean(axis=0), abs=1e-5)
    assert scale == pytest.approx(features.std(axis=0), abs=1e-4)


def test_a_weight_that_cannot_be_is_cut_to_what_can() -> None:
    for shown, taken in ((-3.0, 2.0), (1.0, 2.0), (5.0, 5.0), (99.0, 10.0)):
        mean, _ = normalise.moments_from_sum(
            [1.0, 0.0, shown], users=10, lower=-1.0, upper=1.0, fewest=2.0
        )
        assert mean.tolist() == [1.0 / taken]


def test_a_scale_is_not_below_what_is_unknown_of_its_mean_and_never_zero() -> None:
    small = [0.0, -10.0]  # no spread at all
    for deviation, scale in ((0.0, 0.05), (1.0, 0.1), (7.0, 0.7), (1e9, 1.0)):
        found = normalise.moments_from_sum(
            small, users=10, lower=-2.0, upper=2.0, deviation=deviation
        )
        assert found[1].tolist() == pytest.approx([2.0 * scale])
    with pytest.raises(InvalidInput, match="deviation"):
        normalise.moments_from_sum(small, users=10, lower=-2.0, upper=2.0, deviation=-1.0)
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
    with pytest.raises(InvalidInput, match=r"two finite numbers per feature\.") as caught:
        normalise.moments_from_sum([1.0, 2.0, 3.0], users=2, lower=0.0, upper=1.0)
    assert "weights" not in str(caught.value)
    with pytest.raises(InvalidInput, match="and the sum of all weights"):
        normalise.moments_from_sum([1.0, 2.0], users=2, lower=0.0, upper=1.0, fewest=1.0)


@for_each("wrong", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_before_it_is_bounded(wrong: float) -> None:
    features = np.zeros((3, 2))
    features[1, 1] = wrong
    with pytest.raises(InvalidInput, match="row 1, column 1"):
        normalise.bounded_moments_contributions(
            features, np.zeros(3, np.int64), users=1, lower=0.0, upper=1.0
        )


@for_each(("lower", "upper"), [(0.0, 5e-324), (-1.7e308, 1.7e308)])
def test_a_range_that_no_float_can_divide_by_is_refused(lower: float, upper: float) -> None:
    with pytest.raises(InvalidInput, match="`lower` must be below"):
        normalise.bounded_moments_contributions(
            np.zeros((3, 2), np.float32), np.zeros(3, np.int64), users=1, lower=lower, upper=upper
        )
