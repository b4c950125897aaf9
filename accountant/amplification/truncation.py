"""What cutting a Poisson sample at random to at most B units does to one unit: rates, rounded up.

Let N be how many of the other units join, before the cut.  If N < B, nothing is cut.  If N >= B,
the sample without the unit is a uniform set of B of the others, whatever N is; with it, the unit
joins and survives the cut with probability q B / (N + 1), and then B - 1 of the others stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

MOST_TERMS: Final = 8_000_000
"""Most probabilities of a binomial that are added one by one; beyond, Bernstein's bound."""

LEAST_WEIGHT: Final = 1e-280
"""Below this a probability of being cut is rounded up to it."""

_UNIT_ROUNDOFF: Final = 2.0**-53


@dataclass(frozen=True)
class Cut:
    """The two cases of a Poisson sample of rate q that is cut to B of n units.

    `spared` and `full` are P(N < B) and P(N >= B), `rate` is E[q B / (N + 1) | N >= B], the
    probability that the unit is in a full sample: all rounded up.  `overall` is the probability
    that the unit is in the sample at all, rounded down.  Where n is too large for sums, `spared`
    is 1 and `overall` 0.

    N ~ Bin(n - 1, q), and P(N >= B) E[q B / (N + 1) | N >= B] = (B / n) P(Bin(n, q) > B).
    """

    spared: float
    full: float
    rate: float
    overall: float

    @classmethod
    def of(cls, population: int, rate: float, batch: int) -> Cut:
        """Return it for n = `population` units in the larger data set and B = `batch` below n.

        `rate` is in (0, 1].

        >>> cut = Cut.of(4, 0.5, 3)  # the three others all join: 1/8
        >>> round(cut.full, 9), round(cut.rate, 9)  # and then the unit stays with 1/2 * 3/4
        (0.125, 0.375)
        """
        most = rate * (batch / (batch + 1.0)) * (1.0 + 4.0 * _UNIT_ROUNDOFF)
        others = _binomial(population - 1, rate, batch)
        everyone = _binomial(population, rate, batch + 1)
        if others is None or everyone is None:
            above = _bernstein(population - 1, rate, batch)
            return cls(1.0, max(above, LEAST_WEIGHT), most, 0.0)
        below, above, error = others
        joined = everyone[1] * (batch / population)
        error = max(error, everyone[2])
        up, down = 1.0 + error, 1.0 - error
        overall = (below * rate + joined) * down * down
        if above < LEAST_WEIGHT:
            return cls(1.0, LEAST_WEIGHT, most, overall)
        return cls(below * up, above * up, min(joined / above * up * up, most), overall)


def _binomial(size: int, rate: float, at: int) -> tuple[float, float, float] | None:
    """Return P(Bin < at), P(Bin >= at) and their relative error, or None where that is too much.

    The probabilities are products of ratios, from the mode outwards, and their sum is 1 but for
    what lies farther out than a probability of e^-700.
    """
    if rate == 1.0:
        return float(size < at), float(size >= at), _UNIT_ROUNDOFF
    mode = min(int((size + 1) * rate), size)
    reach = _reach(size * rate * (1.0 - rate))
    if reach > MOST_TERMS / 2:
        return None
    low, high = max(mode - reach, 0), min(mode + reach, size)
    odds = rate / (1.0 - rate)
    up = np.arange(mode, high, dtype=np.float64)
    down = np.arange(mode, low, -1, dtype=np.float64)
    with np.errstate(under="ignore"):
        rising = np.cumprod((size - up) / (up + 1.0) * odds)
        falling = np.cumprod(down / (size - down + 1.0) / odds)
    values = np.concatenate((falling[::-1], [1.0], rising))
    first = max(min(at - low, values.size), 0)
    total = values.sum()
    error = _UNIT_ROUNDOFF * (16.0 * values.size + 64.0)
    return float(values[:first].sum() / total), float(values[first:].sum() / total), error


def _reach(variance: float) -> int:
    """Return a distance from the mean that is exceeded with probability below 2 e^-700."""
    # Bernstein: t^2 = 1400 (variance + t / 3).
    third = 1400.0 / 3.0
    return math.ceil(0.5 * (third + math.sqrt(third * third + 5600.0 * variance))) + 2


def _bernstein(size: int, rate: float, at: int) -> float:
    """Return an upper bound on P(Bin >= at)."""
    above = at - size * rate
    if above <= 0.0:
        return 1.0
    variance = size * rate * (1.0 - rate)
    return min(math.exp(-above * above / (2.0 * (variance + above / 3.0)) * (1.0 - 1e-12)), 1.0)
