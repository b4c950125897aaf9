"""Shuffled binary randomized response: the number of ones says all, and its law is exact.

Let p = e^eps0 / (1 + e^eps0) be the chance that a bit is told as it is, q = 1 - p, and R the count
of ones among the others, m of whom hold a 1.  A user with a 1 adds Ber(p), one with a 0 Ber(q).  At
order a = e^eps, with c = p - a q > 0, a test on the count has the advantage

    sum over t of  [c R(t - 1) - (c + a - 1) R(t)]+.

R is log-concave (a sum of bits), so the terms are above 0 from some t on and the sum telescopes:

    D(m, a) = max over t of  c R(t) - (a - 1) P(R > t).

The hockey stick of the round is the largest D(m, a) over m = 0, ..., n - 1; the other order of the
two values is the same with n - 1 - m ones.  The largest is near m = n - 1, with no regularity to
rely on, so every m is computed: R is the convolution of two binomial laws, on a window around the
mean beyond which there is less than `OUTSIDE`.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import gammaln

from ... import events as ev
from ...arrays import FloatArray, IndexArray

MAX_COUNTED_USERS: Final = 20_000
"""Most users whose every crowd is computed."""

MAX_LOCAL_EPSILON: Final = 100.0
"""Largest local epsilon; beyond it a lie is too rare to count."""

WINDOW_DEVIATIONS: Final = 9.0
"""How far a window reaches, in standard deviations of the count."""

WINDOW_MARGIN: Final = 30
"""What is added to that on each side, for counts that hardly vary."""

OUTSIDE: Final = 1e-17
"""Bounds the mass of a count outside of its window, by Bernstein's inequality."""

ROWS: Final = 256
"""How many crowds are convolved at once."""

MASS_ERROR: Final = 2e-9
"""Bounds the relative error of a product of two binomial masses, from log factorials up to 2e5."""

TRANSFORM_ERROR: Final = 1e-15
"""Bounds the error of a mass that comes out of a Fourier transform, and of each term of a sum."""


def binary_counts(event: ev.Event) -> BinaryCounts | None:
    """Return the counts of a round of shuffled binary responses; None for any other event.

    None, too, for more than `MAX_COUNTED_USERS` users.
    """
    if not isinstance(event, ev.Shuffle) or not isinstance(event.event, ev.RandomizedResponse):
        return None
    response = event.event
    few = event.users <= MAX_COUNTED_USERS and response.epsilon <= MAX_LOCAL_EPSILON
    return BinaryCounts(response.epsilon, event.users) if few and response.categories == 2 else None


@dataclass(frozen=True)
class BinaryCounts:
    """A round of `users` shuffled binary randomized responses of local epsilon `epsilon0`."""

    epsilon0: float
    users: int

    @property
    def _lie(self) -> float:
        return 1.0 / (1.0 + math.exp(self.epsilon0))

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on delta at `epsilon` >= 0, over all crowds."""
        return max(float(self._advantages(law, epsilon).max()) for law in self._laws())

    def epsilon(self, delta: float, known: float) -> float:
        """Return an epsilon at which delta is at most `delta`, nearly the least; `known` is one.

        It is looked for with some crowds, and holds for all.
        """
        likely = [np.concatenate(self._sample())]
        low, high = 0.0, known
        for _ in range(40):
            middle = 0.5 * (low + high)
            exceeded = max(float(self._advantages(law, middle).max()) for law in likely) > delta
            low, high = (middle, high) if exceeded else (low, middle)
        # Every crowd is asked at what was found; a little more, where one of them exceeds it.
        epsilon = high
        for _ in range(8):
            if epsilon >= known or self.delta(epsilon) <= delta:
                return min(epsilon, known)
            epsilon *= 1.002
        return known

    def _sample(self) -> list[FloatArray]:
        crowds = np.unique(np.linspace(0, self.users - 1, 33).astype(np.intp))
        last = np.arange(max(self.users - 33, 0), self.users)
        return [self._law(np.union1d(crowds, last))]

    def _laws(self) -> Iterator[FloatArray]:
        """Yield R for all m, in blocks of rows."""
        for first in range(0, self.users, ROWS):
            yield self._law(np.arange(first, min(first + ROWS, self.users)))

    def _law(self, crowds: IndexArray) -> FloatArray:
        """Return R(t) for each number of ones (m,), on a window: shape (m, window)."""
        n, q = self.users - 1, self._lie
        half = math.ceil(WINDOW_DEVIATIONS * math.sqrt(n * q * (1.0 - q))) + WINDOW_MARGIN
        half = min(half, n)
        offsets = np.arange(-half, half + 1)
        # Each binomial law around its own rounded mean; the window of their sum is twice as wide.
        ones, zeros = crowds[:, None], n - crowds[:, None]
        told = _binomial(np.round(ones * (1.0 - q)).astype(np.intp) + offsets, ones, 1.0 - q)
        lied = _binomial(np.round(zeros * q).astype(np.intp) + offsets, zeros, q)
        size = 4 * half + 1
        length = 1 << (size - 1).bit_length()
        summed = np.fft.irfft(np.fft.rfft(told, length) * np.fft.rfft(lied, length), length)
        return np.asarray(np.maximum(summed[:, :size], 0.0))

    def _advantages(self, law: FloatArray, epsilon: float) -> FloatArray:
        """Return bounds on D(m, e^epsilon) for the rows of a block."""
        q = self._lie
        gain = (1.0 - q) - math.exp(epsilon) * q
        if gain <= 0.0:
            return np.zeros(law.shape[0])
        tails = np.zeros_like(law)
        tails[:, :-1] = np.cumsum(law[:, :0:-1], axis=1)[:, ::-1]
        # Masses up, tails down: neither the rounding of the laws nor of the transform helps.
        masses = law * (1.0 + MASS_ERROR) + TRANSFORM_ERROR + OUTSIDE
        tails = np.maximum(tails * (1.0 - MASS_ERROR) - law.shape[1] * TRANSFORM_ERROR, 0.0)
        return np.asarray((gain * masses - math.expm1(epsilon) * tails).max(axis=1)) * (1.0 + 1e-12)


def _binomial(counts: IndexArray, trials: IndexArray, rate: float) -> FloatArray:
    """Return the chance of `counts` successes in `trials`, 0 where that is impossible."""
    log_factorials = gammaln(np.arange(int(trials.max()) + 1) + 1.0)
    inside = (counts >= 0) & (counts <= trials)
    hits = np.where(inside, counts, 0)
    misses = np.broadcast_to(trials, counts.shape) - hits
    logs = log_factorials[trials] - log_factorials[hits] - log_factorials[misses]
    logs = logs + hits * math.log(rate) + misses * math.log1p(-rate)
    return np.where(inside, np.exp(logs), 0.0)
