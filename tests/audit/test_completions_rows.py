"""Rows that a verdict lists: each option states the run that the row is about, or there is none."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.audit.check.check_result import CheckResult
from privplan.audit.description.files import reading_of_option
from privplan.audit.description.keys import DOTTED

from ..cases import for_each
from .completion_runs import EXACTLY, drawn, epsilon, of

STEPS: dict[str, Any] = {"noise_multiplier": 2.0, "steps": 20}
DIGITS: dict[str, Any] = {"noise_multiplier": 1.1, "rate": Decimal("0.0043")}
USERS: dict[str, Any] = {**STEPS, "unit": "user", "records_per_user": 3}

DESCRIPTIONS: dict[str, tuple[float, dict[str, Any]]] = {
    "restarts": (1.4, {**STEPS, "rate": 0.1, "restarts": 3}),
    "restarts of epochs": (
        1.4,
        {"noise_multiplier": 2.0, "rate": 0.1, "epochs": 2, "restarts": 3},
    ),
    "accumulated rate": (1.5, {**STEPS, "rate": 0.05, "accumulation": 4}),
    "accumulated batch": (1.5, {**STEPS, "batch": 50, "records": 1000, "accumulation": 4}),
    "accumulated starts": (3.0, {**STEPS, "rate": 0.05, "accumulation": 4, "restarts": 2}),
    "digits": (1.14, {**DIGITS, "steps": 3500}),
    "digits of records": (1.14, {**DIGITS, "steps": 3500, "records": 60_000}),
    "digits of epochs": (1.14, {**DIGITS, "epochs": 15}),
    "epochs of a batch": (
        1.144,
        {"noise_multiplier": 1.1, "epochs": 15, "batch": 260, "records": 60_000},
    ),
    "accumulated digits": (1.0, {**STEPS, "rate": Decimal("0.043"), "accumulation": 4}),
    "rate of a loader": (
        2.5,
        {**STEPS, "steps": 10, "rate": Decimal("0.33"), "batch": 300, "records": 1000},
    ),
    "users with records": (2.0, {**USERS, "users": 500, "records": 1000, "batch": 50}),
    "users at a rate": (2.0, {**USERS, "rate": 0.1}),
    "users of clients": (2.0, {**USERS, "rate": 0.1, "clients_rate": 0.3}),
    "renewals": (1.0, {**STEPS, "rate": 0.1, "steps": 5, "horizon_days": 10}),
    "batches": (
        1.3,
        {**STEPS, "noise_multiplier": 1.0, "rate": 0.4, "delta_rule": "1/batches", "delta": None},
    ),
    "no sampler": (1.0, {**STEPS, "rate": 0.1, "method": "unknown"}),
}
DESCRIPTIONS["renewals"][1]["renews_every_days"] = 3


@cache
def described(name: str) -> CheckResult:
    claim, facts = DESCRIPTIONS[name]
    return of(claim, **facts)


def with_options(facts: Mapping[str, Any], options: str) -> dict[str, Any]:
    """Return facts with what options say in their place, each number with its digits."""
    said = dict(facts)
    for option in options.split():
        (name, fact), *_ = reading_of_option(option).facts.items()
        text = option.partition("=")[2]
        key = next(last for last, dotted in DOTTED.items() if dotted == name)
        said[key] = Decimal(text) if fact.half_unit else fact.value
    return said


@for_each("name", list(DESCRIPTIONS))
def test_the_options_of_a_row_state_a_run_with_its_ends(name: str) -> None:
    claim, facts = DESCRIPTIONS[name]
    rows = described(name).completions
    assert len(rows) > 1
    for row in rows:
        if not row.settles:
            continue
        told = of(claim, **with_options(facts, row.settles))
        assert "contradiction" not in {each.id for each in told.causes}
        assert told.proven is not None
        assert told.proven.lower == pytest.approx(row.bounds.lower, rel=EXACTLY)
        assert told.proven.upper == pytest.approx(row.bounds.upper, rel=EXACTLY)
        # What the row settles, it settles: nothing of it disagrees about the claim any more.
        assert not told.completions


@for_each(
    "name, options, event",
    [
        ("restarts", "schedule.restarts=1", drawn(2.0, 0.1, 20)),
        ("restarts", "schedule.steps=60 schedule.restarts=1", drawn(2.0, 0.1, 60)),
        ("accumulated rate", "schedule.accumulation=1", drawn(2.0, 0.05, 20)),
        (
            "accumulated rate",
            "sampling.rate=0.200000000000 schedule.accumulation=1",
            drawn(2.0, 0.2, 20),
        ),
        ("digits", "sampling.rate=0.00425000000000", drawn(1.1, 0.00425, 3500)),
        ("digits of records", "sampling.rate=0.00435000000000", drawn(1.1, 0.00435, 3500)),
        ("epochs of a batch", "schedule.steps=3465", drawn(1.1, 260 / 60_000, 3465)),
        ("rate of a loader", "sampling.rate=0.300000000000", drawn(2.0, 0.3, 10)),
        (
            "users at a rate",
            "noise.clip_bounds=unit sampling.sampled=users",
            drawn(2.0, 0.1, 20),
        ),
        (
            "users at a rate",
            "noise.clip_bounds=record sampling.sampled=records",
            ev.Group(3, drawn(2.0, 0.1, 20)),
        ),
        ("renewals", "schedule.horizon_days=9.0", drawn(2.0, 0.1, 15)),
    ],
)
def test_a_row_has_the_ends_of_the_run_that_its_options_name(
    name: str, options: str, event: ev.Event
) -> None:
    (row,) = (each for each in described(name).completions if each.settles == options)
    truth = epsilon(event)
    assert row.bounds.lower == pytest.approx(truth.lower, rel=1e-4)
    assert row.bounds.upper == pytest.approx(truth.upper, rel=1e-4)


REPLIES: dict[str, Any] = {"noise_multiplier": 4.0, "steps": 10, "method": "full"}


@for_each("name", [*DESCRIPTIONS, "replies"])
def test_every_row_says_what_it_is_about(name: str) -> None:
    result = (
        of(1.0, **REPLIES, expected_replies=10, replies=9) if name == "replies" else described(name)
    )
    assert result.completions
    assert all(each.says.strip() for each in result.completions)
    assert len({each.says for each in result.completions}) == len(result.completions)


def test_replies_of_every_round_are_a_row_with_the_ends_of_that_run() -> None:
    result = of(1.0, **REPLIES, expected_replies=10, replies=9)
    most = max(result.completions, key=lambda row: row.bounds.lower)
    # As few as nine of ten in every round bring nine shares of the noise.
    truth = epsilon(ev.Repeat(10, ev.Gaussian(4.0 * 0.9**0.5)))
    assert most.bounds.lower <= truth.upper
    assert truth.lower <= most.bounds.upper * (1 + EXACTLY)


@for_each(
    "name, says",
    [
        # Another batch would make other steps of the epochs, and drawn records have one rate each.
        ("restarts of epochs", "each of 3 starts"),
        ("accumulated batch", "that of one of them"),
        ("accumulated rate", "samples of their own"),
        ("no sampler", "drawn as full"),
    ],
)
def test_a_row_that_no_options_state_has_none(name: str, says: str) -> None:
    rows = [each for each in described(name).completions if says in each.says]
    assert rows
    assert all(not each.settles for each in rows)


def test_under_strict_a_row_has_an_option_only_where_that_gives_its_ends() -> None:
    facts = {"unit": "user", "method": "poisson", "rate": 0.1, "clip_bounds": "record"}
    facts |= {"users": 4, "records_per_user": 2, "records": 8, "noise_multiplier": 3.0, "steps": 1}
    result = of(0.39, **facts, neighbours="zero-out", strict=True)
    assert len(result.completions) == 2
    assert not any(row.settles for row in result.completions)


def test_under_strict_a_user_may_have_several_records_that_nobody_mentions() -> None:
    facts = {"method": "with-replacement", "batch": 7, "records": 8, "noise_multiplier": 2.0}
    facts |= {"clip_bounds": "unit", "sampled": "records", "neighbours": "replace-one"}
    result = of(12.0, **facts, steps=4, strict=True)
    # What a user adds to a step is clipped: a sum moves by two norms at most.
    assert result.proven is not None
    assert result.proven.lower <= epsilon(ev.Repeat(4, ev.Gaussian(1.0))).upper
    assert result.verdict == "unverifiable"
