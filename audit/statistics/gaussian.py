"""The Gaussian family: mu from error rates, and back to epsilon and delta.

mu is a statement about mechanisms whose trade-off function is that of N(0, 1) against N(mu, 1):
Gaussian noise without sampling.  For any other mechanism it overstates: Laplace noise of epsilon 1
comes out at epsilon 4.3, delta 1e-5.  Use `family_test` where the claim is anything else.
"""

from __future__ import annotations

import math
from typing import Final

from scipy.special import ndtri

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.composition import Leaf
from ...accountant.engines.gdp import GdpEngine
from ...accountant.errors import InvalidInput
from .binomial import Counts, level_of

MAX_MU: Final = 1e6


def mu_lower(counts: Counts, *, alpha: float = 0.05, thresholds: int = 1) -> float:
    """Return a lower bound on mu, for Gaussian mechanisms only: wrong with probability <= alpha.

        mu >= Phi^-1(1 - F) - Phi^-1(N),  0 if that is negative,

    F and N the upper ends of false alarm and miss rate, alpha / 2 each; `thresholds` as in
    `epsilon_lower`.  What is rejected for a smaller mu is that the mechanism is *Gaussian* with
    that mu, not that it is (epsilon, delta)-DP.
    Source: Dong, Roth, Su 2022, arXiv 1905.02383v3, Definition 2.5 (mu-GDP).
    """
    false_alarms, misses = counts.upper(level_of(alpha, thresholds))
    if false_alarms >= 1.0 or misses >= 1.0:
        return 0.0
    # F and N are upper limits and Phi^-1 grows, so mu errs downwards.
    return max(0.0, (-float(ndtri(false_alarms)) - float(ndtri(misses))) * (1.0 - 1e-12))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon at which the Gaussian mechanism of `mu` has this delta, rounded down.

    Range: `mu` from 0 to 1e6, `delta` in (0, 1).
    Source: Dong, Roth, Su 2022, arXiv 1905.02383v3, Corollary 2.13.

    >>> round(gdp_epsilon(1.0, 1e-5), 6)
    4.377178
    """
    parts = _parts(mu)
    validate.open_probability(delta=delta)
    return GdpEngine().epsilon(parts, delta, "add-remove").bounds.lower if parts else 0.0


def _parts(mu: float) -> list[Leaf]:
    mu = validate.non_negative(mu=mu)
    if mu > MAX_MU:
        raise InvalidInput(f"`mu` must be at most {MAX_MU:g}; it is {mu:g}.")
    # A little more noise than 1 / mu, so that nothing is rounded up.
    return [Leaf(ev.Gaussian(math.nextafter(1.0 / mu, math.inf)), 1)] if mu > 1e-150 else []
