"""Events that count the records of a user together, with facts about users, clients, releases."""

from __future__ import annotations

import json
import math
import warnings
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import binom

from privplan import check
from privplan.accountant import events as ev
from privplan.audit.check.check_result import CheckResult
from privplan.audit.reproduction.renyi_values import without_replacement_curve

from ..cases import for_each
from .completion_runs import WITHIN, ends

POISSON: Final = ev.Group(3, ev.Repeat(40, ev.Poisson(0.1, ev.Gaussian(5.0))))
FULL: Final = ev.Repeat(4, ev.Group(3, ev.Gaussian(5.0)))
CLIENTS: Final = ev.Repeat(40, ev.ClientSampled(0.1, ev.Poisson(0.1, ev.Gaussian(5.0))))

GRID: Final = {"value_discretization_interval": 1e-3}
"""Width of the cells in which dp_accounting composes losses: its numbers are coarser by it."""

BY_RECORD: Final[dict[str, Any]] = {
    "unit": "user",
    "records_per_user": 3,
    "clip_bounds": "record",
    "sampled": "records",
}
ONCE: Final = {"what": "a score", "noise_multiplier": 9.0, "count": 1, "of_batch": False}


def of(tmp_path: Path, event: ev.Event, claimed: float, **facts: Any) -> CheckResult:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event.to_json()))
    facts = {"neighbours": "add-remove", "method": "poisson", **facts}
    return check(str(path), claimed=claimed, delta=1e-5, **facts)


@cache
def of_records(records: int, released: float = math.inf) -> float:
    """Return the epsilon of 40 sums with noise 5 over samples of a tenth, of so many records.

    A further sum of all data has noise `released`.
    """
    drawn = range(records + 1)
    step = pld.from_mixture_gaussian_mechanism(
        5.0, list(drawn), [float(binom.pmf(k, records, 0.1)) for k in drawn], **GRID
    )
    total = step.self_compose(40)
    if math.isfinite(released):
        total = total.compose(pld.from_gaussian_mechanism(released / records, **GRID))
    return float(total.get_epsilon_for_delta(1e-5))


def in_full(records: int) -> float:
    """Return the epsilon of four sums with noise 5 that so many records move."""
    sums = pld.from_gaussian_mechanism(5.0 / (records * 2.0))
    return float(sums.get_epsilon_for_delta(1e-5))


@for_each("facts", [{"unit": "user"}, {"unit": "record"}, {"unit": "silo"}, {}, BY_RECORD])
def test_each_record_of_a_group_may_move_a_release(tmp_path: Path, facts: dict[str, Any]) -> None:
    claimed, truth = 1.7, of_records(3, 9.0)
    assert of_records(3) < claimed < truth
    if facts.get("unit") == "silo":
        facts = {**facts, "method": None}
    facts = {key: value for key, value in facts.items() if value is not None}
    result = of(tmp_path, POISSON, claimed, **facts, releases=[ONCE])
    assert result.verdict in ("unproven", "unverifiable")
    lower, upper = ends(result)
    # By another convention a release is moved by one bound, whoever has how many records.
    assert lower <= of_records(3) * (1 + WITHIN)
    assert upper >= truth * (1 - WITHIN)
    if facts.get("unit") != "silo":
        assert upper <= truth * (1 + WITHIN)


@for_each(
    "facts",
    [
        BY_RECORD,
        {"unit": "user", "records_per_user": 3},
        {"unit": "user", "records_per_user": 3, "clip_bounds": "record"},
        {"unit": "user", "records_per_user": 3, "sampled": "records"},
    ],
)
def test_a_group_of_an_event_is_the_user_that_has_as_many_records(
    tmp_path: Path, facts: dict[str, Any]
) -> None:
    result = of(tmp_path, POISSON, 3.0, **facts)
    assert result.verdict.startswith("holds")
    assert ends(result) == pytest.approx((of_records(3), of_records(3)), rel=WITHIN)


@for_each("more", [{}, {"method": "full"}, {"releases": [{**ONCE, "noise_multiplier": 1e6}]}])
def test_sums_of_all_data_are_moved_by_a_user_once(tmp_path: Path, more: dict[str, Any]) -> None:
    facts = {"unit": "user", "records_per_user": 3, "clip_bounds": "record", **more}
    result = of(tmp_path, FULL, 9.0, **facts)
    assert result.verdict.startswith("holds")
    assert ends(result) == pytest.approx((in_full(3), in_full(3)), rel=WITHIN)


def test_where_no_unit_is_said_it_is_the_user_of_the_group_or_a_record(tmp_path: Path) -> None:
    facts = {key: value for key, value in BY_RECORD.items() if key != "unit"}
    result = of(tmp_path, POISSON, 3.0, **facts)
    assert ends(result) == pytest.approx((of_records(1), of_records(3)), rel=WITHIN)


@for_each("sampled", [{"sampled": "users"}, {"sampled": "records"}, {}])
def test_a_user_that_is_clipped_as_a_whole_loses_no_more_than_its_group(
    tmp_path: Path, sampled: dict[str, str]
) -> None:
    facts = {"unit": "user", "records_per_user": 3, "clip_bounds": "unit", **sampled}
    lower, upper = ends(of(tmp_path, POISSON, 3.0, **facts))
    # A user of a single record is data, too; three may be there where any of them is drawn.
    any_drawn = pld.from_gaussian_mechanism(5.0, sampling_prob=1.0 - 0.9**3, **GRID)
    most = float(any_drawn.self_compose(40).get_epsilon_for_delta(1e-5))
    assert lower <= of_records(1) * (1 + WITHIN) < most <= upper
    assert upper == pytest.approx(of_records(3), rel=WITHIN)


def test_users_that_are_drawn_with_each_record_clipped_are_no_group(tmp_path: Path) -> None:
    """Three draws of records, with little noise, show more often that there is any."""
    noise, delta = 0.1, 0.2
    event = ev.Group(3, ev.Poisson(0.1, ev.Gaussian(noise)))
    facts = {**BY_RECORD, "sampled": "users", "delta": delta}
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event.to_json()))
    result = check(str(path), claimed=0.01, neighbours="add-remove", method="poisson", **facts)
    # Both neighbours are alike but with probability .1, which is less than delta.
    assert ends(result) == (0.0, math.inf)
    assert result.verdict != "false"


@for_each("records, least", [(2, 2), (5, 3)])
def test_groups_of_another_number_than_a_user_has_leave_open_whose_they_are(
    tmp_path: Path, records: int, least: int
) -> None:
    facts = {**BY_RECORD, "records_per_user": records}
    lower, upper = ends(of(tmp_path, POISSON, 3.0, **facts))
    assert lower == pytest.approx(of_records(least), rel=WITHIN)
    assert upper == pytest.approx(of_records(3 * records), rel=WITHIN)


def test_a_record_of_a_group_in_tuned_runs_is_one_of_it(tmp_path: Path) -> None:
    inner = ev.Gaussian(5.0)
    facts = {"unit": "record", "method": "full"}
    alone, grouped = (
        ends(of(tmp_path, ev.BestOf("poisson", 5.0, each), 3.0, **facts))
        for each in (inner, ev.Group(3, inner))
    )
    assert grouped[0] == alone[0]
    assert grouped[1] > alone[1]


def test_an_event_that_samples_clients_says_the_rate_of_clients(tmp_path: Path) -> None:
    alone = ends(of(tmp_path, CLIENTS, 0.2, unit="record"))
    said = of(tmp_path, CLIENTS, 0.2, unit="record", clients_rate=0.1)
    assert ends(said) == alone
    assert 0.0 < alone[0] <= alone[1] < 0.2
    assert said.verdict.startswith("holds")


def test_another_rate_of_clients_than_the_event_has_is_a_contradiction(tmp_path: Path) -> None:
    result = of(tmp_path, CLIENTS, 0.2, unit="record", clients_rate=0.2)
    assert result.proven is None
    assert "contradicts" in result.lacks


def test_batches_that_hold_everything_are_no_draws_with_replacement(tmp_path: Path) -> None:
    event = ev.Repeat(10, ev.WithReplacement(10, 100, ev.Gaussian(5.0)))
    facts = {"unit": "record", "method": "full", "neighbours": "replace-one"}
    result = of(tmp_path, event, 3.0, **facts)
    twice = pld.from_gaussian_mechanism(2.5 / math.sqrt(10.0))
    truth = float(twice.get_epsilon_for_delta(1e-5))
    assert ends(result) == pytest.approx((truth, truth), rel=WITHIN)


def claimed_in(tmp_path: Path, event: ev.Event, name: str, value: float, **facts: Any) -> Any:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event.to_json()))
    facts = {"neighbours": "add-remove", "unit": "record", **facts}
    return check({"claim": {name: value}}, str(path), **facts)


@for_each(
    "event, rho",
    [
        (ev.ZCDP(0.1), 0.1),
        (ev.Repeat(3, ev.Pure(0.5)), 3 * 0.125),
        (ev.Group(2, ev.ZCDP(0.1)), 0.4),
        (ev.Compose((ev.Gaussian(2.0), ev.Laplace(4.0))), 0.125 + 1 / 32),
        (ev.Repeat(5, ev.Poisson(0.1, ev.Laplace(4.0))), 5 / 32),
    ],
)
def test_rho_of_an_event_adds_up(tmp_path: Path, event: ev.Event, rho: float) -> None:
    assert claimed_in(tmp_path, event, "rho", rho * 1.001).verdict.startswith("holds")
    below = claimed_in(tmp_path, event, "rho", rho / 2.0)
    assert below.verdict == "unproven"
    assert ends(below) == pytest.approx((0.0, rho), rel=1e-9)


def test_rho_of_an_event_counts_users_relations_and_releases(tmp_path: Path) -> None:
    event = ev.Repeat(4, ev.Group(3, ev.Gaussian(5.0)))
    sums, score = 4 * 9 / 50.0, 9 / (2 * 81.0)
    released = claimed_in(tmp_path, event, "rho", 1.0, unit="user", releases=[ONCE])
    assert ends(released)[1] == pytest.approx(sums + score, rel=1e-9)
    replaced = claimed_in(tmp_path, event, "rho", 1.0, neighbours="replace-one")
    assert ends(replaced)[1] == pytest.approx(4 * sums, rel=1e-9)
    of_users = claimed_in(
        tmp_path, ev.Compose((ev.Laplace(5.0),)), "rho", 1.0, **BY_RECORD, method="full"
    )
    assert ends(of_users)[1] == pytest.approx(9 / 50.0, rel=1e-9)
    twice = claimed_in(tmp_path, event, "rho", 1.0, restarts=2)
    assert ends(twice)[1] == pytest.approx(2 * sums, rel=1e-9)


def test_mu_of_an_event_is_known_of_gaussian_noise(tmp_path: Path) -> None:
    gaussian = claimed_in(tmp_path, ev.Group(3, ev.Gaussian(5.0)), "mu", 0.61)
    assert gaussian.verdict.startswith("holds")
    assert ends(gaussian)[1] == pytest.approx(0.6, rel=1e-9)
    for event in (ev.ZCDP(0.1), ev.Compose((ev.Gaussian(5.0), ev.Laplace(9.0)))):
        other = claimed_in(tmp_path, event, "mu", 3.0)
        assert other.verdict == "unproven"
        assert "known of Gaussian noise only" in other.lacks


@for_each(
    "event, facts",
    [
        (ev.Approximate(1.0, 1e-6), {}),
        (ev.Repeat(3, ev.Poisson(0.1, ev.Laplace(2.0))), {"method": "fixed-size", "records": 100}),
        (ev.Poisson(0.1, ev.Laplace(2.0)), {"accumulation": 4}),
    ],
)
def test_rho_that_is_not_known_is_unproven_and_says_why(
    tmp_path: Path, event: ev.Event, facts: dict[str, Any]
) -> None:
    result = claimed_in(tmp_path, event, "rho", 100.0, **facts)
    assert result.verdict == "unproven"
    assert "rho is known of" in result.lacks


def test_a_row_of_some_runs_is_inside_of_what_is_proven_of_all() -> None:
    """At least 90 replied in each round: more of them in other rounds only add noise."""
    facts = {"noise_multiplier": 1.1, "steps": 40, "method": "poisson", "unit": "user"}
    facts |= {"users": 1_000, "batch": 100, "expected_replies": 100, "replies": 90}
    result = check(claimed=3.0, delta=1e-5, neighbours="add-remove", **facts)
    lower, upper = ends(result)
    assert len(result.completions) == 2
    for row in result.completions:
        assert lower <= row.bounds.lower <= row.bounds.upper <= upper < math.inf


@for_each("noise", [1e-160, 1e-154])
def test_noise_too_little_for_any_number_warns_nobody(noise: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        without_replacement_curve(noise, 0.1)
