"""The odometer: it refuses before the budget is exceeded, on every path, and says how it knows."""

from __future__ import annotations

import math
import random
import threading

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, InvalidInput
from privplan.accountant.odometer import Odometer
from privplan.accountant.odometer.adaptive_ledger import UnitBalances
from privplan.accountant.odometer.balances import BUDGET_UNITS, EXHAUSTED

from ..cases import for_each
from .odometers import SAMPLED

# The odometer as a ledger.

KINDS = [
    {"currency": "zcdp"},
    {"currency": "gdp"},
    {"currency": "rdp", "orders": [12.0]},
    {"currency": "rdp", "orders": [4.0, 12.0, 40.0]},
    {"currency": "rdp", "like": ev.Gaussian(30.0)},
]


@for_each("given", KINDS)
def test_random_spending_never_exceeds_and_refusals_change_nothing(given):
    odometer = Odometer(2.0, 1e-5, **given)
    pick, made, refused = random.Random(KINDS.index(given)), [], 0
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


@for_each("given", KINDS)
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


@for_each("given", KINDS)
@for_each("event", [ev.Gaussian(40.0), ev.Repeat(7, ev.Gaussian(90.0))])
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
    pick, many = random.Random(1), UnitBalances(2)
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
    event, granted = ev.Gaussian(60.0), []
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


@for_each("given", KINDS)
def test_the_guarantee_is_the_whole_budget_and_says_its_mode(given):
    odometer = Odometer(2.0, 1e-5, "replace-one", **given)
    assert odometer.reading().epsilon == 0.0
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


@for_each(
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
