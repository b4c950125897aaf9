"""Which statistic of which units is tested, chosen on some of the canaries and tested on the rest.

Choosing and testing on the same data finds violations in half of all sound mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray
from ..statistics import Counts, counts_at, trade_off, upper_rate
from .rehearsal import Rehearsal
from .scores import fitted

_FRACTION: Final = 0.3
"""The share of the canaries on which is chosen."""

_TAILS: Final = np.concatenate((np.geomspace(1e-3, 0.1, 12), np.linspace(0.12, 0.9, 27)))
"""Rates of false alarms at which thresholds are tried."""

_FEWEST: Final = 20
"""Units of either coin that a statistic is judged on, at least."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen: `statistic` and `group` by name, and its counts on units kept for the test.

    `factor` is how much of the claim's separation it reached where it was chosen: above 1, the
    claim looked wrong there.
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


def chosen(rehearsal: Rehearsal, *, alpha: float, rng: np.random.Generator) -> Choice | None:
    """Return the statistic, the group and the threshold that do best on a part, with their counts.

    Tried are the ratio of the claim, the sum of the rounds, the rounds weighted by a fit, and the
    units of each silo by themselves.  None where either part has too few units.
    """
    assert rehearsal.event is not None
    looking = rng.random(rehearsal.canaries) < _FRACTION
    curve = trade_off(rehearsal.event, rehearsal.neighbours)
    best: tuple[float, str, int | None, FloatArray, BoolArray, float] | None = None
    for name, scores in _statistics(rehearsal, looking):
        for group, units in _groups(rehearsal):
            own = units & looking
            rest = units & ~looking
            if min(_fewest(rehearsal.coins[own]), _fewest(rehearsal.coins[rest])) < _FEWEST:
                continue
            value, threshold = _judged(scores[own], rehearsal.coins[own], curve, alpha)
            if best is None or value > best[0]:
                best = (value, name, group, scores, rest, threshold)
    if best is None:
        return None
    value, name, group, scores, rest, threshold = best
    counts = counts_at(scores[rest], rehearsal.coins[rest], threshold)
    return Choice(name, group, threshold, counts, value)


def _statistics(rehearsal: Rehearsal, looking: BoolArray) -> Iterator[tuple[str, FloatArray]]:
    seen = rehearsal.observations
    yield "ratio", rehearsal.scores
    if rehearsal.rate < 1.0:
        yield "sum", seen.sum(axis=0)
    weights = fitted(seen[:, looking], rehearsal.coins[looking])
    if weights is not None:
        yield "fitted", weights @ seen


def _groups(rehearsal: Rehearsal) -> Iterator[tuple[int | None, BoolArray]]:
    yield None, np.ones(rehearsal.canaries, bool)
    found = np.unique(rehearsal.groups)
    if len(found) > 1:
        for group in found.tolist():
            yield group, rehearsal.groups == group


def _fewest(coins: BoolArray) -> int:
    into = int(coins.sum())
    return min(into, len(coins) - into)


def _judged(
    scores: FloatArray, coins: BoolArray, curve: Callable[[FloatArray], FloatArray], alpha: float
) -> tuple[float, float]:
    """Return how much of the claim's separation is surely reached, and at which threshold.

    With z the quantile of the standard normal distribution, F and N upper limits of the rates:
    (z(1 - F) - z(N)) / (z(1 - F) - z(f(F))): 1 on the claimed curve, above 1 beyond it.
    """
    from scipy.special import ndtri

    out, into = np.sort(scores[~coins]), np.sort(scores[coins])
    places = np.unique((len(out) * (1.0 - _TAILS)).astype(np.int64).clip(0, len(out) - 1))
    thresholds = out[places]
    alarms = len(out) - np.searchsorted(out, thresholds, side="right")
    misses = np.searchsorted(into, thresholds, side="right")
    f = np.asarray(upper_rate(alarms, len(out), alpha / 2.0))
    n = np.asarray(upper_rate(misses, len(into), alpha / 2.0))
    with np.errstate(all="ignore"):
        reached = -ndtri(f) - ndtri(n)
        claimed = -ndtri(f) - ndtri(np.asarray(curve(f)))
        values = np.where(claimed > 0.0, reached / claimed, -np.inf)
    values = np.where(np.isnan(values), -np.inf, values)
    best = int(values.argmax())
    return float(values[best]), float(thresholds[best])
