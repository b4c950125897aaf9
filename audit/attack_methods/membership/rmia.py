"""RMIA: is a record likelier than usual under a target, by more than records of a population are?

    p(x)     = ((1 + a) mean_out(x) + 1 - a) / 2       what is usual, from shadows without x
    score(x) = Pr_z [ (p_t(x) / p(x)) / (p_t(z) / p(z)) > gamma ]
    ratio(x) = log (p_t(x) / p(x)) - median_z log (p_t(z) / p(z))

`a` stretches the mean without x towards what it would be with half of the shadows having x.  It is
tuned on a reference model, which is a shadow that plays the target while it and its opposite are
left out of the shadows; never on a target.

Within a target and for single records `ratio` ranks as `score` does at any gamma, but has no ties:
a score is a multiple of 1 / z, so that the highest are all 1, and at a rate of false alarms below
that there are no hits.  Summed over the records of a user it is the log likelihood ratio of them
all, where a sum of probabilities cannot tell a little above the population from far above it.  It
is not in the paper.

Source: Zarifzadeh, Liu and Shokri 2024, *Low-Cost High-Power Membership Inference Attacks*, arXiv
2312.03262, section 3, its appendix on the offline mode, and its code for how `a` is tuned.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from ....accountant import validate
from ....accountant.arrays import BoolArray, FloatArray
from ....accountant.errors import InvalidInput
from ....fl.training.metrics import roc_auc
from .evidence import (
    Evidence,
    log_likelihood,
)
from .user_scores import per_unit

OFFLINE_SCALES: Final = tuple(step / 10 for step in range(11))
"""Values of the offline parameter `a` that are tried."""

REFERENCES: Final = 8
"""Most shadows that serve as reference models while `a` is tuned."""

Statistic = Callable[[FloatArray, FloatArray], FloatArray]


def relative(target: FloatArray, population: FloatArray, *, gamma: float = 1.0) -> FloatArray:
    """Return Pr_z of log ratios: (T, records) and (T, z) to (T, records), in [0, 1]."""
    # For each target: how many population ratios lie below the record's, less log gamma.
    least = math.log(validate.positive(gamma=gamma))
    ranked = np.sort(population, axis=1)
    rows = [np.searchsorted(z, x - least, "left") for x, z in zip(target, ranked, strict=True)]
    below = np.array(rows, np.float64).reshape(target.shape)
    return np.asarray(below / population.shape[1])


def ratio(target: FloatArray, population: FloatArray) -> FloatArray:
    """Return log ratios above the median of the population's: (T, records)."""
    # A mean would be moved by the few records of the population that a target gets quite wrong.
    return np.asarray(target - np.median(population, axis=1, keepdims=True))


def rmia(evidence: Evidence, *, level: str, statistic: Statistic = relative) -> FloatArray:
    """Return the statistic of every record under every target, `a` tuned: (T, records).

    `level` says for what `a` is tuned: sums over users, or single records.
    """
    a = tuned(evidence, level=level, statistic=statistic)
    return scores(
        (evidence.targets, evidence.targets_population),
        (evidence.shadows, evidence.shadows_population),
        ~evidence.in_shadow,
        a,
        statistic,
    )


def tuned(evidence: Evidence, *, level: str, statistic: Statistic = relative) -> float:
    """Return the `a` that is best on reference models, the smaller one where two are equal.

    It reads nothing of a target.
    """
    return OFFLINE_SCALES[int(reference_areas(evidence, level=level, statistic=statistic).argmax())]


def reference_areas(
    evidence: Evidence, *, level: str, statistic: Statistic = relative
) -> FloatArray:
    """Return the mean AUC on reference models at each of `OFFLINE_SCALES`.

    A reference model is a shadow, attacked with all pairs of shadows but its own.
    """
    shadows, inside = evidence.shadows, evidence.in_shadow
    areas: list[list[float]] = []
    for first in range(0, min(len(shadows), REFERENCES), 2):
        kept = np.ones(len(shadows), bool)
        kept[[first, first + 1]] = False  # the opposite knows who is in as well
        pair_rows = slice(first, first + 2)
        pair = shadows[pair_rows], evidence.shadows_population[pair_rows]
        others = shadows[kept], evidence.shadows_population[kept]
        statistics = [scores(pair, others, ~inside[kept], a, statistic) for a in OFFLINE_SCALES]
        members = inside[pair_rows]
        if level == "user":
            statistics = [per_unit(row, evidence.unit, evidence.design.units) for row in statistics]
            members = evidence.design.shadows[pair_rows]
        areas += [[roc_auc(members[each], row[each]) for row in statistics] for each in range(2)]
    return np.asarray(np.mean(areas, axis=0))


def scores(
    target: tuple[FloatArray, FloatArray],
    shadows: tuple[FloatArray, FloatArray],
    outside: BoolArray,
    a: float,
    statistic: Statistic,
) -> FloatArray:
    """Return the statistic at one `a`; tables are phi of (the records, the population).

    `outside` (S, records) says which shadows a record is not in; a population is in none.
    """
    everybody = np.ones(shadows[1].shape, bool)
    pairs = zip(target, shadows, (outside, everybody), strict=True)
    of_records, of_population = (
        log_likelihood(phi) - _usual(log_likelihood(shadow_phi), out, a)
        for phi, shadow_phi, out in pairs
    )
    return statistic(of_records, of_population)


def _usual(shadows: FloatArray, outside: BoolArray, a: float) -> FloatArray:
    """Return log ((1 + a) mean_out + 1 - a) / 2 of log likelihoods: (records,)."""
    counts = outside.sum(0)
    if not counts.all():
        raise InvalidInput(
            "A record is in all of the shadows.",
            "What is usual for it is taken from those without it.",
            "Train more shadows.",
        )
    # Mean of likelihoods over shadows without the record, in logarithms (log-sum-exp).
    top = np.where(outside, shadows, -np.inf).max(0)
    mean = top + np.log((np.exp(shadows - top) * outside).sum(0) / counts)
    with np.errstate(divide="ignore"):  # at a = 1 there is no constant
        return np.asarray(np.logaddexp(np.log((1 + a) / 2) + mean, np.log((1 - a) / 2)))
