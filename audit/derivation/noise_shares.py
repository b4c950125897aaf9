"""One share of the noise: its least standard deviation, and its variance off the grid."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from ...accountant.records import (
    Noise,
)
from ...accountant.sensitivity.release import root_down

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
