"""Records that are held out of DELM's schemes: what they vote, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import laplace
from privplan.accountant.randomness import Streams
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.ledger.entries import Ledger
from privplan.audit.ledger.phases import score_of, votes_of
from privplan.fl.data.held_out import HeldOutRows
from privplan.fl.delm.pca import leading_directions, on_directions
from privplan.fl.delm.votes import votes_mechanism
from privplan.fl.frame.held_out_release import HeldOutRelease
from privplan.fl.frame.held_out_score import noise_deviation
from privplan.fl.frame.held_out_votes import votes_of_records
from privplan.fl.running.configuration import Configuration

from ...cases import for_each
from ..extras import needs
from .delm_votes import (
    FOUND,
    NOBODY,
    NOISE,
    PROJECTED,
    PUBLISHED,
    SOUND,
    VOTES,
    Tables,
    configured,
    measured,
    ran,
    silent,
)
from .held_out_runs import audited, ledger_of, planned
from .hospitals import configuration, write

pytestmark = needs("torch", "pyarrow", "cryptography")


# -- what is voted ------------------------------------------------------------------------------


def answered(features: Any, folder: Path, row_norm: float) -> Any:
    """Return the answers of a linear model that a run left, by products of its numbers alone."""
    with np.load(folder / "model.npz") as model:
        arrays = {name: model[name] for name in model.files}
    rows = np.asarray(features, np.float64)
    if "pca_directions" in arrays:
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows * np.minimum(1.0, row_norm / np.maximum(norms, 1e-300))
        rows = (rows @ arrays["pca_directions"].T).astype(np.float32).astype(np.float64)
    *weights, bias = arrays["parameters"].tolist()  # log-odds of one class
    return rows @ np.array(weights) + bias > 0.0


@for_each("system, tables", [SOUND[0], SOUND[1], SOUND[2], PUBLISHED[0]])
def test_votes_without_noise_are_a_plain_count(tmp_path: Path, system: str, tables: Tables) -> None:
    """Of the records that are held out, on the components that the run itself released."""
    seen: list[Any] = []
    totals = HeldOutRelease.totals

    def counted(votes: Any, *args: Any) -> Any:
        seen.append(votes.rows)
        return totals(votes, *args)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HeldOutRelease, "totals", counted)
        silent(patched)
        folder = ran(tmp_path / "run", configured(system, tables))
    (rows,) = seen
    right = answered(rows.features, folder, 2.0) == rows.labels.astype(bool)
    assert 20 < len(right) < 80  # of 120 records in three files
    assert 0 < right.sum() < len(right)
    score = measured(folder)["held_out"]
    due = right.sum(), (~right).sum()
    assert (score["right"], score["wrong"]) == pytest.approx(due, abs=1e-3)


def test_records_that_are_held_out_are_projected_one_by_one() -> None:
    """A product of matrices rounds a row otherwise among others, and would turn their votes."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(97, 40))
    turned = rng.normal(size=(40, 40))
    directions = leading_directions(turned + turned.T, 17)
    scaled = rows * np.minimum(1.0, 2.0 / np.linalg.norm(rows, axis=1, keepdims=True))
    assert not np.array_equal((scaled @ directions.T)[-1:], scaled[-1:] @ directions.T)
    whole = on_directions(rows, directions, 2.0)
    for first, last in ((0, 1), (96, 97), (1, 97), (5, 12)):
        part = on_directions(rows[first:last], directions, 2.0)
        assert part.tobytes() == whole[first:last].tobytes()
    assert np.allclose(whole, scaled @ directions.T, rtol=0.0, atol=1e-13)


def test_a_record_moves_the_votes_by_one_and_by_two_where_it_is_replaced() -> None:
    """In L1, whatever it is answered, and in whichever silo it lies."""

    def total(silo: list[int], right: list[bool]) -> Any:
        count = len(silo)
        where = np.array(silo, np.int64)
        rows = HeldOutRows(np.zeros((count, 1), np.float32), where, where, where, count, 3, where)
        cast = votes_of_records(1, None)(rows, np.array(right, bool))
        mechanism = votes_mechanism(NOISE, silos=3)
        return mechanism.totals(cast.votes, cast.silo, 3) * mechanism.grid

    mechanism = votes_mechanism(NOISE, silos=3)
    assert mechanism.sensitivity("add-remove") == 1.0
    assert mechanism.sensitivity("replace-one") == 2.0
    base = total([0, 1, 1], [True, False, True])
    for silo in range(3):
        for right in (True, False):
            more = total([0, 1, 1, silo], [True, False, True, right])
            assert 0.9999 < np.abs(more - base).sum() <= 1.0
    other = total([0, 1, 1], [True, False, False])
    assert 1.9999 < np.abs(other - base).sum() <= 2.0


# -- what it costs ------------------------------------------------------------------------------


@pytest.mark.quick(3)
@for_each("system, tables", (*SOUND, *PUBLISHED))
def test_an_audit_derives_what_the_votes_cost(tmp_path: Path, system: str, tables: Tables) -> None:
    said = configured(system, tables)
    plan = planned(tmp_path / "run", said)
    folder = ran(tmp_path / "run", said)
    budget, ledger = audit_budget(folder), ledger_of(folder)
    assert plan.phases[-1].name == "held-out"
    assert set(plan.phases[-1].views.values()) == {ev.Laplace(NOISE)}
    assert {"shuffler", "server", "silo", "model"} <= plan.phases[-1].views.keys()
    assert not edits_of(folder)
    due = {row.observer: row.total.upper for row in budget.rows}
    for who, proven in plan.guarantees.items():
        assert due[who] == proven.epsilon.upper, who  # what is announced is what is derived
    if (system, tables) in PUBLISHED:
        assert not any(map(math.isfinite, due.values()))
        assert not budget.supported
    else:
        assert budget.supported, budget
        assert {hazard.id for hazard in budget.hazards} == {"delta-not-compared"}
    votes = votes_of(ledger)
    assert votes is not None
    assert votes.intent.event == ev.Laplace(NOISE)  # by itself it is what it is
    assert "configuration-mismatch" not in {hazard.id for hazard in budget.hazards}
    score = score_of(ledger)
    assert score is not None
    assert score.to_json() == measured(folder)["held_out"]
    assert score.deviation == pytest.approx(NOISE * math.sqrt(2 * 3))  # all of it, of three
    assert score.votes == pytest.approx(0.4 * 200)


def test_the_deviation_is_that_of_the_noise_that_is_drawn() -> None:
    """Of sums of three clients' noise, by many draws of the mechanism's own sampler."""
    mechanism = votes_mechanism(NOISE, silos=3)
    stream = Streams.secure().stream("votes")
    drawn = laplace.rounded_laplace(stream, 3 * 40_000, mechanism.scale / mechanism.grid)
    sums = drawn.reshape(3, -1).sum(axis=0) * mechanism.grid
    assert noise_deviation(mechanism.noise(), 3) == pytest.approx(float(sums.std()), rel=0.02)


def test_votes_are_composed_with_the_rounds(tmp_path: Path) -> None:
    """Two rounds and the votes, each of Laplace noise: nothing is left out, nothing twice."""
    plan = planned(tmp_path, configured("delm-basic", FOUND))
    alone = planned(tmp_path, configured("delm-basic", FOUND, NOBODY))
    rounds, votes = plan.phases
    noise = rounds.noise_multiplier
    whole = ev.Compose((ev.Repeat(2, ev.Laplace(noise)), ev.Laplace(NOISE)))
    due = pp.account(whole, delta=1e-5, neighbours="add-remove")
    assert votes.rounds == 1
    assert plan.guarantees["model"].epsilon.upper == pytest.approx(due.epsilon.upper, rel=1e-9)
    assert 7.99 < plan.guarantees["model"].epsilon.upper <= 8.0
    assert noise > alone.phases[0].noise_multiplier  # the rounds make room for the votes


def test_a_dry_run_tells_the_price_that_the_log_then_has(tmp_path: Path) -> None:
    said = configured("delm-enhanced", PROJECTED)
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        forecast = pp.plan_run(said)
        pp.run(said, "out")
    told = {each.observer: each.epsilon.upper for each in forecast.observers}
    found = {row.observer: row.total.upper for row in audit_budget(tmp_path / "out").rows}
    assert told.items() <= found.items()
    louder = {each.observer: each.lowered_by for each in forecast.observers}
    assert louder["model"] is None  # parts of epsilon give noise: there is no multiplier to raise


def test_parts_that_leave_the_votes_no_room_are_refused(tmp_path: Path) -> None:
    """They come to 6 in two rounds, which 6.5 would pay for; votes are 2/3 more."""
    parts: Tables = {
        "delm": {"row_norm": 2.0, "pca": "none", "sensitivity": "proven", "training_epsilon": 3.0},
        "privacy": {"epsilon": 6.5},
    }
    plan = planned(tmp_path, configured("delm-basic", parts, NOBODY))
    assert plan.guarantees["model"].epsilon.upper <= 6.5
    with pytest.raises(InvalidInput, match="with the votes of who is held out"):
        planned(tmp_path, configured("delm-basic", parts))


def edited(ledger: Ledger, change: Callable[[Any], Any]) -> Ledger:
    """Return a log whose last intent, that of the votes, is another one."""
    last = ledger.spent[-1]
    assert last.intent.phase == "held-out"
    return replace(ledger, spent=(*ledger.spent[:-1], replace(last, intent=change(last.intent))))


def halved(intent: Any) -> Any:
    """State half the noise, and the event of all of it."""
    noise = replace(intent.noise, std=NOISE / 2, share_std=NOISE / 2)
    return replace(intent, noise=noise)


def doubled(intent: Any) -> Any:
    """State twice the noise of the configuration, with the event that this would have."""
    noise = replace(intent.noise, std=2 * NOISE, share_std=2 * NOISE)
    views = dict.fromkeys(intent.views, ev.Laplace(2 * NOISE))
    return replace(intent, noise=noise, event=ev.Laplace(2 * NOISE), views=views)


def of_a_smaller_move(intent: Any) -> Any:
    """State half the bound on a vote."""
    return replace(intent, contribution=replace(intent.contribution, bound=0.5), sensitivity=0.5)


@for_each("change", [halved, doubled, of_a_smaller_move])
def test_a_wrong_scale_in_the_log_is_contradicted(
    tmp_path: Path, change: Callable[[Any], Any]
) -> None:
    ledger = ledger_of(ran(tmp_path / "run", configured("delm-basic", FOUND)))
    assert audited(ledger).supported
    assert not audited(edited(ledger, change)).supported


def test_canaries_of_the_pca_are_held_against_a_run_with_votes(tmp_path: Path) -> None:
    folder = ran(tmp_path / "run", configured("delm-basic", PROJECTED))
    asked = AttackRequest(tiers=("claim",), canaries=40, seed=3)
    found = attack(folder, asked, append=False)
    assert found.measurements
    assert not found.contradicted
    said = [each for measured in found.measurements for each in measured.assumes]
    assert any("votes of who is held out are not rehearsed" in each for each in said)


@for_each("system, tables", SOUND)
def test_the_noise_of_the_rounds_is_judged_beside_that_of_votes(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    """Of two numbers nothing is sealed that would have to be normal."""
    folder = ran(tmp_path / "run", configured(system, tables))
    found = attack(folder, AttackRequest(tiers=("residual",)), append=False)
    assert found.measurements
    assert not found.skipped
    assert not found.contradicted
    names = {row.observer for row in audit_budget(folder).rows}
    assert "silo-with-records" not in names  # a record lies in one silo alone


# -- what is refused ----------------------------------------------------------------------------


@for_each(
    "tables, says",
    [
        ({"data": {"user": "patient"}}, "no public number is known"),
        ({"security": {"aggregation": "masked"}}, "aggregation"),
    ],
)
def test_votes_that_a_run_cannot_count_are_refused(tables: Tables, says: str) -> None:
    made = configuration("delm-basic", evaluation=VOTES, **{**FOUND, **tables})
    if "data" not in tables:
        del made["data"]["user"]
    with pytest.raises(InvalidInput, match=says):
        Configuration.of(made)


def test_coefficients_that_train_no_model_have_nobody_to_vote() -> None:
    tables: Tables = {"run": {"rounds": 1}, "delm": {"row_norm": 2.0}}
    with pytest.raises(InvalidInput, match="no use for it"):
        Configuration.of(configuration("delm-linear", evaluation=VOTES, **tables))
