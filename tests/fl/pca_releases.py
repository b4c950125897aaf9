"""PCA steps by themselves, for tests: a setup without training, and a gate for one release."""

from __future__ import annotations

from typing import Any

import numpy as np

from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan import plan_given_noise
from privplan.accountant.randomness import Streams
from privplan.fl.canaries import MemoryLog
from privplan.fl.data.federation import Federation
from privplan.fl.delm.pca import PcaRelease, pca_release
from privplan.fl.frame.privacy import PrivacyTarget
from privplan.fl.frame.setup import Setup
from privplan.fl.settings.schema import TrainingSettings
from privplan.fl.training.local_training import NoTraining

TRAINING = TrainingSettings(
    clip=1.0, local_rate=0.1, global_rate=1.0, local_epochs=1, batch=4, model="logistic"
)


def federation(records: int = 60, columns: int = 6, silos: int = 3, **given: Any) -> Federation:
    """Return records of normal features, of which two are much larger than the others."""
    rng = np.random.default_rng(0)
    scale = np.where(np.arange(columns) < 2, 3.0, 0.3)
    facts = {
        "features": (rng.normal(size=(records, columns)) * scale).astype(np.float32),
        "labels": rng.integers(0, 2, records),
        "user": np.arange(records) % silos,
        "silo": np.arange(records) % silos,
        "test_features": (rng.normal(size=(5, columns)) * scale).astype(np.float32),
        "test_labels": np.zeros(5, np.int64),
        **given,
    }
    return Federation(name="normal", task="binary", classes=2, users=silos, silos=silos, **facts)


def setup_of(records: Federation, unit: str = "record", **privacy: Any) -> Setup:
    target = {"neighbours": "add-remove", "delta": 1e-5, "epsilon": None, "noise_multiplier": 1.0}
    return Setup(
        "toy", PrivacyTarget(unit=unit, **{**target, **privacy}), 1, TRAINING, records, NoTraining()
    )


def step(kind: str = "wishart", records: Federation | None = None, **given: Any) -> PcaRelease:
    """Return the PCA step of a federation, changed as asked."""
    facts = {"components": 2, "row_norm": 1.0, **given}
    if "epsilon" not in facts and "noise_multiplier" not in facts:
        facts["epsilon"] = 0.6
    own = setup_of(federation() if records is None else records)
    return pca_release(own, kind=kind, **facts)  # type: ignore[arg-type]


def gate_of(release: PcaRelease, seed: int = 1) -> tuple[Gate, MemoryLog]:
    """Return a gate, with a budget where something is promised, and its log."""
    log = MemoryLog()
    if release.terms.kind == "wishart":
        return Gate(None, log, Streams.seeded(seed)), log
    plan = plan_given_noise(
        [release.planned], delta=1e-5, neighbours=release.terms.relation, unit="record"
    )
    return Gate(Odometer.for_plan(plan), log, Streams.seeded(seed)), log
