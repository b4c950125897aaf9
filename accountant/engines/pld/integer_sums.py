"""Dominating pairs of integer sums with discrete Gaussian or discrete Laplace noise."""

from __future__ import annotations

import math

import numpy as np

from ... import events as ev
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from .outcomes import Outcomes
from .registry import MAX_SUPPORT_SIZE, DominatedMechanism, pairs


@pairs.register(ev.DiscreteGaussian)
def _discrete_gaussian(event: ev.DiscreteGaussian, neighbours: Neighbours) -> DominatedMechanism:
    return integer_sum(event, 1.0, neighbours)


@pairs.register(ev.DiscreteLaplace)
def _discrete_laplace(event: ev.DiscreteLaplace, neighbours: Neighbours) -> DominatedMechanism:
    return integer_sum(event, 1.0, neighbours)


@pairs.register(ev.TruncatedDiscreteGaussian)
def _truncated_discrete_gaussian(
    event: ev.TruncatedDiscreteGaussian, neighbours: Neighbours
) -> DominatedMechanism:
    return integer_sum(event, 1.0, neighbours)


def integer_sum(
    event: ev.DiscreteGaussian | ev.DiscreteLaplace | ev.TruncatedDiscreteGaussian,
    rate: float,
    neighbours: Neighbours,
) -> DominatedMechanism:
    """Return the pair of a Poisson sample at `rate`; all of it at 1.

    Log-concave noise has monotone likelihood ratios, so the best tests are thresholds and the
    farthest shift shows most.
    """
    reach = event.sensitivity
    if neighbours == "replace-one" and rate == 1.0:
        reach *= 2  # only the distance between the two data sets matters
    if isinstance(event, ev.TruncatedDiscreteGaussian):
        outcomes, omitted_mass = _truncated_outcomes(event, reach), 0.0
        name, steps_source = (
            f"Discrete Gaussian, cut at {event.bound:,},",
            "derived in engines/pld/integer_sums.py",
        )
    elif isinstance(event, ev.DiscreteGaussian):
        outcomes, omitted_mass = _discrete_gaussian_outcomes(event, reach), 1e-290
        name, steps_source = "Discrete Gaussian", "Canonne, Kamath, Steinke 2020, arXiv 2004.00010"
    else:
        outcomes, omitted_mass = _discrete_laplace_outcomes(event, reach), 0.0
        name, steps_source = (
            "Discrete Laplace",
            "Ghosh, Roughgarden, Sundararajan 2012, arXiv 0811.2841",
        )
    direct = neighbours if rate < 1.0 else "add-remove"
    pair = outcomes.pair(rate, direct, omitted_mass)
    step = Step(
        "mechanism",
        f"{name} noise of multiplier {event.noise_multiplier:g} on an integer sum, shifted by "
        f"{reach} against itself" + (f", Poisson sampled at {rate:g}." if rate < 1.0 else "."),
        steps_source,
        (
            f"the release is one integer; a unit contributes at most {event.sensitivity}",
            f"neighbours: {neighbours}",
        ),
    )
    symmetric = rate == 1.0 or neighbours == "replace-one"
    return DominatedMechanism(pair, pair, symmetric, (step,))


def _discrete_gaussian_outcomes(event: ev.DiscreteGaussian, reach: int) -> Outcomes:
    sigma = event.noise_multiplier * event.sensitivity
    # Beyond 37 standard deviations the mass is below 1e-290; it is counted as unseen.
    radius = math.ceil(37.0 * sigma) + 1
    if 2 * (radius + reach) + 1 > MAX_SUPPORT_SIZE:
        raise Unsupported(
            f"A discrete Gaussian of standard deviation {sigma:g} has too many outcomes to list.",
            next_step="Use --engine rdp, whose bound holds for any standard deviation.",
        )
    # log of e^(-z^2 / (2 sigma^2)) / total on integers; the total is that of the range, and what
    # lies beyond it counts as omitted mass.
    x = np.arange(-radius - reach, radius + reach + 1, dtype=float)
    z = np.arange(-radius, radius + 1, dtype=float)
    log_total = math.log(float(np.exp(-0.5 * (z / sigma) ** 2).sum()))
    around = [-0.5 * ((x - centre) / sigma) ** 2 - log_total for centre in (0, reach, -reach)]
    return Outcomes(*around)


def _truncated_outcomes(event: ev.TruncatedDiscreteGaussian, reach: int) -> Outcomes:
    """Outcomes of noise in [-bound, bound]; beyond, one data set gives what the other cannot."""
    sigma, bound = event.noise_multiplier * event.sensitivity, event.bound
    if 2 * (bound + reach) + 1 > MAX_SUPPORT_SIZE:
        raise Unsupported(f"A bound of {bound:,} gives too many outcomes to list.")
    x = np.arange(-bound - reach, bound + reach + 1, dtype=float)
    z = np.arange(-bound, bound + 1, dtype=float)
    log_total = math.log(math.fsum(np.exp(-0.5 * (z / sigma) ** 2).tolist()))
    around = [
        np.where(
            np.abs(x - centre) <= bound, -0.5 * ((x - centre) / sigma) ** 2 - log_total, -np.inf
        )
        for centre in (0, reach, -reach)
    ]
    return Outcomes(*around)


def _discrete_laplace_outcomes(event: ev.DiscreteLaplace, reach: int) -> Outcomes:
    """Outcomes with everything from `reach` up, and from -`reach` down, taken together.

    Beyond the centres the likelihood ratios are constant, so nothing is lost.
    """
    scale = event.noise_multiplier * event.sensitivity
    if 2 * reach + 1 > MAX_SUPPORT_SIZE:
        raise Unsupported(f"A sensitivity of {reach} gives too many outcomes to list.")
    x = np.arange(-reach, reach + 1, dtype=float)
    log_norm = math.log(math.tanh(0.5 / scale))
    log_tail = -math.log(-math.expm1(-1.0 / scale))  # of a geometric series
    around = []
    for centre in (0, reach, -reach):
        logs = -np.abs(x - centre) / scale + log_norm
        # At +-reach the ends stand for whole tails, whose terms fall away from the centre.
        logs[-1] += log_tail
        logs[0] += log_tail
        around.append(logs)
    return Outcomes(*around)
