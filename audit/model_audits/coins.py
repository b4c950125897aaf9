"""Whether coins decided who was in a target, and whether anything else tells who it was.

A bound on epsilon rests on coins: independent, fair, one for each unit, and told by nothing that
the attack sees.  No table of booleans proves that, so whoever tossed the coins says it; what the
tables show can refute it:

- the target's coins are not fair;
- the shadows tell them: a shadow has nearly the same coins, or nearly the opposite, or a unit is in
  the more (or fewer) shadows where it is out of the target, as in designs that have every unit in
  exactly half of all models;
- a classifier that never sees a model tells members from others by their features.

Without coins members and others may differ as people do, and a score that tells them apart is no
leak of the model.  The area of the classifier stands next to that of the attacks then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import stats

from ...accountant.arrays import BoolArray, FloatArray, IntArray
from ...accountant.errors import MissingExtra
from ..attack_methods.membership.trials import Area, Trials, area

if TYPE_CHECKING:
    from .score_tables import ScoreTables

REFUTED_AT: Final = 1e-6
"""A test refutes coins at this level; over all shadows it is divided by their number."""

BLIND_LEVEL: Final = 1e-3
"""Confidence of the blind area is 1 minus this, where it decides about coins."""

FOLDS: Final = 5
TREES: Final = 100

FOREST_SEED: Final = 0
"""Of the trees of the blind classifier, which protect nobody."""


@dataclass(frozen=True)
class BlindResult:
    """How well a classifier that never sees a model tells members from others.

    `auc` has an interval of 95 %; `above_chance` says that at `BLIND_LEVEL` it is above one half.
    """

    auc: Area
    above_chance: bool


def complaints_of_coins(tables: ScoreTables) -> tuple[str, ...]:
    """Return what the tables show against coins of the first target, as sentences."""
    coins, shadows = tables.coins_of_target, tables.evidence.design.shadows
    units, members = len(coins), int(coins.sum())
    complaints = []
    if stats.binomtest(members, units, 0.5).pvalue < REFUTED_AT:
        complaints.append(f"{members:,} of {units:,} units were in: no fair coin does that")
    if len(shadows):
        level = REFUTED_AT / len(shadows)
        agreeing = (shadows == coins).sum(1)
        tails = np.minimum(
            stats.binom.sf(agreeing - 1, units, 0.5), stats.binom.cdf(agreeing, units, 0.5)
        )
        telling = int((tails < 0.5 * level).sum())
        if telling:
            complaints.append(
                f"{telling} of {len(shadows)} shadows have nearly the target's coins, or nearly "
                "the opposite: they tell who was in"
            )
        if _shadow_counts_tell(coins, shadows):
            complaints.append(
                "in how many shadows a unit is tells whether it was in the target, as where each "
                "is in exactly half of all models"
            )
    return tuple(complaints)


def _shadow_counts_tell(coins: BoolArray, shadows: BoolArray) -> bool:
    """Return whether members are in another number of shadows than others, beyond chance."""
    counts = shadows.sum(0)
    inside, outside = counts[coins], counts[~coins]
    if len(np.unique(counts)) == 1 or min(len(inside), len(outside)) < 2:
        return False
    return float(stats.mannwhitneyu(inside, outside).pvalue) < REFUTED_AT


def blind(tables: ScoreTables, *, alpha: float = 0.05) -> BlindResult | None:
    """Return what features alone tell of membership in the first target; None without features.

    A forest of trees is fitted to four fifths of the units and asked about the others, so that no
    copy of a unit is on both sides.  Raises `MissingExtra` where scikit-learn is not installed.
    """
    if tables.records is None:
        return None
    unit, inside = tables.evidence.unit, tables.evidence.in_target[0]
    scored = _out_of_fold(tables.records, inside, unit)
    if scored is None:
        return None
    units = len(tables.coins_of_target)
    # A unit is one trial: the mean over its records.
    means = np.bincount(unit, scored, units) / np.bincount(unit, minlength=units)
    trials = Trials(means[None], tables.coins_of_target[None], np.arange(units))
    strict = area(trials, alpha=BLIND_LEVEL)
    return BlindResult(area(trials, alpha=alpha), strict.lower > 0.5)


def _out_of_fold(features: FloatArray, inside: BoolArray, unit: IntArray) -> FloatArray | None:
    """Return the probability of membership of each record; None where there are too few units."""
    try:
        from sklearn.ensemble import RandomForestClassifier
        from sklearn.model_selection import StratifiedGroupKFold
    except ImportError:
        raise MissingExtra(
            "A classifier that sees features alone needs scikit-learn, which is not installed.",
            "It tells whether members differ from others in more than the coin.",
            'Install the extra: pip install "privplan[fl]"; or leave `records` out.',
        ) from None
    sides = [len(np.unique(unit[inside])), len(np.unique(unit[~inside]))]
    if min(sides) < FOLDS:
        return None
    chances = np.zeros(len(inside))
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=FOREST_SEED)
    for train, test in folds.split(features, inside, unit):
        if inside[train].all() or not inside[train].any():
            return None
        forest = RandomForestClassifier(TREES, min_samples_leaf=3, random_state=FOREST_SEED)
        forest.fit(features[train], inside[train])
        chances[test] = forest.predict_proba(features[test])[:, 1]
    return chances
