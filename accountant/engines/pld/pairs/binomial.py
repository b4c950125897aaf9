"""Noise shifted by a random number of bounds, as a density ratio to centred noise.

With probability w_i the noise lies around c_i >= 0; against noise around 0 the ratio at x is

    sum over i of t_i(x) = w_i f_i(x),   f_i(x) = noise(x - c_i) / noise(x).

The number may be binomial, c_i = i and w_i = C(k, i) q^i (1 - q)^(k - i), or any
(gaussian_mixtures.py).

**Windows.**  Only the i near the largest t_i(x) matter, so there may be many.  f_{i'} / f_i does
not fall as x grows if c_i' > c_i.  So for x in [u, v], what lies above a window is at most its
share at v, and what lies below at most its share at u: each window leaves out less than e^-40 of
the ratio, pointwise, and so less than e^-40 of the mass of every interval.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.special import gammaln

from ....arrays import FloatArray, IndexArray
from ....rootfinding import bisect, mean
from ..grid.noise import UNIT_ROUNDOFF, AdditiveNoise, GaussianNoise, LaplaceNoise

MIN_PIECE_POSITIONS: Final = 128
MAX_PIECE_TERMS: Final = 1 << 15
"""Positions are taken in pieces that share a window: of `MAX_PIECE_TERMS` terms, not too short."""

WINDOW_LOG_SHARE: Final = 40.0
"""Each window leaves out less than e^-40 of the ratio."""


@dataclass(frozen=True, eq=False)
class Ratio:
    """The logarithm of the ratio at some positions, and its slope there.

    `log_weight` is at least the average of |log w_i| over the terms, by their share of the ratio.
    """

    log: FloatArray
    slope: FloatArray
    log_weight: FloatArray


@dataclass(frozen=True, eq=False)
class Shifts(ABC):
    """Noise around the centre c_i with probability w_i, against the same noise around 0."""

    @property
    @abstractmethod
    def noise(self) -> AdditiveNoise:
        """The noise that is shifted."""

    @property
    @abstractmethod
    def centres(self) -> FloatArray:
        """The shifts c_i, ascending from 0 or above."""

    @property
    @abstractmethod
    def log_weights(self) -> FloatArray:
        """The logarithms of the weights w_i."""

    @property
    @abstractmethod
    def weights_error(self) -> float:
        """The relative error of every w_i."""

    @property
    @abstractmethod
    def lowest(self) -> float:
        """The log weight of centre 0, the infimum of the ratio's logarithm; -inf without one."""

    @property
    @abstractmethod
    def lowest_error(self) -> float:
        """The relative error of the weight of centre 0."""

    @abstractmethod
    def log_shift(self, x: FloatArray, centre: FloatArray) -> FloatArray:
        """Return log f_i(x) for the shift c_i."""

    @abstractmethod
    def slope_of_shift(self, x: FloatArray, centre: FloatArray) -> FloatArray:
        """Return an upper bound on the slope of log f_i at x."""

    @abstractmethod
    def lipschitz_bound(self, ratio: Ratio) -> FloatArray:
        """Return an upper bound on the slope of the ratio's logarithm up to each position."""

    @property
    def farthest(self) -> float:
        """The largest shift."""
        return float(self.centres[-1])

    @cached_property
    def _log_count(self) -> float:
        return math.log(self.centres.size)

    def ratio_error(self, log_ratio: float) -> float:
        """Return the relative error of ratios of up to e^log_ratio that the weights bring in.

        That of centre 0 has its own, and the others have at most the share of those drawn.
        """
        return float(self.drawn(log_ratio)) * self.weights_error + self.lowest_error

    def drawn(self, log_ratio: FloatArray | float) -> FloatArray:
        """Return the share of the terms above centre 0 where the ratio is e^log_ratio."""
        return np.clip(-np.expm1(self.lowest - log_ratio), 0.0, 1.0)

    def log_weight(self, log_ratio: FloatArray | float, i: IndexArray) -> FloatArray:
        """Return a bound on the average |log w_i| by share, up to this ratio, in a window."""
        most = float(np.abs(self.log_weights[i]).max())
        return np.minimum(most, self.drawn(log_ratio) * most - self.lowest)

    def at(self, x: FloatArray) -> Ratio:
        """Return the ratio at finite positions, shape (positions,); fast if they nearly ascend."""
        log, slope, log_weight = np.empty_like(x), np.empty_like(x), np.empty_like(x)
        for piece, i in self._windows(x):
            shifts = self.centres[i, None]
            # log t_i(x), shape (window, positions).  The largest term is taken out before exp;
            # the slope of log sum_i t_i is the mean slope of the terms by their shares.
            terms = self.log_weights[i, None] + self.log_shift(x[piece], shifts)
            peak = terms.max(axis=0)
            shares = np.exp(terms - peak)
            total = shares.sum(axis=0)
            log[piece] = peak + np.log(total)
            slope[piece] = (shares * self.slope_of_shift(x[piece], shifts)).sum(axis=0) / total
            log_weight[piece] = self.log_weight(log[piece], i)
        return Ratio(log, slope, log_weight)

    def log_masses(self, x: FloatArray) -> FloatArray:
        """Return log masses of the shifted noise between ascending positions, shape (positions -
        1,).

        The first and the last position may be infinite.
        """
        result = np.full(x.size - 1, -np.inf)
        for start, stop, i in self._interval_windows(x):
            # Edges as each centre sees them, shape (positions, window): masses keep their digits
            # there.
            edges = x[start : stop + 1, None] - self.centres[i]
            terms = self.log_weights[i, None] + self._log_interval_masses(edges).T
            peak = terms.max(axis=0)
            some = np.isfinite(peak)
            total = np.exp(terms[:, some] - peak[some]).sum(axis=0)
            result[start:stop][some] = peak[some] + np.log(total)
        return result

    def _log_interval_masses(self, edges: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            return self.noise.log_interval_masses(edges)

    def upper_quantile(self, tail: float) -> float:
        """Return about the upper `tail` quantile of the shifted noise."""
        logs = self.log_weights
        i = np.flatnonzero(logs > math.log(tail) - 60.0 - self._log_count)
        return self._quantile(tail, self.centres[i], logs[i], +1.0)

    def lower_quantile(self, tail: float) -> float:
        """Return about the lower `tail` quantile of the shifted noise."""
        logs = self.log_weights
        i = np.flatnonzero(logs > math.log(tail) - 60.0 - self._log_count)
        return self._quantile(tail, self.centres[i], logs[i], -1.0)

    def _quantile(self, tail: float, centres: FloatArray, logs: FloatArray, side: float) -> float:
        reach, seen = self.noise.radius(tail / 2.0), side * centres
        low, high = float(seen.min()) - reach, float(seen.max()) + reach

        # Bisection to a sixteenth of a scale.  Any range is sound: mass beyond it is counted as
        # such.
        def too_much_beyond(x: float) -> bool:
            beyond = np.stack([x - seen, np.full(seen.size, np.inf)])
            return bool(np.exp(logs + self._log_interval_masses(beyond)[0]).sum() > tail)

        def narrow_enough(low: float, high: float) -> bool:
            return high - low <= self.noise.scale / 16.0 or not low < mean(low, high) < high

        return side * bisect(too_much_beyond, low, high, stop=narrow_enough, middle=mean)[1]

    def _windows(self, x: FloatArray) -> Iterator[tuple[slice, IndexArray]]:
        if x.size == 0:
            return
        within = self.window(float(x.min()), float(x.max()))
        step = max(MIN_PIECE_POSITIONS, MAX_PIECE_TERMS // within.size)
        for start in range(0, x.size, step):
            piece = slice(start, min(start + step, x.size))
            yield piece, self.window(float(x[piece].min()), float(x[piece].max()), within)

    def _interval_windows(self, x: FloatArray) -> Iterator[tuple[int, int, IndexArray]]:
        """Yield (start, stop, window) for the intervals [start, stop)."""
        finite = np.flatnonzero(np.isfinite(x))
        if finite.size == 0:
            yield 0, x.size - 1, self.window(-math.inf, math.inf)
            return
        first, last = int(finite[0]), int(finite[-1])
        if first > 0:
            yield 0, first, self.window(-math.inf, float(x[first]))
        within = self.window(float(x[first]), float(x[last]))
        step = max(MIN_PIECE_POSITIONS, MAX_PIECE_TERMS // within.size)
        for start in range(first, last, step):
            stop = min(start + step, last)
            yield start, stop, self.window(float(x[start]), float(x[stop]), within)
        if last < x.size - 1:
            yield last, x.size - 1, self.window(float(x[last]), math.inf)

    def window(self, low: float, high: float, among: IndexArray | None = None) -> IndexArray:
        """Return the shifts with a significant share in [low, high], of all or those in `among`."""
        of = np.arange(self.centres.size) if among is None else among
        # Smaller shifts lose weight as x grows: what does not matter at `low` matters nowhere
        # above it, and likewise for larger shifts below `high`.
        first, last = 0, of.size - 1
        if math.isfinite(low):
            first = int(self._significant(low, of)[0])
        if math.isfinite(high):
            last = int(self._significant(high, of)[-1])
        return of[first : last + 1]

    def _significant(self, x: float, among: IndexArray) -> IndexArray:
        # Terms below e^-40 of the largest one, over their number, add up to less than e^-40 of the
        # ratio.
        terms = self.log_weights[among] + self.log_shift(np.array(x), self.centres[among])
        return np.flatnonzero(terms >= terms.max() - WINDOW_LOG_SHARE - self._log_count)


@dataclass(frozen=True, eq=False)
class BinomialShifts(Shifts):
    """Noise around i ~ Bin(`size`, `rate`) against the same noise around 0."""

    size: int
    rate: float

    @cached_property
    def centres(self) -> FloatArray:
        """The numbers 0, ..., k."""
        return np.arange(self.size + 1.0)

    @cached_property
    def log_weights(self) -> FloatArray:
        """The logarithms of w_0, ..., w_k."""
        i = self.centres
        chosen = gammaln(self.size + 1.0) - gammaln(i + 1.0) - gammaln(self.size - i + 1.0)
        return np.asarray(chosen + i * math.log(self.rate) + (self.size - i) * self._log_spared)

    @property
    def _log_spared(self) -> float:
        return math.log1p(-self.rate)

    @cached_property
    def weights_error(self) -> float:
        """The relative error of every w_i: of three log-gammas (4 units each) and two products."""
        logs = 3.0 * math.lgamma(self.size + 1.0) + 2.0 * float(np.abs(self.log_weights).max())
        return 8.0 * UNIT_ROUNDOFF * (2.0 + logs)

    @property
    def lowest(self) -> float:
        """log w_0, the loss if no record is drawn."""
        return self.size * self._log_spared

    @property
    def lowest_error(self) -> float:
        """The relative error of w_0, which is a power."""
        return -8.0 * UNIT_ROUNDOFF * self.lowest


class ShiftedGaussian(Shifts):
    """Gaussian noise of standard deviation `scale` that is shifted."""

    scale: float

    @property
    def noise(self) -> GaussianNoise:
        """The noise that is moved."""
        return GaussianNoise(self.scale)

    def log_shift(self, x: FloatArray, centre: FloatArray) -> FloatArray:
        """Return c (x - c/2) / s^2."""
        return centre * (x - 0.5 * centre) / self.scale**2

    def slope_of_shift(self, x: FloatArray, centre: FloatArray) -> FloatArray:
        """Return c / s^2."""
        return centre / self.scale**2

    def lipschitz_bound(self, ratio: Ratio) -> FloatArray:
        """Return the slope there: the logarithm of a sum of exponentials is convex."""
        return ratio.slope


@dataclass(frozen=True, eq=False)
class GaussianShifts(ShiftedGaussian, BinomialShifts):
    """Gaussian noise of standard deviation `scale`, shifted by a binomial number of bounds."""

    scale: float


@dataclass(frozen=True, eq=False)
class LaplaceShifts(BinomialShifts):
    """Laplace noise of scale `scale`."""

    scale: float

    @property
    def noise(self) -> LaplaceNoise:
        """The noise that is moved."""
        return LaplaceNoise(self.scale)

    def log_shift(self, x: FloatArray, centre: FloatArray) -> FloatArray:
        """Return (|x| - |x - c|) / b, which stays in [-c/b, c/b]."""
        return np.clip(2.0 * x - centre, -centre, centre) / self.scale

    def slope_of_shift(self, x: FloatArray, centre: FloatArray) -> FloatArray:
        """Return 2/b in [0, c], and 0 outside."""
        return np.where((x >= 0.0) & (x <= centre), 2.0 / self.scale, 0.0)

    def lipschitz_bound(self, ratio: Ratio) -> FloatArray:
        """Return 2/b times the share of those drawn, which grows with x."""
        return 2.0 / self.scale * self.drawn(ratio.log)
