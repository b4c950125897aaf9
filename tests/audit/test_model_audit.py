"""Audits of a training that somebody else wrote: coins, folders, what is found and refused."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import privplan as pp
from privplan.accountant.arrays import FloatArray, IntArray
from privplan.accountant.errors import InvalidInput, PrivplanError
from privplan.audit.attack_methods.membership.evidence import Evidence
from privplan.audit.attack_methods.membership.trials import Trials
from privplan.audit.model_audits import audit_plan
from privplan.audit.model_audits.audit_chain import AUDIT_LOG, AuditChain, read_lines
from privplan.audit.model_audits.audit_plan import AuditFacts, drawn_design, drawn_seeds
from privplan.audit.model_audits.kept_audit import read_audit
from privplan.audit.model_audits.model_audit import ModelAudit
from privplan.audit.model_audits.model_scores import AuditedRecords
from privplan.audit.model_audits.pooled_targets import pooled_trials
from privplan.audit.model_audits.shadow_training import (
    TrainingProgress,
    read_scores_of,
    score_file,
)
from privplan.audit.shadows.design import Design
from privplan.fl.log.hash_chain import LOG, chained
from privplan.fl.log.sidecar import sealed_lines

from ..cases import for_each

DELTA = 1e-5
RECORDS = 160


def table(records: int = RECORDS, seed: int = 43) -> tuple[FloatArray, IntArray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(records, 4)), rng.integers(0, 2, records)


class Memory:
    """Votes of records near by: with a small width it remembers each by heart."""

    def __init__(self, features: FloatArray, labels: IntArray, width: float) -> None:
        self.features, self.labels, self.width = features, labels, width

    def predict_proba(self, features: FloatArray) -> FloatArray:
        squares = ((features[:, None] - self.features[None]) ** 2).sum(2)
        votes = np.exp(-squares / self.width)
        ones = 0.5 + votes @ (self.labels == 1)
        zeros = 0.5 + votes @ (self.labels == 0)
        return np.stack([zeros, ones], 1) / (zeros + ones)[:, None]


def overfitted(width: float = 0.2) -> Callable[[IntArray, int], Memory]:
    x, y = table()
    return lambda indices, _: Memory(x[indices], y[indices], width)


def audited(folder: Path, train: Any = None, **more: Any) -> ModelAudit:
    asked = {"shadows": 12, "delta": DELTA, "guesses": 30, **more}
    model = asked.pop("model", None)
    data = asked.pop("data", None) or table()
    return pp.audit_model(model, train or overfitted(), data, folder=folder, **asked)


@pytest.fixture
def same_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw the same coins and seeds in every audit of a test."""

    def coins(models: int, units: int) -> Any:
        return np.random.default_rng([models, units]).random((models, units)) < 0.5

    monkeypatch.setattr(audit_plan, "fair_coins", coins)
    monkeypatch.setattr(audit_plan.secrets, "randbits", lambda _: 7)


# --- what is found --------------------------------------------------------------------------------


@pytest.mark.usefixtures("same_coins")
def test_an_overfitted_training_is_found_and_bounded(tmp_path: Path) -> None:
    x, y = table()
    given = Memory(x[:80], y[:80], 0.2)
    audit = audited(tmp_path / "a", model=given, members=np.arange(80), claimed=0.5)
    results = audit.results
    assert results.conclusion == "leak"
    assert results.target.coins == "recorded"
    assert results.target.primary.epsilon_lower > 1.5  # type: ignore[operator]
    assert results.target.contradicted
    assert results.shadows[0].auc.lower > 0.9
    # No coin of this audit drew its members: areas alone, next to what a blind classifier tells.
    assert results.given is not None
    assert results.given.conclusion == "groups differ"
    assert all(each.epsilon_lower is None for each in results.given.attacks)
    assert results.given.blind is not None


@pytest.mark.usefixtures("same_coins")
def test_what_does_not_remember_shows_nothing(tmp_path: Path) -> None:
    """Scores that have nothing to do with who was in: coins are seeded, so that none errs."""

    def unrelated(indices: IntArray, seed: int) -> Any:
        noise = np.random.default_rng([seed, int(indices.sum())]).normal(size=RECORDS)
        return lambda features, _: features[:, 0] + noise

    audit = audited(tmp_path / "a", unrelated, claimed=0.01)
    assert audit.results.conclusion == "nothing"
    assert audit.results.target.primary.epsilon_lower == 0.0
    assert not audit.results.target.contradicted


@pytest.mark.usefixtures("same_coins")
def test_bounds_at_several_deltas_are_of_the_same_guesses(tmp_path: Path) -> None:
    results = audited(tmp_path / "a").results
    assert results.bound_at(DELTA) == results.target.primary.epsilon_lower
    assert results.bound_at(1e-3) < results.bound_at(0.0)  # type: ignore[operator]
    assert results.rejects(0.5, DELTA)
    assert not results.rejects(50.0, DELTA)


def test_users_are_in_or_out_as_a_whole(tmp_path: Path) -> None:
    user = np.arange(RECORDS) // 4
    x, y = table()

    def train(indices: IntArray, _: int) -> Memory:
        assert (np.bincount(user[indices], minlength=40) % 4 == 0).all()
        return Memory(x[indices], y[indices], 0.2)

    audit = audited(tmp_path / "a", train, user=user, guesses=10)
    assert (audit.results.target.unit, audit.results.target.units) == ("user", 40)
    assert audit.results.conclusion == "leak"


def test_intervals_over_shadows_count_a_pair_once() -> None:
    rng = np.random.default_rng(1)
    scores, members = rng.normal(size=(6, 50)), rng.random((6, 50)) < 0.5
    alone = Trials(scores, members, np.arange(50))
    pairs = Trials(scores, members, np.arange(50), np.repeat(np.arange(3), 2))
    assert (alone.clusters, alone.freedom) == (6, 5)
    assert (pairs.clusters, pairs.freedom) == (3, 2)
    drift = np.repeat([[1.0], [1.0], [-1.0], [-1.0], [2.0], [2.0]], 50, axis=1)
    assert pairs.variance(drift) > 1.5 * alone.variance(drift)


def test_a_shadow_is_attacked_without_its_pair() -> None:
    """Scores of a pair as targets read neither its coins nor what its models say of others."""
    rng = np.random.default_rng(2)
    plan = drawn_design(40, 8)
    unit, none = np.arange(40), np.empty((8, 0))
    phi = rng.normal(size=(8, 40)) + plan.shadows

    def scores(coins: Any, shadows: FloatArray) -> Trials:
        design = Design(coins, plan.targets)
        evidence = Evidence(design, unit, unit, shadows, phi[:1] + 9.0, none, none[:1])
        return pooled_trials(evidence, "lira", "record")

    told = scores(plan.shadows, phi)
    assert (told.targets, told.clusters) == (8, 4)
    assert (told.members == plan.shadows).all()
    other = plan.shadows.copy()
    other[2:4] = ~other[2:4]
    flipped = scores(other, phi)
    assert (flipped.scores[2:4] == told.scores[2:4]).all()
    assert (flipped.scores[:2] != told.scores[:2]).any()


# --- coins and folders ----------------------------------------------------------------------------


def test_coins_of_the_target_are_told_by_no_shadow() -> None:
    plan = drawn_design(4000, 16)
    assert set(plan.shadows.sum(0)) == {8}
    both = plan.inside
    agreeing = (both[:-1] == both[-1]).sum(1)
    assert np.abs(agreeing - 2000).max() < 7 * np.sqrt(1000)  # 1e-10 by chance
    assert abs(int(plan.targets.sum()) - 2000) < 7 * np.sqrt(1000)
    firsts = plan.shadows[::2]
    across = [(firsts[a] == firsts[b]).sum() for a in range(8) for b in range(a)]
    assert np.abs(np.array(across) - 2000).max() < 7 * np.sqrt(1000)
    assert (drawn_design(4000, 16).inside != both).any()
    seeds = drawn_seeds(16)
    assert seeds[:-1:2] == seeds[1:-1:2]
    assert len(set(seeds)) == 9


def test_the_folder_holds_no_record_and_nobody_else_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    audit = audited(folder, public=True, population=table(30, seed=44))
    for path in (folder, *folder.rglob("*")):
        rights = stat.S_IMODE(path.stat().st_mode)
        assert rights == (0o700 if path.is_dir() else 0o600), path
    log = (folder / AUDIT_LOG).read_text()
    coins = read_audit(folder).facts.to_items()["coins"]["bits"]  # type: ignore[index]
    assert coins not in log
    assert coins in (folder / "sealed.jsonl").read_text()
    kept = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for row in table()[0]:
        assert row.tobytes() not in kept
        assert repr(float(row[0])).encode() not in kept
    assert not (folder / LOG).exists()
    assert audit.to_json()["head"] == read_lines(folder)[0][-1].hash


@pytest.mark.usefixtures("same_coins")
def test_serial_and_in_processes_results_are_equal(tmp_path: Path) -> None:
    told: list[TrainingProgress] = []
    serial = audited(tmp_path / "a", progress=told.append)
    processes = audited(tmp_path / "b", processes=2)
    assert serial.results.to_json() == processes.results.to_json()
    assert (told[0].finished, told[-1].finished, told[0].seconds_left) == (0, 13, None)
    assert told[0].plan_head == serial.plan_head


KILLED = """
import os, signal, sys
from pathlib import Path
from privplan.tests.audit.test_model_audit import audited, overfitted
trained = []
def train(indices, seed):
    trained.append(seed)
    if len(trained) == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return overfitted()(indices, seed)
audited(Path(sys.argv[1]), train)
"""


def test_an_audit_that_was_killed_goes_on_with_its_coins(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False)
    assert ended.returncode == -signal.SIGKILL
    plan = read_lines(folder)[0][0].hash
    seen: list[Any] = []

    def train(indices: IntArray, seed: int) -> Any:
        seen.append((tuple(indices), seed))
        return overfitted()(indices, seed)

    audit = audited(folder, train)
    assert (len(seen), audit.plan_head) == (8, plan)
    facts = read_audit(folder, expected_head=plan).facts
    assert seen == [(tuple(facts.indices(model)), facts.seeds[model]) for model in range(5, 13)]
    assert "audit.resume" in {line.kind for line in read_lines(folder)[0]}
    again = audited(folder, train)  # a result that stands is not made a second time
    assert len(seen) == 8
    assert again.results.to_json() == audit.results.to_json()


def test_a_training_that_fails_keeps_its_coins_and_its_seed(tmp_path: Path) -> None:
    folder, seen = tmp_path / "a", []

    def failing(indices: IntArray, seed: int) -> Any:
        seen.append((tuple(indices), seed))
        if len(seen) == 4:
            raise ValueError("forty-two patients")
        return overfitted()(indices, seed)

    with pytest.raises(PrivplanError, match="model 3 failed: ValueError") as raised:
        audited(folder, failing)
    assert "forty" not in str(raised.value)
    audited(folder, failing)
    assert seen[3] == seen[4]
    assert (read_audit(folder).failures, read_audit(folder).resumed) == (1, 1)
    assert "forty" not in (folder / AUDIT_LOG).read_text()


CHANGED: dict[str, Any] = {
    "data": (("data", (table()[0] + 1.0, table()[1])), "other data"),
    "guesses": (("guesses", 31), "another `guesses`"),
    "attacks": (("attacks", ["loss"]), "another `attacks`"),
    "shadows": (("shadows", 14), "another `shadows`"),
}


@for_each("changed, why", list(CHANGED.values()), ids=list(CHANGED))
def test_an_audit_goes_on_as_it_began(tmp_path: Path, changed: tuple[str, Any], why: str) -> None:
    audited(tmp_path / "a")
    with pytest.raises(InvalidInput, match=why):
        audited(tmp_path / "a", **dict([changed]))


def test_users_that_are_others_are_no_going_on(tmp_path: Path) -> None:
    folder, user = tmp_path / "a", np.arange(RECORDS) // 3
    audited(folder, user=user, guesses=15)
    with pytest.raises(InvalidInput, match="other `user`"):
        audited(folder, user=np.arange(RECORDS) % (RECORDS // 3), guesses=15)


@for_each(
    "one, other",
    [
        (csr_matrix(np.eye(4)), csr_matrix(2.0 * np.eye(4))),
        (csr_matrix(np.eye(4)), csr_matrix(np.eye(4)[::-1])),
        (["a", "b", "c", "d"], ["a", "b", "c", "e"]),
        ([[1], [2, 3], [4], [5]], [[1], [2, 3], [4], [6]]),
        ([{"age": 1}] * 4, [{"age": 2}] * 4),
    ],
)
def test_features_of_every_form_stand_in_the_digest(one: Any, other: Any) -> None:
    labels = np.arange(4)
    assert AuditedRecords(one, labels).digest() == AuditedRecords(copy(one), labels).digest()
    assert AuditedRecords(one, labels).digest() != AuditedRecords(other, labels).digest()


# --- who reads it ---------------------------------------------------------------------------------


def rewritten(folder: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Write the whole chain anew, with changed records."""
    lines = [dict(line.record) for line in read_lines(folder)[0]]
    change(lines)
    prev, text = "0" * 64, ""
    for seq, record in enumerate(lines):
        line, prev = chained(record, seq, prev)
        text += line + "\n"
    (folder / AUDIT_LOG).write_text(text)


def test_an_edited_folder_is_contradicted(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    audit = audited(folder, public=True)
    kept = read_audit(folder, expected_head=audit.plan_head)
    assert kept.anchor == 1
    assert kept.results is not None
    assert kept.results.to_json() == audit.results.to_json()
    whole = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def refused(match: str, **more: Any) -> None:
        with pytest.raises(InvalidInput, match=match):
            read_audit(folder, **more)
        for path, content in whole.items():
            path.write_bytes(content)

    log = folder / AUDIT_LOG
    log.write_bytes(whole[log].replace(b'"delta":1e-05', b'"delta":1e-06', 1))
    refused("line was edited")
    scores = score_file(folder, 3)
    changed = np.load(scores)
    changed[0] += 1.0
    np.save(scores, changed)
    refused("was changed since")

    def better(lines: list[dict[str, Any]]) -> None:
        lines[-1]["result"]["target"]["attacks"][0]["epsilon"]["lower"] = 0.0

    rewritten(folder, better)
    refused("not what coins and scores give")
    rewritten(folder, lambda lines: lines[0].update(guesses=20))
    refused("not what coins and scores give")
    rewritten(folder, lambda lines: lines[0].update(claimed=7.0))
    refused("No line has the expected head", expected_head=audit.plan_head)
    rewritten(folder, lambda lines: lines.pop(4))
    refused("not all models were trained")
    rewritten(folder, lambda lines: lines.insert(4, lines.pop(5)))
    refused("seals as `model.4` is not in")
    sealed = folder / "sealed.jsonl"
    sealed.write_bytes(whole[sealed].replace(b'"seeds"', b'"coins"', 1))
    refused("does not fit its commitment")


def test_scores_that_were_exchanged_before_the_result_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    audited(folder)
    log = folder / AUDIT_LOG
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    score_file(folder, 12).write_bytes(score_file(folder, 3).read_bytes())
    with pytest.raises(InvalidInput, match="was changed since the log committed to it"):
        audited(folder)


def test_a_chain_that_is_written_anew_with_other_coins_has_another_head(tmp_path: Path) -> None:
    """A chain binds nobody who can write all of it; the plan's head does, and it is said."""
    audit = audited(tmp_path / "a")
    other = audited(tmp_path / "b")
    assert read_audit(tmp_path / "b").checked == "chain only"
    with pytest.raises(InvalidInput, match="No line has the expected head"):
        read_audit(tmp_path / "b", expected_head=audit.plan_head)
    assert read_audit(tmp_path / "b", expected_head=other.plan_head).checked == "chain and head"


def npy(header: str) -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


HOSTILE_SCORES: dict[str, bytes] = {
    "an archive": b"PK\x03\x04",
    "a broken header": b"\x93NUMPY\x01\x00\x09\x00{'descr':",
    "too large": npy(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({2**50},), }}"),
    "objects": npy("{'descr': '|O', 'fortran_order': False, 'shape': (80,), }") + b"cos\nsystem\n",
    "nothing": b"",
}


@for_each("content", list(HOSTILE_SCORES.values()), ids=list(HOSTILE_SCORES))
def test_files_that_are_no_scores_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "scores").mkdir()
    score_file(tmp_path, 0).write_bytes(content)
    with pytest.raises(InvalidInput, match="cannot be read as scores"):
        read_scores_of(score_file(tmp_path, 0), RECORDS)


def test_a_folder_of_scores_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    audited(tmp_path / "a")
    (tmp_path / "a" / "scores").rename(tmp_path / "elsewhere")
    (tmp_path / "a" / "scores").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidInput, match="cannot be read as scores"):
        read_audit(tmp_path / "a")
    with pytest.raises(InvalidInput, match="is a link"):
        audited(tmp_path / "a")


def test_units_that_are_no_numbers_of_units_are_refused() -> None:
    design = drawn_design(4, 6)
    facts = AuditFacts(design, drawn_seeds(6), np.arange(4), 0, "d", None, None)
    items = facts.to_items()
    for unit in ([-1, 1, 2, 3], [10**30, 1, 2, 3], [0, 1, 2, 5], [[0, 1], [2, 3]], ["a"] * 4):
        changed = {**items, "facts": {**items["facts"], "unit": unit}}
        with pytest.raises(InvalidInput, match="does not fit its plan"):
            AuditFacts.from_items(changed)


def test_one_process_writes_a_folder(tmp_path: Path) -> None:
    audited(tmp_path / "a")
    with AuditChain.open(tmp_path / "a"), pytest.raises(InvalidInput, match="another process"):
        audited(tmp_path / "a")


def test_what_is_sealed_afterwards_opens_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    audited(folder)
    lines, commitments = sealed_lines({"result": {}}, 99)
    with (folder / "sealed.jsonl").open("ab") as file:
        file.write(lines)
    rewritten(folder, lambda records: records[-1].update(sealed=commitments))
    with pytest.raises(InvalidInput, match="before the line was written"):
        read_audit(folder)


# --- what is refused ------------------------------------------------------------------------------


def constant(*_: Any) -> Any:
    return lambda _, labels: np.zeros(len(labels))


def broken(indices: IntArray, _: int) -> Any:
    return lambda _, labels: np.where(labels == 1, np.nan, indices.sum())


def short(*_: Any) -> Any:
    return lambda *_: np.arange(5.0)


def deaf(_: IntArray, seed: int) -> Any:
    x, y = table()
    width = 0.5 + np.random.default_rng(seed).random()
    return Memory(x[:80], y[:80], width)


def silent(*_: Any) -> Any:
    return object()


class Unlikely:
    def predict_proba(self, features: FloatArray) -> FloatArray:
        return np.full((len(features), 2), 0.7)


UNFIT_TRAININGS: dict[str, Any] = {
    "constant": (constant, "model 0 of `train` are all equal"),
    "NaN": (broken, "model 0 of `train` hold NaN"),
    "another shape": (short, r"model 0 of `train` must be of shape \(160,\)"),
    "ignores its indices": (deaf, "`train` ignores its indices: models 0 and 1"),
    "no scores": (silent, "says nothing of records"),
    "no probabilities": (lambda *_: Unlikely(), "are no probabilities"),
}


@for_each("train, why", list(UNFIT_TRAININGS.values()), ids=list(UNFIT_TRAININGS))
def test_trainings_that_cannot_be_audited(tmp_path: Path, train: Any, why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        audited(tmp_path / "a", train)
    assert "audit.result" not in (tmp_path / "a" / AUDIT_LOG).read_text()


BAD_INPUT: dict[str, Any] = {
    "listed twice": ({"members": [1, 2, 2]}, "lists a record twice"),
    "all": ({"members": np.arange(RECORDS)}, "leaves no non-members"),
    "nobody": ({"members": np.zeros(RECORDS, bool)}, "leaves no members"),
    "missing": ({}, "`members` must be 160 booleans"),
    "elsewhere": ({"members": [RECORDS]}, r"`members` must be in \[0, 159\]"),
    "half a user": ({"members": [0], "user": np.arange(RECORDS) // 2}, "and not all"),
    "without a model": ({"members": [1], "model": None}, "`members` is given, and no model"),
    "few shadows": ({"members": [1], "shadows": 4}, "`shadows` must be an even number"),
    "odd shadows": ({"members": [1], "shadows": 9}, "`shadows` must be an even number"),
    "many guesses": ({"members": [1], "guesses": 161}, "at most the number of units"),
    "few units": ({"members": [1], "user": np.zeros(RECORDS, int)}, "20 are the fewest"),
    "no population": ({"members": [1], "attacks": ["rmia"]}, "rmia needs `population`"),
    "shared": ({"members": [1], "population": table(30)}, "holds 30 records of `data`"),
    "twice": ({"members": [1], "attacks": ["lira", "lira"]}, "one of them twice"),
    "rows": ({"members": [1], "data": (np.zeros((5, 2)), np.zeros(6))}, "same records"),
}


@for_each("more, why", list(BAD_INPUT.values()), ids=list(BAD_INPUT))
def test_bad_input_is_refused_before_anything_is_written(
    tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    x, y = table()
    with pytest.raises(InvalidInput, match=why):
        audited(tmp_path / "a", **{"model": Memory(x, y, 1.0), **more})
    assert not (tmp_path / "a").exists()


def test_an_audit_that_was_cut_off_before_its_plan_begins_anew(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / AUDIT_LOG).touch()
    (folder / "sealed.jsonl").touch()
    with pytest.raises(InvalidInput, match="before its plan was written"):
        audited(folder)


# --- what a model says ----------------------------------------------------------------------------


class Known:
    def __init__(self, probabilities: Any, classes: Any) -> None:
        self.probabilities, self.classes_ = np.asarray(probabilities), np.asarray(classes)

    def predict_proba(self, features: FloatArray) -> Any:
        return self.probabilities


def test_phi_is_the_logit_of_the_label() -> None:
    records = AuditedRecords(np.zeros((3, 1)), np.array(["b", "a", "c"]))
    model = Known([[0.2, 0.8], [0.5, 0.5], [0.1, 0.9]], ["a", "b"])
    # A class that the training data did not have: less than the least probability.
    expected = [np.log(4.0), 0.0, np.log(0.05)]
    np.testing.assert_allclose(records.phi(model, "m"), expected, atol=1e-12)


def test_a_network_of_torch_is_asked_without_dropout() -> None:
    torch = pytest.importorskip("torch")
    network = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.5))
    x, y = table()
    records = AuditedRecords(x, y)
    phi = records.phi(network, "m")
    assert network.training
    with torch.no_grad():
        chances = torch.softmax(network[0](torch.tensor(x, dtype=torch.float32)), 1).double()
    true = chances[torch.arange(RECORDS), torch.tensor(y)].numpy()
    np.testing.assert_allclose(phi, np.log(true / (1 - true)), atol=1e-5)


def test_augmentations_are_further_queries() -> None:
    x, y = table()
    queries = (lambda features: -features, lambda features: 2 * features)
    model = Memory(x[:80], y[:80], 0.5)
    alone = [AuditedRecords(each, y).phi(model, "m") for each in (x, -x, 2 * x)]
    together = AuditedRecords(x, y, queries).phi(model, "m")
    np.testing.assert_allclose(together, np.mean(alone, axis=0))


def test_json_of_an_audit_can_be_written(tmp_path: Path) -> None:
    audit = audited(tmp_path / "a")
    assert json.loads(json.dumps(audit.to_json()))["plan"]["shadows"] == 12
    assert os.listdir(tmp_path) == ["a"]  # noqa: PTH208
