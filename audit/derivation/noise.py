"""The noise of a sum: one share of it, off the grid or on it, and Wishart noise on a matrix.

**Wishart noise** supports no guarantee by its facts; as published, its delta is known exactly.

    a share     A + Z Z^T,   Z: d x k independent N(0, c),   c = `share_std`^2, k = `freedom`

Z Z^T has no negative eigenvalue.  So who knows all of A but a row x, and subtracts it with x x^T,
is left with a negative eigenvalue only if x is not in A.  At k = d + 1, as it is published, that
happens with probability 1 - e^{-|x|^2 / 2c}: the delta of one share at every epsilon, for a row
that comes or goes, and at least that of one that is replaced (`accountant.sensitivity.wishart`,
whose exact functions are too heavy for checking a log).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from ...accountant.records import Contribution, Noise, RoundIntent
from ...accountant.sensitivity.release import root_down
from .run_setting import NoProof

SUM_NOISE_FAMILIES: Final = (
    *("gaussian", "laplace", "discrete-gaussian", "discrete-laplace"),
    "wishart",
)
"""Families whose noise is added to a sum; `std` belongs to them."""

MIN_SHARE_GRID_STEPS: Final = 80

SMOOTHING_VARIANCE_STEPS: Final = 64
"""Noise on a grid counts as continuous noise of a smaller variance.

A discrete Gaussian of parameter t steps is a post-processing of continuous noise of variance
t^2 - 64 on the same integers, up to a factor 1 +- 10^-547 at every value: proven in
`accountant/mechanisms/gaussian.py`.  Without the 64 it is not: of 8 steps, on a sum that moves by
half a deviation, its delta at epsilon 3.4 is 3 % above the continuous one's.  Whether `share_std`
is t, or t without the 64, a log does not say, so they are always taken off.  A share below 80
steps, which would lose more than 1 % of its variance, is too coarse.  Laplace noise on a grid is
rounded continuous noise, a post-processing as it is.
"""


def share_deviation(noise: Noise) -> float:
    """Return the least deviation, or scale, that one share is stated to have.

    The whole sum's deviation is stated as well; where it is less than shares of `share_std` come
    to, the shares are as small as it says.
    """
    if noise.family != "gaussian":
        return min(noise.std, noise.share_std) if noise.share_std > 0.0 else noise.std
    return root_down(_stated_variance(noise))


def share_variance(noise: Noise) -> Fraction:
    """Return the variance of the continuous Gaussian noise that one share is as good as."""
    # In units of the grid: t^2 - 64. Too little variance is counted, so epsilon errs upwards.
    return _stated_variance(noise) - SMOOTHING_VARIANCE_STEPS * Fraction(noise.grid) ** 2


def _stated_variance(noise: Noise) -> Fraction:
    # std^2 is promised of the shares that must arrive; of both statements the smaller counts.
    promised = max(noise.shares - noise.tolerated_dropouts, 1)
    whole = Fraction(noise.std) ** 2 / promised
    return min(whole, Fraction(noise.share_std) ** 2) if noise.share_std > 0.0 else whole


def is_wishart(noise: Noise) -> bool:
    """Return whether the noise is stated to be of Wishart matrices."""
    return noise.family == "wishart"


def wishart_reason() -> str:
    """Return why a matrix with such noise has no guarantee, before whoever sees it."""
    return (
        "Wishart noise has no negative eigenvalue, so a matrix that lacks a record may show for "
        "certain that it does"
    )


def require_accounted(noise: Noise) -> None:
    """Raise `NoProof` for Wishart noise: no formula for other noise may be used of it."""
    if is_wishart(noise):
        raise NoProof(wishart_reason())


def published_delta(contribution: Contribution, noise: Noise) -> float | None:
    """Return the exact delta of one share at every epsilon, for the longest row that comes or goes.

    None where that has no such form: for other degrees of freedom than d + 1, and without facts.
    """
    gram = contribution.gram
    if gram is None or noise.freedom != gram.dimension + 1 or not noise.share_std > 0.0:
        return None
    square = gram.trace / gram.rows
    return -math.expm1(-square / (2.0 * noise.share_std**2))


def unusable_wishart(intent: RoundIntent) -> Iterator[str]:
    """Yield which facts of Wishart noise cannot be, or stand where there is none."""
    noise = intent.noise
    if not is_wishart(noise):
        if noise.freedom is not None:
            yield f"`freedom` says nothing of {noise.family} noise, and stands there"
        return
    if intent.contribution.terms != "gram":
        kind = intent.contribution.terms
        yield f"Wishart noise is added to matrices, and terms are of kind `{kind}`"
    if not noise.freedom:
        yield "the degrees of freedom of Wishart noise are not stated"
    if noise.std != noise.share_std:
        yield "`noise.std` of Wishart noise is that of a share, and the two differ"
