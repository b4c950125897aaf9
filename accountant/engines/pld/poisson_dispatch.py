"""Hands a Poisson sample (each unit joins with probability q) to the pairs of what is sampled.

The pairs themselves stand in `noisy_sums` and `outcomes`.
"""

from __future__ import annotations

import numpy as np

from ... import events as ev
from ...errors import Unsupported
from ...guarantee import Neighbours, Step
from ..base import sampled_instead
from .noise import GaussianNoise, LaplaceNoise
from .noisy_sums import noisy_sum
from .outcomes import integer_sum, response, whole_class, worst_pair
from .pair import Pair
from .pair_parts import AtomPair
from .registry import MIN_SAMPLING_RATE, DominatedMechanism, pairs


@pairs.register(ev.Poisson)
def _poisson(event: ev.Poisson, neighbours: Neighbours) -> DominatedMechanism:
    rate, inner = event.rate, event.event
    if rate == 0.0:
        nothing = Pair.of_outcomes(AtomPair(np.zeros(1), np.zeros(1)))
        step = Step("sampling", "A rate of 0 releases nothing about anybody.", "by definition")
        return DominatedMechanism(nothing, nothing, True, (step,))
    if rate < MIN_SAMPLING_RATE and not isinstance(inner, ev.NoGuarantee):
        pairs(inner, neighbours)  # refuses what is not understood
        return worst_pair(0.0, 1.0, rate)
    if isinstance(inner, ev.Gaussian):
        return noisy_sum(GaussianNoise(inner.noise_multiplier), rate, neighbours, inner)
    if isinstance(inner, ev.Laplace):
        return noisy_sum(LaplaceNoise(inner.noise_multiplier), rate, neighbours, inner)
    if isinstance(inner, (ev.DiscreteGaussian, ev.DiscreteLaplace, ev.TruncatedDiscreteGaussian)):
        return integer_sum(inner, rate, neighbours)
    return _sampled_bare(inner, rate, neighbours)


def _sampled_bare(inner: ev.Event, rate: float, neighbours: Neighbours) -> DominatedMechanism:
    bare = (ev.RandomizedResponse, ev.Pure, ev.Local, ev.Exponential, ev.Approximate)
    if isinstance(inner, bare) and neighbours != "add-remove":
        # Under zero-out, too: who is in the sample may be seen, as long as its value is hidden.
        raise Unsupported(
            f"Poisson sampling of `{inner.type}` is not supported under {neighbours}.",
            "Its epsilon then compares two values of a unit, while sampling amplifies by comparing "
            "a unit that is present with one that is absent; the number says nothing about that.",
            "Account it under add-remove, if its epsilon holds for a unit that comes or goes.",
        )
    if isinstance(inner, ev.RandomizedResponse):
        return response(inner, rate, neighbours)
    if isinstance(inner, ev.Exponential):
        return worst_pair(inner.epsilon, 0.0, rate)
    if isinstance(inner, (ev.Pure, ev.Local)):
        return whole_class(inner.epsilon, 0.0, rate)
    if isinstance(inner, ev.Approximate):
        return whole_class(inner.epsilon, inner.delta, rate)
    if isinstance(inner, ev.NoGuarantee):
        return worst_pair(0.0, 1.0, rate)
    if isinstance(inner, ev.Shuffle):
        from .shuffled import shuffled_round  # it enters its own events here

        return shuffled_round(ev.Poisson(rate, inner), neighbours)
    raise Unsupported(
        f"The pld engine cannot treat Poisson sampling of `{inner.type}`.",
        next_step="Sample the innermost release, or leave the choice of the engine to privplan.",
        otherwise=sampled_instead(inner),
    )
