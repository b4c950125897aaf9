"""Pairs of finite mixtures of one noise: the loss where a release falls, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ....arrays import FloatArray
from .noise import UNIT_ROUNDOFF, Noise
from .pair_parts import QUADRATURE_INTERVALS

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


@dataclass(frozen=True)
class MixturePair:
    """Mixtures of one noise around few centres, P against Q, with a loss that increases in x.

    `p_weights` and `q_weights` are the weights of `centres`.  Only positions inside `span` count:
    beyond it the loss is constant, and the mass there is an atom of the pair's exact part.  When
    `swapped`, the pair stands for its reverse.
    """

    noise: Noise
    centres: tuple[float, ...]
    p_weights: tuple[float, ...]
    q_weights: tuple[float, ...]
    loss_map: LossMap
    span: tuple[float, float] = (-math.inf, math.inf)
    swapped: bool = False

    def log_masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.swapped:
            p, q = self.reverse().log_masses(-edges[::-1])
            return q[::-1], p[::-1]
        low, high = self.span
        # Positions at which the edges are reached, shape (edges + 2,), ascending whatever
        # rounding does.
        inside = np.clip(self.loss_map.position(edges), low, high)
        x = np.maximum.accumulate(np.concatenate(([low], inside, [high])))
        # Noise masses around each centre, shape (edges + 1,), then weighed for P and for Q.
        per_centre = [self.noise.log_interval_masses(x - centre) for centre in self.centres]
        return _mix(self.p_weights, per_centre), _mix(self.q_weights, per_centre)

    def loss_range(self, tail: float) -> tuple[float, float]:
        weights = self.q_weights if self.swapped else self.p_weights
        present = [c for c, w in zip(self.centres, weights, strict=True) if w > 0]
        radius = self.noise.radius(tail)
        reach = np.array([min(present) - radius, max(present) + radius])
        ends = self.loss_map.loss(np.clip(reach, *self.span))
        low, high = float(ends[0]), float(ends[1])
        return (-high, -low) if self.swapped else (low, high)

    @property
    def largest_loss(self) -> float:
        """The loss at the end of the span; infinite where that is endless."""
        if math.isinf(self.span[1]):
            return math.inf
        low, high = self.loss_map.loss(np.array(self.span))
        return float(-low if self.swapped else high)

    def quadrature_points(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return losses and log P masses of an even grid of positions, some twelve to a scale."""
        reach = self.noise.radius(tail)
        start = max(min(self.centres) - reach, self.span[0])
        stop = min(max(self.centres) + reach, self.span[1])
        # Evenly in position, not in loss: twelve to a scale of the noise follow its density.
        step = min((stop - start) / QUADRATURE_INTERVALS, self.noise.scale / 12.0)
        x = np.linspace(
            start, stop, min(math.ceil((stop - start) / step) + 1, 8 * QUADRATURE_INTERVALS)
        )
        losses = np.unique(self.loss_map.loss(x))
        log_p, log_q = self.log_masses(-losses[::-1] if self.swapped else losses)
        both = np.isfinite(log_p) & np.isfinite(log_q)
        return log_p[both] - log_q[both], log_p[both]

    def reverse(self) -> MixturePair:
        """Return the pair (Q, P)."""
        return replace(self, swapped=not self.swapped)

    def _max_position(self, tail: float) -> float:
        return 2.0 + self.noise.radius(tail)

    def mass_error(self, tail: float) -> float:
        return self.noise.mass_error(self._max_position(tail))

    def edge_error(self, tail: float) -> float:
        """Return by how much the loss at an edge may differ from the edge asked for.

        The loss itself is rounded, and so is the position: |dx| <= 4u (|x| + 1), through the
        steepest slope of the loss.
        """
        low, high = self.loss_range(tail)
        ends = np.array([-high, -low] if self.swapped else [low, high])
        slope = float(self.loss_map.slope(ends).max())
        largest_loss = max(abs(low), abs(high))
        size = (
            1.0
            + largest_loss
            + self.loss_map.largest_log
            + slope * (1.0 + self._max_position(tail))
        )
        return 8 * UNIT_ROUNDOFF * size

    def edge_mismatch(self, edges: FloatArray) -> FloatArray:
        """Return by how much, as a loss, the edges used for P and those used for Q may differ.

        That is 4u (|x| + 1) times the slope of the loss at x.

        P and Q share the position of an edge; only x - centre is rounded for each centre.
        """
        losses = -edges if self.swapped else edges
        x = np.clip(self.loss_map.position(losses), *self.span)
        reach = np.where(np.isfinite(x), np.abs(x) + 1.0, 0.0)
        return 4 * UNIT_ROUNDOFF * self.loss_map.slope(losses) * reach


def _mix(weights: tuple[float, ...], log_masses: list[FloatArray]) -> FloatArray:
    # log sum_i w_i e^(m_i), term by term, so that no small mass is rounded to 0.
    terms = [
        math.log(weight) + log_mass
        for weight, log_mass in zip(weights, log_masses, strict=True)
        if weight > 0
    ]
    total = terms[0]
    for term in terms[1:]:
        total = np.logaddexp(total, term)
    return total
