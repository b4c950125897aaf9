"""A description stands for every run that it allows; the truths here are dp_accounting's."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Final

import dp_accounting as dpa
import pytest
from dp_accounting import pld

from privplan import check
from privplan.accountant import events as ev
from privplan.audit.check.checking import check_readings
from privplan.audit.check.result_json import result_json
from privplan.audit.description.merging import OPTIONS
from privplan.audit.description.tables import reading_of_names

from ..cases import for_each
from .completion_runs import PLAIN, WITHIN, epsilon, of, seen_draws, spans, truth

LONG: Final = {"records": 60000, "batch": 256, "epochs": 15, "noise_multiplier": 1.1}

SHORT: Final = {"records": 1000, "batch": 600, "epochs": 10, "noise_multiplier": 1.0}


@for_each(
    ("claim", "verdict"),
    [(1.13, "false"), (1.1329, "unverifiable"), (1.1338, "unverifiable"), (1.136, "holds")],
)
def test_epochs_of_an_incomplete_batch_are_several_counts(claim: float, verdict: str) -> None:
    result = of(claim, **LONG)
    assert result.verdict.removesuffix("-not-from-these-settings") == verdict
    spans(result, truth(1.1, 256 / 60000, 3510), truth(1.1, 1 / 234, 3510) * 1.001)


def test_what_decides_is_listed_with_the_option_that_settles_it() -> None:
    result = of(1.1338, **LONG)
    assert result.settled_by.startswith("holds up to 3,51")
    assert result.settled_by.endswith("15 epochs are 3,510 to 3,525 steps")
    listed = result_json(result)["deciding"]
    assert isinstance(listed, list)
    assert {tuple(row) for row in listed} == {("completion", "epsilon", "set")}
    option = next(row["set"] for row in listed if row["set"])
    key, _, value = option.partition("=")
    settled = of(1.1338, **LONG, **{key.partition(".")[2]: int(value)})
    assert settled.verdict != "unverifiable"


@for_each("claim", [12.0977, 15.71, 16.27])
def test_few_batches_make_epochs_wide(claim: float) -> None:
    result = of(claim, **SHORT)
    assert result.verdict == "unverifiable"
    assert result.proven is not None
    assert result.proven.lower <= truth(1.0, 0.6, 10) * (1 + WITHIN)
    assert result.proven.upper >= truth(1.0, 0.6, 20) * (1 - WITHIN)
    counted = of(claim, **SHORT, steps=17)
    spans(counted, truth(1.0, 0.6, 17), truth(1.0, 0.6, 17))


def test_full_batches_of_half_an_epoch_are_rounded_both_ways() -> None:
    result = of(3.0, noise_multiplier=4.0, epochs=2.5, method="full", records=100)
    spans(result, truth(4.0, 1.0, 2), truth(4.0, 1.0, 3))


def test_a_rate_beside_a_batch_is_either() -> None:
    facts = {"records": 1000, "batch": 300, "rate": 0.25, "steps": 40, "noise_multiplier": 3.0}
    result = of(2.339, **facts)
    spans(result, truth(3.0, 0.25, 40), truth(3.0, 0.3, 40))
    assert result.verdict == "unverifiable"
    fixed = of(6.3, **{**facts, "method": "fixed-size", "neighbours": "replace-one"})
    assert fixed.proven is not None
    assert fixed.verdict == "unverifiable"
    assert fixed.proven.upper >= 7.194


def test_a_printed_rate_is_open_both_ways() -> None:
    facts = {"rate": Decimal("0.0043"), "noise_multiplier": 1.1, "epochs": 15}
    result = of(1.139, **facts)
    assert result.proven is not None
    assert result.proven.lower <= truth(1.1, 0.00425, 3529) * (1 + WITHIN)
    assert truth(1.1, 0.00435, 3448) <= result.proven.upper <= 1.155
    counted = of(1.139, rate=Decimal("0.0043"), noise_multiplier=1.1, steps=3488)
    spans(counted, truth(1.1, 0.00425, 3488), truth(1.1, 0.00435, 3488))
    exact = of(1.139, rate=Decimal("0.01"), noise_multiplier=1.1, steps=100)
    spans(exact, truth(1.1, 0.01, 100), truth(1.1, 0.01, 100))


def test_delta_is_open_by_its_digits_unless_it_has_one() -> None:
    facts = {"rate": 0.01, "noise_multiplier": 1.1, "steps": 1000}
    rounded = check(claimed=3.0, delta=Decimal("1.7e-5"), **{**PLAIN, **facts})
    spans(rounded, truth(1.1, 0.01, 1000, 1.75e-5), truth(1.1, 0.01, 1000, 1.65e-5))
    chosen = check(claimed=3.0, delta=Decimal("1e-5"), **{**PLAIN, **facts})
    spans(chosen, truth(1.1, 0.01, 1000), truth(1.1, 0.01, 1000))


def test_restarts_made_the_steps_each_or_together() -> None:
    facts = {"records": 1000, "batch": 10, "steps": 300, "noise_multiplier": 1.0}
    result = of(2.0, **facts, restarts=3)
    spans(result, truth(1.0, 0.01, 300), truth(1.0, 0.01, 900))
    assert of(2.0, **facts, restarts=1).verdict != "unverifiable"


def test_an_epoch_of_twice_the_records_has_twice_the_steps() -> None:
    facts = {"records": 40, "batch": 4, "epochs": 2, "records_per_epoch": 80}
    result = of(1.4, noise_multiplier=1.3, delta=1e-3, **facts)
    spans(result, truth(1.3, 0.1, 40, 1e-3), truth(1.3, 0.1, 40, 1e-3))


def test_a_row_of_printed_digits_has_the_ends_of_the_run_that_it_names() -> None:
    facts = {"rate": Decimal("0.0043"), "noise_multiplier": 1.1, "epochs": 15}
    rows = of(1.139, **facts).completions
    assert len(rows) > 2
    for row in rows:
        words = re.search(r"are ([\d,]+) steps at rate ([\d.]+)", row.says)
        assert words is not None
        named = truth(1.1, float(words[2]), int(words[1].replace(",", "")))
        # The words have six digits of the rate.
        assert row.bounds.lower == pytest.approx(named, rel=1e-4)
        assert row.bounds.upper == pytest.approx(named, rel=1e-4)


@for_each(
    ("norm", "longest"),
    [("l1", 1.0), ("l2", 2.0), ("linf", 4.0)],
)
def test_laplace_noise_is_about_a_norm(norm: str, longest: float) -> None:
    facts = {"noise_multiplier": 0.2, "steps": 2, "method": "full", "family": "laplace"}
    result = of(100, delta=0, **facts, clip=1.0, clip_norm=norm, dimensions=4)
    assert result.proven is not None
    assert result.proven.upper == pytest.approx(10 * longest)
    assert result.proven.lower == pytest.approx(10 * longest)
    assert of(10, delta=0, **facts).verdict == "holds"
    assert of(10, delta=0, **facts, clip=1.0).verdict == "unverifiable"


OPACUS: Final = {
    "library": "opacus",
    "records": 50000,
    "batch": 500,
    "epochs": 10,
    "noise_multiplier": 1.0,
    "delta": 1e-6,
}


def test_what_follows_a_secret_number_of_records_has_no_guarantee() -> None:
    public = of(3.0, **OPACUS)
    assert public.verdict == "holds"
    assert "records-public" in {each.id for each in public.conventions}
    secret = of(3.0, **OPACUS, records_public=False)
    assert not secret.verdict.startswith("holds")
    assert "records-public" not in {each.id for each in secret.conventions}
    constant = {"normaliser": "constant", "rate": 0.01, "steps": 1000, "library": "tf-privacy"}
    settings = {"noise_multiplier": 1.0, "delta": 1e-6, "records_public": False}
    assert of(3.0, **settings, **constant).verdict == "holds"


def test_conventions_are_counted_cancelled_and_opened() -> None:
    facts = {"rate": 0.01, "noise_multiplier": 1.1, "steps": 1000, "method": "poisson"}
    bare = check(claimed=3.0, delta=1e-5, **facts)
    assert [each.id for each in bare.conventions] == [
        *("constant-clip", "unit-record", "no-accumulation", "one-run", "no-tuning"),
        *("records-public", "relation"),
    ]
    assert "under 7 conventions" in bare.headline
    stated = {"accumulation": 1, "restarts": 1, "records_public": True}
    said = of(3.0, **facts, **stated, **{"tuning.runs": 1})
    assert said.conventions == ()
    assert check(claimed=3.0, delta=1e-5, strict=True, **facts).verdict == "unverifiable"
    strict = check(
        claimed=3.0, delta=1e-5, strict=True, **{**PLAIN, **facts, **stated, "tuning.runs": 1}
    )
    assert strict.verdict == "holds"


def test_epsilon_and_rho_are_judged_in_both() -> None:
    facts = {"noise_multiplier": 2.0, "steps": 1, "method": "full"}
    result = of(5.0, **facts, rho=0.01)
    assert (result.currency, result.verdict) == ("rho", "false")
    assert [(each.currency, each.verdict) for each in result.other_claims] == [("epsilon", "holds")]


@for_each(
    "facts",
    [
        {"records": 1000, "batch": 30, "epochs": 2, "accumulation": 2},
        {"records": 500, "batch": 20, "steps": 30, "restarts": 3, "accumulation": 2},
        {"records": 500, "batch": 120, "rate": 0.25, "steps": 9, "restarts": 2},
        {"records": 500, "users": 100, "records_per_user": 5, "batch": 20, "steps": 9},
    ],
)
def test_the_options_of_a_run_settle_the_verdict(facts: dict[str, object]) -> None:
    facts = {"noise_multiplier": 1.3, **PLAIN, **facts}
    if "users" in facts:
        facts["unit"] = "user"
    wide = check(claimed=1e9, delta=1e-4, **facts).proven
    assert wide is not None
    claim = 0.5 * (wide.lower + min(wide.upper, 30.0))
    listed = check(claimed=claim, delta=1e-4, **facts).completions
    options = [row.settles for row in listed if row.settles]
    assert options
    for words in options:
        said = dict(option.split("=", 1) for option in words.split())
        values = {key: literal(value) for key, value in said.items()}
        given = replace(reading_of_names(values, "options"), format=OPTIONS)
        described = reading_of_names({**facts, "claim.epsilon": claim, "claim.delta": 1e-4}, "file")
        assert check_readings([described, given]).verdict != "unverifiable", words


def literal(value: str) -> object:
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def test_steps_of_the_stated_epochs_lie_within_what_the_epochs_leave_open() -> None:
    facts = {"records": 100, "batch": 43, "epochs": 3, "accumulation": 2, "noise_multiplier": 2.0}
    wide = of(1.0, **facts, delta=1e-4).proven
    counted = of(1.0, **facts, delta=1e-4, steps=3).proven
    assert wide is not None
    assert counted is not None
    assert wide.lower <= counted.lower <= counted.upper <= wide.upper


def test_strict_opens_the_relation_and_proves_nothing_where_a_relation_does_not() -> None:
    facts = {"noise_multiplier": 1.1, "rate": 0.01, "steps": 100, "library": "opacus"}
    said = {**PLAIN, "accumulation": 1, "restarts": 1, "records_public": True, "tuning.runs": 1}
    relation = {key: value for key, value in said.items() if key != "neighbours"}
    result = check(claimed=9.0, delta=1e-5, strict=True, **relation, **facts)
    assert result.proven is not None
    each = [
        check(claimed=9.0, delta=1e-5, **{**said, "neighbours": name}, **facts).proven
        for name in ("add-remove", "replace-one", "zero-out")
    ]
    lower = min(0.0 if end is None else end.lower for end in each)
    upper = max(float("inf") if end is None else end.upper for end in each)
    assert (result.proven.lower, result.proven.upper) == (lower, upper)


def test_full_batches_of_a_secret_number_of_records_have_no_guarantee() -> None:
    facts = {"method": "full", "steps": 5, "noise_multiplier": 4.0, "records": 1000}
    assert of(5.0, **facts, normaliser="records").verdict == "holds"
    secret = of(5.0, **facts, normaliser="records", records_public=False)
    assert not secret.verdict.startswith("holds")


def test_a_printed_noise_was_more_at_one_end_only() -> None:
    facts = {"rate": 0.01, "steps": 1000, "noise_multiplier": Decimal("0.83")}
    spans(of(3.0, **facts), truth(0.835, 0.01, 1000), truth(0.83, 0.01, 1000))


def test_each_loader_of_epochs_has_an_end_of_its_own() -> None:
    told = of(15.0, **SHORT, rate=0.6)
    spans(told, truth(1.0, 0.6, 10), truth(1.0, 0.6, 20))
    # A program that was told the batch alone computes one over its batches: one, or two.
    half = {**SHORT, "batch": 510}
    spans(of(15.0, **half), truth(1.0, 0.51, 10), truth(1.0, 1.0, 10))
    nearly_all = {**SHORT, "batch": 950}
    spans(of(15.0, **nearly_all), truth(1.0, 0.5, 20), truth(1.0, 0.95, 20))
    # Less than one draw an epoch: some have none, and the rate of all batches is 1 at most.
    few = {"records": 100, "batch": 30, "accumulation": 4, "epochs": 4, "noise_multiplier": 6.0}
    spans(
        of(9.0, **few, accumulation_of="one-sample"),
        truth(6.0, 0.25, 16),
        max(truth(6.0, 1.0, 4), truth(6.0, 1 / 3, 12)),
    )
    parts = {"records": 200, "batch": 60, "accumulation": 2, "epochs": 3, "noise_multiplier": 6.0}
    spans(
        of(9.0, **parts, rate=0.6, accumulation_of="one-sample"),
        truth(6.0, 0.6, 3),
        truth(6.0, 0.6, 6),
    )


def test_a_rate_alone_is_of_a_loader_that_drops_or_keeps_its_last_batch() -> None:
    facts = {"rate": 0.3, "epochs": 10, "noise_multiplier": 2.0}
    spans(of(9.0, **facts), truth(2.0, 0.3, 30), truth(2.0, 0.3, 40))


def test_missing_shares_of_laplace_noise_have_no_number() -> None:
    """Eight of ten gamma shares have epsilon .842, and the scale times the root of .8 says .559."""
    facts = {"family": "laplace", "noise_multiplier": 2.0, "method": "full", "steps": 1}
    result = of(0.6, **facts, expected_replies=10, replies=8)
    assert result.verdict == "unproven"
    assert result.proven is not None
    assert math.isinf(result.proven.upper)
    more = of(
        1.7, **{**facts, "noise_multiplier": 8.0, "steps": 20}, expected_replies=8, replies=10
    )
    assert more.verdict != "false"  # ten of eight gamma shares: 1.594, and not 1.788


def test_a_budget_that_renews_waits_for_how_long() -> None:
    facts = {"noise_multiplier": 2.0, "rate": 0.01, "steps": 200, "renews_every_days": 10}
    result = of(0.3, **facts)
    assert result.verdict == "unverifiable"
    assert "schedule.horizon_days" in [each.key for each in result.missing if each.deciding]
    once = of(0.3, **facts, horizon_days=10)
    assert once.verdict.startswith("holds")


def test_a_record_joins_with_its_user_where_users_are_drawn() -> None:
    facts = {"records": 5000, "users": 1000, "sampled": "users", "batch": 50, "steps": 20}
    whole = of(0.2, **facts, noise_multiplier=2.0)
    assert whole.proven is not None
    # A record makes another update of its user's, which moves by up to two norms.
    drawn_user = ev.Repeat(20, ev.Poisson(50 / 1000, ev.Gaussian(2.0)))
    assert whole.proven.upper >= epsilon(drawn_user, neighbours="replace-one").lower
    result = of(0.2, **facts, noise_multiplier=2.0, clip_bounds="record")
    assert result.verdict == "unverifiable"
    spans(result, truth(2.0, 50 / 5000, 20), seen_draws(2.0, 50 / 1000, 20))


def test_the_options_for_starts_and_phases_contradict_nothing() -> None:
    starts = of(2.66, steps=3, epochs=0.15, restarts=3, batch=5, records=100, noise_multiplier=0.8)
    phased = of(1.0, phases=[[3.7, 0.1, 20]], accumulation=3)
    for result in (starts, phased):
        for run in result.completions:
            assert "schedule.steps" not in run.settles
            assert "sampling.rate" not in run.settles


def test_a_run_with_the_printed_noise_has_a_name() -> None:
    facts = {"rate": 0.1, "steps": 100}
    claims = (Decimal("2.318"), 2.318)
    for result in [of(claim, **facts, noise_multiplier=Decimal("2.01")) for claim in claims]:
        assert result.verdict == "unverifiable"
        assert "noise.noise_multiplier" in result.headline
        assert all(run.says for run in result.completions)


def test_users_have_all_the_records() -> None:
    facts = {"users": 1000, "records": 2000, "unit": "user", "clients_rate": 0.1, "steps": 10}
    few = of(1.0, **facts, noise_multiplier=2.0, records_per_user=1)
    assert few.verdict == "unverifiable"
    assert "contradiction" in [cause.id for cause in few.causes]
    enough = of(1.0, **facts, noise_multiplier=2.0, records_per_user=2)
    assert "contradiction" not in [cause.id for cause in enough.causes]


@for_each(
    ("name", "content"),
    [
        ("run.csv", "sigma,q,steps\n1.3,0.0043,1000\n1.1,0.0043,2516\n"),
        ("run.log", "noise_multiplier: 1.13 sample_rate: 0.0043 num_steps: 3516\n"),
        ("two.csv", "sigma,q,steps\n1.13,0.0043,1000\n2.01,0.0043,2000\n"),
    ],
)
def test_what_a_program_printed_is_open_by_its_digits(
    name: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    result = check(tmp_path / name, claimed=1.08, delta=1e-5, **PLAIN)
    assert result.proven is not None
    rate = 0.00435
    largest = {
        "run.log": lambda: truth(1.125, rate, 3516),
        "run.csv": lambda: truth_of([(1.3, rate, 1000), (1.1, rate, 2516)]),
        "two.csv": lambda: truth_of([(1.125, rate, 1000), (2.005, rate, 2000)]),
    }
    assert result.proven.upper == pytest.approx(largest[name](), rel=WITHIN)


def test_phases_of_a_description_may_have_had_a_little_more_noise() -> None:
    phases = [[Decimal("1.13"), Decimal("0.0043"), 1000]]
    result = of(0.565, phases=phases)
    assert result.verdict in ("unverifiable", "unproven")
    assert result.proven is not None
    assert result.proven.lower <= truth(1.135, 0.00425, 1000) * (1 + WITHIN)


def test_the_rate_of_one_line_of_keys_is_open_by_its_digits(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(
        '{"noise_multiplier": 1.13, "sample_rate": 0.0043, "num_steps": 1000}'
    )
    result = check(tmp_path / "run.json", claimed=0.578, delta=1e-5, **PLAIN)
    assert result.proven is not None
    assert result.proven.upper == pytest.approx(truth(1.13, 0.00435, 1000), rel=WITHIN)


def truth_of(phases: list[tuple[float, float, int]]) -> float:
    accountant = pld.PLDAccountant(dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-4)
    for noise, rate, steps in phases:
        event = dpa.PoissonSampledDpEvent(rate, dpa.GaussianDpEvent(noise))
        accountant.compose(event, steps)
    return float(accountant.get_epsilon(1e-5))


def test_a_horizon_of_two_periods_and_a_half_has_two_or_three() -> None:
    facts = {"noise_multiplier": 2.0, "rate": 0.1, "steps": 20, "renews_every_days": 40}
    result = of(1.6, **facts, horizon_days=100)
    assert result.verdict == "unverifiable"
    spans(result, truth(2.0, 0.1, 40), truth(2.0, 0.1, 60))
    assert [row.settles for row in result.completions] == [
        "schedule.horizon_days=80.0",
        "schedule.horizon_days=120.0",
    ]
    assert of(1.6, **facts, horizon_days=80).verdict.startswith("holds")
    assert of(1.6, **facts, horizon_days=120).verdict == "false"
