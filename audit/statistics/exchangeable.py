"""Many exchangeable canaries in each of several runs: intervals for their rate of errors.

x has a row for each of n independent runs and a column for each of k canaries in it; within a row
the canaries are exchangeable, not independent.  Their k n outcomes are worth more than n of them,
and less than k n, by how much they hang together.
Source: Pillutla, Andrew, Kairouz, McMahan, Oprea, Oh 2023, arXiv 2305.18447 (XBern intervals).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from ...accountant import validate
from ...accountant.errors import InvalidInput
from .binomial import epsilon_of_rates

Array = NDArray[np.float64]

MARGIN = 1e-12
"""Allowance for rounding, upwards."""


def exchangeable_upper(x: ArrayLike, alpha: float) -> float:
    """Return an upper end for the rate of ones, however a run's canaries hang together.

    Wrong with probability at most `alpha`.  The means of the rows are independent and in [0, 1];
    the smaller of two ends is taken, alpha / 2 each: mean + sqrt(2 V l / n) + 7 l / (3 (n - 1))
    with V their variance and l = ln(4 / alpha), and the p at which n KL(mean, p) = ln(2 / alpha).
    `x` has shape (runs, canaries), of zeros and ones.
    Source: Maurer, Pontil 2009, arXiv 0907.3740, Theorem 4; Hoeffding 1963, JASA 58, Theorem 1.
    """
    rows = _row_means(x)
    validate.open_probability(alpha=alpha)
    mean, n = float(rows.mean()), rows.size
    chernoff = _kl_upper(mean, math.log(2.0 / alpha) / n)
    if n < 2:
        return chernoff
    log = math.log(4.0 / alpha)
    spread = float(rows.var(ddof=1))
    bernstein = mean + math.sqrt(2.0 * spread * log / n) + 7.0 * log / (3.0 * (n - 1))
    return min(chernoff, float(bernstein) * (1.0 + MARGIN), 1.0)


def exchangeable_upper_wilson(x: ArrayLike, alpha: float) -> float:
    """Return an upper end for the rate of ones that is wrong with probability about `alpha`.

    Asymptotic in the number of runs: not a bound.  With mu1 the mean, m_i the mean of row i, mu2
    the Wilson upper end, at alpha / 2, of the mean of m_i (k m_i - 1) / (k - 1), it is the larger
    root p of n (p - mu1)^2 = z^2 (p/k + (k-1)/k mu2 - p^2), z that of alpha / 2.  One canary a run
    gives the ordinary Wilson end at alpha / 2.  Shape of `x` and source as above (second order).
    """
    rows, k = _row_means(x), int(np.shape(x)[1])
    z = float(ndtri(validate.open_probability(alpha=alpha) / 2.0))
    z2, mean, n = z * z, float(rows.mean()), rows.size
    if k == 1:
        return _wilson(mean, n, z2)
    second = _wilson(float((rows * (k * rows - 1.0) / (k - 1.0)).mean()), n, z2)
    # (n + z2) p^2 - (2 n mean + z2 / k) p + n mean^2 - z2 (k-1)/k second = 0
    a, b = n + z2, 2.0 * n * mean + z2 / k
    c = n * mean * mean - z2 * (k - 1.0) / k * second
    return min(1.0, (b + math.sqrt(max(b * b - 4.0 * a * c, 0.0))) / (2.0 * a))


def exchangeable_epsilon(
    false_alarms: ArrayLike,
    misses: ArrayLike,
    *,
    delta: float,
    alpha: float = 0.05,
    asymptotic: bool = False,
) -> float:
    """Return a lower bound on epsilon at `delta` from runs with many exchangeable canaries.

    Both arrays have shape (runs, canaries): whether each canary that was out was taken for one that
    was in, and the reverse; the runs of each are independent, the threshold fixed beforehand.
    Wrong with probability at most `alpha`, or about that where `asymptotic` takes the Wilson ends:
    then it is an estimate.  Range: `delta` in [0, 1).
    """
    validate.open_probability(alpha=alpha)
    if validate.probability(delta=delta) >= 1.0:
        raise InvalidInput("`delta` must be below 1.", next_step="Give the delta of the claim.")
    upper = exchangeable_upper_wilson if asymptotic else exchangeable_upper
    return epsilon_of_rates(upper(false_alarms, alpha / 2.0), upper(misses, alpha / 2.0), delta)


def _row_means(x: ArrayLike) -> Array:
    given = np.asarray(x, dtype=float)
    if given.ndim != 2 or given.size == 0 or not np.isin(given, (0.0, 1.0)).all():
        raise InvalidInput(
            "`x` must be zeros and ones with a row for each run and a column for each canary.",
            f"Its shape is {given.shape}.",
        )
    return np.asarray(given.mean(axis=1))


def _wilson(mean: float, n: int, z2: float) -> float:
    """Return the larger root p of n (p - mean)^2 = z2 p (1 - p)."""
    inside = z2 * (4.0 * n * mean * (1.0 - mean) + z2)
    return (2.0 * n * mean + z2 + math.sqrt(max(inside, 0.0))) / (2.0 * (n + z2))


def kl(p: float, q: float) -> float:
    """Return the relative entropy of a coin of bias p to one of bias q, in nats."""
    found = 0.0
    for a, b in ((p, q), (1.0 - p, 1.0 - q)):
        if a > 0.0:
            if b <= 0.0:
                return math.inf
            found += a * math.log(a / b)
    return found


def _kl_upper(mean: float, budget: float) -> float:
    """Return, rounded up, the q >= mean with KL(mean, q) = budget."""
    low, high = mean, 1.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if kl(mean, middle) <= budget else (low, middle)
    return min(1.0, high * (1.0 + MARGIN))
