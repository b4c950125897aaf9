"""What votes cost under FLAME: in a plan, a dry run, a run and an audit, and of canaries."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.audit.budget import audit_budget, audit_ledger
from privplan.audit.budget.report import Chain
from privplan.audit.configuration.comparison import compared
from privplan.audit.edits import edits_of
from privplan.audit.ledger.entries import Ledger
from privplan.audit.ledger.phases import score_of
from privplan.fl.canaries import rehearsal_settings
from privplan.fl.observers.stated_assumptions import BLIND_SHUFFLER
from privplan.fl.running.configuration import Configuration

from ...cases import for_each
from ..extras import needs
from .held_out_flame import (
    IDEAL,
    NOISE,
    SETTINGS,
    SHARE,
    UNPROVEN,
    Tables,
    configured,
    prepared,
    ran,
)
from .held_out_runs import (
    ledger_of,
    measured,
)
from .hospitals import LISTED
from .playback import played

pytestmark = needs("torch", "pyarrow", "cryptography", "nacl")


@pytest.mark.quick(3)
@for_each("system, tables", SETTINGS)
def test_a_dry_run_a_run_and_an_audit_say_the_same_price(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    said = configured(system, tables)
    folder, outcome = ran(tmp_path / "run", said)
    forecast = played(tmp_path / "dry", said, dry=True)
    assert forecast.code == 0, forecast.said
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path / "dry")
        planned = pp.plan_run(said).prepared.plan
    budget = audit_budget(folder)
    assert budget.supported, budget
    assert budget.ok
    assert {hazard.id for hazard in budget.hazards} <= {"reach-assumed"}
    assert not edits_of(folder)
    rows = {row.observer: row.total.upper for row in budget.rows}
    for who, proven in outcome.result.guarantees.items():
        assert proven.epsilon == planned.guarantees[who].epsilon
        assert rows[who] == pytest.approx(proven.epsilon.upper, rel=1e-9)
    score = score_of(ledger_of(folder))
    assert score is not None
    assert score == outcome.result.held_out
    assert score.to_json() == measured(folder)["held_out"]
    assert score.votes == pytest.approx(len(LISTED) * SHARE)
    if "randomizer" not in tables.get("flame", {}):
        # Laplace noise of scale 1.5 times 1/2 on each of 22 messages.
        assert score.deviation == pytest.approx(math.sqrt(2 * len(LISTED)) * NOISE / 2)


@for_each("colluders", [0, 3])
def test_votes_are_composed_with_the_rounds_at_the_price_of_two_mixes_of_all_users(
    tmp_path: Path, colluders: int
) -> None:
    tables: Tables = {"flame": IDEAL, "security": {"colluders": colluders}}
    plan = prepared(tmp_path, configured("flame-simple", tables)).plan
    assert [phase.name for phase in plan.phases] == ["train", "held-out"]
    votes = plan.phases[1].views
    mix = ev.Shuffle(len(LISTED) - colluders, ev.Laplace(NOISE))
    assert votes["model"] == votes["analyzer"] == votes["shuffler"] == ev.Repeat(2, mix)
    assert votes["client"] == ev.Repeat(2, replace(mix, users=mix.users - 1))
    assert votes["colluding"] == ev.Repeat(2, ev.Laplace(NOISE))
    training = ev.Repeat(2, plan.phases[0].event)
    both = ev.Compose((training, ev.Repeat(1, votes["model"])))
    due = pp.account(both, delta=1e-5, neighbours="replace-one").epsilon.upper
    assert plan.guarantees["model"].epsilon.upper == pytest.approx(due, rel=1e-6)
    alone = pp.account(training, delta=1e-5, neighbours="replace-one").epsilon.upper
    assert due > 1.05 * alone


def test_noise_of_the_rounds_is_found_for_what_votes_leave_of_a_budget(tmp_path: Path) -> None:
    tables = configured("flame-simple", {"flame": IDEAL})
    tables["privacy"] = {"epsilon": 8.0}
    folder, outcome = ran(tmp_path / "run", tables)
    total = outcome.result.guarantees["analyzer"].epsilon.upper
    assert 7.9 < total <= 8.0
    assert audit_budget(folder).ok
    tables["evaluation"] = {"test": "none"}
    without = prepared(tmp_path / "none", tables).plan.phases[0].noise_multiplier
    assert outcome.prepared.plan.phases[0].noise_multiplier > without


@for_each("system, tables", UNPROVEN)
def test_rounds_of_which_nothing_is_proven_are_no_better_for_votes(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    folder, outcome = ran(tmp_path / "run", configured(system, tables))
    assert outcome.result.held_out is not None
    assert outcome.result.held_out.deviation == pytest.approx(math.sqrt(44) * NOISE / 2)
    assert all(math.isinf(row.total.upper) for row in audit_budget(folder).rows)
    assert not edits_of(folder)


def votes_with(ledger: Ledger, **changes: Any) -> Ledger:
    """Return a ledger whose intent of votes says something else."""
    *rounds, last = ledger.spent
    return replace(ledger, spent=(*rounds, replace(last, intent=replace(last.intent, **changes))))


def test_a_log_that_says_another_deviation_or_event_of_votes_is_contradicted(
    tmp_path: Path,
) -> None:
    folder, _ = ran(tmp_path / "run", configured("flame-simple", {"flame": IDEAL}))
    ledger = ledger_of(folder)
    chain = Chain(ledger.records, "f" * 64)
    assert audit_ledger(ledger, chain).ok
    intent = ledger.spent[-1].intent
    louder = replace(intent.noise, std=2 * intent.noise.std, share_std=2 * intent.noise.share_std)
    quieter = replace(intent.noise, std=intent.noise.std / 2, share_std=intent.noise.std / 2)
    bound = replace(intent.contribution, bound=0.25)
    fewer = ev.Repeat(2, ev.Shuffle(len(LISTED) + 1, ev.Laplace(NOISE)))
    for changes in (
        {"noise": louder},
        {"noise": quieter},
        {"contribution": bound},
        {"event": fewer},
    ):
        found = audit_ledger(votes_with(ledger, **changes), chain)
        assert not found.ok, changes
        assert {hazard.id for hazard in found.hazards if hazard.severity == "error"}, changes
    once = replace(intent.noise, draws=1)
    assert not audit_ledger(votes_with(ledger, noise=once), chain).ok


def test_users_that_are_said_to_be_more_than_send_are_contradicted(tmp_path: Path) -> None:
    folder, _ = ran(tmp_path / "run", configured("flame-simple", {"flame": IDEAL}))
    ledger = ledger_of(folder)
    reaches = {
        who: replace(reach, users=100) if reach.users else reach
        for who, reach in (ledger.spent[-1].intent.reaches or {}).items()
    }
    found = audit_ledger(votes_with(ledger, reaches=reaches), Chain(ledger.records, "f" * 64))
    assert not found.ok


def test_votes_of_another_configuration_are_found_though_they_agree_with_themselves(
    tmp_path: Path,
) -> None:
    """Nobody colludes in the round of votes, says a log that is of a run with three who do."""
    tables: Tables = {"flame": IDEAL, "security": {"colluders": 3}}
    folder, _ = ran(tmp_path / "run", configured("flame-simple", tables))
    free = prepared(tmp_path / "free", configured("flame-simple", {"flame": IDEAL})).system
    ledger = ledger_of(folder)
    assert not compared(ledger).differences
    event, reaches = free.votes.views["model"], free.votes.reaches
    found = compared(votes_with(ledger, event=event, reaches=reaches)).differences
    assert {"event", "reaches.analyzer.colluders"} <= {one.fact for one in found}


@for_each("transport", ["ideal", "sealed"])
def test_votes_rest_on_a_shuffler_that_cannot_read_where_nothing_is_encrypted(
    tmp_path: Path, transport: str
) -> None:
    run = prepared(tmp_path, configured("flame-simple", {"flame": {"transport": transport}}))
    for who, reach in run.system.votes.reaches.items():
        rests = transport == "ideal" and who != "colluding"
        assert reach.rests_on == run.system.reaches()[who].rests_on
        assert (BLIND_SHUFFLER in reach.rests_on) == rests


@for_each("system, table", [("flame-simple", {}), ("flame-double", {"chosen": 4})])
def test_a_run_is_rehearsed_at_the_noise_that_votes_left_for_the_training(
    tmp_path: Path, system: str, table: dict[str, Any]
) -> None:
    tables = configured(system, {"flame": {**IDEAL, **table}})
    tables["privacy"] = {"epsilon": 8.0}
    plan = prepared(tmp_path, tables).plan
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        rehearsed, (said,) = rehearsal_settings(Configuration.of(tables).settings, 1)
    assert "votes" in said
    assert rehearsed.evaluation.held_out_noise is None
    assert rehearsed.privacy.noise_multiplier == plan.phases[0].noise_multiplier


def test_canaries_attack_the_rounds_of_a_run_with_votes(tmp_path: Path) -> None:
    from privplan.audit.attack import AttackRequest, attack

    tables = configured("flame-simple", {"flame": IDEAL}, privacy={"noise_multiplier": 4.0})
    folder, _ = ran(tmp_path / "run", tables)
    found = attack(folder, AttackRequest(tiers=("claim",), canaries=40, seed=1), append=False)
    (one,) = found.measurements
    assert not one.contradicted
    assert one.claimed is not None
    assert one.claimed < audit_budget(folder).total.upper  # the training alone
