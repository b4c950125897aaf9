"""The law of a sum of many independent small integers, between bounds, far out too.

For independent S = sum over parts of `count` copies with masses on 0, 1, ..., K, and any tilt t,

    P(S = s) = e^(k(t) - t s) P_t(S = s),    k(t) = sum of count log E e^(tX),

where P_t has its mean k'(t) near s, so that an error which is small against 1 is small against the
answer.  P_t is found by inverting its characteristic function f on N points:

* what lies outside N consecutive points folds into them: Chernoff's bound at tilts near t;
* the nodes where |f| matters, where they are few, are computed from e^(ix) - 1 = -2 sin^2(x/2) +
  i sin x and log1p, so that the `count`-th power keeps its digits; the others by a transform;
* the inverse transform is off by at most 16 u log2 N times the 2-norm of its result.

Source: tilt and inversion as in engines/pld/compose/transform.py; Higham, "Accuracy and Stability
of Numerical Algorithms", 2nd ed., Theorem 24.2, for the transform.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.fft import irfft, rfft
from scipy.fft import next_fast_len

from ...arrays import ComplexArray, FloatArray
from ...rootfinding import enclose, narrow
from ..sums import UNIT_ROUNDOFF

WINDOW_TAIL_EXPONENT: Final = 65.0
"""A tilted sum leaves its window with probability at most about e^-65 on each side."""

LATTICE_CUTOFF_EXPONENT: Final = 80.0
"""Nodes count where |f| is above e^-80."""

TILT_SPACING_DEVIATIONS: Final = 6.0
"""Distance of neighbouring tilts, in standard deviations of the sum."""

MAX_LATTICE_TERMS: Final = 100_000
"""Most terms, nodes times points, that are summed one by one; else a transform must do."""

PART_MASS_ERROR: Final = 5e-14
"""Relative error that the masses of a part may have."""

MAX_LATTICE_WINDOW: Final = 1 << 21
"""Most points of a window."""


@dataclass(frozen=True, eq=False)
class Part:
    """`count` independent integers with `masses` on 0, 1, ..., each right to `PART_MASS_ERROR`."""

    masses: FloatArray
    count: int


@dataclass(frozen=True, eq=False)
class SumLaw:
    """Bounds on log P(S = s) for s = `first`, `first` + 1, ...; elsewhere nothing is said."""

    first: int
    log_lower: FloatArray
    log_upper: FloatArray

    @property
    def last(self) -> int:
        """The last s that is listed."""
        return self.first + self.log_lower.size - 1

    def between(self, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Return the two bounds for `first`, ..., `last`, all of them listed."""
        listed = slice(first - self.first, last - self.first + 1)
        return self.log_lower[listed], self.log_upper[listed]


def law_of_sum(parts: Sequence[Part], deviations: float = 14.0) -> SumLaw:
    """Return bounds on the law of the sum of all `parts`, out to about that many deviations.

    Where nothing can be said the lower bound is -inf and the upper bound 0.
    """
    total = _TiltedSum(tuple(part for part in parts if part.count > 0))
    mean, variance = total.moments(0.0)
    spread = math.sqrt(variance)
    first = max(total.least, math.floor(mean - deviations * spread) - 1)
    last = min(total.most, math.ceil(mean + deviations * spread) + 1)
    lower = np.full(last - first + 1, -np.inf)
    upper = np.zeros(last - first + 1)
    steps = math.ceil(deviations / TILT_SPACING_DEVIATIONS)
    for step in range(-steps, steps + 1):
        # A tilt for every six deviations; where windows overlap, the sharper bound counts.
        aim = mean + TILT_SPACING_DEVIATIONS * step * spread
        if not first - spread <= aim <= last + spread:
            continue
        low, log_low, log_high = total.tilted(total.tilt_for(aim), first, last)
        listed = slice(low - first, low - first + log_low.size)
        lower[listed] = np.maximum(lower[listed], log_low)
        upper[listed] = np.minimum(upper[listed], log_high)
    return SumLaw(first, lower, upper)


@dataclass(frozen=True, eq=False)
class _TiltedSum:
    parts: tuple[Part, ...]

    @property
    def least(self) -> int:
        return sum(part.count * int(np.flatnonzero(part.masses)[0]) for part in self.parts)

    @property
    def most(self) -> int:
        return sum(part.count * int(np.flatnonzero(part.masses)[-1]) for part in self.parts)

    def cumulant(self, tilt: float) -> float:
        return sum(part.count * _tilted(part.masses, tilt)[1] for part in self.parts)

    def moments(self, tilt: float) -> tuple[float, float]:
        """Return mean and variance of the tilted sum."""
        mean = variance = 0.0
        for part in self.parts:
            weights, _ = _tilted(part.masses, tilt)
            positions = np.arange(weights.size)
            centre = float((weights * positions).sum())
            mean += part.count * centre
            variance += part.count * float((weights * (positions - centre) ** 2).sum())
        return mean, variance

    def tilt_for(self, aim: float) -> float:
        """Return about the tilt at which the mean is `aim`; near the ends of the support, less."""
        mean, variance = self.moments(0.0)
        if variance == 0.0:
            return 0.0
        guess = (aim - mean) / variance
        limit = 5.0 * math.sqrt(2.0 / variance) * (1.0 + abs(aim - mean) / math.sqrt(variance))

        def below(tilt: float) -> float:
            return aim - self.moments(tilt)[0]

        bracket = enclose(below, guess, 0.1 / math.sqrt(variance), guess - limit, guess + limit)
        if bracket is None:
            return guess
        tilt = narrow(below, bracket, value=0.05 * math.sqrt(variance), steps=30)
        return 0.5 * (tilt.low + tilt.high) if abs(tilt.high) < math.inf else tilt.low

    def tilted(self, tilt: float, first: int, last: int) -> tuple[int, FloatArray, FloatArray]:
        """Return (s, bounds on log P(S = s), ...) for consecutive s in [first, last].

        The s are those within `TILT_SPACING_DEVIATIONS` deviations of the tilted mean, or a little
        more.
        """
        laws = [(part.count, *_tilted(part.masses, tilt)) for part in self.parts]
        mean, variance = self.moments(tilt)
        # P_t on a window around its mean; what folds into it counts as error.
        start, size, folded = self._window(tilt, mean, variance)
        probabilities, error = _inverted(laws, start, size)
        off = error + folded
        reach = TILT_SPACING_DEVIATIONS * math.sqrt(variance) + 2.0
        low = max(first, start, math.floor(mean - reach))
        high = min(last, start + size - 1, math.ceil(mean + reach))
        high = max(high, low - 1)  # none, where the listed ones lie elsewhere
        s = np.arange(low, high + 1, dtype=np.float64)
        probability = probabilities[low - start : high - start + 1]
        cumulant = sum(count * log_moment for count, _, log_moment in laws)
        # Of each mass, before and after it is tilted; and of the exponent.
        count = sum(part.count for part in self.parts)
        steepest = abs(tilt) * max(part.masses.size for part in self.parts)
        exponent = 8.0 * UNIT_ROUNDOFF * (8.0 + abs(cumulant) + abs(tilt) * np.abs(s))
        # Relative error of P(S = s): of the tilt's exponent and of each mass.
        relative = exponent + count * (PART_MASS_ERROR + UNIT_ROUNDOFF * (16.0 + 8.0 * steepest))
        with np.errstate(divide="ignore"):
            log_low = np.log(np.maximum(probability - off, 0.0))
            log_high = np.log(np.maximum(probability + off, 0.0))
        scale = cumulant - tilt * s
        return low, scale + log_low - relative, np.minimum(scale + log_high + relative, 0.0)

    def _window(self, tilt: float, mean: float, variance: float) -> tuple[int, int, float]:
        """Return the first point of a window, its size, and what may lie outside it."""
        least, most = self.least, self.most
        cumulant, spread = self.cumulant(tilt), math.sqrt(variance)
        ends = []
        for sign in (-1.0, 1.0):
            reach = math.inf
            for factor in (0.25, 0.5, 1.0, 2.0) if spread > 0.0 else ():
                move = factor * math.sqrt(2.0 * WINDOW_TAIL_EXPONENT) / spread
                # Chernoff at a tilt further on: where the tail is at most e^-65.
                rise = self.cumulant(tilt + sign * move) - cumulant - sign * move * mean
                reach = min(reach, (rise + WINDOW_TAIL_EXPONENT) / move)
            ends.append(mean + sign * reach)
        low = max(least, math.floor(max(ends[0], least - 1.0)))
        high = min(most, math.ceil(min(ends[1], most + 1.0)))
        folded = 0.0 if (low, high) == (least, most) else 2.0 * math.exp(1.0 - WINDOW_TAIL_EXPONENT)
        if high - low + 1 > MAX_LATTICE_WINDOW:  # nothing can be said, which is true enough
            middle = round(mean)
            return middle, 2, 1.0
        size = next_fast_len(high - low + 2, real=True)
        return low, size + size % 2, folded


def _inverted(
    laws: Sequence[tuple[int, FloatArray, float]], start: int, size: int
) -> tuple[FloatArray, float]:
    """Return P_t(S = s) for s = start, ..., start + size - 1, folded, and a bound on its error."""
    angles = 2.0 * math.pi / size * np.arange(size // 2 + 1)
    transforms = [np.conj(rfft(_folded(weights, size))) for _, weights, _ in laws]
    blur = 32.0 * UNIT_ROUNDOFF * math.log2(size)
    # log |f| from a transform, with its blur: which nodes matter.
    log_size = np.zeros(angles.size)
    for (count, _, _), transform in zip(laws, transforms, strict=True):
        log_size += count * np.log(np.minimum(np.abs(transform) + blur, 1.0))
    relevant = np.flatnonzero(log_size > -LATTICE_CUTOFF_EXPONENT)
    t: FloatArray = angles[relevant].astype(np.float64)
    log_f = np.zeros(t.size, dtype=np.complex128)
    off = np.zeros(t.size)
    shift = -float(start)
    for (count, weights, _), transform in zip(laws, transforms, strict=True):
        positions = np.flatnonzero(weights)
        if positions.size * t.size <= MAX_LATTICE_TERMS:
            # f = 1 + sum w (e^(ix) - 1) puts what the masses lack to 1 at the centre: the heaviest.
            centre = int(np.argmax(weights))
            log_part, part_error = _log_characteristic(
                t, (positions - centre).astype(np.float64), weights[positions]
            )
            shift += count * centre
        else:
            modulus = np.abs(transform[relevant])
            log_part, part_error = (
                np.log(transform[relevant]),
                blur / np.maximum(modulus - blur, 1e-300),
            )
        log_f += count * log_part
        off += count * part_error
    # A whole turn is exact, so the phase is that of a number of points below `size`.
    phase = t * ((shift + size / 2) % size - size / 2)
    values = np.exp(log_f + 1j * phase)
    off += UNIT_ROUNDOFF * (16.0 + 8.0 * np.abs(phase) + 8.0 * np.abs(log_f))
    spectrum = np.zeros(angles.size, dtype=np.complex128)
    spectrum[relevant] = np.conj(values)
    # Back to probabilities; nodes that were left out are covered by the last line's e^-80.
    probabilities = irfft(spectrum, size)
    norm = math.sqrt(float((probabilities * probabilities).sum()))
    error = 16.0 * UNIT_ROUNDOFF * math.log2(size) * norm
    error += 2.0 / size * float((np.abs(values) * np.expm1(np.minimum(off, 700.0))).sum())
    return probabilities, error + 2.0 * math.exp(1.0 - LATTICE_CUTOFF_EXPONENT)


def _log_characteristic(
    t: FloatArray, positions: FloatArray, weights: FloatArray
) -> tuple[ComplexArray, FloatArray]:
    """Return log E e^(itX) for integer `positions`, and a bound on the error of each."""
    x = t[:, None] * positions
    # Re and Im of sum w (e^(ix) - 1), without cancelling near x = 0.
    half = np.sin(0.5 * x)
    real = -2.0 * (weights * half * half).sum(axis=1)
    imaginary = (weights * np.sin(x)).sum(axis=1)
    size = np.sqrt(np.maximum((1.0 + real) ** 2 + imaginary**2, 1e-300))
    mean_phase = (weights * np.abs(x)).sum(axis=1)
    error = UNIT_ROUNDOFF * (32.0 + weights.size) * (mean_phase + np.abs(real)) / size**2
    log_size = 0.5 * np.log1p(np.maximum(2.0 * real + real**2 + imaginary**2, -1.0 + 1e-300))
    return log_size + 1j * np.arctan2(imaginary, 1.0 + real), error


def _tilted(masses: FloatArray, tilt: float) -> tuple[FloatArray, float]:
    """Return the tilted masses, which sum to 1, and log E e^(tilt X)."""
    exponents = tilt * np.arange(masses.size)
    peak = float(exponents[masses > 0.0].max())
    weights = masses * np.exp(np.minimum(exponents - peak, 0.0))
    total = float(weights.sum())
    return weights / total, peak + math.log(total)


def _folded(weights: FloatArray, size: int) -> FloatArray:
    if weights.size <= size:
        return np.concatenate((weights, np.zeros(size - weights.size)))
    folded = np.bincount(np.arange(weights.size) % size, weights, minlength=size)
    return folded.astype(np.float64)
