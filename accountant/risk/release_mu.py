"""The mu of Gaussian DP of one release, of a pure epsilon too: closed forms, from both sides.

Squares of mu add up over releases.  The lower ends below hold for that sum, too: each is that of a
test far out, at false positive rates near 0.  What is drawn with a probability p is there in n
rounds with probability p^n or more; TPR falls by that constant factor only, and this does not
matter to a quantile.  So no sampling has a smaller mu than what it samples.

**Gaussian noise** has mu = c / noise, with c = 2 under replace-one and 1 otherwise.  **Correlated
noise** is such a release of the noise over the sensitivity of its strategy.

**Samples** (Poisson samples, clients, steps that are drawn, random contributions) show no more than
a release whose draws are seen and turn out worst (joint convexity), and, from below, the mu of one
bound: under replace-one the other value may be 0, and then it is in no sample.

**Batches** of a fixed size are worst where all others contribute -1 and the unit +1: two bounds,
also where a unit goes and another one takes its turn.  Under zero-out one bound.  Draws that are
put back may all be the unit.

**Groups.**  k records together have at most k mu, along any chain of data sets; all of them may be
in the sample.

**Bounded losses.**  An eps-DP release is a post-processing of binary randomized response, whose
trade-off function has one corner, at equal error rates 1/(1 + e^eps).  The convex curve of N(mu, 1)
lies below it where it does at that corner:

    mu = 2 Phi^-1(e^eps / (1 + e^eps)),   or   erf(mu / sqrt 8) = tanh(eps / 2).

Source: Dong, Roth and Su 2022, arXiv 1905.02383v3: Corollary 3.3 (composition), Theorem 2.14
(groups); the corner and the tail are derived here.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from scipy.special import erfinv, ndtri_exp

from .. import events as ev
from ..composition import Composition, Leaf
from ..engines.base import contribution, guarded, require_both_drawn
from ..engines.correlated_noise import matrix_shift
from ..engines.largest_losses import largest_losses
from ..engines.pld.compose.directions import directions_of
from ..errors import Unsupported
from ..guarantee import Bounds, Neighbours

FUNCTION_ERROR: Final = 1e-12
"""Relative error of the inverse functions here, more than any of them has."""

MU_ROUNDING: Final = 4.0 * 2.0**-52
"""Relative error of a quotient, a root, a product and the root of a sum of squares together."""


@lru_cache(maxsize=256)
def release_mu(event: ev.Event, neighbours: Neighbours) -> Bounds:
    """Return bounds on mu of one release at every FPR, infinite where none is known.

    Squares add up over releases, of both ends.  Ends may be off by `MU_ROUNDING`.
    """
    across = contribution(neighbours)
    batch_across = 1.0 if neighbours == "zero-out" else 2.0
    match event:
        case ev.Gaussian(noise):
            return Bounds.exactly(across / noise)
        case ev.MatrixGaussian():
            return matrix_shift(event, neighbours)
        case ev.Poisson(rate, ev.Gaussian(noise)):
            return _drawn(rate, 1.0 / noise, across)
        case ev.GaussianMixture(noise, amounts, probabilities):
            pairs = zip(amounts, probabilities, strict=True)
            largest = max((amount for amount, rate in pairs if rate > 0.0), default=0.0)
            return Bounds(largest / noise, across * largest / noise)
        case ev.FixedSize(batch, population, ev.Gaussian(noise)):
            require_both_drawn(batch, population, neighbours)
            return Bounds.exactly(batch_across / noise)
        case ev.WithReplacement(batch, population, ev.Gaussian(noise)):
            require_both_drawn(1, population, neighbours)
            return Bounds.exactly(batch * batch_across / noise)
        case ev.ClientSampled(rate, inner):
            inside = composed_mu(Composition.of(inner), neighbours)
            return inside if rate > 0.0 else Bounds.exactly(0.0)
        case ev.RandomAllocation(_, chosen, inner):
            each = release_mu(inner, neighbours)
            lower = 1.0 / inner.noise_multiplier if isinstance(inner, ev.Gaussian) else 0.0
            return Bounds(math.sqrt(chosen) * lower, math.sqrt(chosen) * each.upper)
        case ev.Group(size, (ev.Poisson(_, ev.Gaussian()) | ev.MatrixGaussian()) as inner):
            record = release_mu(inner, neighbours)
            return Bounds(size * record.lower, size * record.upper)
    largest = largest_loss(event, neighbours)
    return Bounds(0.0, mu_of_pure(largest) * (1.0 + FUNCTION_ERROR))


def composed_mu(parts: Iterable[Leaf], neighbours: Neighbours) -> Bounds:
    """Return bounds on mu of a composition by the sum of squares, rounded outwards."""
    lower = upper = 0.0
    for leaf in parts:
        mu, root = release_mu(leaf.event, neighbours), math.sqrt(leaf.count)
        upper = math.hypot(upper, root * mu.upper * (1.0 + MU_ROUNDING))
        if leaf.fully_observed:
            lower = math.hypot(lower, root * mu.lower * (1.0 - MU_ROUNDING))
    return Bounds(lower * (1.0 - MU_ROUNDING), upper * (1.0 + MU_ROUNDING))


def largest_loss(event: ev.Event, neighbours: Neighbours) -> float:
    """Return an upper bound on the loss of one release: the smaller of two, infinite without any.

    That at delta 0, and that of the pairs of data sets which dominate.
    """
    bound = math.inf
    with contextlib.suppress(Unsupported):
        bound = largest_losses(event, neighbours).worse.upper
    try:
        with guarded("pld"):
            directions = directions_of(Composition([Leaf(event, 1)]), neighbours, 1e-6)
            return min(bound, max(0.0, *(each.largest_loss for each in directions)))
    except Unsupported:
        return bound


def mu_of_pure(epsilon: float) -> float:
    """Return mu of binary randomized response with `epsilon` of 0 or above, to 1e-12 of it.

    >>> round(mu_of_pure(1.0), 6), mu_of_pure(0.0)
    (1.232035, 0.0)
    """
    if epsilon < 1.0:
        return math.sqrt(8.0) * float(erfinv(math.tanh(epsilon / 2.0)))
    # log 1/(1 + e^eps) does not underflow, and has an inverse of its own.
    return -2.0 * float(ndtri_exp(-(epsilon + math.log1p(math.exp(-epsilon)))))


def _drawn(rate: float, alone: float, across: int) -> Bounds:
    """Return bounds on mu of what is drawn at a rate, `alone` being the mu of one bound."""
    if rate == 0.0:
        return Bounds.exactly(0.0)
    return Bounds(alone * (across if rate == 1.0 else 1), alone * across)
