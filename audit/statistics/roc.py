"""How well scores tell members from strangers: ROC, area, and hits at a few false alarms.

The unit is the row.  For inference about users there is one row for each user, not for each of
their records, which are not independent of each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant import validate
from ...accountant.errors import InvalidInput
from .binomial import as_scores, lower_rate, upper_rate
from .exchangeable import kl

Array = NDArray[np.float64]

SLACK: Final = 1e-9
"""So that 1% of 100 strangers is one of them, whatever the rounding."""


@dataclass(frozen=True)
class TprAt:
    """The rate of hits at a false alarm rate: what was seen, and an interval for the truth.

    `threshold` is the score above which a unit is called a member.  [lower, upper] contains the hit
    rate of that threshold, and `fpr_upper` is an upper end of its false alarm rate; all three
    statements together are wrong with probability at most alpha.
    """

    fpr: float
    tpr: float
    lower: float
    upper: float
    threshold: float
    fpr_upper: float


@dataclass(frozen=True, eq=False)
class Roc:
    """Rates of `false_alarms` and `hits` at falling `thresholds` (member if the score is above).

    All have shape (points,); the first point is (0, 0), the last (1, 1).  `auc` is the area, the
    probability that a member scores above a stranger (ties count half); `members` and `strangers`
    are how many there were.
    """

    false_alarms: Array
    hits: Array
    thresholds: Array
    auc: float
    inside: Array
    outside: Array

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
        n = min(self.members, self.strangers)
        below = _kl_end(self.auc, 0.0, budget / n)
        return below, _kl_end(self.auc, 1.0, budget / n)

    @property
    def standard_error(self) -> float:
        """The standard error of the area by DeLong's formula: asymptotic, for a plot's error bar.

        Source: DeLong, DeLong, Clarke-Pearson 1988, Biometrics 44(3).  nan with fewer than two
        units on a side.
        """
        if min(self.members, self.strangers) < 2:
            return math.nan
        by_member = _shares_below(self.inside, self.outside)
        by_stranger = _shares_below(self.outside, self.inside)
        spread = by_member.var(ddof=1) / self.members + by_stranger.var(ddof=1) / self.strangers
        return math.sqrt(float(spread))

    def tpr_at(self, fpr: float, alpha: float = 0.05) -> TprAt:
        """Return the hit rate at a false alarm rate, with Clopper-Pearson intervals.

        The threshold is the (k+1)-th largest score of a stranger, k = floor(fpr x strangers); it
        does not depend on the members, whose hits are then binomial, and its own false alarm rate
        has the upper end that Clopper-Pearson gives for k.  Alpha is divided by three.  Range:
        `fpr` in (0, 1), with at least 1 / fpr strangers: below that no threshold is known to have
        that false alarm rate, and `InvalidInput` says how many are needed.
        """
        validate.open_probability(fpr=fpr)
        level = validate.open_probability(alpha=alpha) / 3.0
        allowed = min(math.floor(fpr * self.strangers + SLACK), self.strangers - 1)
        if allowed < 1:
            raise InvalidInput(
                f"A hit rate at {fpr:g} false alarms needs at least {math.ceil(1.0 / fpr - SLACK)} "
                f"units that were out; there are {self.strangers}.",
                "With fewer, not one false alarm could be told from none.",
                "Use more units, or ask for a larger rate of false alarms.",
            )
        rank = self.strangers - 1 - allowed
        threshold = float(np.partition(self.outside, rank)[rank])
        hits = int((self.inside > threshold).sum())
        return TprAt(
            fpr,
            hits / self.members,
            lower_rate(hits, self.members, level),
            upper_rate(hits, self.members, level),
            threshold,
            upper_rate(allowed, self.strangers, level),
        )

    def curve(self, points: int = 400) -> tuple[tuple[float, float], ...]:
        """Return at most about so many (false alarm rate, hit rate) pairs, dense near 0."""
        most = validate.count_from(2, points=points)
        size = self.false_alarms.size
        if size > most:
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


def _shares_below(scores: Array, others: Array) -> Array:
    """Return for each score which share of the others lies below it; equal ones count half."""
    ascending = np.sort(others)
    both = np.searchsorted(ascending, scores, "left") + np.searchsorted(ascending, scores, "right")
    return np.asarray(0.5 * both / others.size)


def _kl_end(seen: float, end: float, budget: float) -> float:
    """Return the value between `seen` and `end` whose KL from seen is `budget`, towards `end`."""
    near, far = seen, end
    for _ in range(100):
        middle = 0.5 * (near + far)
        near, far = (middle, far) if kl(seen, middle) <= budget else (near, middle)
    return far
