"""Sample splitting: statistic, group and threshold are chosen on some canaries, tested on the rest.

Choosing and testing on the same data finds violations in half of all sound mechanisms.

**How many canaries are guessed** is fixed by the claim.  The bounds of one run hold for a number of
guesses that was fixed beforehand.  The claimed mechanism is simulated with a fixed seed, and the
number is the one with the largest expected bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray
from ..statistics import Counts, counts_at, trade_off, upper_rate
from .rehearsal import CanaryRehearsal, fisher_weights, likelihood_ratios

SELECTION_FRACTION: Final = 0.3
"""The share of the canaries on which the choice is made."""

CANDIDATE_FALSE_ALARM_RATES: Final = np.concatenate(
    (np.geomspace(1e-3, 0.1, 12), np.linspace(0.12, 0.9, 27))
)
"""False alarm rates at which thresholds are tried."""

MIN_UNITS_PER_COIN: Final = 20
"""Least number of units of either coin on which a statistic is compared, or tested."""


@dataclass(frozen=True, eq=False)
class Choice:
    """A statistic and a group by name, and the counts of its test on the units kept for it.

    `factor` is the share of the claimed separation that it reached on the units of the choice:
    above 1 the claim looked wrong there.
    """

    statistic: str
    group: int | None
    threshold: float
    counts: Counts
    factor: float

    @property
    def where(self) -> str:
        """The group, for people."""
        return "all" if self.group is None else f"silo-{self.group}"


def choose_test(
    rehearsal: CanaryRehearsal, *, alpha: float, rng: np.random.Generator
) -> Choice | None:
    """Return the statistic, the group and the threshold that do best on a part, with their counts.

    Tried are the ratio of the claim, the sum of the rounds, the rounds weighted by a fit, and the
    units of each silo by themselves.  None where either part has too few units.
    """
    assert rehearsal.event is not None
    # Drawn independently of scores and coins, so that the tested units are a fresh sample.
    selection = rng.random(rehearsal.canaries) < SELECTION_FRACTION
    curve = trade_off(rehearsal.event, rehearsal.neighbours)
    best: tuple[float, str, int | None, FloatArray, BoolArray, float] | None = None
    for name, scores in _statistics(rehearsal, selection):
        for group, units in _groups(rehearsal):
            chosen_on = units & selection
            tested_on = units & ~selection
            if (
                min(
                    smaller_side(rehearsal.coins[chosen_on]),
                    smaller_side(rehearsal.coins[tested_on]),
                )
                < MIN_UNITS_PER_COIN
            ):
                continue
            value, threshold = _best_threshold(
                scores[chosen_on], rehearsal.coins[chosen_on], curve, alpha
            )
            if best is None or value > best[0]:
                best = (value, name, group, scores, tested_on, threshold)
    if best is None:
        return None
    value, name, group, scores, tested_on, threshold = best
    counts = counts_at(scores[tested_on], rehearsal.coins[tested_on], threshold)
    return Choice(name, group, threshold, counts, value)


def _statistics(
    rehearsal: CanaryRehearsal, selection: BoolArray
) -> Iterator[tuple[str, FloatArray]]:
    seen = rehearsal.observations
    yield "ratio", rehearsal.scores
    if rehearsal.rate < 1.0:
        yield "sum", seen.sum(axis=0)
    # Fitted on the selection only, so that the tested units have no say in it.
    weights = fisher_weights(seen[:, selection], rehearsal.coins[selection])
    if weights is not None:
        yield "fitted", weights @ seen


def _groups(rehearsal: CanaryRehearsal) -> Iterator[tuple[int | None, BoolArray]]:
    yield None, np.ones(rehearsal.canaries, bool)
    groups = np.unique(rehearsal.groups)
    if len(groups) > 1:
        for group in groups.tolist():
            yield group, rehearsal.groups == group


def smaller_side(coins: BoolArray) -> int:
    into = int(coins.sum())
    return min(into, len(coins) - into)


def _best_threshold(
    scores: FloatArray, coins: BoolArray, curve: Callable[[FloatArray], FloatArray], alpha: float
) -> tuple[float, float]:
    """Return how much of the claim's separation is surely reached, and at which threshold.

    With z the quantile of the standard normal distribution, F and N upper limits of the rates:
    (z(1 - F) - z(N)) / (z(1 - F) - z(f(F))): 1 on the claimed curve, above 1 beyond it.
    """
    from scipy.special import ndtri

    # Negatives and positives, ascending; thresholds are quantiles of the negatives.
    out, into = np.sort(scores[~coins]), np.sort(scores[coins])
    places = np.unique(
        (len(out) * (1.0 - CANDIDATE_FALSE_ALARM_RATES)).astype(np.int64).clip(0, len(out) - 1)
    )
    thresholds = out[places]
    alarms = len(out) - np.searchsorted(out, thresholds, side="right")
    misses = np.searchsorted(into, thresholds, side="right")
    f = np.asarray(upper_rate(alarms, len(out), alpha / 2.0))
    n = np.asarray(upper_rate(misses, len(into), alpha / 2.0))
    # Upper limits of both rates, alpha / 2 each.  Whatever is chosen here, the test is valid.
    with np.errstate(all="ignore"):
        reached = -ndtri(f) - ndtri(n)
        claimed = -ndtri(f) - ndtri(np.asarray(curve(f)))
        values = np.where(claimed > 0.0, reached / claimed, -np.inf)
    # inf - inf where a rate's limit is 1: such a threshold shows nothing.
    values = np.where(np.isnan(values), -np.inf, values)
    best = int(values.argmax())
    return float(values[best]), float(thresholds[best])


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
