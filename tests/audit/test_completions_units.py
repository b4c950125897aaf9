"""Whose epsilon it is: users and silos of several records, clients, releases of theirs."""

from __future__ import annotations

import math
from typing import Final

import pytest

from privplan import account, check
from privplan.accountant import events as ev

from ..cases import for_each
from .completion_runs import PLAIN, WITHIN, epsilon, of, spans, truth

USERS: Final = {
    "unit": "user",
    "std": 2.0,
    "clip": 1.0,
    "users": 1000,
    "clients_rate": 0.1,
    "steps": 10,
    "records_per_user": 50,
}


def test_what_the_clip_bounds_decides_for_users_of_many_records() -> None:
    result = of(0.8, **USERS)
    assert result.verdict == "unverifiable"
    # Inside of a client its records may all be drawn, or none that counts.
    spans(result, 0.0, 2010.66)
    assert len(result.completions) == 6
    spans(of(0.8, **USERS, clip_bounds="unit"), 0.0, truth(2.0, 0.1, 10))
    told = of(0.8, **USERS, clip_bounds="unit", sampled="users")
    spans(told, truth(2.0, 0.1, 10), truth(2.0, 0.1, 10))
    records = of(0.8, **USERS, clip_bounds="record", sampled="records")
    assert records.proven is not None
    assert records.proven.upper == pytest.approx(2010.66, rel=1e-3)


def test_batches_larger_than_the_number_of_users_are_of_records() -> None:
    facts = {"users": 100, "records": 1000, "batch": 500, "records_per_user": 10, "steps": 20}
    result = of(50.0, unit="user", noise_multiplier=4.0, **facts)
    assert result.proven is not None
    assert 0.0 < result.proven.lower < result.proven.upper < float("inf")
    assert "data.records_per_user" not in {each.key for each in result.missing}


def test_an_event_of_samples_does_not_say_who_is_drawn() -> None:
    event = {"unit": "user", "records_per_user": 50, "neighbours": "add-remove"}
    sampled = ev.Repeat(10, ev.Poisson(0.1, ev.Laplace(20.0)))
    open_ = check(sampled, claimed=100, delta=1e-5, **event)
    assert not open_.verdict.startswith("holds")
    of_records = {"clip_bounds": "record", "sampled": "records"}
    assert check(sampled, claimed=100, delta=1e-5, **event, **of_records).verdict == "holds"


def test_a_batch_of_records_is_a_share_of_all_records() -> None:
    facts = {"unit": "user", "users": 40, "records_per_user": 2, "batch": 4, "steps": 5}
    result = of(
        1.5, noise_multiplier=1.3, delta=1e-3, sampled="records", clip_bounds="record", **facts
    )
    assert result.proven is not None
    assert result.proven.lower <= 0.7326


def test_where_users_are_mentioned_a_record_or_a_user_may_be_protected() -> None:
    facts = {"users": 1000, "records": 5000, "batch": 50, "steps": 30, "noise_multiplier": 1.1}
    plain = {key: value for key, value in PLAIN.items() if key != "unit"}
    result = check(claimed=1.0, delta=1e-5, **plain, **facts)
    # A record makes another update of its user's, which moves by up to two norms.
    user = ev.Repeat(30, ev.Poisson(0.05, ev.Gaussian(1.1)))
    spans(result, truth(1.1, 0.01, 30), epsilon(user, neighbours="replace-one").upper)
    assert result.verdict == "unverifiable"
    assert "claim.unit" in {each.key for each in result.deciding}
    assert "unit-record" not in {each.id for each in result.conventions}
    high = check(claimed=2.4, delta=1e-5, **plain, **facts)
    assert high.headline.startswith("HOLDS for adding or removing one record or user")
    spans(of(1.0, **facts), truth(1.1, 0.01, 30), truth(1.1, 0.01, 30))


def test_the_ends_of_one_choice_are_one_row() -> None:
    facts = {"unit": "user", "records": 6000, "users": 600, "records_per_user": 10, "batch": 100}
    result = of(3.0, **facts, steps=100, noise_multiplier=1.1)
    assert len({row.says for row in result.completions}) == len(result.completions)
    assert {"noise.clip_bounds", "sampling.sampled"} <= {each.key for each in result.deciding}
    drawn = of(3.0, **facts, steps=100, noise_multiplier=1.1, clip_bounds="unit", sampled="records")
    assert not any("takes part as a whole" in says for says in drawn.conditions)


def test_a_relation_without_a_number_is_told_without_one() -> None:
    facts = {"unit": "user", "records": 6, "users": 3, "records_per_user": 2, "epochs": 1}
    more = {
        "method": "shuffled",
        "neighbours": "replace-one",
        "clip_bounds": "record",
        "sampled": "records",
    }
    result = of(30.0, delta=1e-3, **facts, **more, noise_multiplier=0.2, rate=1 / 3)
    assert not any("is ." in cause.says for cause in result.causes)


CLIENTS: Final = {"noise_multiplier": 2.0, "rate": 0.1, "steps": 20, "delta": 1e-3}


@for_each("stated", [{}, {"records_per_user": 1}, {"records_per_user": 3}])
def test_a_silo_is_hidden_by_no_sample_of_records(stated: dict[str, object]) -> None:
    result = of(1.0, **CLIENTS, unit="silo", clients_rate=0.3, **stated)
    assert result.proven is not None
    assert result.proven.upper >= truth(2.0, 0.3, 20, 1e-3) * (1 - WITHIN)


def test_a_user_is_there_with_a_client_and_a_record() -> None:
    """A user of three records is in a step with probability 1 - .9^3 at most."""
    facts = {"unit": "user", "clip_bounds": "unit", "sampled": "records"}
    result = of(2.1, **CLIENTS, **facts, records_per_user=3, clients_rate=0.3)
    assert result.verdict == "holds"
    assert result.proven is not None
    assert result.proven.upper == pytest.approx(truth(2.0, 1 - 0.9**3, 20, 1e-3), rel=WITHIN)
    # How many records somebody has is asked for, where records are drawn or clipped.
    for asked in (facts, {"unit": "user", "clip_bounds": "record"}):
        unsaid = of(1.0, **CLIENTS, **asked, users=20, records=60)
        assert "data.records_per_user" in {each.key for each in unsaid.deciding}


@for_each(
    ("method", "neighbours", "batch"),
    [("unknown", "add-remove", 2), ("with-replacement", "replace-one", 8)],
)
def test_users_of_one_record_are_records(method: str, neighbours: str, batch: int) -> None:
    facts = {"records": 20, "batch": batch, "steps": 20, "noise_multiplier": 0.8, "method": method}
    plain = {"delta": 1e-3, "neighbours": neighbours, "clip_source": "constant"}
    alone = check(claimed=1.0, **plain, **facts)
    users = check(claimed=1.0, **plain, **facts, records_per_user=1)
    assert users.proven == alone.proven


def test_all_records_of_a_user_may_move_a_release() -> None:
    facts = {"unit": "user", "records_per_user": 3, "clip_bounds": "record", "sampled": "users"}
    count = {"what": "records", "noise_multiplier": 4.0, "count": 5}
    result = of(6.0, **CLIENTS, **facts, releases=[count])
    assert result.proven is not None
    assert result.proven.upper >= 8.279


@for_each("unit", ["user", "silo"])
def test_phases_beside_a_rate_of_clients_leave_open_who_is_drawn(unit: str) -> None:
    """One phase is what rate and steps are; a client's rate beside it is not forgotten."""
    facts = {"unit": unit, "clients_rate": 0.3, "phases": [[2.0, 0.1, 20]]}
    result = of(1.0, **facts, delta=1e-3)
    assert not result.verdict.startswith("holds")
    # It may have one record, which is drawn if its client is, and by itself besides; that both
    # draws are fresh in every step is not said.
    least = truth(2.0, 0.03, 1, 1e-3)
    # A silo takes part with any of its records, or users.
    spans(result, least, truth(2.0, 0.3 if unit == "user" else 1.0, 20, 1e-3))


def test_phases_of_drawn_records_show_a_user_with_its_client_alone() -> None:
    facts = {"clip_bounds": "unit", "sampled": "records", "records_per_user": 3, "unit": "user"}
    result = of(1.0, **facts, clients_rate=0.3, phases=[[2.0, 0.1, 20]], delta=1e-3).proven
    assert result is not None
    assert result.lower <= truth(2.0, 0.03, 20, 1e-3)
    assert result.upper == pytest.approx(truth(2.0, 1 - 0.9**3, 20, 1e-3), rel=WITHIN)


@pytest.mark.parametrize("stated", [{"method": "full"}, {"batch": 1, "method": "poisson"}])
def test_a_silo_whose_records_are_clipped_one_by_one_has_no_number(
    stated: dict[str, object],
) -> None:
    facts = {"unit": "silo", "silos": 10, "noise_multiplier": 2.0, "steps": 1}
    result = of(3.0, **facts, **stated, clip_bounds="record")
    assert result.verdict == "unproven"
    assert result.proven is not None
    assert math.isinf(result.proven.upper)


def test_a_draw_of_records_hides_no_silo() -> None:
    facts = {"unit": "silo", "silos": 1000, "batch": 5, "noise_multiplier": 2.0, "steps": 1}
    result = of(3.0, **facts, sampled="records")
    assert result.proven is not None
    assert result.proven.upper == pytest.approx(truth(2.0, 1.0, 1), rel=WITHIN)


def test_clients_are_sampled_around_phases_of_different_noise() -> None:
    """One draw of clients for the whole run hides every phase of a client that is not drawn."""
    phases = [[1.13, 0.35, 2], [5.0, 0.1, 1]]
    facts = {"unit": "record", "neighbours": "add-remove", "method": "poisson", "delta": 1e-5}
    result = check(claimed=2.5, **facts, clients_rate=0.1, phases=phases)
    assert result.verdict != "false"
    assert result.proven is not None
    each = [check(claimed=2.5, **facts, clients_rate=0.1, phases=[phase]) for phase in phases]
    dearest = max(one.proven.lower for one in each if one.proven is not None)
    assert result.proven.lower <= dearest * (1 + WITHIN)


def test_a_rate_of_clients_is_not_one_of_their_records_where_epochs_say_so() -> None:
    facts = {"noise_multiplier": 1.1, "records": 1000, "method": "poisson", "unit": "record"}
    facts |= {"clients_rate": 0.5, "steps": 10, "epochs": 0.01, "neighbours": "add-remove"}
    result = check(claimed=0.5, delta=1e-5, **facts)
    assert result.verdict == "unverifiable"
    assert "sampling.rate" in {each.key for each in result.deciding}
    told = check(claimed=0.5, delta=1e-5, **facts, rate=0.001)
    assert told.verdict.startswith("holds")


def test_what_a_sampler_would_mean_is_said_for_records_and_users() -> None:
    facts = {"noise_multiplier": 0.8, "clip_bounds": "unit", "records_per_user": 2, "rate": 0.5}
    facts |= {"steps": 6, "delta": 1e-5, "neighbours": "zero-out"}
    result = check(claimed=13, **facts)
    named = check(claimed=13, **facts, method="poisson")
    # A user of two records is there with probability 3/4.
    whole = account(ev.Repeat(6, ev.Poisson(0.75, ev.Gaussian(0.8))), delta=1e-5).epsilon
    assert result.verdict == "unverifiable"
    assert named.proven is not None
    assert named.proven.upper >= whole.lower
    assert (result.alternatives or {})["poisson"].upper == pytest.approx(named.proven.upper)


def test_a_row_of_what_decides_has_the_ends_of_what_it_sets() -> None:
    facts = {"noise_multiplier": 8.2, "records": 100, "batch": 5, "steps": 6, "restarts": 2}
    facts |= {"records_per_user": 3, "method": "poisson", "delta": 1e-7}
    result = check(claimed=0.155, **facts, neighbours="add-remove")
    assert any(row.settles for row in result.completions)
    for row in result.completions:
        if not row.settles:
            continue
        said = dict(option.split("=") for option in row.settles.split())
        values = {key: int(value) if value.isdigit() else value for key, value in said.items()}
        stated = {key: value for key, value in facts.items() if f"schedule.{key}" not in values}
        named = check(claimed=0.155, **stated, neighbours="add-remove", **values)
        assert named.proven is not None
        assert row.bounds.lower <= named.proven.lower * (1 + WITHIN)
        assert named.proven.upper <= row.bounds.upper * (1 + WITHIN)


def test_a_user_that_may_be_clipped_as_a_whole_waits_for_whose_clip_it_is() -> None:
    facts = {"noise_multiplier": 8.25, "batch": 2, "records": 2, "steps": 1, "sampled": "users"}
    for method, claimed in (("weighted", 1.57), ("poisson", 0.9)):
        result = check(
            claimed=claimed, **facts, delta=1e-7, unit="record", users=2, method=method,
            weighted_draws="at-most-once", neighbours="add-remove",
        )  # fmt: skip
        assert result.verdict == "unverifiable"
        assert "noise.clip_bounds" in [each.key for each in result.deciding]


def test_a_full_batch_may_be_said() -> None:
    facts = {"noise_multiplier": 1.1, "records": 20, "users": 10, "steps": 1, "method": "full"}
    without = check(claimed=1, delta=1e-5, **facts, neighbours="replace-one")
    said = check(claimed=1, delta=1e-5, **facts, batch=20, neighbours="replace-one")
    assert without.proven == said.proven
    assert without.verdict == said.verdict == "false"


def test_noise_that_was_sized_for_replies_waits_for_how_many_came() -> None:
    facts = {"noise_multiplier": 0.8, "records": 100, "batch": 10, "steps": 10}
    result = of(4.6, **facts, expected_replies=10)
    assert result.verdict == "unverifiable"
    assert [each.key for each in result.deciding] == ["aggregation.replies"]
    assert of(4.6, **facts, expected_replies=10, replies=10).verdict == "holds"
    assert of(4.6, **facts, expected_replies=10, replies=3).verdict == "unproven"


@for_each("method", ["fixed-size", "with-replacement", "shuffled", "weighted"])
def test_records_of_other_silos_fill_the_batches_that_one_leaves(method: str) -> None:
    """Fifty of 100 records, one a silo: the silo that comes adds 1 where another had added -1."""
    facts = {"noise_multiplier": 1.1, "records": 100, "batch": 50, "steps": 1, "unit": "silo"}
    result = of(4, **facts, method=method)
    assert not result.verdict.startswith("holds")
    drawn = account(ev.FixedSize(50, 100, ev.Gaussian(1.1)), delta=1e-5).epsilon
    assert result.proven is not None
    assert result.proven.upper >= drawn.lower
    zeroed = of(4, **facts, method=method, neighbours="zero-out")
    assert zeroed.proven is not None
    assert zeroed.proven.upper < float("inf")
    for currency in ("rho", "mu"):
        squared = of(None, **facts, method=method, **{currency: 1.0}).proven
        assert squared is not None
        assert squared.upper == float("inf")


def test_a_batch_of_records_is_no_batch_of_silos() -> None:
    facts = {"noise_multiplier": 0.8, "rate": 0.1, "steps": 10, "neighbours": "zero-out"}
    for more in ({"silos": 10}, {"silos": 10, "records": 20, "batch": 2}):
        open_ = of(4.6, **facts, **more, unit="silo")
        said = of(4.6, **facts, **more, unit="silo", sampled="records")
        assert not open_.verdict.startswith("holds")
        assert open_.proven is not None
        assert said.proven is not None
        assert open_.proven.upper >= said.proven.upper * (1 - WITHIN)
        assert open_.proven.lower <= said.proven.lower * (1 + WITHIN)
    users = of(4.6, **facts, users=10, records=20, batch=2, unit="user")
    assert [each.key for each in users.deciding] == ["data.records_per_user"]


def test_any_record_of_a_user_may_be_in_a_batch_of_a_fixed_size() -> None:
    """Two of 100 records, two batches of 10: one of them is in a batch with probability .345."""
    facts = {"noise_multiplier": 0.01, "records": 100, "users": 50, "records_per_user": 2}
    facts |= {"batch": 10, "rate": 0.1, "steps": 1, "accumulation": 2, "unit": "user"}
    facts |= {"accumulation_of": "own-draws", "clip_bounds": "record", "sampled": "records"}
    absent = (90 * 89 / (100 * 99)) ** 2
    result = of(5, **facts, method="fixed-size", neighbours="zero-out", delta=0.9 * (1 - absent))
    assert result.proven is not None
    # With less presence the upper end would be 0, below the lower one, so that neither was used.
    assert 1000 < result.proven.upper < float("inf")
