"""What noise costs DISCO's peers: the system beside a sketch in floats with the same noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.fl.aggregation.sums import PlainAggregator

from ..cases import for_each
from ..chance import limits
from .disco_runs import built, models_of, settings

CLIP, PEERS, NUMBERS, ROUNDS, NOISE = 0.25, 8, 400, 3, 3.0


def updates() -> Any:
    """Return an update of each peer, some longer than the clip: (peers, numbers)."""
    rows = np.random.default_rng(1).normal(size=(PEERS, NUMBERS))
    lengths = np.linspace(0.5, 2.0, PEERS)[:, None] * CLIP
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) * lengths


def steps_of(noise: str, aggregation: str, multiplier: float = NOISE) -> Any:
    """Return what the system adds to its model in each round: (rounds, numbers)."""
    own = settings(
        noise,
        aggregation,
        silos=PEERS,
        rounds=ROUNDS,
        privacy={"noise_multiplier": multiplier},
        training={"global_rate": 1.0},
    )
    system = built(own, rows=updates())
    if aggregation == "shares":
        system.aggregator = PlainAggregator()
    models = [item[0] for item in models_of(system)[0]]
    return np.diff(models, axis=0)


def sketched_mean() -> Any:
    """Return the mean of the clipped updates, (numbers,), in floats."""
    rows = updates()
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows * np.minimum(1.0, CLIP / norms)).mean(axis=0)


def is_sketched(steps: Any, multiplier: float) -> bool:
    """Return whether the noise's mean square is the sketch's; 1 in 10^6 for both looks below.

    Each of n numbers of the mean has noise of deviation s = multiplier C / peers.
    """
    noise = steps - sketched_mean()
    low, high = limits(stats.chi2(noise.size), looks=2)
    return low < float(np.sum(noise**2)) / (multiplier * CLIP / PEERS) ** 2 < high


@for_each(("noise", "aggregation"), [("shared", "shares"), ("local", "plain")])
def test_a_round_errs_as_a_sketch_with_the_same_noise_does(noise: str, aggregation: str) -> None:
    assert is_sketched(steps_of(noise, aggregation), NOISE)


@for_each("factor", [0.5, 2.0])
def test_half_the_noise_and_twice_the_noise_do_not(factor: float) -> None:
    # Off by 3/4 of s^2 or more, where the band is 5 sqrt(2 / 1200), about a fifth.
    assert not is_sketched(steps_of("shared", "shares", factor * NOISE), NOISE)


def test_shared_noise_errs_less_than_local_noise_for_the_same_epsilon() -> None:
    """A peer counts on the noise of m - 1 others, or on its own alone: z^2 is m - 1 times less."""
    target = {"epsilon": 5.0, "noise_multiplier": None}
    shared, local = (
        built(settings(*way, silos=PEERS, privacy=target), rows=updates()).promise.noise_multiplier
        for way in (("shared", "shares"), ("local", "plain"))
    )
    assert (local / shared) ** 2 == pytest.approx(PEERS - 1, rel=1e-3)
