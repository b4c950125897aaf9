"""Mixtures of shifted noise: shifted up in P by a random number, down or not at all in Q."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ....arrays import FloatArray, IndexArray
from ..grid.noise import UNIT_ROUNDOFF, LaplaceNoise
from ..grid.pair_parts import QUADRATURE_INTERVALS
from .binomial import Ratio, Shifts

LOSS_TABLE_NODES: Final = 1024
"""How many positions a first table of losses has."""

MAX_POSITION_STEPS: Final = 80
"""Most steps of the search for a position."""

LOSS_ROUNDING_RELATIVE: Final = 16.0 * UNIT_ROUNDOFF
"""Rounding of a loss, relative to what it is computed from."""

MAX_GAUSSIAN_DEVIATIONS: Final = 40.0
"""Gaussian noise is farther out than so many standard deviations with probability 1e-349: 0."""


@dataclass(frozen=True, eq=False)
class BinomialLoss:
    """The loss of noise shifted up by `up` against noise shifted down by `down`, at position x.

    The loss at x is G_up(x) - G_down(-x), with G the logarithm of a `Shifts`; it
    increases with x.
    """

    up: Shifts
    down: Shifts | None

    def at(self, x: FloatArray) -> Ratio:
        """Return the losses at finite positions, their slopes, and the log weights behind them."""
        ratio = self.up.at(x)
        if self.down is None:
            return ratio
        other = self.down.at(-x)
        return Ratio(
            ratio.log - other.log,
            ratio.slope + other.slope,
            np.maximum(ratio.log_weight, other.log_weight) + np.abs(other.log),
        )

    @property
    def reach(self) -> tuple[float, float]:
        """Positions beyond which the loss is constant (Laplace) or the mass 0 (Gaussian)."""
        lowest = 0.0 if self.down is None else -self.down.farthest
        highest = self.up.farthest
        noise = self.up.noise
        if isinstance(noise, LaplaceNoise):
            return lowest, highest
        return (
            lowest - MAX_GAUSSIAN_DEVIATIONS * noise.scale,
            highest + MAX_GAUSSIAN_DEVIATIONS * noise.scale,
        )

    def positions(self, losses: FloatArray) -> FloatArray:
        """Return where each of ascending `losses` is reached, infinite beyond `reach`.

        The loss at the position, as it is computed, is within `tolerance` of the one asked for.
        """
        table = self._table(losses)
        x, known = table.x, table.known
        result = np.where(losses < known[0], -np.inf, np.inf)
        inside = np.flatnonzero((losses >= known[0]) & (losses <= known[-1]))
        if inside.size == 0:
            return result
        # Start from the cubic through the table, inside the cell that brackets each position.
        targets = losses[inside]
        cell = table.cell(targets)
        low, high = x[cell], x[cell + 1]
        x = np.clip(table.guess(targets, cell), low, high)
        left = np.arange(targets.size)
        for _ in range(MAX_POSITION_STEPS):
            ratio = self.at(x[left])
            over = ratio.log - targets[left]
            unconverged = np.abs(over) > self.tolerance(x[left], ratio)
            if not unconverged.any():
                result[inside] = x
                return result
            # Newton's method, kept between the neighbours in the table.
            left, over, slope = left[unconverged], over[unconverged], ratio.slope[unconverged]
            high[left] = np.where(over > 0.0, x[left], high[left])
            low[left] = np.where(over > 0.0, low[left], x[left])
            with np.errstate(divide="ignore"):
                newton = x[left] - over / slope
            good = (newton > low[left]) & (newton < high[left])
            x[left] = np.where(good, newton, 0.5 * (low[left] + high[left]))
        raise FloatingPointError("the position of a loss was not found")

    def _table(self, losses: FloatArray) -> _LossTable:
        """Return positions with their losses, dense between the first and the last of `losses`."""
        coarse = _LossTable.of(self, *self.reach)
        first, last = coarse.cell(losses[[0, -1]]).tolist()
        return _LossTable.of(self, float(coarse.x[first]), float(coarse.x[last + 1]))

    def lipschitz_bound(self, losses: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds on the slope and on |x| where each of ascending `losses` is reached."""
        table = self._table(losses)
        cell = table.cell(losses)
        slope = table.up_slope[cell + 1] + table.down_slope[cell]
        return slope, np.maximum(np.abs(table.x[cell]), np.abs(table.x[cell + 1]))

    def largest_centre(self, x: float) -> float:
        """Return the largest shift, up or down, that matters at positions in [-x, x]."""
        both = (self.up, self.down)
        return max(
            float(shifts.centres[shifts.window(-x, x)[-1]]) for shifts in both if shifts is not None
        )

    def tolerance(self, x: FloatArray, ratio: Ratio) -> FloatArray:
        """Return how far the computed loss at a position may be from the one asked for.

        More than what rounding does: each term of a ratio is good to 4u (|term| + 2 |log w|), and
        |x| to u.
        """
        size = 1.0 + np.abs(ratio.log) + 2.0 * ratio.log_weight
        return LOSS_ROUNDING_RELATIVE * (size + ratio.slope * (1.0 + np.abs(x)))


@dataclass(frozen=True, eq=False)
class _LossTable:
    """Ascending positions with their losses, and bounds on the slopes of both ratios.

    `up_slope` bounds the slope up to each position, `down_slope` from it on.
    """

    x: FloatArray
    known: FloatArray
    slope: FloatArray
    up_slope: FloatArray
    down_slope: FloatArray

    @classmethod
    def of(cls, losses: BinomialLoss, low: float, high: float) -> _LossTable:
        x = np.linspace(low, high, LOSS_TABLE_NODES)
        ratio = losses.at(x)
        # Losses ascend with x; rounding must not make the table fall.
        up, down = losses.up.at(x), losses.down
        falling = np.zeros_like(x) if down is None else down.lipschitz_bound(down.at(-x))
        rising = losses.up.lipschitz_bound(up)
        return cls(x, np.maximum.accumulate(ratio.log), ratio.slope, rising, falling)

    def cell(self, losses: FloatArray) -> IndexArray:
        """Return the index of the table position just below that of each loss."""
        # known[cell] <= loss, and the last cell also holds the last loss.
        index = np.searchsorted(self.known, losses, side="right") - 1
        return np.clip(index, 0, self.x.size - 2)

    def guess(self, losses: FloatArray, cell: IndexArray) -> FloatArray:
        """Return about the position of each loss, by the cubic through both ends of its cell."""
        start, rise = self.known[cell], self.known[cell + 1] - self.known[cell]
        width = self.x[cell + 1] - self.x[cell]
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(rise > 0.0, (losses - start) / rise, 1.0)
            a, b = (rise / self.slope[at] / width for at in (cell, cell + 1))
        continuous = (a < 3.0) & (b < 3.0)  # then the cubic increases
        cubic = t * (a + t * (3.0 - 2.0 * a - b + t * (a + b - 2.0)))
        return self.x[cell] + width * np.where(continuous, cubic, t)


@dataclass(frozen=True)
class _RoundingBounds:
    """Bounds on the quantities that rounding grows with, over a range of positions.

    On |x| plus the centres that matter, the slope of the loss, the logarithms of the ratios and
    of their weights, and the error that the weights bring in.
    """

    reach: float
    slope: float
    log_ratio: float
    log_weight: float
    ratio_error: float

    @classmethod
    def of(cls, shifts: Shifts, low: float, high: float) -> _RoundingBounds:
        ratio = shifts.at(np.array([low, high]))
        first, last = ratio.log.tolist()
        window = shifts.window(low, high)
        return cls(
            max(abs(low), abs(high)) + float(shifts.centres[window[-1]]),
            float(shifts.lipschitz_bound(ratio)[1]),
            max(abs(first), abs(last)),
            float(shifts.log_weight(last, window)),
            shifts.ratio_error(last),
        )


@dataclass(frozen=True, eq=False)
class BinomialMixturePair:
    """Noise shifted up by `losses.up` against noise shifted down by `losses.down`.

    When `swapped`, the pair stands for its reverse.  What is said of `MixturePair` holds.
    """

    losses: BinomialLoss
    swapped: bool = False

    @property
    def _span(self) -> tuple[float, float]:
        """Beyond these positions the loss is constant, and the mass an atom."""
        flat = isinstance(self.losses.up.noise, LaplaceNoise)
        return self.losses.reach if flat else (-math.inf, math.inf)

    def log_masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.swapped:
            p, q = self.reverse().log_masses(-edges[::-1])
            return q[::-1], p[::-1]
        low, high = self._span
        # Positions at which the edges are reached, shape (edges + 2,), ascending whatever
        # rounding does.
        inside = np.clip(self.losses.positions(edges), low, high)
        x = np.maximum.accumulate(np.concatenate(([low], inside, [high])))
        up, down = self.losses.up, self.losses.down
        if down is None:
            return up.log_masses(x), up.noise.log_interval_masses(x)
        return up.log_masses(x), down.log_masses(-x[::-1])[::-1]

    def positions_range(self, tail: float, *, of_p: bool) -> tuple[float, float]:
        """Return positions beyond which P (or Q) has mass of about `tail` on each side."""
        # Q moves the noise down, so its quantiles are those of `down` with their sign changed.
        up, down = self.losses.up, self.losses.down
        if of_p:
            ends = up.lower_quantile(tail), up.upper_quantile(tail)
        elif down is None:
            ends = -up.noise.radius(tail), up.noise.radius(tail)
        else:
            ends = -down.upper_quantile(tail), -down.lower_quantile(tail)
        low, high = self._span
        return min(max(ends[0], low), high), max(min(ends[1], high), low)

    def loss_range(self, tail: float) -> tuple[float, float]:
        """Return (low, high) beyond which P has mass of about `tail` on each side."""
        ends = np.array(self.positions_range(tail, of_p=not self.swapped))
        low, high = self.losses.at(ends).log.tolist()
        return (-high, -low) if self.swapped else (low, high)

    @property
    def largest_loss(self) -> float:
        """The loss at the end of the span; infinite where that is endless."""
        if math.isinf(self._span[1]):
            return math.inf
        low, high = self.losses.at(np.array(self._span)).log.tolist()
        return float(-low if self.swapped else high)

    def quadrature_points(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return losses and log P masses of an even grid of positions, some twelve to a scale."""
        start, stop = self.positions_range(tail, of_p=not self.swapped)
        # Evenly in position: twelve to a scale of the noise follow its density.
        step = min((stop - start) / QUADRATURE_INTERVALS, self.losses.up.noise.scale / 12.0)
        count = min(math.ceil((stop - start) / max(step, 1e-300)) + 1, 8 * QUADRATURE_INTERVALS)
        losses = np.unique(self.losses.at(np.linspace(start, stop, count)).log)
        log_p, log_q = self.log_masses(-losses[::-1] if self.swapped else losses)
        both = np.isfinite(log_p) & np.isfinite(log_q)
        return log_p[both] - log_q[both], log_p[both]

    def reverse(self) -> BinomialMixturePair:
        """Return the pair (Q, P)."""
        return replace(self, swapped=not self.swapped)

    def _rounding_bounds(self, tail: float) -> _RoundingBounds:
        low, high = self.positions_range(tail, of_p=not self.swapped)
        up, down = self.losses.up, self.losses.down
        up_bounds = _RoundingBounds.of(up, low, high)
        if down is None:
            return up_bounds
        down_bounds = _RoundingBounds.of(down, -high, -low)
        return _RoundingBounds(
            max(up_bounds.reach, down_bounds.reach),
            up_bounds.slope + down_bounds.slope,
            up_bounds.log_ratio + down_bounds.log_ratio,
            up_bounds.log_weight + down_bounds.log_weight,
            up_bounds.ratio_error + down_bounds.ratio_error,
        )

    def mass_error(self, tail: float) -> float:
        """Return the relative error of the masses inside `loss_range(tail)`.

        Of the noise, at the largest distance from a centre; of the weights; of the sums.
        """
        worst = self._rounding_bounds(tail)
        both = (self.losses.up, self.losses.down)
        weights = max(shifts.weights_error for shifts in both if shifts is not None)
        sums = 16.0 * UNIT_ROUNDOFF * (40.0 + worst.log_weight)
        return self.losses.up.noise.mass_error(2.0 + worst.reach) + weights + sums

    def edge_error(self, tail: float) -> float:
        """Return by how much the loss at an edge may differ from the edge asked for.

        The search stops within `tolerance`, the loss is computed to within that, and the weights
        that it is made of have an error of their own.
        """
        worst = self._rounding_bounds(tail)
        size = 1.0 + worst.log_ratio + 2.0 * worst.log_weight + worst.slope * (1.0 + worst.reach)
        return 2.0 * LOSS_ROUNDING_RELATIVE * size + worst.ratio_error

    def edge_mismatch(self, edges: FloatArray) -> FloatArray:
        """Return by how much, as a loss, the edges used for P and those used for Q may differ.

        That is 4u (|x - centre| + 1) times the slope of the loss at x, for a centre that matters.
        """
        ascending = -edges[::-1] if self.swapped else edges
        slope, x = self.losses.lipschitz_bound(ascending)
        centre = self.losses.largest_centre(float(x.max()))
        moved = 4.0 * UNIT_ROUNDOFF * slope * (1.0 + x + centre)
        return moved[::-1] if self.swapped else moved
