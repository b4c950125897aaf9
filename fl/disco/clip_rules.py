"""The clip of a round: fixed, from the noisy mean of the round before, or a noisy quantile.

    previous   C' = min(C_0, max(1.5 |u|, C_0 / 20)),   |u|^2 = max(|noisy mean|^2 - D s^2, 0)
    quantile   C' = C exp(-.2 (b - 1/2)),               b = the noisy share of norms of at most C

C_0 is the clip of [training], s the deviation of the noise in one number of the mean.  The first
is a function of what was released, and free.  The second releases a sum of b_i - 1/2 over the
peers, b_i = 1 where peer i's norm is at most C: as it moves by at most 1, its bound is 1/2, and its
noise and that of the update are together worth the noise multiplier of the round,

    z^-2 = z_count^-2 + z_update^-2,      z_count^-2 = .1 z^-2.

A peer whose norm is at most C pulls the clip down, as the share of *unclipped* updates is compared
with 1/2: the other way round it would run off.

Source: Andrew, Thakkar, McMahan and Ramaswamy 2021, *Differentially private learning with adaptive
clipping*, arXiv 1905.03871v5, section 2 and Theorem 1, with half as the quantile and .2 as its
rate.  There the deviation of the count is m / 20; for as few peers as 20 that would leave the
update hardly any budget, so the count has a fixed part of it instead.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.sensitivity.release import root_up
from .settings import PREVIOUS, QUANTILE, ClipRule

COUNT_BOUND: Final = 0.5
"""How far b_i - 1/2 lies from zero at most."""

COUNT_PART: Final = Fraction(1, 10)
"""The part of a round's budget (of 1 / z^2) that the count has."""

_RATE: Final = 0.2
_FARTHEST: Final = 1e3
"""How far the clip may go from the first one, as a factor: farther it would be a mistake."""

_ABOVE_MEAN: Final = 1.5
_LEAST_PART: Final = 0.05


def range_of(rule: ClipRule, first: float, number: int) -> tuple[float, float]:
    """Return the least and the largest clip that round `number` (from 1) may have, of C_0.

    A hair wider than the rules are, for what a float rounds off on its way.
    """
    if rule == PREVIOUS and number > 1:
        return _LEAST_PART * first, first
    if rule == QUANTILE and number > 1:
        farthest = min(math.exp((number - 1) * _RATE / 2.0) * (1.0 + number * 2.0**-48), _FARTHEST)
        return first / farthest, first * farthest
    return first, first


def count_multiplier(noise_multiplier: float) -> float:
    """Return z_count, rounded up, for the noise multiplier z of a round."""
    return root_up(Fraction(noise_multiplier) ** 2 / COUNT_PART)


def update_multiplier(noise_multiplier: float) -> float:
    """Return z_update, rounded up, for the noise multiplier z of a round."""
    return root_up(Fraction(noise_multiplier) ** 2 / (1 - COUNT_PART))


def count_terms(norms: FloatArray, clip: float) -> FloatArray:
    """Return b_i - 1/2 of each peer, (peers, 1), of the norms (peers,) of their updates.

    A norm that is no number counts as above the clip.
    """
    return np.where(norms <= clip, COUNT_BOUND, -COUNT_BOUND)[:, None]


def from_count(clip: float, first: float, noisy_count: float, peers: int) -> float:
    """Return the next clip, of the noisy sum of b_i - 1/2 over so many peers."""
    share = min(max(noisy_count / peers + 0.5, 0.0), 1.0)
    moved = clip * math.exp(-_RATE * (share - 0.5))
    return min(max(moved, first / _FARTHEST), first * _FARTHEST)


def from_noisy_mean(first: float, mean: FloatArray, std: float) -> float:
    """Return the next clip, of the noisy mean (D,) whose numbers have noise of deviation `std`."""
    square = float(mean @ mean) - mean.size * std * std
    estimate = math.sqrt(max(square, 0.0))
    return min(first, max(_ABOVE_MEAN * estimate, _LEAST_PART * first))
