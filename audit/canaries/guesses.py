"""How many canaries are guessed, and how many guesses are right; the claim fixes the number.

The bounds of one run hold for a number of guesses that was fixed beforehand.  The claimed mechanism
is simulated with a fixed seed, and the number is the one with the largest expected bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray
from .rehearsal import CanaryRehearsal
from .scores import likelihood_ratios

SIMULATED_UNITS: Final = 100_000
"""Units of the simulation."""

GUESSED_SHARES: Final = (
    0.001,
    0.002,
    0.003,
    0.005,
    0.01,
    0.02,
    0.03,
    0.05,
    0.07,
    0.1,
    0.15,
    0.2,
    0.3,
)
"""Shares of the canaries that may be guessed."""

MIN_GUESSES: Final = 5
"""Guesses, at least."""

Bound: TypeAlias = Callable[[int, int], float]
"""(guesses, right guesses) -> lower bound on epsilon."""


def correct_guesses(scores: FloatArray, coins: BoolArray, guesses: int) -> int:
    """Return how many guesses are right: about the units with the surest scores.

    A positive score says in, any other out; the surest are those furthest from 0.
    """
    # The `guesses` largest |scores|, in any order: (guesses,).
    surest = np.argpartition(-np.abs(scores), guesses - 1)[:guesses]
    return int(((scores[surest] > 0.0) == coins[surest]).sum())


def guess_count(rehearsal: CanaryRehearsal, expected: FloatArray, bound: Bound) -> int:
    """Return for how many guesses `bound` is largest, if the claim is exactly true.

    `expected` is what `expected_accuracy` returns.  Nothing that was observed goes into it: the
    number of guesses by which one standard deviation fewer are right than expected shows the most.
    """
    units = rehearsal.canaries
    best, count = 0.0, max(MIN_GUESSES, units // 20)
    for share in GUESSED_SHARES:
        guesses = round(share * units)
        if guesses < MIN_GUESSES:
            continue
        # A normal approximation, only for the power: right guesses less one standard deviation.
        rate = float(expected[round(share * SIMULATED_UNITS) - 1])
        right = rate * guesses - (rate * (1.0 - rate) * guesses) ** 0.5
        value = bound(guesses, max(0, int(right)))
        if value > best:
            best, count = value, guesses
    return count


def expected_accuracy(rehearsal: CanaryRehearsal) -> FloatArray:
    """Return which share of the n surest guesses is right under the claim, for n from 1."""
    rng = np.random.default_rng(0)
    # The claimed Gaussian mechanism itself: x ~ N(+-shift, 1) where drawn, N(0, 1) otherwise.
    coins = rng.random(SIMULATED_UNITS) < 0.5
    moved = np.where(coins, 1.0, -1.0 if rehearsal.opposite else 0.0)
    scores = np.zeros(SIMULATED_UNITS)
    for shift in rehearsal.shifts:
        # Of rows that a unit does not move the score takes no notice, unless no row is moved.
        if shift == 0.0 and rehearsal.shift != 0.0:
            continue
        drawn = rng.random(SIMULATED_UNITS) < rehearsal.rate
        seen = rng.standard_normal(SIMULATED_UNITS) + drawn * (shift * moved)
        scores += likelihood_ratios(seen[None], shift, rehearsal.rate, opposite=rehearsal.opposite)
    # Running share of right guesses, surest first: (units,).
    surest = np.argsort(-np.abs(scores))
    right = (scores > 0.0) == coins
    return np.asarray(np.cumsum(right[surest]) / np.arange(1, SIMULATED_UNITS + 1))
