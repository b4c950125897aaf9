"""Canaries in a loop of somebody's own: sound loops are not contradicted, and planted faults are.

Coins, draws and noise have fixed seeds, so that a test says the same each time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.audit.adapters import canary_files, loop_canaries
from privplan.audit.adapters.loop_canaries import LoopCanaries
from privplan.audit.attack import attack
from privplan.audit.budget import audit_budget

VALUES, CANARIES, STEPS, CLIP = 4000, 1000, 40, 0.5
Vector = Any
PLAN: dict[str, Any] = {
    "steps": STEPS,
    "noise_multiplier": 1.0,
    "clip": CLIP,
    "delta": 1e-4,
    "rate": 0.1,
    "rate_source": "a constant of the study",
    "divisor": 20.0,
}
BY_RECORDS = {**PLAN, "rate": None, "rate_source": "", "records": 200, "batch": 20}


@pytest.fixture(autouse=True)
def seeded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fix the coins and the draws."""
    source = random.Random(6)
    for module in (canary_files, loop_canaries):
        monkeypatch.setattr(module.secrets, "token_bytes", source.randbytes)
    return


def clipped(gradient: Vector) -> Vector:
    return gradient * min(1.0, CLIP / float(np.linalg.norm(gradient)))


def looped(
    folder: Path,
    planned: pp.TrainingPlan,
    clip: Callable[[Vector], Vector] = clipped,
    noise: Callable[[Any, int], Vector] = lambda generator, _: generator.normal(0, CLIP, VALUES),
) -> dict[str, tuple[str, float]]:
    """Run a loop in which records add nothing, and return verdict and epsilon of each tier."""
    generator = np.random.default_rng(7)
    canaries = LoopCanaries(folder, planned, canaries=CANARIES, values=VALUES)
    with canaries.log() as log:
        for step in range(STEPS):
            with log.step(batch_size=20):
                total = np.zeros(VALUES)
                for each in canaries.drawn():
                    total += clip(each)
                total += noise(generator, step)
                canaries.saw(total)
    assert audit_budget(folder).ok  # the log says that all is well
    report = attack(folder, append=False)
    return {each.tier: (each.verdict, each.value) for each in report.measurements}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        PLAN,
        {**BY_RECORDS, "neighbours": "replace-one"},
        {**BY_RECORDS, "neighbours": "zero-out"},
    ],
)
def test_a_sound_loop_is_not_contradicted(tmp_path: Path, changes: dict[str, Any]) -> None:
    said = looped(tmp_path / "out", pp.TrainingPlan(**changes))
    assert {verdict for verdict, _ in said.values()} == {"not-contradicted"}
    assert said["robust"][1] > 0.1  # canaries are seen


FIXED = np.random.default_rng(8).normal(0.0, CLIP, VALUES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clip", "noise"),
    [
        (clipped, lambda generator, _: np.zeros(VALUES) + 1e-6 * generator.normal(size=VALUES)),
        (clipped, lambda generator, _: generator.normal(0.0, CLIP / 3.0, VALUES)),
        (clipped, lambda generator, _: generator.normal(0.0, CLIP / 20.0, VALUES)),
        (clipped, lambda _, __: FIXED),
        (lambda gradient: gradient, lambda generator, _: generator.normal(0.0, CLIP, VALUES)),
    ],
    ids=["no noise", "a third", "divided by the batch", "the same", "no clip"],
)
def test_a_wrong_loop_is_contradicted(
    tmp_path: Path, clip: Callable[[Vector], Vector], noise: Callable[[Any, int], Vector]
) -> None:
    said = looped(tmp_path / "out", pp.TrainingPlan(**PLAN), clip, noise)
    assert said["claim"][0] == "contradicted"


@pytest.mark.slow
def test_half_of_the_noise_is_unusual_at_least(tmp_path: Path) -> None:
    said = looped(
        tmp_path / "out",
        pp.TrainingPlan(**PLAN),
        noise=lambda generator, _: generator.normal(0.0, CLIP / 2.0, VALUES),
    )
    assert said["claim"][0] in ("unusual", "contradicted")


def test_what_canaries_cannot_test_is_refused(tmp_path: Path) -> None:
    plan = pp.TrainingPlan(**PLAN)
    with pytest.raises(Unsupported, match="do not fit"):
        LoopCanaries(tmp_path / "out", plan, canaries=100, values=99)
    unsampled = {**PLAN, "sampling": "none", "rate": None, "noise_multiplier": 40.0}
    with pytest.raises(Unsupported, match="none sampling"):
        LoopCanaries(tmp_path / "out", pp.TrainingPlan(**unsampled), canaries=100, values=100)
    canaries = LoopCanaries(tmp_path / "out", plan, canaries=100, values=400)
    with pytest.raises(InvalidInput, match="not open"):
        canaries.drawn()
    with canaries.log():
        with pytest.raises(InvalidInput, match="not drawn"):
            canaries.saw(np.zeros(400))
        canaries.drawn()
        with pytest.raises(InvalidInput, match="nobody saw"):
            canaries.drawn()
        with pytest.raises(InvalidInput, match="399 values"):
            canaries.saw(np.zeros(399))
