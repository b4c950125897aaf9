"""What would fit of an event that does not: every value is admitted, and hardly more would be."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import Unsupported
from privplan.accountant.odometer import Fit, budget_currency, fitting, price, room
from privplan.accountant.odometer.balances import BUDGET_UNITS, EXHAUSTED

from ..cases import for_each

ROUND = ev.Poisson(0.01, ev.Gaussian(1.0))
PLAN = ev.Repeat(1000, ROUND)


def with_rate(rate):
    return ev.Repeat(1000, ev.Poisson(rate, ev.Gaussian(1.0)))


def with_noise(noise):
    return ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(noise)))


@for_each(
    "given, epsilon, spent",
    [
        ({"kind": "rdp", "like": ROUND}, 1.5, (0, 0)),
        ({"kind": "rdp", "orders": [4, 12, 30]}, 3.0, (EXHAUSTED, 3 * 10**14, 10**13, 0)),
        ({"kind": "planned-pool", "plans": 4}, 1.5, (10**14, 0)),
        pytest.param(
            {"kind": "mu2-plans", "plans": 4},
            1.5,
            (2 * 10**14, 25 * 10**13),
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_value_is_admitted_and_a_hundredth_more_is_not(given, epsilon, spent):
    currency = budget_currency(epsilon=epsilon, delta=1e-5, **given)

    def fits(event):
        return room(spent, price(event, currency, "add-remove"))

    assert not fits(PLAN)
    found = fitting(PLAN, currency, "add-remove", spent)
    assert found.count >= 1
    assert fits(ev.Repeat(found.count, ROUND))
    assert not fits(ev.Repeat(found.count + 1 + found.count // 100, ROUND))
    assert found.rate < 0.01
    assert fits(with_rate(found.rate))
    assert not fits(with_rate(1.01 * found.rate))
    assert found.noise_multiplier > 1.0
    assert fits(with_noise(found.noise_multiplier))
    assert not fits(with_noise(found.noise_multiplier / 1.01))


def test_random_balances_are_never_told_what_would_not_fit():
    pick = random.Random(5)
    currencies = [
        budget_currency("zcdp", 1.0, 1e-5, slack=1e-6),
        budget_currency("gdp", 1.0, 1e-5),
        budget_currency("rdp", 3.0, 1e-5, orders=[6, 20]),
    ]
    told = 0
    for _ in range(60):
        currency = pick.choice(currencies)
        rows = [
            pick.choice([0, BUDGET_UNITS, EXHAUSTED, pick.randrange(BUDGET_UNITS)])
            for _ in currency.budgets
        ]
        spent = (*rows, 0)
        event = ev.Repeat(pick.randint(1, 50), ev.Gaussian(pick.uniform(1.0, 60.0)))
        found = fitting(event, currency, "add-remove", spent)
        if found.count:
            assert room(spent, price(ev.Repeat(found.count, event.event), currency, "add-remove"))
        more = ev.Repeat(found.count + 1, event.event)
        assert not room(spent, price(more, currency, "add-remove"))
        if found.noise_multiplier is not None:
            told += 1
            quieter = ev.Repeat(event.count, ev.Gaussian(found.noise_multiplier))
            assert room(spent, price(quieter, currency, "add-remove"))
    assert told > 20


def test_where_nothing_is_left_nothing_fits():
    currency = budget_currency("rdp", 3.0, 1e-5, orders=[6, 20])
    for spent in ((EXHAUSTED, EXHAUSTED, 0), (0, 0, EXHAUSTED), (BUDGET_UNITS, BUDGET_UNITS, 0)):
        found = fitting(PLAN, currency, "add-remove", spent)
        assert found == Fit(0, None, None)
        assert found.to_json() == {"count": 0}


def test_what_fits_already_may_be_told_more():
    currency = budget_currency("rdp", 3.0, 1e-5, orders=[8])
    found = fitting(ev.Poisson(0.5, ev.Gaussian(40.0)), currency, "add-remove", (0, 0))
    assert found.rate == 1.0
    assert found.noise_multiplier < 40.0
    assert found.count > 1


def test_an_event_of_several_rates_or_noises_names_none():
    currency = budget_currency("rdp", 1.0, 1e-5, orders=[30])
    event = ev.Compose([ROUND, ev.Poisson(0.02, ev.Gaussian(2.0)), ev.Pure(3.0)])
    assert fitting(event, currency, "add-remove", (0, 0)) == Fit(0, None, None)
    alike = ev.Compose([ROUND, replace(ROUND, event=ev.Laplace(1.0))])
    found = fitting(alike, currency, "add-remove", (0, 0))
    assert found.rate < 0.01
    noises = (ev.Gaussian(1.0), ev.Laplace(1.0))
    both = ev.Compose([ev.Poisson(found.rate, noise) for noise in noises])
    assert room((0, 0), price(both, currency, "add-remove"))


def test_the_work_is_limited():
    currency = budget_currency("planned-pool", 1.0, 1e-5)
    prices = []

    class Counted:
        def __getattr__(self, name):
            return getattr(currency, name)

        def __hash__(self):
            return 1

        def cost(self, event, relation):
            prices.append(event)
            return currency.cost(event, relation)

    fitting(PLAN, Counted(), "add-remove", (0, 0), most_prices=2)
    assert len(prices) <= 1 + 3 * (2 + 9)


def test_an_event_without_a_price_is_refused_as_it_is_when_claimed():
    with pytest.raises(Unsupported):
        fitting(PLAN, budget_currency("gdp", 1.0, 1e-5), "add-remove", (0, 0))
