"""Canaries in a training with Opacus: secret, drawn and clipped as all, judged as a rehearsal is.

Coins, draws and noise have fixed seeds here, so that a test says the same each time.  A sound
training is contradicted once in 1,000 attacks at most, and is unusual by a tier once in 20.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("opacus", reason="the extra `opacus` is not installed")

import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer
from opacus.utils.batch_memory_manager import BatchMemoryManager
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from typer.testing import CliRunner

import privplan as pp
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.audit.adapters import canary_files
from privplan.audit.adapters.canary_files import COINS_FILE, OBSERVATIONS_FILE
from privplan.audit.adapters.opacus_canaries import CanaryGradients
from privplan.audit.attack import AttackReport, attack
from privplan.audit.attack.report import AttackRequest
from privplan.audit.budget import audit_budget
from privplan.audit.results import results_in
from privplan.cli.main import app
from privplan.cli.reports.attack import INSERTED, report_of
from privplan.fl.log import Sidecar
from privplan.fl.log.hash_chain import LOG, SEALED

from .opacus_processes import trained_in_two
from .opacus_trainings import BY_RECORDS, CLIP, RECORDS, STEPS, Training, flat, plan

pytestmark = pytest.mark.slow

CANARIES, HIDDEN = 1000, 128


@pytest.fixture(autouse=True)
def seeded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fix the coins and the noise; the seed of torch is one that looks like none."""
    source = random.Random(5)
    monkeypatch.setattr(canary_files.secrets, "token_bytes", source.randbytes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2**40 + 5)
        yield


def trained(
    folder: Path,
    planned: pp.TrainingPlan | None = None,
    change: Callable[[Training], object] | None = None,
    canaries: int = CANARIES,
    epochs: int = 2,
    **options: Any,
) -> Training:
    """Train with canaries; `change` is what somebody does to the training before it begins."""
    made, engine = Training(hidden=HIDDEN), PrivacyEngine(accountant="rdp")
    made.private(engine, **options)
    if change is not None:
        change(made)
    with pp.logged(
        engine,
        folder,
        plan=planned or plan(),
        optimizer=made.optimizer,
        data_loader=made.loader,
        module=made.model,
        canaries=canaries,
    ):
        made.epochs(epochs)
    return made


def verdicts(report: AttackReport) -> dict[str, str]:
    return {each.tier: each.verdict for each in report.measurements}


@pytest.mark.parametrize(
    "planned", [plan(), plan(**BY_RECORDS), plan(**{**BY_RECORDS, "neighbours": "zero-out"})]
)
def test_a_right_training_is_not_contradicted(tmp_path: Path, planned: pp.TrainingPlan) -> None:
    trained(tmp_path / "out", planned)
    report = attack(tmp_path / "out")
    assert verdicts(report) == {"claim": "not-contradicted", "robust": "not-contradicted"}
    for each in report.measurements:
        assert each.claimed == pytest.approx(planned.guarantee.epsilon.upper, rel=1e-6)
        assert each.value < each.claimed
        assert each.sample["canaries"] == CANARIES
        assert each.sample["rounds"] == STEPS
    # Canaries are seen: one that nobody drew, or that was clipped away, would show nothing.
    assert report.measurements[1].value > 0.1
    assert audit_budget(tmp_path / "out").ok
    assert pp.check(tmp_path / "out").verdict == "holds"
    assert [each.tier for each in results_in(tmp_path / "out")] == ["claim", "robust"]


LAYERS: dict[str, Any] = {"clipping": "per_layer", "max_grad_norm": [1.2, 0.3, 0.8, 0.3]}


@pytest.mark.parametrize("changes", [{}, {**BY_RECORDS, "neighbours": "replace-one"}])
def test_a_right_training_with_clips_of_layers(tmp_path: Path, changes: dict[str, Any]) -> None:
    clip = torch.norm(torch.Tensor(LAYERS["max_grad_norm"])).item()
    trained(tmp_path / "out", plan(clip=clip, **changes), **LAYERS)
    report = attack(tmp_path / "out", append=False)
    assert set(verdicts(report).values()) == {"not-contradicted"}
    assert report.measurements[1].value > 0.1
    assert audit_budget(tmp_path / "out").ok


def a_layer_not_clipped(training: Training) -> None:
    """A layer whose gradients are added up as they are; the optimizer says something else."""
    inner = training.optimizer.clip_and_accumulate

    def clip_and_accumulate() -> None:
        norms = training.optimizer.max_grad_norms
        training.optimizer.max_grad_norms = [1e9, *norms[1:]]
        inner()
        training.optimizer.max_grad_norms = norms

    training.optimizer.clip_and_accumulate = clip_and_accumulate


@pytest.mark.parametrize("fault", ["quiet", "unclipped"])
def test_a_wrong_training_with_clips_of_layers_is_contradicted(tmp_path: Path, fault: str) -> None:
    clip = torch.norm(torch.Tensor(LAYERS["max_grad_norm"])).item()
    change = {"quiet": quiet, "unclipped": a_layer_not_clipped}[fault]
    trained(tmp_path / "out", plan(clip=clip), change=change, **LAYERS)
    assert verdicts(attack(tmp_path / "out", append=False))["claim"] == "contradicted"


def test_a_right_training_through_make_private_in_parts(tmp_path: Path) -> None:
    made, engine = Training(hidden=HIDDEN), PrivacyEngine(accountant="rdp")
    with pp.logged(engine, tmp_path / "out", plan=plan(), canaries=CANARIES):
        made.private(engine)
        with BatchMemoryManager(
            data_loader=made.loader, max_physical_batch_size=6, optimizer=made.optimizer
        ) as parts:
            made.epochs(loader=parts)
    report = attack(tmp_path / "out", append=False)
    assert set(verdicts(report).values()) == {"not-contradicted"}
    assert report.measurements[1].value > 0.1
    assert report_of(report, str(tmp_path / "out")).assumptions[0] == INSERTED


def quiet(training: Training) -> None:
    """A quarter of the noise that the optimizer says it adds."""
    whole = training.optimizer.add_noise

    def add_noise() -> None:
        sums = [each.summed_grad.clone() for each in training.optimizer.params]
        whole()
        for each, total in zip(training.optimizer.params, sums, strict=True):
            each.grad = total + (each.grad - total) / 4.0

    training.optimizer.add_noise = add_noise


class _EveryoneDrawn(UniformWithReplacementSampler):
    """Draws all units in each batch, whatever its rate says."""

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.steps):
            yield list(range(self.num_samples))


def everyone(training: Training) -> None:
    training.loader.batch_sampler.__class__ = _EveryoneDrawn


class _Unclipped(DPOptimizer):
    """Adds gradients up as they are."""

    def clip_and_accumulate(self) -> None:
        self.max_grad_norm, clip = 1e9, self.max_grad_norm
        super().clip_and_accumulate()
        self.max_grad_norm = clip


def unclipped(training: Training) -> None:
    training.optimizer.__class__ = _Unclipped


def repeated(training: Training) -> None:
    """The same noise in each step."""
    noise = [torch.randn_like(each) * CLIP for each in training.optimizer.params]

    def add_noise() -> None:
        for each, same in zip(training.optimizer.params, noise, strict=True):
            each.grad = (each.summed_grad + same).view_as(each)

    training.optimizer.add_noise = add_noise


@pytest.mark.parametrize("change", [quiet, everyone, unclipped, repeated])
def test_a_wrong_training_that_its_log_cannot_show_is_contradicted(
    tmp_path: Path, change: Callable[[Training], object]
) -> None:
    trained(tmp_path / "out", change=change)
    assert verdicts(attack(tmp_path / "out", append=False))["claim"] == "contradicted"
    # The optimizer says that all is well, and so does its log.
    assert audit_budget(tmp_path / "out").ok


def test_each_canary_that_is_in_and_drawn_is_clipped_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    gradients: list[torch.Tensor] = []
    taken, rows = CanaryGradients.taken_from, CanaryGradients._gradients_of

    def counted(self: CanaryGradients, batch: list[int]) -> list[int]:
        records = taken(self, batch)
        drawn.append(len(batch) - len(records))
        return records

    def kept(self: CanaryGradients, units: list[int]) -> list[torch.Tensor]:
        made = rows(self, units)
        gradients.append(torch.cat([each.flatten(1) for each in made], dim=1))
        return made

    monkeypatch.setattr(CanaryGradients, "taken_from", counted)
    monkeypatch.setattr(CanaryGradients, "_gradients_of", kept)
    trained(tmp_path / "out", canaries=100)
    together = torch.cat(gradients)
    assert len(together) == sum(drawn) > 40
    assert torch.allclose(together.norm(dim=1), torch.tensor(10.0 * CLIP))
    sealed = [item.value for item in Sidecar.read(tmp_path / "out").items]
    sizes = [size for value in sealed if isinstance(value, list) for size in value]
    assert len(sizes) == STEPS
    assert abs(sum(sizes) - STEPS * 20) < 200  # of records alone: canaries are none


def test_no_coin_is_anywhere_but_in_its_file(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    made = trained(folder)
    assert (folder / COINS_FILE).stat().st_mode & 0o777 == 0o600
    content = json.loads((folder / COINS_FILE).read_text())
    first = json.loads((folder / LOG).read_text().splitlines()[0])
    assert first["configuration"]["loop"]["canaries"]["canaries"] == CANARIES
    bits = np.packbits([coin == "1" for coin in content["coins"]]).tobytes().hex()
    for name in (LOG, SEALED):
        text = (folder / name).read_text()
        for secret in (content["coins"], content["key"], content["blind"], bits):
            assert secret not in text
    # Everything is taken off again: the loader draws records alone.
    assert made.loader.batch_sampler.num_samples == RECORDS
    assert "clip_and_accumulate" not in vars(made.optimizer)


def test_what_was_changed_afterwards_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    trained(folder, canaries=100)
    seen = (folder / OBSERVATIONS_FILE).read_bytes()
    (folder / OBSERVATIONS_FILE).write_bytes(seen[4:] + seen[:4])
    with pytest.raises(InvalidInput, match="releases of the log"):
        attack(folder, append=False)
    (folder / OBSERVATIONS_FILE).write_bytes(seen)
    text = (folder / COINS_FILE).read_text()
    (folder / COINS_FILE).write_text(text.replace('"coins":"', '"coins":"1'))
    with pytest.raises(InvalidInput, match="committed to"):
        attack(folder, append=False)


def test_a_training_that_goes_on_keeps_its_canaries(tmp_path: Path) -> None:
    folder = tmp_path / "out"

    class _CutOff(Exception):
        pass

    def cut_off(training: Training) -> None:
        step = training.step

        def stepped(batch: Any) -> None:
            if training.steps == 17:
                raise _CutOff
            step(batch)

        training.step = stepped  # type: ignore[method-assign]

    with pytest.raises(_CutOff):
        trained(folder, change=cut_off)
    committed = (folder / COINS_FILE).read_text()
    assert attack(folder, append=False).measurements[0].sample["rounds"] == 10
    trained(folder, epochs=1)
    assert (folder / COINS_FILE).read_text() == committed
    report = attack(folder)
    # Ten steps and seven of an intent that was cut off, which are kept, and twenty after them.
    assert report.measurements[0].sample["rounds"] == 37
    assert set(verdicts(report).values()) == {"not-contradicted"}


@pytest.mark.parametrize(
    ("options", "changes", "says"),
    [
        ({"grad_sample_mode": "ghost"}, {}, "Ghost clipping"),
        (
            {
                "clipping": "adaptive",
                "target_unclipped_quantile": 0.5,
                "clipbound_learning_rate": 0.2,
                "max_clipbound": 10.0,
                "min_clipbound": 0.1,
                "unclipped_num_std": 2.0,
            },
            {},
            "Adaptive clipping",
        ),
        ({"poisson_sampling": False}, {}, "only the Poisson sampler"),
        ({}, {"sampling": "none", "rate": None, "noise_multiplier": 40.0}, "A plan of none"),
    ],
)
def test_modes_without_canaries_are_refused_before_the_first_step(
    tmp_path: Path, options: dict[str, Any], changes: dict[str, Any], says: str
) -> None:
    planned = plan(**{"rate": 0.05, "rate_source": "public", "divisor": 20.0, **changes})
    with pytest.raises(Unsupported, match=says):
        trained(tmp_path / "out", planned, canaries=100, **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("noise", [1.0, 0.1])
def test_canaries_of_a_training_in_two_processes(tmp_path: Path, noise: float) -> None:
    """They train in the process that adds the noise, and are seen in the sum of both."""
    first, second = trained_in_two(tmp_path / "out", noise=noise, canaries=CANARIES)
    assert torch.equal(first, second)
    report = attack(tmp_path / "out", append=False)
    assert audit_budget(tmp_path / "out").ok
    if noise == 1.0:  # their seeds are no fixed ones, so that one tier in twenty is unusual
        assert "contradicted" not in verdicts(report).values()
        assert report.measurements[0].sample["rounds"] > STEPS // 2
        assert report.measurements[1].value > 0.0
    else:
        assert verdicts(report)["claim"] == "contradicted"


def test_a_sharded_training_takes_no_canaries(tmp_path: Path) -> None:
    def in_two(training: Training) -> None:
        training.optimizer.world_size = 2

    with pytest.raises(Unsupported, match="several processes"):
        trained(tmp_path / "out", change=in_two, canaries=100)


def test_more_canaries_than_parameters_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="do not fit"):
        trained(tmp_path / "out", canaries=2000)


def test_a_training_without_canaries_cannot_be_attacked(tmp_path: Path) -> None:
    flat(tmp_path / "out")
    result = CliRunner().invoke(app, ["audit", "attack", str(tmp_path / "out")])
    assert result.exit_code == 3


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"tiers": ("residual",)}, Unsupported),
        ({"observer": "server"}, InvalidInput),
        ({"rounds": 3}, InvalidInput),
        ({"seed": 3}, InvalidInput),
        ({"canaries": 100}, InvalidInput),
    ],
)
def test_what_only_a_rehearsal_can_follow_is_refused(
    tmp_path: Path, request_: dict[str, Any], error: type[Exception]
) -> None:
    trained(tmp_path / "out", canaries=100, epochs=1)
    with pytest.raises(error):
        attack(tmp_path / "out", AttackRequest(**request_))
