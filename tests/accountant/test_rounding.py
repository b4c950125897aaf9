"""Printed numbers are rounded to the safe side."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant import rounding

numbers = st.floats(min_value=1e-300, max_value=1e300, allow_nan=False, allow_infinity=False)


@given(numbers, st.integers(min_value=2, max_value=8))
def test_up_is_never_below_and_down_never_above(number: float, digits: int) -> None:
    above = float(rounding.up(number, digits).replace(",", ""))
    below = float(rounding.down(number, digits).replace(",", ""))
    assert below <= number <= above
    assert above - below <= 10 * number * 10.0 ** (1 - digits)


@given(numbers)
def test_the_bare_number_is_read_back_and_never_below(number: float) -> None:
    assert number <= float(rounding.plain(number)) <= number * (1 + 1e-5)


def test_layout() -> None:
    assert rounding.up(0.786012) == "0.7861"
    assert rounding.up(1.99999) == "2.000"
    assert rounding.down(1.99999) == "1.999"
    assert rounding.up(20107.1) == "20,108"
    assert rounding.up(24.5123, 3) == "24.6"
    assert rounding.up(9.9999999) == "10.000"
    assert rounding.up(3.2e-7) == "3.200e-07"
    assert rounding.up(1e12) == "1.000e+12"
    assert rounding.up(0.0) == "0"


def test_infinite_ends() -> None:
    assert rounding.up(math.inf) == "infinite"
    assert rounding.plain(math.inf) == "inf"


def test_a_given_number_is_not_rounded_at_all() -> None:
    assert rounding.as_given(1.23456789e-5) == "1.23456789e-05"
    assert rounding.as_given(2.0) == "2"
