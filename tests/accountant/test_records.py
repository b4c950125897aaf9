"""Records of every kind: there and back as JSON, and refusals that name the field."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import facts
from privplan.accountant.records.field_codec import LATER

from ..cases import for_each

PARTS: tuple[type[facts.Fact], ...] = (
    records.Claim,
    records.Planned,
    records.Population,
    records.Randomness,
    records.Tuning,
    records.Contribution,
    records.Product,
    records.Weights,
    records.Sampling,
    records.Security,
    records.Noise,
    records.StreamRange,
    records.Normaliser,
    records.Reach,
)
EVERY = (*records.KINDS.values(), *PARTS)
NAMES = [cls.type or cls.__name__ if hasattr(cls, "type") else cls.__name__ for cls in EVERY]

FLOATS = st.floats(allow_nan=False)
EVENTS = st.sampled_from(
    [
        ev.Gaussian(1.5),
        ev.NoGuarantee("as published"),
        ev.Compose(()),
        ev.Repeat(3, ev.Poisson(0.1, ev.Laplace(0.3))),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Return values that a field of this type may have."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in arguments if one is not type(None))
        return st.none() | values_of(inner)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(values_of(arguments[0]), max_size=3).map(tuple)
    if origin is not None and issubclass(origin, Mapping):
        inner = JSON if arguments[1] is object else values_of(arguments[1])
        return st.dictionaries(st.text(max_size=5), inner, max_size=3)
    if hint is float:
        return FLOATS
    if hint is int:
        return st.integers(0, 2**63 - 1)
    if hint is bool:
        return st.booleans()
    if hint is str:
        return st.text(max_size=8)
    if issubclass(hint, ev.Event):
        return EVENTS
    assert issubclass(hint, facts.Fact), hint
    return facts_of(hint)


def blocks() -> st.SearchStrategy[records.Block]:
    """Return blocks of rounds, which have fewer coefficients than rounds, the first not 0."""
    finite = st.floats(allow_nan=False, allow_infinity=False)
    some = st.lists(finite, max_size=3)
    whole = st.integers(4, 2**63 - 1)
    return st.builds(
        lambda first, rounds, leading, rest, separation: records.Block(
            first, rounds, (leading, *rest), separation
        ),
        first=st.integers(0, 2**63 - 1),
        rounds=whole,
        leading=finite.filter(bool),
        rest=some,
        separation=whole,
    )


def facts_of(cls: type[facts.Fact]) -> st.SearchStrategy[facts.Fact]:
    """Return records or parts of this kind."""
    hints = get_type_hints(cls)
    parts = {item.name: values_of(hints[item.name]) for item in fields(cls)}
    if "silos" in parts and cls is records.RoundIntent:
        some = st.sets(st.integers(0, 2**63 - 1), min_size=1, max_size=3)
        parts["silos"] = st.none() | some.map(lambda silos: tuple(sorted(silos)))
    if cls is records.Block:
        return blocks()
    if cls is not records.Planned:
        return st.builds(cls, **parts)
    return st.builds(
        lambda fewer, rounds, **rest: records.Planned(
            rounds, counted=min(fewer, rounds) or None if fewer is not None else None, **rest
        ),
        fewer=parts.pop("counted"),
        **parts,
    )


def example(cls: type[facts.Fact]) -> facts.Fact:
    """Return one record or part of this kind, with something in every field."""
    hints = get_type_hints(cls)
    return cls(**{item.name: _filled(hints[item.name]) for item in fields(cls)})


def _filled(hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in arguments if one is not type(None))
        return _filled(inner)
    if origin is Literal:
        return arguments[-1]
    if origin is tuple:
        return (_filled(arguments[0]),)
    if origin is not None and issubclass(origin, Mapping):
        return {"a": 1 if arguments[1] is object else _filled(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, ev.Event):
        return ev.Gaussian(2.0)
    if isinstance(hint, type) and issubclass(hint, facts.Fact):
        return example(hint)
    plain: dict[Any, Any] = {float: 0.1, int: 7, bool: True, str: "word"}
    return plain[hint]


def wrong_json(hint: Any) -> list[Any]:
    """Return JSON values that a field of this type must refuse."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (one for one in arguments if one is not type(None))
        return [one for one in wrong_json(inner) if one is not None]
    if origin is Literal:
        return [None, "", "no such word", 1, [arguments[0]]]
    if origin is tuple:
        return [None, "ab", {}, 3, [None]]
    if origin is not None and issubclass(origin, Mapping):
        inner = arguments[1]
        wrong = (
            [] if inner is object else [{"a": {}}] if get_origin(inner) is tuple else [{"a": []}]
        )
        return [None, [], "ab", *wrong]
    if hint is float:
        return [None, 0.5, 1, True, "", "1", "0.50", "1e0", " 0.5", "nan", "Infinity", "0x1p0"]
    if hint is int:
        return [None, "1", 1.0, True, -1, 2**63, [1]]
    if hint is bool:
        return [None, 0, 1, "true"]
    if hint is str:
        return [None, 1, True, ["a"]]
    return [None, 1, "gaussian", [], {}, {"type": "no such thing"}]


@pytest.mark.parametrize("cls", EVERY, ids=NAMES)
@given(data=st.data())
@settings(max_examples=12)
def test_there_and_back(cls: type[facts.Fact], data: st.DataObject) -> None:
    record = data.draw(facts_of(cls))
    text = json.dumps(record.to_json(), allow_nan=False)
    assert cls.from_json(json.loads(text)) == record


@for_each("kind", sorted(records.KINDS))
def test_type_stands_first_and_is_its_own(kind: str) -> None:
    source = example(records.KINDS[kind]).to_json()
    assert next(iter(source)) == "type"
    assert source["type"] == kind
    with pytest.raises(InvalidInput, match="type"):
        records.KINDS[kind].from_json({**source, "type": "something.else"})


@for_each("cls", EVERY, ids=NAMES)
def test_unknown_field_is_refused_with_a_suggestion(cls: type[facts.Fact]) -> None:
    source = example(cls).to_json()
    name = fields(cls)[0].name
    with pytest.raises(InvalidInput, match=f"Did you mean `{name}`"):
        cls.from_json({**source, name + "x": 1})
    with pytest.raises(InvalidInput, match="unknown field"):
        cls.from_json({**source, "zzzzzzzz": 1})


@for_each("cls", EVERY, ids=NAMES)
def test_missing_field_is_refused_even_if_it_has_a_default(cls: type[facts.Fact]) -> None:
    source = example(cls).to_json()
    for item in fields(cls):
        if item.metadata == LATER:
            continue
        with pytest.raises(InvalidInput, match=f"lacks the field `{item.name}`"):
            cls.from_json({name: value for name, value in source.items() if name != item.name})


def test_a_field_that_came_later_is_written_only_where_there_is_something_in_it() -> None:
    """Logs of before have no `security`, and are what they were, to the byte."""
    whole = example(records.RunOpen)
    assert isinstance(whole, records.RunOpen)
    assert "security" in whole.to_json()
    old = replace(whole, security=None)
    source = old.to_json()
    assert "security" not in source
    assert records.RunOpen.from_json(source) == old
    assert records.RunOpen.from_json({**source, "security": None}) == old
    assert records.RunOpen.from_json(source).to_json() == source


@for_each("cls", EVERY, ids=NAMES)
def test_wrongly_typed_field_is_refused(cls: type[facts.Fact]) -> None:
    source = example(cls).to_json()
    for name, hint in get_type_hints(cls).items():
        if name == "type":
            continue
        accepted = [value for value in wrong_json(hint) if _reads(cls, {**source, name: value})]
        assert accepted == [], name


def _reads(cls: type[facts.Fact], source: dict[str, object]) -> bool:
    try:
        cls.from_json(source)
    except InvalidInput:
        return False
    return True


@for_each("cls", EVERY, ids=NAMES)
def test_wrong_values_are_refused_when_made(cls: type[facts.Fact]) -> None:
    own = example(cls)
    for name, hint in get_type_hints(cls).items():
        if name == "type" or get_origin(hint) in (Union, types.UnionType):
            continue
        given_values = {item.name: getattr(own, item.name) for item in fields(cls)}
        with pytest.raises(InvalidInput, match=name):
            cls(**{**given_values, name: object()})


@for_each("source", [None, 3, "text", [1], b"{}"])
def test_only_objects_are_records(source: object) -> None:
    with pytest.raises(InvalidInput, match="must be an object"):
        records.RoundAbort.from_json(source)


@given(FLOATS)
def test_floats_travel_in_their_shortest_form(number: float) -> None:
    own = records.Normaliser("constant", number)
    text = own.to_json()["value"]
    assert text == repr(number)
    back = records.Normaliser.from_json(own.to_json()).value
    assert back == number
    assert math.copysign(1.0, back) == math.copysign(1.0, number)


@for_each("number", [math.inf, -math.inf])
def test_infinities_are_allowed(number: float) -> None:
    own = records.Contribution(number, "l2", "user")
    assert own.to_json()["bound"] in ("inf", "-inf")
    assert records.Contribution.from_json(own.to_json()).bound == number


def test_no_number_is_refused() -> None:
    with pytest.raises(InvalidInput, match="bound"):
        records.Contribution(math.nan, "l2", "user")
    source = records.Contribution(1.0, "l2", "user").to_json()
    with pytest.raises(InvalidInput, match="bound"):
        records.Contribution.from_json({**source, "bound": "nan"})


def test_numpy_scalars_become_plain_numbers() -> None:
    own = records.StreamRange("a", int(np.int64(3)), np.int64(9))  # type: ignore[arg-type]
    assert type(own.last) is int
    assert type(records.Normaliser("constant", np.float64(0.1)).value) is float


def test_a_bool_is_no_number() -> None:
    with pytest.raises(InvalidInput, match="first"):
        records.StreamRange("a", True, 9)
    with pytest.raises(InvalidInput, match="value"):
        records.Normaliser("constant", True)


def test_error_names_the_place_within() -> None:
    intent = example(records.RoundIntent).to_json()
    intent["noise"] = {**intent["noise"], "std": "0.50"}  # type: ignore[dict-item]
    with pytest.raises(InvalidInput, match=r"noise\.std"):
        records.RoundIntent.from_json(intent, "line 7")


def test_defaults_claim_no_protection() -> None:
    defaults = {item.name: item.default for item in fields(records.Contribution)}
    assert defaults["terms"] == "unit"
    assert defaults["bound"] is MISSING
    assert records.Sampling().rate == 1.0
    assert records.Weights().largest_sum == 1.0
    assert records.Noise("gaussian", 1.0).tolerated_dropouts == 0


def test_progress_finds_dangling_intents() -> None:
    opened = example(records.RunOpen)
    intent, release = example(records.RoundIntent), example(records.RoundRelease)
    assert isinstance(opened, records.RunOpen)
    assert isinstance(intent, records.RoundIntent)
    assert isinstance(release, records.RoundRelease)
    progress = records.Progress(opened, {1: intent, 3: intent, 4: intent}, {3: release}, 0)
    assert progress.dangling == (1, 4)
