"""Scores of membership: LiRA by likelihood ratios, RMIA by pairs with the population.

**LiRA**: is a target as sure of a record as shadows with it are, or as those without it?

With phi = log p_y - log(1 - p_y), normal under shadows that have the record and under those that
have not:

    online    log N(phi; mean_in, s_in) - log N(phi; mean_out, s_out)
    offline   (phi - mean_out) / s_out

The offline score is Phi^-1 of the published Phi((phi - mean_out) / s_out), which ranks alike, and
whose sum over a user's records is one of normal scores.  With few shadows a deviation per record is
noise itself, and the pooled one is better: s^2 is then the mean over all records.

Source: Carlini, Chien, Nasr, Song, Terzis and Tramer 2022, *Membership Inference Attacks From First
Principles*, arXiv 2112.03570, Algorithm 1 and what it says of few shadows, and the code published
with it (medians).  There the pooled deviation is taken over all values, differences between records
included; here it is within records.

**RMIA**: is a record likelier than usual under a target, by more than records of a population are?

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
from .evidence import Evidence, log_likelihood, per_unit

POOLED_BELOW_SHADOWS: Final = 32
"""Shadows with a record, or without it, below which deviations are pooled by default."""

JUDGED_AT: Final = 0.01
"""False alarms at which pooled deviations are compared with those of each record."""

JUDGED_RECORDS: Final = 2000
"""Most records by which they are compared."""

MIN_DEVIATION: Final = 1e-9
"""A deviation is at least so much: shadows may agree to the last bit."""


def lira_online(evidence: Evidence, *, pooled: bool | None = None) -> FloatArray:
    """Return the log likelihood ratio of every record under every target: (T, records)."""
    inside = evidence.in_shadow
    alike = [_normal(evidence.shadows, chosen, pooled) for chosen in (inside, ~inside)]
    (mean_in, s_in), (mean_out, s_out) = alike
    phi = evidence.targets
    return _log_normal(phi, mean_in, s_in) - _log_normal(phi, mean_out, s_out)


def lira_offline(evidence: Evidence, *, pooled: bool | None = None) -> FloatArray:
    """Return how far a target is from the shadows without a record: (T, records).

    By default deviations are pooled where shadows are few, and else where that finds more members
    at few false alarms, on shadows that play the target.
    """
    outside = ~evidence.in_shadow
    if pooled is None:
        few = bool(outside.sum(0).min() < POOLED_BELOW_SHADOWS)
        pooled = few or pooling_is_stronger(evidence)
    mean, deviation = _normal(evidence.shadows, outside, pooled)
    return np.asarray((evidence.targets - mean) / deviation)


def pooling_is_stronger(evidence: Evidence) -> bool:
    """Return whether pooled deviations find more members of shadows that play the target.

    Hits are counted at `JUDGED_AT` false alarms, on at most `JUDGED_RECORDS` records.  Nothing of a
    target is read.
    """
    records = np.random.default_rng(0).permutation(len(evidence.unit))[:JUDGED_RECORDS]
    phi, inside = evidence.shadows[:, records], evidence.in_shadow[:, records]
    gained = 0
    for row in references(evidence):
        kept, members = strangers_to(evidence, row), inside[row]
        if members.all() or (~inside[kept]).sum(0).min() < 2:
            continue
        for sign, pooled in ((1, True), (-1, False)):
            mean, deviation = _normal(phi[kept], ~inside[kept], pooled)
            found = (phi[row] - mean) / deviation
            threshold = np.quantile(found[~members], 1.0 - JUDGED_AT, method="higher")
            gained += sign * int((found[members] > threshold).sum())
    return gained > 0


def _normal(
    phi: FloatArray, chosen: BoolArray, pooled: bool | None
) -> tuple[FloatArray, FloatArray]:
    """Return median and deviation of each record under the chosen shadows: (records,) each."""
    counts = chosen.sum(0)
    together = bool(counts.min() < POOLED_BELOW_SHADOWS) if pooled is None else pooled
    if counts.min() < (1 if together else 2) or counts.sum() <= len(counts):
        raise InvalidInput(
            f"A record is in or out of only {counts.min()} shadows.",
            "A normal distribution per record needs two, and a pooled one more than one of each.",
            "Train more shadows.",
        )
    # (S, records), a shadow on the other side behind all others: the median by counts.
    rising = np.sort(np.where(chosen, phi, np.inf), axis=0)
    below, above = np.take_along_axis(rising, np.stack([counts - 1, counts]) // 2, 0)
    middle = (below + above) / 2.0
    mean = np.where(chosen, phi, 0.0).sum(0) / counts
    squares = (np.where(chosen, phi - mean, 0.0) ** 2).sum(0)
    if together:
        # Pooled within records: squares about each record's own mean, over sum (count - 1).
        variance = np.full(len(counts), squares.sum() / (counts - 1).sum())
    else:
        variance = squares / (counts - 1)
    return middle, np.maximum(np.sqrt(variance), MIN_DEVIATION)


def _log_normal(x: FloatArray, mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return the log density, without the constant that cancels."""
    return np.asarray(-np.log(deviation) - 0.5 * ((x - mean) / deviation) ** 2)


OFFLINE_SCALES: Final = tuple(step / 10 for step in range(11))
"""Values of the offline parameter `a` that are tried."""

REFERENCES: Final = 8
"""Most shadows that serve as reference models while `a` is tuned."""

NEARLY_ALL: Final = 0.05
"""Shadows whose coins agree in more than all but this share, or in less, tell of each other."""

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

    A reference model is a shadow, attacked with all shadows that do not tell who is in it.
    """
    shadows, inside = evidence.shadows, evidence.in_shadow
    areas: list[list[float]] = []
    for row in references(evidence):
        kept = strangers_to(evidence, row)
        alone = slice(row, row + 1)
        reference = shadows[alone], evidence.shadows_population[alone]
        others = shadows[kept], evidence.shadows_population[kept]
        usual = _of_both(others, ~inside[kept])
        members = inside[row] if level == "record" else evidence.design.shadows[row]
        areas.append([])
        for a in OFFLINE_SCALES:
            found = _compared(reference, usual, a, statistic)
            if level == "user":
                found = per_unit(found, evidence.unit, evidence.design.units)
            areas[-1].append(roc_auc(members, found[0]))
    return np.asarray(np.mean(areas, axis=0))


def references(evidence: Evidence) -> range:
    """Return which shadows play the target while an attack is tuned."""
    return range(min(len(evidence.shadows), REFERENCES))


def strangers_to(evidence: Evidence, row: int) -> BoolArray:
    """Return which shadows tell nothing of who is in shadow `row`: (S,).

    The shadow itself does, and so does its opposite, or one with nearly the same coins.
    """
    coins = evidence.design.shadows
    if evidence.design.paired:
        return np.asarray(np.arange(len(coins)) // 2 != row // 2)
    alike = (coins == coins[row]).mean(1)
    return np.asarray((alike < 1.0 - NEARLY_ALL) & (alike > NEARLY_ALL))


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
    return _compared(target, _of_both(shadows, outside), a, statistic)


def _of_both(
    shadows: tuple[FloatArray, FloatArray], outside: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return log mean_out of the records and of the population."""
    everybody = np.ones(shadows[1].shape, bool)
    return _log_mean(log_likelihood(shadows[0]), outside), _log_mean(
        log_likelihood(shadows[1]), everybody
    )


def _compared(
    target: tuple[FloatArray, FloatArray],
    mean_out: tuple[FloatArray, FloatArray],
    a: float,
    statistic: Statistic,
) -> FloatArray:
    of_records, of_population = (
        log_likelihood(phi) - _usual(mean, a) for phi, mean in zip(target, mean_out, strict=True)
    )
    return statistic(of_records, of_population)


def _log_mean(shadows: FloatArray, outside: BoolArray) -> FloatArray:
    """Return log mean_out of log likelihoods under the shadows without a record: (records,)."""
    counts = outside.sum(0)
    if not counts.all():
        raise InvalidInput(
            "A record is in all of the shadows.",
            "What is usual for it is taken from those without it.",
            "Train more shadows.",
        )
    # Mean of likelihoods over shadows without the record, in logarithms (log-sum-exp).
    top = np.where(outside, shadows, -np.inf).max(0)
    return np.asarray(top + np.log((np.exp(shadows - top) * outside).sum(0) / counts))


def _usual(mean: FloatArray, a: float) -> FloatArray:
    """Return log ((1 + a) mean_out + 1 - a) / 2 of log mean_out: (records,)."""
    with np.errstate(divide="ignore"):  # at a = 1 there is no constant
        return np.asarray(np.logaddexp(np.log((1 + a) / 2) + mean, np.log((1 - a) / 2)))
