"""Additive noise: log probabilities of intervals, to a stated relative error.

Everything the certified bounds rest on is a difference of two cumulative probabilities.  Taken
naively it cancels; here each interval is written so that nothing cancels, and the remaining
relative error is stated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
from scipy.special import erf, erfcx

from ....arrays import FloatArray

UNIT_ROUNDOFF: Final = 2.0**-53


def dot(a: FloatArray, b: FloatArray) -> float:
    """Return the sum of products by pairwise summation, on one thread.

    A BLAS product of long vectors starts threads, which costs more than it saves here.
    """
    return float((a * b).sum())


class Noise(Protocol):
    """A symmetric noise density, monotone in its likelihood ratio under a shift."""

    @property
    def scale(self) -> float:
        """Standard deviation (Gaussian) or scale (Laplace), in contribution bounds."""

    def log_interval_masses(self, edges: FloatArray) -> FloatArray:
        """Return log probabilities of the intervals between ascending edges (may be infinite)."""

    def mass_error(self, largest: float) -> float:
        """Return the relative error of an interval mass whose edges are at most `largest`."""

    def radius(self, probability: float) -> float:
        """Return r with P(noise > r) <= probability."""

    def log_shift_ratio(self, x: FloatArray) -> FloatArray:
        """Return the log density ratio at x of the noise around 1 and around 0."""

    def shift_of(self, log_ratio: FloatArray) -> FloatArray:
        """Return the x at which `log_shift_ratio` has this value."""

    @property
    def lipschitz_bound(self) -> float:
        """Return the largest slope of `log_shift_ratio`."""


@dataclass(frozen=True)
class GaussianNoise:
    """Gaussian noise of standard deviation `scale`."""

    scale: float

    def log_interval_masses(self, edges: FloatArray) -> FloatArray:
        """Return log(Phi(b / s) - Phi(a / s)) for edges a < b consecutive along the first axis."""
        return log_normal_masses((edges / self.scale).T).T

    def mass_error(self, largest: float) -> float:
        z = largest / self.scale
        return 1e-13 + 4 * UNIT_ROUNDOFF * z * z

    def radius(self, probability: float) -> float:
        """Return r with P(noise > r) <= probability, by P(N > z) <= exp(-z^2 / 2) / 2."""
        return self.scale * math.sqrt(2.0 * max(-math.log(2.0 * probability), 0.0))

    def log_shift_ratio(self, x: FloatArray) -> FloatArray:
        """Return (2x - 1) / (2 s^2)."""
        return (x - 0.5) / self.scale**2

    def shift_of(self, log_ratio: FloatArray) -> FloatArray:
        """Return s^2 log_ratio + 1/2."""
        return log_ratio * self.scale**2 + 0.5

    @property
    def lipschitz_bound(self) -> float:
        """Return 1 / s^2."""
        return 1.0 / self.scale**2


_SQRT2: Final = math.sqrt(2.0)
_LOG_SQRT_2PI: Final = 0.5 * math.log(2.0 * math.pi)


def log_normal_masses(z: FloatArray) -> FloatArray:
    """Return log(Phi(b) - Phi(a)) for consecutive edges a < b along the last axis.

    Narrow intervals use the expansion of the density around their middle (terms to the sixth
    order; the next is below 1e-15), wide ones the scaled complementary error function of the edge
    that is nearer to zero.
    """
    low, high = z[..., :-1], z[..., 1:]
    # By symmetry each interval is seen from the side on which its far edge is negative.
    mirrored = high > -low
    a = np.where(mirrored, -high, low)  # now a <= 0 and |a| >= |b|
    b = np.where(mirrored, -low, high)
    filled = high > low
    width = np.where(filled, high, 1.0) - np.where(filled, low, 1.0)
    result = np.full(a.shape, -np.inf)

    # Three formulas, none of which cancels: a series for narrow intervals, erfcx where both edges
    # are on one side of 0, erf where they are not.  Empty intervals keep log 0.
    narrow = width < 0.1 / (1.0 + np.abs(a))
    pick = narrow & filled
    if pick.any():
        result[pick] = _log_narrow(a[pick], b[pick], width[pick])
    pick = ~narrow & filled & (b <= 0)
    if pick.any():
        result[pick] = _log_wide(a[pick], b[pick])
    pick = ~narrow & filled & (b > 0)
    if pick.any():
        result[pick] = np.log(0.5 * (erf(b[pick] / _SQRT2) + erf(-a[pick] / _SQRT2)))
    return result


def _log_narrow(a: FloatArray, b: FloatArray, width: FloatArray) -> FloatArray:
    # log of w phi(m) (1 + w^2 (m^2 - 1) / 24 + w^4 (m^4 - 6 m^2 + 3) / 1920 + ...), w the width.
    middle = 0.5 * (a + b)
    m2, w2 = middle * middle, width * width
    series = w2 * (
        (m2 - 1.0) / 24.0
        + w2
        * (
            ((m2 - 6.0) * m2 + 3.0) / 1920.0
            + w2 * (((m2 - 15.0) * m2 + 45.0) * m2 - 15.0) / 322560.0
        )
    )
    result: FloatArray = np.log(width) - 0.5 * m2 - _LOG_SQRT_2PI + np.log1p(series)
    return result


def _log_wide(a: FloatArray, b: FloatArray) -> FloatArray:
    # Phi(b) - Phi(a) = e^(-b^2/2) (erfcx(-b/sqrt 2) - e^((b^2 - a^2)/2) erfcx(-a/sqrt 2)) / 2.
    # The far edge may be infinite: its term is then exactly 0.
    gap = np.where(np.isinf(a), -np.inf, 0.5 * (b - a) * (b + a))
    far = np.where(np.isinf(a), 0.0, np.exp(gap) * erfcx(-a / _SQRT2))
    result: FloatArray = np.log(0.5 * (erfcx(-b / _SQRT2) - far)) - 0.5 * b * b
    return result


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise of scale `scale`."""

    scale: float

    def log_interval_masses(self, edges: FloatArray) -> FloatArray:
        """Return the log probability of (a, b) for consecutive edges a < b."""
        z = edges / self.scale
        low, high = z[:-1], z[1:]
        mirrored = high > -low
        a = np.where(mirrored, -high, low)
        b = np.where(mirrored, -low, high)
        # On one side of 0 the mass is e^b (1 - e^(a - b)) / 2, across it (1 - e^a + 1 - e^-b) /
        # 2.
        same_side = b <= 0
        with np.errstate(divide="ignore", invalid="ignore"):
            side = np.minimum(b, 0.0) + np.log(-0.5 * np.expm1(np.where(same_side, a - b, -1.0)))
            straddling = np.log(-0.5 * (np.expm1(a) + np.expm1(-np.maximum(b, 0.0))))
        result = np.where(same_side, side, straddling)
        return np.where(high > low, result, -np.inf)

    def mass_error(self, largest: float) -> float:
        return UNIT_ROUNDOFF * (16.0 + 4.0 * largest / self.scale)

    def radius(self, probability: float) -> float:
        return self.scale * max(-math.log(2.0 * probability), 0.0)

    def log_shift_ratio(self, x: FloatArray) -> FloatArray:
        """Return (|x| - |x - 1|) / b, which stays in [-1/b, 1/b]."""
        return np.clip(2.0 * x - 1.0, -1.0, 1.0) / self.scale

    def shift_of(self, log_ratio: FloatArray) -> FloatArray:
        """Return (b log_ratio + 1) / 2, valid in [0, 1] only."""
        return 0.5 * (log_ratio * self.scale + 1.0)

    @property
    def lipschitz_bound(self) -> float:
        """Return 2 / b."""
        return 2.0 / self.scale


AdditiveNoise: TypeAlias = GaussianNoise | LaplaceNoise
