"""Whole plans in mu^2 and in a pool: the table, and analysts who choose as well as can be."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import pytest
from scipy.special import ndtr

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.odometer import (
    add,
    budget_currency,
    copies,
    epsilon_of,
    price,
    room,
    split_off,
)
from privplan.accountant.odometer.balances import BUDGET_UNITS
from privplan.accountant.odometer.plan_currencies import part_of

from ..cases import for_each

PLAN = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))

TABLE = {
    # n: one joint PLD, sums of pairs, mu^2 of plans
    1: (1.828, 1.828, 1.829),
    2: (2.584, 3.838, 2.718),
    4: (3.723, 8.033, 4.068),
    8: (5.453, 16.771, 6.145),
}


@for_each("plans", list(TABLE))
def test_the_table(plans):
    joint, pairs, squares = TABLE[plans]
    proven = pp.account(ev.Repeat(plans, PLAN), delta=1e-5).epsilon
    assert proven.upper == pytest.approx(joint, abs=1e-3)
    for kind, shown in (("planned-pool", pairs), ("mu2-plans", squares)):
        currency = budget_currency(kind, 20.0, 1e-5, plans=plans)
        cost, spent = price(PLAN, currency, "add-remove"), (0, 0)
        for _ in range(plans):
            assert room(spent, cost)
            spent = add(spent, cost)
        epsilon, delta = epsilon_of(currency, spent)
        assert epsilon == pytest.approx(shown, abs=1e-3)
        assert epsilon >= proven.lower
        assert delta <= 1e-5
        # The part of delta that is for plans is spent, and nothing more is admitted.
        assert not room(spent, cost)


def test_what_several_plans_show_together_lies_below_what_their_squares_promise():
    """Fixed in advance: one of the many ways in which plans may be chosen, and its exact delta."""
    plans = [
        ev.Repeat(200, ev.Poisson(0.02, ev.Gaussian(1.2))),
        ev.Repeat(5, ev.Laplace(8.0)),
        ev.Repeat(40, ev.Poisson(0.1, ev.Gaussian(2.5))),
    ]
    currency = budget_currency("mu2-plans", 4.0, 1e-5, plans=len(plans))
    costs = [price(plan, currency, "add-remove") for plan in plans]
    squares = sum(Fraction(int(cost[0]), BUDGET_UNITS) for cost in costs) * currency.budgets[0]
    together = ev.Compose(plans)
    for epsilon in (0.0, 0.2, 0.5, 1.0, 1.5, 2.0, 2.5):
        truth = pp.account(together, epsilon=epsilon).delta.lower
        assert truth <= 2e-6 + gaussian_delta(math.sqrt(squares), epsilon)
    # And not far below: they are no idle bound.
    proven = pp.account(together, delta=1e-5).epsilon.upper
    spent = tuple(sum(int(cost[i]) for cost in costs) for i in range(2))
    assert proven <= epsilon_of(currency, spent)[0] <= 1.1 * proven


def test_the_table_at_one_renyi_order():
    best = {1: (7.75, 2.101), 2: (6.9, 2.867), 4: (5.57, 4.077), 8: (4.43, 5.927)}
    for plans, (order, shown) in best.items():
        currency = budget_currency("rdp", 20.0, 1e-5, orders=[order])
        cost = int(price(PLAN, currency, "add-remove")[0])
        assert epsilon_of(currency, (plans * cost, 0))[0] == pytest.approx(shown, abs=2e-3)


@for_each("plans", [1, 3, 7, 13, 1000])
@for_each("kind", ["planned-pool", "mu2-plans"])
def test_so_many_plans_fit_as_were_said(kind, plans):
    currency = budget_currency(kind, 1e4, 1e-3, plans=plans)
    cost = price(ev.Pure(0.01), currency, "add-remove")
    assert copies((0, 0), cost) == plans
    for delta in (1e-5, 3.3e-7):
        assert plans * Fraction(part_of(delta, plans)) <= Fraction(delta)


def test_a_plan_of_gaussian_noise_costs_its_squares_exactly_and_no_slack():
    currency = budget_currency("mu2-plans", 2.0, 1e-5, neighbours="replace-one")
    plan = ev.Compose([ev.Repeat(3, ev.Gaussian(30.0)), ev.Gaussian(20.0)])
    exact = (3 * Fraction(4, 900) + Fraction(4, 400)) / currency.budgets[0] * BUDGET_UNITS
    units, slack = map(int, price(plan, currency, "replace-one"))
    assert slack == 0
    assert exact <= units < exact + 1


def test_a_whole_plan_is_charged_and_not_its_releases_one_by_one():
    currency = budget_currency("mu2-plans", 3.0, 1e-5, plans=4)
    whole, single = (int(price(e, currency, "add-remove")[0]) for e in (PLAN, PLAN.event))
    assert whole < 1000 * single / 4


@for_each("kind", ["mu2-plans", "planned-pool"])
def test_what_protects_nobody_never_fits_and_nothing_costs_nothing(kind):
    currency = budget_currency(kind, 100.0, 1e-3)
    raw = ev.Compose([ev.Gaussian(10.0), ev.NoGuarantee("a raw gradient")])
    assert not room((0, 0), price(raw, currency, "add-remove"))
    assert price(ev.Compose([]), currency, "add-remove").tolist() == [0, 0]


def test_a_plan_with_a_delta_above_its_part_of_the_slack_never_fits():
    currency = budget_currency("mu2-plans", 100.0, 1e-3, plans=4)
    assert not room((0, 0), price(ev.Approximate(0.1, 6e-5), currency, "add-remove"))
    assert room((0, 0), price(ev.Approximate(0.1, 4e-5), currency, "add-remove"))


def test_without_a_slack_a_sampled_plan_is_refused():
    currency = budget_currency("mu2-plans", 3.0, 1e-5, slack=0.0)
    with pytest.raises(Unsupported, match="set aside"):
        price(PLAN, currency, "add-remove")
    assert room((0, 0), price(ev.Gaussian(10.0), currency, "add-remove"))


# The best that an analyst can do who looks at every outcome and then chooses.


@dataclass(frozen=True)
class Choice:
    """A mechanism that an analyst may run: (P, Q) of each outcome, and its price."""

    outcomes: tuple[tuple[float, float], ...]
    price: tuple[int, ...]


def binary(epsilon: float) -> tuple[tuple[float, float], ...]:
    high = 1 / (1 + math.exp(-epsilon))
    return ((high, 1 - high), (1 - high, high))


def telling(epsilon: float, delta: float) -> tuple[tuple[float, float], ...]:
    """Return the largest (epsilon, delta)-private pair."""
    rest = tuple(((1 - delta) * p, (1 - delta) * q) for p, q in binary(epsilon))
    return ((delta, 0.0), (0.0, delta), *rest)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return E_P (1 - e^(epsilon - loss))+ of Gaussian noise, at any epsilon."""
    if mu <= 0.0:
        return max(0.0, -math.expm1(epsilon)) if epsilon < 0 else 0.0
    return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu))


def best_delta(
    choices: list[Choice],
    epsilon: float,
    last: Callable[[tuple[int, ...], float], float],
    depth: int,
    spent: tuple[int, ...],
    loss: float = 0.0,
    rule: Callable[[tuple[int, ...], tuple[int, ...]], bool] = room,
) -> float:
    """Return the largest delta at epsilon of an analyst with so much spent and so large a loss.

    `last(spent, epsilon)` is what a last release of Gaussian noise adds that uses up the rest.
    """
    best = last(spent, epsilon - loss)
    for choice in choices if depth else ():
        if not rule(spent, choice.price):
            continue
        after = add(spent, choice.price)
        total = 0.0
        for p, q in choice.outcomes:
            if p == 0.0:
                continue
            if q == 0.0:
                total += p
                continue
            total += p * best_delta(
                choices, epsilon, last, depth - 1, after, loss + math.log(p / q), rule
            )
        best = max(best, total)
    return best


def _priced(currency, events) -> list[Choice]:
    return [
        Choice(outcomes, tuple(price(event, currency, "add-remove").tolist()))
        for event, outcomes in events
    ]


MENU = [
    (ev.Pure(0.5), binary(0.5)),
    (ev.Pure(0.2), binary(0.2)),
    (ev.Approximate(0.3, 0.002), telling(0.3, 0.002)),
]


@for_each("epsilon, delta", [(1.0, 0.05), (2.0, 0.05), (1.5, 0.1)])
def test_no_analyst_exceeds_a_budget_in_mu_squared_of_plans(epsilon, delta):
    currency = budget_currency("mu2-plans", epsilon, delta, plans=4, slack=0.25 * delta)
    budget = float(currency.budgets[0])

    def last(spent, at):
        return gaussian_delta(math.sqrt(max(1 - spent[0] / BUDGET_UNITS, 0.0) * budget), at)

    choices = _priced(currency, MENU)
    assert sum(room((0, 0), choice.price) for choice in choices) >= 2
    most = best_delta(choices, epsilon, last, 4, (0, 0))
    assert most <= delta * (1 + 1e-9)
    # The bound is no idle one: Gaussian noise alone comes as near as the slack leaves.
    assert most >= 0.75 * delta * (1 - 1e-6)


def test_no_analyst_gains_by_interleaving_plans_or_stopping_them():
    """Plans are paid whole and opened as results come in; their releases are made in any order."""
    epsilon, delta = 1.2, 0.04
    currency = budget_currency("mu2-plans", epsilon, delta, plans=3, slack=0.01)
    budget = float(currency.budgets[0])
    kinds = [(0.25, 4), (0.4, 2)]  # the loss of one release, and how many a plan has
    costs = [
        tuple(price(ev.Repeat(count, ev.Pure(loss)), currency, "add-remove").tolist())
        for loss, count in kinds
    ]
    singles = [int(price(ev.Pure(loss), currency, "add-remove")[0]) for loss, _ in kinds]
    assert all(
        cost[0] < count * single
        for cost, single, (_, count) in zip(costs, singles, kinds, strict=True)
    )

    @cache
    def best(steps: tuple[int, ...], pending: tuple[int, ...], spent: tuple[int, ...]) -> float:
        """Return the largest delta: `steps` counts losses of each kind, upward less downward."""
        loss = sum(size * each for (size, _), each in zip(kinds, steps, strict=True))
        left = math.sqrt(max(1 - spent[0] / BUDGET_UNITS, 0.0) * budget)
        most = gaussian_delta(left, epsilon - loss)
        for kind, (size, count) in enumerate(kinds):
            if pending[kind]:
                rest = (*pending[:kind], pending[kind] - 1, *pending[kind + 1 :])
                up = 1 / (1 + math.exp(-size))
                after = [
                    best((*steps[:kind], steps[kind] + sign, *steps[kind + 1 :]), rest, spent)
                    for sign in (1, -1)
                ]
                most = max(most, up * after[0] + (1 - up) * after[1])
            if room(spent, costs[kind]):
                opened = (*pending[:kind], pending[kind] + count, *pending[kind + 1 :])
                most = max(most, best(steps, opened, add(spent, costs[kind])))
        return most

    found = best((0, 0), (0, 0), (0, 0))
    assert 0.5 * delta < found <= delta


def test_the_joint_loss_of_what_was_chosen_is_no_filter_and_ours_are():
    """Each path alone is (3, 0.001)-private; whoever picks the path reaches twice that delta."""
    kinds, epsilon, delta, most_runs = (0.5, 0.15), 3.0, 1e-3, (6, 60)

    def best(admitted: Callable[[tuple[int, int]], bool]) -> float:
        @cache
        def after(runs: tuple[int, int], steps: tuple[int, int]) -> float:
            loss = sum(size * each for size, each in zip(kinds, steps, strict=True))
            most = max(0.0, -math.expm1(epsilon - loss))
            for kind, size in enumerate(kinds):
                more = (runs[0] + (kind == 0), runs[1] + (kind == 1))
                if more[kind] > most_runs[kind] or not admitted(more):
                    continue
                up = 1 / (1 + math.exp(-size))
                ends = [
                    after(more, (steps[0] + sign * (kind == 0), steps[1] + sign * (kind == 1)))
                    for sign in (1, -1)
                ]
                most = max(most, up * ends[0] + (1 - up) * ends[1])
            return most

        return after((0, 0), (0, 0))

    @cache
    def joint(runs: tuple[int, int]) -> float:
        """Return the exact delta of so many releases, were they fixed beforehand."""
        total = 0.0
        for ups in itertools.product(*(range(each + 1) for each in runs)):
            mass, loss = 1.0, 0.0
            for size, count, up in zip(kinds, runs, ups, strict=True):
                high = 1 / (1 + math.exp(-size))
                mass *= math.comb(count, up) * high**up * (1 - high) ** (count - up)
                loss += size * (2 * up - count)
            total += mass * max(0.0, -math.expm1(epsilon - loss))
        return total

    assert best(lambda runs: joint(runs) <= delta) > 2 * delta
    for kind, given in (("zcdp", {}), ("rdp", {"orders": [9]}), ("mu2-plans", {"plans": 70})):
        currency = budget_currency(kind, epsilon, delta, **given)
        costs = [price(ev.Pure(size), currency, "add-remove").tolist() for size in kinds]

        def admitted(runs, costs=costs):
            spent = [sum(n * c[i] for n, c in zip(runs, costs, strict=True)) for i in (0, 1)]
            return max(spent) <= BUDGET_UNITS

        assert 0.0 < best(admitted) <= delta


def test_a_mu_that_is_right_at_one_epsilon_only_lets_an_analyst_overspend():
    """Broken: where its mu is that of one epsilon, a small loss costs next to nothing."""
    epsilon, delta = 1.0, 0.02
    currency = budget_currency("mu2-plans", epsilon, delta, plans=4)
    budget = float(currency.budgets[0])

    def last(spent, at):
        return gaussian_delta(math.sqrt(max(1 - spent[0] / BUDGET_UNITS, 0.0) * budget), at)

    ours = _priced(currency, [MENU[0]])
    # delta of Pure(0.5) is 0 at epsilon 1, which every mu has.
    broken = [Choice(choice.outcomes, (1, 0)) for choice in ours]
    assert best_delta(broken, epsilon, last, 4, (0, 0)) > 2 * delta
    assert best_delta(ours, epsilon, last, 4, (0, 0)) <= delta


def test_a_slack_that_is_not_charged_lets_an_analyst_overspend():
    epsilon, delta = 1.0, 0.02
    currency = budget_currency("mu2-plans", epsilon, delta, plans=2, slack=0.01)
    event = ev.Approximate(0.01, 0.0045)
    (ours,) = _priced(currency, [(event, telling(0.01, 0.0045))])
    broken = Choice(ours.outcomes, (ours.price[0], 0))
    most = [best_delta([each], epsilon, lambda *_: 0.0, 6, (0, 0)) for each in (ours, broken)]
    assert most[0] <= 0.01 * (1 + 1e-9)
    assert most[1] > delta


@for_each("pool_first", [True, False])
def test_no_analyst_exceeds_a_pool_beside_another_budget(pool_first):
    """Both are spent as results come in, interleaved: together they promise their sums."""
    whole = budget_currency("zcdp", 1.5, 0.04)
    rest, pool = split_off(whole, 0.6, 0.015, plans=2)
    budget = float(rest.budgets[0])
    part = part_of(pool.target.delta, 2)
    pooled = _priced(
        pool, [(ev.Approximate(0.3, part), telling(0.3, part)), (ev.Pure(0.2), binary(0.2))]
    )
    kept = _priced(rest, [(ev.Pure(0.4), binary(0.4)), (ev.Pure(0.2), binary(0.2))])
    # One vector for both: entries 0 and 1 of the rest, 2 and 3 of the pool.
    choices = [Choice(c.outcomes, (*c.price, 0, 0)) for c in kept]
    choices += [Choice(c.outcomes, (0, 0, *c.price)) for c in pooled]
    if pool_first:
        choices.reverse()

    def rule(spent, cost):
        return room(spent[:2], cost[:2]) and room(spent[2:], cost[2:])

    def last(spent, at):
        rho = max(1 - spent[0] / BUDGET_UNITS, 0.0) * budget
        return gaussian_delta(math.sqrt(2 * rho), at)

    most = best_delta(choices, 1.5, last, 4, (0, 0, 0, 0), rule=rule)
    assert most <= 0.04
    # What the deltas of both add up to is needed: neither alone would be enough.
    assert most > 0.015


@for_each("epsilon, delta", [(1.0, 1e-6), (0.3, 4e-6)])
def test_a_split_adds_up_to_the_whole_and_never_to_more(epsilon, delta):
    for kind, given in (("zcdp", {}), ("rdp", {"orders": [24]}), ("mu2-plans", {"plans": 3})):
        whole = budget_currency(kind, 3.0, 1e-5, "replace-one", "user", **given)
        rest, pool = split_off(whole, epsilon, delta, plans=2)
        assert Fraction(rest.target.epsilon) + Fraction(pool.target.epsilon) <= 3
        assert Fraction(rest.target.delta) + Fraction(pool.target.delta) <= Fraction(1e-5)
        assert (rest.kind, rest.neighbours, rest.unit) == (kind, "replace-one", "user")
        assert (pool.kind, pool.neighbours, pool.unit) == ("planned-pool", "replace-one", "user")
        assert rest.budgets[0] < whole.budgets[0]


@for_each("epsilon, delta", [(3.0, 1e-6), (1.0, 1e-5), (1.0, 0.99e-5), (-1.0, 1e-6), (1.0, 0.0)])
def test_a_split_that_leaves_nothing_is_refused(epsilon, delta):
    whole = budget_currency("mu2-plans", 3.0, 1e-5)
    with pytest.raises(InvalidInput):
        split_off(whole, epsilon, delta)
    with pytest.raises(InvalidInput):
        split_off(budget_currency("planned-pool", 3.0, 1e-5), 1.0, 1e-6)
