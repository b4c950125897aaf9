"""Combinations of pieces, audited: no finding accuses an honest run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from privplan.accountant.mechanisms import NoisyGram
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.fl.log import read
from privplan.fl.running.run_and_resume import resume, run

from ...cases import for_each
from .schemes import described

SOME = [
    ("wishart", "fresh", "printed", "layers", "delm-basic"),
    ("wishart", "fresh", "proven", "none", "delm-basic"),
    ("wishart", "once", "printed", "layers", "delm-enhanced"),
    ("gaussian", "fresh", "printed", "layers", "delm-basic"),
    ("gaussian", "fresh", "proven", "layers", "delm-enhanced"),
    ("gaussian", "once", "proven", "none", "delm-enhanced"),
    ("none", "fresh", "printed", "none", "delm-enhanced"),
    ("none", "once", "proven", "layers", "delm-basic"),
]
"""Of 48 combinations, some that hold every pair of pieces, with the usual one and its sound one."""


def of_pieces(system: str, keys: dict[str, Any], **tables: Any) -> dict[str, dict[str, Any]]:
    """Return a run; a sound one for the printed sensitivity claims what its noise proves."""
    printed = keys["sensitivity"] == "printed" and keys["pca"] != "wishart"
    privacy = {"epsilon": 8.0 if printed else 1.0, **tables.pop("privacy", {})}
    components = {} if keys["pca"] == "none" else {"components": 12}
    return described(system, delm={**keys, **components}, privacy=privacy, **tables)


@for_each("pca, objective, sensitivity, shuffle, system", SOME)
def test_an_honest_run_is_audited_without_an_accusation(
    pca: str, objective: str, sensitivity: str, shuffle: str, system: str, tmp_path: Path
) -> None:
    keys = {"pca": pca, "objective": objective, "sensitivity": sensitivity, "shuffle": shuffle}
    outcome = run(of_pieces(system, keys), tmp_path / "run")
    report = audit_budget(tmp_path / "run")
    # What is found of a run for its PCA, and of nothing else.
    assert set(report.errors) == ({"wishart-noise"} if pca == "wishart" else set())
    assert report.not_stated == ()
    upper = outcome.guarantees["server"].epsilon.upper
    assert math.isinf(upper) == (pca == "wishart")
    assert report.total.upper == pytest.approx(upper, rel=1e-6)
    assert report.claim is not None
    assert report.claim.epsilon == outcome.prepared.opening.claim.epsilon
    assert edits_of(tmp_path / "run") == ()


@for_each(
    "neighbours, selection",
    [("add-remove", "divergence"), ("replace-one", "uniform"), ("replace-one", "top-k")],
)
def test_every_choice_and_relation_is_audited_alike(
    neighbours: str, selection: str, tmp_path: Path
) -> None:
    keys = {"sensitivity": "proven", "pca": "gaussian", "selection": selection, "selected": 2}
    tables = described("delm-enhanced", delm=keys, privacy={"neighbours": neighbours})
    outcome = run(tables, tmp_path / "run")
    report = audit_budget(tmp_path / "run")
    assert report.errors == ()
    assert report.total.upper == pytest.approx(outcome.guarantees["server"].epsilon.upper, rel=1e-6)


def test_half_the_noise_is_found(tmp_path: Path) -> None:
    """In what is sealed of every client's noise; the log of such a run is without a finding.

    A false alarm in 2,500, for the noise is seeded; it is the level of the verdict.
    """
    honest = NoisyGram._noise_of_share

    def halved(self: NoisyGram, stream: Any) -> Any:
        return honest(self, stream) // 2

    with mock.patch.object(NoisyGram, "_noise_of_share", halved):
        run(described(delm={"sensitivity": "proven"}, run={"seed": 1}), tmp_path / "half")
    run(described(delm={"sensitivity": "proven"}, run={"seed": 1}), tmp_path / "whole")
    verdicts = {
        name: {
            m.verdict
            for m in attack(tmp_path / name, AttackRequest(tiers=("residual",))).measurements
        }
        for name in ("half", "whole")
    }
    assert "contradicted" in verdicts["half"]
    assert "contradicted" not in verdicts["whole"]


def test_a_run_that_was_cut_off_goes_on_to_the_same_model(tmp_path: Path) -> None:
    """What was kept fits the log: the PCA that was released, the model, and the last gradient."""
    keys = {"sensitivity": "proven", "pca": "gaussian", "components": 5}
    kill_after(described("delm-enhanced", delm=keys), tmp_path / "run", rounds=2)
    outcome = resume(tmp_path / "run")
    assert outcome.result.rounds == 3
    report = audit_budget(tmp_path / "run")
    assert report.errors == ()
    assert report.total.upper <= 1.0


def test_a_release_that_serves_all_steps_is_not_made_twice(tmp_path: Path) -> None:
    keys = {"sensitivity": "proven", "objective": "once"}
    folder = tmp_path / "run"
    kill_after(described(delm=keys), folder, rounds=1)
    outcome = resume(folder)
    assert outcome.result.rounds == 1
    assert audit_budget(folder).errors == ()


class Killed(BaseException):
    """A process that is gone."""


def kill_after(tables: dict[str, Any], folder: Path, *, rounds: int) -> None:
    """Begin a run, and stop it after so many rounds, before it can say so."""
    from privplan.fl.running import session

    honest = session._Execution._keep

    def keeps(self: Any, number: int, moved: Any) -> None:
        honest(self, number, moved)
        if number == rounds:
            raise Killed

    with mock.patch.object(session._Execution, "_keep", keeps), pytest.raises(Killed):
        run(tables, folder)


@for_each("pca, data", [("gaussian", "breast-cancer"), ("wishart", "digits")])
def test_canaries_of_the_pca_contradict_the_published_one_alone(
    pca: str, data: str, tmp_path: Path
) -> None:
    keys = {"sensitivity": "proven", "pca": pca, "components": 8}
    model = {"model": "softmax"} if data == "digits" else {}
    run(described(delm=keys, data={"name": data}, training=model), tmp_path / "run")
    asked = AttackRequest(tiers=("robust",), canaries=400, seed=3)
    verdicts = {each.verdict for each in attack(tmp_path / "run", asked).measurements}
    assert ("contradicted" in verdicts) == (pca == "wishart")


def test_rounds_without_a_pca_say_how_to_be_attacked(tmp_path: Path) -> None:
    from privplan.accountant.errors import Unsupported

    run(described(delm={"sensitivity": "proven"}), tmp_path / "run")
    with pytest.raises(Unsupported, match="not rehearsed with canaries") as refused:
        attack(tmp_path / "run", AttackRequest(tiers=("claim",)))
    assert "delm-linear" in str(refused.value)


def test_a_log_states_the_last_gradient_by_its_digest_where_clients_are_compared(
    tmp_path: Path,
) -> None:
    for selection, kept in (("divergence", True), ("top-k", True), ("uniform", False)):
        keys = {"sensitivity": "proven", "selection": selection}
        run(described("delm-enhanced", delm=keys), tmp_path / selection)
        lines = [line.record for line in read(tmp_path / selection)]
        releases = [record for record in lines if record.type == "round.release"]
        assert all((each.state_out is not None) == kept for each in releases)  # type: ignore[attr-defined]


def test_membership_of_records_on_released_components_is_refused(tmp_path: Path) -> None:
    """What a PCA released is of one run: no replica has the same components."""
    from privplan.accountant.errors import Unsupported
    from privplan.audit.attack_methods.membership.tier import released_tier
    from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint

    keys = {"sensitivity": "proven", "pca": "gaussian", "components": 5}
    outcome = run(described(delm=keys), tmp_path / "run")
    assert outcome.prepared.model.features == 5
    checkpoint = Checkpoint.read(tmp_path / "run" / MODEL_FILE)
    with pytest.raises(Unsupported, match="5 features, and the records have 30"):
        released_tier(outcome.prepared.settings, checkpoint)
