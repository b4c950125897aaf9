"""Protected records of users: who is drawn, and clipped, is part of what a description leaves open.

Truths are in closed form where others show whether a user was drawn, and else those of one user's
update that turns from one side to the other.
"""

from __future__ import annotations

import math
from typing import Any

import privplan as pp
from privplan.accountant import events as ev

from ..cases import for_each
from .completion_runs import EXACTLY, check, ends, epsilon, of, seen_draws, spans, truth
from .whole_runs import loss_of

DRAWN: dict[str, Any] = {
    "noise_multiplier": 1.0,
    "rate": 0.01,
    "steps": 100,
    "users": 100,
    "records": 1000,
}
HALF: dict[str, Any] = {
    "noise_multiplier": 1.0,
    "rate": 0.5,
    "steps": 4,
    "users": 10,
    "records": 100,
    "method": "fixed-size",
    "sampled": "users",
    "clip_bounds": "record",
}


def test_other_records_of_a_user_show_that_it_was_drawn() -> None:
    """The largest that they may lie apart is infinitely far, and hides no draw at all."""
    shown = seen_draws(1.0, 0.01, 100)
    assert shown > 10 * truth(1.0, 0.01, 100)
    result = of(0.72, **DRAWN, records_per_user=20, sampled="users", clip_bounds="record")
    spans(result, truth(1.0, 0.01, 100), shown)
    assert not result.verdict.startswith("holds")


def test_who_is_drawn_is_open_once_somebody_says_how_many_records_a_user_has() -> None:
    alone = of(0.72, **DRAWN)
    assert alone.verdict == "holds"
    assert "record-clip" in {each.id for each in alone.conventions}
    result = of(0.72, **DRAWN, records_per_user=20)
    assert result.verdict == "unverifiable"
    assert {"sampling.sampled", "noise.clip_bounds"} <= {each.key for each in result.deciding}
    assert ends(result)[1] >= seen_draws(1.0, 0.01, 100) * (1.0 - EXACTLY)
    told = of(0.72, **DRAWN, records_per_user=20, sampled="records", clip_bounds="record")
    assert told.verdict == "holds"


@for_each("relation, shift", [("zero-out", 1.0), ("replace-one", 2.0), ("add-remove", 11.0)])
def test_of_samples_of_a_fixed_size_a_user_may_take_the_place_of_another(
    relation: str, shift: float
) -> None:
    """A record that is its user's only one leaves its place to a user of ten."""
    facts = {**HALF, "unit": "record", "neighbours": relation, "delta": 1e-5}
    result = check(claimed=7.0, **facts, records_per_user=10)
    assert not result.verdict.startswith("holds")
    assert ends(result)[1] >= seen_draws(1.0 / shift, 0.5, 4)
    open_to = check(claimed=7.0, **facts)
    assert math.isinf(ends(open_to)[1])
    assert ends(open_to)[0] <= seen_draws(1.0 / shift, 0.5, 4)


def test_a_record_turns_the_update_of_its_user() -> None:
    facts = {"noise_multiplier": 3.0, "rate": 0.3, "steps": 10, "users": 30}
    plain = {"neighbours": "add-remove", "method": "poisson", "delta": 1e-5}
    turned = epsilon(ev.Repeat(10, ev.Poisson(0.3, ev.Gaussian(3.0))), neighbours="replace-one")
    for more in ({}, {"unit": "record", "sampled": "users", "clip_bounds": "unit"}):
        result = check(claimed=1.41, **facts, **plain, **more)
        assert not result.verdict.startswith("holds")
        assert ends(result)[1] >= turned.lower
    assert check(claimed=1.41, **facts, **plain, unit="user").verdict == "holds"


def test_a_user_of_several_records_may_be_drawn_by_them_at_a_stated_rate() -> None:
    facts = {"noise_multiplier": 2.0, "rate": 0.1, "steps": 10, "users": 10, "records": 30}
    facts |= {"unit": "user", "neighbours": "zero-out", "clip_bounds": "unit"}
    result = of(0.8, **facts, records_per_user=3)
    assert not result.verdict.startswith("holds")
    assert ends(result)[1] >= truth(2.0, 1.0 - 0.9**3, 10) * (1.0 - 1e-3)


@for_each("records", [None, 2000])
def test_epochs_of_silos_are_no_passes_of_users_of_one_record(records: int | None) -> None:
    facts = {"unit": "silo", "noise_multiplier": 3.0, "epochs": 1, "batch": 4, "silos": 9}
    result = of(
        2.35, **facts, records_per_user=1, **({} if records is None else {"records": records})
    )
    assert result.verdict == "unverifiable"
    assert "schedule.steps" in {each.key for each in result.missing if each.deciding}


STARTS: list[tuple[dict[str, Any], float]] = [
    (
        {"noise_multiplier": 3.0, "accumulation": 3, "restarts": 3, "records": 120, "batch": 10,
         "steps": 12, "epochs": 1},
        truth(3.0, 0.25, 12),
    ),
    (
        {"noise_multiplier": 1.0, "accumulation": 2, "restarts": 2, "records": 12, "batch": 2,
         "steps": 18, "epochs": 6},
        truth(1.0, 1 / 6, 36),
    ),
]  # fmt: skip


@for_each("facts, attained", STARTS)
def test_batches_of_several_starts_may_be_of_one_draw_or_of_all(
    facts: dict[str, Any], attained: float
) -> None:
    result = of(1.0, **facts, accumulation_of="one-sample")
    assert ends(result)[0] <= attained <= ends(result)[1]


def test_a_user_that_is_clipped_as_a_whole_is_once_in_a_step_however_often_it_is_drawn() -> None:
    facts = {"unit": "user", "neighbours": "zero-out", "noise_multiplier": 2.0, "users": 3}
    facts |= {"method": "with-replacement", "rate": 2 / 3, "steps": 6, "clip_bounds": "unit"}
    for more in ({"sampled": "users"}, {"records": 6, "records_per_user": 2}):
        result = of(6.0, **facts, **more)
        assert result.verdict != "false"
        assert ends(result)[0] <= truth(2.0, 1.0, 6)


SATISFIABLE: list[dict[str, Any]] = [
    {"unit": "silo", "silos": 2, "records": 3, "records_per_user": 1, "batch": 1, "rate": 1 / 3,
     "epochs": 5, "steps": 15},
    {"records": 23, "users": 12, "batch": 6, "steps": 4, "epochs": 2},
    {"unit": "record", "records": 20, "accumulation": 2, "steps": 9, "batch": 8, "rate": 0.2},
]  # fmt: skip


@for_each("facts", SATISFIABLE)
def test_batches_may_count_users_records_or_one_of_several(facts: dict[str, Any]) -> None:
    result = check(claimed=5.0, delta=1e-5, noise_multiplier=2.0, method="poisson", **facts)
    assert "contradiction" not in {each.id for each in result.causes}


def test_silos_drawn_with_replacement_are_not_in_every_step_at_rate_one() -> None:
    """Two draws of two silos miss one in a quarter of the steps."""
    result = pp.check(
        {
            "claim": {"delta": 1e-5, "unit": "silo", "neighbours": "zero-out"},
            "noise": {"noise_multiplier": 1.0},
            "sampling": {"method": "with-replacement", "rate": 1.0, "sampled": "users"},
            "schedule": {"steps": 1},
            "data": {"records": 229},
        }
    )
    assert ends(result)[0] <= truth(1.0, 0.75, 1)


@for_each("sampled", [{}, {"sampled": "users"}])
def test_more_draws_with_replacement_than_users_may_be_draws_of_users(
    sampled: dict[str, str],
) -> None:
    """Of twelve draws of three users one is in all, and its record moves the sum by twelve."""
    facts = {"noise_multiplier": 3.0, "steps": 2, "users": 3, "records": 30, "batch": 12}
    result = check(
        claimed=3.11, **facts, **sampled, unit="record", method="with-replacement",
        neighbours="zero-out", delta=1e-5, records_per_user=10, clip_bounds="record",
    )  # fmt: skip
    assert not result.verdict.startswith("holds")
    # It is drawn eight times or more in a step with probability .019: two such steps are 3.6e-4.
    assert ends(result)[1] >= truth(3.0 / 8.0, 1.0, 2, 0.1)


def test_whose_clip_it_is_stays_open_where_somebody_says_that_records_are_drawn() -> None:
    """All 18 records are in each step: one turns the update of its user, by two norms."""
    facts = {"noise_multiplier": 2.0, "users": 6, "records": 18, "batch": 18, "steps": 3}
    result = of(4.0, **facts, sampled="records")
    assert result.verdict == "unverifiable"
    assert ends(result)[1] >= truth(1.0, 1.0, 3) * (1.0 - 1e-3)
    assert of(4.0, **facts, sampled="records", clip_bounds="record").verdict == "holds"


def test_a_rate_of_users_whom_nobody_counted_is_held_against_no_records() -> None:
    """Of six users two batches of two are drawn; of twelve records they would be one of four."""
    facts = {"noise_multiplier": 1.5, "records": 12, "batch": 2, "rate": 1 / 3, "steps": 6}
    facts |= {"accumulation": 2, "accumulation_of": "own-draws", "neighbours": "replace-one"}
    result = of(6.0, **facts, unit="user", sampled="users", clip_bounds="unit")
    law = ((4 / 9, 0.0), (4 / 9, 1.0), (1 / 9, 2.0))
    opposite = tuple((chance, -mean) for chance, mean in law)
    assert ends(result)[1] >= loss_of(law, opposite, 1.5, 6) * (1.0 - 1e-3)


UNSAID: list[dict[str, Any]] = [
    {"unit": "user", "rate": 0.1},
    {"unit": "user", "rate": 0.1, "users": 100},
    {"unit": "silo", "rate": 0.2},
    {"unit": "silo", "sampled": "records", "batch": 4, "silos": 10},
    {"unit": "record", "sampled": "users", "clip_bounds": "unit", "batch": 2, "users": 10},
]


@for_each("facts", UNSAID)
def test_epochs_tell_no_steps_of_users_or_of_what_nobody_counted(facts: dict[str, Any]) -> None:
    result = of(9.0, **facts, noise_multiplier=2.0, epochs=3)
    assert result.verdict == "unverifiable"
    assert math.isinf(ends(result)[1])
    assert "schedule.steps" in {each.key for each in result.missing if each.deciding}


def test_a_batch_may_count_users_where_somebody_says_how_many_records_each_has() -> None:
    facts = {"unit": "record", "records": 18, "records_per_user": 3, "batch": 1, "rate": 1 / 6}
    result = of(9.0, **facts, noise_multiplier=2.0, steps=6)
    assert "contradiction" not in {each.id for each in result.causes}
