"""Weights never sum to more than 1, exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput
from privplan.accountant.sensitivity import uldp as sensitivity
from privplan.fl.aggregation.user_weights import checked_weights, stated, user_weights

from ..cases import for_each

COUNTS = st.integers(1, 7).flatmap(
    lambda silos: st.lists(
        st.lists(st.integers(0, 10**6), min_size=silos, max_size=silos), min_size=1, max_size=5
    )
)


@given(COUNTS)
def test_sums_are_at_most_one_exactly(counts):
    for rule in ("uniform", "records"):
        table = user_weights(rule, counts)
        assert (table >= 0.0).all()
        assert all(sum(map(Fraction, row)) <= 1 for row in table.tolist())
        assert checked_weights(table) is not None


@given(COUNTS)
def test_record_weights_are_shares_to_the_last_place(counts):
    table = user_weights("records", counts)
    for row, numbers in zip(table.tolist(), counts, strict=True):
        for weight, number in zip(row, numbers, strict=True):
            exact = Fraction(number, max(sum(numbers), 1))
            assert 0 <= exact - Fraction(weight) <= Fraction(weight) / 2**51


def test_uniform_weights_are_one_over_the_number_of_silos_and_the_rule_is_stated():
    assert user_weights("uniform", [[2, 0, 1, 5]]).tolist() == [[0.25, 0.0, 0.25, 0.25]]
    assert Fraction(float(user_weights("uniform", [[1, 1, 1]])[0, 0])) * 3 <= 1
    assert (stated("records").rule, stated("uniform").rule) == ("records", "uniform")
    assert stated("records").largest_sum == 1.0
    with pytest.raises(InvalidInput):
        stated("none")


@for_each("rule", ["uniform", "records"])
def test_a_user_without_records_has_no_weight_and_changes_no_other(rule):
    counts = np.array([[3, 1, 0], [7, 0, 2], [1, 1, 1]])
    without = counts.copy()
    without[1] = 0
    kept, gone = user_weights(rule, counts), user_weights(rule, without)
    assert gone[1].tolist() == [0.0, 0.0, 0.0]
    assert np.array_equal(gone[[0, 2]], kept[[0, 2]])


def test_a_sum_above_one_by_one_bit_is_refused():
    just_above = [[0.5, np.nextafter(0.5, 1.0)]]
    assert sensitivity.weight_sum(just_above) > 1.0  # rounding is forgiven there, not here
    with pytest.raises(InvalidInput, match="user 0 sum to more than 1"):
        checked_weights(just_above)
    # In floats this row adds up to exactly 1.
    row = [[1.0, 2.0**-60]]
    assert sum(row[0]) == 1.0
    with pytest.raises(InvalidInput, match="user 0"):
        checked_weights(row)
    assert checked_weights([[0.5, 0.5], [1.0, 0.0]]).shape == (2, 2)


@for_each("row", [[-0.1, 0.5], [np.nan, 0.0], [np.inf, 0.0]])
def test_weights_that_bound_nothing_are_refused(row):
    with pytest.raises(InvalidInput, match="user 1"):
        checked_weights([[0.5, 0.5], row])


@for_each("counts", [[1, 2], [[0.5, 1.0]], [[-1, 2]]])
def test_counts_must_be_a_table_of_integers(counts):
    with pytest.raises(InvalidInput, match="Counts"):
        user_weights("records", counts)
