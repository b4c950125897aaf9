"""Scores of canaries from their observations in all rounds: the higher, the likelier in.

ratio     the log-likelihood ratio of the claimed mechanism; the best there is if the claim is true
sum       the sum over rounds; it does not believe in the claim's sample or noise
fitted    the rounds weighted by what separates some canaries best; noise that is used again,
          in whatever pattern, shows as rounds that cancel each other
"""

from __future__ import annotations

import math

import numpy as np

from ...accountant.arrays import BoolArray, FloatArray


def likelihood_ratios(
    observations: FloatArray,
    shift: float,
    rate: float,
    *,
    opposite: bool = False,
    pattern: FloatArray | None = None,
) -> FloatArray:
    """Return the log-likelihood ratio of each unit, in over out, under the claim: (m,).

    With x ~ N(0, 1) where it is out or not drawn, N(shift, 1) where it is in and drawn, and drawn
    with probability `rate` in each round (`opposite`: N(-shift, 1) where it is out and drawn):

        sum over rounds of log(1 - q + q exp(shift x - shift^2 / 2))

    less the same with -shift, if `opposite`.  With a `pattern`, (rows,), the shift of each row is
    so many times `shift`, and the ratio is the matched filter.  Without a shift it is the sum of
    the observations, weighted by the pattern.
    """
    if pattern is not None:
        return _matched(observations, shift, rate, pattern, opposite=opposite)
    if shift == 0.0:
        return np.asarray(observations.sum(axis=0))
    if rate >= 1.0:
        total = observations.sum(axis=0)
        if opposite:
            return np.asarray(2.0 * shift * total)
        # log N(x; shift, 1) / N(x; 0, 1) = shift x - shift^2 / 2, summed over rounds.
        return np.asarray(shift * total - len(observations) * shift * shift / 2.0)
    ratios = np.zeros(observations.shape[1])
    for row in observations:  # round by round, so that no table is made four times
        ratios += _log_mixture(shift * row, shift, rate)
        if opposite:
            ratios -= _log_mixture(-shift * row, shift, rate)
    return ratios


def _matched(
    observations: FloatArray, shift: float, rate: float, pattern: FloatArray, *, opposite: bool
) -> FloatArray:
    """Return `likelihood_ratios` of rows whose shifts differ."""
    if shift == 0.0:
        return np.asarray(pattern @ observations)
    ratios = np.zeros(observations.shape[1])
    # A row that the unit does not move tells nothing of it.
    for row in np.flatnonzero(pattern):
        own = observations[row : row + 1]
        ratios += likelihood_ratios(own, shift * float(pattern[row]), rate, opposite=opposite)
    return ratios


def fisher_weights(observations: FloatArray, coins: BoolArray) -> FloatArray | None:
    """Return a weight for each round, (rounds,), from units whose coins are known; None if too few.

    Fisher's discriminant: S^-1 (mean of those in - mean of those out), S their common covariance.
    It needs ten units for each round on either side.
    """
    rounds = len(observations)
    into, out = observations[:, coins], observations[:, ~coins]
    if rounds < 2 or min(into.shape[1], out.shape[1]) < 10 * rounds:
        return None
    # Difference of means (rounds,), and the sum of both covariances (rounds, rounds).
    difference = into.mean(axis=1) - out.mean(axis=1)
    spread = np.atleast_2d(np.cov(into)) + np.atleast_2d(np.cov(out))
    # Where noise repeats exactly the matrix has no inverse, and a little more noise gives it one.
    spread += np.eye(rounds) * (1e-9 * float(np.trace(spread)) / rounds)
    try:
        weights: FloatArray = np.linalg.solve(spread, difference)
    except np.linalg.LinAlgError:
        return None
    return weights if np.isfinite(weights).all() else None


def _log_mixture(exponent: FloatArray, shift: float, rate: float) -> FloatArray:
    """Return log(1 - q + q exp(exponent - shift^2 / 2)), for any exponent."""
    # In logarithms: exp(exponent) overflows for a score of 710 or more.
    inside = exponent - shift * shift / 2.0 + math.log(rate)
    return np.asarray(np.logaddexp(inside, math.log1p(-rate)))
