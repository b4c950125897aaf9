"""Schedules of silos, and what one of them pays by a closed form that no engine here uses."""

from __future__ import annotations

import math

from scipy.optimize import brentq
from scipy.stats import norm

DELTA = 1e-5

SCHEDULES = {
    "all": [(0, 1, 2)] * 4,
    "disjoint": [(0, 1), (0, 1), (2, 3), (2, 3)],
    "staggered": [(0, 1), (1, 2), (2, 3), (3, 4)],
    "one-in-all": [(0, 1), (0, 2), (0, 3), (0, 4)],
}


def exact(mu: float, delta: float = DELTA) -> float:
    """Return epsilon of mu-Gaussian privacy: Phi(m/2 - e/m) - exp(e) Phi(-m/2 - e/m) = delta."""

    def excess(epsilon: float) -> float:
        below = math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
        return float(norm.cdf(mu / 2 - epsilon / mu) - below - delta)

    return float(brentq(excess, 0.0, 10.0 + 10.0 * mu * mu, xtol=1e-13))


def busiest(schedule: list[tuple[int, ...]]) -> int:
    return max(sum(silo in silos for silos in schedule) for silo in range(5))
