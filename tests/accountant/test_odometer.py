"""The odometer: it refuses before the budget is exceeded, on every path, and says how it knows."""

from __future__ import annotations

import math
import random
import threading
from dataclasses import dataclass, field
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.engines.rdp.curves import Curve, curve
from privplan.accountant.engines.rdp.moments import Pair, renyi
from privplan.accountant.errors import BudgetExceeded, InvalidInput, Unsupported
from privplan.accountant.odometer import Odometer
from privplan.accountant.odometer.budget_currencies import Gdp, Rdp, Target, Zcdp
from privplan.accountant.odometer.unit_balances import BUDGET_UNITS, EXHAUSTED, Balances, price
from privplan.accountant.odometer.zcdp_rho import least_rho
from privplan.accountant.plan import Phase

from ..sweeps import sweep

SAMPLED = ev.Poisson(0.01, ev.Gaussian(1.0))


@dataclass(frozen=True)
class Points(ev.Event):
    """Two distributions on finitely many outcomes; known to the tests only."""

    type = "test-points"
    p: tuple[float, ...] = field(metadata={"check": lambda p: tuple(p)})
    q: tuple[float, ...] = field(metadata={"check": lambda q: tuple(q)})


@curve.register(Points)
def _points(event, neighbours):
    del neighbours
    p, q = (np.log(np.array(side, dtype=np.float64)) for side in (event.p, event.q))
    there, back = Pair(q, p - q), Pair(p, q - p)
    return Curve(
        at=lambda orders: np.maximum(renyi(there, orders), renyi(back, orders)),
        limit=float(np.abs(p - q).max()),
        steps=(),
    )


def budget_at(order, epsilon, delta):
    """Return the largest R(order) that gives (epsilon, delta)."""
    b = mpmath.mpf(order) - 1
    log = mpmath.log
    return epsilon + (log(delta) + log(order)) / b + log(order / b)


def divergence(order, p, q):
    """Return the larger of the two Renyi divergences."""

    def one(p, q):
        total = sum(x**order * y ** (1 - order) for x, y in zip(p, q, strict=True))
        return mpmath.log(total) / (order - 1)

    return max(one(p, q), one(q, p))


# The currencies: budgets and prices.


@pytest.mark.parametrize(("epsilon", "mu"), [(1, 0.268051), (2, 0.501552), (4, 0.924931)])
def test_the_budget_in_mu_is_that_of_the_closed_form(epsilon, mu):
    # Published: the mu of Gaussian privacy at delta 1e-5, six digits.
    (budget,) = Gdp(Target(epsilon, 1e-5)).budgets
    assert math.sqrt(budget) == pytest.approx(mu, abs=6e-7)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
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


@pytest.mark.parametrize("orders", [(8.0,), (2.5, 16.0, 200.0)])
def test_the_budget_at_an_order_is_rounded_down(orders):
    epsilon, delta = 3.0, 1e-5
    with mpmath.workdps(50):
        for order, budget in zip(orders, Rdp(Target(epsilon, delta), orders).budgets, strict=True):
            exact = budget_at(mpmath.mpf(order), epsilon, mpmath.mpf(delta) / len(orders))
            found = mpmath.mpf(budget.numerator) / budget.denominator
            assert found <= max(exact, 0)
            assert found >= exact * (1 - mpmath.mpf("1e-12"))


@pytest.mark.parametrize("epsilon", [1e-3, 0.05, 1.0, 4.0, 20.0])
def test_the_rho_of_laplace_noise_is_the_published_one(epsilon):
    # Harrison and Manurangsi 2025, arXiv 2510.25746: epsilon + e^-epsilon - 1.
    exact = epsilon + math.expm1(-epsilon)
    rho = least_rho(curve(ev.Laplace(1.0 / epsilon), "add-remove"))
    assert exact * (1 - 1e-9) <= rho <= exact * (1 + 2e-5)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("relation", ["add-remove", "replace-one", "zero-out"])
def test_gaussian_noise_costs_exactly_what_it_should(relation):
    apart = 2 if relation == "replace-one" else 1
    exact = Fraction(apart) / Fraction(1.7)
    assert Gdp(Target(1.0, 1e-5)).cost(ev.Gaussian(1.7), relation).amounts == (exact**2,)
    for event in (ev.Gaussian(1.7), ev.DiscreteGaussian(1.7, 3)):
        assert Zcdp(Target(1.0, 1e-5)).cost(event, relation).amounts == (exact**2 / 2,)


@pytest.mark.parametrize("currency", [Zcdp(Target(1.0, 1e-5)), Rdp(Target(1.0, 1e-5), (16.0,))])
def test_prices_are_rounded_up(currency):
    for noise in (0.5, 3.0, 33.3, 1e6, 1e12):
        (parts, slack) = map(int, price(ev.Gaussian(noise), currency, "add-remove"))
        amount = currency.cost(ev.Gaussian(noise), "add-remove").amounts[0]
        exact = amount * BUDGET_UNITS / currency.budgets[0]
        assert slack == 0
        assert parts == EXHAUSTED if exact > BUDGET_UNITS else exact <= parts < exact + 1


@pytest.mark.parametrize("currency", ["zcdp", "gdp"])
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


@pytest.mark.parametrize("given", [{}, {"currency": "gdp"}, {"currency": "rdp", "orders": [20]}])
def test_what_protects_nobody_never_fits(given):
    odometer = Odometer(1.0, 1e-5, **given)
    assert odometer.would_exceed(ev.NoGuarantee("a raw gradient"))
    assert odometer.remaining_rounds(ev.NoGuarantee("a raw gradient")) == 0


# What fully adaptive spending may do: every path through trees of releases.


def test_the_naive_filter_admits_what_breaks_the_promise_and_ours_does_not():
    """The counterexample: a coin with loss .25, then order 64 on one branch and 6 on the other."""
    epsilon, delta, rare = 3.0, 1e-5, 1e-3
    with mpmath.workdps(40):
        coin = ((rare, 1 - rare), (rare * math.exp(-0.25), 1 - rare * math.exp(-0.25)))
        losses = [math.log(p / q) for p, q in zip(*coin, strict=True)]
        seconds = [
            _worst_at(order, epsilon - loss, budget_at(order, epsilon, delta) - spent)
            for order, loss in zip((64, 6), losses, strict=True)
            for spent in (divergence(order, *coin),)
        ]
        for second, kept, lost in ((seconds[0], 64, 6), (seconds[1], 6, 64)):
            total = {
                order: divergence(order, *coin) + divergence(order, *second) for order in (6, 64)
            }
            assert total[kept] <= budget_at(kept, epsilon, delta)  # "some order fits": admitted
            assert total[lost] > budget_at(lost, epsilon, delta)
        assert float(_true_delta(coin, seconds, epsilon)) == pytest.approx(1.994e-5, rel=1e-3)

    first, after = Points(*coin), [Points(*second) for second in seconds]
    for orders in ([64], [6], [6, 64]):
        admitted = []
        for second in after:
            odometer = Odometer(epsilon, delta, currency="rdp", orders=orders)
            odometer.spend(first)
            admitted.append(not odometer.would_exceed(second))
        assert admitted != [True, True]
        made = [
            second if fits else ((1.0,), (1.0,))
            for second, fits in zip(seconds, admitted, strict=True)
        ]
        assert _true_delta(coin, made, epsilon) <= delta


def _worst_at(order, epsilon, left):
    """Return the two-point pair with R(order) <= left whose delta at epsilon is largest."""
    loss = mpmath.mpf(epsilon) + mpmath.log(mpmath.mpf(order) / (order - 1))

    def pair(mass):
        return ((mass, 1 - mass), (mass * mpmath.e**-loss, 1 - mass * mpmath.e**-loss))

    low, high = mpmath.mpf("1e-12"), 1 - mpmath.mpf("1e-12")
    for _ in range(120):
        mass = (low + high) / 2
        low, high = (mass, high) if divergence(order, *pair(mass)) <= left else (low, mass)
    return pair(low * (1 - mpmath.mpf("1e-9")))


def _true_delta(first, seconds, epsilon):
    """Return the exact delta of a first release and the one chosen by its outcome."""
    total = mpmath.mpf(0)
    for p, q, (p_next, q_next) in zip(*first, seconds, strict=True):
        for x, y in zip(p_next, q_next, strict=True):
            total += max(0, p * x - mpmath.exp(epsilon) * q * y)
    return total


def _tree(make, epsilon, depth, pick):
    """Return the exact delta of an analyst who looks at every outcome and takes what is admitted.

    `make(path)` returns an odometer on which `path` has been spent; so no state is shared.
    """
    choices = [
        Points((x, 1 - x), (y, 1 - y))
        for x, y in ((pick.uniform(0.01, 0.6), pick.uniform(0.01, 0.6)) for _ in range(12))
    ]

    def walk(path, p, q, left):
        now = make(path)
        fitting = [one for one in choices if not now.would_exceed(one)]
        if not left or not fitting:
            return max(0.0, p - math.exp(epsilon) * q)
        # The release that is worst after this path at this depth: greedy, and path-dependent.
        costly = max(fitting, key=lambda one: abs(math.log(one.p[0] / one.q[0])) * pick.random())
        return math.fsum(
            walk((*path, costly), p * x, q * y, left - 1)
            for x, y in zip(costly.p, costly.q, strict=True)
        )

    return walk((), 1.0, 1.0, depth)


@pytest.mark.parametrize(
    "given",
    [
        {"currency": "zcdp"},
        {"currency": "rdp", "orders": (3.0,)},
        {"currency": "rdp", "orders": (2.0, 4.0, 12.0)},
    ],
)
@pytest.mark.parametrize("trees", sweep([3, 8], quick=1))
def test_no_adaptive_tree_of_releases_exceeds_the_promise(given, trees):
    epsilon, delta = 1.0, 0.08
    used = 0.0
    for seed in range(trees):
        pick = random.Random(seed)

        def make(path):
            odometer = Odometer(epsilon, delta, **given)
            for event in path:
                odometer.spend(event)
            return odometer

        found = _tree(make, epsilon, 4, pick)
        assert found <= delta * (1 + 1e-12)
        used = max(used, found)
    assert used > 0.0  # the trees do reach beyond epsilon


def test_gaussian_noise_chosen_by_results_keeps_its_promise():
    """By quadrature: the second mu depends on the first result, on both sides of a threshold."""
    epsilon, delta = 1.0, 1e-3
    (budget,) = Gdp(Target(epsilon, delta)).budgets
    whole = float(budget)
    x = np.linspace(-12.0, 12.0, 200_001)
    density = np.exp(-(x**2) / 2.0) / math.sqrt(2.0 * math.pi)  # of Q
    largest = 0.0
    for share in (0.2, 0.5, 0.8):
        first = math.sqrt(share * whole)
        loss = first * x - first**2 / 2.0
        for threshold in (-1.0, 0.0, 1.0):
            for low, high in ((0.0, 1.0), (1.0, 0.0), (0.5, 1.0), (1.0, 1.0)):
                left = (1.0 - share) * whole * np.where(x < threshold, low, high)
                mu = np.sqrt(np.maximum(left, 1e-12))
                rest = epsilon - loss
                inner = np.exp(loss) * _cdf(mu / 2 - rest / mu) - np.exp(epsilon) * _cdf(
                    -mu / 2 - rest / mu
                )
                total = float((density * np.maximum(inner, 0.0)).sum() * (x[1] - x[0]))
                assert total <= delta * (1 + 1e-6)
                largest = max(largest, total)
    assert largest > 0.999 * delta  # spending all of it is tight


def _cdf(x):
    from scipy.special import ndtr

    return ndtr(x)


# The odometer as a ledger.

KINDS = [
    {"currency": "zcdp"},
    {"currency": "gdp"},
    {"currency": "rdp", "orders": [12.0]},
    {"currency": "rdp", "orders": [4.0, 12.0, 40.0]},
    {"currency": "rdp", "like": ev.Gaussian(30.0)},
]


@pytest.mark.parametrize("given", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_random_spending_never_exceeds_and_refusals_change_nothing(given, seed):
    odometer = Odometer(2.0, 1e-5, **given)
    pick, made, refused = random.Random(seed), [], 0
    for _ in range(120):
        event = ev.Gaussian(math.exp(pick.uniform(0.5, 4.5)))
        before = odometer.reading()
        if pick.random() < 0.2:
            event = ev.Repeat(pick.randint(1, 40), event)
        exceeds = odometer.would_exceed(event)
        assert exceeds == (odometer.remaining_rounds(event) == 0)
        assert odometer.reading() == before
        if exceeds:
            with pytest.raises(BudgetExceeded):
                odometer.spend(event)
            assert odometer.reading() == before
            refused += 1
        else:
            odometer.spend(event)
            made.append(event)
            assert odometer.reading().share >= before.share
            assert odometer.reading().epsilon <= 2.0
    assert made
    assert refused
    # The fixed plan of what was made proves no more than what was promised.
    assert pp.account(ev.Compose(made), delta=1e-5).epsilon.upper <= 2.0
    assert odometer.spent().epsilon.upper == 2.0


@pytest.mark.parametrize("given", KINDS)
def test_the_order_of_spending_and_repeats_do_not_matter(given):
    events = [ev.Gaussian(noise) for noise in (20.0, 33.3, 47.1, 80.9, 20.0, 20.0)]
    readings = []
    for order in (
        events,
        events[::-1],
        [ev.Compose(events)],
        [ev.Repeat(3, events[0]), *events[1:4]],
    ):
        odometer = Odometer(2.0, 1e-5, **given)
        for event in order:
            odometer.spend(event)
        readings.append(odometer.reading())
    assert len(set(readings)) == 1


@pytest.mark.parametrize("given", KINDS)
@pytest.mark.parametrize("event", [ev.Gaussian(40.0), ev.Repeat(7, ev.Gaussian(90.0))])
def test_remaining_rounds_are_exactly_what_fits(given, event):
    odometer = Odometer(2.0, 1e-5, **given)
    odometer.spend(ev.Gaussian(25.0))
    rounds = odometer.remaining_rounds(event)
    assert rounds > 1
    assert not odometer.would_exceed(ev.Repeat(rounds, event))
    assert odometer.would_exceed(ev.Repeat(rounds + 1, event))
    odometer.spend(ev.Repeat(rounds - 1, event))
    assert odometer.remaining_rounds(event) == 1
    odometer.spend(event)
    assert odometer.remaining_rounds(event) == 0
    assert odometer.would_exceed(event)


def test_what_costs_nothing_fits_for_ever():
    odometer = Odometer(1.0, 1e-5)
    assert odometer.remaining_rounds(ev.Pure(0.0)) == 10**15
    odometer.spend(ev.Repeat(10**12, ev.Pure(0.0)))
    assert odometer.reading().epsilon == 0.0


@pytest.mark.parametrize("given", KINDS)
def test_nothing_spent_reads_as_nothing(given):
    assert Odometer(2.0, 1e-5, **given).reading().epsilon == 0.0


def test_the_chosen_order_admits_at_least_as_many_as_any_other():
    most = Odometer(2.0, 1e-5, currency="rdp", like=SAMPLED).remaining_rounds(SAMPLED)
    for order in (1.5, 3.0, 6.0, 9.0, 20.0, 64.0):
        try:
            other = Odometer(2.0, 1e-5, currency="rdp", orders=[order])
        except InvalidInput:
            continue
        assert other.remaining_rounds(SAMPLED) <= 1.01 * most
    fixed = pp.calibrate(
        lambda rounds: ev.Repeat(rounds, SAMPLED), epsilon=2.0, delta=1e-5, unknown="rounds"
    )
    assert 0.5 * fixed.value < most < fixed.value  # adaptivity costs something, not everything


def test_the_gaussian_filter_costs_nothing_beside_a_fixed_plan():
    event = ev.Gaussian(40.0)
    fixed = pp.calibrate(
        lambda rounds: ev.Repeat(rounds, event), epsilon=2.0, delta=1e-5, unknown="rounds"
    )
    assert Odometer(2.0, 1e-5, currency="gdp").remaining_rounds(event) == fixed.value


def test_groups_cost_what_a_group_event_costs():
    event = ev.Gaussian(100.0)
    many = Odometer(2.0, 1e-5, currency="gdp", unit="patient", size=4)
    plain = Odometer(2.0, 1e-5, currency="gdp")
    assert many.remaining_rounds(event) == plain.remaining_rounds(ev.Gaussian(25.0 * (1 - 1e-15)))
    assert many.spent().unit == "group of 4 patients"


def test_a_release_with_its_own_delta_needs_slack():
    event = ev.Approximate(0.1, 2e-6)
    assert Odometer(1.0, 1e-5).would_exceed(event)
    odometer = Odometer(1.0, 1e-5, slack=5e-6)
    assert odometer.remaining_rounds(event) == 2
    assert Odometer(1.0, 1e-5).remaining_rounds(ev.Pure(0.1)) >= odometer.remaining_rounds(
        ev.Pure(0.1)
    )
    odometer.spend(ev.Repeat(2, event))
    assert odometer.would_exceed(event)
    assert not odometer.would_exceed(ev.Pure(0.01))
    assert "5e-06" in odometer.spent().derivation[-1].statement


# Observers and units.


def test_every_observer_has_a_balance():
    odometer = Odometer(1.0, 1e-5, currency="gdp", observers=("model", "server"))
    event = ev.Gaussian(10.0)
    odometer.spend(ev.Repeat(5, event), observers=["server"])
    assert odometer.remaining_rounds(event, observers=["model"]) == 7
    assert odometer.remaining_rounds(event, observers=["server"]) == 2
    assert odometer.remaining_rounds(event) == 2
    with pytest.raises(BudgetExceeded, match="server"):
        odometer.spend(ev.Repeat(3, event))
    assert odometer.reading("model").epsilon == 0.0  # nobody was charged by the refusal
    assert odometer.spent().observer == "server"
    assert odometer.spent("model").observer == "model"
    with pytest.raises(InvalidInput, match="observer"):
        odometer.spend(event, observers=["modle"])


def test_every_unit_has_a_balance_on_top_of_what_touches_all():
    odometer = Odometer(1.0, 1e-5, unit="user", currency="gdp")
    event = ev.Gaussian(10.0)
    odometer.spend(ev.Repeat(2, event))
    odometer.spend(ev.Repeat(4, event), units=["ann", "bo"])
    odometer.spend(event, units=["bo"])
    assert odometer.remaining_rounds(event, units=["ann"]) == 1
    assert odometer.remaining_rounds(event, units=["bo"]) == 0
    assert odometer.remaining_rounds(event, units=["cy"]) == 5
    assert odometer.remaining_rounds(event, units=["cy", "ann"]) == 1
    assert odometer.remaining_rounds(event) == 0
    assert odometer.would_exceed(event)
    odometer.spend(event, units=["cy", "ann"])
    assert odometer.reading(unit="bo") == odometer.reading(unit="ann") == odometer.reading()
    assert odometer.reading(unit="cy").share < odometer.reading(unit="ann").share
    assert odometer.spent().unit == "user"


def test_balances_of_many_units_are_those_of_one_at_a_time():
    pick, many = random.Random(1), Balances(2)
    names = [f"u{i}" for i in range(60)]
    slow = dict.fromkeys(names, (0, 0, 0))
    for _ in range(300):
        cost = np.array(
            [pick.randrange(BUDGET_UNITS // 20), pick.randrange(BUDGET_UNITS // 9), 0], np.int64
        )
        units = None if pick.random() < 0.02 else pick.sample(names, pick.randint(1, 20))
        concerned = names if units is None else units
        after = {
            name: tuple(a + int(b) for a, b in zip(slow[name], cost, strict=True))
            for name in concerned
        }
        fits = all(min(one[:2]) <= BUDGET_UNITS for one in after.values())
        assert many.admits(cost, units) == fits
        if fits:
            many.add(cost, units)
            slow |= after
        assert (many.rounds(cost, [names[0]]) > 0) == many.admits(cost, [names[0]])
    kept = np.minimum(np.array([slow[name] for name in names]), EXHAUSTED)
    assert (np.minimum(many.spent(names), EXHAUSTED) == kept).all()


def test_threads_together_never_exceed():
    odometer = Odometer(2.0, 1e-5, currency="gdp")
    event, granted = ev.Gaussian(150.0), []
    room = odometer.remaining_rounds(event)

    def worker():
        for _ in range(room // 4):
            try:
                odometer.spend(event)
            except BudgetExceeded:
                continue
            granted.append(1)

    threads = [threading.Thread(target=worker) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(granted) == room
    assert odometer.would_exceed(event)


# What it says.


@pytest.mark.parametrize("given", KINDS)
def test_the_guarantee_is_the_whole_budget_and_says_its_mode(given):
    odometer = Odometer(2.0, 1e-5, "replace-one", **given)
    before = odometer.spent()
    odometer.spend(ev.Gaussian(50.0))
    after = odometer.spent()
    assert before == after
    assert odometer.mode == "adaptive"
    assert (after.epsilon.lower, after.epsilon.upper, after.delta.upper) == (0.0, 2.0, 1e-5)
    assert after.neighbours == "replace-one"
    assert after.derivation[0].statement.startswith("Adaptive mode:")
    assert after.derivation[0].conditions
    reading = odometer.reading()
    assert 0.0 < reading.epsilon < 2.0
    assert 0.0 < reading.share < 1.0
    assert "not a guarantee" in reading.note


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.inf}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"neighbours": "add"}, "neighbours"),
        ({"currency": "pld"}, "currency"),
        ({"currency": "rdp"}, "before the first release"),
        ({"currency": "rdp", "orders": [4], "like": SAMPLED}, "before the first release"),
        ({"currency": "rdp", "orders": []}, "orders"),
        ({"currency": "rdp", "orders": [1.0]}, "above 1"),
        ({"currency": "rdp", "orders": [math.inf]}, "order"),
        ({"currency": "rdp", "orders": [1.5]}, "leaves nothing to spend"),
        ({"orders": [4]}, "Renyi order"),
        ({"slack": 1e-5}, "slack"),
        ({"slack": -1e-6}, "slack"),
        ({"slack": 1e-6, "currency": "gdp"}, "slack"),
        ({"size": 0}, "size"),
        ({"observers": []}, "observers"),
        ({"observers": "model"}, "observers"),
        ({"unit": ""}, "unit"),
    ],
)
def test_bad_input_is_refused(given, said):
    with pytest.raises(InvalidInput, match=said):
        Odometer(**{"epsilon": 1.0, "delta": 1e-5, **given})


def test_what_is_no_event_is_refused():
    odometer = Odometer(1.0, 1e-5)
    for wrong in (None, "gaussian", ev.Gaussian, ev.Event()):
        with pytest.raises(InvalidInput, match="event"):
            odometer.spend(wrong)
    with pytest.raises(InvalidInput, match="units"):
        odometer.spend(ev.Gaussian(30.0), units="ann")


# The planned mode.


def small_plan():
    return pp.plan(
        [
            Phase("clip", ev.Gaussian, 2, observer=("model", "server")),
            Phase("train", lambda noise: ev.Poisson(0.1, ev.Gaussian(noise)), 30),
        ],
        epsilon=2.0,
        delta=1e-5,
    )


def test_a_plan_is_followed_in_order_and_then_over():
    plan = small_plan()
    odometer = Odometer.for_plan(plan)
    clip, train = (phase.event for phase in plan.phases)
    assert odometer.mode == "planned"
    assert odometer.would_exceed(train)
    assert not odometer.would_exceed(clip)
    with pytest.raises(BudgetExceeded, match="not the next one"):
        odometer.spend(train)
    assert odometer.remaining_rounds(clip) == 2
    odometer.spend(clip)
    with pytest.raises(BudgetExceeded):
        odometer.spend(ev.Repeat(2, clip))
    with pytest.raises(BudgetExceeded):
        odometer.spend(ev.Gaussian(clip.noise_multiplier * 2))  # more noise is not the plan either
    odometer.spend(clip)
    assert odometer.remaining_rounds(clip) == 0
    assert odometer.remaining_rounds(train) == 30
    odometer.spend(ev.Repeat(29, train))
    odometer.spend(train)
    assert odometer.remaining_rounds(train) == 0
    with pytest.raises(BudgetExceeded, match="carried out"):
        odometer.spend(train)


def test_a_plan_is_read_tightly_and_guaranteed_as_a_whole():
    plan = small_plan()
    odometer = Odometer.for_plan(plan)
    whole = odometer.spent("model")
    assert whole.epsilon == plan.guarantees["model"].epsilon
    assert whole.derivation[0].statement.startswith("Planned mode:")
    assert odometer.spent() == whole
    assert odometer.spent("server").epsilon.upper < whole.epsilon.upper
    last = odometer.reading("model")
    assert (last.epsilon, last.share) == (0.0, 0.0)
    for phase in plan.phases:
        odometer.spend(ev.Repeat(phase.rounds, phase.event))
        now = odometer.reading("model")
        assert now.epsilon > last.epsilon
        assert now.share > last.share
        assert "not a guarantee" in now.note
        last = now
        assert odometer.spent("model") == whole
    assert last.share == 1.0
    assert last.epsilon == whole.epsilon.upper
    assert odometer.reading("server").epsilon == odometer.spent("server").epsilon.upper


def test_a_plan_leaves_no_choice_of_observers_or_units():
    plan = small_plan()
    odometer = Odometer.for_plan(plan)
    for given in ({"observers": ["model"]}, {"units": ["ann"]}):
        with pytest.raises(InvalidInput, match="plan"):
            odometer.spend(plan.phases[0].event, **given)
    with pytest.raises(InvalidInput, match="plan"):
        odometer.reading(unit="ann")
