"""Canaries rehearse the training of a run whose users are held out, without their votes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from ...accountant.participating import exact
from ...cases import for_each
from ..extras import needs
from .held_out_runs import (
    DISCO,
    GROUP,
    RECORDS,
    VOTES,
    configured,
    planned,
    ran,
)
from .hospitals import configuration

pytestmark = needs("torch", "pyarrow", "cryptography")


def test_a_run_is_rehearsed_with_canaries_without_its_votes(tmp_path: Path) -> None:
    """What canaries show is held against the training, at the noise that votes left for it."""
    from privplan.audit.attack import AttackRequest, attack
    from privplan.fl.canaries import rehearsal_settings
    from privplan.fl.running.configuration import Configuration

    tables = configuration(evaluation=VOTES)
    tables["privacy"] = {"epsilon": 5.0}
    settings = Configuration.of(tables).settings
    folder, _ = ran(tmp_path / "run", tables)
    rehearsed, (said,) = rehearsal_settings(settings, 3)
    assert "votes" in said
    assert rehearsed.evaluation.held_out_noise is None
    noise = rehearsed.privacy.noise_multiplier
    assert noise is not None
    assert exact(math.sqrt(2 / noise**2 + 1 / 1.5**2), 1e-5) == pytest.approx(5.0, rel=1e-3)
    found = attack(folder, AttackRequest(tiers=("claim",), canaries=500, seed=1), append=False)
    (measured,) = found.measurements
    assert not measured.contradicted
    assert measured.claimed is not None
    assert measured.claimed < 5.0  # the training alone


@for_each(
    "system, tables",
    [("uldp-naive", {}), ("uldp-group", GROUP), ("disco", DISCO), ("disco", RECORDS)],
)
def test_other_systems_are_rehearsed_with_the_noise_that_votes_left(
    tmp_path: Path, system: str, tables: dict[str, dict[str, Any]]
) -> None:
    from privplan.fl.canaries import rehearsal_settings
    from privplan.fl.running.configuration import Configuration

    made = configured(system, tables)
    made["privacy"] = {**tables.get("privacy", {}), "epsilon": 14.0}
    settings = Configuration.of(made).settings
    plan = planned(tmp_path, made)
    rehearsed, (said,) = rehearsal_settings(settings, 3)
    assert "votes" in said
    assert rehearsed.evaluation.held_out_noise is None
    assert rehearsed.privacy.noise_multiplier == plan.phases[0].noise_multiplier
