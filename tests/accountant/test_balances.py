"""Balances of blocks: never above a cap, never below the exact sums, and back from an export."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, InvalidInput, Unsupported
from privplan.accountant.odometer import (
    Balances,
    add,
    budget_currency,
    copies,
    epsilon_of,
    epsilon_of_largest,
    largest,
    left_of,
    price,
    room,
    share,
    take_back,
)
from privplan.accountant.odometer.balances import BUDGET_UNITS, EXHAUSTED, vector
from privplan.accountant.odometer.pricing import whole_price

from ..cases import for_each
from .budget_streams import ORDERS, claims, exact_divergence

BLOCKS = ["2023", "2024", "2025", "2026"]


# Streams of claims against a filter that knows every unit and every order exactly.


@for_each("orders", [ORDERS, (12.0,)])
def test_streams_over_blocks_do_what_a_filter_of_every_unit_does(orders):
    currency = budget_currency("rdp", 6.0, 1e-5, orders=orders)
    pick = random.Random(len(orders))
    balances = Balances(len(orders), BLOCKS)
    # Two units of each block; each has exact sums, and the orders that it never exceeded.
    exact = {(block, unit): [Fraction(0)] * len(orders) for block in BLOCKS for unit in range(2)}
    units = {key: [0] * len(orders) for key in exact}
    refused = 0
    for event, named in islice(claims(pick, BLOCKS), 900):
        cost = price(event, currency, "add-remove")
        whole = whole_price(event, currency, "add-remove")  # however far above the budget
        concerned = [key for key in exact if key[0] in (named or BLOCKS)]
        amounts = [exact_divergence(event, int(order)) for order in orders]
        fits = all(
            any(
                units[key][i] <= BUDGET_UNITS and units[key][i] + whole[i] <= BUDGET_UNITS
                for i in range(len(orders))
            )
            for key in concerned
        )
        assert balances.admits(cost, named) == fits
        if not fits:
            refused += 1
            before = balances.export()
            with pytest.raises(BudgetExceeded):
                balances.add(cost, named)
            assert balances.export() == before
            continue
        balances.add(cost, named)
        for key in concerned:
            exact[key] = [total + part for total, part in zip(exact[key], amounts, strict=True)]
            units[key] = [total + part for total, part in zip(units[key], whole[:-1], strict=True)]
    assert refused > 100
    for (block, unit), totals in exact.items():
        rows = zip(
            balances.spent([block]), totals, currency.budgets, units[block, unit], strict=False
        )
        for kept, total, budget, true_units in rows:
            # At or above the exact sum, and within 1e-9 of it; above the cap it only says so.
            assert Fraction(true_units, BUDGET_UNITS) * budget >= total
            assert float(Fraction(true_units, BUDGET_UNITS) * budget / total) <= 1 + 1e-9
            assert kept == min(true_units, EXHAUSTED)
        # The filter's promise: at one order at least the exact sum is within its budget.
        assert any(total <= budget for total, budget in zip(totals, currency.budgets, strict=True))


def test_at_the_cap_not_one_more_claim_fits():
    currency = budget_currency("zcdp", 2.0, 1e-5)
    cost = price(ev.Gaussian(40.0), currency, "add-remove")
    balances = Balances(1, ["a", "b"])
    times = balances.copies(cost)
    for _ in range(times):
        balances.add(cost)
    assert not balances.admits(cost, ["a"])
    exact = times * Fraction(1, 2 * 40**2)
    assert exact <= currency.budgets[0] < exact + Fraction(1, 2 * 40**2)
    assert epsilon_of(currency, balances.spent())[0] <= 2.0


# What adversaries try: each of these broken rules lets one of them above a cap.


def _exceeds(rule_room, rule_add, rule_back) -> bool:
    """Return whether an adversary ends above the caps of both orders, by true integer sums."""
    pick = random.Random(7)
    for _ in range(300):
        true, kept, held = [0, 0, 0], (0, 0, 0), []
        for _ in range(40):
            cost = tuple(pick.choice([0, 1, 3, 10]) * (BUDGET_UNITS // 10) for _ in range(2))
            cost = (*cost, pick.choice([0, 0, BUDGET_UNITS // 3]))
            if rule_room(kept, cost):
                kept = rule_add(kept, cost)
                true = [total + part for total, part in zip(true, cost, strict=True)]
                held.append(cost)
            elif held and pick.random() < 0.5:
                # A claim of which nothing was released is cancelled.
                back = held.pop()
                kept = rule_back(kept, back)
                true = [total - part for total, part in zip(true, back, strict=True)]
            if min(true[:2]) > BUDGET_UNITS or true[2] > BUDGET_UNITS:
                return True
    return False


def _plain_add(spent, cost):
    return tuple(a + b for a, b in zip(spent, cost, strict=True))


def _plain_back(spent, cost):
    return tuple(a - b for a, b in zip(spent, cost, strict=True))


def test_no_order_of_claims_and_cancellations_exceeds_a_cap():
    assert not _exceeds(room, add, take_back)


@for_each(
    "broken",
    [
        # Delta is not looked at.
        (lambda s, c: min(a + b for a, b in zip(s[:2], c[:2], strict=True)) <= BUDGET_UNITS, add),
        # Each claim for itself.
        (lambda s, c: room((0, 0, s[2]), c), add),
        # Orders take turns: another may be short for the time being.
        (lambda s, c: min(s[:2]) <= BUDGET_UNITS and s[2] + c[2] <= BUDGET_UNITS, add),
    ],
)
def test_broken_rules_let_an_adversary_above_a_cap(broken):
    rule_room, rule_add = broken
    assert _exceeds(rule_room, rule_add, take_back)
    assert not _exceeds(room, _plain_add, _plain_back)


def test_an_order_that_was_exceeded_never_pays_again():
    half = BUDGET_UNITS // 2 + 1
    spent = add(add((0, 0, 0), (half, 1, 0)), (half, 1, 0))
    assert spent == (EXHAUSTED, 2, 0)
    # Cancelled or not: what is left of the first order is no longer known.
    assert take_back(spent, (half, 1, 0)) == (EXHAUSTED, 1, 0)
    assert not room(spent, (0, BUDGET_UNITS, 0))
    assert room(spent, (EXHAUSTED, BUDGET_UNITS - 2, 0))
    assert copies(spent, (0, 10, 0)) == (BUDGET_UNITS - 2) // 10


@for_each("spent", [(0, 0, 0), (BUDGET_UNITS - 5, 3, 0), (EXHAUSTED, 10**14, 10**13)])
@for_each("cost", [(0, 0, 0), (3, 0, 0), (10**12 + 1, 7 * 10**13, 10**12), (EXHAUSTED, 1, 1)])
def test_copies_is_how_often_room_says_yes(spent, cost):
    many = copies(spent, cost)
    times = tuple(many * part for part in cost)

    # Integers, unsaturated: the last copy fits and the next one does not.
    def fits(total):
        sums = [a + b for a, b in zip(spent, total, strict=True)]
        return sums[-1] <= BUDGET_UNITS and min(units for units in sums[:-1]) <= BUDGET_UNITS

    assert many == 0 or fits(times)
    if many < BUDGET_UNITS:
        assert not fits(tuple(a + b for a, b in zip(times, cost, strict=True)))


# Blocks.


def test_a_new_block_has_spent_nothing_and_all_means_those_that_exist():
    balances = Balances(1, ["old"])
    balances.add((6 * 10**14, 0))
    balances.open(["new"])
    assert balances.blocks == ("old", "new")
    assert balances.spent(["new"]) == (0, 0)
    assert balances.spent() == (6 * 10**14, 0)
    assert balances.left() == (4 * 10**14, 0 + BUDGET_UNITS)
    assert not balances.admits((5 * 10**14, 0))
    balances.add((5 * 10**14, 0), ["new", "new"])
    assert balances.each() == {"old": (6 * 10**14, 0), "new": (5 * 10**14, 0)}
    with pytest.raises(InvalidInput, match="already"):
        balances.open(["old"])


def test_one_exhausted_block_refuses_a_claim_for_all_and_nothing_is_charged():
    balances = Balances(2, ["a", "b", "c"])
    balances.add((BUDGET_UNITS, BUDGET_UNITS, 0), ["b"])
    before = balances.export()
    with pytest.raises(BudgetExceeded, match="'b'"):
        balances.add((1, 1, 0))
    assert balances.export() == before
    balances.add((1, 1, 0), ["a", "c"])


def test_the_data_set_has_spent_what_its_largest_block_has():
    assert largest([(5, 900, 0), (40, 50, 0)]) == (40, 50, 0)
    assert largest([(5, 900, 70), (40, 50, 0)]) == (5, 900, 70)
    currency = budget_currency("rdp", 6.0, 1e-5, orders=[4, 40])
    rows = [(10**14, 9 * 10**14, 0), (4 * 10**14, 4 * 10**14, 0)]
    epsilon, _ = epsilon_of_largest(currency, rows)
    assert epsilon == max(epsilon_of(currency, row)[0] for row in rows)
    assert share((10**14, 9 * 10**14, 0)) >= 0.1


# Export and restore.


def test_an_export_comes_back_as_it_was():
    pick, balances = random.Random(3), Balances(3, BLOCKS)
    for _ in range(200):
        cost = tuple(pick.randrange(BUDGET_UNITS // 60) for _ in range(3))
        named = pick.sample(BLOCKS, pick.randint(1, 4))
        if balances.admits((*cost, 0), named):
            balances.add((*cost, 0), named)
    text = json.dumps(balances.export())
    restored = Balances.restore(json.loads(text))
    assert restored.export() == balances.export()
    assert json.dumps(restored.export()) == text
    assert restored.each() == balances.each()
    cost = (10**13, 10**13, 10**13, 0)
    assert [restored.admits(cost, [b]) for b in BLOCKS] == [
        balances.admits(cost, [b]) for b in BLOCKS
    ]


@for_each(
    "edit",
    [
        lambda e: e | {"version": 2},
        lambda e: {key: e[key] for key in ("version", "budgets")},
        lambda e: e | {"budgets": 2},
        lambda e: e | {"budgets": 0},
        lambda e: e | {"blocks": []},
        lambda e: e | {"blocks": [{"block": "a", "spent": [1.5, 0]}]},
        lambda e: e | {"blocks": [{"block": "a", "spent": [-1, 0]}]},
        lambda e: e | {"blocks": [{"block": "a", "spent": [True, 0]}]},
        lambda e: e | {"blocks": [{"block": "a", "spent": [1]}]},
        lambda e: e | {"blocks": [{"block": "a", "spent": [1, 0]}] * 2},
        lambda e: e | {"more": 1},
        lambda e: [e],
        lambda e: e and None,
    ],
)
def test_what_is_no_export_is_refused(edit):
    with pytest.raises(InvalidInput):
        Balances.restore(edit(Balances(1, ["a"]).export()))


@for_each(
    "wrong",
    [
        lambda: room((0, 0), (0, 0, 0)),
        lambda: add((0,), (0,)),
        lambda: add((0, 0), (-1, 0)),
        lambda: add((0, 0), (1.0, 0)),
        lambda: take_back((3, 0), (4, 0)),
        lambda: largest([]),
        lambda: Balances(0),
        lambda: Balances(1, "abc"),
        lambda: Balances(1, []),
        lambda: Balances(1, ["a"]).add((1, 0), ["b"]),
        lambda: Balances(1, ["a"]).admits((1, 0), []),
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidInput):
        wrong()


def test_numpy_integers_are_integers():
    assert vector(np.array([3, EXHAUSTED + 5], dtype=np.int64)) == (3, EXHAUSTED)


# Units in several blocks.


@for_each("kind", ["zcdp", "rdp", "gdp", "planned-pool"])
def test_a_unit_in_several_blocks_stays_within_the_whole_cap(kind):
    given = {"orders": [16]} if kind == "rdp" else {}
    single = budget_currency(kind, 3.0, 1e-5, **given)
    shared = budget_currency(kind, 3.0, 1e-5, blocks_per_unit=3, **given)
    event = ev.Gaussian(20.0)
    alone, each = (price(event, one, "add-remove") for one in (single, shared))
    assert (each[:-1] >= 3 * alone[:-1] - 3).all()
    assert (each[:-1] <= 3 * alone[:-1]).all()
    balances = Balances(1, ["a", "b", "c"])
    for block in balances.blocks:
        while balances.admits(each, [block]):
            balances.add(each, [block])
    releases = sum(row[0] for row in balances.each().values()) // int(each[0])
    # What a unit of all three blocks has lost: all releases together.
    assert releases * int(alone[0]) <= BUDGET_UNITS + releases
    exact = releases * single.cost(event, "add-remove").amounts[0]
    assert exact <= single.budgets[0]
    assert epsilon_of(shared, balances.spent())[0] <= 3.0


def test_several_orders_of_a_unit_in_several_blocks_are_refused():
    with pytest.raises(Unsupported, match="one order"):
        budget_currency("rdp", 3.0, 1e-5, orders=[4, 16], blocks_per_unit=2)


def test_left_is_rounded_down_and_never_negative():
    currency = budget_currency("zcdp", 1.0, 1e-5, slack=1e-6)
    assert left_of(currency, (0, 0)) == (1.0, 1e-6)
    assert left_of(currency, (EXHAUSTED, EXHAUSTED)) == (0.0, 0.0)
    epsilon, delta = left_of(currency, (BUDGET_UNITS // 2, BUDGET_UNITS // 3))
    assert 0.0 < epsilon < 1.0 - epsilon_of(currency, (BUDGET_UNITS // 2, 0))[0] + 1e-12
    assert Fraction(delta) <= Fraction(1e-6) * Fraction(BUDGET_UNITS - BUDGET_UNITS // 3, 10**15)
