"""The parts of pairs: finitely many outcomes, and continuous parts by the sign of the loss.

A bound on a sampled release may be one pair where the loss is positive and another where it is
negative.  Such a curve of hockey sticks is the distribution of a loss all the same: what is missing
to mass 1 sits at loss 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from ....arrays import FloatArray
from .noise import UNIT_ROUNDOFF

MAX_QUADRATURE_POINTS = 5000


@dataclass(frozen=True, eq=False)
class AtomPair:
    """A pair on finitely many outcomes, given by log P and log Q of each.

    `has_heavy_atoms` says that the losses are few and heavy, so that the grid should meet them.
    `omitted_mass` bounds the P mass of outcomes that were left out; they may have any loss.
    `rounding` bounds the relative error of the probabilities, and the error of the losses, beyond
    that of rounded logarithms.
    """

    log_p: FloatArray
    log_q: FloatArray
    omitted_mass: float = 0.0
    has_heavy_atoms: bool = True
    rounding: float = 0.0

    @cached_property
    def _finite(self) -> tuple[FloatArray, FloatArray]:
        """Return losses and log P of the outcomes with P and Q mass, by ascending loss."""
        both = np.isfinite(self.log_p) & np.isfinite(self.log_q)
        losses = self.log_p[both] - self.log_q[both]
        # Infinite losses have a mass of their own, `infinite_mass`; -inf carries no P mass.
        order = np.argsort(losses, kind="stable")
        return losses[order], self.log_p[both][order]

    @property
    def losses(self) -> FloatArray:
        """The finite losses, ascending."""
        return self._finite[0]

    @cached_property
    def masses(self) -> FloatArray:
        """The P masses of `losses`."""
        result: FloatArray = np.exp(self._finite[1])
        return result

    @cached_property
    def has_infinite_losses(self) -> bool:
        """Whether an outcome has P mass, however small, and no Q mass."""
        return bool((np.isfinite(self.log_p) & np.isneginf(self.log_q)).any())

    @cached_property
    def infinite_mass(self) -> float:
        """P mass of the outcomes without Q mass; 0 where it underflows."""
        # Outcomes with P mass and without Q mass: their loss is infinite.
        only_p = np.isfinite(self.log_p) & np.isneginf(self.log_q)
        return min(float(np.exp(self.log_p[only_p]).sum()), 1.0)

    def loss_range(self, tail: float) -> tuple[float, float]:
        losses, mass = self.losses, self.masses
        if losses.size == 0:
            return 0.0, 0.0
        # The first loss from below, and from above, at which the mass passed exceeds `tail`.
        low = min(int(np.searchsorted(np.cumsum(mass), tail)), losses.size - 1)
        high = min(int(np.searchsorted(np.cumsum(mass[::-1]), tail)), losses.size - 1)
        return float(losses[low]), float(max(losses[::-1][high], losses[low]))

    def quadrature_points(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return at most `MAX_QUADRATURE_POINTS` losses and log P masses that stand for all."""
        losses, log_p = self._finite
        if losses.size <= MAX_QUADRATURE_POINTS:
            return losses, log_p
        # Neighbours are merged into their mean loss.  Estimates use this, never a bound.
        starts = np.linspace(0, losses.size, MAX_QUADRATURE_POINTS, endpoint=False).astype(np.intp)
        summed = np.add.reduceat(self.masses, starts)
        weighted = np.add.reduceat(self.masses * losses, starts)
        positive = summed > 0.0
        return weighted[positive] / summed[positive], np.log(summed[positive])

    def reverse(self) -> AtomPair:
        """Return the pair (Q, P)."""
        return AtomPair(
            self.log_q, self.log_p, self.omitted_mass, self.has_heavy_atoms, self.rounding
        )

    def mass_error(self, tail: float) -> float:
        """Return the relative error of a mass: of the logarithms, and of summing them."""
        return 1e-13 + self.rounding + 4 * UNIT_ROUNDOFF * self._largest_log

    def edge_error(self, tail: float) -> float:
        """Return the rounding error of a loss."""
        return self.rounding + 4 * UNIT_ROUNDOFF * self._largest_log

    @cached_property
    def _largest_log(self) -> float:
        losses, log_p = self._finite
        if losses.size == 0:
            return 1.0
        return float(1.0 + np.abs(log_p).max() + np.abs(losses).max())

    def heaviest_losses(self) -> tuple[float, ...]:
        """Return the losses of the four heaviest outcomes, ascending."""
        losses, log_p = self._finite
        chosen = np.sort(np.argsort(-log_p, kind="stable")[:4])
        return tuple(dict.fromkeys(float(losses[index]) for index in chosen))


QUADRATURE_INTERVALS: Final = 640
"""About how many intervals `quadrature_points` cuts the bulk of a continuous part into."""

_RANGE_ERROR_FACTOR: Final = 5.0


class ContinuousPart(Protocol):
    """A pair of measures (P, Q) without atoms, known by how much P and Q mass has which loss."""

    def log_masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log P and log Q masses of (-inf, e0], (e0, e1], ..., (en, inf) of the loss."""

    def loss_range(self, tail: float) -> tuple[float, float]:
        """Return (low, high) beyond which P has mass at most `tail` on each side."""

    @property
    def largest_loss(self) -> float:
        """A bound on every loss, infinite where there is none."""

    def quadrature_points(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return losses and log P masses that stand for the part, down to a mass of `tail`."""

    def reverse(self) -> ContinuousPart:
        """Return the part of the pair (Q, P)."""

    def mass_error(self, tail: float) -> float:
        """Return the relative error of the masses inside `loss_range(tail)`."""

    def edge_error(self, tail: float) -> float:
        """Return by how much the loss at an edge may differ from the edge asked for."""

    def edge_mismatch(self, edges: FloatArray) -> FloatArray:
        """Return by how much, as a loss, the edges used for P and those used for Q may differ."""


@dataclass(frozen=True)
class PiecewisePart:
    """The masses of `positive` at positive losses and of `negative` at negative ones.

    The mass that either has on the other side, or at 0, does not count.
    """

    negative: ContinuousPart
    positive: ContinuousPart

    def log_masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        # Edges on the other side of 0 become 0: what lies there falls into the interval that is
        # dropped.
        above = np.concatenate(([0.0], np.maximum(edges, 0.0)))
        below = np.concatenate((np.minimum(edges, 0.0), [0.0]))
        p_above, q_above = (logs[1:] for logs in self.positive.log_masses(above))
        p_below, q_below = (logs[:-1] for logs in self.negative.log_masses(below))
        return np.logaddexp(p_above, p_below), np.logaddexp(q_above, q_below)

    def loss_range(self, tail: float) -> tuple[float, float]:
        low, _ = self.negative.loss_range(tail)
        _, high = self.positive.loss_range(tail)
        return min(low, 0.0), max(high, 0.0)

    @property
    def largest_loss(self) -> float:
        """The largest loss of the positive side."""
        return max(self.positive.largest_loss, 0.0)

    def quadrature_points(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return losses and log P masses of both sides."""
        points = []
        for part, sign in ((self.negative, -1.0), (self.positive, 1.0)):
            losses, log_p = part.quadrature_points(tail)
            points.append((losses[sign * losses > 0.0], log_p[sign * losses > 0.0]))
        return _concatenated(points)

    def reverse(self) -> PiecewisePart:
        return PiecewisePart(self.positive.reverse(), self.negative.reverse())

    def mass_error(self, tail: float) -> float:
        """Return the larger error of the two sides."""
        return max(self.negative.mass_error(tail), self.positive.mass_error(tail))

    def edge_error(self, tail: float) -> float:
        """Return the larger error of the two sides."""
        return max(self.negative.edge_error(tail), self.positive.edge_error(tail))

    def edge_mismatch(self, edges: FloatArray) -> FloatArray:
        """Return the mismatch of the side that an edge lies on."""
        # At 0 an edge belongs to both sides: the larger mismatch counts.
        above = self.positive.edge_mismatch(np.maximum(edges, 0.0))
        below = self.negative.edge_mismatch(np.minimum(edges, 0.0))
        return np.where(edges > 0.0, above, np.where(edges < 0.0, below, np.maximum(above, below)))


@dataclass(frozen=True)
class WeightedParts:
    """A mixture of parts whose component is visible: the weighted masses add up.

    `log_weights` are the logarithms of the probabilities.  At any one loss the positions of the
    release in two parts differ by no more than a factor of two or so, as under one noise with one
    shift or two.
    """

    log_weights: tuple[float, ...]
    parts: tuple[ContinuousPart, ...]

    def log_masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        masses = [part.log_masses(edges) for part in self.parts]
        return (
            np.logaddexp.reduce(
                [w + p for w, (p, _) in zip(self.log_weights, masses, strict=True)]
            ),
            np.logaddexp.reduce(
                [w + q for w, (_, q) in zip(self.log_weights, masses, strict=True)]
            ),
        )

    def loss_range(self, tail: float) -> tuple[float, float]:
        """Return (low, high) beyond which P has mass at most `tail` on each side.

        A part of weight w may have a mass of `tail` / w beyond.
        """
        ranges = [
            part.loss_range(min(tail * math.exp(min(-weight, 600.0)), 0.1))
            for weight, part in zip(self._tail_log_weights(), self.parts, strict=True)
        ]
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    def _tail_log_weights(self) -> list[float]:
        """The weight of a part in tails, so that the tails of all parts add up to one tail."""
        return [weight + math.log(len(self.parts)) for weight in self.log_weights]

    @property
    def largest_loss(self) -> float:
        """The largest loss of all parts."""
        return max(part.largest_loss for part in self.parts)

    def quadrature_points(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return losses and log P masses of all parts."""
        points = [part.quadrature_points(tail) for part in self.parts]
        return _concatenated(
            [(losses, w + p) for w, (losses, p) in zip(self.log_weights, points, strict=True)]
        )

    def reverse(self) -> WeightedParts:
        return WeightedParts(self.log_weights, tuple(part.reverse() for part in self.parts))

    def mass_error(self, tail: float) -> float:
        """Return the largest error of all parts, and of adding and weighing them.

        The range of all parts reaches up to twice as far as that of one part, and the errors there
        grow at most with the square of the position.
        """
        return 1e-14 + _RANGE_ERROR_FACTOR * max(part.mass_error(tail) for part in self.parts)

    def edge_error(self, tail: float) -> float:
        """Return the largest error of all parts, as far as the range of all of them reaches."""
        return _RANGE_ERROR_FACTOR * max(part.edge_error(tail) for part in self.parts)

    def edge_mismatch(self, edges: FloatArray) -> FloatArray:
        """Return the largest mismatch of all parts."""
        largest: FloatArray = np.max([part.edge_mismatch(edges) for part in self.parts], axis=0)
        return largest


@dataclass(frozen=True)
class ScaledPart:
    """P times one weight against Q times another: every loss moves by log_p - log_q.

    `log_p` and `log_q` are the logarithms of the weights; `error` bounds their relative errors,
    and those of the part's own weights.
    """

    part: ContinuousPart
    log_p: float
    log_q: float
    error: float = 0.0

    @property
    def _offset(self) -> float:
        return self.log_p - self.log_q

    def log_masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        log_p, log_q = self.part.log_masses(edges - self._offset)
        return log_p + self.log_p, log_q + self.log_q

    def loss_range(self, tail: float) -> tuple[float, float]:
        low, high = self.part.loss_range(min(tail * math.exp(min(-self.log_p, 600.0)), 0.1))
        return low + self._offset, high + self._offset

    @property
    def largest_loss(self) -> float:
        """The largest loss of the part, moved."""
        return self.part.largest_loss + self._offset

    def quadrature_points(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return losses and log P masses of the part, moved and weighed."""
        losses, log_p = self.part.quadrature_points(tail)
        return losses + self._offset, log_p + self.log_p

    def reverse(self) -> ScaledPart:
        return ScaledPart(self.part.reverse(), self.log_q, self.log_p, self.error)

    def mass_error(self, tail: float) -> float:
        """Return the relative error of the masses: of the part, and of its weight."""
        return self.part.mass_error(tail) + self.error

    def edge_error(self, tail: float) -> float:
        """Return by how much a loss may be off: the weights are, and edges are moved."""
        reach = max(abs(end) for end in self.loss_range(tail)) + abs(self._offset)
        return self.part.edge_error(tail) + 2.0 * self.error + 4.0 * UNIT_ROUNDOFF * (1.0 + reach)

    def edge_mismatch(self, edges: FloatArray) -> FloatArray:
        """Return the mismatch of the part: P and Q share the edges that are moved."""
        return self.part.edge_mismatch(edges - self._offset)


def _concatenated(points: Sequence[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
    losses, log_p = zip(*points, strict=True)
    return np.concatenate(losses), np.concatenate(log_p)
