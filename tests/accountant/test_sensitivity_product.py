"""Products with a public basis: searches for worse neighbours, pairs that attain, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity.product import ProductBound, sensitivity

from ..cases import for_each
from .products import bound, entry_formula, orthonormal, within

RELATIONS = ("add-remove", "zero-out", "replace-one")
SLACK = 1 + 1e-12


def moved(units: np.ndarray, others: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Return |A^T A Z - B^T B Z|_F of units (n, k, d) against others, for bases (n, d, r)."""
    gap = np.einsum("nki,nkj->nij", units, units) - np.einsum("nki,nkj->nij", others, others)
    return np.asarray(np.linalg.norm(gap @ basis, axis=(1, 2)))


def climbed(given_bound: ProductBound, relation: str, *, apart: bool, steps: int = 80) -> float:
    """Return the farthest that any unit moved the product: random starts, then climbing.

    `apart`: rows that are replaced come back in another silo, and each silo's product is seen.
    """
    rng = np.random.default_rng(5)
    n, k, d, r = 60, given_bound.rows, given_bound.dimension, given_bound.rank
    norm, change = given_bound.row_norm, given_bound.largest_change

    def neighbour(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        if relation != "replace-one":
            return np.zeros_like(x)
        if change is None:
            return within(y, norm)
        # One coordinate of every row moves by at most D; rows outside of the ball do not count.
        step = np.clip(y[:, :, :1], -change, change)
        other = x.copy()
        other[:, :, :1] += step
        size = np.linalg.norm(other, axis=-1, keepdims=True)
        return np.where(size <= norm, other, x)

    def reached(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        other = neighbour(x, y)
        if not apart:
            return moved(x, other, z)
        nothing = np.zeros_like(x)
        return np.hypot(moved(x, nothing, z), moved(other, nothing, z))

    x, y = within(norm * rng.normal(size=(n, k, d)), norm), norm * rng.normal(size=(n, k, d))
    x[: n // 2], y[: n // 2] = x[: n // 2, :1], y[: n // 2, :1]  # equal rows
    z = np.stack([orthonormal(d, r, rng) for _ in range(n)])
    best = reached(x, y, z)
    for step in range(steps):
        spread = 0.6 * 0.95**step
        new_x = within(x + norm * spread * rng.normal(size=x.shape), norm)
        new_y = y + norm * spread * rng.normal(size=y.shape)
        if step % 2:  # rows of a unit alike
            new_x, new_y = np.tile(new_x[:, :1], (1, k, 1)), np.tile(new_y[:, :1], (1, k, 1))
        new_z = np.linalg.qr(z + spread * rng.normal(size=z.shape))[0]
        result = reached(new_x, new_y, new_z)
        better = result > best
        x[better], y[better], z[better] = new_x[better], new_y[better], new_z[better]
        best = np.maximum(best, result)
    return float(best.max()) / given_bound.divisor


@for_each("relation", RELATIONS)
@for_each("unit", ["record", "silo"])
@for_each(("d", "r"), [(2, 2), (3, 1), (4, 2), (1, 1)])
def test_no_worse_rows_are_found(unit: str, relation: str, d: int, r: int) -> None:
    for norm, divisor in ((1.0, 1.0), (3.0, 7.0)):
        one = bound(unit, dimension=d, rank=r, row_norm=norm, divisor=divisor)
        limit = one.l2(relation)
        worst = climbed(one, relation, apart=False)
        single = 1 / math.sqrt(2) if relation == "replace-one" and r == 1 else 1.0
        assert (0.97 * single if d > 1 or single < 1 else 0.5) * limit <= worst <= limit * SLACK
        # A row that comes back in another silo, and both silos' products are seen.
        if unit == "record" and relation == "replace-one":
            assert 0.97 * limit <= climbed(one, relation, apart=True) <= limit * SLACK


@for_each("change", [0.02, 0.3, 0.66, 0.68, 1.0, 1.4, 1.42, 2.0, 5.0])
@for_each(("d", "r"), [(2, 2), (3, 1), (4, 3)])
def test_no_worse_entry_is_found(d: int, r: int, change: float) -> None:
    one = bound("entry", dimension=d, rank=r, largest_change=change)
    limit = one.l2("replace-one")
    worst = climbed(one, "replace-one", apart=False)
    assert limit == pytest.approx(entry_formula(change, 1.0), rel=1e-12)
    assert (0.5 if r == 1 else 0.9) * limit <= worst <= limit * SLACK


@for_each("change", [0.1, 0.5, 0.66, 0.68, 1.0, 1.3, 1.414])
def test_an_entry_attains_its_bound(change: float) -> None:
    """t = R - D along the axis for a small D, t = -D/2 off it for a large one."""
    one = bound("entry", dimension=2, rank=2, largest_change=change)
    aside = math.sqrt(max(0.0, 1 - change**2 / 4))
    pairs = [([1 - change, 0.0], [1.0, 0.0]), ([-change / 2, aside], [change / 2, aside])]
    reached = max(
        float(moved(np.array([[a]]), np.array([[b]]), np.eye(2)[None])[0]) for a, b in pairs
    )
    assert reached == pytest.approx(one.l2("replace-one"), rel=1e-12)


@for_each("rows", [1, 3])
def test_equal_rows_attain_the_bounds_of_rows(rows: int) -> None:
    one = bound("silo", dimension=2, rank=2, rows=rows, row_norm=2.0, divisor=3.0)
    first = np.tile([[2.0, 0.0]], (1, rows, 1))
    other = np.tile([[0.0, 2.0]], (1, rows, 1))
    basis = np.eye(2)[None]
    for relation, neighbour in (("add-remove", 0 * first), ("replace-one", other)):
        assert moved(first, neighbour, basis)[0] / 3 == pytest.approx(one.l2(relation), rel=1e-12)
    record = bound(dimension=2, rank=2, row_norm=2.0, divisor=3.0)
    if rows == 1:
        assert [one.l2(each) for each in RELATIONS] == [record.l2(each) for each in RELATIONS]


@given(
    norm=st.floats(1e-3, 1e3),
    divisor=st.floats(1e-3, 1e6),
    rows=st.integers(1, 1000),
    change=st.floats(1e-4, 1e4),
    rank=st.integers(1, 6),
)
def test_bounds_are_the_formulas_rounded_up(
    norm: float, divisor: float, rows: int, change: float, rank: int
) -> None:
    shared = {"rank": rank, "row_norm": norm, "divisor": divisor}
    whole = Fraction(norm) ** 2 / Fraction(divisor)
    for unit, times in (("record", 1), ("silo", rows)):
        one = bound(unit, **shared, **({"rows": rows} if unit == "silo" else {}))
        assert Fraction(one.row_bound) >= whole * times
        for relation, factor in (("add-remove", 1), ("zero-out", 1), ("replace-one", 2)):
            limit = Fraction(one.l2(relation))
            assert limit**2 >= factor * (times * whole) ** 2
            assert float(limit) <= math.sqrt(factor) * float(times * whole) * (1 + 1e-14)
    entry = bound("entry", **shared, largest_change=change)
    assert entry.l2("replace-one") == pytest.approx(entry_formula(change, norm) / divisor, rel=1e-9)


@given(
    change=st.floats(1e-3, 3.0),
    more=st.floats(1.0, 2.0),
    bits=st.integers(8, 17),
    dimension=st.integers(3, 2**24),
)
def test_bounds_grow_with_what_they_bound(
    change: float, more: float, bits: int, dimension: int
) -> None:
    entry = bound("entry", dimension=dimension, largest_change=change)
    least = entry.l2("replace-one")
    wider = (
        replace(entry, largest_change=change * more),
        replace(entry, row_norm=more),
        replace(entry, divisor=1 / more),
        entry.on_grid(bits),
    )
    assert all(each.l2("replace-one") >= least for each in wider)
    assert entry.on_grid(bits).l2("replace-one") <= math.sqrt(2) * SLACK
    # Up to 2^-28 d a finer grid is a better one.
    coarse, fine = (entry.on_grid(each).largest_change or 0.0 for each in (bits, bits + 1))
    assert fine <= coarse
    steps = 2 * math.sqrt(dimension) + dimension * 2.0 ** (bits - 28) + 1
    assert coarse == pytest.approx(change + steps * 2.0**-bits, rel=1e-12)
    for unit in ("record", "silo"):
        one = bound(unit, dimension=dimension)
        assert one.on_grid(bits) is one


def test_conditions_say_what_a_run_must_meet() -> None:
    for unit, relation in (
        ("record", "add-remove"),
        ("silo", "zero-out"),
        ("entry", "replace-one"),
    ):
        moved_by = sensitivity(bound(unit, rank=1), relation)
        assert (moved_by.neighbours, moved_by.unit) == (relation, unit)
        said = " / ".join(moved_by.conditions)
        assert "of 1 columns" in said
        assert "public" in said
        assert len(moved_by.conditions) == len(sensitivity(bound(unit), relation).conditions)
        # One column has no smaller bound: silos may be seen one by one.
        assert moved_by.l2 == sensitivity(bound(unit), relation).l2


@for_each(
    ("fields", "said"),
    [
        ({"dimension": 0}, "dimension"),
        ({"dimension": 2**24 + 1}, "`dimension` must be at most 16,777,216"),
        ({"rank": 0}, "rank"),
        ({"rank": 7}, "`rank` must be at most 6"),
        ({"dimension": 4096, "rank": 1025}, "`rank` must be at most 1,024"),
        ({"dimension": 2**20, "rank": 257}, "at most 268,435,456 numbers"),
        ({"rows": 2}, "`rows` is 2, and the unit is 'record'"),
        ({"rows": 0}, "rows"),
        ({"row_norm": 0.0}, "row_norm"),
        ({"row_norm": math.inf}, "row_norm"),
        ({"divisor": -1.0}, "divisor"),
        ({"divisor": math.nan}, "divisor"),
        ({"unit": "user"}, "unit"),
        ({"unit": "entry"}, "`largest_change` and the unit 'entry'"),
        ({"largest_change": 1.0}, "`largest_change` and the unit 'entry'"),
        ({"unit": "entry", "largest_change": 0.0}, "largest_change"),
        ({"unit": "entry", "largest_change": math.nan}, "largest_change"),
    ],
)
def test_what_is_out_of_range_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ProductBound(**{"dimension": 6, "rank": 3, **fields})
    assert said in str(caught.value)


def test_what_is_not_accounted_is_refused() -> None:
    for relation in ("add-remove", "zero-out"):
        with pytest.raises(Unsupported, match=f"not accounted under {relation}"):
            sensitivity(bound("entry"), relation)
    with pytest.raises(InvalidInput, match="neighbours"):
        bound().l2("swap")
    with pytest.raises(Unsupported, match="private"):
        bound(bound_source="private")
    for extreme in ({"row_norm": 1e-150}, {"row_norm": 1e150}, {"divisor": 1e290}):
        with pytest.raises(Unsupported, match="too extreme"):
            bound(**extreme).l2("add-remove")
    for far in ({"row_norm": 1e-30}, {"row_norm": 1e30}, {"divisor": 1e30}):
        assert bound(**far).l2("replace-one") > 0


def test_numbers_of_numpy_become_those_of_python() -> None:
    one = bound("silo", dimension=np.int64(9), rank=np.int32(2), rows=np.int64(3))
    assert [type(each) for each in (one.dimension, one.rank, one.rows)] == [int, int, int]
