"""How the loss of a pair of mixtures depends on where the release falls, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...arrays import FloatArray
from .noise import Noise

Rates = float | FloatArray
"""One number for one pair, or a column that holds a number for each of many rows."""


class LossMap(Protocol):
    """How the loss of a pair of mixtures depends on the position x; increasing in x."""

    def loss(self, x: FloatArray) -> FloatArray:
        """Return the loss at x."""

    def position(self, loss: FloatArray) -> FloatArray:
        """Return sup{x: loss(x) <= loss}, possibly infinite."""

    def slope(self, loss: FloatArray) -> FloatArray:
        """Return an upper bound on d loss / dx where the loss has this value."""

    @property
    def largest_log(self) -> float:
        """Largest logarithm that is added and subtracted on the way to a position."""


@dataclass(frozen=True)
class _SampledNoise:
    """Noise that is shifted with probability q = `rate`."""

    noise: Noise
    rate: float

    @property
    def largest_log(self) -> float:
        """Return |log q|."""
        return -math.log(self.rate)


@dataclass(frozen=True)
class SampledShift(_SampledNoise):
    """Loss of (1-q) noise(0) + q noise(1) against noise(0): log(1 - q + q e^r)."""

    def loss(self, x: FloatArray) -> FloatArray:
        """Return log(1 - q + q e^r(x))."""
        return log_mixture(self.rate, self.noise.log_shift_ratio(x))

    def position(self, loss: FloatArray) -> FloatArray:
        """Return the x at which the loss is reached."""
        return self.noise.shift_of(log_excess(self.rate, loss))

    def slope(self, loss: FloatArray) -> FloatArray:
        """Return (1 - (1-q) e^-loss) times the slope of r."""
        if self.rate == 1.0:
            return np.full_like(loss, self.noise.lipschitz_bound)
        share: FloatArray = np.clip(-np.expm1(math.log1p(-self.rate) - loss), 0.0, 1.0)
        return share * self.noise.lipschitz_bound


@dataclass(frozen=True)
class _Opposite(_SampledNoise):
    """Loss of (1-q) noise(0) + q noise(1) against (1-q) noise(0) + q noise(-1); odd."""

    def loss(self, x: FloatArray) -> FloatArray:
        """Return log((1 - q + q e^r(x)) / (1 - q + q e^r(-x)))."""
        ratio = self.noise.log_shift_ratio
        return log_mixture(self.rate, ratio(x)) - log_mixture(self.rate, ratio(-x))

    def slope(self, loss: FloatArray) -> FloatArray:
        """Return twice the slope of r: both terms grow with x."""
        return np.full_like(loss, 2.0 * self.noise.lipschitz_bound)


@dataclass(frozen=True)
class OppositeGaussians(_Opposite):
    """The opposite shifts of a Gaussian: the loss increases everywhere."""

    def position(self, loss: FloatArray) -> FloatArray:
        """Return the x at which the loss is reached."""
        return opposite_position(self.rate, self.noise.scale, loss)


@dataclass(frozen=True)
class OppositeLaplaces(_Opposite):
    """The opposite shifts of a Laplace distribution: the loss is flat beyond +-1."""

    def position(self, loss: FloatArray) -> FloatArray:
        """Return the x in [-1, 1] at which the loss is reached, by symmetry from x >= 0."""
        # For x >= 0 the second ratio is constant: the loss is that of the first one less a
        # constant.
        floor = float(log_mixture(self.rate, np.array([-1.0 / self.noise.scale]))[0])
        x = self.noise.shift_of(log_excess(self.rate, np.abs(loss) + floor))
        return np.copysign(np.clip(x, 0.0, 1.0), loss)


def opposite_position(rate: Rates, scale: Rates, loss: FloatArray) -> FloatArray:
    """Return the x at which opposite shifts of a Gaussian, sampled at `rate`, have this loss.

    y = e^(x/s^2) is the root of k y^2 + (1-q)(1-e^l) y - k e^l with k = q e^(-1/(2 s^2)).
    """
    size = np.abs(loss)
    variance = scale**2
    log_2k = np.log(2.0 * rate) - 0.5 / variance
    with np.errstate(divide="ignore"):
        log_a = np.log1p(-rate) + size + np.log(-np.expm1(-size))
    # y = (a + sqrt(a^2 + 4 k^2 e^l)) / (2 k), a = (1 - q)(e^l - 1), in logarithms.
    log_root = 0.5 * np.logaddexp(2.0 * log_a, 2.0 * (log_2k + 0.5 * size))
    x: FloatArray = variance * (np.logaddexp(log_a, log_root) - log_2k)
    return np.copysign(x, loss)


def log_mixture(rate: Rates, log_ratio: FloatArray) -> FloatArray:
    """Return log(1 - rate + rate e^log_ratio)."""
    if isinstance(rate, float) and rate == 1.0:
        return log_ratio
    # logaddexp is exact for large ratios and cancels near 0; there log1p(q expm1(r)) does not.
    with np.errstate(divide="ignore"):  # a column of rates may hold 1
        apart = np.logaddexp(np.log1p(-rate), np.log(rate) + log_ratio)
    near = np.log1p(rate * np.expm1(np.minimum(log_ratio, 1.0)))
    return np.where((log_ratio > 1.0) | (near < -0.5), apart, near)


def log_excess(rate: Rates, loss: FloatArray) -> FloatArray:
    """Return log((e^loss - (1 - rate)) / rate), -inf where that is not positive.

    Each branch is written so that its rounding moves the loss itself by a few units at most.
    """
    if isinstance(rate, float) and rate == 1.0:
        return loss
    # Up to 30 the excess e^loss - (1 - q) is written without cancellation, beyond as a factor of
    # e^loss / q.
    capped = np.minimum(loss, 30.0)
    excess = np.where(capped < -0.5, np.exp(capped) - (1.0 - rate), np.expm1(capped) + rate)
    with np.errstate(divide="ignore"):
        near = np.log(np.maximum(excess, 0.0) / rate)
    far = loss - np.log(rate) + np.log1p((rate - 1.0) * np.exp(-np.maximum(loss, 30.0)))
    return np.where(loss <= 30.0, near, far)
