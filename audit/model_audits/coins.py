"""Whether coins decided who was in a target, and whether anything else tells who it was.

A bound on epsilon rests on coins: independent, fair, one for each unit, and told by nothing that
the attack sees.  No table of booleans proves that, so whoever tossed the coins says it; what the
tables show can refute it:

- a target's coins are not fair, or differ by the label of the record;
- the shadows tell them: a shadow has nearly the same coins, or nearly the opposite; two shadows
  agree on a unit where it is in, and differ where it is out; or members are in other numbers of
  shadows than others, as in designs that have every unit in exactly half of all models;
- units go in and out together, or one always where another does not: they share a coin;
- a classifier that never sees a model tells members from others by their features.

The shadows of a model that tells nothing differ for members and others, for an attack of this
package, in how many of them have the unit and in nothing else; so that number is tested for any
difference, and the others are what designs are known to do.

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
    from ..attack_methods.membership.evidence import Evidence
    from .score_tables import ScoreTables

REFUTED_AT: Final = 1e-6
"""A test refutes coins at this level; over all shadows it is divided by their number."""

BLIND_LEVEL: Final = 1e-3
"""Confidence of the blind area is 1 minus this, where it decides about coins."""

LEAST_EXPECTED: Final = 10
"""Units that a value needs for itself, where values of members and others are compared."""

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
    """Return what the tables show against coins of the targets, as sentences."""
    design = tables.evidence.design
    complaints = []
    level = REFUTED_AT / len(design.targets)
    for index, coins in enumerate(design.targets):
        name = "" if index == 0 else f"target {index}: "
        against = _unfair(coins, tables.labels, level)
        if len(design.shadows):
            against += _told_by_shadows(coins, design.shadows, level)
            against += _shared_coins(coins, tables.evidence, level)
        complaints += [f"{name}{each}" for each in against]
    return tuple(complaints)


def _unfair(coins: BoolArray, labels: IntArray | None, level: float) -> tuple[str, ...]:
    units, members = len(coins), int(coins.sum())
    if stats.binomtest(members, units, 0.5).pvalue < level:
        return (f"{members:,} of {units:,} units were in: no fair coin does that",)
    if labels is not None and _differ(coins, labels, level):
        return ("members are of other classes than others: coins alone did not decide",)
    return ()


def _told_by_shadows(coins: BoolArray, shadows: BoolArray, level: float) -> tuple[str, ...]:
    """Return how the coins of shadows tell those of a target, (units,), as sentences."""
    units, complaints = len(coins), []
    agreeing = (shadows == coins).sum(1)
    # A shadow with the very same coins, or the opposite, tells them among however few units.
    telling = int((_unlikely(agreeing, units, level) | np.isin(agreeing, (0, units))).sum())
    if telling:
        complaints.append(
            f"{telling} of {len(shadows)} shadows have nearly the target's coins, or nearly "
            "the opposite: they tell who was in"
        )
    signs = np.where(shadows, 1, -1).astype(np.float32)
    # Sums over units of the products of two shadows' signs and the target's, exact to 2^24 units.
    products = (signs * np.where(coins, 1, -1).astype(np.float32)) @ signs.T
    pairs = products[np.triu_indices(len(shadows), 1)]
    if _unlikely(np.rint((units + pairs) / 2), units, level).any():
        complaints.append("whether two shadows agree on a unit tells whether it was in the target")
    counts = shadows.sum(0)
    in_all = counts + coins
    halved = len(np.unique(in_all)) == 1 and len(np.unique(counts)) > 1
    if halved or _differ(coins, counts.astype(np.int64), level):
        complaints.append(
            "in how many shadows a unit is tells whether it was in the target, as where each "
            "is in exactly half of all models"
        )
    return tuple(complaints)


def _unlikely(agreeing: IntArray | FloatArray, units: int, level: float) -> BoolArray:
    """Return which of several numbers of agreeing units no independent fair coins have."""
    tails = np.minimum(
        stats.binom.sf(agreeing - 1, units, 0.5), stats.binom.cdf(agreeing, units, 0.5)
    )
    return np.asarray(tails < 0.5 * level / max(len(agreeing), 1))


def _differ(coins: BoolArray, values: IntArray, level: float) -> bool:
    """Return whether members have other values than others, in rank or in any other way."""
    inside, outside = values[coins], values[~coins]
    held = np.unique(values, return_inverse=True)[1]
    if held.max(initial=0) == 0 or min(len(inside), len(outside)) < 2:
        return False
    if float(stats.mannwhitneyu(inside, outside).pvalue) < level / 2:
        return True
    table = np.stack(
        [np.bincount(held[side], minlength=held.max() + 1) for side in (coins, ~coins)]
    )
    rare = table.sum(0) < LEAST_EXPECTED
    table = np.concatenate([table[:, ~rare], table[:, rare].sum(1, keepdims=True)], axis=1)
    table = table[:, table.sum(0) >= LEAST_EXPECTED]
    if table.shape[1] < 2:
        return False
    return float(stats.chi2_contingency(table, correction=False).pvalue) < level / 2


def _shared_coins(coins: BoolArray, evidence: Evidence, level: float) -> tuple[str, ...]:
    """Return a sentence where units that go together in all shadows do so in the target as well.

    Given the shadows, whether two neighbours in some order have the same coin is a fair coin again,
    and those of all neighbours are independent.  Neighbours here have the same coins in the
    shadows, or opposite ones in all, and scores that are close: so copies are neighbours.
    """
    shadows = evidence.design.shadows
    turned = shadows[0]
    column = np.packbits(shadows ^ turned, axis=0)
    alike = np.unique(column, axis=1, return_inverse=True)[1].reshape(-1)
    counts = np.bincount(evidence.unit)
    closeness = np.bincount(evidence.unit, evidence.shadows.mean(0)) / counts
    order = np.lexsort((closeness, alike))
    together = alike[order][1:] == alike[order][:-1]
    turned_coins = (coins ^ turned)[order]
    same = (turned_coins[1:] == turned_coins[:-1])[together]
    if not len(same) or stats.binomtest(int(same.sum()), len(same), 0.5, "greater").pvalue >= level:
        return ()
    return (
        f"{int(same.sum()):,} of {len(same):,} units that go with another one in all shadows, or "
        "against it, do so in the target: several have one coin (`group` joins those who go "
        "together)",
    )


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
