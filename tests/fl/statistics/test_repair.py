"""Noisy matrices made positive: the floor, the noise's norm, and matrices that are singular."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.fl.statistics.ridge import solve

from ...cases import for_each
from .small import classified, exact, statistics


def repaired(matrix: np.ndarray, floor: float) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    assert values.min() < -1.0
    return (vectors * (np.maximum(values, 0.0) + floor)) @ vectors.T


def test_a_solution_is_that_of_the_repaired_matrix() -> None:
    rng = np.random.default_rng(2)
    noise, sums = rng.normal(size=(12, 12)), rng.normal(size=(12, 3))
    matrix = noise + noise.T
    for floor, solution in zip((0.5, 3.0), solve(matrix, sums, 0.5, 3.0), strict=True):
        assert np.allclose(solution, np.linalg.solve(repaired(matrix, floor), sums))


@for_each("rank", [0, 1, 3])
@for_each("floor", [0.0, 1e-300, 1.0])
def test_no_matrix_is_too_singular(rank: int, floor: float) -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(rank, 5))
    (solution,) = solve(rows.T @ rows, rng.normal(size=(5, 2)), floor)
    assert np.isfinite(solution).all()


def test_a_fit_of_noise_alone_is_no_error() -> None:
    """At this epsilon the matrix has negative eigenvalues, and the data leave no trace."""
    features, labels = classified(rows=3)
    released = statistics(epsilon=1e-3).release(features, labels).released
    assert np.linalg.eigvalsh(released.gram).min() < 0.0
    import privplan as pp

    model = pp.PrivateLogistic(pp.PrivateStatistics.from_released(released), ridge=0.0).fit()
    assert np.isfinite(model.predict_proba(features)).all()


@for_each("family", ["gaussian", "laplace"])
@for_each("silos", [1, 5])
def test_the_floor_is_the_spectral_norm_of_the_noise(family: str, silos: int) -> None:
    """Of a release of nothing; the largest eigenvalue is within 15 % of 2 sqrt(d) deviations."""
    empty = np.zeros((0, 120))
    released = (
        statistics(noise=family, silos=silos, intercept=0.0)
        .release(empty, np.zeros(0, int), silo=np.zeros(0, int))
        .released
    )
    largest = np.abs(np.linalg.eigvalsh(released.gram)).max()
    assert largest == pytest.approx(released.noise_norm(), rel=0.15)


def test_of_gaussian_noise_it_is_sigma_sqrt_2d() -> None:
    released = exact(*classified(), std=3.0)
    assert released.noise_norm() == pytest.approx(3.0 * np.sqrt(2 * 5))
