"""Dominating pairs of random allocation: each unit takes part in exactly k of t releases.

The k steps are a uniform set, independent between units and hidden.  The others' sets may be
revealed, so in units of the contribution bound, with N(v) the t releases with means v:

**k = 1.**  With the unit the releases are the average over j of N(e_j), without it N(0).  Their
ratio is the mean of the A_j = noise(1)/noise(0) of each step: see ratio_sums.py.

**Any k.**  A uniform k-subset is also drawn by a random partition of the steps into k blocks as
even as possible, and one step from each.  Revealing the partition only helps, and then the blocks
are independent: each is 1 of s, s at least floor(t / k).  So k copies of the pair for k = 1 and
floor(t / k) steps dominate.  (A mean of more independent terms is smaller in the convex order.)

**Smaller and adaptive contributions.**  A step in which the unit would contribute v, |v| <= 1,
chosen after seeing earlier releases, is a post-processing, the same with the unit in the step and
without it, of a release with mean 1 or 0; so step by step the whole run is a post-processing of the
releases above.  Zero-out is the same: at 0, no step is moved.

**Replace-one.** The data sets give mean ratios R and R', each as above.  Of all joint distributions
with these two distributions, E(R - a R')+ is largest for all a at once where R falls as R' rises;
that coupling is taken. (It is the composition of the trade-off functions of removing and of adding
a unit, and holds for adaptive contributions as these do; with a revealed partition it is taken
block by block, where for a fixed order the blocks' ratios can be replaced one step at a time by
those of contributions at +1 and -1: given all other steps, the hockey stick is an average of (c + x
A - y A')+ with x, y >= 0, and by the argument for Poisson sampling in noisy_sums.py that is largest
for +1 and -1.)

The lower end for k = 1 is the same sum, carried along as a post-processing, else a sum of scores
(scores.py): a unit at +1, under replace-one against one at -1, and all others at 0.

Source: Feldman, Shenfeld 2025, arXiv 2502.08202 (random allocation, the reduction to k = 1);
shown and computed as derived here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np

from .... import events as ev
from ....arrays import FloatArray
from ....errors import Unsupported
from ....guarantee import Neighbours, Step
from ...base import sized_release
from ..grid.noise import UNIT_ROUNDOFF, AdditiveNoise, GaussianNoise, LaplaceNoise
from ..grid.pair import Pair
from ..grid.pair_parts import AtomPair
from .ratio_sums import COARSE_POINTS, MEAN_ZONE_POINTS, RATIO_TAIL_MASS, RatioSum, lattice
from .registry import DominatedMechanism, each_alone, from_above, pairs, repeated
from .scores import MAX_SCORE_STEPS, maximum_pair, score_pair, strongest_pair

MAX_LOG_RATIO: Final = 100.0
"""Larger likelihood ratios of one step would take too many zones."""

MANY_ZONES_LOG_RATIO: Final = 20.0
"""Where log ratios of one step exceed this (Gaussian noise below .66), `COARSE_POINTS` a zone move
an end by less than 3e-4 of itself."""

MIN_LOG_RATIO: Final = 1e-8
"""Where all ratios of one step are nearer to 1, rounding is all that would be seen."""


HEAVY_ATOM_MASS: Final = 1e-2
"""A single outcome with this much mass is one of few atoms, not of a lattice."""

LOG_RATIO_ERROR: Final = 2e-12
"""By how much a log ratio may be off: the means of the first cells, of relative error 1e-13 each
for P and Q, and rounded logarithms."""


@pairs.register(ev.RandomAllocation)
def _allocation(event: ev.RandomAllocation, neighbours: Neighbours) -> DominatedMechanism:
    steps, chosen, inner = event.steps, event.chosen, event.event
    sized = sized_release(inner)
    if sized is not None:
        raise Unsupported(
            f"Random allocation of `{sized.type}` has no meaning here.",
            "That release fixes how many units take part in it, and here that number is random.",
            "Allocate a release that takes any number of units.",
        )
    base = pairs(inner, neighbours)
    if chosen == steps:
        step = Step("sampling", "Every unit takes part in every step.", "by definition")
        return replace(repeated(base, steps), steps=(*base.steps, step))
    noise = additive_noise(inner)
    if noise is not None and ratios_in_range(noise):
        amplified = _amplified(noise, steps, chosen, neighbours)
        return replace(amplified, steps=(*base.steps, *amplified.steps))
    step = _step(
        f"The {chosen:,} of {steps:,} steps are counted as known: nothing is gained.",
        neighbours,
        "only Gaussian and Laplace noise of usual size gain here",
    )
    # The steps are hidden in truth, so nothing of what a known one shows is attained.
    return replace(from_above(repeated(base, chosen)), steps=(*base.steps, step))


@lru_cache(maxsize=32)
def _amplified(
    noise: AdditiveNoise, steps: int, chosen: int, neighbours: Neighbours
) -> DominatedMechanism:
    block = min(steps // chosen, MAX_SCORE_STEPS)
    few = not ratios_in_range(noise, MANY_ZONES_LOG_RATIO)
    ratio_sum = mean_ratio(noise, block, COARSE_POINTS if few else MEAN_ZONE_POINTS)
    replaced = neighbours == "replace-one"
    pair = opposed_ratio_pair(ratio_sum) if replaced else upper_ratio_pair(ratio_sum)
    lower_pair: Pair | None = None
    if chosen == 1 and block == steps and not replaced:
        lower_pair = lower_ratio_pair(ratio_sum)
    elif steps <= MAX_SCORE_STEPS:
        lower_pair = _strongest_lower_pair(noise, steps, chosen, ratio_sum, replaced)
    many = f"{chosen:,} times one of {block:,}; " if chosen > 1 else ""
    twice = ", once removed and once added" if replaced else ""
    step = _step(
        f"{chosen:,} of {steps:,} steps at random: {many}the mean of the likelihood ratios of the "
        f"steps, with and without the unit{twice}.",
        neighbours,
        f"lower end: a unit at +1{' or -1' if replaced else ''}, others at 0",
    )
    return DominatedMechanism(((pair, chosen),), each_alone([lower_pair]), replaced, (step,))


def _strongest_lower_pair(
    noise: AdditiveNoise,
    steps: int,
    chosen: int,
    ratio_sum: RatioSum,
    replaced: bool,
) -> Pair:
    """Return the attained pair with the largest epsilon, where the exact pair is unknown."""
    rest = (0.0, steps - chosen)
    other = -1.0 if replaced else 0.0
    candidates = [
        score_pair(noise, steps, chosen, (1.0, other)),
        maximum_pair(noise, ((1.0, chosen), rest), ((other, chosen), rest)),
    ]
    if chosen == 1 and ratio_sum.count == steps:
        candidates.append(lower_ratio_pair(ratio_sum))  # of a unit at +1 and at 0
    return strongest_pair(candidates, either_way=replaced)


def additive_noise(inner: ev.Event) -> AdditiveNoise | None:
    if isinstance(inner, ev.Gaussian):
        return GaussianNoise(inner.noise_multiplier)
    return LaplaceNoise(inner.noise_multiplier) if isinstance(inner, ev.Laplace) else None


def ratios_in_range(noise: AdditiveNoise, most: float = MAX_LOG_RATIO) -> bool:
    """Return whether the log ratios of one step lie in [MIN_LOG_RATIO, `most`]."""
    largest = float(noise.log_shift_ratio(np.array([1.0 + noise.radius(RATIO_TAIL_MASS)]))[0])
    return MIN_LOG_RATIO <= largest <= most


def _step(statement: str, neighbours: Neighbours, *conditions: str) -> Step:
    return Step(
        "sampling",
        statement,
        "Feldman, Shenfeld 2025, arXiv 2502.08202; derived in engines/pld/pairs/allocation.py",
        (
            "each unit's steps are a uniform set, drawn afresh, independent and secret",
            *conditions,
            f"neighbours: {neighbours}",
        ),
    )


@lru_cache(maxsize=64)
def mean_ratio(noise: AdditiveNoise, steps: int, points: int = MEAN_ZONE_POINTS) -> RatioSum:
    """Return bounds on the distribution of the mean of `steps` ratios noise(1)/noise(0).

    The fewer `points`, the faster, and the wider apart.
    """
    return first_term(noise, steps, points).times(steps)


def first_term(
    noise: AdditiveNoise, total_terms: int, points_around_mean: int = MEAN_ZONE_POINTS
) -> RatioSum:
    """Return bounds on the distribution of one ratio noise(1)/noise(0), at a draw of noise(0).

    What falls between two points of the lattice is drawn to them such that its mean is kept: with
    the mean p/q of the ratio there, up with probability (p/q - low) / (high - low).  Under Laplace
    noise the smallest and the largest ratio have atoms, and both are points.
    """
    # Ratios in [low, high] leave out a tenth of this term's part of RATIO_TAIL_MASS.
    reach = noise.radius(0.1 * RATIO_TAIL_MASS / total_terms)
    low, high = np.exp(noise.log_shift_ratio(np.array([-reach, 1.0 + reach]))).tolist()
    h, origin = min(2.0 * (1.0 - low) / points_around_mean, low / 64.0), 0.0
    flat = isinstance(noise, LaplaceNoise)
    if flat:
        origin, h = low, math.ldexp(high - low, -math.ceil(math.log2((high - low) / h)))
    offset = origin / h
    span = (low - origin) / h, (high - origin) / h
    points = lattice(*span, 1.0 / h - offset, offset, points_around_mean)
    values = origin + points * h
    with np.errstate(divide="ignore"):
        edges = noise.shift_of(np.log(values))
    if flat:
        edges = np.clip(edges, 0.0, 1.0)  # beyond, the ratio is constant
    # Masses between the lattice's positions without the unit (row 0) and with it (row 1), shape
    # (2, points + 1); the first and the last lie outside.
    ends = np.concatenate(([-math.inf], edges, [math.inf]))
    both = np.exp([noise.log_interval_masses(ends), noise.log_interval_masses(ends - 1.0)])
    inside, outside = both[:, 1:-1], both[:, [0, -1]]
    # Each cell goes to its two ends such that the mean ratio p / q in it is kept.
    filled = inside[0] > 0.0
    mean = np.divide(inside[1], inside[0], out=np.zeros(filled.size), where=filled)
    upward = np.clip((mean - values[:-1]) / np.diff(values), 0.0, 1.0)
    masses = np.zeros((2, points.size))
    masses[:, 1:] += inside * upward
    masses[:, :-1] += inside * (1.0 - upward)
    error = noise.mass_error(1.0 + reach)
    ratio_sum = RatioSum((), h, 1, total_terms, origin, rounding=error, points=points_around_mean)
    if flat:
        masses[:, 0] += outside[:, 0]
        masses[:, np.searchsorted(points, round((high - origin) / h))] += outside[:, 1]
        return ratio_sum.with_masses(points, masses)
    lost_q, lost_p = outside.sum(axis=1).tolist()
    return replace(ratio_sum, lost_p=lost_p, lost_q=lost_q).with_masses(points, masses)


def upper_ratio_pair(ratio_sum: RatioSum) -> Pair:
    """Return the upper pair P = W Q of the ratios W; omitted mass has an infinite loss."""
    ratios, plain, _ = ratio_sum.ratios_and_masses()
    # Masses are raised by the bound on their relative error; lost mass is an infinite loss.
    log_q = np.log(plain) + ratio_sum.rounding
    with np.errstate(divide="ignore"):
        log_p = log_q + np.log(ratios)
        lost_p, lost_q = np.log(ratio_sum.lost_p), np.log(ratio_sum.lost_q)
    return Pair.of_outcomes(
        AtomPair(
            np.concatenate((log_p, [lost_p, -math.inf])),
            np.concatenate((log_q, [-math.inf, lost_q])),
            has_heavy_atoms=_has_atoms(log_p),
            rounding=LOG_RATIO_ERROR,
        )
    )


def lower_ratio_pair(ratio_sum: RatioSum) -> Pair:
    """Return the pair of the masses with and without the unit."""
    _, plain, with_unit = ratio_sum.ratios_and_masses()
    positive = with_unit > 0.0
    log_p, log_q = np.log(with_unit[positive]), np.log(plain[positive])
    has_heavy_atoms = _has_atoms(log_p)
    return Pair.of_outcomes(
        AtomPair(log_p, log_q, has_heavy_atoms=has_heavy_atoms, rounding=2.0 * ratio_sum.rounding)
    )


def _has_atoms(log_masses: FloatArray) -> bool:
    """Return whether some outcome has a mass of `HEAVY_ATOM_MASS` or more."""
    return float(log_masses.max()) > math.log(HEAVY_ATOM_MASS)


def opposed_ratio_pair(ratio_sum: RatioSum) -> Pair:
    """Return the pair whose two ratios to a third distribution have this distribution each, one
    falling as one rises.

    On u in [0, 1], uniform under the third, P has the ratios in descending and Q in ascending
    order.  The half below 1/2 is the mirror image of the other.
    """
    ratios, plain, _ = ratio_sum.ratios_and_masses()
    order = np.argsort(ratios, kind="stable")
    values = np.concatenate(([0.0], ratios[order]))
    masses = np.concatenate(([ratio_sum.lost_q], plain[order])) * math.exp(ratio_sum.rounding)
    # Breakpoints u <= 1/2 of both quantile functions; between two of them both ratios are
    # constant.  The masses were raised by the bound on their rounding.
    up, down = np.cumsum(masses), np.cumsum(masses[::-1])
    half = 0.5 * math.exp(ratio_sum.rounding)
    ends = np.unique(np.concatenate((up[up < half], down[down < half], [half])))
    widths = np.diff(ends, prepend=0.0)
    starts = ends - 0.5 * widths
    falling = values[::-1][np.minimum(np.searchsorted(down, starts), values.size - 1)]
    rising = values[np.minimum(np.searchsorted(up, starts), values.size - 1)]
    with np.errstate(divide="ignore"):
        log_p, log_q = np.log(widths) + np.log(falling), np.log(widths) + np.log(rising)
        lost = np.log(ratio_sum.lost_p)
    error = LOG_RATIO_ERROR + 8.0 * UNIT_ROUNDOFF * masses.size
    return Pair.of_outcomes(
        AtomPair(
            np.concatenate((log_p, log_q, [lost, -math.inf])),
            np.concatenate((log_q, log_p, [-math.inf, lost])),
            has_heavy_atoms=_has_atoms(log_p),
            rounding=error,
        )
    )
