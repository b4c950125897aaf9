"""Directions and singular values of a release, against a decomposition of the matrix itself."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.accountant.arrays import FloatArray
from privplan.accountant.errors import InvalidInput
from privplan.fl.fedpower.directions import directions, singular_values
from privplan.fl.fedpower.settings import FedPowerSettings

from ...cases import for_each

TABLE = FedPowerSettings(rank=3, row_norm=2.5)
ROWS = np.random.default_rng(7).normal(size=(40, 6))


def gram(rows: FloatArray) -> FloatArray:
    """Return what one release would be without noise: the upper triangle of A^T A / R^2."""
    matrix: FloatArray = rows.T @ rows / TABLE.row_norm**2
    return matrix[np.triu_indices(rows.shape[1])]


def test_a_gram_release_without_noise_gives_the_singular_value_decomposition() -> None:
    _, values, vectors = np.linalg.svd(ROWS)
    assert singular_values(TABLE, gram(ROWS), 6) == pytest.approx(values[:3])
    found = directions(TABLE, "one-shot", gram(ROWS), 6)
    assert np.abs(np.sum(found * vectors[:3].T, axis=0)) == pytest.approx(np.ones(3))


def test_eigenvalues_that_noise_made_negative_are_no_singular_values() -> None:
    assert singular_values(TABLE, -gram(ROWS), 6).tolist() == [0.0, 0.0, 0.0]


@for_each("released", [np.zeros(18), np.full(21, np.nan), np.zeros((6, 6))])
def test_what_is_no_gram_release_is_refused(released: FloatArray) -> None:
    with pytest.raises(InvalidInput, match="must be 21 finite numbers"):
        singular_values(TABLE, released, 6)
