"""Uldp-FL on Heart Disease at the paper's settings: weighting by records learns, NAIVE does not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from privplan.accountant.mechanisms import Gate
from privplan.accountant.odometer import Odometer
from privplan.fl.preparation import measure, prepare
from privplan.fl.settings_file import parse

DATA = Path(
    os.environ.get("PRIVPLAN_DATA", Path(__file__).resolve().parents[2] / ".." / "shared" / "data")
)

CONFIG = """
[run]
system = "{system}"
seed = {seed}
[data]
name = "heart-disease"
path = "{path}"
seed = {seed}
[privacy]
noise_multiplier = 5.0
[training]
seed = {seed}
{training}
"""


def accuracy(log, system, seed, training=""):
    """Return the test accuracy after the paper's 50 rounds with 50 users in 4 silos."""
    if not (DATA / "heart_disease").is_dir():
        pytest.skip("no folder heart_disease beside the repository; set PRIVPLAN_DATA")
    path = (DATA / "heart_disease").as_posix()
    text = CONFIG.format(system=system, seed=seed, path=path, training=training)
    prepared = prepare(parse(text.encode(), "heart.toml"))
    federation = prepared.federation
    assert (prepared.rounds, federation.users, federation.silos) == (50, 50, 4)
    assert prepared.plan.guarantees["model"].epsilon.upper == pytest.approx(6.57, abs=0.005)
    gate = Gate(Odometer.for_plan(prepared.plan), log(), prepared.streams)
    parameters = prepared.system.initial()
    for number in range(1, prepared.rounds + 1):
        parameters = prepared.system.round(number, parameters, gate).parameters
    return measure(prepared, parameters)["accuracy"]


@pytest.mark.slow
def test_weights_by_records_learn_where_naive_does_not(log):
    """Seeded, so it either holds or not; means over three seeds of all randomness."""
    weighted = [accuracy(log, "uldp-avg", seed, 'weighting = "records"') for seed in (0, 1, 2)]
    naive = [accuracy(log, "uldp-naive", seed) for seed in (0, 1, 2)]
    assert np.mean(weighted) >= 0.75
    assert np.mean(weighted) >= np.mean(naive) + 0.15


@pytest.mark.slow
def test_gradients_learn_too(log):
    assert np.mean([accuracy(log, "uldp-sgd", seed) for seed in (0, 1, 2)]) >= 0.75
