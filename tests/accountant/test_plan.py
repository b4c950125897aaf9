"""Plans: certified for every observer, never costlier than equal noise, plain about the split."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, TargetTrivial, TargetUnreachable, Unsupported
from privplan.accountant.plan import Phase, plan

from ..cases import for_each
from ..sweeps import sweep

TARGET = {"epsilon": 2.0, "delta": 1e-5}


def sampled(rate):
    return lambda noise: ev.Poisson(rate, ev.Gaussian(noise))


def mixed():
    return [
        Phase("stats", ev.Laplace, 3),
        Phase("train", sampled(0.01), 500, observer=("model", "server")),
        Phase("tail", sampled(0.1), 20, views={"server": lambda s: sampled(0.1)(0.5 * s)}),
    ]


def proven_again(found, neighbours="add-remove"):
    """Return what `account` says about what each observer sees."""
    return {
        name: pp.account(found.seen_by(name), delta=found.delta, neighbours=neighbours).epsilon
        for name in found.guarantees
    }


# What is promised.


@for_each(("split", "neighbours"), [("equal-noise", "replace-one"), ("cheapest", "zero-out")])
def test_every_observer_meets_the_target(split, neighbours):
    found = plan(mixed(), **TARGET, neighbours=neighbours, split=split)
    again = proven_again(found, neighbours)
    assert set(again) == set(found.guarantees) == {"model", "server"}
    for name, epsilon in again.items():
        assert epsilon.lower <= epsilon.upper <= 2.0
        assert found.guarantees[name].epsilon == epsilon
        assert found.guarantees[name].observer == name
        assert found.guarantees[name].neighbours == neighbours
    # The noise is the least: one observer's budget is used up.
    assert max(epsilon.lower for epsilon in again.values()) > 2.0 * (1 - 2e-3)


def test_random_plans_meet_their_target_for_every_observer():
    pick = random.Random(5)
    for _ in range(6):
        phases = []
        for place in range(pick.randint(1, 4)):
            rate = pick.choice([1.0, 0.2, 0.02])
            base = pick.choice([ev.Gaussian, ev.Gaussian, ev.Laplace])
            make = (lambda r, b: lambda s: b(s) if r == 1.0 else ev.Poisson(r, b(s)))(rate, base)
            whom = pick.choice([("model",), ("server",), ("model", "server")])
            rounds = pick.choice([1, 7, 60])
            phases.append(Phase(f"p{place}", make, rounds, whom, weight=pick.uniform(0.3, 3.0)))
        epsilon = pick.choice([0.3, 1.0, 6.0])
        found = plan(phases, epsilon=epsilon, delta=1e-6, split="weights")
        again = proven_again(found)
        assert all(one.upper <= epsilon for one in again.values())
        assert max(one.upper for one in again.values()) >= epsilon * (1 - 1e-3)
        ratios = [
            own.noise_multiplier / phase.weight
            for own, phase in zip(found.phases, phases, strict=True)
        ]
        assert max(ratios) == pytest.approx(min(ratios), rel=1e-12)


def test_one_phase_is_what_calibrate_finds():
    """60,000 records in batches of 256, 10 epochs: dp_accounting's PLD finds the four digits."""
    found = plan([Phase("train", sampled(256 / 60000), 2344)], **TARGET)
    alone = pp.calibrate(lambda s: ev.Repeat(2344, sampled(256 / 60000)(s)), **TARGET)
    assert found.noise == {"train": alone.value}
    assert found.noise["train"] == pytest.approx(0.7861, abs=1e-4)
    assert found.event == alone.event
    assert found.guarantees["model"].epsilon == alone.guarantee.epsilon


def test_an_observer_who_sees_less_learns_less():
    phases = [Phase("a", ev.Gaussian, 5, "server"), Phase("b", ev.Gaussian, 5, ("server", "model"))]
    found = plan(phases, **TARGET)
    assert found.guarantees["server"].epsilon.upper > 1.999
    assert found.guarantees["model"].epsilon.upper < 1.5
    conditions = found.guarantees["model"].derivation[0].conditions
    assert any("'a'" in condition for condition in conditions)


def test_the_observer_with_the_worst_view_decides():
    whole = plan([Phase("a", ev.Gaussian, 9)], **TARGET)
    shared = plan(
        [Phase("a", ev.Gaussian, 9, views={"server": lambda s: ev.Gaussian(0.1 * s)})], **TARGET
    )
    assert shared.noise["a"] == pytest.approx(10 * whole.noise["a"], rel=1e-4)
    assert shared.guarantees["server"].epsilon.upper <= 2.0
    assert shared.guarantees["model"].epsilon.upper < 0.2


def test_an_observer_whose_target_is_met_by_anything_does_not_stop_the_plan():
    rare = ev.Poisson(1e-9, ev.Gaussian(1.0))
    found = plan(
        [
            Phase("a", ev.Gaussian, 9),
            Phase("b", lambda s: ev.Poisson(1e-9, ev.Gaussian(s)), 1, "x"),
        ],
        **TARGET,
    )
    assert found.guarantees["x"].epsilon.upper <= pp.account(rare, delta=1e-5).epsilon.upper
    assert found.guarantees["model"].epsilon.upper > 1.99


def test_fixed_releases_are_paid_for_and_have_no_noise_to_find():
    phases = [Phase("select", ev.Exponential(0.2), 2), Phase("train", ev.Gaussian, 10)]
    found = plan(phases, **TARGET)
    assert found.noise.keys() == {"train"}
    assert found.phases[0].noise_multiplier is None
    assert found.phases[0].event == ev.Exponential(0.2)
    alone = plan(phases[1:], **TARGET)
    assert found.noise["train"] > alone.noise["train"]
    cheap = plan([*phases, Phase("more", ev.Gaussian, 1, scale=9.0)], **TARGET, split="cheapest")
    assert cheap.phases[0].noise_multiplier is None
    assert cheap.guarantees["model"].epsilon.upper <= 2.0


def test_where_another_engine_proves_more_it_decides_the_noise():
    # Bounded range: the Renyi curve of `Exponential` is tighter than its dominating pair here.
    phases = [Phase("select", ev.Exponential(0.3), 4), Phase("train", sampled(0.01), 500)]
    found = plan(phases, **TARGET)
    assert found.guarantees["model"].epsilon.upper > 2.0 * (1 - 1e-3)


# Laws.


def test_more_epochs_need_more_noise():
    phases = [[Phase("train", sampled(0.02), 50 * epochs)] for epochs in (1, 2, 20)]
    noise = [plan(each, **TARGET).noise["train"] for each in phases]
    assert noise == sorted(set(noise))


def test_larger_groups_need_more_noise():
    phases = [Phase("a", ev.Gaussian, 10), Phase("b", ev.Laplace, 2)]
    found = [plan(phases, **TARGET, group=size) for size in (1, 2, 8)]
    noise = [one.noise["a"] for one in found]
    assert noise == sorted(set(noise))
    assert [one.unit for one in found] == ["record", "group of 2 records", "group of 8 records"]
    assert all(one.guarantees["model"].epsilon.upper <= 2.0 for one in found)


def test_a_phase_about_groups_is_not_said_of_a_record():
    """Its lower end is above what one record costs."""
    of_eight = Phase("a", lambda s: ev.Group(8, ev.Gaussian(s)), 2)
    found = plan([of_eight], **TARGET, unit="user")
    assert found.unit == found.guarantees["model"].unit == "group of 8 users"
    assert plan([of_eight], **TARGET, group=2).unit == "group of 16 records"
    mixed = plan([of_eight, Phase("b", ev.Gaussian, 1, observer=["model", "other"])], **TARGET)
    assert mixed.unit == mixed.guarantees["model"].unit == "unit"
    assert mixed.guarantees["other"].unit == "record"
    alone = plan([Phase("a", ev.Gaussian, 1)], **TARGET, unit="user")
    assert alone.unit == alone.guarantees["model"].unit == "user"


def test_the_order_of_phases_does_not_matter():
    first, second = plan(mixed(), **TARGET), plan(mixed()[::-1], **TARGET)
    assert first.noise == pytest.approx(second.noise, rel=1e-4)


# Splits and costs.


def test_gaussian_variance_is_split_as_lagrange_says():
    # min sum T_i (c_i n_i)^2 with sum T_i / n_i^2 fixed: n_i goes as c_i^(-1/2), whatever T_i.
    scales = {"a": 1.0, "b": 5.0, "c": 0.2}
    phases = [
        Phase(name, ev.Gaussian, rounds, scale=scale)
        for (name, scale), rounds in zip(scales.items(), (3, 40, 100), strict=True)
    ]
    found = plan(phases, **TARGET, split="cheapest")
    base = found.noise["a"] * math.sqrt(scales["a"])
    for name, scale in scales.items():
        assert found.noise[name] * math.sqrt(scale) == pytest.approx(base, rel=5e-3)
    mu = math.sqrt(sum(one.rounds / one.noise_multiplier**2 for one in found.phases))
    exact = sum(phase.rounds * phase.scale for phase in phases) / mu  # sqrt of the least cost
    assert found.cost == pytest.approx(exact**2, rel=1e-4)


@pytest.mark.quick(2)
@for_each("cost", ["variance", "deviation", "average", "largest"])
@for_each("seed", sweep(range(2), quick=1))
def test_the_cheapest_split_never_costs_more_than_equal_noise(cost, seed):
    pick = random.Random(seed)
    phases = [
        Phase("a", ev.Gaussian, pick.randint(1, 30), scale=pick.uniform(0.1, 10)),
        Phase("b", sampled(0.05), pick.randint(20, 300), scale=pick.uniform(0.1, 10)),
        Phase("c", ev.Laplace, pick.randint(1, 5), "server", scale=pick.uniform(0.1, 10)),
    ]
    equal = plan(phases, **TARGET, cost=cost)
    cheap = plan(phases, **TARGET, split="cheapest", cost=cost)
    assert cheap.cost <= equal.cost
    assert all(one.upper <= 2.0 for one in proven_again(cheap).values())


@for_each("cost", sweep(["variance", "deviation"], quick=1))
def test_no_other_ratio_is_noticeably_cheaper(cost):
    """Against an exhaustive search with certified noise at each ratio."""
    made = (("a", sampled(0.02), 400), ("b", ev.Laplace, 4))
    cheap = plan([Phase(*one) for one in made], **TARGET, split="cheapest", cost=cost)
    costs = {}
    for power in (-4, -2, 0, 2, 4):
        phases = [Phase(*made[0], weight=1.6**power), Phase(*made[1])]
        costs[power] = plan(phases, **TARGET, split="weights", cost=cost).cost
    assert min(costs.values()) < 0.9 * costs[0]  # the split matters here
    assert cheap.cost <= min(costs.values()) * (1 + 2e-3)


def test_a_cost_may_be_any_function():
    seen = []

    def burden(noise):
        seen.append(noise)
        return noise["a"] + 100.0 * noise["b"]

    phases = [Phase("a", ev.Gaussian, 10), Phase("b", ev.Gaussian, 10)]
    found = plan(phases, **TARGET, split="cheapest", cost=burden)
    assert found.cost == burden(found.noise)
    assert found.cost_name == "burden"
    assert found.noise["a"] > 3 * found.noise["b"]
    assert set(seen[0]) == {"a", "b"}


@for_each("wrong", ["much", math.nan, None, True])
def test_a_cost_must_be_a_number(wrong):
    with pytest.raises(InvalidInput, match="cost"):
        plan([Phase("a", ev.Gaussian, 1)], **TARGET, cost=lambda _: wrong)


def test_costs_are_what_they_say():
    phases = [Phase("a", ev.Gaussian, 4, scale=2.0), Phase("b", ev.Gaussian, 9)]
    costs = {
        cost: plan(phases, **TARGET, cost=cost).cost
        for cost in ("variance", "deviation", "average", "largest")
    }
    noise = plan(phases, **TARGET).noise["a"]
    assert costs == pytest.approx(
        {
            "variance": (4 * 4 + 9) * noise**2,
            "deviation": (4 * 2 + 9) * noise,
            "average": (4 / 4 + 1 / 9) * noise**2,
            "largest": 2 * noise,
        }
    )


# JSON.


def test_the_json_can_be_accounted_again():
    found = plan(mixed(), **TARGET, split="weights")
    read = json.loads(json.dumps(found.to_json()))
    assert [phase["name"] for phase in read["phases"]] == ["stats", "train", "tail"]
    for phase, own in zip(read["phases"], found.phases, strict=True):
        assert ev.from_json(phase["event"]) == own.event
        assert phase["noise_multiplier"] == own.noise_multiplier
        assert phase["rounds"] == own.rounds
    assert read["phases"][1]["observers"] == ["model", "server"]
    assert set(read["phases"][2]["views"]) == {"server"}
    whole = pp.account(ev.from_json(read["event"]), delta=1e-5)
    (model,) = [one for one in read["guarantees"] if one["observer"] == "model"]
    assert whole.epsilon.upper == model["epsilon"]["upper"]
    assert read["cost"] == {"name": "variance", "value": found.cost}


def test_prefixes_are_what_was_made():
    found = plan(mixed(), **TARGET)
    assert found.seen_by("model", [0, 0, 0]) == ev.Compose(())
    part = found.seen_by("server", [3, 10, 1])
    assert part == ev.Compose(
        (ev.Repeat(10, found.phases[1].event), ev.Repeat(1, found.phases[2].views["server"]))
    )
    with pytest.raises(InvalidInput, match="observer"):
        found.seen_by("nobody")


# Refusals.


def test_targets_out_of_reach_name_the_observer_and_trivial_ones_are_said():
    phases = [
        Phase("a", ev.Gaussian, 1, ("model", "server")),
        Phase("leak", ev.Pure(3.0), 1, "server"),
    ]
    with pytest.raises(TargetUnreachable, match="server"):
        plan(phases, **TARGET)
    with pytest.raises(TargetTrivial):
        plan([Phase("a", lambda s: ev.Poisson(1e-9, ev.Gaussian(s)), 1)], epsilon=1.0, delta=1e-3)


@for_each(
    "worse",
    [ev.Pure, ev.ZCDP, pytest.param(lambda s: ev.Gaussian(1.0 / s), marks=pytest.mark.slow)],
)
def test_noise_that_does_not_help_is_noticed(worse):
    flip = [Phase("a", worse, 1)]
    with pytest.raises((TargetUnreachable, Unsupported, InvalidInput, TargetTrivial)):
        plan(flip, **TARGET)


@dataclass(frozen=True)
class Curveless(ev.Event):
    """A release that no engine knows."""

    type = "test-curveless"


def test_the_cheapest_split_needs_curves():
    phases = [Phase("a", ev.Gaussian, 1), Phase("b", lambda _: Curveless(), 1)]
    with pytest.raises(Unsupported, match="cheapest"):
        plan(phases, **TARGET, split="cheapest")


@for_each(
    ("given", "said"),
    [
        ({"name": ""}, "name"),
        ({"make_event": 3}, "make_event"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 1.5}, "rounds"),
        ({"observer": ()}, "observer"),
        ({"observer": ""}, "observer"),
        ({"weight": 0.0}, "weight"),
        ({"weight": math.inf}, "weight"),
        ({"scale": -1.0}, "scale"),
        ({"views": {"model": ev.Gaussian}}, "views"),
        ({"views": {" ": ev.Gaussian}}, "by name"),
        ({"views": {"server": 2}}, "make_event"),
    ],
)
def test_phases_are_checked(given, said):
    with pytest.raises(InvalidInput, match=said):
        Phase(**{"name": "a", "make_event": ev.Gaussian, "rounds": 1, **given})


@for_each(
    ("given", "said"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"neighbours": "x"}, "neighbours"),
        ({"split": "fair"}, "split"),
        ({"cost": "money"}, "cost"),
        ({"group": 0}, "group"),
    ],
)
def test_targets_are_checked(given, said):
    with pytest.raises(InvalidInput, match=said):
        plan([Phase("a", ev.Gaussian, 1)], **{**TARGET, **given})


@for_each(
    ("phases", "said"),
    [
        ([], "one or more phases"),
        (["a"], "one or more phases"),
        ([Phase("a", ev.Gaussian, 1), Phase("a", ev.Laplace, 1)], "'a'"),
        ([Phase("a", ev.Gaussian(1.0), 1)], "no noise to find"),
        ([Phase("a", ev.Gaussian, 1, weight=2.0)], "Weights"),
        ([Phase("a", lambda s: s, 1)], "must return an event"),
    ],
)
def test_lists_of_phases_are_checked(phases, said):
    with pytest.raises(InvalidInput, match=said):
        plan(phases, **TARGET)


def test_the_earlier_name_of_a_phases_event_stays() -> None:
    phase = Phase("stats", ev.Laplace, 3)
    assert phase.made(ev.Laplace, 2.0) == phase.event_at(ev.Laplace, 2.0) == ev.Laplace(2.0)
