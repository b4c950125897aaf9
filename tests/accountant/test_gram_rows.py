"""The sum of one silo for a Gram release: exact integers, whatever way the rows are read."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import gram_rows
from privplan.accountant.mechanisms.gram_rows import gram_total

from ..cases import for_each
from .gram_sums import mechanism, python_sum

SHAPES = [
    # classes, Gram matrices of each class
    (0, False),
    (1, False),
    (2, False),
    (5, False),
    (5, True),
]


def labels_of(rng: np.random.Generator, classes: int, count: int) -> Any:
    if classes == 1:
        return rng.uniform(-1.2, 1.2, count)
    return rng.integers(0, max(classes, 1), count)


@for_each(("classes", "by_class"), SHAPES)
@for_each("bits", range(8, 21))
def test_sums_are_those_of_python_integers(classes: int, by_class: bool, bits: int) -> None:
    rng = np.random.default_rng(bits)
    shapes = [(int(rng.integers(2, 60)), int(rng.integers(1, 9)), 0.2 * rng.random())]
    for count, columns, intercept in ((0, 3, 0.2), (1, 1, 0.0), (97, 4, 0.0), *shapes):
        dimension = columns + bool(intercept)
        release = mechanism(dimension, classes, by_class=by_class, bits=bits, row_norm=1.7)
        features = rng.normal(size=(count, columns))
        labels = labels_of(rng, classes, count)
        summed = gram_total(release, features, labels, intercept=intercept)
        assert summed.total.dtype == np.int64
        assert summed.total.tolist() == python_sum(release, features, labels, intercept)
        assert (summed.rows, summed.dropped) == (count, 0)
        longer = np.linalg.norm(features, axis=1) > 1.7
        # A row that is longer by less than what truncation takes off needs no shortening.
        assert longer.sum() - 1 <= summed.clipped <= longer.sum()


@for_each(("classes", "by_class"), SHAPES)
@for_each("bits", [12, 20])
def test_many_rows_are_summed_exactly(classes: int, by_class: bool, bits: int) -> None:
    rng = np.random.default_rng(11)
    release = mechanism(4, classes, by_class=by_class, bits=bits)
    features = rng.normal(size=(30_000, 3)) + 0.4
    labels = labels_of(rng, classes, 30_000)
    summed = gram_total(release, features, labels, intercept=0.1)
    assert summed.total.tolist() == python_sum(release, features, labels, 0.1)


@for_each("step", [1, 7, 1000, 8192, 10**6])
@for_each(("classes", "by_class"), SHAPES)
def test_blocks_of_any_size_give_the_same_integers(
    step: int, classes: int, by_class: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(12)
    count = 700 if step < 100 else 20_000
    release = mechanism(9, classes, by_class=by_class, bits=20, row_norm=2.5)
    features = rng.normal(size=(count, 8))
    labels = labels_of(rng, classes, count)
    usual = gram_total(release, features, labels, intercept=0.3)
    assert 0 < usual.clipped < count
    monkeypatch.setattr(gram_rows, "_block_rows", lambda _: step)
    again = gram_total(release, features, labels, intercept=0.3)
    np.testing.assert_array_equal(again.total, usual.total)
    assert again.clipped == usual.clipped


@for_each("row_norm", [0.5, 3.0])
def test_a_total_is_the_sum_of_its_rows(row_norm: float) -> None:
    rng = np.random.default_rng(13)
    features, labels = rng.normal(size=(300, 5)), rng.integers(0, 3, 300)
    release = mechanism(6, 3, bits=20, row_norm=row_norm)
    alone = [
        gram_total(release, features[[i]], labels[[i]], intercept=0.2).total for i in range(300)
    ]
    together = gram_total(release, features, labels, intercept=0.2).total
    np.testing.assert_array_equal(together, np.sum(alone, axis=0))


def test_labels_that_are_none_of_the_classes_count_as_no_label() -> None:
    features = np.random.default_rng(14).normal(size=(8, 2))
    labels = np.array([0.0, 1.0, 2.0, -1.0, 3.0, 0.5, math.nan, math.inf])
    for by_class in (False, True):
        release = mechanism(2, 3, by_class=by_class)
        total = gram_total(release, features, labels).total
        assert total.tolist() == python_sum(release, features, labels, 0.0)
        labelled = gram_total(release, features[:3], labels[:3]).total
        np.testing.assert_array_equal(total[release.label_start :], labelled[release.label_start :])
        if by_class:
            np.testing.assert_array_equal(total, labelled)
    release = mechanism(2, 2)
    truth = gram_total(release, features, np.arange(8) % 2 == 1).total
    np.testing.assert_array_equal(truth, gram_total(release, features, np.arange(8) % 2).total)


def test_number_labels_are_cut_off_and_truncated() -> None:
    release = mechanism(1, 1, bits=10)
    labels = [0.3, -0.3, 1.0, -1.0, 7.0, -7.0, math.inf, -math.inf, math.nan, 1e-9, -1e-9, 5e-324]
    expected = [307, -307, 1024, -1024, 1024, -1024, 1024, -1024, 0, 0, 0, 0]
    for label, integer in zip(labels, expected, strict=True):
        total = gram_total(release, [[1.0]], [label]).total
        assert total.tolist() == [4**10, 2**10 * integer]


def test_rows_that_are_no_numbers_count_as_zero() -> None:
    features = np.array([[1.0, math.nan], [math.inf, 0.0], [-math.inf, math.nan], [0.0, 0.0]])
    summed = gram_total(mechanism(2), features)
    assert not summed.total.any()
    assert summed.clipped == 3
    with_intercept = gram_total(mechanism(3), features, intercept=0.25)
    assert with_intercept.total.tolist() == [0, 0, 0, 0, 0, 4 * 4**17]


@for_each("order", ["C", "F"])
def test_rows_in_a_file_are_read_in_slices(order: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(15)
    features = np.asarray(rng.normal(size=(5000, 20)), np.float32, order)
    labels = rng.integers(0, 4, 5000)
    np.save(tmp_path / "features.npy", features)
    np.save(tmp_path / "labels.npy", labels)
    release = mechanism(21, 4, bits=20)
    in_memory = gram_total(release, features, labels, intercept=0.2)
    file = np.load(tmp_path / "features.npy", mmap_mode="r")
    file_labels = np.load(tmp_path / "labels.npy", mmap_mode="r")
    np.testing.assert_array_equal(
        gram_total(release, file, file_labels, intercept=0.2).total, in_memory.total
    )

    class Slices:
        """What can be read in slices of rows, and in no other way."""

        shape = features.shape

        def __getitem__(self, rows: Any) -> Any:
            assert isinstance(rows, slice)
            assert rows.stop - rows.start <= 2**19
            return features[rows]

    sliced = gram_total(release, Slices(), labels, intercept=0.2)
    np.testing.assert_array_equal(sliced.total, in_memory.total)


def test_a_large_file_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "features.npy"
    file = np.lib.format.open_memmap(path, "w+", np.float32, (300_000, 50))
    file[:] = np.random.default_rng(16).normal(size=50).astype(np.float32)
    file.flush()
    release = mechanism(51, 2, bits=14)
    labels = np.zeros(300_000, np.int8)
    features = np.load(path, mmap_mode="r")
    tracemalloc.start()
    summed = gram_total(release, features, labels, intercept=0.2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert summed.clipped == 300_000
    assert peak < features.nbytes / 2  # a copy in float64 would be twice the file
    single = gram_total(release, features[:1], labels[:1], intercept=0.2)
    np.testing.assert_array_equal(summed.total, 300_000 * single.total)


@for_each(
    "features",
    [np.zeros(3), np.zeros((3, 2, 1)), [["a", "b"]], np.zeros((3, 2), complex), 5, None, [[1], []]],
)
def test_other_features_are_refused_without_showing_them(features: Any) -> None:
    with pytest.raises(InvalidInput, match="table of numbers"):
        gram_total(mechanism(2), features)


def test_other_shapes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="3 columns; this release is of 2"):
        gram_total(mechanism(2), np.zeros((4, 3)))
    with pytest.raises(InvalidInput, match="2 columns; this release is of 1"):
        gram_total(mechanism(2), np.zeros((4, 2)), intercept=0.1)
    for labels in (None, [0, 1], np.zeros((4, 1)), ["a"] * 4, np.zeros(4, complex)):
        with pytest.raises(InvalidInput, match="labels"):
            gram_total(mechanism(2, 2), np.zeros((4, 2)), labels)
    for intercept in (-0.1, 1.0, math.nan, "0.2", None):
        with pytest.raises(InvalidInput, match="intercept"):
            gram_total(mechanism(2), np.zeros((4, 1)), intercept=intercept)


def test_printing_a_total_shows_nothing_of_it() -> None:
    summed = gram_total(mechanism(1), np.full((123_457, 1), 0.377))
    shown = repr(summed) + str(summed)
    for secret in ("123457", "123,457", str(summed.total[0]), "array"):
        assert secret not in shown
