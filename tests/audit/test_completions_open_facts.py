"""Facts that leave more open than they seem to: users whom nobody counted, clients, replies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from privplan import check
from privplan.accountant import events as ev
from privplan.audit.check.check_result import CheckResult

from ..cases import for_each
from .completion_runs import EXACTLY as WITHIN
from .completion_runs import covers, epsilon


def of_file(tmp_path: Path, name: str, content: str, **facts: Any) -> CheckResult:
    (tmp_path / name).write_text(content)
    return check(str(tmp_path / name), **facts)


USERS = {"noise_multiplier": 2.0, "records": 1000, "batch": 10, "steps": 50, "delta": 1e-5}


@for_each("users", [10, 20, 1000])
@for_each("bounds", [None, "unit"])
def test_a_batch_of_users_whom_nobody_counted_is_no_share_of_the_records(
    users: int, bounds: str | None
) -> None:
    facts = USERS | {"unit": "user", "sampled": "users", "neighbours": "add-remove"}
    if bounds is not None:
        facts |= {"clip_bounds": bounds, "records_per_user": 100}
    result = check(claimed=0.14, **facts, method="poisson")
    assert result.verdict == "unverifiable"
    sampled = ev.Gaussian(2.0)
    rate = 10 / users
    event = ev.Repeat(50, sampled if rate == 1.0 else ev.Poisson(rate, sampled))
    assert covers(result, event)
    told = check(claimed=0.14, **facts, method="poisson", users=users)
    assert told.proven is not None
    assert result.proven is not None
    assert told.proven.upper <= result.proven.upper


@for_each("method", ["shuffled", "with-replacement", "poisson", "full"])
@for_each("unit", ["record", "user"])
def test_several_batches_of_clients_may_have_one_of_them_several_times(
    unit: str, method: str
) -> None:
    facts = {"noise_multiplier": 1.0, "users": 20, "clients_rate": 0.5, "steps": 4}
    facts |= {"accumulation": 3, "accumulation_of": "own-draws", "neighbours": "zero-out"}
    result = check(claimed=7, delta=1e-5, unit=unit, method=method, **facts)
    assert not result.verdict.startswith("holds")
    # A client in every batch moves each draw by three norms.
    assert result.proven is not None
    if unit == "record" or method != "poisson":
        assert result.proven.upper >= epsilon(ev.Repeat(4, ev.Gaussian(1.0 / 1.5))).lower
    assert covers(result, ev.Repeat(4, ev.Group(3, ev.Poisson(0.5, ev.Gaussian(1.0)))))


@for_each("rate", [0.01, 0.5, 1.0])
def test_a_record_of_a_client_is_drawn_as_nobody_said(rate: float) -> None:
    facts = {"noise_multiplier": 1.1, "records": 1000, "clients_rate": 1.0, "steps": 2}
    facts |= {"neighbours": "zero-out", "method": "poisson", "unit": "record", "delta": 1e-5}
    open_to = check(claimed=3, **facts)
    told = check(claimed=3, **facts, rate=rate)
    event = ev.Repeat(2, ev.Poisson(rate, ev.Gaussian(1.1)) if rate < 1.0 else ev.Gaussian(1.1))
    assert covers(open_to, event)
    assert covers(told, event)
    assert open_to.proven is not None
    assert told.proven is not None
    assert open_to.proven.lower <= told.proven.lower
    assert told.proven.upper <= open_to.proven.upper * (1 + WITHIN)


def test_a_client_with_full_batches_takes_part_or_does_not() -> None:
    result = check(
        claimed=4, delta=1e-5, noise_multiplier=1.0, users=20, clients_rate=0.5, steps=4,
        unit="user", method="full", neighbours="zero-out",
    )  # fmt: skip
    assert covers(result, ev.Repeat(4, ev.Poisson(0.5, ev.Gaussian(1.0))))
    assert covers(result, ev.Repeat(4, ev.Gaussian(1.0)))


@for_each("bounds", [None, "unit"])
def test_records_that_are_drawn_again_may_be_clipped_by_their_user(bounds: str | None) -> None:
    facts = {"noise_multiplier": 1.2345, "users": 2, "records": 2, "records_per_user": 3}
    facts |= {"batch": 2, "steps": 4, "method": "with-replacement", "sampled": "records"}
    if bounds is not None:
        facts["clip_bounds"] = bounds
    result = check(claimed=3, delta=0.1, unit="user", neighbours="zero-out", **facts)
    assert result.verdict != "false"
    assert result.proven is not None
    # At most one norm in each of four steps.
    whole = epsilon(ev.Repeat(4, ev.Gaussian(1.2345)), delta=0.1).upper
    assert result.proven.lower <= whole
    if bounds == "unit":
        assert result.proven.upper <= whole * (1 + WITHIN)


@for_each("batches", [2, 3])
def test_delta_by_the_batches_of_a_loader_that_keeps_the_last_or_drops_it(batches: int) -> None:
    facts = {"noise_multiplier": 1.0, "records": 5, "batch": 2, "steps": 20, "method": "poisson"}
    result = check(claimed=1, delta_rule="1/batches", neighbours="zero-out", **facts)
    assert result.verdict == "unverifiable"
    event = ev.Repeat(20, ev.Poisson(0.4, ev.Gaussian(1.0)))
    assert covers(result, event, delta=1.0 / batches)


def test_replies_are_the_fewest_of_all_rounds() -> None:
    facts = {"noise_multiplier": 1.0, "steps": 100, "method": "full", "expected_replies": 5}
    result = check(claimed=10, delta=1e-5, neighbours="add-remove", replies=5, **facts)
    assert result.verdict == "unverifiable"
    # One round with five replies, and 99 with five hundred.
    mixed = ev.Compose((ev.Gaussian(1.0), ev.Repeat(99, ev.Gaussian(10.0))))
    assert covers(result, mixed)
    assert covers(result, ev.Repeat(100, ev.Gaussian(1.0)))


@for_each("facts", [{"normaliser": "realised"}, {"weights": "unequal"}])
def test_what_is_divided_or_weighted_shows_nothing_for_certain(facts: dict[str, str]) -> None:
    result = check(
        claimed=1.5, delta=0.3, noise_multiplier=0.3, records=2, rate=0.5, steps=1,
        method="poisson", neighbours="add-remove", dimensions=1, **facts,
    )  # fmt: skip
    assert result.verdict in ("unproven", "unverifiable")
    assert result.proven is not None
    assert result.proven.lower == 0.0


@for_each(
    "strategy, normalised, truth",
    [
        # The last column is cut off: squared norms of a group are 1.01, or 1.
        ([0.1, 0.995], False, ev.Gaussian(1.0 / 1.01**0.5)),
        ([1, 0.01], True, ev.Gaussian(1.0)),
    ],
)
def test_a_group_of_a_banded_run_may_lose_less_than_is_counted(
    tmp_path: Path, strategy: list[float], normalised: bool, truth: ev.Event
) -> None:
    config = {"iterations": 3, "strategy": strategy, "sampling_prob": 1.0}
    config |= {"noise_multiplier": 1.0, "column_normalize": normalised}
    result = of_file(tmp_path, "c.json", json.dumps(config), claimed=4.5, delta=1e-5)
    assert result.verdict != "false"
    assert covers(result, truth)


def test_an_accountant_without_amplification_does_not_say_what_ran(tmp_path: Path) -> None:
    state = {
        "schema_version": 1,
        "backend": "rdp",
        "config": {
            "target_delta": 1e-5,
            "population_size": 1000,
            "neighboring_relation": "add-or-remove-one",
            "sampling_method": "no-amplification",
            "max_epsilon": None,
        },
        "orders": [2.0],
        "compositions": [
            {
                "event": {"noise_multiplier": 1.0, "sample_size": 10, "population_size": 1000},
                "count": 10,
            }
        ],
    }
    result = of_file(tmp_path, "flower.json", json.dumps(state), claimed=1.5)
    sampled = ev.Repeat(10, ev.Poisson(0.01, ev.Gaussian(1.0)))
    assert result.verdict != "false"
    assert covers(result, sampled)
    assert covers(result, ev.Repeat(10, ev.Gaussian(1.0)))
    # What the person who asks says stands before a file: a sampler alone says no rate.
    from privplan.cli.main import app

    path = str(tmp_path / "flower.json")
    for sets, least in ((("method=poisson",), 0.0), (("method=poisson", "rate=0.01"), 0.3)):
        words = [word for said in sets for word in ("--set", said)]
        answer = CliRunner().invoke(app, ["check", path, "--claimed", "1.5", *words, "--json"])
        proven = json.loads(answer.stdout)["result"]["proven"]
        assert least <= proven["lower"] <= epsilon(sampled).upper * (1 + WITHIN)


LAPLACE = json.dumps(ev.Repeat(10, ev.Laplace(2.0)).to_json())


@for_each(
    "facts",
    [
        {"clip_norm": "linf", "dimensions": 10},
        {"clip_norm": "l2", "dimensions": 10},
        {"clip": 1.0},
        {"expected_replies": 10, "replies": 20},
    ],
)
def test_facts_about_contributions_beside_an_event_take_its_bounds(
    tmp_path: Path, facts: dict[str, Any]
) -> None:
    result = of_file(tmp_path, "e.json", LAPLACE, claimed=5, delta=0, **facts)
    assert not result.verdict.startswith("holds")
    assert of_file(tmp_path, "e.json", LAPLACE, claimed=5, delta=0).verdict.startswith("holds")


def test_records_of_a_user_beside_an_event_may_be_clipped_together(tmp_path: Path) -> None:
    facts = {"unit": "user", "records_per_user": 3}
    result = of_file(tmp_path, "e.json", LAPLACE, claimed=11, delta=1e-5, **facts)
    assert result.verdict != "false"


@for_each("facts", [{"batch": 20}, {"steps": 40}, {"noise_multiplier": 1.0}, {"records": 999}])
def test_facts_that_an_event_has_otherwise_are_a_contradiction(
    tmp_path: Path, facts: dict[str, Any]
) -> None:
    event = ev.Repeat(20, ev.FixedSize(10, 1000, ev.Gaussian(2.0)))
    content = json.dumps(event.to_json())
    how = {"claimed": 0.47, "delta": 1e-5, "neighbours": "replace-one"}
    assert of_file(tmp_path, "e.json", content, **how).verdict.startswith("holds")
    result = of_file(tmp_path, "e.json", content, **how, **facts)
    assert not result.verdict.startswith("holds")
    assert "contradiction" in {each.id for each in result.causes}


def test_a_rate_that_a_library_printed_is_open_by_its_digits(tmp_path: Path) -> None:
    line = (
        "DP-SGD with sampling rate = 10% and noise_multiplier = 0.8 iterated over 20 steps "
        "satisfies differential privacy with eps = 5.68 and delta = 1e-05."
    )
    result = of_file(tmp_path, "tf.txt", line, method="poisson")
    # A batch of 100 of 997 is printed as 10, too.
    assert covers(result, ev.Repeat(20, ev.Poisson(100 / 997, ev.Gaussian(0.8))))
    assert not result.verdict.startswith("holds")


def test_a_rate_that_a_person_wrote_is_exact_by_a_convention() -> None:
    from decimal import Decimal

    facts = {"noise_multiplier": 1.1, "steps": 1000, "method": "poisson", "delta": 1e-5}
    result = check(claimed=1.55, **facts, rate=Decimal("0.01"), neighbours="add-remove")
    assert "chosen-rate" in {each.id for each in result.conventions}
    told = check(
        claimed=1.55, **facts, rate=Decimal("0.01"), records=953, batch=10, neighbours="add-remove"
    )
    assert "chosen-rate" not in {each.id for each in told.conventions}


def test_a_first_row_of_nothing_may_be_no_epoch(tmp_path: Path) -> None:
    rows = "".join(f"{epoch},{1.14 * epoch / 15:.4f}\n" for epoch in range(16))
    facts = {"noise_multiplier": 1.1, "records": 60000, "batch": 256, "method": "poisson"}
    result = of_file(
        tmp_path, "h.csv", "epoch,epsilon\n" + rows, delta=1e-5, neighbours="add-remove", **facts
    )
    # An epsilon that was rounded to 0 may be that of a trained epoch.
    for epochs in (15, 16):
        steps = -(-60000 * epochs // 256)
        assert covers(result, ev.Repeat(steps, ev.Poisson(256 / 60000, ev.Gaussian(1.1))))
    assert result.verdict == "unverifiable"


def test_a_step_counter_of_every_fifth_step_may_count_from_zero(tmp_path: Path) -> None:
    rows = "".join(f"{step},1.1,0.01,{0.3245 * (step + 1) / 20:.4f}\n" for step in (4, 9, 14, 19))
    content = "step,noise_multiplier,sample_rate,epsilon\n" + rows
    result = of_file(
        tmp_path, "h.csv", content, delta=1e-5, method="poisson", neighbours="add-remove"
    )
    assert not result.verdict.startswith("holds")
    for steps in (19, 20):
        assert covers(result, ev.Repeat(steps, ev.Poisson(0.01, ev.Gaussian(1.1))))


def test_epochs_and_delta_of_a_configuration_are_open_by_their_digits(tmp_path: Path) -> None:
    content = "noise_multiplier: 1.1\nbatch_size: 256\nepochs: 2.5\ndelta: 1.4e-5\nn_train: 60000\n"
    result = of_file(tmp_path, "c.yaml", content, claimed=0.46, method="poisson")
    longest = ev.Repeat(596, ev.Poisson(256 / 60000, ev.Gaussian(1.1)))
    assert covers(result, longest, delta=1.35e-5)
    assert covers(result, ev.Repeat(575, ev.Poisson(256 / 60000, ev.Gaussian(1.1))), delta=1.4e-5)


@for_each("noise", ["1e308", "1e-308"])
@for_each("claim", ["mu", "rho", "epsilon"])
def test_extreme_noise_is_answered(tmp_path: Path, noise: str, claim: str) -> None:
    content = (
        f"[claim]\n{claim} = 1.0\ndelta = 1e-5\n[noise]\nnoise_multiplier = {noise}\n"
        '[sampling]\nmethod = "full"\n[schedule]\nsteps = 10\n'
    )
    assert of_file(tmp_path, "r.toml", content).verdict


@pytest.mark.parametrize("claimed", [0.6, 1.1])
def test_an_infinite_upper_end_has_no_digits_to_round_to(tmp_path: Path, claimed: float) -> None:
    content = '{"history": [[1.1, 0.00425531914893617, 3635]], "mechanism": "rdp"}'
    for facts in ({"weights": "unequal"}, {"clip_source": "median"}):
        assert of_file(
            tmp_path, "o.json", content, claimed=claimed, delta=1e-5, method="poisson", **facts
        ).verdict


def test_a_deviation_is_open_by_its_digits_as_a_noise_multiplier_is() -> None:
    from decimal import Decimal

    facts = {"rate": 0.01, "steps": 100, "method": "poisson", "neighbours": "add-remove"}
    noise = check(claimed=1.13, delta=1e-3, **facts, noise_multiplier=Decimal("0.95"))
    deviation = check(claimed=1.13, delta=1e-3, **facts, std=Decimal("0.95"), clip=1)
    assert noise.proven == deviation.proven
    assert noise.verdict == deviation.verdict


STATEMENT = """\
DP-SGD performed over 1000 examples with 2 examples per iteration, noise
multiplier 1.0 for 1 epochs with microbatching, and no bound on number of examples per user.

This privacy guarantee protects the release of all model checkpoints in addition to the final model.

Example-level DP with add-or-remove-one adjacency at delta = 1e-05 computed with RDP accounting:

    Epsilon with each example occurring once per epoch:    13.000
    Epsilon assuming Poisson sampling (*):                  3.950
"""


def test_half_of_the_noise_for_microbatches_bounds_from_above_alone(tmp_path: Path) -> None:
    result = of_file(tmp_path, "tf.txt", STATEMENT, method="poisson")
    assert result.verdict != "false"
    assert result.proven is not None
    # Records that are alone in their microbatches have the whole noise.
    alone = ev.Repeat(500, ev.Poisson(0.002, ev.Gaussian(1.0)))
    assert covers(result, alone)
    assert covers(result, ev.Repeat(500, ev.Poisson(0.002, ev.Gaussian(0.5))))


@for_each("neighbours", ["add-remove", "replace-one", "zero-out"])
@for_each("method", ["shuffled", "fixed-size", "with-replacement"])
def test_records_of_a_client_in_batches_of_a_fixed_size_move_others(
    method: str, neighbours: str
) -> None:
    facts = {"noise_multiplier": 1.0, "records": 1000, "clients_rate": 1.0, "steps": 4}
    facts |= {"method": method, "neighbours": neighbours, "unit": "record", "delta": 1e-5}
    open_to = check(claimed=5, **facts)
    assert open_to.proven is not None
    for rate in (0.25, 0.5):
        told = check(claimed=5, **facts, rate=rate)
        assert told.proven is not None
        assert told.proven.upper <= open_to.proven.upper
        assert open_to.proven.lower <= told.proven.lower


@for_each("records", [2, 5, 20])
def test_what_happens_beside_a_group_is_paid_for_each_of_its_records(records: int) -> None:
    """Draws of one record beyond `most` cost their probability for every record of a user."""
    from privplan.audit.check import sampler_events
    from privplan.audit.check.bounding_event import PhaseDraws
    from privplan.audit.check.checked_run import CheckedRun
    from privplan.audit.check.completions.subjects import completions
    from privplan.audit.check.kept_records import most_occurrences
    from privplan.audit.description.merging import describe
    from privplan.audit.description.run_description import Phase

    from .small_runs import described

    settings: dict[str, Any] = {"claim.unit": "user", "data.users": 100, "data.records": 2000}
    settings |= {"data.records_per_user": records, "sampling.method": "with-replacement"}
    settings |= {"sampling.sampled": "records", "sampling.batch": 50, "schedule.steps": 10}
    settings |= {"noise.clip_bounds": "record"}
    checked = CheckedRun.of(describe([described(settings, ("sampling.rate",))]))
    pinned = completions(checked, "with-replacement", "most")[0].run
    draw = ev.Gaussian(1.0)
    draws = PhaseDraws(draw, draw, Phase(1.0, 0.025, 10), 0.025, 1e-5, 1)
    (upper,) = sampler_events._not_amplified(pinned, draws, 2000).upper
    assert isinstance(upper.event, ev.Repeat)
    assert isinstance(upper.event.event, ev.Gaussian)
    most = round(1.0 / upper.event.event.noise_multiplier / 2)
    single, tail = most_occurrences(50, 2000, 10, 1e-5 / records)
    assert most == single
    assert upper.delta_spent == pytest.approx(records * tail)
    assert upper.delta_spent < 1e-5
