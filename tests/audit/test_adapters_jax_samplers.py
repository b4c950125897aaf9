"""Samplers of jax_privacy: what a budget audit proves is never below what two data sets show.

One record's part in a training is drawn by the library itself, some thousand times; all other
records add nothing.  How well the noisy steps tell it from a training without the record is then
known but for the error of that sampling, whatever anybody says of the sampler.
"""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax_privacy", reason="the extra `jax-privacy` is not installed")

from jax import numpy as jnp
from jax_privacy import batch_selection

from privplan.audit.adapters.jax_privacy import plan_of
from privplan.audit.budget import audit_budget

from .jax_trainings import execution, trained

pytestmark = pytest.mark.slow

RECORDS, ITERATIONS, DRAWS, NOISE = 200, 12, 4_000, 0.6
BANDED = (1.0, 0.5, 0.25)
EQUAL = batch_selection.PartitionType.EQUAL_SPLIT


def parts_of_a_record(batches: Any) -> Any:
    """Return in which steps the first record was drawn, in many trainings: (draws, steps)."""
    generator, drawn = np.random.default_rng(11), np.zeros((DRAWS, ITERATIONS))
    for row in drawn:
        for step, indices in enumerate(batches.batch_iterator(RECORDS, generator)):
            row[step] = np.any(indices == 0)
    return drawn


def least_delta(signals: Any, noise: float, epsilon: float) -> float:
    """Return what delta is at least at an epsilon, with a probability of 1 - 1e-6 or so.

    A training with the record has one of the signals, each as likely, and one without has none.
    """
    generator = np.random.default_rng(12)
    kinds, counts = np.unique(signals, axis=0, return_counts=True)
    shares = np.log(counts / counts.sum())
    seen = signals + generator.normal(0.0, noise, signals.shape)
    # log of the density with the record, less that without it
    squares = (kinds**2).sum(axis=1)
    exponents = (seen @ kinds.T - squares / 2.0) / noise**2 + shares
    top = exponents.max(axis=1)
    losses = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))
    shown = np.maximum(1.0 - np.exp(np.minimum(epsilon - losses, 0.0)), 0.0)
    # Bernstein: the mean of numbers in [0, 1] is hardly ever more than this below what it shows.
    spread, tail = float(shown.var()), math.log(1e6)
    error = math.sqrt(2.0 * spread * tail / DRAWS) + 7.0 * tail / (3.0 * (DRAWS - 1))
    return float(shown.mean()) - error


def deviation_of(made: Any) -> float:
    """Return the deviation of the even noise of an execution plan, as it is drawn."""
    nothing = jnp.zeros(100_000)
    transform = made.noise_addition_transform
    drawn, _ = transform.update(nothing, transform.init(nothing))
    return float(np.std(drawn)) * 1.01  # with some room for chance


@pytest.mark.parametrize(
    ("strategy", "batches"),
    [
        ((1.0,), batch_selection.CyclicPoissonSampling(0.3, ITERATIONS, truncated_batch_size=40)),
        (
            BANDED,
            batch_selection.CyclicPoissonSampling(
                0.5, ITERATIONS, truncated_batch_size=25, cycle_length=3, partition_type=EQUAL
            ),
        ),
        ((1.0,), batch_selection.BMinSepSampling(0.3, ITERATIONS, 3)),
        ((1.0,), batch_selection.BMinSepSampling(0.3, ITERATIONS, 3, warm_start=False)),
        ((1.0,), batch_selection.BMinSepSampling(0.9, ITERATIONS, 4)),
        (BANDED, batch_selection.BMinSepSampling(0.5, ITERATIONS, 3)),
        (BANDED, batch_selection.BMinSepSampling(0.5, ITERATIONS, 3, truncated_batch_size=20)),
        (BANDED, batch_selection.BallsInBinsSampling(ITERATIONS, 3)),
        ((1.0,), batch_selection.FixedBatchSampling(60, ITERATIONS)),
    ],
)
def test_no_sampler_is_proven_to_hide_more_than_it_does(
    tmp_path: Path, strategy: tuple[float, ...], batches: Any
) -> None:
    made = execution(strategy, batches=batches, noise_multiplier=NOISE)
    planned = plan_of(
        made, delta=0.05, neighbours="zero-out", rate_source="published", records=RECORDS
    )
    trained(tmp_path / "out", made, dataclasses.replace(planned, steps_per_intent=50))
    proven = audit_budget(tmp_path / "out").total.upper
    assert math.isfinite(proven)
    # The strategy as a matrix: in these coordinates the noise is even.
    matrix = sum(np.eye(ITERATIONS, k=-at) * each for at, each in enumerate(strategy))
    signals = parts_of_a_record(batches) @ np.asarray(matrix).T
    noise = deviation_of(made)
    assert least_delta(signals, noise, proven) <= 0.05
    # What two data sets show is no trifle, though less where a sample has no proof of its own.
    loose = planned.sampling == "none"
    assert least_delta(signals, noise, proven / (12.0 if loose else 4.0)) > 0.05
