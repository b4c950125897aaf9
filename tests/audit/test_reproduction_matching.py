"""When a value prints as a claim."""

from __future__ import annotations

from decimal import Decimal

import pytest

from privplan.audit.description.printed_number import PrintedNumber
from privplan.audit.reproduction.matching import (
    CHANCE,
    AcceptedRange,
    ChanceBudget,
    accepted_changed,
    accepted_same,
    is_target,
)
from privplan.audit.reproduction.reproduction import AccountantValue

from ..cases import for_each


def printed(text: str) -> PrintedNumber:
    return PrintedNumber.of(epsilon=Decimal(text))


def exactly(value: float) -> AccountantValue:
    return AccountantValue("", "rdp", value, value)


@for_each(
    ("claim", "value", "same", "changed"),
    [
        ("1.19", 1.1949, True, True),  # rounded
        ("1.19", 1.1990, True, False),  # truncated
        ("1.19", 1.1810, True, False),  # rounded up
        ("1.19", 1.2100, False, False),
        ("1.19", 1.1790, False, False),
        ("1.2", 1.2813, True, False),  # truncated
        ("1.2", 1.1300, False, False),  # two digits are not rounded up
        ("1.134", 1.1344, True, True),
        ("1.134", 1.1360, False, False),
        ("21.9011", 21.9025, True, True),
        ("1.2813209", 1.2835, True, False),  # another version
        ("1.2813209", 1.2840, False, False),
        ("1.2813209", 1.2813, True, True),
        ("3", 2.9950, True, True),  # a target, met from below
        ("3", 2.9400, True, False),
        ("3", 3.0200, False, False),
    ],
)
def test_values_that_print_as_a_claim(claim: str, value: float, same: bool, changed: bool) -> None:
    assert accepted_same(printed(claim)).meets(exactly(value)) is same
    assert accepted_changed(printed(claim)).meets(exactly(value)) is changed


def test_a_float_is_as_precise_as_it_is_written() -> None:
    accepted = accepted_changed(PrintedNumber(1.19))
    assert accepted.low == pytest.approx(1.185)
    assert accepted.high == pytest.approx(1.195)


def test_an_interval_meets_a_claim_that_it_overlaps() -> None:
    accepted = AcceptedRange(1.0, 1.1)
    assert accepted.meets(AccountantValue("", "prv", 0.9, 1.0))
    assert not accepted.meets(AccountantValue("", "prv", 1.11, 1.2))


@for_each(("text", "target"), [("3", True), ("2.5", True), ("2.53", False)])
def test_round_numbers_are_targets(text: str, target: bool) -> None:
    assert is_target(printed(text)) is target


def test_claims_with_more_digits_admit_more_values() -> None:
    counts = []
    for text in ("1.2", "1.23", "1.234"):
        budget = ChanceBudget(1.0, accepted_changed(printed(text)))
        counts.append(sum(budget.admits(v, v) for v in [0.3 + 0.01 * k for k in range(400)]))
        assert 0.0 <= budget.left <= CHANCE
    assert counts[0] <= 3
    assert counts[0] < counts[1] < counts[2]


def test_what_was_admitted_and_what_lies_outside_cost_nothing() -> None:
    budget = ChanceBudget(1.0, accepted_changed(printed("1.23")))
    assert budget.admits(1.5, 1.5)
    left = budget.left
    assert budget.admits(1.5, 1.5)
    assert budget.admits(100.0, 100.0)
    assert budget.left == left
