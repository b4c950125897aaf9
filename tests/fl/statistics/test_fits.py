"""Fits from statistics without noise are the plain fits: ridge, codings, weights, degree 2, PCA."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.fl.statistics.components import principal_components, projection
from privplan.fl.statistics.ridge import logistic_weights, probabilities, ridge_weights
from privplan.fl.statistics.statistics import ReleasedStatistics

from ...cases import for_each
from .small import classified, exact

FEATURES, LABELS = classified()
FEATURES /= np.linalg.norm(FEATURES, axis=1).max()
ONE_HOT = np.eye(3)[LABELS]


def released(**shape: object) -> ReleasedStatistics:
    return exact(FEATURES, LABELS, std=0.01, **shape)


ROWS = released().rows(FEATURES)
FLOOR = released().noise_norm()


def plain(rows: np.ndarray, labels: np.ndarray, floor: float) -> np.ndarray:
    return np.linalg.solve(rows.T @ rows + floor * np.eye(rows.shape[1]), rows.T @ labels)


@for_each("ridge", [0.0, 1.0, 2.5])
def test_ridge_regression(ridge: float) -> None:
    weights = ridge_weights(released(), ridge=ridge)
    assert np.allclose(weights, plain(ROWS, ONE_HOT - 1 / 3, ridge * FLOOR))


def test_any_coding_of_the_classes_costs_no_other_release() -> None:
    coding = np.array([[1.0, -3.0], [0.0, 5.0], [7.0, 0.5]])
    weights = ridge_weights(released(), ridge=1.0, coding=coding)
    assert np.allclose(weights, plain(ROWS, ONE_HOT @ coding, FLOOR))


def test_a_coding_that_sums_to_zero_needs_no_intercept() -> None:
    bare = released(intercept=0.0)
    coding = np.array([[1.0], [-1.0], [0.0]])
    weights = ridge_weights(bare, ridge=1.0, coding=coding)
    assert np.allclose(weights, plain(bare.rows(FEATURES), ONE_HOT @ coding, bare.noise_norm()))
    with pytest.raises(Unsupported, match="Without an intercept"):
        ridge_weights(bare, ridge=1.0, coding=np.ones((3, 1)))


@for_each("coding", [np.ones((2, 1)), np.ones(3), np.full((3, 1), np.nan)])
def test_other_codings_are_refused(coding: np.ndarray) -> None:
    with pytest.raises(InvalidInput, match="`coding`"):
        ridge_weights(released(), ridge=1.0, coding=coding)


def test_class_weights_are_those_of_weighted_rows() -> None:
    apart = released(by_class=True)
    weights = {0: 2.0, 1: 0.5, 2: 3.0}
    root = np.sqrt([weights[label] for label in LABELS])[:, None]
    fitted = ridge_weights(apart, ridge=1.0, class_weight=weights)
    assert np.allclose(fitted, plain(ROWS * root, (ONE_HOT - 1 / 3) * root, apart.noise_norm()))
    even = ridge_weights(apart, ridge=1.0, class_weight={})
    assert np.allclose(even, ridge_weights(apart, ridge=1.0))


def test_balanced_weights_come_from_released_counts() -> None:
    apart = released(by_class=True)
    counts = np.bincount(LABELS)
    by_hand = dict(enumerate(len(LABELS) / (3 * counts)))
    balanced = ridge_weights(apart, ridge=1.0, class_weight="balanced")
    assert np.allclose(balanced, ridge_weights(apart, ridge=1.0, class_weight=by_hand))


def test_class_weights_are_decided_at_the_release() -> None:
    with pytest.raises(Unsupported, match="Gram matrix for each class"):
        ridge_weights(released(), ridge=1.0, class_weight="balanced")
    for wrong in ({3: 1.0}, {0: -1.0}, {0: float("nan")}):
        with pytest.raises(InvalidInput, match="class_weight"):
            ridge_weights(released(by_class=True), ridge=1.0, class_weight=wrong)


def test_numbers_are_regressed_on() -> None:
    numbers = np.tanh(FEATURES @ [1.0, -2.0, 0.5, 3.0])
    statistics = exact(FEATURES, numbers, classes=1, std=0.01)
    fitted = ridge_weights(statistics, ridge=1.0)
    assert np.allclose(fitted, plain(ROWS, numbers[:, None], statistics.noise_norm()))


def test_statistics_without_labels_have_no_regression() -> None:
    with pytest.raises(Unsupported, match="no labels"):
        ridge_weights(_unlabelled())


def _unlabelled() -> ReleasedStatistics:
    import privplan as pp

    statistics = pp.PrivateStatistics(row_norm=1.0, epsilon=1.0, seed=1)
    return statistics.release(FEATURES).released


def test_degree_two_is_the_least_point_of_the_polynomial() -> None:
    """The second-degree Taylor polynomial of the softmax loss at 0, plus the ridge over 2 c."""
    weights = logistic_weights(released(), ridge=1.0)

    def loss(candidate: np.ndarray) -> float:
        scores = ROWS @ candidate
        linear = -(scores * (ONE_HOT - 1 / 3)).sum()
        square = (scores**2).sum() / 6 - (scores.sum(axis=1) ** 2).sum() / 18
        return float(linear + square + FLOOR / 6 * (candidate**2).sum())

    # It is that of the loss itself: its third difference at 0 vanishes in the limit.
    small = 1e-3 * weights
    scores = ROWS @ small
    true = (np.log(np.exp(scores).sum(axis=1)) - (scores * ONE_HOT).sum(axis=1)).sum()
    polynomial = loss(small) - FLOOR / 6 * (small**2).sum() + len(ROWS) * np.log(3)
    assert true == pytest.approx(polynomial, abs=1e-6)
    rng = np.random.default_rng(4)
    least = loss(weights)
    for scale in (1e-3, 1e-1, 1.0):
        for _ in range(20):
            assert loss(weights + scale * rng.normal(size=weights.shape)) > least


def test_logistic_and_ridge_regression_decide_alike() -> None:
    scores = ROWS @ logistic_weights(released(), ridge=1.0)
    plainly = ROWS @ ridge_weights(released(), ridge=1.0)
    assert np.array_equal(scores.argmax(axis=1), plainly.argmax(axis=1))
    chances = probabilities(scores)
    assert np.allclose(chances.sum(axis=1), 1.0)
    assert np.array_equal(chances.argmax(axis=1), scores.argmax(axis=1))
    assert np.isfinite(probabilities(scores * 1e6)).all()


def test_numbers_are_no_classes() -> None:
    with pytest.raises(Unsupported, match="needs classes"):
        logistic_weights(exact(FEATURES, FEATURES[:, 0], classes=1), ridge=1.0)


def test_components_are_singular_vectors_of_the_features() -> None:
    whole = principal_components(released())
    _, singular, vectors = np.linalg.svd(FEATURES, full_matrices=False)
    assert np.allclose(whole.squares, singular**2)
    assert np.allclose(np.abs((whole.directions * vectors).sum(axis=1)), 1.0)
    assert whole.ratio.sum() == pytest.approx(1.0)
    two = principal_components(released(), 2)
    assert np.array_equal(two.directions, whole.directions[:2])
    assert np.allclose(two.ratio, whole.ratio[:2])
    with pytest.raises(InvalidInput, match="at most 4"):
        principal_components(released(), 5)


def test_a_fit_inside_components_is_that_of_projected_rows() -> None:
    basis = projection(released(), 2)
    inside = ROWS @ basis
    floor = released().noise_norm(3)
    assert np.allclose(basis.T @ basis, np.eye(3))
    fitted = ridge_weights(released(), ridge=1.0, components=2)
    assert np.allclose(fitted, basis @ plain(inside, ONE_HOT - 1 / 3, floor))
    all_of_them = ridge_weights(released(), ridge=0.0, components=4)
    assert np.allclose(all_of_them, ridge_weights(released(), ridge=0.0))


@for_each("ridge", [-1.0, float("nan"), float("inf"), "much", None])
def test_other_ridges_are_refused(ridge: object) -> None:
    with pytest.raises(InvalidInput, match="`ridge`"):
        ridge_weights(released(), ridge=ridge)  # type: ignore[arg-type]
