"""One run, random directions: an estimate of epsilon from the cosines between canaries and model.

Canaries are uniform on the unit sphere; g_j = <c_j, u> for the direction u of what was released.
Of a canary that took no part, g has density proportional to (1 - t^2)^((d-3)/2) on (-1, 1), almost
N(0, 1/d).  A normal law is fitted to the cosines of canaries that took part, and epsilon is where
these two laws, in the worse direction, have the asked delta.  It is an estimate: nothing bounds how
far it is from the truth, on either side.
Source: Andrew, Kairouz, Oh, Oprea, McMahan, Suriyakumar 2023, arXiv 2302.03098.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from ...accountant import validate
from ...accountant.errors import InvalidInput

Array = NDArray[np.float64]

POINTS: Final = 200_001
"""Points on which both densities are compared."""

REACH: Final = 40.0
"""How many standard deviations of either law they cover."""


@dataclass(frozen=True)
class CosineEstimate:
    """An estimate of epsilon at `delta`, not a bound; the `mean` and `std` that it rests on."""

    epsilon: float
    mean: float
    std: float
    dimension: int
    delta: float


def cosine_estimate(cosines: ArrayLike, dimension: int, *, delta: float) -> CosineEstimate:
    """Return Andrew et al.'s estimate of epsilon, from the cosines of canaries that took part.

    `cosines` has shape (canaries,), at least two, in [-1, 1]; `dimension` d is that of the space
    of the canaries, 3 or above; `delta` in (0, 1).
    Source: Andrew et al. 2023, arXiv 2302.03098, Algorithm 2.
    """
    g = np.asarray(cosines, dtype=float)
    d = validate.count_from(3, dimension=dimension)
    validate.open_probability(delta=delta)
    if g.ndim != 1 or g.size < 2 or not (np.abs(g) <= 1.0 + 1e-9).all():
        raise InvalidInput(
            "`cosines` must be at least two numbers in [-1, 1].",
            "They are cosines of the angles between canaries and what was released.",
        )
    mean, std = float(g.mean()), float(g.std(ddof=1))
    if std == 0.0:
        raise InvalidInput("All `cosines` are the same, so no law can be fitted to them.")
    null, fitted = _densities(mean, std, d)
    epsilon = max(_epsilon(fitted, null, delta), _epsilon(null, fitted, delta))
    return CosineEstimate(epsilon, mean, std, d, delta)


def _densities(mean: float, std: float, d: int) -> tuple[Array, Array]:
    """Return log masses of both laws on the same points, each adding up to 1."""
    wide = REACH / np.sqrt(d)
    low = max(-1.0, min(-wide, mean - REACH * std))
    high = min(1.0, max(wide, mean + REACH * std))
    edges = np.linspace(low, high, POINTS + 1)
    t = 0.5 * (edges[1:] + edges[:-1])
    null = 0.5 * (d - 3.0) * np.log1p(-t * t)
    fitted = -0.5 * ((t - mean) / std) ** 2
    return null - logsumexp(null), fitted - logsumexp(fitted)


def _epsilon(log_p: Array, log_q: Array, delta: float) -> float:
    """Return the epsilon at which sum of (p - e^epsilon q)+ is delta, 0 if it never is more."""

    def excess(epsilon: float) -> float:
        gap = np.minimum(epsilon + log_q - log_p, 0.0)
        return float(np.sum(np.exp(log_p) * -np.expm1(gap))) - delta

    if excess(0.0) <= 0.0:
        return 0.0
    low, high = 0.0, 1.0
    while excess(high) > 0.0:
        low, high = high, 2.0 * high
        if high > 1e6:
            return float("inf")
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return high
