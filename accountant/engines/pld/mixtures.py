"""Pairs of finite mixtures of one noise: sums with Gaussian or Laplace noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...arrays import FloatArray
from .continuous import QUADRATURE_INTERVALS
from .loss_maps import LossMap
from .noise import UNIT_ROUNDOFF, Noise


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
