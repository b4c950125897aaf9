"""Small runs that normalise features by private moments, and what a whole one must show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import records
from privplan.audit.verify import verify
from privplan.fl.declarations.declaration import NORMALISE
from privplan.fl.frame.model import model_digest
from privplan.fl.frame.private_normalisation import MomentsRelease
from privplan.fl.log import LogWriter, read
from privplan.fl.running.checkpoint import CHECKPOINT_FILE, MODEL_FILE, Checkpoint
from privplan.fl.running.preparation import prepare, randomness
from privplan.fl.running.resumption import require_resumable
from privplan.fl.running.run_records import RunResult
from privplan.fl.running.session import execute
from privplan.fl.settings import schema
from privplan.fl.training.metrics import measured

SMALL = schema.Settings(
    run=schema.RunSettings(system="uldp-avg", rounds=2),
    data=schema.DataSettings(name="breast-cancer", users=6, silos=2, normalisation="private"),
    privacy=schema.PrivacySettings(noise_multiplier=5.0, normalisation_noise=3.0),
    training=schema.TrainingSettings(
        clip=0.1,
        local_rate=0.1,
        global_rate=2.0,
        local_epochs=1,
        batch=64,
        model="logistic",
        weighting="records",
    ),
)

LOST = "cut off while it released the moments"


def changed(own: schema.Settings = SMALL, **tables: Mapping[str, object]) -> schema.Settings:
    """Return settings with some keys changed, by table."""
    new = {name: replace(getattr(own, name), **keys) for name, keys in tables.items()}
    return replace(own, **new)  # type: ignore[arg-type]


def started(settings: schema.Settings, folder: Path, recorder: Any = None) -> RunResult:
    """Make a whole run."""
    prepared = prepare(settings)
    with LogWriter.create(folder) as writer:
        return execute(prepared, folder, recorder(writer) if recorder else writer)


def resumed(settings: schema.Settings, folder: Path) -> RunResult:
    """Go on with a run that was cut off, as the command does: what does not belong is refused."""
    prepared = prepare(settings, segment=verify(folder).recoveries + 1)
    require_resumable(prepared, folder, progress_of(folder))
    writer, progress = LogWriter.resume(folder, randomness=randomness(settings))
    with writer:
        return execute(prepared, folder, writer, progress=progress)


def progress_of(folder: Path) -> records.Progress:
    from privplan.fl.log.reader import Scan

    scan = Scan(folder)
    for _ in scan:
        pass
    found = scan.record_order.progress()
    assert found is not None
    return found


def of(folder: Path, kind: type[Any]) -> list[Any]:
    return [line.record for line in read(folder) if isinstance(line.record, kind)]


def normalising(federation: Any, *, rule: str = "records", noise: float = 3.0) -> MomentsRelease:
    return MomentsRelease(noise, rule, "add-remove", federation, -1.0, 1.0)


def require_whole(folder: Path, planned: int = 2) -> None:
    """Require a run that came to its end with one release of moments, which its model stands on."""
    found = verify(folder)
    assert found.complete, found.problem
    intents, releases = of(folder, records.RoundIntent), of(folder, records.RoundRelease)
    (close,) = of(folder, records.RunClose)
    assert [(one.phase, one.round) for one in intents] == [
        (NORMALISE, 0),
        *(("train", number) for number in range(1, planned + 1)),
    ]
    assert close.rounds == len(releases)
    assert releases[0].round == 0
    kept = Checkpoint.read(folder / MODEL_FILE)
    assert kept.moments is not None
    assert kept.moments.digest == releases[0].aggregate
    assert model_digest(kept.parameters) == close.model
    assert {one.model_out for one in releases[1:]} | {intents[1].model_in} >= {close.model}
    assert not (folder / CHECKPOINT_FILE).exists()
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["released"] == len(releases) - 1
    assert metrics["planned"] == planned
    assert metrics["normalisation_noise"] == 3.0
    reading = metrics["rounds"][-1]["epsilon_so_far"]["model"]
    assert reading == pytest.approx(metrics["guarantees"]["model"]["epsilon"])
    require_measured(folder, kept, metrics["rounds"][-1]["metrics"])


def require_measured(folder: Path, kept: Checkpoint, said: Mapping[str, float]) -> None:
    """Require that the model's file, and records as they are read, give what the run measured."""
    prepared = prepare(changed(privacy={"normalisation_noise": 3.0}))
    with np.load(folder / MODEL_FILE, allow_pickle=False) as arrays:
        lower, upper, mean, scale = (
            arrays[f"normalisation_{name}"] for name in ("lower", "upper", "mean", "scale")
        )
    raw = prepared.federation.test_features
    features = ((np.clip(raw, lower, upper) - mean) / scale).astype(np.float32)
    found = measured(
        prepared.model.logits(kept.parameters, features), prepared.federation.test_labels
    )
    assert found == pytest.approx(dict(said), rel=1e-4)
