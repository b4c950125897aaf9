"""The exact risk of DP-SGD, from no grid of losses: characteristic functions, inverted.

Of one round, P = (1 - q) N(0, s^2) + q N(1, s^2) against Q = N(0, s^2), the loss log P/Q has the
characteristic function phi(t), an integral of a smooth function over a line; the sum of n rounds
has phi(t)^n.  Its tail is (Gil-Pelaez 1951, "Note on the inversion theorem", by the midpoint rule
of Davies 1973, "Numerical inversion of a characteristic function")

    P(S > x) = 1/2 + (1/pi) sum_k Im(exp(-i t_k x) phi(t_k)^n) / (k + 1/2),  t_k = (k + 1/2) w,

but for tails of S beyond 2 pi / w and an exponentially small remainder.  No code is shared with
what is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

LINE_POINTS: Final = 2_001
"""Points of a line over which one round is integrated."""

LINE_DEVIATIONS: Final = 13.0

PERIOD_DEVIATIONS: Final = 160.0
"""2 pi / w, in standard deviations of S."""

MIN_EXPONENT: Final = 45.0
"""Where |phi|^n is below exp(-this) the sum ends."""


@dataclass(frozen=True)
class SampledLosses:
    """The sum of the losses of `rounds` rounds at a noise and a sampling rate."""

    noise: float
    rate: float
    rounds: int

    @cached_property
    def _line(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return losses of one round and their probabilities under Q."""
        reach = LINE_DEVIATIONS * self.noise
        y, step = np.linspace(-reach, 1.0 + reach, LINE_POINTS, retstep=True)
        density = np.exp(-0.5 * (y / self.noise) ** 2)
        density *= float(step) / (self.noise * math.sqrt(2.0 * math.pi))
        return np.log1p(self.rate * np.expm1((2.0 * y - 1.0) / (2.0 * self.noise**2))), density

    @cached_property
    def _width(self) -> float:
        losses, under_q = self._line
        mean = float((losses * under_q).sum())
        deviation = math.sqrt(self.rounds * float(((losses - mean) ** 2 * under_q).sum()))
        return 2.0 * math.pi / (PERIOD_DEVIATIONS * deviation)

    @cached_property
    def _transforms(self) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """Return phi^n at every t_k, under Q and under P."""
        losses, under_q = self._line
        under_p = under_q * np.exp(losses)
        found: tuple[list[complex], list[complex]] = ([], [])
        for k in range(100_000):
            turned = np.exp(1j * (k + 0.5) * self._width * losses)
            logs = [np.log((turned * each).sum()) for each in (under_q, under_p)]
            if max(float(each.real) for each in logs) * self.rounds < -MIN_EXPONENT:
                break
            for powers, each in zip(found, logs, strict=True):
                powers.append(complex(np.exp(self.rounds * each)))
        return np.array(found[0]), np.array(found[1])

    def tails(self, threshold: float) -> tuple[float, float]:
        """Return the probabilities that S is above a threshold, under Q and under P."""
        under_q, under_p = (self._tail(each, threshold) for each in self._transforms)
        return under_q, under_p

    def _tail(self, powers: NDArray[np.complex128], threshold: float) -> float:
        steps = np.arange(len(powers)) + 0.5
        turned = np.exp(-1j * steps * self._width * threshold) * powers
        return 0.5 + float((turned.imag / steps).sum()) / math.pi

    def advantage(self) -> float:
        """Return the total variation distance: accuse where S is above 0."""
        under_q, under_p = self.tails(0.0)
        return under_p - under_q

    def tpr(self, fpr: float) -> float:
        """Return the larger TPR of both directions, by the most powerful tests."""
        reach = 12.0 * 2.0 * math.pi / (PERIOD_DEVIATIONS * self._width)
        above = brentq(lambda x: self.tails(x)[0] - fpr, -reach, reach, xtol=1e-13)
        below = brentq(lambda x: 1.0 - self.tails(x)[1] - fpr, -reach, reach, xtol=1e-13)
        return max(self.tails(above)[1], 1.0 - self.tails(below)[0])


def exact_noise(risk: Callable[[float], float], target: float, around: float) -> float:
    """Return the noise near `around` at which a falling risk is the target."""
    ends = around * 0.98, around * 1.02
    return float(brentq(lambda noise: risk(noise) - target, *ends, xtol=1e-10))
