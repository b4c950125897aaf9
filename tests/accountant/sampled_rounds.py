"""Sampled shuffles, for the tests of their bounds."""

from __future__ import annotations

import math

import numpy as np

from privplan import events as ev

DELTA = 5.0119e-6  # .01 / 1000^1.1
BIT = ev.RandomizedResponse(1.2, 2)
TRUE = 1.0 / (1.0 + math.exp(-1.2))


def sampled(
    users: int,
    dimensions: int,
    chosen: int,
    padded_to: int,
    *,
    granularity: str = "coordinate",
    selection: str = "oblivious",
    overflow: str = "refuse",
    event: ev.Event = BIT,
) -> ev.SampledShuffle:
    return ev.SampledShuffle(
        users, dimensions, chosen, padded_to, granularity, selection, overflow, event
    )


def ones(chances: list[float]) -> np.ndarray:
    law = np.ones(1)
    for chance in chances:
        law = np.convolve(law, [1.0 - chance, chance])
    return law


def hockey_stick(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())
