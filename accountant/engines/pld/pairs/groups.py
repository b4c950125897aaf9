"""The dominating pair of a unit that is made of several records, under Poisson sampling.

Write B for the release without the unit, given what the other records draw, and G_i(b) for the
largest mass that noise moved by i bounds can have on a test with B-mass b.  If i of the unit's
records are drawn, the sum moves by at most i bounds, and G_i is what the best test then attains:
one coordinate moved by i bounds dominates every vector (see noisy_sums.py for Laplace noise; a
Gaussian looks the same in every direction), and moving less tells less.  The number drawn is
binomial, with weights w_i, whichever records they are.

**Add-remove and zero-out**, all records together.  For any test with B-mass b,

    P(test) = sum over i of w_i (mass of the moved noise) <= sum of w_i G_i(b),

and it is at least sum of w_i (1 - G_i(1 - b)).  On the line, with every contribution at +1 bound,
the likelihood ratios of all shifts rise together, so the half line {x >= c} attains every G_i at
once, and {x <= c} every lower end.  Hence that pair, sum of w_i noise(i) against noise(0), is the
worst at every order, in both directions.

**Replace-one**, all records replaced: P has the old ones and Q the new ones.  By the same two
bounds P(test) - a Q(test) is at most sum of w_i G_i(b) - a sum of w_i (1 - G_i(1 - b)), and the
half line attains it for contributions of +1 and -1 bound.  The worst pair is sum of w_i noise(i)
against sum of w_i noise(-i), its own mirror image.

**Some come, others go**: with m records in P only and n in Q only, likewise, Bin(m, q) up against
Bin(n, q) down is the worst pair.  Whether m = k, n = 0 is the worst of all with m + n = k is not
proven here; no worse one was found.

Each pair is that of one fixed pair of data sets, so it bounds from below as well.
Source: derived here; for Gaussian noise Ganesh 2024, arXiv 2401.10294.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from .... import events as ev
from ....amplification.group import group_step, type_of
from ....arrays import FloatArray
from ....errors import Unsupported
from ....grouping import by_lemma
from ....guarantee import Neighbours, Step
from ..grid.pair import Pair
from ..grid.pair_parts import AtomPair
from .binomial import BinomialShifts, GaussianShifts, LaplaceShifts
from .binomial_mixtures import BinomialLoss, BinomialMixturePair
from .group_classes import STATED_RECORDS, chained
from .outcomes import worst_pair
from .registry import (
    MAX_SUPPORT_SIZE,
    MIN_NOISE_MULTIPLIER,
    MIN_SAMPLING_RATE,
    DominatedMechanism,
    pairs,
)

MAX_GROUP_RECORDS: Final = 100_000
"""Most records of one unit whose pair is composed; above, the rdp engine answers."""

MIN_GRID_ATOM_MASS: Final = 1e-9
"""An atom of less mass need not lie on the grid."""


@pairs.register(ev.Group)
def _group(event: ev.Group, neighbours: Neighbours) -> DominatedMechanism:
    size, sampled = event.size, event.event
    if isinstance(sampled, STATED_RECORDS):
        return chained(size, sampled, by_lemma(event), neighbours)
    if isinstance(sampled, ev.FixedSize) and neighbours == "replace-one":
        from .fixed_size_groups import replaced_records

        return replaced_records(size, sampled)
    if isinstance(sampled, ev.MatrixGaussian):
        from .matrix_bins import grouped_bins

        return grouped_bins(size, sampled, neighbours)
    if not isinstance(sampled, ev.Poisson) or not isinstance(sampled.event, _NOISE):
        raise Unsupported(
            f"The pld engine has no pair for a group of records of {type_of(sampled)}.",
            "It knows what several records lose together under Poisson sampling with Gaussian, "
            "Laplace or discrete noise.",
            "Leave the choice of the engine to privplan: rdp answers from one record's curve.",
            otherwise="Account for one record, or for a group under Poisson sampling.",
        )
    if size > MAX_GROUP_RECORDS:
        raise Unsupported(
            f"The pld engine takes groups of up to {MAX_GROUP_RECORDS:,} records; "
            f"{size:,} were asked.",
            next_step="Use --engine rdp, which takes any size.",
        )
    rate, inner = sampled.rate, sampled.event
    if rate == 0.0:
        return pairs(sampled, neighbours)
    if size * rate < MIN_SAMPLING_RATE:
        return worst_pair(0.0, 1.0, size * rate)
    noise = inner.noise_multiplier
    if not MIN_NOISE_MULTIPLIER <= noise <= 1.0 / MIN_NOISE_MULTIPLIER:
        raise Unsupported(
            f"The pld engine takes noise multipliers from {MIN_NOISE_MULTIPLIER:g} "
            f"to {1 / MIN_NOISE_MULTIPLIER:g}.",
            next_step="Check the unit of the noise: it is a multiple of the contribution bound.",
        )
    up = _SHIFTS[type(inner)](size, rate, noise)
    losses = BinomialLoss(up, up if neighbours == "replace-one" else None)
    if isinstance(inner, (ev.DiscreteGaussian, ev.DiscreteLaplace)):
        pair = _on_integers(inner, losses)
    else:
        pair = group_pair(losses)
    return DominatedMechanism.of(
        pair, [pair], neighbours == "replace-one", _steps(size, rate, inner, neighbours)
    )


_NOISE = (ev.Gaussian, ev.DiscreteGaussian, ev.Laplace, ev.DiscreteLaplace)

_SHIFTS: Final[dict[type[ev.Event], Callable[[int, float, float], BinomialShifts]]] = {
    ev.Gaussian: GaussianShifts,
    ev.DiscreteGaussian: GaussianShifts,
    ev.Laplace: LaplaceShifts,
    ev.DiscreteLaplace: LaplaceShifts,
}
"""Noise -> its log density ratio under shifts; on integers it is the same as on the line."""


def group_pair(losses: BinomialLoss) -> Pair:
    """Return the pair of noise moved up against noise moved down, or not moved."""
    continuous = BinomialMixturePair(losses)
    if isinstance(losses.up, LaplaceShifts):
        return _with_flat_ends(continuous, losses)
    if losses.down is not None:
        return Pair(continuous, None)
    # The loss stays above that of nobody being drawn, and small losses gather there.
    lowest = losses.up.lowest
    if math.isinf(lowest):
        return Pair(continuous, None)
    return Pair(continuous, None, grid_atoms=(lowest,), support_end=(lowest, -1.0))


def _with_flat_ends(continuous: BinomialMixturePair, losses: BinomialLoss) -> Pair:
    """Return the Laplace pair, whose loss is constant beyond the outermost centres."""
    ends = np.array(losses.reach)
    at_ends = losses.at(ends).log
    beyond = np.array([-np.inf, *ends, np.inf])
    tails = losses.up.log_masses(beyond)[[0, 2]]
    atoms = AtomPair(tails, tails - at_ends)
    heavy = np.exp(np.maximum(atoms.log_p, atoms.log_q)) >= MIN_GRID_ATOM_MASS
    return Pair(continuous, atoms, tuple(at_ends[heavy].tolist()))


# --- integer sums -------------------------------------------------------------------------------


def _on_integers(inner: ev.DiscreteGaussian | ev.DiscreteLaplace, losses: BinomialLoss) -> Pair:
    """Return the pair of an integer sum; a record moves it by up to `sensitivity`."""
    bound = inner.sensitivity
    highest = round(losses.up.farthest) * bound
    lowest = 0 if losses.down is None else -highest
    if isinstance(inner, ev.DiscreteGaussian):
        # Beyond 37 standard deviations the mass is below 1e-290; it is counted as unseen.
        radius = math.ceil(37.0 * inner.noise_multiplier * bound) + 1
        lowest, highest, omitted_mass = lowest - radius, highest + radius, 1e-290
    else:
        omitted_mass = 0.0
    if highest - lowest + 1 > MAX_SUPPORT_SIZE:
        raise Unsupported(
            f"An integer sum from {lowest:,} to {highest:,} has too many outcomes to list.",
            next_step="Use --engine rdp, whose bound holds for any range.",
        )
    x = np.arange(lowest, highest + 1, dtype=float)
    # log P = log noise(x) + log G_up(x); on integers the ratios are those of the line.
    log_noise = _discrete_log_masses(inner, x)
    up, ratio = losses.up.at(x / bound), losses.at(x / bound)
    other = up.log - ratio.log  # of the noise that is moved down, or 0
    error = float(losses.tolerance(x / bound, ratio).max()) + 2.0 * losses.up.weights_error
    return Pair.of_outcomes(
        AtomPair(log_noise + up.log, log_noise + other, omitted_mass, rounding=2.0 * error)
    )


def _discrete_log_masses(
    inner: ev.DiscreteGaussian | ev.DiscreteLaplace, x: FloatArray
) -> FloatArray:
    """Return the log probabilities of noise around 0; at the ends of Laplace noise, of the tails.

    Beyond the outermost centres the likelihood ratios of Laplace noise are constant.
    """
    scale = inner.noise_multiplier * inner.sensitivity
    if isinstance(inner, ev.DiscreteGaussian):
        radius = math.ceil(37.0 * scale) + 1
        z = np.arange(-radius, radius + 1, dtype=float)
        total = math.log(float(np.exp(-0.5 * (z / scale) ** 2).sum()))
        return np.asarray(-0.5 * (x / scale) ** 2 - total)
    logs: FloatArray = -np.abs(x) / scale + math.log(math.tanh(0.5 / scale))
    log_tail = -math.log(-math.expm1(-1.0 / scale))
    logs[-1] += log_tail
    logs[0] += log_tail
    return logs


# --- the derivation -----------------------------------------------------------------------------


def _steps(
    size: int,
    rate: float,
    inner: ev.Gaussian | ev.DiscreteGaussian | ev.Laplace | ev.DiscreteLaplace,
    neighbours: Neighbours,
) -> tuple[Step, ...]:
    mirrored = "sum_i w_i noise(-i), its mirror image"
    other = mirrored if neighbours == "replace-one" else "noise(0), and the reverse"
    pair = Step(
        "sampling",
        f"Pair sum_i w_i noise(i) against {other}; {inner.type} noise of multiplier "
        f"{inner.noise_multiplier:g}, w_i = Bin({size}, {rate:g})(i).",
        "derived in engines/pld/pairs/groups.py; for Gaussian noise also Ganesh 2024, "
        "arXiv 2401.10294",
        (
            "each record joins each sample independently with probability q",
            "each record contributes at most 1 bound",
            "attained where all contributions point the same way",
        ),
    )
    return group_step(size, neighbours), pair
