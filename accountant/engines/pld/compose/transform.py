"""Many rounds at once: compose pmfs by one tilted Fourier transform, with every error bounded.

For pmfs with P masses p_j on losses l_j, n rounds have delta(eps) = E[(1 - e^(eps - S))+], S the
sum of the losses.  Masses are first tilted: g_j = p_j e^(t l_j - K(t)), K(t) = log sum p_j
e^(t l_j), so that the sum of the tilted losses is centred near eps and the answer is

    delta(eps) = e^(K - t eps) * E_g[ e^(-t (S - eps)) (1 - e^(eps - S))+ ],   K = sum of all K(t).

Whatever the transform gets wrong is then small relative to delta, not to 1.  Three errors remain:
mass outside the window, which one transform folds into it (Chernoff bound at another tilt); the
rounding of the transforms (bounded in the 2-norm); and the rounding of powers.  An upper bound
adds them, a lower bound subtracts them.

Source: the tilt is Cramer's exponential change of measure; rounding of the fast Fourier transform
by Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., Theorem 24.2 (relative error
in the 2-norm at most about 7 u log2 N; 16 is used here).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.fft import irfft

from ....arrays import ComplexArray, FloatArray
from ..grid.loss_grid import GridTooFine
from ..grid.noise import UNIT_ROUNDOFF, dot
from .rounds import Rounds

WINDOW_TAIL_MASS: Final = 1e-14
"""Tilted probability that may lie beyond the window, on each side."""

MAX_WINDOW_POINTS: Final = 1 << 23
"""Most grid points that the sum of the losses may take."""

MAX_COMPOSED_POINTS: Final = 6e8
"""Most grid points of all transforms together, where there are more than `FREE_TRANSFORMS`: some
seconds."""

FREE_TRANSFORMS: Final = 64
"""So many transforms are taken whatever they cost."""


@dataclass(frozen=True, eq=False)
class ComposedLoss:
    """The tilted pmf of the sum of all losses on a window, and bounds on its errors.

    `log_delta_upper` and `log_delta_lower` bound the log of the finite part of delta: rounds with
    an infinite loss come on top.
    """

    losses: FloatArray
    tilted: FloatArray
    tilt: float
    cumulant: float
    error_norm: float  # bound on the 2-norm of the error of `tilted`
    relative_error: float  # bound on the relative error of e^cumulant
    slack: float

    def log_delta_upper(self, epsilon: float) -> float:
        """Return log of an upper bound on E[(1 - e^(epsilon - S))+]."""
        # Delta falls with epsilon, so it is read a slack below.  |sum of weights * error| is at
        # most ||weights|| ||error|| (Cauchy-Schwarz); all errors are added.
        at = epsilon - self.slack
        main, norm = self._sums(at)
        total = main + norm * self.error_norm + 2 * WINDOW_TAIL_MASS
        return self._scale(at) + math.log(total) + self.relative_error

    def log_delta_lower(self, epsilon: float) -> float:
        """Return log of a lower bound on E[(1 - e^(epsilon - S))+], -inf where it is 0."""
        # The mirror image: a slack above epsilon, all errors subtracted.
        at = epsilon + self.slack
        main, norm = self._sums(at)
        total = main - norm * self.error_norm - 2 * WINDOW_TAIL_MASS
        return self._scale(at) + math.log(total) - self.relative_error if total > 0.0 else -math.inf

    def _scale(self, epsilon: float) -> float:
        return self.cumulant - self.tilt * epsilon

    def _sums(self, epsilon: float) -> tuple[float, float]:
        """Return the weighted sum of the tilted pmf beyond epsilon, and the 2-norm of the weights.

        The weights e^(-t x) (1 - e^-x), x = loss - epsilon > 0, are at most 1.  The sum stops where
        they fall below e^-36; an upper bound must still count the rest, which is at most that
        weight, and WINDOW_TAIL_MASS covers it.
        """
        # Only losses in (epsilon, epsilon + 36 / t] carry weight.
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        stop = self.losses.size
        if self.tilt > 0:
            stop = min(stop, int(np.searchsorted(self.losses, epsilon + 36.0 / self.tilt)))
        above = self.losses[start:stop] - epsilon
        weights = np.exp(-self.tilt * above) * -np.expm1(-above)
        return dot(weights, self.tilted[start:stop]), math.sqrt(dot(weights, weights))


def compose(rounds: Rounds, tilt: float) -> ComposedLoss:
    """Return the pmf of the sum of the losses of all rounds, tilted by `tilt` >= 0.

    Raises `GridTooFine` when the grid is too fine for the spread of the sum.
    """
    # The tilted sum lies in [low, high] but for WINDOW_TAIL_MASS on each side.  A circle of
    # `size` points holds that window; what lies outside folds into it and is counted as an error.
    cumulant = rounds.cumulant(tilt)
    low, high = _window(rounds, tilt, cumulant)
    width = rounds.width
    size = _circle_size(low, high, rounds)

    # Product of the parts' transforms, shape (size // 2 + 1,).  Shifts, offsets and the bounds on
    # rounding add up over the parts.
    spectrum: ComplexArray | None = None
    shift = 0
    offsets: list[float] = []
    error_norm = relative_error = power_error = 0.0
    fft_error = 16.0 * math.log2(size) * UNIT_ROUNDOFF
    for part in rounds.parts:
        part_spectrum = part.tilted_spectrum(tilt, size)
        spectrum = part_spectrum.spectrum if spectrum is None else spectrum * part_spectrum.spectrum
        shift += part_spectrum.shift
        offsets.append(part_spectrum.offset)
        error_norm += fft_error * part_spectrum.norm_sum
        relative_error += part_spectrum.relative_error
        power_error += part_spectrum.power_error
    assert spectrum is not None
    offset = math.fsum(offsets)
    folded = irfft(spectrum, size)  # index i stands for the loss (i + shift) * width + offset
    if not (np.isfinite(folded).all() and math.isfinite(cumulant)):
        raise FloatingPointError("the composition is not a number")
    # Turn the circle so that the window comes first: entry k is the tilted mass at losses[k].
    start = math.floor((low - offset) / width) - shift
    window = np.roll(folded, -start)
    norm = math.sqrt(dot(window, window))
    losses = offset + width * (start + shift + np.arange(size, dtype=np.float64))
    # The 2-norm of the error of `window`: of the forward transforms, of the inverse one and of
    # the powers, and of entries that were set to 0 (1e-40 each).
    return ComposedLoss(
        losses=losses,
        tilted=window,
        tilt=tilt,
        cumulant=cumulant,
        error_norm=error_norm + (fft_error + power_error) * norm + size * 1e-40,
        relative_error=relative_error + power_error + 1e-14 + 4 * UNIT_ROUNDOFF * abs(cumulant),
        slack=rounds.slack + 8 * UNIT_ROUNDOFF * (abs(offset) + width * (abs(shift) + size)),
    )


def _window(rounds: Rounds, tilt: float, cumulant: float) -> tuple[float, float]:
    """Return (low, high) that the tilted sum leaves with probability at most WINDOW_TAIL_MASS each
    side."""
    mean, variance = rounds.mean_and_variance(tilt)
    log_inverse = -math.log(WINDOW_TAIL_MASS)
    spread = math.sqrt(max(variance, rounds.width**2 * 1e-6))
    ideal = math.sqrt(2.0 * log_inverse) / spread
    ends = []
    for sign in (-1.0, 1.0):

        def reach(factor: float, sign: float = sign) -> float:
            """Return the distance from the mean at which Chernoff's bound holds, at one other
            tilt."""
            step = factor * ideal
            return (
                rounds.cumulant(tilt + sign * step) - cumulant + log_inverse
            ) / step - sign * mean

        # Chernoff: P(S > x) <= e^(K(t + s) - K(t) - s x) for every s > 0, and likewise below.
        # Each step s gives a valid end of the window; the nearest one is taken.
        reaches = {factor: reach(factor) for factor in (0.125, 0.25, 0.5, 0.75, 1.0, 1.5)}
        best = min(reaches, key=lambda factor: reaches[factor])
        # A few single losses that reach far make the best step much smaller than a normal tail's.
        while best == min(reaches) and best > 1e-6:
            reaches[best / 2.0] = reach(best / 2.0)
            best = min(reaches, key=lambda factor: reaches[factor])
        ends.append(mean + sign * reaches[best])
    # No sum of finite losses lies beyond min_sum and max_sum.
    margin = 2.0 * rounds.width
    return max(ends[0], rounds.min_sum) - margin, min(ends[1], rounds.max_sum) + margin


def _circle_size(low: float, high: float, rounds: Rounds) -> int:
    """Return the number of grid points of a window; raise `GridTooFine` if they are too many."""
    size = _fast_length(max(math.ceil((high - low) / rounds.width) + 1, 2))
    if size > MAX_WINDOW_POINTS or (
        rounds.transforms > FREE_TRANSFORMS and size * rounds.transforms > MAX_COMPOSED_POINTS
    ):
        raise GridTooFine(f"{rounds.transforms} times {size} grid points")
    return size


def _fast_length(size: int) -> int:
    """Return the least even length of the form 2^a 3^b 5^c that is at least `size`."""
    best = 1 << (size - 1).bit_length()
    five = 1
    while five < best:
        three = five
        while three < best:
            needed = -(-size // three)
            two = 1 << max((needed - 1).bit_length(), 1)
            best = min(best, two * three)
            three *= 3
        five *= 5
    return best
