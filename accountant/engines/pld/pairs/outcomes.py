"""Mechanisms with finitely many outcomes: randomized response, stated epsilons, discrete noise.

An event that only states an epsilon names a class of mechanisms: its pair dominates them all, and
the worst of them attains it.  A given one need not, so of that one it gives no lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from .... import events as ev
from ....arrays import FloatArray
from ....errors import Unsupported
from ....guarantee import Neighbours, Step
from ..grid.pair import Pair
from ..grid.pair_parts import AtomPair
from .registry import MAX_SUPPORT_SIZE, DominatedMechanism, pairs


@dataclass(frozen=True, eq=False)
class Outcomes:
    """A discrete mechanism: log probabilities of its outcomes with the unit's value at 0, +1, -1.

    0 stands for an absent unit or a zero contribution.
    """

    absent: FloatArray
    plus: FloatArray
    minus: FloatArray | None = None

    def pair(self, rate: float, neighbours: Neighbours, omitted_mass: float = 0.0) -> Pair:
        """Return the pair under Poisson sampling at `rate`."""
        if neighbours == "replace-one":
            if self.minus is None:
                raise AssertionError("an event with a stated epsilon is never sampled here")
            other = blend(rate, self.absent, self.minus)
        else:
            other = self.absent
        return Pair.of_outcomes(AtomPair(blend(rate, self.absent, self.plus), other, omitted_mass))


def blend(rate: float, absent: FloatArray, present: FloatArray) -> FloatArray:
    """Return log((1 - rate) e^absent + rate e^present)."""
    if rate == 1.0:
        return present
    return np.logaddexp(math.log1p(-rate) + absent, math.log(rate) + present)


@pairs.register(ev.Pure)
@pairs.register(ev.Local)
@pairs.register(ev.Exponential)
@pairs.register(ev.Approximate)
def stated_numbers(
    event: ev.Pure | ev.Local | ev.Exponential | ev.Approximate,
    neighbours: Neighbours,  # noqa: ARG001
    rate: float = 1.0,
) -> DominatedMechanism:
    """Return the pair of what only states its numbers; on a Poisson sample at `rate`."""
    if isinstance(event, ev.Exponential):
        return worst_pair(event.epsilon, 0.0, rate)
    return whole_class(
        event.epsilon, event.delta if isinstance(event, ev.Approximate) else 0.0, rate
    )


@pairs.register(ev.NoGuarantee)
def no_guarantee(
    event: ev.NoGuarantee,  # noqa: ARG001
    neighbours: Neighbours,  # noqa: ARG001
    rate: float = 1.0,
) -> DominatedMechanism:
    """Return the pair that tells everything; on a Poisson sample at `rate`."""
    return worst_pair(0.0, 1.0, rate)


@pairs.register(ev.RandomizedResponse)
def response(
    event: ev.RandomizedResponse, neighbours: Neighbours, rate: float = 1.0
) -> DominatedMechanism:
    """Return the pair of randomized response; on a Poisson sample at `rate`."""
    if neighbours != "replace-one":
        # What an absent unit reports is not said, so only the epsilon counts, for any report.
        return worst_pair(event.epsilon, 0.0, rate)
    exact = _response_outcomes(event).pair(rate, "add-remove")
    step = Step(
        "mechanism",
        f"{event.categories} outcomes; the true one is e^{event.epsilon:g} times as likely.",
        "Kairouz, Bonawitz, Ramage 2016, arXiv 1602.07387",
        (f"neighbours: {neighbours}",),
    )
    return DominatedMechanism.of(exact, [exact], rate == 1.0, (step,))


def _response_outcomes(event: ev.RandomizedResponse) -> Outcomes:
    log_total = math.log1p((event.categories - 1) * math.exp(-event.epsilon))
    true, other = -log_total, -event.epsilon - log_total
    rest = other + math.log(event.categories - 2) if event.categories > 2 else -math.inf
    keep = 3 if event.categories > 2 else 2
    return Outcomes(np.array([other, true, rest])[:keep], np.array([true, other, rest])[:keep])


def whole_class(epsilon: float, delta: float, rate: float = 1.0) -> DominatedMechanism:
    """Return the pair of all (epsilon, delta)-DP mechanisms, which the worst of them attains.

    So it does on a Poisson sample, by answering whether the unit is in it.
    """
    worst = worst_pair(epsilon, delta, rate)
    return replace(worst, class_pair=worst.pair)


def worst_pair(epsilon: float, delta: float, rate: float) -> DominatedMechanism:
    """Return the pair that dominates every (epsilon, delta)-DP mechanism, Poisson sampled at
    `rate`.

    With probability delta it tells everything; otherwise it is a binary randomized response.
    """
    log_rest = math.log1p(-delta) if delta < 1.0 else -math.inf
    log_delta = math.log(delta) if delta > 0.0 else -math.inf
    true = log_rest - math.log1p(math.exp(-epsilon))
    other = true - epsilon
    # Outcomes without the unit, then with it: one that shows the unit, the two of a randomized
    # response, one that shows its absence.
    outcomes = Outcomes(
        np.array([-math.inf, other, true, log_delta]),
        np.array([log_delta, true, other, -math.inf]),
    )
    pair = outcomes.pair(rate, "add-remove")
    step = Step(
        "mechanism",
        f"The worst ({epsilon:g}, {delta:g})-DP mechanism"
        + (f", Poisson sampled at {rate:g}." if rate < 1.0 else "."),
        "Kairouz, Oh, Viswanath 2017, arXiv 1311.0776",
        (
            "its parameters hold for the neighbouring relation of this account",
            "they name a class of mechanisms, some of which lose less",
        ),
    )
    return DominatedMechanism.of(pair, [], rate == 1.0, (step,))


@pairs.register(ev.DiscreteGaussian)
@pairs.register(ev.DiscreteLaplace)
@pairs.register(ev.TruncatedDiscreteGaussian)
def integer_sum(
    event: ev.DiscreteGaussian | ev.DiscreteLaplace | ev.TruncatedDiscreteGaussian,
    neighbours: Neighbours,
    rate: float = 1.0,
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
            "derived in engines/pld/pairs/outcomes.py",
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
    return DominatedMechanism.of(pair, [pair], symmetric, (step,))


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
