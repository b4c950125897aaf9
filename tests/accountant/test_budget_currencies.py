"""The currencies of an adaptive budget: budgets that just meet the target, prices rounded up."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.curves.concentrated import least_rho
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.errors import Unsupported
from privplan.accountant.odometer import Odometer
from privplan.accountant.odometer.balances import BUDGET_UNITS, EXHAUSTED
from privplan.accountant.odometer.budget_currencies import Gdp, Rdp, Target, Zcdp
from privplan.accountant.odometer.pricing import price

from ..cases import for_each
from .odometers import SAMPLED, budget_at

# The currencies: budgets and prices.


@for_each(("epsilon", "mu"), [(1, 0.268051), (2, 0.501552), (4, 0.924931)])
def test_the_budget_in_mu_is_that_of_the_closed_form(epsilon, mu):
    # Published: the mu of Gaussian privacy at delta 1e-5, six digits.
    (budget,) = Gdp(Target(epsilon, 1e-5)).budgets
    assert math.sqrt(budget) == pytest.approx(mu, abs=6e-7)


@for_each("epsilon", [0.1, 1.0, 8.0])
@for_each("delta", [1e-3, 1e-9])
def test_the_budget_in_rho_just_meets_the_target(epsilon, delta):
    (budget,) = Zcdp(Target(epsilon, delta)).budgets
    rho = mpmath.mpf(budget.numerator) / budget.denominator

    def proven(log_b):
        order = 1 + mpmath.e**log_b
        return rho * order - budget_at(order, 0, delta)

    orders = [mpmath.mpf(place) / 100 for place in range(-300, 900)]
    least = min(proven(log_b) for log_b in orders)
    assert float(least) == pytest.approx(epsilon, rel=1e-4)
    assert float(least) >= epsilon * (1 - 1e-4)
    proof = pp.account(ev.ZCDP(float(budget)), delta=delta, engine="rdp")
    assert epsilon * (1 - 1e-9) <= proof.epsilon.upper <= epsilon


@for_each("orders", [(8.0,), (2.5, 16.0, 200.0)])
def test_the_budget_at_an_order_is_rounded_down(orders):
    epsilon, delta = 3.0, 1e-5
    with mpmath.workdps(50):
        for order, budget in zip(orders, Rdp(Target(epsilon, delta), orders).budgets, strict=True):
            exact = budget_at(mpmath.mpf(order), epsilon, mpmath.mpf(delta) / len(orders))
            found = mpmath.mpf(budget.numerator) / budget.denominator
            assert found <= max(exact, 0)
            assert found >= exact * (1 - mpmath.mpf("1e-12"))


@for_each("epsilon", [1e-3, 0.05, 1.0, 4.0, 20.0])
def test_the_rho_of_laplace_noise_is_the_published_one(epsilon):
    # Harrison and Manurangsi 2025, arXiv 2510.25746: epsilon + e^-epsilon - 1.
    exact = epsilon + math.expm1(-epsilon)
    rho = least_rho(curve(ev.Laplace(1.0 / epsilon), "add-remove"))
    assert exact * (1 - 1e-9) <= rho <= exact * (1 + 2e-5)


@for_each(
    "event",
    [
        ev.Pure(0.3),
        ev.Pure(6.0),
        ev.Exponential(0.02),
        ev.Exponential(3.0),
        ev.RandomizedResponse(2.0, 5),
        ev.DiscreteLaplace(4.0, 3),
        ev.Poisson(0.03, ev.Laplace(0.7)),
    ],
)
def test_rho_bounds_the_curve_at_every_order(event):
    found = curve(event, "add-remove")
    rho = least_rho(found)
    orders = 1.0 + np.exp(np.random.default_rng(3).uniform(-9, 9, 2000))
    assert (np.minimum(found.at(orders), found.limit) <= rho * orders).all()
    assert rho <= found.limit**2 / 2 * (1 + 1e-9)
    near = (found.at(orders) / orders).max()
    assert rho <= near * (1 + 1e-3)


@for_each("relation", ["add-remove", "replace-one", "zero-out"])
def test_gaussian_noise_costs_exactly_what_it_should(relation):
    apart = 2 if relation == "replace-one" else 1
    exact = Fraction(apart) / Fraction(1.7)
    assert Gdp(Target(1.0, 1e-5)).cost(ev.Gaussian(1.7), relation).amounts == (exact**2,)
    for event in (ev.Gaussian(1.7), ev.DiscreteGaussian(1.7, 3)):
        assert Zcdp(Target(1.0, 1e-5)).cost(event, relation).amounts == (exact**2 / 2,)


@for_each("currency", [Zcdp(Target(1.0, 1e-5)), Rdp(Target(1.0, 1e-5), (16.0,))])
def test_prices_are_rounded_up(currency):
    for noise in (0.5, 3.0, 33.3, 1e6, 1e12):
        (parts, slack) = map(int, price(ev.Gaussian(noise), currency, "add-remove"))
        amount = currency.cost(ev.Gaussian(noise), "add-remove").amounts[0]
        exact = amount * BUDGET_UNITS / currency.budgets[0]
        assert slack == 0
        assert parts == EXHAUSTED if exact > BUDGET_UNITS else exact <= parts < exact + 1


@for_each("event", [ev.Pure(1e-300), ev.Exponential(1e-200), ev.RandomizedResponse(1e-180, 2)])
def test_what_shows_anything_costs_something_however_little(event):
    for currency in (Zcdp(Target(1.0, 1e-5)), Rdp(Target(1.0, 1e-5), (16.0, 40.0))):
        assert (price(event, currency, "add-remove")[:-1] >= 1).all()
        assert (price(ev.Pure(0.0), currency, "add-remove") == 0).all()


@for_each("currency", ["zcdp", "gdp"])
def test_what_has_no_price_is_refused_and_says_what_to_do(currency):
    odometer = Odometer(1.0, 1e-5, currency=currency)
    for ask in (odometer.would_exceed, odometer.spend, odometer.remaining_rounds):
        with pytest.raises(Unsupported) as refusal:
            ask(SAMPLED)
        assert "rdp" in refusal.value.next_step
    assert odometer.reading().share == 0.0


def test_mu_squared_is_for_gaussian_noise_only():
    with pytest.raises(Unsupported, match="laplace"):
        Odometer(1.0, 1e-5, currency="gdp").spend(ev.Laplace(10.0))


@for_each("given", [{}, {"currency": "gdp"}, {"currency": "rdp", "orders": [20]}])
def test_what_protects_nobody_never_fits(given):
    odometer = Odometer(1.0, 1e-5, **given)
    assert odometer.would_exceed(ev.NoGuarantee("a raw gradient"))
    assert odometer.remaining_rounds(ev.NoGuarantee("a raw gradient")) == 0
