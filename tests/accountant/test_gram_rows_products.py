"""Products of integer rows in float64: where they are exact, and how they wrap around."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from privplan.accountant.mechanisms import gram_rows
from privplan.accountant.mechanisms.gram_products import GramProducts, exact_rows
from privplan.accountant.mechanisms.gram_rows import gram_total
from privplan.accountant.sensitivity.gram import GramBound

from ..cases import for_each
from .gram_sums import mechanism, python_sum


def modulo(value: int) -> int:
    """Return what a 64-bit integer holds of an integer."""
    return (value + 2**63) % 2**64 - 2**63


@for_each("bits", range(8, 21))
@for_each("rows", [1, 3, 1000, 10**6])
def test_the_most_rows_of_a_block_are_those_of_the_bound(bits: int, rows: int) -> None:
    square = 4**bits // rows
    largest = math.isqrt(square)
    # A class is counted once; the integer of a number is at most 2^b.
    for label in (1, 2**bits):
        most = exact_rows(square, label)
        assert most * square <= 2**53
        assert most * largest * label <= 2**53
        assert (most + 1) * max(1, square, largest * label) > 2**53


@for_each("value", [2**20, 2**20 - 1, 999_983])
def test_the_longest_rows_at_the_bound_are_exact(value: int) -> None:
    rows = np.full((exact_rows(4**20, 2**20), 1), float(value))
    products = GramProducts(GramBound(dimension=1, classes=1), len(rows))
    products.add(rows, np.full(len(rows), 2**20))
    assert len(rows) == 8192
    assert products.total().tolist() == [8192 * value**2, 8192 * 2**20 * value]


def test_beyond_that_bound_float64_is_not_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(0).uniform(0.9, 1.0, (100_000, 1))
    labels = features[:, 0]
    release = mechanism(1, 1, bits=20)
    expected = python_sum(release, features, labels, 0.0)
    assert expected[0] > 2**55
    assert gram_total(release, features, labels).total.tolist() == expected
    monkeypatch.setattr(gram_rows, "exact_rows", lambda *_: 10**9)
    assert gram_total(release, features, labels).total.tolist() != expected


@for_each(
    ("classes", "by_class", "stays_sparse"),
    [(0, False, False), (1, False, False), (3, True, True)],
)
def test_totals_wrap_around_as_integers_modulo_2_to_the_64(
    classes: int, by_class: bool, stays_sparse: bool
) -> None:
    # A block is added again and again, as if there were 9 million such rows.
    gram = GramBound(dimension=2, classes=classes, by_class=by_class)
    products, single = GramProducts(gram, 8192), GramProducts(gram, 8192)
    block: Any = np.tile([[2.0**20 - 1, -3.0]], (8192, 1))
    labels = np.full(8192, 2**20 - 1 if classes == 1 else 0)
    single.add(block, labels if classes else None)
    once = [int(value) for value in single.total()]
    assert max(once) <= 2**53
    if stays_sparse:
        block = sparse.csr_array(block)
    for _ in range(1100):
        products.add(block, labels if classes else None)
    assert max(once) * 1100 > 2**63
    assert products.total().tolist() == [modulo(1100 * value) for value in once]


def test_the_matrix_that_is_added_to_is_never_a_copy() -> None:
    # Were the matrix copied on its way to BLAS, what is added would be lost.
    for dimension in (1, 2, 17):
        products = GramProducts(GramBound(dimension=dimension), 8192)
        rows = np.arange(3.0 * dimension).reshape(3, dimension)
        for part in (rows, rows[1:], np.asfortranarray(rows), rows[::2]):
            products.add(part, None)
        whole = np.vstack([rows, rows[1:], rows, rows[::2]]).astype(np.int64)
        expected = (whole.T @ whole)[np.triu_indices(dimension)]
        np.testing.assert_array_equal(products.total(), expected)


def test_a_total_may_be_asked_for_before_the_last_block() -> None:
    products = GramProducts(GramBound(dimension=2, classes=2), 8192)
    rows, labels = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1])
    products.add(rows[:1], labels[:1])
    first = products.total().tolist()
    products.add(rows[1:], labels[1:])
    assert first == [1, 2, 4, 1, -1, 2, -2]
    assert products.total().tolist() == [10, 14, 20, -2, 2, -2, 2]
