"""Membership inference: AUC and true positive rate, with intervals, from dependent trials.

A trial is one unit under one target model: in or out of its training data by a fair coin, and the
attack's score.  Members were in, strangers (non-members) were out; a hit is a true positive, a
false alarm a false positive.

Trials of one user under several targets, and of several users under one target, are dependent: a
user may look like a member under every target, and a target may be surer of every user.  So the
variance of a statistic is clustered both ways, over sums of the trials' influences on it,

    V = V_users + V_targets - V_trials,   and at least the largest of the three.

The interval of the AUC is that of its logit, with Student's t.  That of a rate p is Clopper and
Pearson's with p (1 - p) / V effective trials.  A few false alarms do not show whether they are all
of one user, so the effective number is the smallest over this threshold and several between it and
the median score.  Both intervals are asymptotic in the numbers of users and targets.  Where every
user has one trial, as under a single target, the finite-sample intervals of `audit.statistics` are
used, and hold for that one model.

Intervals are conditional on the shadow models: others would make another attack.

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
from .evidence import refuse_nan


@dataclass(frozen=True, eq=False)
class Trials:
    """The trials of units under T target models.

    - `scores`: (T, units), higher for a likelier member.
    - `members`: (T, units) bool, whether the unit was in the target's training data.
    - `user`: (units,), the user of each unit; in a user-level attack each unit is a user.
    - `cluster`: (T,), which targets depend on each other, such as both models of a pair; by
      default each is alone.

    Raises `InvalidInput` for scores that are NaN or infinite, for shapes that do not fit, and where
    there are no members or no strangers.
    """

    scores: FloatArray
    members: BoolArray
    user: IntArray
    cluster: IntArray | None = None

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
        """The number of target models, T."""
        return len(self.scores)

    @cached_property
    def users(self) -> int:
        """The number of different users."""
        return len(np.unique(self.user))

    @cached_property
    def clusters(self) -> int:
        """The number of clusters of targets."""
        return self.targets if self.cluster is None else len(np.unique(self.cluster))

    @property
    def strangers(self) -> int:
        """The number of trials of non-members."""
        return int((~self.members).sum())

    @cached_property
    def independent(self) -> bool:
        """Whether no two trials share a user, under a single target."""
        return self.targets == 1 and self.users == len(self.user)

    @cached_property
    def curve(self) -> Roc:
        """The ROC curve of all trials together."""
        return roc(self.scores.ravel(), self.members.ravel())

    def variance(self, influence: FloatArray) -> float:
        """Return the variance of the sum of `influence` (T, units), clustered by user and target.

        It errs upwards: never below the largest of the three variances.
        """
        users = np.bincount(_numbered(self.user), influence.sum(0)).astype(np.float64)
        targets = influence.sum(1)
        if self.cluster is not None:
            targets = np.bincount(_numbered(self.cluster), targets).astype(np.float64)
        # Sums of influences by user, by cluster of targets, and of each trial alone.
        variances = [
            _cluster_variance(users, self.smaller_side),
            _cluster_variance(targets, self.clusters),
            _cluster_variance(influence.ravel(), influence.size),
        ]
        # Inclusion-exclusion counts what user and target share once; it may be too small, or
        # negative, so at least the largest of the three.
        return float(max(variances[0] + variances[1] - variances[2], *variances))

    @cached_property
    def smaller_side(self) -> int:
        """The number of different users among members or among strangers, whichever is smaller."""
        return min(self.user_count(self.members), self.user_count(~self.members))

    def user_count(self, mask: BoolArray) -> int:
        """Return how many different users have a trial in `mask` (T, units)."""
        return len(np.unique(self.user[mask.any(0)]))

    @cached_property
    def auc_variance(self) -> float:
        """The variance of the AUC, clustered as `variance` says."""
        return self.variance(_influence_on_auc(self, self.curve.auc))

    @property
    def freedom(self) -> int:
        """Degrees of freedom of Student's t: the smaller number of clusters, minus 1."""
        clusters = self.smaller_side if self.targets == 1 else min(self.smaller_side, self.clusters)
        return max(clusters - 1, 1)


def require_both(members: BoolArray) -> None:
    """Raise `InvalidInput` unless there are both members and non-members."""
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
    """The true positive rate `value` at a false positive rate of at most `fpr`.

    `threshold` is the smallest score that at most `fpr` of the strangers' scores exceed.  [`lower`,
    `upper`] is the interval of the true positive rate at this threshold, and `fpr_upper` an upper
    bound on its false positive rate; any of the three fails with probability at most alpha.
    `effective` is the effective number of independent members.
    """

    fpr: float
    value: float
    lower: float
    upper: float
    threshold: float
    fpr_upper: float
    effective: float


def area(trials: Trials, *, alpha: float = 0.05) -> Area:
    """Return the AUC with its interval, of confidence 1 - `alpha`.

    Raises `InvalidInput` for `alpha` outside (0, 1).
    """
    validate.open_probability(alpha=alpha)
    value = trials.curve.auc
    if trials.independent:
        low, high = trials.curve.auc_interval(alpha)
        return Area(value, low, high)
    if trials.smaller_side == 1:  # one user alone does not show how much users differ
        return Area(value, 0.0, 1.0)
    variance = trials.auc_variance
    inner = value * (1.0 - value)
    if inner <= 0.0 or variance <= 0.0:
        # Every pair is ordered alike.  All n = users / 2 disjoint pairs of users are so with
        # probability AUC^n, so the end of the interval solves AUC^n = alpha / 2.
        least = (alpha / 2) ** (1.0 / max(trials.users // 2, 1))
        return Area(value, least if value == 1.0 else 0.0, 1.0 if value else 1.0 - least)
    # Delta method on the logit: its standard error is that of the AUC over AUC (1 - AUC).
    reach = stats.t.ppf(1 - alpha / 2, trials.freedom) * math.sqrt(variance) / inner
    centre = math.log(value / (1.0 - value))
    low, high = (1.0 / (1.0 + math.exp(-centre - side * reach)) for side in (-1.0, 1.0))
    return Area(value, low, high)


def unsupported(trials: Trials, fpr: float) -> str | None:
    """Return why there are too few strangers for a false positive rate of `fpr`; else None.

    At least 1 / `fpr` are needed; dependent trials count as their effective number.
    """
    needed, there = math.ceil(1.0 / fpr - 1e-9), trials.strangers
    text = f"not printed: it takes {needed} non-members, and there are {there}"
    if there < needed:
        return text
    worth = _effective_trials(trials, trials.scores > _threshold(trials, fpr), ~trials.members)
    return None if worth >= needed else f"{text} trials that are worth {math.floor(worth)}"


def hits(trials: Trials, fpr: float, *, alpha: float = 0.05) -> Hits:
    """Return the true positive rate where at most `fpr` of the strangers are false positives.

    The confidence 1 - `alpha` is that of both rates together.  Raises `InvalidInput` where the
    strangers are fewer than 1 / `fpr` effective trials, as the smallest rate that they can show is
    then above `fpr`, and for `fpr` or `alpha` outside (0, 1).
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
    """Return (false positive rate, true positive rate) points for a plot, dense at small rates."""
    return tuple(trials.curve.curve(points=points))


def _threshold(trials: Trials, fpr: float) -> float:
    """Return the smallest score that at most `fpr` of the strangers' scores exceed."""
    outside = np.sort(trials.scores[~trials.members])
    allowed = math.floor(fpr * len(outside) + 1e-9)
    return float(outside[len(outside) - 1 - allowed])


def _rate(
    trials: Trials, called: BoolArray, side: BoolArray, level: float
) -> tuple[float, float, float, float]:
    """Return the rate of `called` within `side` (both (T, units) bool), with its interval.

    The tuple is (rate, lower, upper, effective number of trials); each end of the interval fails
    with probability at most `level`.
    """
    count = int(side.sum())
    value = float(called[side].mean())
    effective = float(count)
    if not trials.independent:
        normal, student = stats.norm.isf(level), stats.t.isf(level, trials.freedom)
        # A variance that few clusters estimate is uncertain: (z / t)^2 < 1 widens the interval.
        effective = max(_effective_trials(trials, called, side) * (normal / student) ** 2, 1.0)
    # Clopper-Pearson for k successes of n trials, both fractional (Korn and Graubard).
    k, n = value * effective, effective
    low = stats.beta.ppf(level, k, n - k + 1) if k > 0.0 else 0.0
    high = stats.beta.isf(level, k + 1, n - k) if k < n else 1.0
    return value, float(low), float(high), effective


def _effective_trials(trials: Trials, called: BoolArray, side: BoolArray) -> float:
    """Return the effective number of independent trials in `side`, from 1 to their number.

    Two false positives of two users may be all that is seen of a few users who always look like
    members.  So the smallest effective number counts, of this threshold and of those that the
    shares 1/2, 1/4, 1/8, ... of `side` exceed: it errs downwards.
    """
    count = int(side.sum())
    if trials.independent:
        return float(count)
    users = trials.user_count(side)
    if users == 1:
        return 1.0
    value = float(called[side].mean())
    effective = _independent(trials, called, side)
    # Where nothing varies, a user counts as one trial, under however many targets.
    candidates = [float(users) if effective is None else effective, float(count)]
    ordered = np.sort(trials.scores[side])
    # Thresholds at the shares 1/2, 1/4, ..., from the median to the share of this threshold.
    share = 0.5
    while share > max(min(value, 1.0 - value), 1.0 / count):
        above = share if value <= 0.5 else 1.0 - share
        rank = min(math.floor((1.0 - above) * count), count - 1)
        other = _independent(trials, trials.scores > ordered[rank], side)
        candidates.append(float(count) if other is None else other)
        share /= 2.0
    return max(min(candidates), 1.0)


def _independent(trials: Trials, called: BoolArray, side: BoolArray) -> float | None:
    """Return p (1 - p) / V for the rate p of `called` within `side`; None where V is 0."""
    value = float(called[side].mean())
    variance = trials.variance(np.where(side, called - value, 0.0) / int(side.sum()))
    return value * (1.0 - value) / variance if variance > 0.0 else None


def _influence_on_auc(trials: Trials, value: float) -> FloatArray:
    """Return the influence of each trial on the AUC: (T, units)."""
    scores, members = trials.scores, trials.members
    inside, outside = np.sort(scores[members]), np.sort(scores[~members])
    below = _below(outside, scores) / len(outside)
    above = 1.0 - _below(inside, scores) / len(inside)
    # DeLong: for a member the share of strangers below it, for a stranger the share of members
    # above it; minus the AUC, over the number of members or strangers.
    placed = np.where(members, (below - value) / members.sum(), (above - value) / (~members).sum())
    return np.asarray(placed)


def _below(ordered: FloatArray, values: FloatArray) -> FloatArray:
    """Return for each value how many of `ordered` are below it, counting equal ones as half."""
    # In rising order each search ends next to where the last one did, which memory likes.
    order = np.argsort(values, axis=None)
    rising = values.ravel()[order]
    both = np.searchsorted(ordered, rising, "left") + np.searchsorted(ordered, rising, "right")
    counts = np.empty(values.size)
    counts[order] = both / 2.0
    return counts.reshape(values.shape)


def _cluster_variance(sums: FloatArray, count: int) -> float:
    """Return the sum of squares of `sums`, times the correction m / (m - 1) for m = `count`."""
    return float((sums**2).sum() * count / (count - 1)) if count > 1 else 0.0


def _numbered(user: IntArray) -> IntArray:
    """Return the users (units,) renumbered from 0 without gaps."""
    return np.asarray(np.unique(user, return_inverse=True)[1]).astype(np.int64)
