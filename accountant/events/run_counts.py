"""The truncated negative binomial number of runs: its mean, and the law that has a given mean.

With shape eta above -1, success probability g in (0, 1] and l = log(1/g), P(K = k) is proportional
to (1 - g)^k Gamma(k + eta) / k! for k = 1, 2, ...  Shape 1 is geometric, and 0 logarithmic.  With
G(x) = log((e^x - 1) / x), which is 0 at 0 and rises,

    E[K] = eta (1 - g) / (g (1 - g^eta))   (shape 0: (1/g - 1) / log(1/g)),
    log E[K] = G(l) - G(-eta l),

which rises from 0 with l.

Source: Papernot and Steinke 2021, Definition 1, arXiv 2110.03620v2.
"""

from __future__ import annotations

import math
from typing import Final

from .. import validate
from ..errors import InvalidInput
from ..rootfinding import enclose, narrow

LARGEST_LOG_INVERSE: Final = 1e9
"""Largest log(1/g) that is searched."""


def negative_binomial_mean(shape: float, success: float) -> float:
    """Return the mean of the truncated negative binomial law of a shape and success probability.

    Range: `shape` above -1, `success` in (0, 1].  Infinite where a float cannot hold it.
    Source: Papernot and Steinke 2021, Definition 1, arXiv 2110.03620v2.

    >>> round(negative_binomial_mean(1.0, 0.1), 9)  # geometric
    10.0
    """
    eta = _shape(shape)
    g = validate.probability(success=success)
    validate.positive(success=g)
    log_mean = log_mean_runs(eta, -math.log(g))
    return math.exp(log_mean) if log_mean < 709.0 else math.inf


def log_mean_runs(shape: float, log_inverse: float) -> float:
    """Return log E[K] where log(1/g) is `log_inverse`."""
    return _growth(log_inverse) - _growth(-shape * log_inverse)


def log_inverse_success(shape: float, mean: float) -> float:
    """Return log(1/g), rounded up, of the law of this shape that has this mean.

    Raises `InvalidInput` for a mean below 1, or one that no g gives within numbers.
    """
    eta, log_mean = _shape(shape), math.log(validate.positive(mean=mean))
    if log_mean < 0.0:
        raise InvalidInput(
            f"`mean` must be 1 or above for this number of runs; it is {mean:g}.",
            "At least one run is made.",
            "Give a mean of 1 or above, or a poisson number of runs, which may be 0.",
        )
    if log_mean == 0.0:
        return 0.0
    if eta == 1.0:
        return log_mean * (1.0 + 1e-15)

    def excess(log_inverse: float) -> float:
        # What rounding may take off the two logarithms is asked for on top: so l errs upwards.
        rounding = 4e-16 * (1.0 + abs(log_mean) + log_inverse * (1.0 + abs(eta)))
        return log_mean + rounding - log_mean_runs(eta, log_inverse)

    start = min(2.0 * log_mean / (1.0 + eta), LARGEST_LOG_INVERSE)
    bracket = enclose(excess, start, 1.0, 0.0, LARGEST_LOG_INVERSE)
    if bracket is None:
        raise InvalidInput(
            f"No success probability gives a mean of {mean:g} at shape {eta:g}.",
            "With a shape next to -1 hardly more than one run is made.",
            "Give a larger shape or a smaller mean.",
        )
    return narrow(excess, bracket, relative=1e-13).high


def _shape(shape: float) -> float:
    eta = validate.finite(shape=shape)
    if eta <= -1.0:
        raise InvalidInput(
            f"`shape` must be above -1; it is {eta:g}.", next_step="Give a shape such as 0.5."
        )
    return eta


def _growth(x: float) -> float:
    """Return G(x) = log((e^x - 1) / x)."""
    if abs(x) < 1e-4:
        return x / 2.0 + x * x / 24.0
    if x < 0.0:
        return math.log(math.expm1(x) / x)
    return x + math.log(-math.expm1(-x)) - math.log(x)
