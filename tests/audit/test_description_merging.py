"""Several sources about one run: which fact stands, what contradicts, what is asked for."""

from __future__ import annotations

import doctest
import importlib
import json
import pkgutil
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privplan.audit.description as room
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.check.result_json import facts_json
from privplan.audit.description.keys import KEYS
from privplan.audit.description.merging import describe
from privplan.audit.description.printed_number import PrintedNumber
from privplan.audit.description.run_description import (
    STRENGTH,
    Fact,
    Phase,
    Provenance,
    Reading,
    RunDescription,
)
from privplan.audit.description.tables import reading_of_names

from ..cases import for_each


def stated(source: str = "run.toml", **facts: object) -> Reading:
    return reading_of_names(facts, source)


def read(source: str = "state.json", **facts: object) -> Reading:
    return reading_of_names(facts, source, "read", "a state")


def test_examples() -> None:
    for module in pkgutil.iter_modules(room.__path__):
        name = f"{room.__name__}.{module.name}"
        assert doctest.testmod(importlib.import_module(name)).failed == 0, name


def test_facts_keep_where_they_come_from() -> None:
    run = describe([stated(records=60000, batch=600), read(noise_multiplier=1.1, steps=100)])
    texts = {key: fact.text() for key, fact in run.facts.items()}
    assert texts["data.records"] == "stated (run.toml)"
    assert texts["noise.noise_multiplier"] == "read (state.json)"
    assert texts["sampling.rate"] == "derived (batch / records = 600 / 60,000)"
    assert texts["claim.neighbours"] == "assumed (nothing says otherwise)"
    assert run.formats == {"run.toml": "facts", "state.json": "a state"}
    assert run.contradictions == ()
    assert not run.known("claim.unit")
    assert run.known("sampling.rate")


def test_facts_stand_in_the_order_of_the_keys() -> None:
    run = describe([stated(steps=10, records=100, epsilon=1)])
    order = list(KEYS)
    assert [order.index(key) for key in run.facts] == sorted(order.index(key) for key in run.facts)


def test_values_that_differ_are_named_and_the_stronger_stands() -> None:
    run = describe([read(noise_multiplier=1.3), stated("--set", noise_multiplier=1.1)])
    (contradiction,) = run.contradictions
    assert contradiction.key == "noise.noise_multiplier"
    assert contradiction.says == (
        "`noise.noise_multiplier` = 1.1 (stated, --set) and "
        "`noise.noise_multiplier` = 1.3 (read, state.json) differ."
    )
    assert run.facts["noise.noise_multiplier"].value == 1.1


@for_each(
    ("name", "left", "right", "agrees"),
    [
        ("noise_multiplier", Decimal("1.28"), 1.2799, True),
        ("noise_multiplier", Decimal("1.28"), 1.2749, False),
        ("noise_multiplier", 1.28, 1.2799, False),
        ("noise_multiplier", 1, 1.0, True),
        ("noise_multiplier", 0.1 + 0.2, 0.3, True),
        ("steps", 1000, 1000.0, True),
        ("steps", 1000, 1001, False),
        ("delta", Decimal("1e-5"), 1.2e-5, False),
        ("delta", Decimal("1.67e-5"), 1 / 60000, True),
        ("epsilon", Decimal("1.19"), 1.1873, True),
        ("epsilon", Decimal("1.19"), Decimal("1.20"), True),
        ("epsilon", "1.19", 1.1873, False),
        ("unit", "user", "record", False),
        ("method", "unknown", "poisson", True),
        ("phases", [[1, Decimal("0.004"), 9]], [[1, 0.00425, 9]], True),
        ("phases", [[1, 0.004, 9]], [[1, 0.00425, 9]], False),
        ("phases", [[1, 0.004, 9]], [[1, 0.004, 9], [1, 0.004, 9]], False),
        ("releases", [{"what": "a"}], [{"what": "a"}], True),
        ("releases", [{"what": "a"}], [{"what": "b"}], False),
    ],
)
def test_agreement_is_as_precise_as_what_was_printed(
    name: str, left: object, right: object, agrees: bool
) -> None:
    run = describe([stated(**{name: left}), read(**{name: right})])
    assert (run.contradictions == ()) is agrees


def test_the_more_precise_of_two_that_agree_is_kept_but_a_claim_stays_as_stated() -> None:
    run = describe([stated(std=Decimal("1.28")), read(std=1.2799)])
    assert run.facts["noise.std"] == Fact(1.2799, "read", "state.json")
    run = describe([stated(epsilon=Decimal("1.19")), read(epsilon=1.1873)])
    assert run.claimed_epsilon == PrintedNumber(1.19, 0.005)


def test_assumptions_contradict_nothing_and_unknown_gives_way() -> None:
    assumed = reading_of_names({"neighbours": "zero-out"}, "state.json", "assumed")
    run = describe(
        [assumed, stated(neighbours="add-remove", method="unknown"), read(method="full")]
    )
    assert run.contradictions == ()
    assert run.facts["claim.neighbours"].value == "add-remove"
    assert run.facts["sampling.method"].value == "full"
    assert describe([stated(method="unknown")]).facts["sampling.method"].value == "unknown"


def test_facts_of_readers_are_checked_as_well() -> None:
    bad = Reading("state.json", "a state", {"sampling.rate": Fact(1.7, "read", "state.json")})
    with pytest.raises(InvalidInput, match=r"In state\.json: `sampling\.rate`"):
        describe([bad])
    unknown = Reading("state.json", "a state", {"noise.sigma": Fact(1.7, "read", "")})
    with pytest.raises(InvalidInput, match=r"In state\.json: there is no key"):
        describe([unknown])


def test_events_and_doubts() -> None:
    event = ev.Gaussian(1.0)
    readings = [
        Reading("a", "event", {}, ("first",), event),
        Reading("b", "event", {}, ("second", "first"), ev.Gaussian(1.0)),
    ]
    run = describe(readings)
    assert run.event == event
    assert run.doubts == ("first", "second")
    assert "noise.family" not in run.facts
    assert run.contradictions == ()
    other = describe([readings[0], Reading("c", "event", {}, (), ev.Gaussian(2.0))])
    assert [item.key for item in other.contradictions] == ["event"]


def test_nothing_is_a_description_too() -> None:
    run = describe([])
    assert {fact.provenance for fact in run.facts.values()} == {"assumed"}


def test_facts_as_json() -> None:
    unsaid = dict.fromkeys(("moves", "family", "of_batch"))
    facts = {"epsilon": Decimal("1.19"), "phases": [[1.5, 0.25, 7]], "releases": [{"what": "a"}]}
    row = {"what": "a", "noise_multiplier": None, "count": 1, **unsaid}
    written = facts_json(describe([stated(**facts)]).facts)
    assert json.loads(json.dumps(written)) == written
    assert written["claim.epsilon"] == {"value": 1.19, "provenance": "stated", "source": "run.toml"}
    assert written["schedule.phases"]["value"] == [[1.5, 0.25, 7]]
    assert written["releases"]["value"] == [row]


def test_a_typed_view_refuses_another_type() -> None:
    run = RunDescription({"data.records": Fact(3, "stated", "")})
    assert run.get("data.records", float) == 3.0
    assert run.get("data.users", int) is None
    with pytest.raises(TypeError, match=r"data\.records"):
        run.get("data.records", str)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "noise.noise_multiplier": st.sampled_from([Decimal("1.28"), 1.2799, 1.2801, 1, 1.1]),
    "noise.std": st.sampled_from([1.1, Decimal("1.1"), 1.14]),
    "noise.clip": st.sampled_from([1, Decimal("1.0"), 0.5]),
    "claim.epsilon": st.sampled_from([Decimal("1.19"), 1.1873, "1.2"]),
    "claim.delta": st.sampled_from([Decimal("1.67e-5"), 1 / 60000, 1e-5]),
    "claim.delta_rule": st.sampled_from(["1/records", "1/batches"]),
    "data.records": st.sampled_from([60000, 50000]),
    "sampling.batch": st.sampled_from([256, 600]),
    "sampling.rate": st.sampled_from([Decimal("0.0043"), 1 / 235, 0.01]),
    "sampling.method": st.sampled_from(["poisson", "shuffled", "unknown", "full"]),
    "schedule.steps": st.sampled_from([3516, 3525, 1000]),
    "schedule.epochs": st.sampled_from([15, 1.5]),
    "schedule.phases": st.sampled_from(
        [[[1.1, Decimal("0.0043"), 3516]], [[1, 0.1, 5], [2, 0.2, 5]]]
    ),
}


@st.composite
def random_readings(draw: st.DrawFn) -> list[Reading]:
    readings = []
    for index in range(draw(st.integers(1, 3))):
        facts = draw(st.fixed_dictionaries({}, optional=VALUES))
        provenance: Provenance = draw(st.sampled_from(STRENGTH))
        readings.append(reading_of_names(facts, f"source {index}", provenance))
    return readings


@settings(max_examples=60, deadline=None)
@given(random_readings())
def test_the_order_of_the_sources_does_not_matter(readings: list[Reading]) -> None:
    first = describe(readings)
    for order in permutations(readings):
        other = describe(order)
        assert other.facts == first.facts
        assert other.contradictions == first.contradictions


@settings(max_examples=60, deadline=None)
@given(random_readings())
def test_a_source_given_twice_changes_nothing(readings: list[Reading]) -> None:
    assert describe([*readings, *readings]) == describe(readings)


@settings(max_examples=60, deadline=None)
@given(random_readings())
def test_no_stated_value_is_lost_without_a_word(readings: list[Reading]) -> None:
    """What stands is what was said, up to its printed digits; or a contradiction names the key."""
    run = describe(readings)
    named = {contradiction.key for contradiction in run.contradictions}
    for reading in readings:
        for key, fact in reading.facts.items():
            kept = run.facts[key]
            if key in named or fact.provenance == "assumed" or fact.value == "unknown":
                continue
            if isinstance(fact.value, float) and isinstance(kept.value, float):
                slack = fact.half_unit + kept.half_unit
                # Two readings may each agree with a third within its printed digits.
                widest = max(item.facts[key].half_unit for item in readings if key in item.facts)
                assert abs(fact.value - kept.value) <= max(slack, 2 * widest) + 2e-3 * fact.value
            elif not isinstance(fact.value, (PrintedNumber, tuple)):
                assert kept.value == fact.value


def test_phases_with_a_printed_rate_agree_with_exact_ones() -> None:
    printed, exact = [[1, Decimal("0.004"), 9]], [[1, 0.00425, 9]]
    run = describe([stated(phases=printed), read(phases=exact)])
    assert run.facts["schedule.phases"].value == (Phase(1.0, 0.00425, 9),)
