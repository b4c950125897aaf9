"""Rows on the grid of a Gram matrix: their norms hold between integers, whatever the floats."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import sparse

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import gram_row_grid
from privplan.accountant.mechanisms.gram_row_grid import GridScale, dense_rows, sparse_rows
from privplan.accountant.sensitivity.gram import MAX_DIMENSION

from ..cases import for_each
from .test_clip import MAX, ROWS, TINY

NORMS = st.floats(0.0, exclude_min=True, allow_infinity=False) | st.sampled_from(
    [TINY, 2.0**-1022, 1.0, 0.1, 6.0, MAX]
)
SQUARES = st.builds(
    lambda bits, rows: Fraction(4**bits, rows), st.integers(8, 20), st.integers(1, 10**6)
)
INTERCEPTS = st.sampled_from([0.0, TINY, 1e-13, 0.2, 0.5, 1 - 2.0**-53]) | st.floats(
    0.0, 1.0, exclude_max=True
)


def size_square(row: np.ndarray) -> Fraction:
    return sum((Fraction(float(x)) ** 2 for x in row), Fraction(0))


def check(scale: GridScale, row: np.ndarray, on_grid: np.ndarray) -> None:
    """Compare one row with what the module says of it, in fractions."""
    integers = [int(q) for q in on_grid]
    assert [float(q) for q in integers] == on_grid.tolist()
    assert sum(q * q for q in integers) <= scale.square
    if scale.intercept:
        square = scale.square * Fraction(scale.intercept)
        assert integers[-1] ** 2 <= square < (integers[-1] + 1) ** 2
    if not np.isfinite(row).all():
        assert not any(integers[: len(row)])
        return
    room = scale.square * (1 - Fraction(scale.intercept))
    most, longest = room, Fraction(scale.row_norm) ** 2
    slack = Fraction(2) ** -50
    # A row that is a little longer may fit after truncation; what is shortened is longer.
    shortened = dense_rows(scale, row[None, :])[1]
    if shortened:
        assert size_square(row) > longest
        most, longest = Fraction(scale.most), size_square(row)
        slack = Fraction(2) ** (1 - (62 - len(row).bit_length()) // 2) * (len(row) + 1)
    for x, z in zip(map(Fraction, row.tolist()), integers, strict=False):
        # No coordinate is moved outwards, and none inwards by more than a step and the margin.
        assert x * z >= 0
        assert z * z * longest <= most * x * x
        if scale.most and (not shortened or z):
            assert (abs(z) + 1) ** 2 * longest > most * x * x * (1 - slack) ** 2


@given(rows=ROWS, square=SQUARES, intercept=INTERCEPTS, row_norm=NORMS)
@example(np.array([[MAX, MAX, -MAX]]), Fraction(4**20), 0.0, 1.0)
@example(np.array([[TINY, -TINY, 1e300]]), Fraction(4**20), 0.2, 1.0)
@example(np.array([[TINY, TINY], [3e-324, 0.0], [1.0, MAX]]), Fraction(4**20), 0.0, TINY)
@example(np.array([[MAX, TINY], [1e307, 1e308]]), Fraction(4**20), 0.3, MAX)
@example(np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 0.0]]), Fraction(4**20), 0.0, 5.0)
@example(np.array([[math.nan, 1.0], [math.inf, 1.0], [1.0, 1.0]]), Fraction(4**9, 7), 0.7, 2.0)
def test_norms_hold_and_nothing_moves_outwards(
    rows: np.ndarray, square: Fraction, intercept: float, row_norm: float
) -> None:
    scale = GridScale(square, intercept, row_norm)
    on_grid, _ = dense_rows(scale, rows)
    for row, integers in zip(rows, on_grid, strict=True):
        check(scale, row, integers)
    # Whether zeros are stored makes no difference, not even to rows that are shortened.
    from_sparse, _ = sparse_rows(scale, sparse.csr_array(rows))
    np.testing.assert_array_equal(from_sparse.toarray(), on_grid)


@for_each("row_norm", [1.0, 0.1, 1e-310, 1e300, 255.0])
@for_each("square", [Fraction(4**20), Fraction(4**12, 3), Fraction(4**8)])
@for_each("intercept", [0.0, 0.2])
def test_rows_within_an_ulp_of_the_row_norm(
    row_norm: float, square: Fraction, intercept: float
) -> None:
    scale = GridScale(square, intercept, row_norm)
    rng = np.random.default_rng(3)
    directions = rng.normal(size=(80, 7))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    axis = np.zeros((3, 7))
    axis[:, 2] = 1.0
    rows = np.vstack([directions, axis]) * row_norm
    rows *= 1.0 + rng.integers(-2, 3, (len(rows), 1)) * 2.0**-53
    rows[-3:, 2] = math.nextafter(row_norm, 0.0), row_norm, math.nextafter(row_norm, math.inf)
    on_grid, shortened = dense_rows(scale, rows)
    for row, integers in zip(rows, on_grid, strict=True):
        check(scale, row, integers)
    # Truncation alone makes room for an ulp; only along an axis is there none.
    assert shortened <= 1


def test_rows_within_the_row_norm_are_never_shortened() -> None:
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(5000, 30))
    rows *= rng.uniform(0, 1, (5000, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    for row_norm in (1.0, 3.7):
        scale = GridScale(Fraction(4**20), 0.2, row_norm)
        _, shortened = dense_rows(scale, rows * row_norm)
        assert shortened == 0
    _, shortened = dense_rows(GridScale(Fraction(4**20), 0.2, 0.5), rows)
    assert shortened == np.count_nonzero(np.linalg.norm(rows, axis=1) > 0.5)


def test_a_power_of_two_is_multiplied_without_error() -> None:
    rows = np.array([[1.0, 0.0], [0.0, -0.5], [0.25, 3 / 16]])
    on_grid, _ = dense_rows(GridScale(Fraction(4**20), 0.0, 1.0), rows)
    assert on_grid.tolist() == [[2**20, 0], [0, -(2**19)], [2**18, 3 * 2**16]]


@for_each("columns", [1, 100, MAX_DIMENSION])
def test_long_rows_reach_the_bound_up_to_the_margin(columns: int) -> None:
    rng = np.random.default_rng(columns)
    rows = rng.normal(size=(5, columns)) * 10.0 ** rng.integers(2, 200, (5, 1))
    rows[0] = 1e9
    scale = GridScale(Fraction(4**20), 0.0, 1.0)
    on_grid, shortened = dense_rows(scale, rows)
    assert shortened == 5
    precision = (62 - columns.bit_length()) // 2
    margin = 2.0 ** (1 - precision) * math.sqrt(columns) + 2.0**-49
    for row in on_grid.astype(np.int64).tolist():
        square = sum(q * q for q in row)
        assert square <= scale.most
        assert math.sqrt(square) >= math.sqrt(scale.most) * (1 - margin) - math.sqrt(columns)


@for_each("row_norm", [1.7, 6.0, 0.3, 11.0, 1e-309, 1e301])
@for_each("square", [Fraction(4**20), Fraction(4**17, 3)])
def test_what_is_just_below_a_step_is_not_rounded_up_to_it(
    row_norm: float, square: Fraction
) -> None:
    scale = GridScale(square, 0.2, row_norm)
    room = square * (1 - Fraction(0.2)) / Fraction(row_norm) ** 2
    steps = [*range(1, 60), 1000, 12_345, 50_001, math.isqrt(scale.most)]
    # The largest float below each step, and the next one: f x < n, and f x >= n.
    below = []
    for step in steps:
        x = math.sqrt(Fraction(step**2) / (square * (1 - Fraction(0.2)))) * row_norm
        while Fraction(x) ** 2 * room >= step**2:
            x = math.nextafter(x, 0.0)
        while Fraction(math.nextafter(x, math.inf)) ** 2 * room < step**2:
            x = math.nextafter(x, math.inf)
        below.append(x)
    on_grid, shortened = dense_rows(scale, np.array(below)[:, None])
    assert shortened == 0
    assert on_grid[:, 0].tolist() == [step - 1 for step in steps]


def test_a_row_is_the_same_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(400, 37)) * rng.uniform(0.01, 3.0, (400, 1))
    scale = GridScale(Fraction(4**20), 0.2, 6.0)
    together, shortened = dense_rows(scale, rows)
    assert 0 < shortened < 400
    order = rng.permutation(400)
    np.testing.assert_array_equal(dense_rows(scale, rows[order])[0], together[order])
    np.testing.assert_array_equal(dense_rows(scale, np.asfortranarray(rows))[0], together)
    monkeypatch.setattr(gram_row_grid, "_CACHED_NUMBERS", 37 * 5)
    np.testing.assert_array_equal(dense_rows(scale, rows)[0], together)
    for index in range(0, 400, 7):
        unaligned = np.frombuffer(b"x" * 3 + rows[index].tobytes(), np.uint8)[3:].view(np.float64)
        np.testing.assert_array_equal(dense_rows(scale, unaligned[None, :])[0][0], together[index])


@for_each("kind", ["f4", "f2", "i8", "u1", "?", "longdouble"])
def test_any_kind_of_number_counts_as_its_float64(kind: str) -> None:
    rows = np.random.default_rng(7).integers(0, 2, (50, 6)).astype(kind) * np.ones(6, kind)
    scale = GridScale(Fraction(4**14), 0.1, 1.5)
    expected = dense_rows(scale, rows.astype(np.float64))
    on_grid, shortened = dense_rows(scale, rows)
    np.testing.assert_array_equal(on_grid, expected[0])
    assert shortened == expected[1]


def test_the_longest_doubles_are_no_infinities_and_longer_floats_are() -> None:
    if np.finfo(np.longdouble).max == MAX:
        pytest.skip("long double is double here")
    rows = np.array([[MAX, 0.0], [1.0, 0.0]], np.longdouble)
    rows[1, 1] = np.longdouble(MAX) * 4
    on_grid, _ = dense_rows(GridScale(Fraction(4**14), 0.0, 1.0), rows)
    assert on_grid[0, 0] >= 2**14 - 2
    assert not on_grid[1].any()


def test_the_scale_refuses_what_is_out_of_range() -> None:
    for intercept in (-0.1, 1.0, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="intercept"):
            GridScale(Fraction(4**10), intercept, 1.0)
    with pytest.raises(InvalidInput, match="2\\^53"):
        GridScale(Fraction(2**53), 0.0, 1.0)


def test_a_bound_below_a_step_leaves_nothing() -> None:
    scale = GridScale(Fraction(4**20), 1 - 2.0**-53, 1.0)
    assert scale.most == 0
    on_grid, _ = dense_rows(scale, np.array([[1.0], [0.0], [MAX], [math.nan]]))
    assert on_grid[:, 0].tolist() == [0.0] * 4
    assert (on_grid[:, 1] == 2**20 - 1).all()
