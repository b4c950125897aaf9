"""The worst pattern under a minimum separation, by dynamic programmes over its last round."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...arrays import FloatArray, IndexArray
from .participations import SeparatedRounds


def largest_chain(
    weights: FloatArray, links: Mapping[int, FloatArray], allowed: SeparatedRounds
) -> float:
    """Return the largest sum over patterns of what rounds weigh, and neighbours on the pattern.

    A pattern p_1 < p_2 < ... weighs sum_i `weights`[p_i] + sum_i `links`[p_{i+1} - p_i][p_i],
    where a lag without links adds 0.  All weights and links are 0 or above.

    >>> allowed = SeparatedRounds(4, 2, 2)
    >>> largest_chain(np.array([1.0, 3.0, 1.0, 1.0]), {2: np.array([5.0, 0.0])}, allowed)
    7.0
    """
    steps, apart = weights.size, allowed.separation
    lags = sorted(lag for lag in links if apart <= lag < steps)
    ended = weights.copy()  # the best pattern of so many rounds that ends in each round
    best = float(ended.max())
    for _ in range(allowed.most - 1):
        before = np.maximum.accumulate(ended)
        grown = np.full(steps, -np.inf)
        grown[apart:] = before[: steps - apart]
        for lag in lags:
            np.maximum(grown[lag:], ended[: steps - lag] + links[lag], out=grown[lag:])
        ended = grown + weights
        if np.isneginf(ended).all():
            break
        best = max(best, float(ended.max()))
    return best


def heaviest_pattern(weights: FloatArray, allowed: SeparatedRounds) -> IndexArray:
    """Return a pattern with the largest sum of `weights`, which are 0 or above."""
    steps, apart, most = weights.size, allowed.separation, allowed.most
    # best[m, t]: the largest sum of at most m of the first t rounds.
    best = np.zeros((most + 1, steps + 1))
    for size in range(1, most + 1):
        shorter = np.zeros(steps)
        shorter[apart - 1 :] = best[size - 1, : steps - apart + 1]
        best[size, 1:] = np.maximum.accumulate(shorter + weights)
    chosen = []
    size, end = most, steps
    while size > 0 and end > 0:
        if best[size, end] == best[size, end - 1]:
            end -= 1
            continue
        chosen.append(end - 1)
        size, end = size - 1, max(end - apart, 0)
    return np.array(chosen[::-1], np.intp)


def row_bounds(magnitudes: FloatArray, allowed: SeparatedRounds) -> FloatArray:
    """Return, for each round i, a bound on sum_j |G_ij| over patterns that hold i.

    Beyond i the rounds fall into stretches of `separation`, on either side, each of which holds at
    most one round of the pattern: the largest of the stretches' maxima count.
    """
    steps, apart, others = len(magnitudes), allowed.separation, allowed.most - 1
    bounds = np.empty(steps)
    for index, row in enumerate(magnitudes):
        after, before = row[index + apart :], row[: max(index - apart + 1, 0)][::-1]
        maxima = [
            np.maximum.reduceat(side, np.arange(0, side.size, apart))
            for side in (after, before)
            if side.size
        ]
        stretches = np.sort(np.concatenate(maxima))[::-1] if maxima else np.zeros(0)
        bounds[index] = row[index] + stretches[:others].sum()
    return bounds


def climbed(magnitudes: FloatArray, pattern: IndexArray, allowed: SeparatedRounds) -> IndexArray:
    """Return a pattern that no move of a single round improves, in the sum of |G| over pairs."""
    rounds = list(pattern)
    steps, apart = len(magnitudes), allowed.separation
    for _ in range(20):
        moved = False
        for index in range(len(rounds)):
            others = rounds[:index] + rounds[index + 1 :]
            low = rounds[index - 1] + apart if index else 0
            high = rounds[index + 1] - apart if index + 1 < len(rounds) else steps - 1
            span = slice(low, high + 1)
            gains = magnitudes.diagonal()[span] + 2.0 * magnitudes[span, others].sum(axis=1)
            at = low + int(np.argmax(gains))
            if gains[at - low] > gains[rounds[index] - low] * (1.0 + 1e-12):
                rounds[index], moved = at, True
        if not moved:
            break
    return np.array(rounds, np.intp)
