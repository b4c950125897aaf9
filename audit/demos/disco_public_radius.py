"""The control of DISCO's radius: the same noise, with radii that are public constants.

Replacing a client moves each tensor of each round from -r to r along one direction, so the best
test of all R L releases is the score

    (sum of the coordinates along it + R L) / (z sqrt(R L senders)),

a standard Gaussian for one update, and one shifted by mu = 2 sqrt(R L / senders) / z for the other.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.special import ndtr

from ...accountant.arrays import FloatArray
from ..statistics import Counts

RADIUS_ROUNDS: Final = 20
PUBLIC_TENSORS: Final = 6
PUBLIC_RUNS: Final = 100_000
PUBLIC_SUM_RUNS: Final = 20_000
PUBLIC_THRESHOLD: Final = 3.5
PUBLIC_SUM_THRESHOLD: Final = 1.5
"""Of radii that are public: the threshold in deviations of the score, fixed before it is drawn."""


def exact_public_epsilon(multiplier: float, senders: int, threshold: float, delta: float) -> float:
    """Return ln((p - delta) / q) of the score of `public_score` above a threshold.

    p = Phi(mu - threshold), q = Phi(-threshold), mu = 2 sqrt(R L / senders) / z.
    """
    shift = 2.0 * math.sqrt(RADIUS_ROUNDS * PUBLIC_TENSORS / senders) / multiplier
    return math.log((float(ndtr(shift - threshold)) - delta) / float(ndtr(-threshold)))


def public_score(
    sign: int, senders: int, multiplier: float, runs: int, rng: np.random.Generator
) -> FloatArray:
    """Return the score (runs,) of all releases of a client that moved by `sign` times its radii.

    Every radius is 1, and `sign` 1 or -1; of what is sent only the coordinate along the direction
    says anything, and only that is drawn.  The noise of `senders` messages is in it.
    """
    releases, spread = RADIUS_ROUNDS * PUBLIC_TENSORS, multiplier * math.sqrt(senders)
    scores = np.zeros(runs)
    for _ in range(releases):
        # One release: the client's movement, and the noise of every sender.
        scores += float(sign)
        for _ in range(senders):
            scores += multiplier * rng.standard_normal(runs)
    return np.asarray((scores + releases) / (spread * math.sqrt(releases)))


def counts_of_public_radii(
    senders: int, runs: int, threshold: float, multiplier: float, rng: np.random.Generator
) -> Counts:
    """Return how often the score exceeds a threshold that was fixed before, for either update."""
    hits, alarms = (
        int((public_score(sign, senders, multiplier, runs, rng) > threshold).sum())
        for sign in (1, -1)
    )
    return Counts(alarms, runs, runs - hits, runs)
