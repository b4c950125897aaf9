"""Clipping to integers: the norm is kept exactly, whatever the floats."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import clip
from privplan.accountant.mechanisms.clip import (
    Norm,
    Sparse,
    clipped,
    clipped_sum,
    clipped_sums,
    limits,
)

from ..cases import for_each

MAX = float(np.finfo(np.float64).max)
TINY = 5e-324

ANY_FLOAT = st.floats(width=64) | st.sampled_from(
    [0.0, -0.0, TINY, -TINY, 2.0**-1022, 1e-300, 1e300, -1e300, MAX, -MAX, math.inf, math.nan]
)
ROWS = hnp.arrays(
    np.float64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9), elements=ANY_FLOAT
)


def limit_of(bound: float, grid: float, weight: float) -> int:
    """Return floor(bound weight / grid), exactly."""
    return math.floor(Fraction(bound) * Fraction(weight) / Fraction(grid))


def within(row: np.ndarray, limit: int, norm: Norm) -> bool:
    """Return whether an integer row keeps its limit, exactly."""
    if norm == "l1":
        return sum(abs(int(z)) for z in row) <= limit
    return sum(int(z) ** 2 for z in row) <= limit**2


def integers(rows: np.ndarray, weights: np.ndarray, bound: float, grid: float, norm: Norm) -> Any:
    return clipped(rows, weights, limits(bound, grid, weights), grid, norm)


@given(
    rows=ROWS,
    bound=st.floats(1e-3, 1e3),
    steps=st.integers(0, 40),
    weight=st.floats(0.0, 1.0),
    norm=st.sampled_from(["l1", "l2"]),
)
@example(np.array([[MAX, MAX, -MAX]]), 1.0, 20, 1.0, "l2")
@example(np.array([[TINY, -TINY, 1e300]]), 0.1, 20, 0.3, "l2")
@example(np.array([[TINY, TINY]]), 0.1, 0, TINY, "l2")
@example(np.array([[3.0, 4.0], [4.0, 3.0]]), 5.0, 1, 1.0, "l2")
@example(np.array([[math.nan, 1.0], [math.inf, 1.0], [1.0, 1.0]]), 5.0, 30, 0.7, "l2")
def test_no_row_reaches_beyond_its_bound(
    rows: np.ndarray, bound: float, steps: int, weight: float, norm: Norm
) -> None:
    grid = 2.0 ** (math.frexp(bound)[1] - 1 - steps)
    weights = np.full(len(rows), weight)
    found = integers(rows, weights, bound, grid, norm)
    limit = limit_of(bound, grid, weight)
    for row, made in zip(rows, found, strict=True):
        assert within(made, limit, norm)
        if not np.isfinite(row).all():
            assert not made.any()
            continue
        for value, steps_of in zip(row, made, strict=True):
            exact = Fraction(float(value)) * Fraction(weight) / Fraction(grid)
            assert abs(int(steps_of)) <= abs(exact) * (1 + Fraction(1, 2**50))
            assert int(steps_of) * exact >= 0


@given(
    rows=hnp.arrays(np.float64, (3, 5), elements=st.floats(-1.0, 1.0)),
    weight=st.floats(2.0**-10, 1.0),
    norm=st.sampled_from(["l1", "l2"]),
)
def test_rows_within_the_bound_are_only_cut_to_the_grid(
    rows: np.ndarray, weight: float, norm: Norm
) -> None:
    grid = 2.0**-20
    found = integers(rows, np.full(3, weight), 6.0, grid, norm)
    exact = rows * weight / grid
    assert (np.abs(found - exact) <= 1.0 + np.abs(exact) * 2.0**-50).all()


@for_each("norm", ["l1", "l2"])
@for_each("dimensions", [1, 7, 5012, 300_000])
def test_long_rows_on_the_bound(dimensions: int, norm: Norm) -> None:
    """Many equal or random coordinates, whose rounding errors add up: still exact, and close."""
    rng = np.random.default_rng(4)
    rows = np.stack([np.full(dimensions, 0.1), rng.standard_normal(dimensions)])
    bound, grid = 0.1, 2.0**-42
    found = integers(rows, np.ones(2), bound, grid, norm)
    limit = limit_of(bound, grid, 1.0)
    for made in found:
        assert within(made, limit, norm)
        size = (
            np.abs(made).sum() if norm == "l1" else math.sqrt(np.square(made.astype(float)).sum())
        )
        lost = dimensions if norm == "l1" else math.sqrt(dimensions)
        assert size >= limit * (1 - 1e-9) - lost


def test_floats_alone_exceed_the_bound() -> None:
    """What the margin is for: clipped in float64 without one, some rows are too long."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((2000, 4))
    plain = rows * (1.0 / np.sqrt((rows * rows).sum(axis=1)))[:, None]
    lengths = [sum(Fraction(float(x)) ** 2 for x in row) for row in plain]
    assert max(lengths) > 1


@for_each("norm", ["l1", "l2"])
@for_each("dimensions", [1, 2])
def test_the_margin_covers_rounding_on_the_finest_grid(dimensions: int, norm: Norm) -> None:
    """With 2^52 steps in the bound, a rounding error is a step, and little is cut to the grid."""
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((4000, dimensions)) * 100.0
    for bound in (0.99, 0.7, 0.51):
        grid = 2.0**-52
        found = integers(rows, np.ones(4000), bound, grid, norm)
        assert all(within(row, limit_of(bound, grid, 1.0), norm) for row in found)


@given(bound=st.floats(1e-6, 1e6), weight=st.floats(0.0, 4.0), steps=st.integers(-60, 30))
def test_limits_are_floors(bound: float, weight: float, steps: int) -> None:
    grid = 2.0**steps
    found = limits(bound, grid, np.array([weight]))[0]
    exact = limit_of(bound, grid, weight)
    assert int(found) <= exact
    assert int(found) >= exact * (1 - 2.0**-51) - 1


def test_a_sum_is_the_sum_of_its_rows_in_whatever_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    rows, weights = rng.standard_normal((50, 7)), rng.uniform(0, 1, 50)
    grid = 2.0**-22
    whole = clipped_sum(rows, weights, bound=1.0, grid=grid, norm="l2")
    assert whole.dtype == np.int64
    assert whole.tolist() == integers(rows, weights, 1.0, grid, "l2").sum(axis=0).tolist()
    monkeypatch.setattr(clip, "_BLOCK_NUMBERS", 20)
    assert clipped_sum(rows, weights, bound=1.0, grid=grid, norm="l2").tolist() == whole.tolist()


def test_other_number_types_are_taken_as_they_are() -> None:
    rows = np.array([[0.5, -0.25], [0.125, 0.0]])
    given_rows: list[Any] = [rows, rows.astype(np.float32), rows.tolist(), np.asfortranarray(rows)]
    for one in given_rows:
        total = clipped_sum(one, None, bound=1.0, grid=2.0**-4, norm="l2")
        assert total.tolist() == [10, -4]
    whole = clipped_sum(np.eye(2, dtype=int) * 3, None, bound=5.0, grid=1.0, norm="l1")
    assert whole.tolist() == [3, 3]


def test_broken_rows_count_as_zero_and_no_row_is_changed() -> None:
    good = np.array([[0.5, 0.25]])
    bad = np.array([[math.nan, 1.0], [math.inf, 0.0], [-math.inf, math.nan]])
    rows = np.vstack([bad, good, bad])
    before = rows.copy()
    alone = clipped_sum(good, None, bound=1.0, grid=2.0**-20, norm="l2")
    assert clipped_sum(rows, None, bound=1.0, grid=2.0**-20, norm="l2").tolist() == alone.tolist()
    np.testing.assert_array_equal(rows, before)


@for_each("shape", [(0, 3), (2, 0), (0, 0)])
def test_empty_sums(shape: tuple[int, int]) -> None:
    total = clipped_sum(np.empty(shape), None, bound=1.0, grid=2.0**-20, norm="l2")
    assert total.tolist() == [0] * shape[1]


@for_each("rows", [np.zeros(3), np.zeros((1, 2, 3)), [["a"]], [[1j]], [[None]]])
def test_rows_are_tables_of_numbers(rows: Any) -> None:
    with pytest.raises(InvalidInput, match="rows"):
        clipped_sum(rows, None, bound=1.0, grid=1.0, norm="l2")


@for_each("weights", [[1.0], [0.5, -0.1], [0.5, 1.1], [0.5, math.nan], [[0.5, 0.5]]])
def test_weights_are_checked(weights: Any) -> None:
    with pytest.raises(InvalidInput, match="weights"):
        clipped_sum(np.zeros((2, 3)), weights, bound=1.0, grid=1.0, norm="l2")
    heavy = np.ones((1, 1))
    total = clipped_sum(heavy, [3.0], bound=1.5, grid=1.0, norm="l2", heaviest=3.0)
    assert total.tolist() == [3]
    with pytest.raises(InvalidInput, match="weights"):
        clipped_sum(heavy, None, bound=1.0, grid=1.0, norm="l2", heaviest=0.5)


def test_sums_that_could_overflow_are_refused() -> None:
    rows = np.ones((1100, 1))
    with pytest.raises(InvalidInput, match="64-bit"):
        clipped_sum(rows, None, bound=1.0, grid=2.0**-51, norm="l2")
    with pytest.raises(InvalidInput, match="64-bit"):
        clipped_sum(rows[:1], None, bound=1.0, grid=2.0**-53, norm="l2")
    total = clipped_sum(rows[:1000], None, bound=1.0, grid=2.0**-51, norm="l2")
    assert 0 < total[0] <= 1000 * 2**51


@for_each("chunk", [7, 1 << 16])
@for_each("ascending", [True, False])
def test_groups_are_summed_by_themselves(
    ascending: bool, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clip, "_BLOCK_NUMBERS", chunk)
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(40, 3)), rng.random(40)
    groups = rng.choice([0, 1, 4], 40)  # 2, 3 and 5 have no rows
    if ascending:
        groups.sort()
    found = clipped_sums(rows, groups, 6, weights, bound=1.0, grid=2.0**-20, norm="l2")
    assert found.shape == (6, 3)
    for group in range(6):
        own = groups == group
        alone = clipped_sum(rows[own], weights[own], bound=1.0, grid=2.0**-20, norm="l2")
        assert found[group].tolist() == alone.tolist()
    nobody = np.empty(0, int)
    none = clipped_sums(np.empty((0, 3)), nobody, 2, None, bound=1.0, grid=2.0**-20, norm="l2")
    assert none.tolist() == [[0, 0, 0]] * 2


@for_each("groups", [[0, 2], [-1, 0], [0], [0.0, 1.0], [[0, 1]], "ab", [0, None]])
def test_groups_are_places(groups: Any) -> None:
    with pytest.raises(InvalidInput, match="groups"):
        clipped_sums(np.zeros((2, 3)), groups, 2, None, bound=1.0, grid=1.0, norm="l2")


@for_each("norm", ["l1", "l2"])
def test_sparse_rows_are_clipped_as_the_table_of_their_places(norm: Norm) -> None:
    rng = np.random.default_rng(5)
    width, places = 50, 4
    columns = np.array([rng.permutation(width)[:places] for _ in range(300)])
    rows = Sparse(
        columns, rng.normal(size=(300, places)) * 10.0 ** rng.integers(-3, 9, (300, 1)), width
    )
    weights, silos = rng.uniform(0, 1, 300), rng.integers(0, 3, 300)
    given = {"bound": 0.7, "grid": 2.0**-30, "norm": norm}
    expected = np.zeros((3, width), np.int64)
    for one in range(300):
        small = clipped_sum(rows.values[[one]], weights[[one]], **given)
        expected[silos[one], columns[one]] += small
        single = clipped_sums(rows[np.array([one])], [0], 1, weights[[one]], **given)[0]
        size = abs(single).sum() if norm == "l1" else math.isqrt(int((single**2).sum()))
        assert size <= 0.7 * weights[one] / 2.0**-30
    np.testing.assert_array_equal(clipped_sums(rows, silos, 3, weights, **given), expected)
    dense = clipped_sums(rows.dense(), silos, 3, weights, **given)
    assert abs(dense - expected).max() <= 300  # the margin depends on the width: a step a row


def test_sparse_rows_have_different_places_within_the_width() -> None:
    for columns in ([[0, 0]], [[0, 5]], [[-1, 2]], [[0.5, 1.0]], [0, 1]):
        with pytest.raises(InvalidInput):
            Sparse(np.array(columns), np.ones((1, 2)), 5)
    empty = Sparse(np.empty((0, 1), np.int64), np.empty((0, 1)), 7)
    assert clipped_sum(empty, None, bound=1.0, grid=0.5, norm="l2").tolist() == [0] * 7
