"""Metrics of subspaces: known values, and nothing that signs, order or rotation change."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from privplan.accountant.errors import InvalidInput
from privplan.fl.datasets.low_rank import low_rank_rows
from privplan.fl.fedpower import metrics
from privplan.fl.fedpower.measure import measured

from ...cases import for_each
from .matrices import rated, recorded

RNG = np.random.default_rng(11)


def basis(rows: int, columns: int) -> np.ndarray:
    return np.linalg.qr(RNG.normal(size=(rows, columns)))[0]


def turned(columns: np.ndarray, angle: float) -> np.ndarray:
    """Return the columns, of which the first is turned by an angle into a direction beside them."""
    rest = RNG.normal(size=columns.shape[0])
    rest -= columns @ (columns.T @ rest)
    rest -= columns @ (columns.T @ rest)
    rest /= np.linalg.norm(rest)
    found = columns.copy()
    found[:, 0] = math.cos(angle) * columns[:, 0] + math.sin(angle) * rest
    return found


@for_each("angle", [1e-12, 1e-6, 0.3, math.pi / 4, 1.5, math.pi / 2 - 1e-9])
def test_one_turned_direction_has_its_angle_and_its_distance(angle: float) -> None:
    exact = basis(30, 4)
    found = turned(exact, angle)
    assert metrics.largest_angle(found, exact) == pytest.approx(angle, rel=1e-3, abs=1e-15)
    distance = math.sqrt(2.0) * math.sin(angle)
    assert metrics.projector_distance(found, exact) == pytest.approx(distance, rel=1e-3)


def test_the_distance_is_that_of_the_projectors() -> None:
    for first, second in ((3, 3), (5, 2), (1, 6), (8, 8)):
        one, other = basis(8, first), basis(8, second)
        plain = np.linalg.norm(one @ one.T - other @ other.T)
        assert metrics.projector_distance(one, other) == pytest.approx(plain, abs=1e-12)


def test_the_largest_angle_is_that_of_scipy() -> None:
    linalg = pytest.importorskip("scipy.linalg")
    for first, second in ((3, 3), (5, 2), (2, 5), (1, 1)):
        one, other = basis(9, first), basis(9, second)
        expected = linalg.subspace_angles(one, other).max()
        assert metrics.largest_angle(one, other) == pytest.approx(expected, abs=1e-12)


def test_orthogonal_and_equal_subspaces() -> None:
    whole = np.eye(6)
    one, other = whole[:, :2], whole[:, 2:5]
    assert metrics.projector_distance(one, other) == pytest.approx(math.sqrt(5.0))
    assert metrics.largest_angle(one, other) == pytest.approx(math.pi / 2)
    assert metrics.projector_distance(one, one) == 0.0
    assert metrics.largest_angle(one, one) == 0.0
    assert metrics.largest_angle(whole[:, :4], one) == 0.0  # the smaller lies in the larger


def test_signs_order_and_rotation_change_nothing() -> None:
    exact, found, rows = basis(20, 4), basis(20, 4), RNG.normal(size=(50, 20))
    changes = (
        np.diag([1.0, -1.0, -1.0, 1.0]),
        np.eye(4)[:, [2, 0, 3, 1]],
        basis(4, 4),
    )
    for change in changes:
        other = found @ change
        for metric in (metrics.projector_distance, metrics.largest_angle):
            assert metric(other, exact) == pytest.approx(metric(found, exact), rel=1e-9)
            assert metric(exact, other) == pytest.approx(metric(exact, found), rel=1e-9)
        same = metrics.variance_share(found, rows, 4)
        assert metrics.variance_share(other, rows, 4) == pytest.approx(same, rel=1e-12)


def test_the_published_error_is_large_for_the_very_same_subspace() -> None:
    exact = basis(20, 4)
    assert metrics.frobenius_as_published(exact, exact) == 0.0
    assert metrics.frobenius_as_published(-exact, exact) == pytest.approx(4.0)  # 2 sqrt(4)
    one = exact @ np.diag([1.0, -1.0, 1.0, 1.0])
    assert metrics.frobenius_as_published(one, exact) == pytest.approx(2.0)
    assert metrics.projector_distance(one, exact) == pytest.approx(0.0, abs=1e-14)
    with pytest.raises(InvalidInput, match="one shape"):
        metrics.frobenius_as_published(exact, exact[:, :2])


@for_each("sparse", [False, True])
@for_each("shape", [(40, 12), (8, 12)])
def test_the_exact_directions_hold_all_and_others_their_part(
    shape: tuple[int, int], sparse: bool
) -> None:
    plain = RNG.normal(size=shape) * (RNG.random(shape) < 0.5)
    rows = csr_array(plain) if sparse else plain
    _, singular, right = np.linalg.svd(plain, full_matrices=False)
    assert metrics.variance_share(right[:3].T, rows, 3) == pytest.approx(1.0)
    part = singular[1] ** 2 / (singular[:3] ** 2).sum()
    assert metrics.variance_share(right[1:2].T, rows, 3) == pytest.approx(part)
    more = (singular[:5] ** 2).sum() / (singular[:3] ** 2).sum()  # r above k
    assert more > 1.0
    assert metrics.variance_share(right[:5].T, rows, 3) == pytest.approx(more)


@for_each("sparse", [False, True])
def test_wide_rows_are_decomposed_by_iterations(
    sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = RNG.normal(size=(30, 25))
    rows = csr_array(plain) if sparse else plain
    whole, squares = metrics.leading_directions(rows, 4)
    monkeypatch.setattr(metrics, "_MAX_GRAM_SIDE", 10)
    iterated, others = metrics.leading_directions(rows, 4)
    assert metrics.projector_distance(whole, iterated) < 1e-6
    assert others == pytest.approx(squares)


@for_each(
    "wrong",
    [
        2.0 * np.eye(4)[:, :2],
        np.ones((4, 2)),
        np.full((4, 2), np.nan),
        np.eye(4)[:2],
        np.eye(4)[0],
        np.empty((4, 0)),
    ],
    ids=["scaled", "parallel", "nan", "wide", "vector", "empty"],
)
def test_what_is_no_orthonormal_basis_is_refused(wrong: np.ndarray) -> None:
    good = np.eye(4)[:, :2]
    for metric in (metrics.projector_distance, metrics.largest_angle):
        for pair in ((wrong, good), (good, wrong)):
            with pytest.raises(InvalidInput):
                metric(*pair)
    with pytest.raises(InvalidInput):
        metrics.variance_share(wrong, np.eye(4), 2)


def test_what_cannot_be_compared_is_refused() -> None:
    good = np.eye(4)[:, :2]
    with pytest.raises(InvalidInput, match="3"):
        metrics.projector_distance(good, np.eye(3)[:, :2])
    with pytest.raises(InvalidInput, match="3 columns"):
        metrics.variance_share(good, np.eye(3), 2)
    with pytest.raises(InvalidInput, match="components"):
        metrics.variance_share(good, np.eye(4), 5)
    with pytest.raises(InvalidInput, match="all zeros"):
        metrics.variance_share(good, np.zeros((3, 4)), 2)


def test_directions_are_measured_on_test_rows() -> None:
    made = recorded(shape=(6,))
    right = np.linalg.svd(made.test_features.astype(np.float64))[2].T
    found = measured(right[:, :2], made)
    assert found["variance_share"] == pytest.approx(1.0)
    assert found["projector_distance"] == pytest.approx(0.0, abs=1e-6)
    assert found["largest_angle"] == pytest.approx(0.0, abs=1e-6)
    beside = measured(right[:, 4:], made)
    assert beside["projector_distance"] == pytest.approx(2.0)
    assert beside["largest_angle"] == pytest.approx(math.pi / 2)
    assert 0.0 < beside["variance_share"] < 1.0


def test_ratings_are_measured_on_the_rows_themselves() -> None:
    made = rated([(0, 0, 5.0), (1, 0, 4.0), (2, 1, 1.0)], users=3, silos=3, columns=3)
    found = measured(np.eye(3)[:, :1], made)
    assert found["variance_share"] == pytest.approx(1.0)
    other = measured(np.eye(3)[:, 1:2], made)
    assert other["variance_share"] == pytest.approx(1.0 / 41.0)


def test_the_generated_rows_have_their_rank() -> None:
    rows = low_rank_rows(400, 50, 5, 0.1, seed=1)
    exact, squares = metrics.leading_directions(rows, 6)
    assert squares[4] > 20.0 * squares[5]
    assert metrics.variance_share(exact[:, :5], rows, 5) == pytest.approx(1.0)


def test_examples_run() -> None:
    found = doctest.testmod(metrics)
    assert found.attempted > 0
    assert found.failed == 0
