"""The front door: which engine answers, how engines are merged, and what is refused."""

from __future__ import annotations

import math

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.account import bounds_on_epsilon, combine
from privplan.accountant.engines.base import Answer
from privplan.accountant.errors import EnginesDisagree, InvalidInput, Unsupported
from privplan.accountant.guarantee import Bounds

from ..cases import for_each
from ..sweeps import sweep

SAMPLED = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))


def test_the_front_door_of_the_contract():
    guarantee = pp.account(SAMPLED, delta=1e-5, neighbours="add-remove")
    assert guarantee.engine == "pld"
    assert 1.828 < guarantee.epsilon.lower < 1.82824 < guarantee.epsilon.upper < 1.829
    assert guarantee.delta == 1e-5
    assert guarantee.unit == "record"
    assert guarantee.observer == "model"
    stages = [step.stage for step in guarantee.derivation]
    assert {"mechanism", "sampling", "composition", "cross-check"} <= set(stages)
    assert all(step.statement and step.source for step in guarantee.derivation)
    at = pp.account(SAMPLED, epsilon=2.0)
    assert at.epsilon == 2.0
    assert 0 < at.delta.lower < at.delta.upper < 1e-5


def test_unsampled_gaussians_take_the_closed_form_and_are_cross_checked():
    guarantee = pp.account(ev.Gaussian(1.0), delta=1e-5)
    assert guarantee.engine == "gdp"
    assert guarantee.epsilon.gap < 1e-9
    assert guarantee.derivation[-1].stage == "cross-check"
    assert "rdp" in guarantee.derivation[-1].statement


@for_each("engine", ["rdp", "pld", "google", "microsoft"])
def test_every_engine_can_be_forced_and_none_contradicts_another(engine):
    truth = Bounds(1.8282, 1.8283)  # dp_accounting says 1.828237
    forced = pp.account(SAMPLED, delta=1e-5, engine=engine)
    assert forced.engine == engine
    assert forced.epsilon.upper >= truth.lower
    assert forced.epsilon.lower <= truth.upper


KNOWN = [
    (ev.Gaussian(1.0), "add-remove", 4.377178),
    (SAMPLED, "add-remove", 1.82824),
    (SAMPLED, "replace-one", 2.84345),
    (ev.Gaussian(1.0), "replace-one", 9.997256),
]


@for_each(("event", "neighbours", "expected"), sweep(KNOWN, quick=2))
def test_neighbours_mean_the_same_in_every_engine_that_answers(event, neighbours, expected):
    answered = 0
    for engine in ("gdp", "pld", "google", "microsoft", "rdp"):
        try:
            found = pp.account(event, delta=1e-5, neighbours=neighbours, engine=engine).epsilon
        except Unsupported:
            continue
        answered += 1
        assert found.lower <= expected * (1 + 1e-5)
        assert found.upper >= expected * (1 - 1e-5)
        if engine != "rdp":
            assert found.upper == pytest.approx(expected, rel=6e-3)
    assert answered >= 3


def test_halved_noise_is_not_what_replace_one_means_when_sampled():
    with pytest.raises(Unsupported):
        pp.account(SAMPLED, delta=1e-5, neighbours="replace-one", engine="microsoft")


def test_bounds_are_merged_to_the_tightest_of_all_and_a_contradiction_is_an_error():
    merged, engine = combine({"a": Answer(Bounds(1.0, 3.0), ()), "b": Answer(Bounds(0.5, 2.0), ())})
    assert (merged.bounds, engine) == (Bounds(1.0, 2.0), "b")
    with pytest.raises(EnginesDisagree, match=r"at least 3\.5.*at most 3"):
        combine({"a": Answer(Bounds(1.0, 3.0), ()), "b": Answer(Bounds(3.5, 4.0), ())})


def test_rdp_is_taken_where_it_is_tighter():
    event = ev.Repeat(1000, ev.Exponential(0.1))
    guarantee = pp.account(event, delta=1e-5)
    assert guarantee.engine == "rdp"
    assert guarantee.epsilon.upper < pp.account(event, delta=1e-5, engine="pld").epsilon.upper


def test_below_the_floor_rdp_answers_and_a_warning_says_so():
    guarantee = pp.account(ev.Poisson(0.5, ev.Gaussian(1.0)), delta=1e-270)
    assert guarantee.engine == "rdp"
    assert any("certifies delta down to" in warning for warning in guarantee.warnings)


def test_nothing_released_costs_nothing_whatever_the_engine():
    for engine in (None, "rdp", "pld", "gdp", "google", "microsoft"):
        assert pp.account(ev.Compose([]), delta=1e-5, engine=engine).epsilon == 0.0
    assert pp.account(ev.Poisson(0.0, ev.Gaussian(1.0)), delta=1e-5).epsilon == 0.0


def test_no_guarantee_says_so():
    guarantee = pp.account(ev.Compose([ev.Gaussian(1.0), ev.NoGuarantee("raw sum")]), delta=1e-5)
    assert guarantee.epsilon.upper == math.inf
    assert any("No epsilon is proven" in warning for warning in guarantee.warnings)


def test_a_class_of_mechanisms_has_the_lower_end_of_its_worst():
    """Audits ask about one mechanism, of which the stated numbers say nothing from below."""
    for event in (ev.Pure(1.0), ev.Approximate(1.0, 1e-7), ev.Local(1.0)):
        found = pp.account(event, delta=1e-5)
        assert 0.999 < found.epsilon.lower <= found.epsilon.upper <= 1.0 + 1e-9
        assert any("the worst mechanism" in step.statement for step in found.derivation)
        assert bounds_on_epsilon(event, delta=1e-5).lower == 0.0
    assert pp.account(ev.ZCDP(0.1), delta=1e-5).epsilon.lower == 0.0


@for_each(
    ("given", "words"),
    [
        ({}, "exactly one of `delta` and `epsilon`"),
        ({"delta": 1e-5, "epsilon": 1.0}, "exactly one"),
        ({"delta": -1e-9}, "`delta` must be a number, 0 or above and below 1"),
        ({"delta": 1.0}, "`delta` must be"),
        ({"delta": math.nan}, "`delta` must be"),
        ({"delta": "1e-5"}, "`delta` must be"),
        ({"epsilon": -1.0}, "`epsilon` must be a finite number, 0 or above"),
        ({"epsilon": math.inf}, "`epsilon` must be"),
        ({"delta": 1e-5, "neighbours": "replace"}, "`neighbours` must be one of"),
        ({"delta": 1e-5, "engine": "prv"}, "`engine` must be one of"),
    ],
)
def test_bad_questions_are_refused_with_the_field(given, words):
    with pytest.raises(InvalidInput, match=words):
        pp.account(SAMPLED, **given)


def test_only_events_are_accounted():
    for given in ({"type": "gaussian"}, ev.Event()):
        with pytest.raises(InvalidInput, match="`event` must be an event"):
            pp.account(given, delta=1e-5)


def test_shared_events_are_accounted_once_and_deep_ones_refused():
    shared: ev.Event = ev.Gaussian(100.0)
    for _ in range(30):
        shared = ev.Compose([shared, shared])
    assert pp.account(shared, delta=1e-5) == pp.account(
        ev.Repeat(2**30, ev.Gaussian(100.0)), delta=1e-5
    )
    deep: ev.Event = ev.Gaussian(1.0)
    for _ in range(300):
        deep = ev.FixedSize(1, 10, deep)
    with pytest.raises(InvalidInput, match="nested more than"):
        pp.account(deep, delta=1e-5)


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("event", [SAMPLED, ev.Poisson(0.1, ev.DiscreteGaussian(1.25, 3))])
def test_every_derivation_names_the_noise_the_rate_and_the_relation(event, neighbours):
    guarantee = pp.account(event, delta=1e-5, neighbours=neighbours)
    text = " ".join(" ".join((step.statement, *step.conditions)) for step in guarantee.derivation)
    leaf = event.event if isinstance(event, ev.Repeat) else event
    assert f"{leaf.event.noise_multiplier:g}" in text
    assert f"{leaf.rate:g}" in text
    assert neighbours in text


def test_a_refusal_says_what_is_missing_and_not_only_that_an_engine_cannot():
    with pytest.raises(Unsupported, match="replace-one"):
        pp.account(ev.ShuffledBatches(10, ev.Shuffle(5, ev.Laplace(1.0))), delta=1e-5)
