"""The generated data set: always the same rows, near a subspace, and nobody's."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.datasets import load
from privplan.fl.datasets.low_rank import low_rank_rows
from privplan.fl.datasets.registry import SHAPES

from ...cases import for_each


def recipe(rows: int, columns: int, rank: int, noise: float, seed: int) -> np.ndarray:
    """Generate the rows one direction at a time: an oracle for their distribution and scale."""
    rng = np.random.default_rng(seed)
    directions = np.linalg.qr(rng.normal(size=(columns, rank)))[0]
    weights = rng.normal(size=(rows, rank))
    table = np.zeros((rows, columns))
    for index in range(rank):
        scale = 3.0 - 2.0 * index / (rank - 1)
        table += np.outer(scale * weights[:, index], directions[:, index])
    table += noise * rng.normal(size=(rows, columns))
    return table / np.median(np.sqrt((table**2).sum(axis=1)))


def test_the_rows_are_those_of_the_recipe() -> None:
    for sizes in ((1_000, 50, 5, 0.1, 1), (30, 8, 2, 0.5, 4)):
        assert low_rank_rows(*sizes) == pytest.approx(recipe(*sizes), abs=1e-12)


def test_it_needs_no_path_and_is_always_the_same() -> None:
    data = load("low-rank")
    assert data.features.shape == (1_000, 50)
    assert data.test_features.shape == (250, 50)
    assert SHAPES["low-rank"] == (50, data.classes)
    assert load("low-rank", rng=np.random.default_rng(9)).digest == data.digest
    assert set(data.labels.tolist()) == {0, 1}
    with pytest.raises(InvalidInput, match="takes no `path`"):
        load("low-rank", "somewhere")


def test_public_constants_leave_the_rows_as_they_are() -> None:
    raw, scaled = load("low-rank", normalisation="none"), load("low-rank")
    assert (raw.features == scaled.features).all()
    expected = low_rank_rows(1_250, 50, 5, 0.1, 1).astype(np.float32)
    assert (np.concatenate((raw.features, raw.test_features)) == expected).all()


def test_training_and_test_rows_lie_near_the_same_directions() -> None:
    data = load("low-rank")
    leading = np.linalg.svd(data.features, full_matrices=False)[2][:5].T
    held = np.linalg.norm(data.test_features @ leading) ** 2
    assert held > 0.95 * np.linalg.norm(data.test_features) ** 2


@for_each("sizes", [(0, 5, 2, 0.1, 1), (5, 0, 2, 0.1, 1), (5, 4, 5, 0.1, 1), (5, 4, 2, -0.1, 1)])
def test_sizes_out_of_range_are_refused(sizes: tuple) -> None:
    with pytest.raises(InvalidInput):
        low_rank_rows(*sizes)
