"""Which units are guessed, and how many: decided by the claim before anything is seen.

The bounds of one run hold for a number of guesses that was fixed beforehand.  The claimed mechanism
is simulated, with a seed of its own, and the number is that from which the most is expected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray
from .rehearsal import Rehearsal
from .scores import ratios

_SIMULATED: Final = 100_000
"""Units of the simulation."""

_SHARES: Final = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
"""Shares of the canaries that may be guessed."""

_FEWEST: Final = 5
"""Guesses, at least."""

Bound: TypeAlias = Callable[[int, int], float]
"""From guesses and how many are right to a lower bound."""


def right_of(scores: FloatArray, coins: BoolArray, guesses: int) -> int:
    """Return how many guesses are right: about the units with the surest scores.

    A positive score says in, any other out; the surest are those furthest from 0.
    """
    surest = np.argpartition(-np.abs(scores), guesses - 1)[:guesses]
    return int(((scores[surest] > 0.0) == coins[surest]).sum())


def guesses_for(rehearsal: Rehearsal, expected: FloatArray, bound: Bound) -> int:
    """Return for how many guesses `bound` is largest, if the claim is exactly true.

    `expected` is what `expected_right` returns.  Nothing that was observed goes into it: a number
    of guesses by which one standard deviation fewer are right than expected shows the most.
    """
    units = rehearsal.canaries
    best, found = 0.0, max(_FEWEST, units // 20)
    for share in _SHARES:
        guesses = round(share * units)
        if guesses < _FEWEST:
            continue
        rate = float(expected[round(share * _SIMULATED) - 1])
        right = rate * guesses - (rate * (1.0 - rate) * guesses) ** 0.5
        value = bound(guesses, max(0, int(right)))
        if value > best:
            best, found = value, guesses
    return found


def expected_right(rehearsal: Rehearsal) -> FloatArray:
    """Return which share of the n surest guesses is right under the claim, for n from 1."""
    rng = np.random.default_rng(0)
    coins = rng.random(_SIMULATED) < 0.5
    moved = np.where(coins, rehearsal.shift, -rehearsal.shift if rehearsal.opposite else 0.0)
    scores = np.zeros(_SIMULATED)
    for _ in range(rehearsal.rounds):
        there = rng.random(_SIMULATED) < rehearsal.rate
        seen = rng.standard_normal(_SIMULATED) + there * moved
        scores += ratios(seen[None], rehearsal.shift, rehearsal.rate, opposite=rehearsal.opposite)
    surest = np.argsort(-np.abs(scores))
    right = (scores > 0.0) == coins
    return np.asarray(np.cumsum(right[surest]) / np.arange(1, _SIMULATED + 1))
