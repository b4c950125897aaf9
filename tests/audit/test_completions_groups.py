"""Users of several records: clients around a rate, releases of a batch, groups in an event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from privplan import check
from privplan.accountant import events as ev

from ..cases import for_each
from .completion_runs import EXACTLY, covers, drawn, ends, epsilon, narrows, of

USERS: dict[str, Any] = {"unit": "user", "noise_multiplier": 2.0, "rate": 0.1, "steps": 20}


@for_each("bounds", [{}, {"clip_bounds": "record", "sampled": "records"}])
def test_all_records_of_a_user_may_move_a_release_of_a_batch_by_one_together(
    bounds: dict[str, str],
) -> None:
    facts = USERS | {"noise_multiplier": 4.0, "steps": 10, "records_per_user": 3} | bounds
    release = {"what": "a mean over users", "noise_multiplier": 2.0, "count": 10, "of_batch": True}
    result = of(2.0, **facts, releases=[release])
    # Of three records each brings a third of what its user may move the release by.
    both = ev.Compose((ev.Gaussian(4.0), ev.Gaussian(3 * 2.0)))
    together = ev.Repeat(10, ev.Group(3, ev.Poisson(0.1, both)))
    assert ends(result)[0] <= epsilon(together).upper * (1 + EXACTLY)
    each = ev.Compose((ev.Gaussian(4.0), ev.Gaussian(2.0)))
    assert epsilon(ev.Repeat(10, ev.Group(3, ev.Poisson(0.1, each)))).lower <= ends(result)[1]


@for_each("clients_rate", [0.3, 0.9])
def test_users_of_one_record_are_drawn_with_their_client_and_besides(clients_rate: float) -> None:
    open_to = of(1.0, **USERS, clients_rate=clients_rate)
    # One record, drawn with its client and besides; whether anew in every step nobody said.
    once = drawn(2.0, 0.1 * clients_rate, 1)
    assert ends(open_to)[0] <= epsilon(once).upper * (1 + EXACTLY)
    # A user of many records is there with its client.
    assert covers(open_to, drawn(2.0, clients_rate, 20))
    told = of(1.0, **USERS, clients_rate=clients_rate, records_per_user=1)
    assert narrows(told, open_to)
    assert covers(told, drawn(2.0, 0.1 * clients_rate, 20))


def conventions_of(**facts: Any) -> set[str]:
    return {each.id for each in of(1.0, **(USERS | facts)).conventions}


@for_each("facts", [{}, {"users": 100}, {"clip_bounds": "unit"}, {"sampled": "users"}])
def test_users_whose_records_nobody_counted_are_wholes_by_a_convention(
    facts: dict[str, Any],
) -> None:
    assert "user-clip" in conventions_of(**facts)


@for_each(
    "facts",
    [
        {"unit": "record"},
        {"records_per_user": 1},
        {"records_per_user": 3},
        {"clip_bounds": "unit", "sampled": "users"},
        # Records are drawn or clipped, and their number is asked for.
        {"clip_bounds": "unit", "sampled": "records"},
        {"clip_bounds": "record"},
    ],
)
def test_what_is_said_of_users_cancels_the_convention(facts: dict[str, Any]) -> None:
    assert "user-clip" not in conventions_of(**facts)


def test_strict_opens_whether_users_or_records_are_drawn() -> None:
    facts: dict[str, Any] = {"unit": "user", "noise_multiplier": 2.0, "steps": 20, "batch": 10}
    facts |= {"users": 100, "records": 1000, "method": "poisson", "neighbours": "add-remove"}
    usual = check(claimed=1.0, delta=1e-5, **facts)
    assert ends(usual)[0] > epsilon(drawn(2.0, 0.01, 20)).upper
    opened = check(claimed=1.0, delta=1e-5, **facts, strict=True)
    lower, upper = ends(opened)
    assert upper == float("inf")
    # Ten of a thousand records are drawn, of which a user may have one.
    assert lower <= epsilon(drawn(2.0, 0.01, 20)).upper * (1 + EXACTLY)
    assert opened.verdict == "unverifiable"
    assert "data.records_per_user" in {each.key for each in opened.deciding}


def test_strict_does_not_open_how_users_are_drawn_where_it_is_said() -> None:
    facts: dict[str, Any] = {"unit": "user", "noise_multiplier": 2.0, "steps": 20, "batch": 10}
    facts |= {"users": 100, "records": 1000, "clip_bounds": "unit", "sampled": "users"}
    opened = of(1.0, **facts, strict=True)
    assert ends(opened)[0] >= epsilon(drawn(2.0, 0.1, 20)).lower * (1 - EXACTLY)
    assert "data.records_per_user" not in {each.key for each in opened.deciding}


def of_event(tmp_path: Path, event: ev.Event, claimed: float, **facts: Any) -> Any:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event.to_json()))
    return check(str(path), claimed=claimed, delta=1e-5, **facts)


@for_each("unit", [{}, {"unit": "record"}])
@for_each(
    "inner, outer",
    [
        (ev.Gaussian(4.0), lambda one: ev.Repeat(10, ev.Group(3, one))),
        (ev.Poisson(0.1, ev.Gaussian(2.0)), lambda one: ev.Repeat(10, ev.Group(3, one))),
        (
            ev.Poisson(0.1, ev.Gaussian(2.0)),
            lambda one: ev.Group(3, ev.Compose((ev.Repeat(9, one), one))),
        ),
    ],
)
def test_a_record_beside_an_event_of_groups_is_one_of_a_group_or_the_group(
    tmp_path: Path, inner: ev.Event, outer: Any, unit: dict[str, str]
) -> None:
    facts = {"neighbours": "add-remove", **unit}
    result = of_event(tmp_path, outer(inner), 1.0, **facts)
    assert covers(result, ev.Repeat(10, inner))
    assert covers(result, ev.Repeat(10, ev.Group(3, inner)))


def test_a_user_beside_an_event_of_groups_is_the_group(tmp_path: Path) -> None:
    event = ev.Repeat(10, ev.Group(3, ev.Poisson(0.1, ev.Gaussian(2.0))))
    result = of_event(tmp_path, event, 1.0, neighbours="add-remove", unit="user")
    truth, (lower, upper) = epsilon(event), ends(result)
    assert truth.lower * (1 - EXACTLY) <= lower <= truth.upper
    assert truth.lower <= upper <= truth.upper * (1 + EXACTLY)


@for_each("neighbours", ["add-remove", "replace-one", "zero-out"])
@for_each("method", ["poisson", "shuffled", "fixed-size", "with-replacement", "weighted"])
def test_an_event_without_samples_beside_a_sampler_is_never_false(
    tmp_path: Path, method: str, neighbours: str
) -> None:
    # The accountant counted every step in full, and batches were drawn: of how many, nobody said.
    facts = {"method": method, "neighbours": neighbours, "unit": "record"}
    result = of_event(tmp_path, ev.Repeat(10, ev.Gaussian(4.0)), 0.05, **facts)
    assert result.verdict in ("unproven", "unverifiable")
    lower, upper = ends(result)
    assert lower <= epsilon(drawn(4.0, 1e-3, 10), neighbours="add-remove").lower
    assert upper >= epsilon(ev.Repeat(10, ev.Gaussian(4.0)), neighbours=neighbours).lower


@for_each("method", ["full", "unknown"])
def test_an_event_without_samples_is_what_ran_where_no_batches_were_drawn(
    tmp_path: Path, method: str
) -> None:
    event = ev.Repeat(10, ev.Gaussian(4.0))
    facts = {"method": method, "neighbours": "add-remove", "unit": "record"}
    assert of_event(tmp_path, event, 0.05, **facts).verdict == "false"
