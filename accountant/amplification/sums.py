"""Certified tail sums: an upper bound on E[(X_1 + ... + X_n)+] for independent, equal X_i.

X is spread onto a lattice of width w with its mean kept.  The spread is larger in convex order, so
what it gives is an upper bound (s+ is convex, and sums keep the order); where rounding interferes,
X only moves up (s+ increases).  With M(t) = E[e^(tX)], a tilt t > 0 and f the characteristic
function of the tilted X on the lattice,

    E[S+] = M(t)^n E_t[g(S)],   g(s) = s+ e^(-ts),

and for every N, with r_k = e^(-tw - 2 pi i k / N),

    (1/N) sum_k f(2 pi k / N)^n w r_k / (1 - r_k)^2  =  sum_m E_t[g(S + m N w)]  >=  E_t[g(S)],

because the left side is the transform of g made periodic, and g is nowhere negative.  So aliasing
can only add, g needs no window, and no tail is left out: what remains is rounding.  The lattice and
its rounding are in `spectrum`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.fft import next_fast_len

from ..arrays import FloatArray
from ..rootfinding import enclose, narrow
from .spectrum import (
    CHARACTERISTIC_OVERSAMPLING,
    UNIT_ROUNDOFF,
    Lattice,
    relative_rounding,
)

__all__ = [
    "UNIT_ROUNDOFF",
    "log_chernoff_excess",
    "log_expected_excess",
]

MIN_TRANSFORM_POINTS: Final = 1 << 14
"""Fewest lattice points of a period: short sums are lumpy, and points are cheap."""

MAX_WHOLE_PERIOD_POINTS: Final = 1 << 13
"""Periods above this are not transformed as a whole if few nodes matter."""

MAX_TRANSFORM_POINTS: Final = 1 << 20
"""Most points that are transformed as a whole."""

MIN_SPAN_POINTS: Final = 1024
"""Fewest lattice points from the smallest to the largest X where only few nodes are computed."""

MAX_FITTED_VALUES: Final = 4
"""Up to so many values besides 0, the lattice is fitted to them."""


def log_expected_excess(
    values: FloatArray,
    log_masses: FloatArray,
    count: int,
    *,
    mass_error: float = 0.0,
    accuracy: float = 2e-4,
    max_points: int = MAX_TRANSFORM_POINTS,
) -> float:
    """Return an upper bound on log E[(X_1 + ... + X_n)+], n = `count`, -inf where it is 0.

    X_i are independent and take `values` (any order, repeats allowed) with masses
    e^`log_masses`, each right up to a relative `mass_error`; a value that is not exact is given
    rounded up.  The lattice adds about `accuracy` to the result, mostly less, where
    `max_points` suffice for that.  Infinite where the values are too extreme to compute with.

    Source: derived above; the tilt is Cramer's exponential change of measure.

    >>> coin = np.log([0.5, 0.5])
    >>> round(math.exp(log_expected_excess(np.array([-1.0, 1.0]), coin, 2)), 3)
    0.5
    """

    def least(law: _Law) -> float:
        # Three upper bounds; the least counts, nan is ignored.
        tilt = law.centring_tilt()
        bounds = [law.log_chernoff(tilt), law.log_of_positive_parts()]
        bounds.append(_log_inverted(law, tilt, accuracy, max_points))
        return min((each for each in bounds if not math.isnan(each)), default=math.inf)

    # Masses off by (1 + e) each: the n-fold product is off by at most (1 + e)^n.
    return _bound_of_law(values, log_masses, count, least) + count * mass_error * (1.0 + 1e-9)


@dataclass(frozen=True, eq=False)
class _Law:
    """X: its values and the logs of their masses; and how many X are summed."""

    values: FloatArray
    log_masses: FloatArray
    count: int

    @classmethod
    def of(cls, values: FloatArray, log_masses: FloatArray, count: int) -> _Law | None:
        """Return the law on the values that have mass; None where no sum of them exceeds 0."""
        present = ~np.isneginf(log_masses)
        law = cls(values[present], log_masses[present], count)
        return None if law.values.size == 0 or law.values.max() <= 0.0 else law

    @property
    def is_finite(self) -> bool:
        """Say whether values and masses are numbers that can be squared."""
        largest = float(np.abs(self.values).max())
        return 1e-150 < largest < 1e150 and bool(np.isfinite(self.log_masses).all())

    def tilted(self, tilt: float) -> tuple[FloatArray, float]:
        """Return the tilted masses, which sum to 1, and log M(tilt)."""
        # Cramer's change of measure, in logarithms around the largest exponent.
        exponents = self.log_masses + tilt * self.values
        peak = float(exponents.max())
        weights = np.exp(exponents - peak)
        total = float(weights.sum())
        return weights / total, peak + math.log(total)

    def log_moment(self, tilt: float) -> float:
        """Return log M(tilt)."""
        return self.tilted(tilt)[1]

    def moments(self, tilt: float) -> tuple[float, float]:
        """Return mean and variance of the tilted X."""
        weights, _ = self.tilted(tilt)
        mean = float((weights * self.values).sum())
        return mean, float((weights * (self.values - mean) ** 2).sum())

    def centring_tilt(self) -> float:
        """Return about the t at which the tilted sum has mean 1/t, where M(t)^n / t is least."""
        n = float(self.count)
        mean, variance = self.moments(0.0)
        largest = float(np.abs(self.values).max())
        spread = max(n * variance, (1e-9 * largest) ** 2)
        root = math.sqrt((n * mean) ** 2 + 4.0 * spread)
        # The positive root of spread t^2 + n mean t = 1, without cancelling.
        guess = 2.0 / (root + n * mean) if mean > 0.0 else (root - n * mean) / (2.0 * spread)

        def below(log_tilt: float) -> float:
            tilt = math.exp(log_tilt)
            return 1.0 - n * (tilt * self.moments(tilt)[0])

        highest = math.log(1e9 / largest)
        start = min(math.log(guess), highest)
        bracket = enclose(below, start, 0.25, start - 60.0, highest)
        if bracket is None:
            return math.exp(highest if below(highest) > 0.0 else start)
        return math.exp(narrow(below, bracket, absolute=1e-2, steps=40).low)

    def rounding(self, tilt: float) -> float:
        """Return a bound on the relative error of a tilted mass, and of M(tilt)."""
        return relative_rounding(self.values, self.log_masses, tilt)

    def on_lattice(self, tilt: float, width: float, points: int) -> Lattice:
        """Return the tilted law, spread onto a lattice."""
        return Lattice.of(self.values, self.log_masses, self.count, tilt, width, points)

    def log_chernoff(self, tilt: float) -> float:
        """Return log of M(t)^n / (e t), which is at least E[S+] since s <= e^(ts) / (e t)."""
        exact = self.log_moment(tilt) + self.rounding(tilt) + UNIT_ROUNDOFF * self.values.size
        return self.count * exact - 1.0 - math.log(tilt) + 1e-15

    def log_of_positive_parts(self) -> float:
        """Return log of n E[X+], times the mass of the others: S+ <= sum of the X+."""
        weights, log_total = self.tilted(0.0)
        excess = float((weights * np.maximum(self.values, 0.0)).sum())
        error = self.rounding(0.0) + UNIT_ROUNDOFF * self.values.size
        if not excess > 0.0:  # below the smallest number
            return math.inf
        return math.log(self.count) + math.log(excess) + self.count * (log_total + error) + 1e-15

    def window(self, tilt: float) -> float:
        """Return a length N w beyond which what aliasing adds no longer matters."""
        n = float(self.count)
        log_mgf = self.log_moment(tilt)
        spread = math.sqrt(n * self.moments(tilt)[1])
        # Two lengths: one by the decay of e^(-ts), one by Chernoff's bound on the tilted sum.
        left = (max(-n * log_mgf, 0.0) + 2.0 * math.log1p(tilt * spread) + 28.0) / tilt
        right = left
        if spread > 0.0:
            steps = [factor * math.sqrt(60.0) / spread for factor in (0.25, 0.5, 1.0)]
            right = min((n * (self.log_moment(tilt + s) - log_mgf) + 30.0) / s for s in steps)
        return max(left, min(right, n * float(self.values.max())))

    def width(self, tilt: float, accuracy: float) -> float:
        """Return the width at which the spread adds `accuracy`: n P(X != 0) t^2 w^2 / 12."""
        weights, _ = self.tilted(tilt)
        nonzero = self.count * float(weights[self.values != 0.0].sum())
        return math.sqrt(12.0 * accuracy / max(nonzero, 1e-3)) / tilt

    def fitted(self, tilt: float, width: float) -> float:
        """Return a width, not above `width`, that nearly divides the values where they are few."""
        nonzero = np.unique(self.values[self.values != 0.0])
        if nonzero.size > MAX_FITTED_VALUES:
            return width
        weights, _ = self.tilted(tilt)
        shares = np.array([float(weights[self.values == value].sum()) for value in nonzero])
        longest = float(np.abs(nonzero).max())
        steps = math.ceil(longest / width)
        # Widths that divide the longest value; the one that is off least, weighed by mass.
        widths = longest / (steps + np.arange(min(steps, 2048.0)))
        off = nonzero / widths[:, None]
        off -= np.round(off)
        return float(widths[np.argmin((off**2 * shares).sum(axis=1) * widths**2)])


def log_chernoff_excess(values: FloatArray, log_masses: FloatArray, count: int) -> float:
    """Return a cheaper and looser upper bound: log of the least M(t)^n / (e t); masses are exact.

    Source: Chernoff's bound; s+ <= e^(ts) / (e t).
    """
    return _bound_of_law(
        values, log_masses, count, lambda law: law.log_chernoff(law.centring_tilt())
    )


def _bound_of_law(
    values: FloatArray, log_masses: FloatArray, count: int, bound: Callable[[_Law], float]
) -> float:
    """Return a bound for a law; -inf where no sum exceeds 0, infinite for too extreme values."""
    law = _Law.of(values, log_masses, count)
    if law is None:
        return -math.inf
    if not law.is_finite:
        return math.inf
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return bound(law)


def _log_inverted(law: _Law, tilt: float, accuracy: float, max_points: int) -> float:
    """Return the bound on log E[S+] that the lattice gives."""
    window, width = law.window(tilt), law.width(tilt, accuracy)
    span = float(law.values.max() - law.values.min())
    # A long sum of a narrow law: its characteristic function is tiny at most nodes.
    if window > width * MAX_WHOLE_PERIOD_POINTS and span > 0.0:
        fine = law.fitted(tilt, min(width, span / MIN_SPAN_POINTS))
        if CHARACTERISTIC_OVERSAMPLING * span / fine < min(window / width, max_points):
            lattice = Lattice.of(
                law.values, law.log_masses, law.count, tilt, fine, math.ceil(window / fine) + 2
            )
            log_mean = lattice.from_few_nodes()
            if log_mean < math.inf:
                return lattice.log_scale + log_mean
    points = min(max(window / width, MIN_TRANSFORM_POINTS), 0.9 * max_points)
    # An index must stay far below 2^53.
    width = max(window / points, 1e-12 * float(np.abs(law.values).max()))
    width = law.fitted(tilt, width)
    points = next_fast_len(min(math.ceil(window / width) + 2, max_points), real=True)
    lattice = law.on_lattice(tilt, width, points)
    return lattice.log_scale + lattice.from_all_nodes()
