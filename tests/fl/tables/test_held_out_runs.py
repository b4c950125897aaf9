"""Runs whose users are held out: what leaves them, what they cost, and what a kill leaves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, InvalidInput
from privplan.accountant.mechanisms import Ticket
from privplan.audit.budget import audit_budget, audit_ledger
from privplan.audit.budget.report import Chain
from privplan.audit.edits import edits_of
from privplan.audit.ledger.entries import Entry, Ledger
from privplan.audit.ledger.phases import score_of
from privplan.fl.aggregation.sums import float_sum
from privplan.fl.data.held_out import held_out
from privplan.fl.disco import system as disco
from privplan.fl.frame import held_out_release
from privplan.fl.frame.held_out_release import HeldOutRelease
from privplan.fl.log.reader import Scan
from privplan.fl.tables.user_names import user_name
from privplan.fl.uldp import group, naive, weighted
from privplan.fl.uldp.record_flags import records_taking_part

from ...accountant.participating import exact
from ...cases import for_each
from ..extras import needs
from .hospitals import SCHEMA, configuration, write
from .hospitals import rows as file_rows
from .test_table_runs import MARKER, NASTY, VALUES_AFTER_NOISE

pytestmark = needs("torch", "pyarrow", "cryptography")

VOTES = {"test": "held-out", "held_out": 0.4, "held_out_noise": 1.5}

DISCO = {"privacy": {"unit": "silo"}}

RECORDS = {
    "privacy": {"unit": "record"},
    "disco": {"divisor": 100, "noise": "local"},
    "security": {"aggregation": "plain"},
    "data": {
        "users_at_most": 200,
        "columns": {**SCHEMA["columns"], "patient": {"kind": "ignored"}},
    },
}
"""Of rows that are nobody's: each is held out by what it holds."""

GROUP = {"uldp": {"group_records": 2}}

SETTINGS: tuple[tuple[str, dict[str, dict[str, Any]]], ...] = (
    ("uldp-avg", {}),
    ("uldp-avg", {"privacy": {"noise_multiplier": 2.0, "sampling_rate": 0.5}}),
    ("uldp-avg", {"privacy": {"noise": "banded", "cohorts": 2, "noise_multiplier": 2.0}}),
    ("uldp-avg", {"privacy": {"neighbours": "replace-one", "noise_multiplier": 4.0}}),
    ("uldp-avg", {"security": {"aggregation": "masked"}, "training": {"weighting": "records"}}),
    ("uldp-avg", {"security": {"aggregation": "shares"}}),
    ("uldp-sgd", {"training": {"weighting": "records"}}),
    ("uldp-naive", {}),
    ("uldp-naive", {"privacy": {"neighbours": "replace-one"}}),
    ("uldp-naive", {"security": {"aggregation": "masked", "dropouts": 1}}),
    ("uldp-naive", {"security": {"aggregation": "shares"}}),
    ("uldp-group", GROUP),
    ("uldp-group", {**GROUP, "security": {"aggregation": "masked", "colluders": 1}}),
    ("disco", DISCO),
    ("disco", {**DISCO, "disco": {"clip": "quantile"}}),
    ("disco", RECORDS),
    ("disco", {**DISCO, "disco": {"noise": "local"}, "security": {"aggregation": "plain"}}),
    ("disco", {**DISCO, "disco": {"noise": "local"}, "security": {"aggregation": "masked"}}),
    ("fedavg", {}),
)


def configured(system: str, tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return a configuration whose rows are of users, unless their column is a feature."""
    made = configuration(system, **{"evaluation": VOTES, **tables})
    if "patient" in made["data"]["columns"]:
        del made["data"]["user"]
    return made


def out_and_in() -> tuple[str, str]:
    """Return a patient of the files who is held out, and one who is not."""
    patients = [f"p{number}" for number in range(1, 20)]
    chosen = held_out(np.array([user_name(who, 0) for who in patients]), VOTES["held_out"], 0)  # type: ignore[arg-type]
    return patients[int(np.argmax(chosen))], patients[int(np.argmin(chosen))]


OUT, IN = out_and_in()


def gone(patient: str) -> Callable[[list[str]], list[str]]:
    """Take one patient out of all files."""
    return lambda lines: [line for line in lines if not line.startswith(f"{patient},")]


def other(patient: str) -> Callable[[list[str]], list[str]]:
    """Give one patient whatever rows a file can hold, in place of its own."""
    rows = [line.replace(f"{MARKER},", f"{patient},", 1) for line in NASTY]
    rows += [f"{patient},1,m,III,n,{MARKER},{word}" for word in ("yes", "no") * 20]
    return lambda lines: [*rows, *gone(patient)(lines)]


def nobody(_: list[str]) -> list[str]:
    """Leave no row in any file."""
    return []


EDITS = (gone(OUT), gone(IN), other(OUT), other(IN), nobody)


def ran(
    folder: Path, tables: dict[str, Any], edited: Any = None, played: list[Any] | None = None
) -> tuple[Path, list[Any]]:
    """Make a run; return its folder, and each noised sum.  `played` takes the place of these."""
    folder.mkdir()
    write(folder, edited)
    sums: list[Any] = []
    adding = held_out_release.noisy_sum

    def summed(*args: Any, **named: Any) -> Any:
        arrived = adding(*args, **named)
        if played is not None:
            arrived = replace(arrived, total=played[len(sums)])
        sums.append(arrived.total)
        return arrived

    def summed_noisy(*args: Any, **named: Any) -> Any:  # what has its noise already
        sums.append(float_sum(*args, **named) if played is None else played[len(sums)])
        return sums[-1]

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        for module in (weighted, naive, disco, held_out_release):
            patched.setattr(module, "noisy_sum", summed)
        patched.setattr(group, "float_sum", summed_noisy)
        pp.run(tables, "out")
    return folder / "out", sums


def shown(folder: Path, *, after_noise: bool) -> list[dict[str, Any]]:
    """Return the lines of a log without hashes, times and commitments; or without noised values."""
    gone = {"hash", "prev", "run_id", "opened", "sealed", "dataset", "head"}
    if not after_noise:
        gone |= {*VALUES_AFTER_NOISE, "metrics"}
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [
        {
            **{key: value for key, value in line.items() if key not in gone},
            "keys": sorted(line),
            "sealed": sorted(line.get("sealed") or ()),
            "told": sorted(line.get("metrics") or ()),
        }
        for line in lines
    ]


def measured(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return {name: value for name, value in content.items() if name != "run_id"}


def stored(folder: Path) -> dict[str, bytes]:
    with np.load(folder / "model.npz") as model:
        return {name: model[name].tobytes() for name in model.files if name != "about"}


@pytest.mark.quick(5)
@for_each("edited", range(len(EDITS)))
@for_each("system, tables", SETTINGS[:-1])
def test_neighbours_differ_in_noised_values_alone_and_not_at_all_with_the_same(
    tmp_path: Path, system: str, tables: dict[str, Any], edited: int
) -> None:
    """Of all that leaves a run, whoever of the patients is gone or has other rows."""
    said = configured(system, {**tables, "run": {"seed": 5, "rounds": 2}})
    plain, sums = ran(tmp_path / "plain", said)
    files = sorted((path.name, path.stat().st_size) for path in plain.glob("*.npz"))
    folder, others = ran(tmp_path / "noised", said, EDITS[edited])
    assert [each.shape for each in others] == [each.shape for each in sums]
    assert shown(folder, after_noise=False) == shown(plain, after_noise=False)
    same, again = ran(tmp_path / "played", said, EDITS[edited], sums)
    assert len(again) == len(sums)
    assert shown(same, after_noise=True) == shown(plain, after_noise=True)
    assert measured(same) == measured(plain)
    assert stored(same) == stored(plain)
    for each in (folder, same):
        assert sorted((path.name, path.stat().st_size) for path in each.glob("*.npz")) == files
        for path in each.rglob("*"):
            assert not path.is_file() or MARKER.encode() not in path.read_bytes()


def test_the_patients_that_are_changed_do_change_what_is_summed(tmp_path: Path) -> None:
    """The comparison above would find a difference: who is held out moves votes, others models."""
    said = configuration(evaluation=VOTES, run={"seed": 5})
    *rounds, votes = ran(tmp_path / "plain", said)[1]
    *rounds_without, votes_without = ran(tmp_path / "out", said, gone(OUT))[1]
    assert all(map(np.array_equal, rounds, rounds_without))
    assert not np.array_equal(votes, votes_without)
    *rounds_without, _ = ran(tmp_path / "in", said, gone(IN))[1]
    assert not any(map(np.array_equal, rounds, rounds_without))


@pytest.mark.quick(3)
@for_each("system, tables", SETTINGS)
def test_an_audit_derives_what_the_votes_cost(
    tmp_path: Path, system: str, tables: dict[str, Any]
) -> None:
    folder, _ = ran(tmp_path / "run", configured(system, tables))
    budget = audit_budget(folder)
    if system == "fedavg":  # promises nothing, and is no worse for it
        assert not any(math.isfinite(row.total.upper) for row in budget.rows)
    else:
        assert budget.supported, budget
        # Of records it is private how many there are, with votes and without.
        assert {hazard.id for hazard in budget.hazards} <= {"delta-not-compared"}
        assert not budget.hazards or tables is RECORDS
    assert not edits_of(folder)
    score = score_of(ledger_of(folder))
    assert score is not None
    assert score.to_json() == measured(folder)["held_out"]
    # Noise that may be missing is made up for, and all of it arrives.
    missing = tables.get("security", {}).get("dropouts", 0)
    assert score.deviation == pytest.approx(1.5 * math.sqrt(3 / (3 - missing)))


def test_votes_are_composed_with_the_rounds(tmp_path: Path) -> None:
    """Two rounds of noise 2 and one of 1.5 are one Gaussian, whoever is held out."""
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        plan = pp.plan_run(configuration(evaluation=VOTES)).prepared.plan
        alone = pp.plan_run(configuration()).prepared.plan
        found = configuration(evaluation=VOTES)
        found["privacy"] = {"epsilon": 5.0}
        calibrated = pp.plan_run(found)
    assert [phase.name for phase in plan.phases] == ["train", "held-out"]
    due = exact(math.sqrt(2 / 2.0**2 + 1 / 1.5**2), 1e-5)
    assert plan.guarantees["model"].epsilon.upper == pytest.approx(due, rel=1e-4)
    for who in ("model", "server", "silo"):
        assert plan.guarantees[who].epsilon.upper > alone.guarantees[who].epsilon.upper
        assert isinstance(plan.phases[1].views[who], ev.Gaussian)
    assert calibrated.rounds == 2
    assert 4.99 < calibrated.prepared.plan.guarantees["model"].epsilon.upper <= 5.0
    noise = calibrated.noise_multiplier
    assert noise is not None
    assert exact(math.sqrt(2 / noise**2 + 1 / 1.5**2), 1e-5) == pytest.approx(5.0, rel=1e-3)


def planned(folder: Path, tables: dict[str, dict[str, Any]]) -> Any:
    """Return the plan of a run on the hospitals' files, without running."""
    folder.mkdir(exist_ok=True)
    write(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return pp.plan_run(tables).prepared.plan


def test_votes_of_each_unit_are_composed_with_its_rounds(tmp_path: Path) -> None:
    """A unit's move is the sum over rounds and votes of its squared moves, whoever it is.

    ULDP-NAIVE, whose silos move by 2 C; k records of a user; a silo on both sides; a record.
    """
    due = exact(math.sqrt(2 / 2.0**2 + 1 / 1.5**2), 1e-5)
    plan = planned(tmp_path / "naive", configured("uldp-naive", {}))
    assert plan.guarantees["model"].epsilon.upper == pytest.approx(due, rel=1e-4)
    full = {"uldp": {"group_records": 2, "record_rate": 1.0}, "training": {"local_epochs": 1}}
    plan = planned(tmp_path / "group", configured("uldp-group", full))
    assert plan.phases[1].views["model"] == ev.Gaussian(3.0)  # of a record; 1.5 of the user
    # Two records of a user move each of two rounds by twice as much, and the votes by one vote.
    due = exact(math.sqrt(2 * (2 / 2.0) ** 2 + 1 / 1.5**2), 1e-5)
    assert plan.guarantees["model"].epsilon.upper == pytest.approx(due, rel=1e-4)
    # Replaced, a silo or a record moves each sum by two bounds.
    due = exact(2 * math.sqrt(2 / 2.0**2 + 1 / 1.5**2), 1e-5)
    for name, tables in (("silo", DISCO), ("record", RECORDS)):
        plan = planned(tmp_path / name, configured("disco", tables))
        assert plan.guarantees["model"].epsilon.upper == pytest.approx(due, rel=1e-4)
    # Local noise is a third of the variance in each of three messages.
    local = exact(2 * math.sqrt(3) * math.sqrt(2 / 2.0**2 + 1 / 1.5**2), 1e-5)
    assert plan.guarantees["peer"].epsilon.upper == pytest.approx(local, rel=1e-4)


@for_each("noise", [1.5, 2.0])
@for_each("relation", ["add-remove", "replace-one"])
def test_the_lower_end_is_of_who_is_trained_on(tmp_path: Path, noise: float, relation: str) -> None:
    """Nobody is on both sides, so no data show what both together may at most."""
    tables = configuration(
        evaluation={**VOTES, "held_out_noise": noise},
        privacy={"noise_multiplier": 2.0, "neighbours": relation},
        training={"clip": 1.0},  # so that rounds and votes may be alike
    )
    folder, _ = ran(tmp_path / "run", tables)
    alone, _ = ran(tmp_path / "alone", {**tables, "evaluation": {"test": "none"}})
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path / "run")
        planned = pp.plan_run(tables).prepared.plan.guarantees
        without = pp.plan_run({**tables, "evaluation": {"test": "none"}}).prepared.plan.guarantees
    found, usual = audit_budget(folder).total.epsilon, audit_budget(alone).total.epsilon
    assert found.lower == pytest.approx(usual.lower, rel=1e-9)
    assert found.lower > 0.0
    assert found.upper > 1.1 * usual.upper
    assert audit_budget(folder).ok
    for who, proven in planned.items():
        assert proven.epsilon.lower == pytest.approx(without[who].epsilon.lower, rel=1e-9)
        assert proven.epsilon.upper > 1.1 * without[who].epsilon.upper


@for_each("system, tables", [("uldp-naive", {}), ("uldp-group", GROUP), ("disco", DISCO)])
def test_votes_are_those_of_the_records_that_are_held_out(
    tmp_path: Path, system: str, tables: dict[str, dict[str, Any]]
) -> None:
    """At hardly any noise a score is what a plain count of the files gives."""
    quiet = {**VOTES, "held_out_noise": 1e-6}
    tables = configured(system, {**tables, "evaluation": quiet, "run": {"seed": 5, "rounds": 2}})
    seen: list[tuple[Any, Any]] = []
    totals = HeldOutRelease.totals

    def counted(votes: Any, parameters: Any, again: Any = None) -> Any:
        seen.append((votes.rows, votes.right(parameters)))
        return totals(votes, parameters, again)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HeldOutRelease, "totals", counted)
        folder, _ = ran(tmp_path / "run", tables)
    ((rows, answers),) = seen
    cells: dict[tuple[int, int], list[bool]] = {}
    for user, silo, right in zip(rows.user, rows.silo, answers, strict=True):
        cells.setdefault((int(user), int(silo)), []).append(bool(right))
    held = [line for silo in range(3) for line in file_rows(silo) if is_out(line.split(",")[0])]
    assert len(answers) == len(held) > 10
    if system == "uldp-naive":
        due = sum(sum(cell) / len(cell) / 3 for cell in cells.values())
        all_votes = len(cells) / 3
    elif system == "disco":
        by_silo = [[r for (_, s), c in cells.items() if s == silo for r in c] for silo in range(3)]
        due, all_votes = sum(sum(votes) / len(votes) for votes in by_silo), 3.0
    else:
        due = sum(answers[records_taking_part(rows, 2, 0)]) / 2
        all_votes = sum(records_taking_part(rows, 2, 0)) / 2
        users = np.bincount(rows.user[records_taking_part(rows, 2, 0)])
        assert users.max() == 2
    score = measured(folder)["held_out"]
    assert score["right"] == pytest.approx(due, abs=1e-4)
    assert score["right"] + score["wrong"] == pytest.approx(all_votes, abs=1e-4)


def is_out(patient: str) -> bool:
    """Return whether a patient is held out, by its id alone."""
    name = np.array([user_name(patient, 0)])
    return bool(held_out(name, VOTES["held_out"], 0)[0])  # type: ignore[arg-type]


def test_a_budget_that_votes_eat_begins_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        tables = configuration(evaluation=VOTES)
        tables["privacy"] = {"epsilon": 2.0}
        with pytest.raises(BudgetExceeded, match="'held-out' alone spends"):
            pp.run(tables, "out")
    assert not (tmp_path / "out").exists()


def test_no_score_without_noise_leaves_a_run(tmp_path: Path) -> None:
    """Of sums before the noise nothing is found in a file but the sealed ones, nor in a report."""
    true: list[Any] = []
    totals = HeldOutRelease.totals

    def seen(votes: Any, *args: Any) -> Any:
        made = totals(votes, *args)
        true.extend((made.sum(axis=0) * votes.mechanism.grid).tolist())
        true.extend((made * votes.mechanism.grid).ravel().tolist())
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HeldOutRelease, "totals", seen)
        folder, _ = ran(tmp_path / "run", configuration(evaluation=VOTES))
    assert len(true) == 8
    page = pp_report(folder)
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith("sealed"):
            content = path.read_bytes()
            for value in true:
                assert repr(value).encode()[:9] not in content or len(repr(value)) < 9
                assert np.float64(value).tobytes() not in content or value == 0.0
    for value in true:
        assert f"{value:.6g}" not in page or len(f"{value:.6g}") < 6
    score = score_of(ledger_of(folder))
    assert str(score) in page


def pp_report(folder: Path) -> str:
    from privplan.audit.report.page import render
    from privplan.audit.report.run_facts import read

    return render(read(folder))


def audited(ledger: Ledger) -> Any:
    return audit_ledger(ledger, Chain(ledger.records, "f" * 64))


def ledger_of(folder: Path) -> Ledger:
    return Ledger.of([Entry(line.number, line.seq, line.record) for line in Scan(folder)])


@for_each("metrics", [{"right": "9.0", "wrong": "1.0"}, {"accuracy": "0.9"}, {}])
def test_numbers_that_only_call_themselves_released_are_no_release(
    tmp_path: Path, metrics: dict[str, str]
) -> None:
    folder, _ = ran(tmp_path / "run", configuration(evaluation=VOTES))
    ledger = ledger_of(folder)
    assert audited(ledger).supported
    ((line, said),) = ledger.evaluations
    forged = replace(ledger, evaluations=((line, replace(said, metrics=metrics)),))
    found = audited(forged)
    assert not found.supported
    assert "private-evaluation" in {hazard.id for hazard in found.hazards}
    assert score_of(forged) is None
    before = replace(ledger, evaluations=((1, said),))  # what was not released yet
    assert not audited(before).supported


def test_votes_on_another_model_are_found(tmp_path: Path) -> None:
    folder, _ = ran(tmp_path / "run", configuration(evaluation=VOTES))
    ledger = ledger_of(folder)
    last = ledger.spent[-1]
    elsewhere = replace(last, intent=replace(last.intent, model_in="0" * 64))
    later = replace(last, intent=replace(last.intent, round=last.intent.round + 1))
    for edited, rule in ((elsewhere, "broken-lineage"), (later, "missing-rounds")):
        found = audited(replace(ledger, spent=(*ledger.spent[:-1], edited))).hazards
        assert rule in {hazard.id for hazard in found}


def test_files_beside_a_log_that_say_other_votes_are_found(tmp_path: Path) -> None:
    folder, _ = ran(tmp_path / "run", configuration(evaluation=VOTES))
    content = json.loads((folder / "metrics.json").read_text())
    for other in ({**content["held_out"], "right": 11.0}, None):
        (folder / "metrics.json").write_text(json.dumps({**content, "held_out": other}))
        assert [edit.id for edit in edits_of(folder)] == ["foreign-metrics"]
    (folder / "metrics.json").write_text(json.dumps(content))
    with np.load(folder / "model.npz") as model:
        arrays = {name: model[name] for name in model.files}
    arrays["held_out_released"] = arrays["held_out_released"] + 1.0
    np.savez(folder / "model.npz", **arrays)
    assert [edit.id for edit in edits_of(folder)] == ["foreign-model"]


# -- a run that is cut off ----------------------------------------------------------------------


class Stop(BaseException):
    """A kill."""


def cut(folder: Path, tables: dict[str, Any], where: tuple[Any, str], before: bool) -> None:
    """Begin a run, and cut it off before or after a function of the release of votes."""
    owner, name = where
    known = getattr(owner, name)

    def stopping(*args: Any, **named: Any) -> Any:
        if not before:
            known(*args, **named)
        raise Stop

    write(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setattr(owner, name, stopping)
        with pytest.raises(Stop):
            pp.run(tables, "out")


def resumed(folder: Path) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return pp.resume("out")


def votes_in(folder: Path) -> tuple[int, int, int]:
    """Return how many intents, releases and evaluations of votes a log has."""
    ledger = ledger_of(folder)
    of_votes = [spent for spent in ledger.spent if spent.intent.phase == "held-out"]
    return (
        len(of_votes),
        sum(len(spent.releases) for spent in of_votes),
        len(ledger.evaluations),
    )


@for_each(
    "system, tables",
    [
        ("uldp-avg", {"security": {"aggregation": "plain"}}),
        ("uldp-avg", {"security": {"aggregation": "masked"}}),
        ("uldp-naive", {}),
        ("uldp-group", GROUP),
        ("disco", DISCO),
        ("disco", RECORDS),
    ],
)
def test_votes_that_were_not_begun_are_made_after_a_kill(
    tmp_path: Path, system: str, tables: dict[str, dict[str, Any]]
) -> None:
    tables = configured(system, tables)
    cut(tmp_path, tables, (HeldOutRelease, "totals"), before=False)
    assert votes_in(tmp_path / "out") == (0, 0, 0)
    outcome = resumed(tmp_path)
    assert outcome.result.held_out is not None
    assert votes_in(tmp_path / "out") == (1, 1, 1)
    assert audit_budget(tmp_path / "out").ok


@for_each("where", [(held_out_release, "noisy_sum"), (Ticket, "close")])
@for_each("aggregation", ["plain", "masked"])
def test_votes_that_were_cut_off_are_spent_and_never_made_again(
    tmp_path: Path, aggregation: str, where: tuple[Any, str]
) -> None:
    """The noise was drawn, and perhaps kept: nothing of it counts, and the run has an end."""
    tables = configuration(evaluation=VOTES, security={"aggregation": aggregation})
    owner, name = where
    write(tmp_path)
    known = getattr(owner, name)

    def stopping(*args: Any, **named: Any) -> Any:
        if name == "close" and args[0].intent.phase != "held-out":
            return known(*args, **named)
        if name == "noisy_sum":
            known(*args, **named)
        raise Stop

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        patched.setattr(owner, name, stopping)
        with pytest.raises(Stop):
            pp.run(tables, "out")
    folder = tmp_path / "out"
    assert votes_in(folder) == (1, 0, 0)
    outcome = resumed(tmp_path)
    assert outcome.result.held_out is None
    assert outcome.result.rounds == 2
    assert votes_in(folder) == (1, 0, 0)
    assert not {"held_out_released", "held_out_deviation"} & stored(folder).keys()
    assert "held_out" not in measured(folder)
    assert not (folder / "checkpoint.npz").exists()
    budget = audit_budget(folder)
    assert budget.supported
    assert budget.ok
    assert budget.spent == 3
    assert not edits_of(folder)


def test_votes_that_were_released_are_kept_and_told_after_a_kill(tmp_path: Path) -> None:
    from privplan.accountant.records import Evaluation
    from privplan.fl.running import session

    cut(tmp_path, configuration(evaluation=VOTES), (session, "Evaluation"), before=True)
    folder = tmp_path / "out"
    assert votes_in(folder) == (1, 1, 0)
    outcome = resumed(tmp_path)
    assert votes_in(folder) == (1, 1, 1)
    assert session.Evaluation is Evaluation
    assert outcome.result.held_out is not None
    assert outcome.result.held_out == score_of(ledger_of(folder))
    assert audit_budget(folder).ok
    assert not edits_of(folder)


def test_votes_that_are_kept_and_not_in_the_log_are_refused(tmp_path: Path) -> None:
    """Who put them there may have seen them without noise."""
    tables = configuration(evaluation=VOTES)
    cut(tmp_path, tables, (HeldOutRelease, "totals"), before=True)
    checkpoint = tmp_path / "out" / "checkpoint.npz"
    with np.load(checkpoint) as kept:
        arrays = {name: kept[name] for name in kept.files}
    np.savez(checkpoint, **arrays, held_out_released=np.ones(2), held_out_deviation=np.ones(1))
    with pytest.raises(InvalidInput, match="never released"):
        resumed(tmp_path)


def test_rounds_and_votes_of_correlated_noise_go_on_with_the_next_block(tmp_path: Path) -> None:
    from privplan.fl.uldp.averaging import UldpAvg

    noise = {"noise": "banded", "cohorts": 2, "blocks": 2, "noise_multiplier": 2.0}
    tables = configuration(evaluation=VOTES, privacy=noise, run={"rounds": 8})
    known = UldpAvg.server_step

    def stopping(system: Any, parameters: Any, noisy: Any, state: Any, number: int) -> Any:
        if number == 2:
            raise Stop
        return known(system, parameters, noisy, state, number)

    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        patched.setattr(UldpAvg, "server_step", stopping)
        with pytest.raises(Stop):
            pp.run(tables, "out")
    outcome = resumed(tmp_path)
    assert outcome.result.held_out is not None
    assert audit_budget(tmp_path / "out").supported


def test_a_run_that_is_cut_in_its_last_block_does_not_go_on(tmp_path: Path) -> None:
    from privplan.fl.uldp.averaging import UldpAvg

    noise = {"noise": "banded", "cohorts": 2, "blocks": 2, "noise_multiplier": 2.0}
    tables = configuration(evaluation=VOTES, privacy=noise, run={"rounds": 8})
    known = UldpAvg.server_step

    def stopping(system: Any, parameters: Any, noisy: Any, state: Any, number: int) -> Any:
        if number == 6:
            raise Stop
        return known(system, parameters, noisy, state, number)

    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        patched.setattr(UldpAvg, "server_step", stopping)
        with pytest.raises(Stop):
            pp.run(tables, "out")
    with pytest.raises(InvalidInput, match="last block"):
        resumed(tmp_path)


def test_a_run_is_rehearsed_with_canaries_without_its_votes(tmp_path: Path) -> None:
    """What canaries show is held against the training, at the noise that votes left for it."""
    from privplan.audit.attack import AttackRequest, attack
    from privplan.fl.canaries import rehearsal_settings
    from privplan.fl.running.configuration import Configuration

    tables = configuration(evaluation=VOTES)
    tables["privacy"] = {"epsilon": 5.0}
    settings = Configuration.of(tables).settings
    folder, _ = ran(tmp_path / "run", tables)
    rehearsed, (said,) = rehearsal_settings(settings, 3)
    assert "votes" in said
    assert rehearsed.evaluation.held_out_noise is None
    noise = rehearsed.privacy.noise_multiplier
    assert noise is not None
    assert exact(math.sqrt(2 / noise**2 + 1 / 1.5**2), 1e-5) == pytest.approx(5.0, rel=1e-3)
    found = attack(folder, AttackRequest(tiers=("claim",), canaries=500, seed=1), append=False)
    (measured,) = found.measurements
    assert not measured.contradicted
    assert measured.claimed is not None
    assert measured.claimed < 5.0  # the training alone


@for_each(
    "system, tables",
    [("uldp-naive", {}), ("uldp-group", GROUP), ("disco", DISCO), ("disco", RECORDS)],
)
def test_other_systems_are_rehearsed_with_the_noise_that_votes_left(
    tmp_path: Path, system: str, tables: dict[str, dict[str, Any]]
) -> None:
    from privplan.fl.canaries import rehearsal_settings
    from privplan.fl.running.configuration import Configuration

    made = configured(system, tables)
    made["privacy"] = {**tables.get("privacy", {}), "epsilon": 14.0}
    settings = Configuration.of(made).settings
    plan = planned(tmp_path, made)
    rehearsed, (said,) = rehearsal_settings(settings, 3)
    assert "votes" in said
    assert rehearsed.evaluation.held_out_noise is None
    assert rehearsed.privacy.noise_multiplier == plan.phases[0].noise_multiplier
