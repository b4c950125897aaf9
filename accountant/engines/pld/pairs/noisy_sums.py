"""Dominating pairs of sums with Gaussian or Laplace noise, of all units or of a Poisson sample.

Under `add-remove` and `zero-out` the pair is (with the unit, without it): a sum moves by one
contribution bound.  Under `replace-one` the unit contributes +1 bound in one data set and -1 in
the other.  Noise and positions are in contribution bounds.

Two facts that the literature leaves open are used, and proven here.

Vectors under Laplace noise.  Contributions of L1 norm at most 1 move several coordinates by
s_1, s_2, ...; one coordinate that moves by s = s_1 + s_2 dominates two.  Let C be the position
clamped to [0, s], which carries all that one coordinate says, and S = C_1 + C_2 that of two; both
likelihood ratios are e^(2 . / b - s / b).  Without the unit, P(C = 0) = 1/2 and P(S = 0) = 1/4;
inside (0, s) S has at least C's density, for every way of splitting s, and atoms besides; at s it
has less.  So the distribution functions cross once, and with equal means of the ratio that is the
convex order.  More coordinates follow one by one, since domination survives products.

Poisson sampling under replace-one.  Write B, M and M' for the release without the unit, with its
old and with its new value; the data sets give P = (1-q) B + q M and Q = (1-q) B + q M'.  For any
test with B-mass beta, M's mass is at most, and M''s at least, what the best test between B and a
shift by one full bound attains at beta.  Both are attained at once by the half line {x >= c} when
the values are +1 and -1 bound, so that pair is the worst at every order.

A Poisson sample of anything else is handed to the pairs of what is sampled (`outcomes`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from .... import events as ev
from ....errors import Unsupported
from ....guarantee import Neighbours, Step
from ...base import contribution, sampled_instead
from ...correlated_noise import correlated_noise
from ..grid.mixtures import LossMap, MixturePair, OppositeGaussians, OppositeLaplaces, SampledShift
from ..grid.noise import AdditiveNoise, GaussianNoise, LaplaceNoise
from ..grid.pair import Pair
from ..grid.pair_parts import AtomPair
from .matrix_bins import bins_mechanism
from .outcomes import integer_sum, no_guarantee, response, stated_numbers, worst_pair
from .registry import MIN_NOISE_MULTIPLIER, MIN_SAMPLING_RATE, DominatedMechanism, each_alone, pairs


@pairs.register(ev.Gaussian)
def _gaussian(event: ev.Gaussian, neighbours: Neighbours, rate: float = 1.0) -> DominatedMechanism:
    return noisy_sum(GaussianNoise(event.noise_multiplier), rate, neighbours, event)


@pairs.register(ev.MatrixGaussian)
def _matrix_gaussian(event: ev.MatrixGaussian, neighbours: Neighbours) -> DominatedMechanism:
    if isinstance(event.participation, ev.BallsInBins):
        return bins_mechanism(event, neighbours)
    correlated = correlated_noise(event, neighbours)
    whole = _gaussian(correlated.dominating, neighbours)
    attained = None
    if correlated.attained is not None:
        attained = _gaussian(correlated.attained, neighbours).lower_pair
    return replace(whole, attained=each_alone([attained]), steps=(correlated.step, *whole.steps))


@pairs.register(ev.Laplace)
def _laplace(event: ev.Laplace, neighbours: Neighbours, rate: float = 1.0) -> DominatedMechanism:
    return noisy_sum(LaplaceNoise(event.noise_multiplier), rate, neighbours, event)


def noisy_sum(
    noise: AdditiveNoise,
    rate: float,
    neighbours: Neighbours,
    event: ev.Gaussian | ev.Laplace,
) -> DominatedMechanism:
    if not MIN_NOISE_MULTIPLIER <= noise.scale <= 1.0 / MIN_NOISE_MULTIPLIER:
        raise Unsupported(
            f"The pld engine takes noise multipliers from {MIN_NOISE_MULTIPLIER:g} "
            f"to {1 / MIN_NOISE_MULTIPLIER:g}.",
            next_step="Check the unit of the noise: it is a multiple of the contribution bound.",
        )
    if neighbours == "replace-one" and rate < 1.0:
        opposite = OppositeLaplaces if isinstance(noise, LaplaceNoise) else OppositeGaussians
        present, other = (1.0 - rate, rate, 0.0), (1.0 - rate, 0.0, rate)
        pair = mixtures(noise, (0.0, 1.0, -1.0), present, other, opposite(noise, rate))
        return DominatedMechanism.of(pair, [pair], True, _sum_steps(event, rate, neighbours))
    reach = contribution(neighbours)
    noise = replace(noise, scale=noise.scale / reach)
    shift = SampledShift(noise, rate)
    pair = mixtures(noise, (0.0, 1.0), (1.0 - rate, rate), (1.0, 0.0), shift)
    if isinstance(noise, GaussianNoise) and rate < 1.0:
        # The loss stays above log(1 - q), and small losses gather there.
        lowest = math.log1p(-rate)
        pair = replace(pair, grid_atoms=(lowest,), support_end=(lowest, -1.0))
    return DominatedMechanism.of(pair, [pair], rate == 1.0, _sum_steps(event, rate, neighbours))


def mixtures(
    noise: AdditiveNoise,
    centres: tuple[float, ...],
    p_weights: tuple[float, ...],
    q_weights: tuple[float, ...],
    loss_map: LossMap,
) -> Pair:
    """Return the pair of two mixtures; under Laplace noise the flat ends of the loss are atoms."""
    if isinstance(noise, GaussianNoise):
        return Pair(MixturePair(noise, centres, p_weights, q_weights, loss_map), None)
    low, high = min(centres), max(centres)
    losses = loss_map.loss(np.array([low, high]))
    # P mass of each flat end, where the loss is constant: e^(-distance / b) / 2 per centre.
    beyond = [
        math.log(0.5 * weight) - np.abs(np.array([low, high]) - centre) / noise.scale
        for centre, weight in zip(centres, p_weights, strict=True)
        if weight > 0.0
    ]
    tails = np.logaddexp.reduce(beyond)
    continuous = MixturePair(noise, centres, p_weights, q_weights, loss_map, span=(low, high))
    grid_atoms = (float(losses[0]), float(losses[1]))
    return Pair(continuous, AtomPair(tails, tails - losses), grid_atoms)


def _sum_steps(
    event: ev.Gaussian | ev.Laplace, rate: float, neighbours: Neighbours
) -> tuple[Step, ...]:
    laplace = isinstance(event, ev.Laplace)
    norm = "L1" if laplace else "L2"
    name = "Lap" if laplace else "N"
    noise = f"{event.noise_multiplier:g}"
    spread = f"{noise}" if laplace else f"{noise}^2"
    reach = contribution(neighbours)
    moves = "one contribution bound" if reach == 1 else "two contribution bounds"
    mechanism = Step(
        "mechanism",
        f"Pair {name}({reach}, {spread}) against {name}(0, {spread}): the sum moves by {moves}.",
        "Dong, Roth, Su 2022, arXiv 1905.02383"
        if not laplace
        else "one coordinate dominates several: derived in engines/pld/pairs/noisy_sums.py",
        (f"each unit's contribution is at most 1 bound in {norm} norm", _relation(neighbours)),
    )
    if rate == 1.0:
        return (mechanism,)
    if neighbours == "replace-one":
        sampling = Step(
            "sampling",
            f"Pair (1-q) {name}(0) + q {name}(1) against (1-q) {name}(0) + q {name}(-1), "
            f"q = {rate:g}; it is its own reverse.",
            "derived in engines/pld/pairs/noisy_sums.py; attained by contributions of +1 and -1 "
            "bound",
            ("each unit joins each sample independently with probability q", _relation(neighbours)),
        )
        return mechanism, sampling
    sampling = Step(
        "sampling",
        f"Pairs ((1-q) Q + q P, Q) and reverse, q = {rate:g}; the worse direction counts.",
        "Zhu, Dong, Wang 2022, Theorem 11, arXiv 2106.08567",
        ("each unit joins each sample independently with probability q", _relation(neighbours)),
    )
    return mechanism, sampling


def _relation(neighbours: Neighbours) -> str:
    return f"neighbours: {neighbours}"


_STATED: Final = (ev.RandomizedResponse, ev.Pure, ev.Local, ev.Exponential, ev.Approximate)

_SAMPLED: Final[Mapping[type[ev.Event], Callable[..., DominatedMechanism]]] = {
    ev.Gaussian: _gaussian,
    ev.Laplace: _laplace,
    ev.DiscreteGaussian: integer_sum,
    ev.DiscreteLaplace: integer_sum,
    ev.TruncatedDiscreteGaussian: integer_sum,
    ev.RandomizedResponse: response,
    ev.Pure: stated_numbers,
    ev.Local: stated_numbers,
    ev.Exponential: stated_numbers,
    ev.Approximate: stated_numbers,
    ev.NoGuarantee: no_guarantee,
}
"""What has a pair on a Poisson sample: the function that makes it, of a release and its rate."""


@pairs.register(ev.Poisson)
def _poisson(event: ev.Poisson, neighbours: Neighbours) -> DominatedMechanism:
    rate, inner = event.rate, event.event
    if rate == 0.0:
        nothing = Pair.of_outcomes(AtomPair(np.zeros(1), np.zeros(1)))
        step = Step("sampling", "A rate of 0 releases nothing about anybody.", "by definition")
        return DominatedMechanism.of(nothing, [nothing], True, (step,))
    if rate < MIN_SAMPLING_RATE and not isinstance(inner, ev.NoGuarantee):
        pairs(inner, neighbours)  # refuses what is not understood
        return worst_pair(0.0, 1.0, rate)
    if isinstance(inner, _STATED) and neighbours != "add-remove":
        # Under zero-out, too: who is in the sample may be seen, as long as its value is hidden.
        raise Unsupported(
            f"Poisson sampling of `{inner.type}` is not supported under {neighbours}.",
            "Its epsilon then compares two values of a unit, while sampling amplifies by comparing "
            "a unit that is present with one that is absent; the number says nothing about that.",
            "Account it under add-remove, if its epsilon holds for a unit that comes or goes.",
        )
    sampled = _SAMPLED.get(type(inner))
    if sampled is not None:
        return sampled(inner, neighbours, rate)
    if isinstance(inner, ev.Shuffle):
        from .sampled_shuffle import shuffled_round  # it enters its own events here

        return shuffled_round(ev.Poisson(rate, inner), neighbours)
    raise Unsupported(
        f"The pld engine cannot treat Poisson sampling of `{inner.type}`.",
        next_step="Sample the innermost release, or leave the choice of the engine to privplan.",
        otherwise=sampled_instead(inner),
    )
