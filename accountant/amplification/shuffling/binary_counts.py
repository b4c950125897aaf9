"""Shuffled binary randomized response: the number of ones says all, and its law is exact.

Let p = e^eps0 / (1 + e^eps0) be the chance that a bit is told as it is, q = 1 - p, and R the count
of ones among the others, m of whom hold a 1.  A user with a 1 adds Ber(p), one with a 0 Ber(q).  At
order a = e^eps, with c = p - a q > 0, a test on the count has the advantage

    sum over t of  [c R(t - 1) - (c + a - 1) R(t)]+.

R is log-concave (a sum of bits), so the terms are above 0 from some t on and the sum telescopes:

    D(m, a) = max over t of  c R(t) - (a - 1) P(R > t).

The hockey stick of the round is the largest D(m, a) over m = 0, ..., n - 1; the other order of the
two values is the same with n - 1 - m ones.  The largest is near m = n - 1, with no regularity to
rely on, so every m counts: R is the convolution of two binomial laws, on a window around the mean
beyond which there is less than `OUTSIDE`.

Users that leave a cohort only make D larger, since what they add to the count is noise.  So the
cohort of `first` ones and n - 1 - `last` zeros, which all cohorts of `first` to `last` ones hold,
bounds D for the whole range; where that does not exceed what is asked, or the worst known cohort,
the range is done, else it is halved, down to single cohorts.

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
"""Most users whose every cohort is computed."""

MAX_LOCAL_EPSILON: Final = 30.0
"""Largest local epsilon; beyond it one of so many users lies in fewer than 1 of 10^8 rounds."""

WINDOW_DEVIATIONS: Final = 9.0
"""How far a window reaches, in standard deviations of the count."""

WINDOW_MARGIN: Final = 30
"""What is added to that on each side, for counts that hardly vary."""

OUTSIDE: Final = 1e-17
"""Bounds the mass of a count outside of its window, by Bernstein's inequality."""

FIRST_RANGES: Final = 64
"""Into how many ranges the numbers of ones are divided at first."""

RANGE_TOLERANCE: Final = 1e-7
"""By how much, relatively, a range may exceed the worst known cohort and still count whole."""

ROWS: Final = 256
"""How many cohorts are convolved at once."""

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
        """Return an upper bound on delta at `epsilon` >= 0, over all cohorts."""
        likely = float(self._advantages(self._sample(), epsilon).max())
        return self._largest(epsilon, likely * (1.0 + RANGE_TOLERANCE))

    def epsilon(self, delta: float, known: float) -> float:
        """Return an epsilon at which delta is at most `delta`, nearly the least; `known` is one.

        It is looked for with some cohorts, and holds for all.
        """
        likely = self._sample()
        low, high = 0.0, known
        for _ in range(40):
            middle = 0.5 * (low + high)
            exceeded = float(self._advantages(likely, middle).max()) > delta
            low, high = (middle, high) if exceeded else (low, middle)
        # Every cohort is asked at what was found; a little more, where one exceeds it.
        epsilon = high
        for _ in range(8):
            if epsilon >= known or self._largest(epsilon, delta) <= delta:
                return min(epsilon, known)
            epsilon *= 1.002
        return known

    def _largest(self, epsilon: float, enough: float) -> float:
        """Return a bound on D over all cohorts; nothing below `enough` is looked at closely."""
        most, largest = self.users - 1, 0.0
        ends = np.unique(np.linspace(0, self.users, FIRST_RANGES + 1).astype(np.intp))
        first, last = ends[:-1], ends[1:] - 1
        while first.size:
            # Of cohorts with between `first` and `last` ones, what all of them hold.
            bounds = np.concatenate(
                [
                    self._advantages(self._law(first[rows], most - last[rows]), epsilon)
                    for rows in _blocks(first.size)
                ]
            )
            single = first == last
            enough = max(enough, float(bounds[single].max(initial=0.0)))
            settled = single | (bounds <= enough)
            largest = max(largest, float(bounds[settled].max(initial=0.0)))
            first, last = first[~settled], last[~settled]
            middle = (first + last) // 2
            first, last = np.concatenate((first, middle + 1)), np.concatenate((middle, last))
        return largest

    def _sample(self) -> FloatArray:
        """Return the laws of some cohorts, those among them that are mostly ones."""
        cohorts = np.unique(np.linspace(0, self.users - 1, 33).astype(np.intp))
        cohorts = np.union1d(cohorts, np.arange(max(self.users - 33, 0), self.users))
        return self._law(cohorts, self.users - 1 - cohorts)

    def _law(self, ones: IndexArray, zeros: IndexArray) -> FloatArray:
        """Return R(t) for each number of ones and of zeros (m,), on a window: (m, window)."""
        n, q = self.users - 1, self._lie
        half = math.ceil(WINDOW_DEVIATIONS * math.sqrt(n * q * (1.0 - q))) + WINDOW_MARGIN
        half = min(half, n)
        offsets = np.arange(-half, half + 1)
        # Each binomial law around its own rounded mean; the window of their sum is twice as wide.
        ones, zeros = ones[:, None], zeros[:, None]
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


def _blocks(rows: int) -> Iterator[slice]:
    """Yield slices of at most `ROWS` rows that cover all."""
    for first in range(0, rows, ROWS):
        yield slice(first, first + ROWS)


def _binomial(counts: IndexArray, trials: IndexArray, rate: float) -> FloatArray:
    """Return the chance of `counts` successes in `trials`, 0 where that is impossible."""
    log_factorials = gammaln(np.arange(int(trials.max()) + 1) + 1.0)
    inside = (counts >= 0) & (counts <= trials)
    hits = np.where(inside, counts, 0)
    misses = np.broadcast_to(trials, counts.shape) - hits
    logs = log_factorials[trials] - log_factorials[hits] - log_factorials[misses]
    logs = logs + hits * math.log(rate) + misses * math.log1p(-rate)
    return np.where(inside, np.exp(logs), 0.0)
