"""p-values of statistics of Gaussian noise: exact, or on the safe side, for any number of values.

The noise stands on a grid of 2^-20 of its deviation (or a finer one) and has 64 steps^2 more of
variance than is stated: relative to what is tested here, 10^-6 and less.  That of Gram matrices may
stand on grids of up to 2^-12 of it, which `grid_distance` takes off, and of variance 4 10^-6.

A p-value is at most x with probability at most x, if the noise is as logged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from scipy.special import bdtrc, betainc, chdtr, chdtrc, log_ndtr, ndtri_exp

GRID_DISTANCE: Final = 2.0**-18
"""Upper bound on sup |F_grid - Phi|, the distance of noise on the grid from normal noise."""


def grid_distance(std: float, grid: float) -> float:
    """Return an upper bound on the distance of noise on a grid from normal noise.

    Between two steps they differ by half the step's mass, at most; twice that is taken.
    """
    return max(GRID_DISTANCE, 0.4 * grid / std) if std > 0.0 else 1.0


def chi_square(squares: float, n: int) -> float:
    """Return the two-sided p-value of a sum of squares of n independent N(0, 1) values.

    Chi-squared with n degrees of freedom.
    """
    return min(1.0, 2.0 * min(float(chdtr(n, squares)), float(chdtrc(n, squares))))


def distance_bound(distance: float, n: int, grid: float = GRID_DISTANCE) -> float:
    """Return a bound on the p-value of the largest distance between n values and their law.

    P(D >= d) <= 2 e^(-2 n d^2), for every n and d; `grid` is what the law itself may be off.
    Source: Massart 1990, *The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality*.
    """
    # The grid's own distance is taken off first, so that the p-value errs upwards.
    return min(1.0, 2.0 * math.exp(-2.0 * n * max(0.0, distance - grid) ** 2))


def cosine_p(cosine: float, n: int) -> float:
    """Return the two-sided p-value of a cosine between two vectors of n values, one of them normal.

    The square of the cosine is Beta(1/2, (n - 1) / 2), whatever the other vector is.  Range: n from
    2 on.
    """
    return float(betainc((n - 1) / 2.0, 0.5, max(0.0, 1.0 - cosine * cosine)))


def cosine_z(cosine: float, n: int) -> float:
    """Return the standard normal value that is as rare as a cosine, with its sign; at most 37."""
    # In logarithms, as a p-value below 1e-16 has no quantile otherwise.
    half = max(cosine_p(cosine, n) / 2.0, 1e-300)
    return math.copysign(-float(ndtri_exp(math.log(half))), cosine)


def summed_z(values: Sequence[float]) -> float:
    """Return the two-sided p-value of the sum of independent standard normal values."""
    # The sum of k values is N(0, k).
    size = abs(sum(values)) / math.sqrt(len(values))
    return min(1.0, 2.0 * math.exp(float(log_ndtr(-size))))


def binomial_tail(count: int, trials: int, probability: float) -> float:
    """Return P[Bin(trials, probability) >= count], exactly."""
    if count <= 0:
        return 1.0
    return float(bdtrc(count - 1, trials, min(1.0, probability)))


def bonferroni(values: Sequence[float]) -> float:
    """Return Bonferroni's p-value of several, k min p: valid however they depend on each other."""
    return min(1.0, len(values) * min(values))


def zero_probability(std: float, grid: float, family: str = "gaussian") -> float:
    """Return P[value = 0] of noise on a grid, rounded up: the density at 0 times the step.

    That is grid / (std sqrt(2 pi)) of N(0, std^2), and grid / (2 std) of Laplace noise of scale
    `std`.
    """
    width = 2.0 if family == "laplace" else math.sqrt(2.0 * math.pi)
    return min(1.0, 1.001 * grid / (std * width))


def collision_bound(pairs: float, values: int, probability: float) -> float:
    """Return pairs x probability^values: a union bound on two equal vectors among the pairs."""
    return min(1.0, math.exp(min(0.0, math.log(max(pairs, 1.0)) + values * math.log(probability))))


def rearranged_bound(pairs: float, values: int, probability: float) -> float:
    """Return a union bound on two vectors, among the pairs, that are equal but for order and signs.

    pairs x values! x 2^values x probability^values: each order and each choice of signs of one
    vector is a value that the other may have.
    """
    ways = math.lgamma(values + 1.0) + values * math.log(2.0)
    exponent = math.log(max(pairs, 1.0)) + ways + values * math.log(probability)
    return min(1.0, math.exp(min(0.0, exponent)))


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's method, in the order given.

    Rejecting those at or below alpha is wrong at all with probability at most alpha, whatever the
    tests have to do with each other.  Source: Holm 1979, *A simple sequentially rejective multiple
    test procedure*.

    >>> holm([0.04, 0.01, 0.5])
    [0.08, 0.03, 0.5]
    """
    # Ascending: the i-th smallest of k counts (k - i) times, and none below an earlier one.
    order = np.argsort(np.asarray(values), kind="stable").tolist()
    adjusted, largest = [0.0] * len(values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = largest
    return adjusted
