"""Plans with given noise prove what `plan` proves; the rounds of a budget are the most that fit."""

from __future__ import annotations

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, InvalidInput, Unsupported
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan import Phase, PlannedPhase, affordable, plan, plan_given_noise

from ..cases import for_each


def sampled(noise):
    return ev.Poisson(0.3, ev.Gaussian(noise))


def both(views):
    return [Phase("stats", ev.Laplace, 2, weight=1.0), Phase("train", sampled, 40, views=views)]


def test_given_noise_proves_what_the_plan_that_found_it_proves():
    phases = both({"server": ev.Gaussian})
    found = plan(phases, epsilon=3.0, delta=1e-5, neighbours="replace-one", unit="user")
    noise = found.noise["train"]
    again = plan_given_noise(
        [phase.at(noise) for phase in phases], delta=1e-5, neighbours="replace-one", unit="user"
    )
    assert again.guarantees == found.guarantees
    assert again.phases == found.phases
    assert again.event == found.event
    assert again.unit == "user"
    assert again.noise == found.noise
    assert again.epsilon == max(one.epsilon.upper for one in found.guarantees.values()) <= 3.0


@for_each(("rounds", "expected"), [(50, 6.57), (100, 10.00), (200, 15.46)])
def test_fixed_events_are_certified(rounds, expected):
    found = plan_given_noise([Phase("train", ev.Gaussian(5.0), rounds)], delta=1e-5)
    epsilon = found.guarantees["model"].epsilon
    assert epsilon == pp.account(ev.Repeat(rounds, ev.Gaussian(5.0)), delta=1e-5).epsilon
    assert epsilon.upper == pytest.approx(expected, abs=0.005)
    assert found.noise == {}


def test_every_observer_has_its_own_guarantee():
    phase = Phase("train", sampled(5.0), 100, views={"server": ev.Gaussian(5.0)})
    found = plan_given_noise([phase], delta=1e-5, unit="user")
    assert found.guarantees["model"].epsilon.upper == pytest.approx(2.53, abs=0.005)
    assert found.guarantees["server"].epsilon.upper == pytest.approx(10.0, abs=0.005)
    assert found.epsilon == found.guarantees["server"].epsilon.upper
    assert {one.unit for one in found.guarantees.values()} == {"user"}
    assert found.guarantees["server"].observer == "server"


def test_a_group_of_records_is_the_unit():
    record = ev.Repeat(10, sampled(5.0))
    found = plan_given_noise([Phase("train", record, 20)], delta=1e-5, group=4)
    again = pp.account(ev.Group(4, ev.Repeat(20, record)), delta=1e-5)
    assert found.guarantees["model"].epsilon == again.epsilon
    assert found.unit == "group of 4 records"
    assert found.phases[0].event == record


def test_an_odometer_admits_the_plan_and_nothing_else():
    found = plan_given_noise([Phase("train", ev.Gaussian(5.0), 3)], delta=1e-5)
    odometer = Odometer.for_plan(found)
    with pytest.raises(BudgetExceeded):
        odometer.spend(ev.Gaussian(4.0))
    odometer.spend(ev.Repeat(2, ev.Gaussian(5.0)))
    assert odometer.remaining_rounds(ev.Gaussian(5.0)) == 1
    odometer.spend(ev.Gaussian(5.0))
    with pytest.raises(BudgetExceeded):
        odometer.spend(ev.Gaussian(5.0))


def test_what_protects_nobody_is_planned_as_infinite():
    found = plan_given_noise([Phase("train", ev.NoGuarantee("no noise"), 3)], delta=1e-5)
    assert found.epsilon == found.guarantees["model"].epsilon.upper == float("inf")


@for_each(
    ("phases", "message"),
    [
        ([], "one or more phases"),
        ([ev.Gaussian(1.0)], "one or more phases"),
        ([Phase("a", ev.Gaussian, 1)], "'a' is not given"),
        ([Phase("a", ev.Gaussian(1.0), 1, views={"server": ev.Gaussian})], "'a' is not given"),
        ([Phase("a", ev.Gaussian(1.0), 1), Phase("a", ev.Gaussian(2.0), 1)], "Two phases"),
        (None, "one or more phases"),
        (Phase("a", ev.Gaussian(1.0), 1), "one or more phases"),
        ([PlannedPhase("a", None, ev.Gaussian(5.0), 0, {"model": ev.Gaussian(5.0)})], "rounds"),
        ([PlannedPhase("a", None, ev.Gaussian(5.0), 1, {})], "Nobody sees"),
        ([PlannedPhase("a", None, ev.Gaussian(5.0), 1, {"model": ev.Gaussian(50.0)})], "Nobody"),
    ],
)
def test_phases_without_noise_are_refused(phases, message):
    with pytest.raises(InvalidInput, match=message):
        plan_given_noise(phases, delta=1e-5)


@for_each(
    "wrong", [{"delta": 0.0}, {"group": 0}, {"neighbours": "close"}, {"unit": 3}, {"unit": " "}]
)
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(InvalidInput):
        plan_given_noise([Phase("a", ev.Gaussian(1.0), 1)], **{"delta": 1e-5, **wrong})


# How many rounds.


@for_each(
    ("event", "epsilon", "extra"),
    [
        (ev.Gaussian(5.0), 8.0, {}),
        (ev.Gaussian(5.0), 1.0, {"neighbours": "replace-one"}),
        (sampled(5.0), 2.0, {}),
        pytest.param(ev.Repeat(10, sampled(5.0)), 4.0, {"group": 3}, marks=pytest.mark.slow),
    ],
)
def test_the_most_rounds_that_fit(event, epsilon, extra):
    rounds = affordable(event, epsilon=epsilon, delta=1e-5, most=10_000, **extra)
    relation = extra.get("neighbours", "add-remove")

    def cost(count):
        seen = ev.Group(extra.get("group", 1), ev.Repeat(count, event))
        return pp.account(seen, delta=1e-5, neighbours=relation).epsilon.upper

    assert (cost(rounds) if rounds else 0.0) <= epsilon < cost(rounds + 1)


def test_rounds_agree_with_the_calibrator():
    found = pp.calibrate(
        lambda rounds: ev.Repeat(rounds, sampled(5.0)), epsilon=2.0, delta=1e-5, unknown="rounds"
    )
    assert affordable(sampled(5.0), epsilon=2.0, delta=1e-5, most=10_000) == found.value


def test_what_is_seen_besides_is_paid_first():
    """Rounds alike: one that is made before is one fewer after."""
    alone = affordable(ev.Gaussian(5.0), epsilon=2.0, delta=1e-5, most=1000)
    budget = {"epsilon": 2.0, "delta": 1e-5, "most": 1000}
    for count in (1, alone - 1, alone, alone + 5):
        before = [ev.Repeat(count, ev.Gaussian(5.0))]
        found = affordable(ev.Gaussian(5.0), before=before, **budget)
        assert found == max(alone - count, 0)


def test_no_more_rounds_than_asked_for():
    assert affordable(ev.Gaussian(5.0), epsilon=8.0, delta=1e-5, most=7) == 7


def test_a_budget_below_one_round_allows_none():
    assert affordable(ev.Gaussian(5.0), epsilon=0.1, delta=1e-5, most=50) == 0
    assert affordable(ev.NoGuarantee("no noise"), epsilon=9.0, delta=1e-5, most=50) == 0


def test_what_nobody_can_account_for_is_refused():
    odd = ev.Poisson(0.5, ev.Compose([ev.Laplace(1.0), ev.Gaussian(1.0)]))
    with pytest.raises(Unsupported):
        affordable(odd, epsilon=1.0, delta=1e-5, most=5)
