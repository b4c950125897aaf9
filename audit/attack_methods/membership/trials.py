"""How well scores tell members from strangers, where trials share users, targets and shadows.

A trial is one unit under one target: in or out by a coin, and a score.  Trials of one user under
several targets, and of several users under one target, are not independent: a user may look like a
member everywhere, and a target may be surer of everybody.  So variances are clustered both ways,

    V = V_users + V_targets - V_trials,   and at least the largest of the three,

of the influence of each trial on the statistic.  The AUC's interval is that of its logit with
Student's t; that of a rate is Clopper and Pearson's with the effective number of trials
p (1 - p) / V.  Few false alarms say nothing of whether they are one user's, so that number is the
least over this threshold and over those between it and the median.  Both are asymptotic in users
and in targets.  Where every user has one trial, as under a single target, the finite-sample
intervals of `audit.statistics` are used, and speak of that one model.

Intervals are for these shadows: others would give another attack.

Source: DeLong, DeLong and Clarke-Pearson 1988, Biometrics 44 (influence of a trial on the AUC);
Cameron, Gelbach and Miller 2011, JBES 29 (two-way clusters); Korn and Graubard 1998, Survey
Methodology 24 (Clopper-Pearson with an effective number).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from ....accountant import validate
from ....accountant.arrays import BoolArray, FloatArray, IntArray
from ....accountant.errors import InvalidInput
from ...measurement import Curve
from ...statistics.roc import Roc, roc
from .evidence import (
    refuse_nan,
)


@dataclass(frozen=True, eq=False)
class Trials:
    """The scores of units under targets, (T, units), and the coins, in that shape.

    `user` (units,) says which units are one person's; for a user-level attack each unit is a user.
    Raises `InvalidInput` for scores that are NaN or infinite, for shapes that do not fit, and where
    there are no members or no strangers.
    """

    scores: FloatArray
    members: BoolArray
    user: IntArray

    def __post_init__(self) -> None:
        refuse_nan("scores", self.scores)
        fits = self.scores.ndim == 2 and self.members.shape == self.scores.shape
        if not fits or self.user.shape != self.scores.shape[1:] or self.members.dtype != bool:
            raise InvalidInput(
                "`scores` and `members` must be tables of one shape, targets by units.",
                next_step="Give booleans for `members`, and the user of each unit.",
            )
        require_both(self.members)

    @property
    def targets(self) -> int:
        """How many targets there are."""
        return len(self.scores)

    @cached_property
    def users(self) -> int:
        """How many different users there are."""
        return len(np.unique(self.user))

    @property
    def strangers(self) -> int:
        """How many trials are of a unit that was out."""
        return int((~self.members).sum())

    @cached_property
    def independent(self) -> bool:
        """Whether each trial is of another user."""
        return self.targets == 1 and self.users == len(self.user)

    @cached_property
    def curve(self) -> Roc:
        """The curve of all trials together."""
        return roc(self.scores.ravel(), self.members.ravel())

    def variance(self, influence: FloatArray) -> float:
        """Return the variance of a sum of influences (T, units), clustered by users and targets."""
        users = np.bincount(_numbered(self.user), influence.sum(0)).astype(np.float64)
        # Sums of influences by user, by target, and of each trial alone.
        variances = [
            _cluster_variance(users, self.smaller_side),
            _cluster_variance(influence.sum(1), self.targets),
            _cluster_variance(influence.ravel(), influence.size),
        ]
        # Inclusion-exclusion counts what user and target share once; it may be too small, or
        # negative, so at least the largest of the three.
        return float(max(variances[0] + variances[1] - variances[2], *variances))

    @cached_property
    def smaller_side(self) -> int:
        """How many users there are among members, or among strangers, whichever are fewer."""
        return min(self.user_count(self.members), self.user_count(~self.members))

    def user_count(self, mask: BoolArray) -> int:
        """Return how many different users have one of these trials (T, units)."""
        return len(np.unique(self.user[mask.any(0)]))

    @property
    def freedom(self) -> int:
        """Degrees of freedom of Student's t: the fewest clusters, less one."""
        clusters = self.smaller_side if self.targets == 1 else min(self.smaller_side, self.targets)
        return max(clusters - 1, 1)


def require_both(members: BoolArray) -> None:
    """Raise `InvalidInput` unless somebody was in, and somebody out."""
    if members.all() or not members.any():
        raise InvalidInput(
            "There are no members, or no strangers, to tell from the others.",
            next_step="Give more users, or more targets.",
        )


@dataclass(frozen=True)
class Area:
    """An AUC with its interval."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Hits:
    """The share of members above the threshold that at most `fpr` of the strangers exceed.

    [`lower`, `upper`] is for the rate at this threshold, and `fpr_upper` bounds from above what its
    own rate of false alarms may be: the three together are wrong with probability alpha.
    `effective` is how many independent members the trials are worth.
    """

    fpr: float
    value: float
    lower: float
    upper: float
    threshold: float
    fpr_upper: float
    effective: float


def area(trials: Trials, *, alpha: float = 0.05) -> Area:
    """Return the AUC, with an interval of confidence 1 - `alpha`."""
    validate.open_probability(alpha=alpha)
    value = trials.curve.auc
    if trials.independent:
        low, high = trials.curve.auc_interval(alpha)
        return Area(value, low, high)
    if trials.smaller_side == 1:  # one user against others: how much users differ is not to be seen
        return Area(value, 0.0, 1.0)
    variance = trials.variance(_influence_on_auc(trials, value))
    inner = value * (1.0 - value)
    if inner <= 0.0 or variance <= 0.0:
        # Nothing varies: as many ordered pairs as can be made of different users.
        least = (alpha / 2) ** (1.0 / max(trials.users // 2, 1))
        return Area(value, least if value == 1.0 else 0.0, 1.0 if value else 1.0 - least)
    # Delta method on the logit: its deviation is that of the AUC over AUC (1 - AUC).
    reach = stats.t.ppf(1 - alpha / 2, trials.freedom) * math.sqrt(variance) / inner
    centre = math.log(value / (1.0 - value))
    low, high = (1.0 / (1.0 + math.exp(-centre - side * reach)) for side in (-1.0, 1.0))
    return Area(value, low, high)


def unsupported(trials: Trials, fpr: float) -> str | None:
    """Return why a rate at so few false alarms is not to be had of so few strangers, or None.

    Trials that depend on each other are counted as what they are worth.
    """
    needed, there = math.ceil(1.0 / fpr - 1e-9), trials.strangers
    text = f"not printed: it takes {needed} non-members, and there are {there}"
    if there < needed:
        return text
    worth = _effective_trials(trials, trials.scores > _threshold(trials, fpr), ~trials.members)
    return None if worth >= needed else f"{text} trials that are worth {math.floor(worth)}"


def hits(trials: Trials, fpr: float, *, alpha: float = 0.05) -> Hits:
    """Return the rate of hits where at most `fpr` of the strangers are false alarms.

    Raises `InvalidInput` where the trials of strangers are worth fewer than 1 / `fpr` independent
    ones: the smallest rate that they can show is then above `fpr`.
    """
    validate.open_probability(fpr=fpr)
    validate.open_probability(alpha=alpha)
    refused = unsupported(trials, fpr)
    if refused is not None:
        raise InvalidInput(
            f"The rate of hits at {fpr:.2%} false alarms is {refused}.",
            "The fewest false alarms that can be seen are more than that.",
            "Attack more users or more targets, or ask for more false alarms.",
        )
    threshold = _threshold(trials, fpr)
    called = trials.scores > threshold
    value, low, high, effective = _rate(trials, called, trials.members, alpha / 3)
    false_alarms = _rate(trials, called, ~trials.members, alpha / 3)
    return Hits(fpr, value, low, high, threshold, false_alarms[2], effective)


def plot_curve(trials: Trials, points: int = 200) -> Curve:
    """Return (false alarms, hits) for a plot, dense where false alarms are few."""
    return tuple(trials.curve.curve(points=points))


def _threshold(trials: Trials, fpr: float) -> float:
    """Return the least score that at most `fpr` of the strangers exceed."""
    outside = np.sort(trials.scores[~trials.members])
    allowed = math.floor(fpr * len(outside) + 1e-9)
    return float(outside[len(outside) - 1 - allowed])


def _rate(
    trials: Trials, called: BoolArray, side: BoolArray, level: float
) -> tuple[float, float, float, float]:
    """Return the share of `those` who are `said`, both ends, each at `level`, and their worth."""
    count = int(side.sum())
    value = float(called[side].mean())
    effective = float(count)
    if not trials.independent:
        normal, student = stats.norm.isf(level), stats.t.isf(level, trials.freedom)
        # Scaled by (z / t)^2, as few clusters know their own variance badly.
        effective = max(_effective_trials(trials, called, side) * (normal / student) ** 2, 1.0)
    # Clopper-Pearson with `effective` trials, of which a share `value` hit (Korn and Graubard).
    hit = value * effective
    low = stats.beta.ppf(level, hit, effective - hit + 1) if hit > 0.0 else 0.0
    high = stats.beta.isf(level, hit + 1, effective - hit) if hit < effective else 1.0
    return value, float(low), float(high), effective


def _effective_trials(trials: Trials, called: BoolArray, side: BoolArray) -> float:
    """Return how many independent trials `those` are worth, from 1 to as many as there are.

    Two false alarms of two users may be all that a few users who always look like members show, so
    the least worth counts of this share and of 1/2, 1/4, 1/8... on the way to it.
    """
    count = int(side.sum())
    if trials.independent:
        return float(count)
    users = trials.user_count(side)
    if users == 1:
        return 1.0
    value = float(called[side].mean())
    effective = _independent(trials, called, side)
    # Where nothing varies, a user is worth one trial, under however many targets.
    candidates = [float(users) if effective is None else effective, float(count)]
    ordered = np.sort(trials.scores[side])
    # Shares 1/2, 1/4, .. from the median towards the threshold's own.
    share = 0.5
    while share > max(min(value, 1.0 - value), 1.0 / count):
        above = share if value <= 0.5 else 1.0 - share
        rank = min(math.floor((1.0 - above) * count), count - 1)
        other = _independent(trials, trials.scores > ordered[rank], side)
        candidates.append(float(count) if other is None else other)
        share /= 2.0
    return max(min(candidates), 1.0)


def _independent(trials: Trials, called: BoolArray, side: BoolArray) -> float | None:
    """Return p (1 - p) / V of the share of `those` who are `said`; None where nothing varies."""
    value = float(called[side].mean())
    variance = trials.variance(np.where(side, called - value, 0.0) / int(side.sum()))
    return value * (1.0 - value) / variance if variance > 0.0 else None


def _influence_on_auc(trials: Trials, value: float) -> FloatArray:
    """Return the influence of each trial on the AUC: (T, units)."""
    scores, members = trials.scores, trials.members
    inside, outside = np.sort(scores[members]), np.sort(scores[~members])
    below = _below(outside, scores) / len(outside)
    above = 1.0 - _below(inside, scores) / len(inside)
    # DeLong: a member's share of strangers below it, a stranger's of members above it, centred.
    placed = np.where(members, (below - value) / members.sum(), (above - value) / (~members).sum())
    return np.asarray(placed)


def _below(ordered: FloatArray, values: FloatArray) -> FloatArray:
    """Return the midrank of each value in `ordered`: those below, and half of the equal ones."""
    left, right = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    return np.asarray((left + right) / 2.0)


def _cluster_variance(sums: FloatArray, count: int) -> float:
    """Return the sum of squares, corrected for the number of clusters."""
    return float((sums**2).sum() * count / (count - 1)) if count > 1 else 0.0


def _numbered(user: IntArray) -> IntArray:
    """Return users numbered from 0 without gaps."""
    return np.asarray(np.unique(user, return_inverse=True)[1]).astype(np.int64)
