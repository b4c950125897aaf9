"""How well scores tell members from strangers: ROC and area.

The unit is the row.  For inference about users there is one row for each user, not for each of
their records, which are not independent of each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ...accountant import validate
from ...accountant.arrays import FloatArray
from .binomial import as_scores


@dataclass(frozen=True, eq=False)
class Roc:
    """Rates of `false_alarms` and `hits` at falling `thresholds` (member if the score is above).

    All have shape (points,); the first point is (0, 0), the last (1, 1).  `auc` is the area, the
    probability that a member scores above a stranger (ties count half); `members` and `strangers`
    are how many there were.
    """

    false_alarms: FloatArray
    hits: FloatArray
    thresholds: FloatArray
    auc: float
    inside: FloatArray
    outside: FloatArray

    @property
    def members(self) -> int:
        """Number of members."""
        return self.inside.size

    @property
    def strangers(self) -> int:
        """Number of strangers."""
        return self.outside.size

    def auc_interval(self, alpha: float = 0.05) -> tuple[float, float]:
        """Return an interval for the area that misses it with probability at most `alpha`.

        For any laws of scores and any number of units: with n = min(members, strangers) the area is
        an average, over ways to pair them up, of means of n independent values in [0, 1], so
        P[area off upwards] <= exp(-n KL(area seen, truth)), and likewise downwards.
        Source: Hoeffding 1963, JASA 58, Section 5 (U-statistics) with Theorem 1.
        """
        budget = math.log(2.0 / validate.open_probability(alpha=alpha))
        # The U-statistic is an average of means of n independent pairs, so Hoeffding's bound for
        # n values holds of it; half of alpha for each side.
        n = min(self.members, self.strangers)
        below = _kl_end(self.auc, 0.0, budget / n)
        return below, _kl_end(self.auc, 1.0, budget / n)

    def curve(self, points: int = 400) -> tuple[tuple[float, float], ...]:
        """Return at most about so many (false alarm rate, hit rate) pairs, dense near 0."""
        most = validate.count_from(2, points=points)
        size = self.false_alarms.size
        if size > most:
            # Half of the points are dense near 0 false alarms, where attacks are judged.
            near = np.geomspace(1.0, size - 1.0, most // 2).astype(int)
            even = np.linspace(0.0, size - 1.0, most - most // 2).astype(int)
            picked = np.unique(np.concatenate((near, even)))
        else:
            picked = np.arange(size)
        chosen = zip(self.false_alarms[picked].tolist(), self.hits[picked].tolist(), strict=True)
        return tuple(chosen)


def roc(scores: ArrayLike, members: ArrayLike) -> Roc:
    """Return the ROC of scores (higher: rather a member); both arguments have shape (units,).

    Raises `InvalidInput` for scores that are not numbers, and where there are no members, or no
    strangers.

    >>> roc([0.9, 0.8, 0.3, 0.1], [True, False, True, False]).auc
    0.75
    """
    score, member = as_scores(scores, members)
    inside, outside = score[member], score[~member]
    order = np.argsort(-score, kind="stable")
    falling = score[order]
    # One point for each distinct score: equal scores cannot be told apart by any threshold.
    last = np.append(falling[1:] != falling[:-1], True)  # of each run of equal scores
    alarms = np.cumsum(~member[order])[last] / outside.size
    hits = np.cumsum(member[order])[last] / inside.size
    lowest = np.append(falling[last][1:], -math.inf)
    area = float(_shares_below(inside, outside).mean())
    return Roc(
        np.append(0.0, alarms),
        np.append(0.0, hits),
        np.append(falling[0], lowest),
        area,
        inside,
        outside,
    )


def _shares_below(scores: FloatArray, others: FloatArray) -> FloatArray:
    """Return for each score which share of the others lies below it; equal ones count half."""
    # (#below + #below-or-equal) / 2 counts ties by half.
    ascending = np.sort(others)
    both = np.searchsorted(ascending, scores, "left") + np.searchsorted(ascending, scores, "right")
    return np.asarray(0.5 * both / others.size)


def relative_entropy(p: float, q: float) -> float:
    """Return KL(p, q) = p ln(p / q) + (1 - p) ln((1 - p) / (1 - q)), in nats."""
    total = 0.0
    for a, b in ((p, q), (1.0 - p, 1.0 - q)):
        if a > 0.0:
            if b <= 0.0:
                return math.inf
            total += a * math.log(a / b)
    return total


def _kl_end(seen: float, end: float, budget: float) -> float:
    """Return the value between `seen` and `end` whose KL from seen is `budget`, towards `end`."""
    # Bisection towards `end`; what is returned lies on the outer side, so an interval is not cut.
    near, far = seen, end
    for _ in range(100):
        middle = 0.5 * (near + far)
        near, far = (middle, far) if relative_entropy(seen, middle) <= budget else (near, middle)
    return far
