"""Exact products of rows on a grid: Python's integers, bases within their norm, and caps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms.noisy_product import NoisyProduct
from privplan.accountant.mechanisms.product_grid import ProductGrid
from privplan.accountant.mechanisms.product_rows import ProductRows, basis_steps, square_bound

from ..cases import for_each
from .products import (
    bound,
    noisy_product,
    orthonormal,
    python_product,
    spectral_norm_is_at_most,
    square,
)

MAX = float(np.finfo(np.float64).max)
ANY_FLOAT = st.floats(width=64) | st.sampled_from(
    [0.0, -0.0, 5e-324, 1e-300, 1e300, MAX, -MAX, math.inf, -math.inf, math.nan, 1.0, 0.5]
)
FINITE = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 5e-324, -(2.0**-1022), 1e300, MAX, -MAX, 1.0, -1.0, 0.5, 1 / math.sqrt(2)]
)


def on(grid: ProductGrid, **changed: Any) -> NoisyProduct:
    """Return a mechanism with a given grid and enough noise for it."""
    one = bound(**changed)
    return NoisyProduct(product=one, std=2.0**20 * float(grid.step(one)), grid_bits=grid)


def grid_rows(mechanism: NoisyProduct, rows: Any) -> np.ndarray:
    """Return what stands on the grid, by products with each unit vector times 2^q."""
    found = ProductRows(mechanism, rows)._rows
    return np.asarray(found.toarray() if sparse.issparse(found) else found)


@given(
    basis=hnp.arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 5)), elements=FINITE),
    bits=st.integers(1, 26),
)
@example(np.zeros((3, 2)), 8)
@example(np.full((4, 3), 5e-324), 26)
@example(np.full((4, 3), MAX), 26)
@example(np.ones((2, 5)), 26)
@example(np.array([[1e300, -1e300], [1e-300, 1.0]]), 8)
@example(np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]), 17)
def test_every_finite_basis_is_within_its_norm(basis: np.ndarray, bits: int) -> None:
    """By elimination in fractions, which knows no Gershgorin."""
    steps = basis_steps(basis, bits)
    assert steps.shape == basis.shape
    assert steps.dtype == np.int64
    assert spectral_norm_is_at_most(steps, 2**bits)
    assert not (np.sign(steps) * np.sign(basis) < 0).any()


@for_each("bits", [8, 14, 26])
@for_each(("d", "r"), [(4096, 1), (4096, 3), (16, 1024), (1, 1024), (40000, 2)])
def test_long_bases_do_not_wrap_around(d: int, r: int, bits: int) -> None:
    """Columns of ones: 4,096 squares of 2^26 are 2^64, which 64 bits hold as zero."""
    steps = basis_steps(np.ones((d, r)), bits)
    # Rank one: the norm is the product of both vectors' norms.
    assert int(steps[0, 0]) ** 2 * d * r <= 4**bits
    assert (steps == steps[0, 0]).all()


def test_random_bases_that_are_too_long_end_within_their_norm() -> None:
    rng = np.random.default_rng(1)
    for d, r, bits, scale in ((50, 7, 9, 1e3), (7, 7, 26, 1.0), (9, 4, 8, 1e200), (300, 5, 10, 2)):
        for _ in range(10):
            basis = scale * rng.normal(size=(d, r)) * 10.0 ** rng.uniform(-9, 0, r)
            assert spectral_norm_is_at_most(basis_steps(basis, bits), 2**bits)


@for_each(("d", "r"), [(1, 1), (50, 5), (1682, 10), (60, 60)])
def test_an_orthonormal_basis_is_hardly_moved(d: int, r: int) -> None:
    rng = np.random.default_rng(2)
    for bits in (10, 14, 26):
        basis = orthonormal(d, r, rng)
        steps = basis_steps(basis, bits)
        # Rounding by half a step, and what Gershgorin's bound is above the norm.
        off = 0.5 + 2.0**bits * np.abs(basis) * (2.0 * r * 2.0**-bits)
        assert (np.abs(steps - 2.0**bits * basis) <= off).all()
        assert square_bound(steps.astype(np.float64)) <= 4**bits
    plain = np.eye(max(d, r))[:, :r]
    assert (basis_steps(plain, 12) == 2**12 * plain).all()


def test_square_bound_is_exact_below_2_53_and_never_below() -> None:
    rng = np.random.default_rng(3)
    for size in (2**10, 2**20, 2**26, 2**40, 2**53):
        steps = rng.integers(-size, size + 1, (40, 6))
        z = steps.astype(object)
        exact = max(sum(abs(int(x)) for x in row) for row in z.T.dot(z))
        found = square_bound(steps.astype(np.float64))
        assert found == exact if exact < 2**53 else found >= 2**53
    assert square_bound(np.zeros((0, 3))) == square_bound(np.zeros((3, 0))) == 0


@for_each(
    ("basis", "bits", "said"),
    [
        (np.array([[math.nan]]), 8, "finite numbers"),
        (np.array([[math.inf]]), 8, "finite numbers"),
        (np.array([[1j]]), 8, "finite numbers"),
        (np.array([1.0]), 8, "finite numbers"),
        (np.eye(3), 27, "`bits` must be from 1 to 26"),
        (np.eye(3), 0, "bits"),
        (np.zeros((1, 1025)), 8, "1,024 columns"),
    ],
)
def test_what_is_no_basis_is_refused(basis: np.ndarray, bits: int, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        basis_steps(basis, bits)


def test_a_basis_that_is_too_long_or_of_other_numbers_is_refused() -> None:
    """Whoever sent it: a row would move its product farther than the noise is made for."""
    mechanism = noisy_product()
    node, largest = ProductRows(mechanism, np.ones((2, 6))), 2**mechanism.grid_bits.basis_bits
    good = largest * np.eye(6, 3, dtype=np.int64)
    node.total(good)
    longer, together = good.copy(), good.copy()
    longer[0, 0] += 1
    together[0, 1] = largest  # two equal columns: each of them short enough
    for number in (2**62, -(2**63), 2**53 + 1):
        wide = good.copy()
        wide[5, 2] = number
        with pytest.raises(InvalidInput, match="spectral norm"):
            node.total(wide)
    for long in (longer, together):
        with pytest.raises(InvalidInput, match="spectral norm"):
            node.total(long)
    for other in (good[:, :2], good.T, good.astype(np.float64), good.astype(np.int32)):
        with pytest.raises(InvalidInput, match="integers of 64 bits"):
            node.total(other)


@given(
    rows=hnp.arrays(np.float64, st.tuples(st.integers(0, 7), st.just(4)), elements=ANY_FLOAT),
    norm=st.sampled_from([1e-30, 0.1, 1.0, 6.0, 1e30]),
    grid=st.sampled_from([ProductGrid(8, 8), ProductGrid(8, 26), ProductGrid(17, 8)]),
    seed=st.integers(0, 9),
)
def test_products_are_those_of_pythons_integers(
    rows: np.ndarray, norm: float, grid: ProductGrid, seed: int
) -> None:
    mechanism = on(grid, dimension=4, rank=2, row_norm=norm)
    basis = basis_steps(orthonormal(4, 2, np.random.default_rng(seed)), grid.basis_bits)
    node = ProductRows(mechanism, rows)
    integers = grid_rows(mechanism, rows)
    assert (integers == np.rint(integers)).all()
    total = node.total(basis)
    assert total.tolist() == python_product(integers, basis)
    # Sparse or not: the same bits.
    from_sparse = ProductRows(mechanism, sparse.csr_array(rows))
    assert (from_sparse.total(basis) == total).all()
    assert (from_sparse.clipped, from_sparse.count) == (node.clipped, node.count)
    assert from_sparse.largest_norm == node.largest_norm
    for row, q in zip(rows, integers, strict=True):
        assert square(q) <= 4**grid.row_bits
        if not np.isfinite(row).all():
            assert not q.any()
        # One row alone: what the noise is made for, between integers.
        alone = ProductRows(mechanism, row[None, :]).total(basis)
        assert square(alone) <= 4**grid.product_bits
    # Every row by itself: none of them moves another's.
    apart = [ProductRows(mechanism, row[None, :]).total(basis) for row in rows]
    assert (np.sum(apart, axis=0, dtype=np.int64) == total).all()


@for_each("grid", [ProductGrid(13, 16), ProductGrid(17, 8), ProductGrid(8, 26)])
@for_each("stored", ["table", "csr", "csc", "coo"])
def test_sums_of_many_equal_rows_are_exact_in_blocks(grid: ProductGrid, stored: str) -> None:
    """t is 42, so blocks have 2,048 rows: the longest rows, along the longest direction."""
    mechanism = on(grid, dimension=2, rank=2)
    rows = np.tile([[0.6, 0.8]], (5000, 1))
    rows[::3] = [1.0, 0.0]
    table = rows if stored == "table" else getattr(sparse, f"{stored}_array")(rows)
    basis = basis_steps(np.eye(2), grid.basis_bits)
    total = ProductRows(mechanism, table).total(basis)
    assert total.tolist() == python_product(grid_rows(mechanism, rows), basis)
    assert max(total) > 2**53  # more than floats count exactly


def test_any_block_size_and_any_order_give_the_same_bits() -> None:
    rng = np.random.default_rng(4)
    mechanism = noisy_product(most_rows=100)
    rows = rng.normal(size=(60, 6)) * (rng.random((60, 6)) < 0.4)
    basis = basis_steps(orthonormal(6, 3, rng), mechanism.grid_bits.basis_bits)
    first = ProductRows(mechanism, rows).total(basis)
    for block in (1, 7, 59, 60, 1000):
        for table in (rows, sparse.csr_array(rows), rows[::-1], np.asfortranarray(rows)):
            node = ProductRows(mechanism, table)
            node._block = block
            assert (node.total(basis) == first).all()
    single = ProductRows(mechanism, rows.astype(np.float32).astype(np.float64)).total(basis)
    assert (ProductRows(mechanism, rows.astype(np.float32)).total(basis) == single).all()
    doubled = sparse.coo_array((np.r_[0.5, 0.25], ([0, 0], [1, 1])), shape=(1, 6))
    assert (
        ProductRows(mechanism, doubled).total(basis)
        == ProductRows(mechanism, np.array([[0, 0.75, 0, 0, 0, 0]])).total(basis)
    ).all()


def test_sums_wrap_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks are added modulo 2^64: here a product that each of many blocks has."""
    mechanism = on(ProductGrid(13, 16), dimension=1, rank=1)
    node = ProductRows(mechanism, np.ones((1, 1)))
    basis = basis_steps(np.ones((1, 1)), 16)
    (one,) = node.total(basis).tolist()
    assert one == 2**42
    monkeypatch.setattr(ProductRows, "count", property(lambda _: 2**22 + 1))

    class Again:
        """The same block whatever is asked for."""

        def __getitem__(self, _rows: slice) -> np.ndarray:
            return np.full((2**11, 1), 2.0**13)

    node._rows = Again()
    # 2,049 blocks of 2^11 rows of 2^42 each: 2^64 and one block.
    assert node.total(basis).tolist() == [2**53]


def test_rows_of_other_shapes_are_refused_and_no_value_is_named() -> None:
    mechanism = noisy_product()
    for rows in (np.ones((2, 5)), np.ones(6), sparse.csr_array((2, 7)), [["secret"] * 6], 3.0):
        with pytest.raises(InvalidInput, match="6 columns") as caught:
            ProductRows(mechanism, rows)
        assert "secret" not in str(caught.value)
    assert ProductRows(mechanism, [[1, 0, 0, 0, 0, True]]).count == 1
    assert not ProductRows(mechanism, np.ones((0, 6))).total(np.zeros((6, 3), np.int64)).any()
    assert ProductRows(mechanism, np.ones((0, 6))).largest_norm == 0


def test_a_silo_has_its_cap_and_other_units_have_none() -> None:
    mechanism = noisy_product(bound("silo", rows=4))
    rows = np.eye(6)
    assert [ProductRows(mechanism, rows, most=most).count for most in (None, 0, 3)] == [4, 0, 3]
    assert ProductRows(mechanism, sparse.coo_array(rows)).dropped == 2
    with pytest.raises(InvalidInput, match="`most` must be at most 4"):
        ProductRows(mechanism, rows, most=5)
    with pytest.raises(InvalidInput, match="most"):
        ProductRows(mechanism, rows, most=-1)
    for unit in ("record", "entry"):
        with pytest.raises(InvalidInput, match="two that move"):
            ProductRows(noisy_product(bound(unit)), rows, most=3)


def entry_pairs(d: int, change: float, rng: np.random.Generator, count: int) -> Any:
    """Return rows near the norm 1, dense ones among them, and the same with one entry changed."""
    rows = rng.normal(size=(count, d))
    rows[::2] = np.sign(rows[::2]) * rng.uniform(0.9, 1.1, (len(rows[::2]), d))
    size = np.exp(rng.normal(scale=0.02, size=(count, 1)))
    rows *= size / np.linalg.norm(rows, axis=1, keepdims=True)
    others = rows.copy()
    others[:, 0] += rng.uniform(-change, change, count)
    others[::3, 0] = rows[::3, 0] + change * rng.choice([-1.0, 1e-9, 1.0], len(rows[::3]))
    return rows, others


@for_each("d", [1, 6, 50, 400])
@for_each("grid", [ProductGrid(8, 12), ProductGrid(11, 14), ProductGrid(17, 8)])
@for_each("change", [1e-3, 0.1, 1.0])
def test_an_entry_moves_a_row_on_the_grid_by_no_more_than_the_bound_says(
    d: int, grid: ProductGrid, change: float
) -> None:
    """Rows on both sides of the norm: both pass, neither, or one of them."""
    mechanism = on(grid, unit="entry", dimension=d, rank=1, largest_change=change)
    limit = (mechanism.product.on_grid(grid.row_bits).largest_change or 0.0) * 2**grid.row_bits
    rows, others = entry_pairs(d, change, np.random.default_rng(6), 2000)
    before, after = grid_rows(mechanism, rows), grid_rows(mechanism, others)
    farthest = np.linalg.norm(before - after, axis=1).max()
    assert farthest <= limit


@for_each(("d", "bits"), [(50, 8), (400, 8), (400, 11), (5000, 12)])
def test_a_small_change_can_move_a_row_on_the_grid_by_much_of_sqrt_d(d: int, bits: int) -> None:
    """A row that just passes, all of whose coordinates truncation takes most from."""
    longest, low = 2**bits, math.isqrt(4**bits // d)
    ones = (4**bits - d * low**2) // (2 * low + 1)
    row = np.full(d, low + 0.999)
    row[:ones] += 1.0
    other = row.copy()
    other[-1] = low + 1.0
    mechanism = on(
        ProductGrid(bits, 8), unit="entry", dimension=d, rank=1, largest_change=0.002 / longest
    )
    assert [ProductRows(mechanism, x[None, :] / longest).clipped for x in (row, other)] == [0, 1]
    before, after = grid_rows(mechanism, np.stack([row, other]) / longest)
    farthest = float(np.linalg.norm(before - after))
    limit = (mechanism.product.on_grid(bits).largest_change or 0.0) * longest
    assert 0.4 * math.sqrt(d) < farthest <= limit


@for_each(("unit", "d"), [("record", 6), ("entry", 6), ("entry", 40)])
def test_integer_products_move_by_no_more_than_the_mechanism_states(unit: str, d: int) -> None:
    mechanism = noisy_product(bound(unit, dimension=d), noise_multiplier=50.0)
    rng = np.random.default_rng(7)
    rows, others = entry_pairs(d, 0.5, rng, 400)
    if unit == "record":
        others = rng.normal(size=rows.shape)
    limit = mechanism.sensitivity("replace-one") / float(
        mechanism.grid_bits.step(mechanism.product)
    )
    farthest = 0.0
    for row, other in zip(rows, others, strict=True):
        plane = np.c_[row, other, rng.normal(size=d)]
        basis = basis_steps(np.linalg.qr(plane)[0], mechanism.grid_bits.basis_bits)
        totals = [ProductRows(mechanism, one[None, :]).total(basis) for one in (row, other)]
        farthest = max(farthest, math.sqrt(square(totals[0] - totals[1])))
    assert 0.8 * limit <= farthest <= limit
