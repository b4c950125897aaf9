"""The worst pattern under a minimum separation, by dynamic programmes over its last round.

**Trees** of any size need none: C has a row for every complete node and ones for the rounds under
it, so with n_v of a unit's rounds under node v the sum of C^T C over pairs of them is sum_v n_v^2:
no entry is negative, so equal contributions attain it.  A node of w rounds holds at most
ceil(w / b) that are b apart, and one level's nodes hold no more than all k rounds: a level adds at
most k min(k, ceil(w / b)).  From below the earliest rounds count, which attain that where whole
nodes are filled.
Source: Kairouz et al. 2021, arXiv 2103.00039 (trees); the bound is derived here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ...arrays import FloatArray, IndexArray
from .directions import Squares
from .participations import SeparatedRounds
from .strategies import require_steps

MAX_WINDOW_STATES: Final = 256
"""Most ways the last gaps of a pattern can be, in an exact dynamic programme."""

MAX_ROW_STEPS: Final = 5e7
"""Most steps of exact dynamic programmes in all rows; beyond, quicker bounds are taken."""


MAX_CHAIN_STEPS: Final = 1e8
"""Most steps of a dynamic programme over patterns; beyond, quicker bounds are taken."""


def shifted_sums(values: FloatArray, count: int, apart: int) -> FloatArray:
    """Return at each place the sum of `values` there and at 1, 2, ..., count - 1 times `apart`
    before it, by doubling: 2 log2(count) additions for each.

    >>> shifted_sums(np.array([1.0, 10.0, 100.0, 1000.0, 10000.0]), 2, 2).tolist()
    [1.0, 10.0, 101.0, 1010.0, 10100.0]
    """
    total = np.zeros_like(values)
    doubled, width, done = values, apart, 0
    while count and done < values.size:
        if count % 2:
            total[done:] += doubled[: values.size - done]
            done += width
        count //= 2
        if width < values.size:
            grown = doubled.copy()
            grown[width:] += doubled[: values.size - width]
            doubled = grown
        width *= 2
    return total


def chain_steps(
    links: Mapping[int, FloatArray], allowed: SeparatedRounds, states: int = 1
) -> float:
    """Return about how many steps `largest_sum` takes, given in how many ways gaps can be."""
    reach = min(max(links, default=0) + 1, allowed.steps)
    gaps = 1 + max(reach - allowed.separation, 0)
    return float(allowed.most) * allowed.steps * gaps * states


def even_sum(
    weights: FloatArray, links: Mapping[int, FloatArray], allowed: SeparatedRounds
) -> float:
    """Return the largest sum that rounds at an even distance from the first on weigh together.

    Only rounds that follow each other are linked.  Distances are those of links, and the least.
    """
    best = 0.0
    for stride in {allowed.separation, *links}:
        rounds = np.arange(0, weights.size, stride)[: allowed.most]
        total = float(weights[rounds].sum())
        if stride in links:
            total += float(links[stride][rounds[:-1]].sum())
        best = max(best, total)
    return best


def sum_of_stretches(
    weights: FloatArray, links: Mapping[int, FloatArray], allowed: SeparatedRounds
) -> float:
    """Return no less than `largest_sum`, where only rounds that follow each other are linked.

    A round but the first counts with its largest link to an earlier one, and of `separation`
    rounds in a row at most one is of a pattern.
    """
    reached = np.zeros_like(weights)
    for lag, link in links.items():
        reached[lag:] = np.maximum(reached[lag:], link)
    heaviest = np.maximum.reduceat(
        weights + reached, np.arange(0, weights.size, allowed.separation)
    )
    later = np.sort(heaviest)[::-1][: allowed.most]
    every = float(later.sum())
    return min(every, float(weights.max()) + float(later[: allowed.most - 1].sum()))


def window_states(separation: int, reach: int) -> int:
    """Return how many ways the gaps before a round can be, as far as rounds `reach` later know.

    Two rounds meet in C^T C if they are less than `reach` apart.

    >>> window_states(3, 6), window_states(2, 6), window_states(1, 5)
    (1, 3, 8)
    """
    ways = [1] + [0] * max(reach, 1)
    for total in range(separation, reach - separation):
        ways[total] = sum(ways[: total - separation + 1])
        if ways[total] > MAX_WINDOW_STATES:
            break
    return sum(ways)


def largest_sum(
    weights: FloatArray, links: Mapping[int, FloatArray], allowed: SeparatedRounds
) -> float:
    """Return the largest sum, over patterns, of what rounds weigh and what links each two of them.

    A pattern weighs sum_p `weights`[p] + sum_{p < q} `links`[q - p][p], where a lag without links
    adds 0.  All weights and links are 0 or above.

    >>> allowed = SeparatedRounds(4, 2, 2)
    >>> largest_sum(np.array([1.0, 3.0, 1.0, 1.0]), {2: np.array([5.0, 0.0])}, allowed)
    7.0
    """
    steps, apart = weights.size, allowed.separation
    reach = min(max(links, default=0) + 1, steps)
    # For each way the last gaps can be: the best pattern so far that ends in each round.
    states: dict[tuple[int, ...], FloatArray] = {(): weights}
    best = float(weights.max())
    for _ in range(allowed.most - 1):
        before = np.maximum.accumulate(np.max(list(states.values()), axis=0))
        far = np.full(steps, -np.inf)
        # Rounds that are nearer count for less here than below, where their links are added.
        far[apart:] = before[: steps - apart] + weights[apart:]
        grown: dict[tuple[int, ...], FloatArray] = {(): far}
        for gaps, ended in states.items():
            for gap in range(apart, reach):
                value = np.full(steps, -np.inf)
                value[gap:] = ended[: steps - gap] + weights[gap:]
                kept, distance = [], 0
                for each in (gap, *gaps):
                    distance += each
                    if distance in links:
                        value[distance:] += links[distance]
                    if distance + apart < reach:
                        kept.append(each)
                known = grown.get(tuple(kept))
                grown[tuple(kept)] = value if known is None else np.maximum(known, value)
        states = {gaps: ended for gaps, ended in grown.items() if np.isfinite(ended).any()}
        if not states:
            break
        best = max(best, *(float(ended.max()) for ended in states.values()))
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
    """Return, for each round i, the largest sum_j |G_ij| over patterns that hold i, or more."""
    others = allowed.most - 1
    if others * magnitudes.size > MAX_ROW_STEPS:
        return _by_stretches(magnitudes, allowed)
    before = _largest_before(magnitudes, allowed)
    after = _largest_before(magnitudes[::-1, ::-1], allowed)[:, ::-1]
    pairs = [before[count] + after[others - count] for count in range(allowed.most)]
    return np.asarray(magnitudes.diagonal() + np.max(pairs, axis=0))


def _largest_before(magnitudes: FloatArray, allowed: SeparatedRounds) -> FloatArray:
    """Return, for each count and round i, the largest sum in row i over so many rounds before it.

    They are at least `separation` before i, and from one another, and at most `count` of them.
    """
    steps, apart = len(magnitudes), allowed.separation
    rounds = np.arange(steps)
    first = np.maximum(rounds - apart + 1, 0)
    result = np.zeros((allowed.most, steps))
    # best[i, t]: the largest sum in row i over the first t rounds.
    best = np.zeros((steps, steps + 1))
    for count in range(1, allowed.most):
        shorter = np.zeros((steps, steps))
        shorter[:, apart - 1 :] = best[:, : steps - apart + 1]
        best[:, 1:] = np.maximum.accumulate(shorter + magnitudes, axis=1)
        result[count] = best[rounds, first]
    return result


def _by_stretches(magnitudes: FloatArray, allowed: SeparatedRounds) -> FloatArray:
    """Return quicker bounds: beyond i, stretches of `separation` hold one round of a pattern each.

    The largest of the stretches' maxima count, on both sides together.
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
    pulls = magnitudes[:, pattern].sum(axis=1)
    for _ in range(20):
        moved = False
        for index in range(len(rounds)):
            low = rounds[index - 1] + apart if index else 0
            high = rounds[index + 1] - apart if index + 1 < len(rounds) else steps - 1
            span = slice(low, high + 1)
            here = magnitudes[:, rounds[index]]
            gains = magnitudes.diagonal()[span] + 2.0 * (pulls[span] - here[span])
            at = low + int(np.argmax(gains))
            if gains[at - low] > gains[rounds[index] - low] * (1.0 + 1e-9):
                pulls += magnitudes[:, at] - here
                rounds[index], moved = at, True
        if not moved:
            break
    return np.array(rounds, np.intp)


def tree_squares(fan_out: int, allowed: SeparatedRounds) -> Squares:
    """Return bounds on the squared sensitivity, exact for a single round: the number of levels.

    Raises `Unsupported` for more rounds than are computed with.

    >>> tree_squares(2, SeparatedRounds(100_000, 1, 100_000))
    Squares(lower=17.0, upper=17.0, dimensions=1)
    """
    require_steps(allowed.steps)
    rounds = np.arange(allowed.most, dtype=np.int64) * allowed.separation
    lower = upper = 0
    width = 1
    while width <= allowed.steps:
        complete = rounds[rounds < allowed.steps // width * width]
        held = np.unique(complete // width, return_counts=True)[1]
        lower += int((held * held).sum())
        upper += allowed.most * min(allowed.most, -(-width // allowed.separation))
        width *= fan_out
    return Squares(float(lower), float(upper))
