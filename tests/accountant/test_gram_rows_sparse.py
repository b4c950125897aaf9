"""Sparse rows of a Gram release stay sparse, and give the same integers as a table."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import gram_rows
from privplan.accountant.mechanisms.gram_row_grid import grid_rows
from privplan.accountant.mechanisms.gram_rows import gram_total
from privplan.accountant.sensitivity.gram import MAX_DIMENSION

from ..cases import for_each
from .gram_sums import mechanism

FORMATS = ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"]


def table(seed: int, rows: int, columns: int, density: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < density)
    return values * rng.uniform(0.1, 3.0, (rows, 1))


@for_each("kind", FORMATS)
@for_each("matrix", [False, True])
@for_each("intercept", [0.0, 0.2])
def test_every_format_gives_the_integers_of_the_table(
    kind: str, matrix: bool, intercept: float
) -> None:
    features = table(1, 60, 8, 0.3)
    features[3] = 0.0
    features[:, 5] = 0.0
    labels = np.arange(60) % 3
    given = sparse.csr_matrix(features) if matrix else sparse.csr_array(features)
    dimension = 8 + bool(intercept)
    for classes, by_class in ((0, False), (1, False), (3, False), (3, True)):
        release = mechanism(dimension, classes, by_class=by_class, bits=20)
        expected = gram_total(release, features, labels, intercept=intercept)
        assert 0 < expected.clipped < 60
        summed = gram_total(release, given.asformat(kind), labels, intercept=intercept)
        np.testing.assert_array_equal(summed.total, expected.total)
        assert (summed.clipped, summed.rows) == (expected.clipped, expected.rows)


@for_each("kind", ["f4", "f8", "i4", "u1", "?", "i8"])
def test_every_type_gives_the_integers_of_the_table(kind: str) -> None:
    features = np.round(np.abs(table(2, 50, 6, 0.4))).astype(kind)
    release = mechanism(6, bits=20, row_norm=2.0)
    expected = gram_total(release, features)
    np.testing.assert_array_equal(
        gram_total(release, sparse.csr_array(features)).total, expected.total
    )


def test_odd_storage_counts_as_the_numbers_it_stands_for() -> None:
    rows = np.array([0, 0, 0, 2, 2, 2])
    columns = np.array([3, 1, 3, 0, 0, 2])
    values = np.array([0.25, 0.5, 0.25, 1.5, -1.5, math.nan])
    release = mechanism(4, bits=20)
    twice = sparse.csr_array((values, columns, [0, 3, 3, 6]), shape=(3, 4))
    before = twice.data.copy()
    assert not twice.has_canonical_format
    expected = gram_total(release, np.array([[0, 0.5, 0, 0.5], [0] * 4, [0, 0, math.nan, 0]]))
    for given in (twice, sparse.coo_array((values, (rows, columns)), shape=(3, 4))):
        np.testing.assert_array_equal(gram_total(release, given).total, expected.total)
    grid_rows(release, twice)
    np.testing.assert_array_equal(twice.data, before)
    zeros = sparse.csr_array((np.zeros(2), ([0, 1], [1, 2])), shape=(3, 4))
    assert not gram_total(release, zeros).total.any()
    assert not gram_total(release, sparse.csr_array((3, 4))).total.any()
    assert not gram_total(release, sparse.csr_array((0, 4))).total.any()


def test_units_and_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    features, rng = table(3, 400, 12, 0.2), np.random.default_rng(3)
    labels, units = rng.integers(0, 3, 400), rng.integers(0, 90, 400)
    release = mechanism(13, 3, rows=4, unit="user", bits=20)
    expected = gram_total(release, features, labels, intercept=0.1, units=units, most_rows=2)
    for step in (1, 17, 10**6):
        monkeypatch.setattr(gram_rows, "_block_rows", lambda _, step=step: step)
        summed = gram_total(
            release, sparse.csc_array(features), labels, intercept=0.1, units=units, most_rows=2
        )
        np.testing.assert_array_equal(summed.total, expected.total)
        assert (summed.dropped, summed.clipped) == (expected.dropped, expected.clipped)


def test_many_sparse_rows_are_summed_exactly() -> None:
    features = table(4, 30_000, 5, 0.5) + np.eye(5)[1]
    release = mechanism(5, 2, bits=20)
    labels = np.arange(30_000) % 2
    np.testing.assert_array_equal(
        gram_total(release, sparse.csr_array(features), labels).total,
        gram_total(release, features, labels).total,
    )


def test_a_wide_sparse_table_is_never_dense() -> None:
    d, count = MAX_DIMENSION, 4000
    rng = np.random.default_rng(5)
    features: Any = sparse.random_array((count, d - 1), density=0.002, format="csr", rng=rng)
    release = mechanism(d, bits=12, row_norm=8.0)
    tracemalloc.start()
    summed = gram_total(release, features, intercept=0.2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The sums themselves take 8 bytes each; the table would take as much again.
    assert peak < 8 * release.gram.values + 8 * count * d / 2
    columns = np.array([0, 17, d - 2, d - 1])
    some = gram_total(mechanism(4, bits=12, row_norm=8.0), features[:, columns[:3]], intercept=0.2)
    i, j = (columns[index] for index in np.triu_indices(4))
    from_all = summed.total[i * d - i * (i - 1) // 2 + j - i]
    assert summed.clipped == some.clipped == 0
    np.testing.assert_array_equal(from_all, some.total)


def test_sparse_tables_are_checked_too() -> None:
    with pytest.raises(InvalidInput, match="columns"):
        gram_total(mechanism(3), sparse.csr_array((2, 4)))
    with pytest.raises(InvalidInput, match="table of numbers"):
        gram_total(mechanism(4), sparse.csr_array((2, 4), dtype=complex))
    with pytest.raises(InvalidInput, match="table of numbers"):
        gram_total(mechanism(4), sparse.coo_array(np.zeros(4)))
