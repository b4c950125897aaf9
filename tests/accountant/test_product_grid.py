"""The grid of a product: room for sums and noise, bits for rows and basis, refusals."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms.product_grid import (
    MAX_SHARE_STEPS,
    MIN_SHARE_STEPS,
    ProductGrid,
    check_grid,
    product_grid,
)
from privplan.accountant.sensitivity.product import ProductBound

from ..cases import for_each
from .products import bound


@given(
    unit=st.sampled_from(["record", "silo", "entry"]),
    dimension=st.integers(1, 2**24),
    norm=st.floats(1e-30, 1e30),
    divisor=st.floats(1e-3, 1e30),
    relative=st.floats(-6.0, 8.0),
    rows=st.integers(1, 2**40),
    shares=st.integers(1, 1000),
)
def test_a_grid_has_room_for_all_sums_and_is_the_finest(
    unit: str, dimension: int, norm: float, divisor: float, relative: float, rows: int, shares: int
) -> None:
    one = bound(unit, dimension=dimension, rank=1, row_norm=norm, divisor=divisor)
    whole = Fraction(norm) ** 2 / Fraction(divisor)
    std = float(whole) * 10.0**relative

    def suits(bits: int) -> bool:
        steps = Fraction(std) / (whole / 2**bits)
        noise = 64 * (math.isqrt(shares) + 1) * (math.ceil(steps) + 1)
        fits = rows * 2**bits + noise <= 2**62
        return fits and steps >= MIN_SHARE_STEPS and steps * 1001 <= MAX_SHARE_STEPS * 1000

    try:
        grid = product_grid(one, most_rows=rows, share_std=std, shares=shares)
    except InvalidInput:
        assert not any(suits(bits) for bits in range(24, 43))
        return
    check_grid(grid)
    assert grid.step(one) == whole / 2**grid.product_bits
    assert suits(grid.product_bits)
    assert not any(suits(bits) for bits in range(grid.product_bits + 1, 43))


@for_each(
    ("dimension", "unit", "share_std", "grid"),
    [
        (50, "record", 7.46, (13, 10)),
        (50, "silo", 7.46, (13, 10)),
        (1682, "record", 1.0, (12, 14)),
        (1682, "entry", 0.1, (16, 10)),
        (20_000, "record", 7.46, (10, 16)),
        (50, "record", 1e-3, (16, 10)),
        (50, "record", 1e4, (8, 9)),
    ],
)
def test_the_bits_that_are_stated(
    dimension: int, unit: str, share_std: float, grid: tuple[int, int]
) -> None:
    """t follows from the noise; 7 bits (an entry: 4) above log2(d) / 2 are the basis's."""
    one = bound(unit, dimension=dimension, rank=1)
    found = product_grid(one, most_rows=1000, share_std=share_std)
    assert found == ProductGrid(*grid)
    assert 2**39 / share_std / 2 <= 2**found.product_bits <= 2**39 / share_std or (
        found.product_bits == 42
    )


@for_each(
    ("changed", "said"),
    [
        ({"share_std": 1e-12}, "`share_std`, 1e-12, is under 4,096 steps"),
        ({"share_std": 1e6}, "`share_std`, 1e+06, is too wide"),
        ({"most_rows": 2**39}, "`most_rows`, 5.49756e+11, is so high"),
        ({"most_rows": 0}, "most_rows"),
        ({"shares": 0}, "shares"),
        ({"share_std": math.nan}, "share_std"),
    ],
)
def test_what_no_grid_suits_is_refused_by_name(changed: dict[str, Any], said: str) -> None:
    given_values = {"most_rows": 1000, "share_std": 5.0, **changed}
    with pytest.raises(InvalidInput) as caught:
        product_grid(ProductBound(dimension=50, rank=5), **given_values)
    assert said in str(caught.value)


@for_each("bits", [(7, 12), (8, 7), (8, 27), (13, 17), (18, 8), (0, 24), (8.5, 9)])
def test_bits_that_no_grid_has_are_refused(bits: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidInput, match="row_bits"):
        check_grid(ProductGrid(*bits))


@for_each("bits", [(8, 8), (8, 26), (17, 8), (13, 16)])
def test_bits_at_the_ends_are_accepted(bits: tuple[int, int]) -> None:
    check_grid(ProductGrid(*bits))
