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

from ..arrays import FloatArray
from .spectrum import UNIT_ROUNDOFF

MAX_BINOMIAL_TERMS: Final = 8_000_000
"""Most probabilities of a binomial that are added one by one; beyond, Bernstein's bound."""

MIN_CUT_PROBABILITY: Final = 1e-280
"""Below this a probability of being cut is rounded up to it."""


@dataclass(frozen=True)
class Cut:
    """The two cases of a Poisson sample of rate q that is cut to B of n units.

    `spared` and `full` are P(N < B) and P(N >= B), `rate` is E[q B / (N + 1) | N >= B], the
    probability that the unit is in a full sample: all rounded up.  `overall` is the probability
    that the unit is in the sample at all, rounded down.  Where n is too large for sums, `spared`
    is 1 and `overall` 0.

    `below` is P(N < B - 1), rounded up; `edge` is P(N = B - 1) and `joined` the probability that
    the sample is full and holds the unit.  These two, and `full`, are off by at most a relative
    `error`.  `edge` is 0 where it is unknown, or too small to compute with.

    N ~ Bin(n - 1, q), and P(N >= B) E[q B / (N + 1) | N >= B] = (B / n) P(Bin(n, q) > B).
    """

    spared: float
    full: float
    rate: float
    overall: float
    below: float = 1.0
    edge: float = 0.0
    joined: float = 0.0
    error: float = 1.0

    @classmethod
    def of(cls, population: int, rate: float, batch: int) -> Cut:
        """Return it for n = `population` units in the larger data set and B = `batch` below n.

        `rate` is in (0, 1].

        >>> cut = Cut.of(4, 0.5, 3)  # the three others all join: 1/8
        >>> round(cut.full, 9), round(cut.rate, 9)  # and then the unit stays with 1/2 * 3/4
        (0.125, 0.375)
        """
        largest_rate = rate * (batch / (batch + 1.0)) * (1.0 + 4.0 * UNIT_ROUNDOFF)
        # N over the other units decides what is cut; the identity needs Bin(n, q) too.
        other_units = _binomial(population - 1, rate, batch)
        everyone = _binomial(population, rate, batch + 1)
        if other_units is None or everyone is None:
            above = _bernstein(population - 1, rate, batch)
            return cls(1.0, max(above, MIN_CUT_PROBABILITY), largest_rate, 0.0)
        # P(full) E[q B/(N + 1) | full] = (B/n) P(Bin(n, q) > B).
        joined = everyone.above * (batch / population)
        # Up for the shares that raise a divergence, down for `overall`.
        error = max(other_units.error, everyone.error)
        up, down = 1.0 + error, 1.0 - error
        overall = (other_units.below * rate + joined) * down * down
        if other_units.above < MIN_CUT_PROBABILITY:
            return cls(1.0, MIN_CUT_PROBABILITY, largest_rate, overall)
        return cls(
            other_units.below * up,
            other_units.above * up,
            min(joined / other_units.above * up * up, largest_rate)
            if joined > 0.0
            else largest_rate,
            overall,
            other_units.before * up,
            other_units.edge if other_units.edge >= MIN_CUT_PROBABILITY else 0.0,
            joined,
            2.0 * error,
        )


@dataclass(frozen=True)
class _Tails:
    """P(Bin < at), P(Bin >= at), P(Bin < at - 1), P(Bin = at - 1), and their relative error."""

    below: float
    above: float
    before: float
    edge: float
    error: float


def _binomial(size: int, rate: float, at: int) -> _Tails | None:
    """Return what lies around a number, or None where that is too much to add up.

    The probabilities are products of ratios, from the mode outwards, and their sum is 1 but for
    what lies farther out than a probability of e^-700.
    """
    if rate == 1.0:
        before, edge = float(size < at - 1), float(size == at - 1)
        return _Tails(float(size < at), float(size >= at), before, edge, UNIT_ROUNDOFF)
    masses_around_mode = _masses(size, rate)
    if masses_around_mode is None:
        return None
    low, values = masses_around_mode
    first = max(min(at - low, values.size), 0)
    # Relative to the mode's probability, so the common factor drops out of every tail.
    total = values.sum()
    error = _rounding(values.size)
    edge = float(values[first - 1] / total) if 0 < first == at - low else 0.0
    return _Tails(
        float(values[:first].sum() / total),
        float(values[first:].sum() / total),
        float(values[: max(first - 1, 0)].sum() / total),
        edge,
        error,
    )


def _masses(size: int, rate: float) -> tuple[int, FloatArray] | None:
    """Return the first number and the probabilities from there on, up to a common factor."""
    mode = min(int((size + 1) * rate), size)
    reach = _reach(size * rate * (1.0 - rate))
    if reach > MAX_BINOMIAL_TERMS / 2:
        return None
    low, high = max(mode - reach, 0), min(mode + reach, size)
    odds = rate / (1.0 - rate)
    up = np.arange(mode, high, dtype=np.float64)
    down = np.arange(mode, low, -1, dtype=np.float64)
    with np.errstate(under="ignore"):
        # Ratios p(k+1)/p(k) = (n-k)/(k+1) odds to the right of the mode, inverses to the left.
        rising = np.cumprod((size - up) / (up + 1.0) * odds)
        falling = np.cumprod(down / (size - down + 1.0) / odds)
    return low, np.concatenate((falling[::-1], [1.0], rising))


def _rounding(terms: int) -> float:
    return UNIT_ROUNDOFF * (16.0 * terms + 64.0)


@dataclass(frozen=True, eq=False)
class JoinDistribution:
    """How many other units join a sample that is cut: N from `first` up to B - 1, then N >= B.

    `masses` are their probabilities, `full` is P(N >= B), and `joined` the probability that the
    unit is in a full sample, each with a relative `error`; what they leave out is below e^-690.
    """

    first: int
    masses: FloatArray
    full: float
    joined: float
    error: float

    @classmethod
    def of(cls, population: int, rate: float, batch: int) -> JoinDistribution | None:
        """Return it for `rate` in (0, 1), None where the numbers are too many."""
        masses_around_mode = _masses(population - 1, rate)
        if masses_around_mode is None:
            return None
        low, values = masses_around_mode
        values = values / values.sum()
        below_cut = max(min(batch - low, values.size), 0)
        other_units = np.arange(low + below_cut, low + values.size)
        # Of N + 1 who would be cut, the unit stays with probability B/(N + 1).
        joined = float((values[below_cut:] * (rate * batch / (other_units + 1.0))).sum())
        return cls(
            low, values[:below_cut], float(values[below_cut:].sum()), joined, _rounding(values.size)
        )


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
