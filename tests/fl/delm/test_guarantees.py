"""What runs of DELM's schemes promise: sound ones a number that is derived, published ones none."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.sensitivity.gram import GramBound
from privplan.audit.budget import audit_budget
from privplan.fl.delm.terms import BASIC, ENHANCED
from privplan.fl.frame.expected_log import ExpectedLog
from privplan.fl.log import read
from privplan.fl.running.run_and_resume import run

from ...cases import for_each
from .schemes import built, described, federation

PROVEN = {"sensitivity": "proven"}


def l1_of_a_record(features: int, classes: int) -> float:
    """Return how far one record moves G and S: (d + 1)/2 + 2 (1 - 1/c) sqrt(d), with intercept."""
    d = features + 1
    return (d + 1) / 2 + 2 * (1 - 1 / classes) * math.sqrt(d)


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each("objective", ["fresh", "once"])
def test_a_proven_part_of_the_training_is_a_pure_epsilon(objective: str, neighbours: str) -> None:
    keys = {**PROVEN, "objective": objective, "training_epsilon": 0.2}
    system = built(federation(), delm=keys, privacy={"neighbours": neighbours})
    event = system.promise.event
    assert isinstance(event, ev.Laplace)
    whole = ev.Repeat(3 if objective == "fresh" else 1, event)
    pure = pp.account(event, delta=1e-12, neighbours=neighbours)
    assert pure.epsilon.upper <= 0.2 * (1 + 1e-9)
    assert pure.epsilon.upper >= 0.2 * (1 - 1e-6)
    proven = system.promise.plan.guarantees["server"].epsilon.upper
    assert proven == pp.account(whole, delta=1e-5, neighbours=neighbours).epsilon.upper
    assert proven <= (0.6 if objective == "fresh" else 0.2) * (1 + 1e-9)


@for_each("neighbours", ["add-remove", "replace-one"])
@for_each(("model", "classes"), [("softmax", 3), ("logistic", 2)])
def test_the_printed_noise_has_the_event_of_what_a_record_moves(
    model: str, classes: int, neighbours: str
) -> None:
    """Independent of the mechanism: printed Delta / epsilon2 over the true sensitivity."""
    keys = {"training_epsilon": 0.3}
    data = federation(classes=classes)
    system = built(data, model=model, delm=keys, privacy={"neighbours": neighbours, "epsilon": 4.0})
    d = 6
    printed = d + d * d / 4 if model == "logistic" else 2 * d + classes * d * d
    event = system.promise.event
    assert isinstance(event, ev.Laplace)
    expected = printed / 0.3 / l1_of_a_record(d, classes)
    assert event.noise_multiplier == pytest.approx(expected, rel=1e-6)
    bound = GramBound(dimension=d + 1, classes=classes)
    assert bound.l1("add-remove") == pytest.approx(l1_of_a_record(d, classes))
    # What is stated follows from the noise that is drawn, and never from the printed number.
    mechanism = system.mechanism(system.promise.noise_multiplier)
    true = mechanism.event(neighbours)
    assert isinstance(true, ev.Laplace)
    assert event.noise_multiplier <= true.noise_multiplier * (1 + 1e-12)
    assert mechanism.noise().std >= printed / 0.3 * (1 - 1e-9)


@for_each(
    "system, pca, objective",
    [
        ("delm-basic", "none", "fresh"),
        ("delm-basic", "gaussian", "once"),
        ("delm-enhanced", "none", "once"),
        ("delm-enhanced", "gaussian", "fresh"),
    ],
)
def test_noise_is_found_for_the_claim(
    objective: str, pca: str, system: str, tmp_path: Path
) -> None:
    keys = {**PROVEN, "objective": objective, "pca": pca}
    outcome = run(described(system, delm=keys), tmp_path / "run")
    claim = outcome.prepared.opening.claim
    assert (claim.epsilon, claim.observer, claim.unit) == (1.0, "server", "record")
    upper = outcome.guarantees["server"].epsilon.upper
    assert 0.99 <= upper <= 1.0
    # The plan, composed anew from what each phase states.
    events = [
        ev.Repeat(phase.rounds, phase.views["server"]) for phase in outcome.prepared.plan.phases
    ]
    assert len(events) == (1 if pca == "none" else 2)
    assert pp.account(ev.Compose(tuple(events)), delta=1e-5).epsilon.upper <= upper * (1 + 1e-9)
    report = audit_budget(tmp_path / "run")
    assert report.ok
    assert report.errors == ()
    assert report.total.upper == pytest.approx(upper, rel=1e-6)
    assert not outcome.prepared.opening.as_published


def test_the_pca_alone_breaks_a_run_whose_rounds_are_sound(tmp_path: Path) -> None:
    outcome = run(described(delm={**PROVEN, "pca": "wishart"}), tmp_path / "run")
    opening = outcome.prepared.opening
    assert opening.as_published
    assert opening.claim.epsilon == 1.0
    intents = [line.record for line in read(tmp_path / "run")]
    events = [each.event for each in intents if each.type == "round.intent"]  # type: ignore[attr-defined]
    assert isinstance(events[0], ev.NoGuarantee)
    assert "Wishart" in events[0].reason
    assert all(isinstance(event, ev.Laplace) for event in events[1:])
    assert math.isinf(outcome.guarantees["server"].epsilon.upper)
    report = audit_budget(tmp_path / "run")
    assert math.isinf(report.total.upper)
    hazards = {hazard.id: hazard for hazard in report.hazards}
    assert {"as-published", "wishart-noise"} <= hazards.keys()
    assert report.errors == ("wishart-noise",)
    assert any(
        "PCA proves nothing" in said for note in outcome.prepared.notes for said in note.sentences
    )


@for_each("system, model", [("delm-basic", "mlp-64"), ("delm-enhanced", "cnn")])
def test_rounds_of_other_models_state_no_guarantee(model: str, system: str, tmp_path: Path) -> None:
    data = {"name": "digits" if model == "cnn" else "breast-cancer"}
    tables = described(system, data=data, training={"model": model}, run={"rounds": 1})
    outcome = run(tables, tmp_path / "run")
    assert outcome.prepared.opening.as_published
    assert math.isinf(outcome.guarantees["server"].epsilon.upper)
    intents = [line.record for line in read(tmp_path / "run") if line.record.type == "round.intent"]
    for intent in intents:
        for event in (intent.event, *intent.views.values()):  # type: ignore[attr-defined]
            assert isinstance(event, ev.NoGuarantee)
            assert ("weights" if model == "mlp-64" else "convolution") in event.reason
    report = audit_budget(tmp_path / "run")
    ids = {hazard.id for hazard in report.hazards}
    assert set(report.errors) == {"private-bound", "clip-not-enforced"}
    assert "as-published" in ids
    assert math.isinf(report.total.upper)


def test_a_shuffler_is_credited_with_nothing(tmp_path: Path) -> None:
    spent = {}
    for shuffle in ("layers", "none"):
        keys = {**PROVEN, "shuffle": shuffle, "training_epsilon": 0.3}
        folder = tmp_path / shuffle
        outcome = run(described(delm=keys), folder)
        spent[shuffle] = outcome.guarantees["server"].epsilon.upper
        names = [note.name for note in outcome.prepared.notes]
        assert ("shuffle" in names) == (shuffle == "layers")
        assert ("shuffler" in outcome.guarantees) == (shuffle == "layers")
        intent = next(r for r in (x.record for x in read(folder)) if r.type == "round.intent")
        assert intent.reaches["server"].sees == "each"  # type: ignore[attr-defined]
    assert spent["layers"] == spent["none"]


@for_each("selection", ["divergence", "uniform", "top-k"])
def test_a_choice_of_noisy_messages_costs_nothing(selection: str) -> None:
    keys = {**PROVEN, "training_epsilon": 0.3, "selection": selection, "selected": 2}
    if selection == "divergence":
        keys["selection_epsilon"] = 100.0
    events = {
        built(federation(), system, delm=keys_of_system).promise.event
        for system, keys_of_system in (
            ("delm-enhanced", keys),
            ("delm-basic", {**PROVEN, "training_epsilon": 0.3}),
        )
    }
    assert len(events) == 1


def test_the_factor_of_layers_is_in_the_claim_and_in_nothing_else() -> None:
    """Three layers have no third of the noise: only the number that is claimed is divided."""
    assert isinstance(BASIC, ExpectedLog)
    assert isinstance(ENHANCED, ExpectedLog)
    system: Any = built(federation(), model="mlp-64", privacy={"epsilon": 1.0})
    assert len(system.layers) == 2
    parts = system.parts_of_epsilon
    assert (parts.pca, parts.training) == (0.0, 2.0)
    assert system.promise.claim.epsilon == 1.0
    scale = Fraction(system.mechanism(1.0).scale)
    assert float(scale) == pytest.approx((2 * 6 + 3 * 36) / 2.0)


@for_each("model", ["logistic", "mlp-64"])
@for_each("pca", ["wishart", "gaussian"])
def test_whoever_sees_one_phase_sees_the_other(pca: str, model: str, tmp_path: Path) -> None:
    """A coalition that is counted in one release alone would have too small a number."""
    keys = {"pca": pca, "sensitivity": "proven" if model == "logistic" else "printed"}
    tables = described(
        delm=keys,
        training={"model": model},
        privacy={"observers": ["model", "server", "server+2"]},
        run={"rounds": 1},
    )
    outcome = run(tables, tmp_path / "run")
    first, rounds = outcome.prepared.plan.phases
    assert first.views.keys() == rounds.views.keys()
    assert "server+2" in rounds.views
    sound = pca == "gaussian" and model == "logistic"
    assert all(math.isfinite(g.epsilon.upper) == sound for g in outcome.guarantees.values())
    ids = set(audit_budget(tmp_path / "run").errors)
    assert ids <= {"wishart-noise", "private-bound", "clip-not-enforced"}
    assert bool(ids) != sound
