"""Events as files: dp_accounting's named tuples in every form, and privplan's own events."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.description.run_description import Phase
from privplan.audit.readers import dp_accounting_events as reader
from privplan.audit.readers.dp_accounting_events import event_of_text, looks_like_event_text

from ..cases import for_each
from .damaged import damaged, read_or_refused
from .named_tuples import ALL_IN_TURNS, DP_SGD, FORMS, PAIRS, by_position, printed


@for_each("form", FORMS)
@for_each(("theirs", "ours"), PAIRS, ids=lambda event: type(event).__name__)
def test_every_form_means_the_same(theirs: Any, ours: ev.Event, form: str) -> None:
    content = FORMS[form](theirs)
    assert reader.recognises(content, "event.json")
    reading = reader.read(content, "event.json")
    assert reading.event == ours
    assert reading.format == reader.NAMED_TUPLE
    assert any("delta" in doubt and "relation" in doubt for doubt in reading.doubts)


@for_each("ours", [ours for _, ours in PAIRS], ids=lambda event: type(event).__name__)
def test_own_events(ours: ev.Event) -> None:
    content = json.dumps(ours.to_json()).encode()
    assert reader.recognises(content, "event.json")
    reading = reader.read(content, "event.json")
    assert (reading.event, reading.format) == (ours, reader.PRIVPLAN_EVENT)
    assert "claim.library" not in reading.facts


def facts_of(content: bytes) -> dict[str, object]:
    return {key: fact.value for key, fact in reader.read(content, "event.json").facts.items()}


def test_settings_of_compositions() -> None:
    assert facts_of(by_position(DP_SGD)) == {
        "claim.library": "dp_accounting",
        "noise.noise_multiplier": 3.0,
        "sampling.rate": 0.1,
        "schedule.steps": 512,
    }
    assert facts_of(by_position(ALL_IN_TURNS)) == {
        "claim.library": "dp_accounting",
        "schedule.phases": (Phase(3.0, 0.1, 10), Phase(2.0, 0.2, 20), Phase(5.0, 1.0, 1)),
    }


@for_each(
    "event",
    [
        ev.Laplace(1.0),
        ev.Poisson(0.1, ev.Laplace(1.0)),
        ev.Compose((ev.Gaussian(1.0), ev.Laplace(1.0))),
        ev.Repeat(3, ev.Compose((ev.Gaussian(1.0), ev.Gaussian(2.0)))),
        ev.FixedSize(10, 100, ev.Gaussian(1.0)),
        ev.Compose(()),
    ],
)
def test_what_no_keys_can_say_is_an_event_only(event: ev.Event) -> None:
    reading = reader.read(json.dumps(event.to_json()).encode(), "event.json")
    assert (dict(reading.facts), reading.event) == ({}, event)


def test_sampled_zcdp_is_doubted() -> None:
    event = dp_event.PoissonSampledDpEvent(0.1, dp_event.ZCDpEvent(0.5))
    reading = reader.read(by_position(event), "event.json")
    assert any("Poisson of DiscreteGaussian" in doubt for doubt in reading.doubts)
    assert not any("zCDP" in doubt for doubt in reader.read(by_position(DP_SGD), "e").doubts)


@for_each("form", FORMS)
def test_events_without_a_counterpart_are_doubts(form: str) -> None:
    event = dp_event.UnsupportedDpEvent()
    reading = reader.read(FORMS[form](event), "event.json")
    assert reading.event is None
    assert any("Unsupported" in doubt for doubt in reading.doubts)


@for_each(
    "value",
    [
        ["os", "systemDpEvent", "true"],
        ["subprocess", "GaussianDpEvent", 1.0],
        ["dp_accounting.dp_event", "importlibDpEvent", 1.0],
        {"module_name": "os", "class_name": "GaussianDpEvent", "noise_multiplier": 1.0},
        ["dp_accounting.dp_event", "GaussianDpEvent", -1.0],
        ["dp_accounting.dp_event", "GaussianDpEvent", math.nan],
        ["dp_accounting.dp_event", "GaussianDpEvent", math.inf],
        ["dp_accounting.dp_event", "GaussianDpEvent", 1.0, 2.0],
        ["dp_accounting.dp_event", "GaussianDpEvent"],
        ["dp_accounting.dp_event", "SelfComposedDpEvent", 3, 3],
        [
            "dp_accounting.dp_event",
            "RepeatAndSelectDpEvent",
            ["dp_accounting.dp_event", "GaussianDpEvent", 1.0],
            4.0,
            10**350,
        ],
        {"type": "gaussian", "noise_multiplier": 0},
        {"type": "gaussian", "noise_multiplier": 1, "sigma": 2},
    ],
)
def test_closed_lists(value: object) -> None:
    content = json.dumps(value).encode()
    assert reader.recognises(content, "event.json")
    with pytest.raises(InvalidInput):
        reader.read(content, "event.json")


def test_nesting_without_end() -> None:
    deep: Any = ["dp_accounting.dp_event", "GaussianDpEvent", 1.0]
    for _ in range(150):
        deep = ["dp_accounting.dp_event", "SelfComposedDpEvent", deep, 1]
    with pytest.raises(InvalidInput, match="deep"):
        reader.read(json.dumps(deep).encode(), "event.json")


@for_each("value", [{}, [], [1, 2], {"type": "Repeated"}, {"type": 3}, ["a", "b"], "gaussian"])
def test_other_json_is_not_recognised(value: object) -> None:
    assert not reader.recognises(json.dumps(value).encode(), "file.json")


@for_each(
    "text",
    [
        "GaussianDpEvent(__import__('os').system('true'))",
        "GaussianDpEvent(noise_multiplier=open('harmed', 'w'))",
        "GaussianDpEvent(noise_multiplier=9**9**9)",
        "GaussianDpEvent(noise_multiplier=[x for x in range(9)])",
        "GaussianDpEvent(**{'noise_multiplier': 1})",
        "GaussianDpEvent(*[1])",
        "GaussianDpEvent(1.0, noise_multiplier=2.0)",
        "GaussianDpEvent(noise_multiplier=1.0) or 1",
        "GaussianDpEvent(noise_multiplier=(lambda: 1)())",
        "GaussianDpEvent(noise_multiplier=1j)",
        "GaussianDpEvent(noise_multiplier=f'{1}')",
        "GaussianDpEvent(noise_multiplier=range(10**9))",
        "GaussianDpEvent(noise_multiplier=1.0); import os",
        "GaussianDpEvent(" + "(" * 500 + ")" * 500 + ")",
        "GaussianDpEvent(" + "-" * 200_000 + "1)",
        "GaussianDpEvent(" + "[" * 200_000 + "]" * 200_000 + ")",
        "GaussianDpEvent(1" + "+1" * 200_000 + ")",
        "GaussianDpEvent(a" + ".a" * 200_000 + "(1))",
        "GaussianDpEvent(" + "lambda: " * 100_000 + "1)",
        "GaussianDpEvent(" + "1 if 1 else " * 80_000 + "1)",
        "GaussianDpEvent(",
    ],
)
def test_text_outside_the_grammar(text: str) -> None:
    assert looks_like_event_text(text)
    with pytest.raises(InvalidInput):
        event_of_text(text)


def test_numbers_as_numpy_prints_them() -> None:
    text = "dp_accounting.GaussianDpEvent(noise_multiplier=np.float64(1.5))"
    assert reader.read(text.encode(), "event.txt").event == ev.Gaussian(1.5)


FILES: Final = [form(theirs) for theirs, _ in PAIRS for form in FORMS.values()] + [
    json.dumps(ours.to_json()).encode() for _, ours in PAIRS
]


@settings(max_examples=500, deadline=None)
@given(damaged(FILES) | st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_damaged_files_are_read_or_refused(content: bytes) -> None:
    read_or_refused(reader.recognises, reader.read, content)


def test_printed_text_of_this_version() -> None:
    # A new version of dp_accounting that prints events in another way fails here.
    assert printed(DP_SGD) == (
        b"SelfComposedDpEvent(event=PoissonSampledDpEvent(sampling_probability=0.1, "
        b"event=GaussianDpEvent(noise_multiplier=3.0)), count=512)\n"
    )
