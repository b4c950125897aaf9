"""Votes of a log are those of the records that are held out, and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.audit.budget import audit_budget
from privplan.audit.configuration.comparison import compared
from privplan.audit.edits import edits_of
from privplan.audit.ledger.phases import score_of
from privplan.fl.frame.held_out_release import HeldOutRelease
from privplan.fl.uldp.record_flags import records_taking_part

from ...cases import for_each
from ..extras import needs
from .held_out_flame import IDEAL, WORDS
from .held_out_runs import (
    DISCO,
    GROUP,
    VOTES,
    audited,
    configured,
    is_out,
    ledger_of,
    measured,
    ran,
)
from .hospitals import configuration
from .hospitals import rows as file_rows

pytestmark = needs("torch", "pyarrow", "cryptography")


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


@for_each("system", ["fedavg", "flame-simple", "flame-double"])
def test_what_follows_from_votes_is_held_against_the_log(tmp_path: Path, system: str) -> None:
    """Each number beside the votes, by itself: a file may say no other one, nor one more."""
    own = {
        "flame-simple": {"flame": {**IDEAL, **WORDS}},
        "flame-double": {"flame": {**IDEAL, "chosen": 4}},
    }
    folder, _ = ran(
        tmp_path / "run", configuration(system, evaluation=VOTES, **own.get(system, {}))
    )
    content = json.loads((folder / "metrics.json").read_text())
    said = content["held_out"]
    told = ["accuracy", "accuracy_deviation", "deviation", "share", "share_deviation", "votes"]
    assert sorted({*said} - {"right", "wrong"}) == told
    assert edits_of(folder) == ()
    rounded = {name: None if said[name] is None else said[name] * (1 + 1e-12) for name in told}
    other = [{name: 0.875 if said[name] is None else said[name] * 1.001} for name in told]
    other += [{name: 10**400} for name in told] + [{name: str(said[name])} for name in told]
    other += [{"accuracy": None if said["accuracy"] is not None else 0.5}, {"f1": 0.99}]
    for changed, found in [(rounded, []), *((one, ["foreign-metrics"]) for one in other)]:
        edited = {**content, "held_out": {**said, **changed}}
        (folder / "metrics.json").write_text(json.dumps(edited))
        assert [edit.id for edit in edits_of(folder)] == found, changed
    hazards = audit_budget(folder).hazards
    assert "foreign-metrics" in {hazard.id for hazard in hazards if hazard.severity == "error"}
    lacking = {name: said[name] for name in said if name != "accuracy"}
    (folder / "metrics.json").write_text(json.dumps({**content, "held_out": lacking}))
    assert [edit.id for edit in edits_of(folder)] == ["foreign-metrics"]


def test_a_file_says_no_votes_that_were_not_released(tmp_path: Path) -> None:
    folder, _ = ran(tmp_path / "run", configuration(evaluation={"test": "none"}))
    content = json.loads((folder / "metrics.json").read_text())
    assert "held_out" not in content
    assert edits_of(folder) == ()
    content["held_out"] = {"accuracy": 0.99}
    (folder / "metrics.json").write_text(json.dumps(content))
    assert [edit.id for edit in edits_of(folder)] == ["foreign-metrics"]


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


def test_every_fact_of_a_vote_that_follows_from_the_configuration_is_compared(
    tmp_path: Path,
) -> None:
    """Values, streams and reaches: one edit each, of an intent or a release, is contradicted.

    Names of streams are random: they are held against each other and the training's alone.
    """
    tables = {"security": {"aggregation": "masked", "colluders": 1}}
    masked, _ = ran(tmp_path / "masked", configuration("uldp-naive", evaluation=VOTES, **tables))
    local = {**DISCO, "disco": {"noise": "local"}, "security": {"aggregation": "masked"}}
    peers, _ = ran(tmp_path / "peers", configured("disco", local))
    mixed, _ = ran(tmp_path / "mixed", configuration("flame-simple", evaluation=VOTES, flame=IDEAL))
    tried = 0
    for folder, changed_reach in (
        (masked, {"colluders": 1, "dropouts": 1, "knows_sample": True, "rests_on": ("trust",)}),
        (peers, {"colluders": 2, "dropouts": 1, "knows_sample": True, "rests_on": ("trust",)}),
        (mixed, {"colluders": 2, "dropouts": 1, "knows_sample": True, "rests_on": ("trust",)}),
    ):
        ledger = ledger_of(folder)
        assert not compared(ledger).differences
        assert edits_of(folder) == ()
        last = ledger.spent[-1]
        ((number, release),) = last.releases
        assert last.intent.reaches is not None
        for observer, reach in last.intent.reaches.items():
            for name, value in changed_reach.items():
                if getattr(reach, name) == value:
                    continue
                reaches = {**last.intent.reaches, observer: replace(reach, **{name: value})}
                edited = replace(last, intent=replace(last.intent, reaches=reaches))
                found = compared(replace(ledger, spent=(*ledger.spent[:-1], edited))).differences
                assert f"reaches.{observer}.{name}" in [one.fact for one in found]
                tried += 1
        for values in (1, 3):
            other = replace(last, releases=((number, replace(release, values=values)),))
            forged = replace(ledger, spent=(*ledger.spent[:-1], other))
            assert "values" in [one.fact for one in compared(forged).differences]
            found_ids = {hazard.id for hazard in audited(forged).hazards}
            assert {"foreign-length", "configuration-mismatch"} <= found_ids
    assert tried >= 30


@for_each("edit", ["longer", "shorter", "twice", "left out", "of the training"])
def test_streams_of_votes_are_one_for_each_share_and_their_own(tmp_path: Path, edit: str) -> None:
    folder, _ = ran(tmp_path / "run", configuration("uldp-naive", evaluation=VOTES))
    ledger = ledger_of(folder)
    assert audited(ledger).supported
    last, before = ledger.spent[-1], ledger.spent[-2].releases[0][1].streams[0]
    ((number, release),) = last.releases
    first, *others = release.streams
    goes_on = replace(before, first=before.last, last=before.last + first.last)
    changed = {
        "longer": (replace(first, last=first.last + 1),),
        "shorter": (replace(first, last=first.last - 1),),
        "twice": (others[0],),
        "left out": (),
        "of the training": (goes_on,),
    }[edit]
    own = replace(release, streams=(*changed, *others))
    forged = replace(ledger, spent=(*ledger.spent[:-1], replace(last, releases=((number, own),))))
    assert "broken-streams" in {hazard.id for hazard in audited(forged).hazards}
