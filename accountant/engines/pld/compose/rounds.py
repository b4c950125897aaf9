"""The factors of a composition: pmfs on grids of one width, with their multiplicities.

A part is one pmf, or the rows of a family.  Each says what the tilted sum of its losses looks like:
cumulant, moments, and transform with bounds on its rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Protocol

import numpy as np
from numpy.fft import rfft

from ....arrays import ComplexArray, FloatArray, IntArray
from ....rootfinding import enclose, narrow
from ..grid.loss_grid import LossPmf
from ..grid.noise import UNIT_ROUNDOFF, dot
from ..grid.pmf_rows import PmfRows

_MAX_BATCHED_NUMBERS: Final = 1 << 19
"""About how many numbers are transformed at once."""

_SHORT_SUM_POINTS: Final = 1000.0
"""A sum that spreads over fewer grid points than this is composed as it is."""

_MAX_MULTIPLIED_POWER: Final = 32
"""Powers up to this are products: each of at most 10 costs 3 roundings, fewer than are bounded."""

_MAX_LOG_PRECISION_LOSS: Final = 11.0
"""Log of the digits that a smaller tilt may cost: some 5 of the 14 that the tilted pmf has."""


@dataclass(frozen=True, eq=False)
class TiltedSpectrum:
    """The Fourier transform of a part's tilted sum on a circle, and bounds on its rounding.

    Index 0 of the circle stands for the loss `shift` * width + `offset`.  `norm_sum` is the sum of
    the 2-norms of the tilted pmfs, `relative_error` bounds the relative error of e^cumulant,
    `power_error` that of the products.
    """

    spectrum: ComplexArray
    shift: int
    offset: float
    norm_sum: float
    relative_error: float
    power_error: float


class Part(Protocol):
    """Pmfs of some rounds."""

    @property
    def width(self) -> float:
        """Width of the grid."""

    @property
    def slack(self) -> float:
        """By how much the sum of the losses may be off, through rounding of single losses."""

    @property
    def log_survival(self) -> float:
        """Log of the probability that no round has an infinite loss."""

    @property
    def min_sum(self) -> float:
        """The smallest finite sum of losses."""

    @property
    def max_sum(self) -> float:
        """The largest finite sum of losses."""

    @property
    def is_empty(self) -> bool:
        """Whether some pmf has no finite mass at all."""

    @property
    def transforms(self) -> int:
        """How many transforms are taken."""

    @property
    def releases(self) -> int:
        """How many rounds the part stands for."""

    def cumulant(self, tilt: float) -> float:
        """Return sum of n log sum_j p_j e^(t l_j)."""

    def mean_and_variance(self, tilt: float) -> tuple[float, float]:
        """Return mean and variance of the tilted sum."""

    def tilted_spectrum(self, tilt: float, size: int) -> TiltedSpectrum:
        """Return the transform of the tilted sum on a circle of `size` points."""


@dataclass(frozen=True, eq=False)
class RepeatedPmf:
    """One pmf, composed `count` times."""

    pmf: LossPmf
    count: int

    @property
    def width(self) -> float:
        return self.pmf.grid.width

    @property
    def slack(self) -> float:
        return self.count * self.pmf.slack

    @property
    def log_survival(self) -> float:
        infinite = self.pmf.infinite_mass
        return self.count * math.log1p(-infinite) if infinite < 1.0 else -math.inf

    @property
    def min_sum(self) -> float:
        return self.count * float(self.pmf.losses[0])

    @property
    def max_sum(self) -> float:
        return self.count * float(self.pmf.losses[-1])

    @property
    def is_empty(self) -> bool:
        """Whether the pmf has no finite mass at all."""
        return not self.pmf.masses.any()

    @property
    def transforms(self) -> int:
        return 1

    @property
    def releases(self) -> int:
        return self.count

    def cumulant(self, tilt: float) -> float:
        return self.count * tilted_masses(self.pmf, tilt)[1]

    def mean_and_variance(self, tilt: float) -> tuple[float, float]:
        losses = self.pmf.losses
        weights, _ = tilted_masses(self.pmf, tilt)
        centre = dot(weights, losses)
        return self.count * centre, self.count * dot(weights, (losses - centre) ** 2)

    def tilted_spectrum(self, tilt: float, size: int) -> TiltedSpectrum:
        pmf, n = self.pmf, self.count
        weights, _ = tilted_masses(pmf, tilt)
        # The tilted mean goes to index 0 of the circle, so that the n-th power stays around index
        # 0.
        centre = round(dot(weights, np.arange(weights.size, dtype=float)))
        folded = _fold(weights, centre, size)
        # e^(t l) is rounded by 4u per unit of |t l|; sums and logarithms take 36u more; n rounds.
        largest = abs(tilt) * max(abs(float(pmf.losses[0])), abs(float(pmf.losses[-1])))
        return TiltedSpectrum(
            spectrum=_power(rfft(folded), n),
            shift=n * (pmf.first + centre),
            offset=n * pmf.grid.offset,
            norm_sum=n * math.sqrt(dot(folded, folded)),
            relative_error=n * UNIT_ROUNDOFF * (36.0 + 4.0 * largest),
            power_error=(32.0 * n + 128.0) * UNIT_ROUNDOFF,
        )


@dataclass(frozen=True, eq=False)
class RepeatedPmfRows:
    """The pmfs of many rows, each composed as often as its count says."""

    rows: PmfRows

    @property
    def width(self) -> float:
        return self.rows.width

    @property
    def slack(self) -> float:
        return float((self.rows.counts * self.rows.slack).sum()) * (1.0 + 1e-12)

    @property
    def log_survival(self) -> float:
        with np.errstate(divide="ignore"):
            each = self.rows.counts * np.log1p(-self.rows.infinite)
        return float(each.sum())

    @cached_property
    def _losses(self) -> FloatArray:
        losses: FloatArray = self.rows.offset[:, None] + self.rows.width * self.rows.indices
        return losses

    @property
    def min_sum(self) -> float:
        return float((self.rows.counts * self._losses[:, 0]).sum())

    @property
    def max_sum(self) -> float:
        return float((self.rows.counts * self._losses[:, -1]).sum())

    @property
    def is_empty(self) -> bool:
        return not bool(self.rows.masses.any(axis=-1).all())

    @property
    def transforms(self) -> int:
        return self.rows.counts.size

    @property
    def releases(self) -> int:
        return sum(self.rows.counts.tolist())

    def _tilted(self, tilt: float) -> tuple[FloatArray, FloatArray]:
        """Return the tilted masses of each row, and its log moment; see `tilted_masses`."""
        masses = self.rows.masses
        exponents = tilt * self._losses
        # Shape (rows, points).  The largest exponent is taken out before exp, so that nothing
        # overflows; points without mass do not set it.
        peak = np.where(masses > 0.0, exponents, -np.inf).max(axis=-1, keepdims=True)
        weights = masses * np.exp(np.minimum(exponents - peak, 0.0))
        total = weights.sum(axis=-1, keepdims=True)
        return weights / total, (peak + np.log(total))[:, 0]

    def cumulant(self, tilt: float) -> float:
        return float((self.rows.counts * self._tilted(tilt)[1]).sum())

    def mean_and_variance(self, tilt: float) -> tuple[float, float]:
        weights, _ = self._tilted(tilt)
        centres = (weights * self._losses).sum(axis=-1)
        variances = (weights * (self._losses - centres[:, None]) ** 2).sum(axis=-1)
        counts = self.rows.counts
        return float((counts * centres).sum()), float((counts * variances).sum())

    def tilted_spectrum(self, tilt: float, size: int) -> TiltedSpectrum:
        rows, counts = self.rows, self.rows.counts
        weights, _ = self._tilted(tilt)
        centres = np.round((weights * rows.indices).sum(axis=-1)).astype(np.int64)
        positions = (rows.indices - centres[:, None]) % size
        spectrum = np.ones(size // 2 + 1, dtype=np.complex128)
        norm_sum = 0.0
        # Rows are transformed in blocks, shape (block, size), which stay in the cache.
        block = max(_MAX_BATCHED_NUMBERS // size, 1)
        for start in range(0, counts.size, block):
            block_rows = slice(start, start + block)
            folded = _fold_rows(weights[block_rows], positions[block_rows], size)
            norm_sum += float((counts[block_rows] * np.sqrt((folded * folded).sum(axis=-1))).sum())
            for row_spectrum, n in zip(
                rfft(folded, axis=-1), counts[block_rows].tolist(), strict=True
            ):
                spectrum *= _power(row_spectrum, n)
        largest = abs(tilt) * np.abs(self._losses[:, [0, -1]]).max(axis=-1)
        return TiltedSpectrum(
            spectrum=spectrum,
            shift=int((counts * centres).sum()),
            offset=math.fsum((counts * rows.offset).tolist()),
            norm_sum=norm_sum,
            relative_error=float((counts * (36.0 + 4.0 * largest)).sum()) * UNIT_ROUNDOFF,
            power_error=float((32.0 * counts + 128.0).sum()) * UNIT_ROUNDOFF,
        )


@dataclass(frozen=True, eq=False)
class Rounds:
    """Parts on grids of one width."""

    parts: tuple[Part, ...]

    @property
    def width(self) -> float:
        """Width of the common grid."""
        return self.parts[0].width

    @property
    def slack(self) -> float:
        return sum(part.slack for part in self.parts)

    @property
    def infinite_mass(self) -> float:
        """Probability that some round has an infinite loss."""
        return -math.expm1(sum(part.log_survival for part in self.parts))

    @property
    def min_sum(self) -> float:
        return sum(part.min_sum for part in self.parts)

    @property
    def max_sum(self) -> float:
        return sum(part.max_sum for part in self.parts)

    @property
    def transforms(self) -> int:
        return sum(part.transforms for part in self.parts)

    def cumulant(self, tilt: float) -> float:
        return sum(part.cumulant(tilt) for part in self.parts)

    def mean_and_variance(self, tilt: float) -> tuple[float, float]:
        moments = [part.mean_and_variance(tilt) for part in self.parts]
        return sum(mean for mean, _ in moments), sum(variance for _, variance in moments)

    def centring_tilt(self, epsilon: float, guess: float, spread: float) -> float:
        """Return a tilt at which the tilted sum lies about epsilon: K'(t) = eps + 1/t + 1/(1+t).

        `guess` is returned if the mean is then within half a `spread` of that.  Far tails, which
        an estimate may leave out, can take over the tilted pmf suddenly; then K - t eps would grow
        beyond delta and rounding with it, so the tilt is solved for on the pmfs themselves.
        """

        def above(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            mean, _ = self.mean_and_variance(tilt)
            return epsilon + 1.0 / tilt + 1.0 / (1.0 + tilt) - mean

        if abs(above(math.log(guess))) <= 0.5 * (spread + 1.0 / guess):
            return guess
        start = min(max(math.log(guess), -28.0), 28.0)
        bracket = enclose(above, start, 0.2, -28.0, 28.0)
        if bracket is None:
            return guess
        # Rather too small a tilt than too large: the far side may be a cliff.
        return math.exp(narrow(above, bracket, absolute=1e-2, steps=30).low)

    def lighter_tilt(self, epsilon: float, tilt: float) -> float:
        """Return a smaller tilt at which the sum spreads far less, or this one.

        Where single losses reach far, the tilted pmf has a heavy tail, and the window of the sum
        would have to hold it.  A smaller tilt costs digits: e^(K - t eps) grows beyond delta, and
        what is wrong with the tilted pmf grows with it; no more than `_MAX_LOG_PRECISION_LOSS` of
        them are given.
        """
        _, spread = self.mean_and_variance(tilt)
        if spread < (_SHORT_SUM_POINTS * self.width) ** 2:
            return tilt
        # e^(K - t eps) is the factor between tilted mass and delta: its growth is what precision
        # costs.
        scale = self.cumulant(tilt) - tilt * epsilon
        for _ in range(8):
            lighter = 0.85 * tilt
            _, variance = self.mean_and_variance(lighter)
            lost = self.cumulant(lighter) - lighter * epsilon - scale
            if not (variance < 0.7 * spread and lost < _MAX_LOG_PRECISION_LOSS):
                break
            tilt, spread = lighter, variance
        return tilt

    def is_empty(self) -> bool:
        """Say whether some pmf has no finite mass at all."""
        return any(part.is_empty for part in self.parts)


def tilted_masses(pmf: LossPmf, tilt: float) -> tuple[FloatArray, float]:
    """Return the tilted masses g_j and the log moment K, with g_j e^K = p_j e^(t l_j).

    The identity holds for the returned K up to the rounding of the exponents, whatever the
    rounding of the sum that K comes from.
    """
    exponents = tilt * pmf.losses
    # The largest exponent is taken out before exp, so that nothing overflows.
    peak = float(exponents[pmf.masses > 0].max())
    weights: FloatArray = pmf.masses * np.exp(np.minimum(exponents - peak, 0.0))
    total = float(weights.sum())
    return weights / total, peak + math.log(total)


def _fold(weights: FloatArray, centre: int, size: int) -> FloatArray:
    """Return the weights on a circle of `size` points, with index `centre` at 0."""
    # Index j goes to j mod size: masses a whole circle apart add up.
    if weights.size > size:
        padded = np.zeros(-(-weights.size // size) * size)
        padded[: weights.size] = weights
        weights = padded.reshape(-1, size).sum(axis=0)
    else:
        weights = np.concatenate((weights, np.zeros(size - weights.size)))
    return np.roll(weights, -(centre % size))


def _fold_rows(weights: FloatArray, positions: IntArray, size: int) -> FloatArray:
    """Return each row's weights at its positions on a circle of `size` points."""
    count = weights.shape[0]
    # One bincount for all rows: row i has the indices i size, ..., (i + 1) size - 1.
    flat = (positions + size * np.arange(count)[:, None]).ravel()
    folded = np.bincount(flat, weights.ravel(), minlength=count * size).astype(np.float64)
    return folded.reshape(count, size)


def _power(spectrum: ComplexArray, n: int) -> ComplexArray:
    """Return spectrum^n, 0 where it is below 1e-40 in size."""
    if n == 1:
        return spectrum
    if n <= _MAX_MULTIPLIED_POWER:
        half = _power(spectrum, n // 2)
        return half * half * spectrum if n % 2 else half * half
    result = np.zeros_like(spectrum)
    size = np.abs(spectrum)
    # |z|^n < 1e-40 where |z| < e^(-92.1 / n): such entries are 0, an error that `compose` counts.
    matters = size > math.exp(-92.1 / n)
    result[matters] = np.exp(n * np.log(spectrum[matters]))
    return result
