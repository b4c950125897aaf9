"""Runs with a PCA step: their logs, their attacks, and runs that are killed at every write."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import NoisyGram
from privplan.accountant.sensitivity.wishart import failure
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.verify import verify
from privplan.fl.delm.pca import DIRECTIONS, RELEASED, leading_directions, mean_matrix
from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint

from ..cli.killing import attempt, left_by_kills
from ..packages import toys
from .pca_runs import COMPONENTS, FEATURES, SILOS, configured
from .small_runs import of

KINDS = ("wishart", "gaussian")


@pytest.fixture(scope="module", autouse=True)
def toy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with toys.installed("toy_pca", tmp_path_factory.mktemp("packages") / "site"):
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, toy: None) -> dict[str, Path]:  # noqa: ARG001
    """Return the folders of whole runs, by the noise of their PCA step."""
    place = tmp_path_factory.mktemp("runs")
    for kind in KINDS:
        pp.run(configured(place, kind), place / kind)
    return {kind: place / kind for kind in KINDS}


def errors(folder: Path) -> set[str]:
    return {one.id for one in audit_budget(folder).hazards if one.severity == "error"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_run(kind: str, made: dict[str, Path]) -> None:
    folder = made[kind]
    assert verify(folder).complete
    assert edits_of(folder) == ()
    intents, releases = of(folder, records.RoundIntent), of(folder, records.RoundRelease)
    assert [one.round for one in intents] == [0, 1, 2]
    assert [one.phase for one in intents] == ["pca", "release", "release"]
    assert intents[0].noise.family == kind
    assert releases[0].model_out is None
    kept = Checkpoint.read(folder / MODEL_FILE)
    matrix = mean_matrix(kept.state[RELEASED], FEATURES, SILOS)
    assert (kept.state[DIRECTIONS] == leading_directions(matrix, COMPONENTS)).all()


def test_wishart_noise_supports_no_number_and_gaussian_noise_the_claim(
    made: dict[str, Path],
) -> None:
    folder = made["wishart"]
    report = audit_budget(folder)
    assert report.total.upper == np.inf
    assert {row.observer for row in report.rows} >= {"model", "server", "silo"}
    assert {row.total.upper for row in report.rows} == {np.inf}
    (hazard,) = [one for one in report.hazards if one.id == "wishart-noise"]
    assert hazard.lines == (2,)
    assert f"{failure(0.6):.3f}" in hazard.says
    assert "Gaussian" in hazard.next_step
    assert errors(folder) == {"wishart-noise", "seeded"}
    other = {one.id for one in report.hazards} - errors(folder)
    assert other == {"as-published", "delta-not-compared"}
    report = audit_budget(made["gaussian"])
    assert errors(made["gaussian"]) == {"seeded"}
    stated = [row for row in report.rows if row.stated is not None]
    assert {row.observer for row in stated} == {"model", "server", "silo"}
    for row in stated:
        assert row.total.upper == pytest.approx(row.stated, rel=1e-9)
    server = next(row for row in report.rows if row.observer == "server")
    assert server.total.upper > 0.6  # the PCA step alone is worth .6 before the server


@pytest.mark.parametrize("kind", KINDS)
def test_the_residual_tier_judges_what_has_a_law(kind: str, made: dict[str, Path]) -> None:
    report = attack(made[kind], AttackRequest(tiers=("residual",)), append=False)
    # Contradicted are at most 4 in 10,000 sound runs, and unusual 1 in 20: so are some seeds.
    assert all(one.verdict != "contradicted" for one in report.measurements)
    (tested,) = {one.sample["rounds tested"] for one in report.measurements}
    assert tested == (2 if kind == "wishart" else 3)


def test_the_support_test_contradicts_a_run_with_wishart_noise(made: dict[str, Path]) -> None:
    request = AttackRequest(tiers=("claim", "robust"), observer="server", canaries=900, seed=1)
    report = attack(made["wishart"], request, append=False)
    claim, robust = report.measurements
    for one in (claim, robust):
        assert one.verdict == "contradicted"
        assert one.kind == "lower-bound"
        assert one.claimed == pytest.approx(0.6, abs=1e-4)
        assert one.value > 3.0  # and more canaries would show more: there is no bound
        assert one.level is not None
        assert one.level < 1e-3
        assert any("negative eigenvalue" in text for text in one.assumes)
    assert claim.sample["misses"] == 0
    assert robust.sample["right"] == robust.sample["guesses"]
    assert any("one phase of several" in text for text in report.warnings)


@pytest.mark.slow
def test_and_no_run_with_gaussian_noise(made: dict[str, Path]) -> None:
    request = AttackRequest(tiers=("claim", "robust"), observer="server", canaries=900, seed=1)
    report = attack(made["gaussian"], request, append=False)
    assert [one.verdict for one in report.measurements] == ["not-contradicted"] * 2
    assert max(one.value for one in report.measurements) < 0.6


def test_half_of_the_stated_noise_is_contradicted(tmp_path: Path) -> None:
    """By what is sealed of it: the same run, whose mechanism draws half of what it states."""
    honest = NoisyGram._noise_of_share

    def halved(self: NoisyGram, stream: Any) -> Any:
        return honest(self, stream) // 2

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(NoisyGram, "_noise_of_share", halved)
        pp.run(configured(tmp_path, "gaussian"), tmp_path / "run")
    report = attack(tmp_path / "run", AttackRequest(tiers=("residual",)), append=False)
    assert any(one.verdict == "contradicted" for one in report.measurements)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_with_another_matrix_is_not_that_of_the_log(
    kind: str, made: dict[str, Path], tmp_path: Path
) -> None:
    pp.run(configured(tmp_path, kind, seed=4), tmp_path / "other")
    folder = tmp_path / "mixed"
    shutil.copytree(made[kind], folder)
    kept, foreign = (Checkpoint.read(one / MODEL_FILE) for one in (folder, tmp_path / "other"))
    replace(kept, state=foreign.state).write(folder / MODEL_FILE)
    (found,) = edits_of(folder)
    assert found.id == "foreign-model"
    assert "to project by" in found.says


def goes_on(config: Path, folder: Path) -> bool:
    """Return whether a run that was cut off comes to its end; else its matrix is lost."""
    intents = of(folder, records.RoundIntent) if (folder / "log.jsonl").exists() else []
    released = [one.round for one in of(folder, records.RoundRelease)] if intents else []
    if intents and 0 not in released:
        with pytest.raises(InvalidInput, match="covariance matrix") as caught:
            attempt(config, folder)
        assert "another folder" in caught.value.next_step
        assert len(intents) == 1  # nothing was released of records that it projects
        return False
    attempt(config, folder)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_killed_at_any_write_projects_on_what_it_released(
    kind: str, tmp_path: Path
) -> None:
    config = configured(tmp_path, kind)
    ended = lost = 0
    for folder in left_by_kills(config, tmp_path / "kills"):
        if not folder.exists() or not any(folder.iterdir()) or verify(folder).complete:
            continue
        done = goes_on(config, folder)
        if not done:
            lost += 1
            continue
        ended += 1
        require_sound(folder, kind)
    assert ended > 5
    assert lost > 0


def require_sound(folder: Path, kind: str) -> None:
    assert verify(folder).complete
    assert edits_of(folder) == ()
    assert errors(folder) <= {"wishart-noise", "seeded"}
    intents = of(folder, records.RoundIntent)
    assert [one.phase for one in intents].count("pca") == 1
    first = next(one for one in of(folder, records.RoundRelease) if one.round == 0)
    kept = Checkpoint.read(folder / MODEL_FILE)
    assert hashlib.sha256(kept.state[RELEASED].tobytes()).hexdigest() == first.aggregate
    matrix = mean_matrix(kept.state[RELEASED], FEATURES, SILOS)
    assert (kept.state[DIRECTIONS] == leading_directions(matrix, COMPONENTS)).all()
    assert intents[0].noise.family == kind


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_is_killed_after_its_matrix_goes_on_with_it(kind: str, tmp_path: Path) -> None:
    """The quick sibling: cut off right behind the release of the matrix."""
    config = configured(tmp_path, kind)
    folders = [one for one in left_by_kills(config, tmp_path / "kills") if one.exists()]
    behind = next(
        one
        for one in folders
        if (one / "log.jsonl").exists()
        and [each.round for each in of(one, records.RoundRelease)] == [0]
    )
    assert goes_on(config, behind)
    require_sound(behind, kind)
