"""The currency of a data set: what is fixed, what goes to JSON and back, what a price means."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.odometer import (
    BudgetCurrency,
    Odometer,
    budget_currency,
    epsilon_of,
    left_of,
    price,
)
from privplan.accountant.odometer.balances import BUDGET_UNITS, EXHAUSTED
from privplan.accountant.odometer.pricing import whole_price

from ..cases import for_each
from .budget_streams import exact_divergence
from .odometers import SAMPLED

ALL = [
    {"kind": "zcdp"},
    {"kind": "zcdp", "slack": 1e-6, "blocks_per_unit": 4, "unit": "user"},
    {"kind": "rdp", "orders": [4.0, 12.5, 40.0], "neighbours": "replace-one"},
    {"kind": "rdp", "like": SAMPLED},
    {"kind": "gdp", "unit": "silo"},
    {"kind": "mu2-plans", "plans": 3},
    {"kind": "planned-pool", "plans": 5},
]


@for_each("given", ALL)
def test_it_comes_back_from_json_and_prices_alike(given):
    currency = budget_currency(epsilon=2.5, delta=1e-5, **given)
    text = json.dumps(currency.to_json())
    again = BudgetCurrency.from_json(json.loads(text))
    assert again == currency
    assert hash(again) == hash(currency)
    assert json.dumps(again.to_json()) == text
    event = ev.Gaussian(30.0)
    costs = [price(event, each, each.neighbours).tolist() for each in (currency, again)]
    assert costs[0] == costs[1]
    assert len(costs[0]) == len(currency.budgets) + 1


def test_a_smaller_budget_that_was_written_is_kept_and_a_larger_one_refused():
    given = budget_currency("zcdp", 2.5, 1e-5).to_json()
    budget = Fraction(given["budgets"][0])

    def with_budget(value):
        return given | {"budgets": [f"{value.numerator}/{value.denominator}"]}

    smaller = BudgetCurrency.from_json(with_budget(budget / 2))
    assert smaller.budgets == (budget / 2,)
    half = price(ev.Gaussian(30.0), smaller, "add-remove")[0]
    whole = price(ev.Gaussian(30.0), BudgetCurrency.from_json(given), "add-remove")[0]
    assert 2 * whole - 1 <= half <= 2 * whole
    for value in (budget * (1 + Fraction(1, 10**9)), budget * 2, -budget):
        with pytest.raises(InvalidInput, match="budgets"):
            BudgetCurrency.from_json(with_budget(value))


@for_each(
    "edit",
    [
        {"epsilon": 2.0},
        {"delta": 1e-6},
        {"slack": 1e-6},
        {"kind": "nothing"},
        {"orders": [4.0]},
        {"unit": "city"},
        {"budgets": ["1/0"]},
        {"budgets": ["x"]},
        {"budgets": [0.5]},
        {"budgets": []},
        {"budgets": None},
        {"more": 1},
    ],
)
def test_what_was_edited_is_refused(edit):
    with pytest.raises(InvalidInput):
        BudgetCurrency.from_json(budget_currency("zcdp", 2.5, 1e-5).to_json() | edit)


@for_each("given", [None, [], "zcdp", {}, {"kind": "zcdp"}])
def test_what_is_no_currency_is_refused(given):
    with pytest.raises(InvalidInput, match="fields"):
        BudgetCurrency.from_json(given)


@for_each(
    "wrong",
    [
        {"kind": "pld"},
        {"kind": "rdp"},
        {"kind": "rdp", "orders": [1.0]},
        {"kind": "rdp", "orders": [4.0], "like": SAMPLED},
        {"kind": "zcdp", "orders": [4.0]},
        {"kind": "mu2-plans", "orders": [4.0]},
        {"kind": "gdp", "slack": 1e-6},
        {"kind": "planned-pool", "slack": 1e-6},
        {"kind": "zcdp", "slack": 1e-5},
        {"kind": "zcdp", "blocks_per_unit": 0},
        {"kind": "mu2-plans", "plans": 0},
        {"kind": "zcdp", "unit": "city"},
        {"kind": "zcdp", "neighbours": "twins"},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(InvalidInput):
        budget_currency(epsilon=1.0, delta=1e-5, **wrong)


# Prices.


@for_each(
    "event",
    [
        ev.Gaussian(7.0),
        ev.Laplace(9.0),
        ev.Pure(0.11),
        ev.Poisson(0.02, ev.Gaussian(1.1)),
        ev.Repeat(250, ev.Poisson(0.001, ev.Gaussian(0.8))),
        ev.Compose([ev.Gaussian(40.0), ev.Repeat(3, ev.Laplace(20.0))]),
    ],
)
def test_a_price_is_the_exact_divergence_rounded_up(event):
    orders = (4, 12, 40)
    currency = budget_currency("rdp", 6.0, 1e-5, orders=[float(each) for each in orders])
    for order, budget, units in zip(
        orders, currency.budgets, whole_price(event, currency, "add-remove"), strict=False
    ):
        exact = exact_divergence(event, order) / budget * BUDGET_UNITS
        assert exact <= units
        assert float((units - 4) / exact) <= 1 + 1e-9


def test_a_budget_is_priced_under_its_own_relation_only():
    currency = budget_currency("zcdp", 2.0, 1e-5, neighbours="replace-one")
    price(ev.Gaussian(10.0), currency, "replace-one")
    for relation in ("add-remove", "zero-out"):
        with pytest.raises(InvalidInput, match="kept under replace-one"):
            price(ev.Gaussian(10.0), currency, relation)


@for_each("kind", ["zcdp", "gdp"])
def test_it_prices_as_the_odometer_does(kind):
    currency = budget_currency(kind, 2.0, 1e-5)
    odometer = Odometer(2.0, 1e-5, currency=kind)
    event = ev.Gaussian(17.0)
    many = odometer.remaining_rounds(event)
    cost = int(price(event, currency, "add-remove")[0])
    assert BUDGET_UNITS // cost == many
    odometer.spend(ev.Repeat(40, event))
    reading = odometer.reading().epsilon
    assert epsilon_of(currency, (40 * cost, 0))[0] == pytest.approx(reading, rel=1e-12)


def test_what_is_exhausted_has_spent_everything():
    currency = budget_currency("rdp", 2.0, 1e-5, orders=[8, 30])
    assert epsilon_of(currency, (EXHAUSTED, EXHAUSTED, 0)) == (math.inf, 1e-5)
    assert epsilon_of(currency, (EXHAUSTED, BUDGET_UNITS, 0))[0] <= 2.0 + 1e-12
    assert epsilon_of(currency, (0, 0, EXHAUSTED))[0] == math.inf
    assert left_of(currency, (EXHAUSTED, EXHAUSTED, 0)) == (0.0, 0.0)


@for_each("spent, shown", [((0, 0), 0.0), ((BUDGET_UNITS // 4, 3 * BUDGET_UNITS // 10), 3e-6)])
def test_a_pool_has_spent_its_pairs(spent, shown):
    currency = budget_currency("planned-pool", 2.0, 1e-5)
    epsilon, delta = epsilon_of(currency, spent)
    assert epsilon == 2.0 * spent[0] / BUDGET_UNITS
    assert delta == pytest.approx(shown, rel=1e-12)
    assert left_of(currency, spent) == pytest.approx((2.0 - epsilon, 1e-5 - shown))
