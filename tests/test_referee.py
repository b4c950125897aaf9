"""The referee's comparison: what differs is reported, with its way, and what is equal is not."""

from __future__ import annotations

import math
from typing import Any

import pytest

from privplan.accountant.events import PARTICIPATIONS, STRATEGIES, TYPES

from .referee import masks, random_events
from .referee.comparison import CLOSE, differences

ANSWER: dict[str, Any] = {
    "exit": 0,
    "out": {
        "epsilon": {"lower": 1.827, "upper": 1.828},
        "verdict": "holds",
        "rounds": 20,
        "ok": True,
        "hazards": [{"id": "seeded", "severity": "error"}],
    },
    "err": "warning: epsilon 1.828 at delta 1e-05, over 1,000 steps\n  see: privplan explain\n",
}


def changed(*path: Any, to: object) -> dict[str, Any]:
    """Return the answer with one value changed."""

    def inside(value: Any, path: tuple[Any, ...]) -> Any:
        if not path:
            return to
        copy = list(value) if isinstance(value, list) else dict(value)
        copy[path[0]] = inside(value[path[0]], path[1:])
        return copy

    result: dict[str, Any] = inside(ANSWER, path)
    return result


def without(*path: Any) -> dict[str, Any]:
    *outer, last = path
    inner: Any = ANSWER
    for key in outer:
        inner = inner[key]
    return changed(*outer, to={key: value for key, value in inner.items() if key != last})


def found(now: object) -> list[tuple[str, str]]:
    return [(each.field, each.way) for each in differences("a case", ANSWER, now)]


@pytest.mark.parametrize(
    ("now", "field", "way"),
    [
        (changed("out", "epsilon", "upper", to=1.829), "out.epsilon.upper", "outwards"),
        (changed("out", "epsilon", "upper", to="inf"), "out.epsilon.upper", "outwards"),
        (changed("out", "epsilon", "upper", to=1.8279), "out.epsilon.upper", "inwards"),
        (changed("out", "epsilon", "lower", to=1.826), "out.epsilon.lower", "outwards"),
        (changed("out", "epsilon", "lower", to=1.8271), "out.epsilon.lower", "inwards"),
        (changed("out", "epsilon", "lower", to=None), "out.epsilon.lower", "changed"),
        (changed("out", "rounds", to=21), "out.rounds", "changed"),
        (changed("out", "rounds", to="20"), "out.rounds", "changed"),
        (changed("out", "verdict", to="false"), "out.verdict", "changed"),
        (changed("out", "ok", to=1), "out.ok", "changed"),
        (
            changed("out", "hazards", 0, "severity", to="warning"),
            "out.hazards[0].severity",
            "changed",
        ),
        (changed("out", "hazards", to=[]), "out.hazards[0]", "missing"),
        (changed("exit", to=1), "exit", "changed"),
        (without("out", "verdict"), "out.verdict", "missing"),
        (without("err"), "err", "missing"),
        ({**ANSWER, "more": 1}, "more", "new"),
        (changed("err", to=ANSWER["err"].replace("1.828", "1.829")), "err", "changed"),
        (changed("err", to=ANSWER["err"].replace("1e-05", "1e-06")), "err", "changed"),
        (changed("err", to=ANSWER["err"].replace("1,000", "1,001")), "err", "changed"),
        (changed("err", to=ANSWER["err"].replace("warning", "error")), "err", "changed"),
        (changed("err", to=ANSWER["err"].replace("\n  see", " see")), "err", "changed"),
        (changed("err", to=ANSWER["err"].replace("delta", "")), "err", "changed"),
    ],
)
def test_a_difference_is_reported_with_its_way(now: object, field: str, way: str) -> None:
    assert found(now) == [(field, way)]


@pytest.mark.parametrize("relative", [0.5 * CLOSE, -0.5 * CLOSE])
def test_what_another_processor_rounds_otherwise_is_equal(relative: float) -> None:
    near = 1.828 * (1.0 + relative)
    assert found(changed("out", "epsilon", "upper", to=near)) == []
    assert found(changed("err", to=ANSWER["err"].replace("1.828", repr(near)))) == []


@pytest.mark.parametrize("relative", [2.0 * CLOSE, -2.0 * CLOSE])
def test_what_is_further_away_is_not(relative: float) -> None:
    far = 1.828 * (1.0 + relative)
    assert found(changed("out", "epsilon", "upper", to=far)) != []
    assert found(changed("err", to=ANSWER["err"].replace("1.828", repr(far)))) != []


def test_small_numbers_are_compared_by_value_too() -> None:
    assert differences("a case", {"upper": 1e-15}, {"upper": 2e-15})[0].way == "outwards"
    assert differences("a case", {"upper": 1e-300}, {"upper": 0.0})[0].way == "inwards"
    assert differences("a case", {"lower": math.nan}, {"lower": math.nan}) == []
    assert differences("a case", {"lower": math.nan}, {"lower": 0.0}) != []


def test_equal_answers_have_no_difference() -> None:
    assert found(changed("exit", to=0)) == []
    assert found(changed("out", "rounds", to=20.0)) == []
    assert found(changed("err", to=ANSWER["err"].replace("1.828", "1.8280"))) == []


def test_a_line_names_case_field_and_both_values() -> None:
    (difference,) = differences("a case", ANSWER, changed("exit", to=1))
    assert difference.line() == "changed   a case  exit: 0 -> 1"


def test_every_type_of_event_strategy_and_participation_is_asked() -> None:
    assert set(random_events.MAKERS) == set(TYPES)
    assert set(random_events.STRATEGY_MAKERS) == set(STRATEGIES)
    assert set(random_events.PARTICIPATION_MAKERS) == set(PARTICIPATIONS)


def test_masks_say_why_and_hide_nothing_else() -> None:
    assert all(mask.reason.endswith(".") for mask in masks.MASKS.values())
    text = f"head {'0a' * 32}, run {'1b' * 16}, epsilon 1.828"
    assert masks.masked(text, ["hash", "run"]) == "head <hash>, run <run>, epsilon 1.828"
    answer = {"gap": 1e-6, "epsilon": [{"upper": 1.5, "gap": None}]}
    kept = {"gap": "<gap>", "epsilon": [{"upper": 1.5, "gap": None}]}
    assert masks.without_fields(answer) == kept
