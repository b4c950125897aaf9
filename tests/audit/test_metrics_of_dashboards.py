"""What a step has spent, in MLflow, TensorBoard, and Weights and Biases, as the page shows it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import privplan as pp
from privplan.audit.adapters.epsilon_by_step import SpentEpsilon
from privplan.cli.pages import topics

PLAN = pp.TrainingPlan(
    steps=12,
    noise_multiplier=1.0,
    clip=1.0,
    delta=1e-5,
    epsilon=1.0,
    rate=0.01,
    rate_source="published",
)


def example(dashboard: str, **names: Any) -> Callable[[SpentEpsilon], object]:
    """Return the function that the page shows for a dashboard."""
    page = topics.page("libraries")
    shown = re.search(rf"^  {dashboard}  +(lambda .*(?:\n {{20,}}.*)*)", page, re.MULTILINE)
    assert shown is not None
    function: Callable[[SpentEpsilon], object] = eval(shown[1], names)
    return function


def trained(folder: Path, metrics: Callable[[SpentEpsilon], object]) -> list[SpentEpsilon]:
    """Make a loop under the log, and return what its steps have spent."""
    spent: list[SpentEpsilon] = []

    def both(step: SpentEpsilon) -> None:
        spent.append(step)
        metrics(step)

    with pp.RunLog(folder, PLAN, metrics=both) as log:
        for _ in range(PLAN.steps):
            with log.step():
                pass
    return spent


def test_mlflow_holds_both_ends_after_each_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # else 3.17 asks for a database
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        spent = trained(tmp_path / "out", example("MLflow", mlflow=mlflow))
    client = mlflow.MlflowClient()
    for name in ("lower", "upper", "left"):
        history = client.get_metric_history(run.info.run_id, f"epsilon_{name}")
        kept = [(each.step, each.value) for each in history]
        assert kept == [(each.step, getattr(each, name)) for each in spent]
    assert len(spent) == PLAN.steps
    assert spent[-1].lower <= PLAN.guarantee.epsilon.upper <= spent[-1].upper * 1.01


def test_tensorboard_holds_the_upper_end(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.summary import Writer

    writer = Writer(str(tmp_path / "board"))
    spent = trained(tmp_path / "out", example("TensorBoard", writer=writer))
    writer.close()
    board = EventAccumulator(str(tmp_path / "board"), size_guidance={"tensors": 0})
    board.Reload()
    kept = [(each.step, each.tensor_proto.float_val[0]) for each in board.Tensors("epsilon")]
    assert [step for step, _ in kept] == [each.step for each in spent]
    for (_, value), each in zip(kept, spent, strict=True):
        assert value == pytest.approx(each.upper, rel=1e-6)


def test_weights_and_biases_is_told_the_upper_end_and_what_is_left(tmp_path: Path) -> None:
    told: list[tuple[int, dict[str, float]]] = []
    wandb = SimpleNamespace(log=lambda values, step: told.append((step, values)))
    spent = trained(tmp_path / "out", example("Weights and Biases", wandb=wandb))
    assert told == [(each.step, {"epsilon": each.upper, "left": each.left}) for each in spent]


def test_an_infinite_end_is_no_number_to_lose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow keeps an infinite epsilon as such, or as the largest number; never as a small one."""
    mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        example("MLflow", mlflow=mlflow)(SpentEpsilon(1, 0.0, math.inf, 0.0))
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "epsilon_upper")
    assert [each.value > 1e300 for each in history] == [True]
