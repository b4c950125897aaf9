"""The ridge that is chosen from released values: the split of their noise, and the choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import privplan as pp
from privplan.fl.statistics.noise_split import MULTIPLES, SPLITS, best, correlation, split
from privplan.fl.statistics.ridge import Regression, ridge_weights

from ...cases import for_each
from ...chance import limits
from .small import classified, exact, statistics


@for_each("noise", ["gaussian", "laplace"])
def test_halves_add_up_to_what_was_released(noise: str) -> None:
    features, labels = classified()
    released = statistics(noise=noise).release(features, labels).released
    pairs = split(released)
    assert len(pairs) == SPLITS
    for first, second in pairs:
        assert np.allclose((first.gram + second.gram) / 2, released.gram)
        assert np.allclose((first.labels + second.labels) / 2, released.labels)
        assert np.array_equal(first.gram, first.gram.T)
        assert first.noise_norm() == pytest.approx(2**0.5 * released.noise_norm())
    again = split(released)
    assert np.array_equal(again[0][0].gram, pairs[0][0].gram)


@for_each("weight", [1.0, 2.5])
def test_what_is_added_has_the_deviations_of_the_noise(weight: float) -> None:
    """Of 8 splits, as normal numbers: diagonal, above it, and labels; 1e-6 in all."""
    released = exact(np.zeros((1, 40)), np.zeros(1, int), std=3.0, label_weight=weight)
    drawn: dict[str, list[np.ndarray]] = {"diagonal": [], "above": [], "labels": []}
    for first, _ in split(released):
        added = first.gram - released.gram
        drawn["diagonal"].append(np.diag(added) / 3.0)
        drawn["above"].append(added[np.triu_indices(41, 1)] / 3.0 * 2**0.5)
        drawn["labels"].append((first.labels - released.labels).ravel() / 3.0 * weight)
    for parts in drawn.values():
        squares, count = float((np.array(parts) ** 2).sum()), np.size(parts)
        low, high = limits(stats.chi2(count), looks=6)
        assert low < squares < high


def test_the_mark_is_the_correlation_of_scores_and_labels() -> None:
    features, labels = classified()
    released = exact(features, labels)
    rows, coded = released.rows(features), np.eye(3)[labels] - 1 / 3
    weights = ridge_weights(released, ridge=1.0)
    scores = rows @ weights
    mark = correlation(weights, released, released.labels)
    assert mark == pytest.approx((scores * coded).sum() / np.sqrt((scores**2).sum()))
    assert correlation(7.0 * weights, released, released.labels) == pytest.approx(mark)
    assert correlation(-weights, released, released.labels) == 0.0
    assert correlation(0.0 * weights, released, released.labels) == 0.0


def test_only_what_is_clearly_better_is_chosen() -> None:
    marks = np.zeros((SPLITS, len(MULTIPLES)))
    assert best(marks) == 1.0
    rng = np.random.default_rng(1)
    noisy = marks + rng.normal(size=marks.shape)
    assert best(noisy - noisy.mean(axis=0)) == 1.0
    for index, multiple in enumerate(MULTIPLES):
        better = 0.01 * rng.normal(size=marks.shape)
        better[:, index] += 1.0
        assert best(better) == multiple


def test_a_choice_is_one_of_the_multiples_for_any_fit() -> None:
    features, labels = classified()
    released = statistics(by_class=True).release(features, labels).released
    kinds: tuple[dict[str, Any], ...] = (
        {},
        {"components": 2},
        {"class_weight": "balanced"},
        {"coding": np.array([[1.0], [2.0], [3.0]])},
    )
    for kind in kinds:
        multiple = Regression(**kind).best_multiple(released)
        assert multiple in MULTIPLES
        chosen = ridge_weights(released, ridge="auto", **kind)
        assert np.array_equal(chosen, ridge_weights(released, ridge=multiple, **kind))


def test_on_data_of_a_steep_spectrum_a_lower_ridge_is_chosen_and_does_better() -> None:
    """Means over 12 data sets whose small directions tell classes apart, by three errors."""
    gains, chosen = [], []
    scales = 1.0 / np.arange(1, 101)
    for seed in range(12):
        rng = np.random.default_rng([5, seed])
        labels = rng.integers(0, 5, 4000)
        centres = rng.normal(size=(5, 100)) * scales
        rows = centres[labels] + rng.normal(size=(4000, 100)) * scales
        made = pp.PrivateStatistics(row_norm=2.0, classes=5, epsilon=8.0, seed=seed)
        made.release(rows[:2000], labels[:2000])
        usual, auto = (
            pp.PrivateLogistic(made, ridge=ridge).fit().score(rows[2000:], labels[2000:])
            for ridge in (1.0, "auto")
        )
        gains.append(auto - usual)
        chosen.append(Regression().best_multiple(made.released))
    assert np.mean(chosen) < 0.6
    assert np.mean(gains) > 3 * np.std(gains, ddof=1) / np.sqrt(12) > 0.0
