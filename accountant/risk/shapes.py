"""Shapes of trade-off functions: lines on both sides of the true one, and the Gaussian formula."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from scipy.special import ndtr, ndtri

from ..arrays import FloatArray, IndexArray
from ..engines.pld.compose.curve import AttainedCurve

ULP: Final = 2.0**-52
MAX_LINE_EPSILON: Final = 700.0
"""Beyond, e^epsilon is no number."""


class AttainedMiss(Protocol):
    """What tests of known data sets attain, at least."""

    def at(self, alpha: float) -> float:
        """Return a miss rate at one false alarm rate in [0, 1] that some test does not exceed."""

    def delta(self, epsilon: float) -> float:
        """Return a lower bound on delta at one epsilon, 0 or above."""


class TradeOffShape(Protocol):
    """A trade-off function that is its own inverse, as a formula."""

    def at(self, alpha: float) -> float:
        """Return the smallest miss rate at one false alarm rate in [0, 1]."""

    def at_each(self, alphas: FloatArray) -> FloatArray:
        """Return the smallest miss rates at false alarm rates in [0, 1]."""


@dataclass(frozen=True, eq=False)
class Lines:
    """The maximum of 0 and of lines `heights` - `slopes` x alpha, slopes falling."""

    heights: FloatArray
    slopes: FloatArray

    @classmethod
    def of(cls, epsilons: FloatArray, forth: FloatArray, back: FloatArray) -> Lines:
        """Return 1 - forth - e^epsilon alpha and e^-epsilon (1 - back - alpha), rounded down."""
        # Slopes are rounded up and heights down, so that every line lies below the exact one.
        grown = np.exp(epsilons) * (1.0 + 4.0 * ULP * (1.0 + epsilons))
        shrunk = np.exp(-epsilons)
        rounding = 4.0 * ULP * (1.0 + epsilons)
        steep = 1.0 - forth - 2.0 * ULP
        flat = shrunk * (1.0 - rounding) * np.maximum(1.0 - back - 2.0 * ULP, 0.0)
        heights = np.concatenate((steep[::-1], flat))
        slopes = np.concatenate((grown[::-1], shrunk * (1.0 + rounding)))
        return cls(heights, slopes)

    def at(self, alpha: float) -> float:
        """Return the maximum at one alpha, as `at_each` does."""
        # Coarse pass over every `step`-th line, then all lines around the best of them.
        step = self._step
        first = step * int((self.heights[::step] - self.slopes[::step] * alpha).argmax())
        near = slice(max(first - step, 0), first + step + 1)
        best = float((self.heights[near] - self.slopes[near] * alpha).max())
        return max(best - 2.0 * ULP, 0.0)

    def at_each(self, alphas: FloatArray) -> FloatArray:
        """Return the maximum at each alpha: among every so many lines first, then around the best.

        For one alpha the values are concave in the slope, so the best of all is near that one.
        """
        return np.asarray(np.maximum(self.on(self.best(alphas), alphas) - 2.0 * ULP, 0.0))

    def best(self, alphas: FloatArray) -> IndexArray:
        """Return the line that is highest at each alpha, or next to highest by rounding."""
        # (alphas, lines / step), then (alphas, 2 step + 1): the full table is never held.
        count, step = self.heights.size, self._step
        first = step * np.argmax(self._values(np.arange(0, count, step), alphas), axis=1)
        near = np.clip(first[:, None] + np.arange(-step, step + 1), 0, count - 1)
        within = np.argmax(self._values(near, alphas), axis=1)
        return np.asarray(near[np.arange(alphas.size), within])

    def on(self, lines: IndexArray, alphas: FloatArray) -> FloatArray:
        """Return the value of one line for each alpha."""
        return np.asarray(self.heights[lines] - self.slopes[lines] * alphas)

    @property
    def _step(self) -> int:
        return max(math.isqrt(self.heights.size) // 2, 1)

    def _values(self, lines: IndexArray, alphas: FloatArray) -> FloatArray:
        return np.asarray(self.heights[lines] - self.slopes[lines] * alphas[:, None])


@dataclass(frozen=True)
class GaussianShape:
    """N(0, 1) against N(mu, 1): Phi(Phi^-1(1 - alpha) - mu), rounded down."""

    mu: float

    def at(self, alpha: float) -> float:
        """Return the smallest miss rate at one alpha."""
        return float(ndtr(-ndtri(alpha) - self.mu)) * (1.0 - 1e-11)

    def at_each(self, alphas: FloatArray) -> FloatArray:
        """Return the smallest miss rates."""
        return np.asarray(ndtr(-ndtri(alphas) - self.mu)) * (1.0 - 1e-11)


@dataclass(frozen=True, eq=False)
class MissCeiling:
    """The maximum of lines `heights` - `slopes` x alpha: no less than what one known test misses.

    All lines count: leaving one out would lower the maximum below the truth.
    """

    heights: FloatArray
    slopes: FloatArray
    curve: AttainedCurve

    @classmethod
    def of(cls, curve: AttainedCurve) -> MissCeiling:
        """Return 1 - delta - e^epsilon alpha over the nodes of a curve, rounded up."""
        kept = curve.epsilons <= MAX_LINE_EPSILON
        epsilons = curve.epsilons[kept]
        grown = np.exp(epsilons) * (1.0 - 4.0 * ULP * (1.0 + np.abs(epsilons)))
        # Below the first node the hockey stick is a chord from (0, total); beyond the last it is at
        # least `beyond`, and so it is at all that are left out.
        steepest = float(grown[-1]) if grown.size else 0.0
        if not kept.all():
            steepest = math.exp(MAX_LINE_EPSILON) * (1.0 - 4.0 * ULP * (1.0 + MAX_LINE_EPSILON))
        deltas = np.concatenate(([curve.total], curve.deltas[kept], [curve.beyond]))
        return cls(1.0 - deltas + ULP, np.concatenate(([0.0], grown, [steepest])), curve)

    def at(self, alpha: float) -> float:
        """Return a miss rate at one alpha that some test does not exceed."""
        best = float((self.heights - self.slopes * alpha).max()) + 2.0 * ULP
        return min(max(best, 0.0), self._exchanged(alpha), 1.0)

    def _exchanged(self, alpha: float) -> float:
        """Return the same for the data sets in the other order: the inverse function."""
        # Lines of slope 0 bound the first rate alone: there is no test below them.
        is_flat = self.slopes == 0.0
        if (self.heights[is_flat] > alpha).any():
            return 1.0
        with np.errstate(over="ignore"):
            rates = (self.heights[~is_flat] - alpha) / self.slopes[~is_flat]
        return float(rates.max(initial=0.0)) * (1.0 + 4.0 * ULP)

    def delta(self, epsilon: float) -> float:
        """Return the delta of the first node from `epsilon` on, since delta falls."""
        node = int(np.searchsorted(self.curve.epsilons, epsilon))
        deltas = self.curve.deltas
        return float(deltas[node]) if node < deltas.size else self.curve.beyond


@dataclass(frozen=True, eq=False)
class SingleTests:
    """What follows from delta at single epsilons, attained each by two data sets, maybe others.

    With lambda = e^epsilon some test has TPR >= delta + lambda FPR, at an unknown FPR of at most
    (1 - delta) / lambda.  The best tests of that pair have a concave curve from (0, 0) or above to
    (1, 1), so at alpha they reach min{lambda alpha / (1 - delta), delta + (1 - delta) alpha}: the
    least over where that test may be.
    """

    epsilons: FloatArray
    deltas: FloatArray

    def at(self, alpha: float) -> float:
        """Return a miss rate at one alpha that some test does not exceed."""
        missed = 1.0 - self.deltas
        with np.errstate(divide="ignore", over="ignore"):
            steep = np.exp(np.minimum(self.epsilons, MAX_LINE_EPSILON)) * alpha / missed
        reached = np.minimum(steep, self.deltas + missed * alpha)
        best = float(reached.max(initial=0.0)) * (1.0 - 1e-12)
        return min(max(1.0 - best + ULP, 0.0), 1.0)

    def delta(self, epsilon: float) -> float:
        """Return the largest delta that is attained at this epsilon or above."""
        return float(self.deltas[self.epsilons >= epsilon].max(initial=0.0))
