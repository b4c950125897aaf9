"""Every shadow as a target: each pair of opposite halves is attacked by all the others.

A pair is left out as a whole, since one of it tells who is in the other.  What is left of the
shadows is in pairs again, and knows nothing of the pair's coins.  Trials of one person, and of one
pair, depend on each other, so intervals are clustered by both.

Coins decided about each of the targets, so what tells their members from others is the training.
The targets are many models: this is no bound on epsilon of one.

Source: Carlini et al. 2022, arXiv 2112.03570, section VI (each model in turn is the target).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..attack_methods.membership.evidence import Evidence
from ..attack_methods.membership.results import REPORTED_FALSE_ALARM_RATES
from ..attack_methods.membership.tier import trials_of
from ..attack_methods.membership.trials import (
    Area,
    Hits,
    Trials,
    area,
    hits,
    plot_curve,
    unsupported,
)
from ..measurement import Curve
from ..shadows.design import Design


@dataclass(frozen=True)
class PooledResult:
    """What one attack finds over all shadows as targets.

    `auc` and `tpr` have intervals of 95 %; `tells` says that the area is above one half at this
    attack's part of 5 % over all attacks.  `curve` are points of (false alarms, hits).
    """

    attack: str
    primary: bool
    auc: Area
    tpr: tuple[Hits, ...]
    tells: bool
    curve: Curve
    withheld: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {
            "attack": self.attack,
            "primary": self.primary,
            "auc": {"value": self.auc.value, "lower": self.auc.lower, "upper": self.auc.upper},
            "tpr": [
                {"fpr": hit.fpr, "value": hit.value, "lower": hit.lower, "upper": hit.upper}
                for hit in self.tpr
            ],
            "tells": self.tells,
        }


def pooled_trials(evidence: Evidence, attack: str, level: str) -> Trials:
    """Return an attack's scores of every unit under every shadow: (shadows, units)."""
    pairs = len(evidence.shadows) // 2
    each = [trials_of(_without_pair(evidence, pair), attack, level) for pair in range(pairs)]
    return Trials(
        np.concatenate([trials.scores for trials in each]),
        np.concatenate([trials.members for trials in each]),
        each[0].user,
        np.repeat(np.arange(pairs), 2),
    )


def _without_pair(evidence: Evidence, pair: int) -> Evidence:
    """Return the evidence in which a pair of shadows are the targets, among all others."""
    coins = evidence.design.shadows
    kept = np.arange(len(coins)) // 2 != pair
    return replace(
        evidence,
        design=Design(coins[kept], coins[~kept]),
        shadows=evidence.shadows[kept],
        targets=evidence.shadows[~kept],
        shadows_population=evidence.shadows_population[kept],
        targets_population=evidence.shadows_population[~kept],
    )


def pooled_result(
    evidence: Evidence, attack: str, level: str, *, primary: bool, alpha: float
) -> PooledResult:
    """Return what an attack finds over all shadows; `alpha` is its part of the level."""
    trials = pooled_trials(evidence, attack, level)
    reasons = {rate: unsupported(trials, rate) for rate in REPORTED_FALSE_ALARM_RATES}
    return PooledResult(
        attack,
        primary,
        area(trials),
        tuple(hits(trials, rate) for rate, why in reasons.items() if why is None),
        area(trials, alpha=alpha).lower > 0.5,
        plot_curve(trials),
        tuple(
            f"TPR at {rate:.1%} FPR over all shadows: {why.removeprefix('not printed: ')}"
            for rate, why in reasons.items()
            if why is not None
        ),
    )
