"""dp_accounting's events as named tuples and as JSON: read by a closed list, nothing imported."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import namedtuple
from typing import Any

import pytest
from dp_accounting import dp_event as dp

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.events import dp_event_converters
from privplan.accountant.events.dp_event_tuples import FIELDS, from_named_tuple

from ..cases import for_each

MODULE = "dp_accounting.dp_event"
GAUSSIAN: list[Any] = [MODULE, "GaussianDpEvent", 1.0]

THEIRS = (
    dp.NoOpDpEvent(),
    dp.NonPrivateDpEvent(),
    dp.GaussianDpEvent(1.5),
    dp.LaplaceDpEvent(2.0),
    dp.DiscreteLaplaceDpEvent(0.5, 2),
    dp.RandomizedResponseDpEvent(0.3, 4),
    dp.ZCDpEvent(0.5),
    dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0)),
    dp.SampledWithoutReplacementDpEvent(50, 5, dp.GaussianDpEvent(2.0)),
    dp.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 20, 1.5),
    dp.RepeatAndSelectDpEvent(dp.GaussianDpEvent(1.0), 10.0, 1.0),
    dp.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.75, 0.25]),
    dp.SelfComposedDpEvent(
        dp.ComposedDpEvent(
            [
                dp.PoissonSampledDpEvent(0.1, dp.GaussianDpEvent(1.0)),
                dp.LaplaceDpEvent(3.0),
                dp.ComposedDpEvent([]),
            ]
        ),
        7,
    ),
)


def by_name(named: Any) -> Any:
    """Return the JSON object of a named tuple, all the way down."""
    if hasattr(named, "_asdict"):
        return {key: by_name(value) for key, value in named._asdict().items()}
    if isinstance(named, (list, tuple)):
        return [by_name(value) for value in named]
    return named


@for_each("theirs", THEIRS, ids=lambda theirs: type(theirs).__name__)
def test_every_shape_says_what_the_event_says(theirs: dp.DpEvent) -> None:
    named, expected = theirs.to_named_tuple(), ev.from_dp_event(theirs)
    assert from_named_tuple(named) == expected
    # json.dumps of a named tuple is a list.
    assert from_named_tuple(json.loads(json.dumps(named))) == expected
    assert from_named_tuple(json.loads(json.dumps(by_name(named)))) == expected


def test_the_closed_list_has_the_fields_of_the_installed_classes() -> None:
    import attr

    for name, fields in FIELDS.items():
        theirs = getattr(dp, name, None)
        if theirs is not None:
            assert tuple(fields) == tuple(item.name for item in attr.fields(theirs))


def test_account_and_calibrate_take_their_events() -> None:
    theirs = dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0)), 100)
    ours = ev.Repeat(100, ev.Poisson(0.01, ev.Gaussian(1.0)))
    expected = pp.account(ours, delta=1e-5)
    assert pp.account(theirs, delta=1e-5) == expected
    assert pp.account(theirs.to_named_tuple(), delta=1e-5) == expected
    found = pp.calibrate(lambda noise: dp.GaussianDpEvent(noise), epsilon=1.0, delta=1e-5)
    assert found.event == ev.Gaussian(found.value)
    from privplan.accountant.bound_routes import routes

    assert routes(theirs, delta=1e-5) == routes(ours, delta=1e-5)


def test_nothing_is_imported_for_data() -> None:
    """Neither dp_accounting nor what the data name; only the module's one name is accepted."""
    code = f"""
import sys
from privplan.accountant.events import from_named_tuple
from privplan.accountant.errors import InvalidInput
print(from_named_tuple({GAUSSIAN!r}))
try:
    from_named_tuple(["antigravity", "GaussianDpEvent", 1.0])
except InvalidInput as error:
    print(error.what)
print("dp_accounting" in sys.modules, "antigravity" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = ran.stdout.splitlines()
    assert lines[0] == "Gaussian(noise_multiplier=1.0)"
    assert "`event.module_name`" in lines[1]
    assert lines[2] == "False False"


@for_each(
    ("fields", "expected"),
    [
        (["EpsilonDeltaDpEvent", 1.0, 0.0], ev.Pure(1.0)),
        (["EpsilonDeltaDpEvent", 1.0, 1e-6], ev.Approximate(1.0, 1e-6)),
        (["DiscreteGaussianDpEvent", 6.0, 3.0, 1], ev.DiscreteGaussian(2.0, 3)),
        (["ExponentialMechanismDpEvent", 0.7], ev.Exponential(0.7)),
        (["PermuteAndFlipDpEvent", 0.7], ev.Pure(0.7)),
        (
            ["RandomAllocationDpEvent", GAUSSIAN, 3, 10],
            ev.RandomAllocation(10, 3, ev.Gaussian(1.0)),
        ),
    ],
)
def test_newer_events(fields: list[Any], expected: ev.Event) -> None:
    assert from_named_tuple([MODULE, *fields]) == expected


@for_each("fields", [[6.0, 3.0], [6.0, 3.0, None], [6.0, 3.0, 7], [6.0, 2.5, 1]])
def test_a_discrete_gaussian_of_unknown_dimension_is_its_rho(fields: list[Any]) -> None:
    """In several dimensions one coordinate's law does not decide; rho does."""
    event = from_named_tuple([MODULE, "DiscreteGaussianDpEvent", *fields])
    assert isinstance(event, ev.ZCDP)
    exact = (fields[1] / fields[0]) ** 2 / 2
    assert exact <= event.rho <= exact * (1 + 1e-14)


def nested(depth: int) -> list[Any]:
    event = GAUSSIAN
    for _ in range(depth):
        event = [MODULE, "SelfComposedDpEvent", event, 1]
    return event


def holds_itself() -> dict[str, Any]:
    event: dict[str, Any] = {"module_name": MODULE, "class_name": "ComposedDpEvent"}
    event["events"] = [event, event]
    return event


@for_each(
    ("data", "words"),
    [
        (nested(ev.MAX_DEPTH + 1), "levels deep"),
        (holds_itself(), "levels deep"),
        ([MODULE, "GaussianDpEvent", *[1.0] * 50_000], "50,002 items"),
        (dict.fromkeys(map(str, range(50_000))), "50,000 items"),
        (
            [MODULE, "MixtureOfGaussiansDpEvent", 1.0, [0.0] * 50_000, [0.0] * 50_000],
            "`sensitivities` must have at most",
        ),
        (None, "`event` must be"),
        ("gaussian", "`event` must be"),
        (1.0, "`event` must be"),
        ([], "has no `module_name`"),
        ([MODULE], "has no `class_name`"),
        ({}, "has no `module_name`"),
        ({1: 2, "module_name": MODULE, "class_name": "NoOpDpEvent"}, "not text"),
        ([MODULE, "GaussianDpEvents", 1.0], "`event.class_name`"),
        ([MODULE, "x" * 50_000], "`event.class_name`"),
        ([MODULE, 3], "`event.class_name` must be text"),
        ([["a"], "GaussianDpEvent", 1.0], "`event.module_name` must be text"),
        (["os", "system", "true"], "`event.module_name`"),
        ([MODULE, "GaussianDpEvent"], "noise_multiplier"),
        ([MODULE, "GaussianDpEvent", 1.0, 2.0], "has 2 fields"),
        ([MODULE, "GaussianDpEvent", "1.0"], "`noise_multiplier`"),
        ([MODULE, "GaussianDpEvent", True], "`noise_multiplier`"),
        ([MODULE, "GaussianDpEvent", math.nan], "`noise_multiplier`"),
        ([MODULE, "ComposedDpEvent", "ab"], "`events`"),
        ([MODULE, "ComposedDpEvent", [GAUSSIAN, 7]], "`event.events[1]`"),
        ([MODULE, "SelfComposedDpEvent", GAUSSIAN, 10**30], "`count`"),
        ([MODULE, "PoissonSampledDpEvent", 0.1, {"type": "gaussian"}], "`event.event`"),
        (
            {**dict(zip(("module_name", "class_name"), GAUSSIAN, strict=False)), "sigma": 1.0},
            "sigma",
        ),
        ([MODULE, "RandomAllocationDpEvent", GAUSSIAN, 10, 3], "`num_selected`"),
        ([MODULE, "DiscreteGaussianDpEvent", 1.0, 0.0, 1], "`sensitivity`"),
        ([MODULE, "DiscreteGaussianDpEvent", 1.0, 1.0, 0], "`dimension`"),
        ([MODULE, "EpsilonDeltaDpEvent", 1.0, 2.0], "`delta`"),
        ([MODULE, "MixtureOfGaussiansDpEvent", 1.0, "ab", [1.0]], "`sensitivities`"),
        ([MODULE, "MixtureOfGaussiansDpEvent", 1.0, [0.0, 1.0], [1.0]], "as many"),
        ([MODULE, "MixtureOfGaussiansDpEvent", 1.0, [-1.0, 1.0], [0.5, 0.5]], "sensitivities[0]"),
    ],
)
def test_hostile_data_is_refused_by_name(data: Any, words: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        from_named_tuple(data)
    assert words in refused.value.what
    assert len(refused.value.what) < 1000


def test_many_parts_are_read_and_more_than_that_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dp_event_converters.MAX_PARTS == 200_000
    monkeypatch.setattr(dp_event_converters, "MAX_PARTS", 4_000)
    parts = [[MODULE, "GaussianDpEvent", 1.0 + index % 7] for index in range(3_999)]
    event = from_named_tuple([MODULE, "ComposedDpEvent", parts])
    assert isinstance(event, ev.Compose)
    assert len(event.events) == len(parts)
    with pytest.raises(InvalidInput, match="more than 4,000 parts"):
        from_named_tuple([MODULE, "ComposedDpEvent", [*parts, GAUSSIAN]])


def test_a_tuple_whose_names_lie_is_no_event() -> None:
    class Odd(tuple):
        _fields = ("module_name", "class_name", "a", "b", "c", "d", "e")

    with pytest.raises(InvalidInput, match="must be an event"):
        pp.account(Odd((MODULE, "GaussianDpEvent", 1.0)), delta=1e-5)
    foreign = namedtuple("foreign", ("module_name", "class_name", "noise"))
    with pytest.raises(InvalidInput, match="noise"):
        pp.account(foreign(MODULE, "GaussianDpEvent", 1.0), delta=1e-5)


def test_names_in_bytes_are_names() -> None:
    assert from_named_tuple([MODULE.encode(), b"GaussianDpEvent", 1.0]) == ev.Gaussian(1.0)


def test_what_has_no_event_here_is_refused_by_name() -> None:
    with pytest.raises(Unsupported, match=r"`event\.events\[0\]`, .*UnsupportedDpEvent"):
        from_named_tuple([MODULE, "ComposedDpEvent", [[MODULE, "UnsupportedDpEvent"]]])
