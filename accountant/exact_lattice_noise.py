"""The smallest discrete Gaussian noise of one release, where delta rises and falls with the noise.

Let T(k) be the probability that the noise is at least k, D how far the unit moves the sum.  The
best test of the shifted sum accuses from some integer j on, so

    delta(s) = max over j of f_j(s),    f_j = T(j - D) - e^epsilon T(j),

and the best j grows as the noise s does.  Every f_j alone is a lower bound on delta.  Folded at 0,
f_j - c is a sum of terms a(m) e^(-m^2 / 2 s^2) over m >= 0, divided by the total, whose
coefficients change sign at most twice (-, +, -), or once (+, -) where j <= D.  These exponentials
are totally positive, so f_j - c changes sign no more often as s varies: the noise at which f_j is
above c is one interval.  Noise is therefore climbed from below: where delta(s) > c, the best j
there forbids all noise up to the end of its interval, and the climb goes on at that end, until
delta is at most c.  No noise below has been passed over.  Poisson samples have other coefficients
with the same signs, and a bound cuts the sum over m.

The sum of n releases of the same noise is tested in the same way, at n D.  Its terms are no longer
one for each m, so there the interval is searched in steps, and a fall within a step may be missed.
Source: Karlin 1968, Total Positivity I, chapter 5, theorem 3.1 (variation diminishing); Canonne,
Kamath, Steinke 2020, arXiv 2004.00010v4, theorem 7 (delta of the discrete Gaussian).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from . import events as ev
from .arrays import FloatArray
from .certified_search import SEARCH_PRECISION, CertifiedValue, Unknown
from .certifiers import Certifier, CompositionAt, PldCertifier
from .composition import Composition
from .neighbours import Neighbours
from .rootfinding import enclose, narrow

Test: TypeAlias = tuple[tuple[float, int], ...]
"""Pairs (a, d): the hockey stick of the test that accuses from j on is sum a T(j + d)."""

LEAST_CLIMBED_DELTA: Final = 1e-280
"""Smaller ones leave no room for the tails of the noise in 64 bits."""

MOST_EPSILON: Final = 500.0
"""Larger ones have an e^epsilon that leaves no room either."""

MAX_OUTCOMES: Final = 1 << 16
"""Most integers with noise that are listed."""

MAX_SUMMED: Final = 64
"""Most releases that are summed."""

MAX_SUMMED_OUTCOMES: Final = 1 << 13
"""Most integers of their sum: they are convolved directly, so that small tails keep digits."""

MAX_JUMPS: Final = 4096
"""Most jumps of a climb."""

JUMP_PRECISION: Final = 1e-12
"""How near to the end of an interval a jump goes, in logs of the noise."""

FIRST_STEP: Final = 1e-3
"""First step of the search for that end, in logs; each next one is twice as long."""

NUDGES: Final = (
    0.0,
    *(10.0**-power for power in range(10, 5, -1)),
    *(2e-6 * 4**k for k in range(9)),
)
"""How far above the end of a climb, in logs, a certificate is asked for, in turn."""


@dataclass(frozen=True)
class Release:
    """A Poisson sample of `count` integer sums with the same noise, whose deviation is `sigma`."""

    sigma: float
    sensitivity: int
    rate: float
    bound: int | None
    count: int

    def noise(self, least: float, farther: int) -> FloatArray | None:
        """Return the masses of the summed noise from -K to K; None where those are too many.

        What a noise has beyond the range, less `farther`, weighs below 1e-20 of `least`.  Times
        e^epsilon it weighs no more: where losses exceed epsilon, the other data set gives the same
        outcomes at least as often.
        """
        tail = math.log(self.count) + math.log(1e20) - math.log(least)
        radius = self.sigma * math.sqrt(2.0 * tail) + farther + 1.0
        if self.bound is not None:
            radius = min(radius, float(self.bound))
        most = MAX_OUTCOMES if self.count == 1 else MAX_SUMMED_OUTCOMES / self.count
        if not 2.0 * radius + 1.0 <= most:
            return None
        z = np.arange(-math.ceil(radius), math.ceil(radius) + 1, dtype=float)
        masses: FloatArray = np.exp(-0.5 * (z / self.sigma) ** 2)
        masses /= masses.sum()
        summed = np.ones(1)
        for bit in f"{self.count:b}":
            summed = np.convolve(summed, summed)
            summed = np.convolve(summed, masses) if bit == "1" else summed
        return summed

    def tests(self, epsilon: float, relation: Neighbours) -> tuple[Test, ...]:
        """Return the best tests in all orders of the data sets that differ, for some j each."""
        grown, rate, shift = math.exp(epsilon), self.rate, self.count * self.sensitivity
        if rate == 1.0:
            return (((1.0, -shift * (2 if relation == "replace-one" else 1)), (-grown, 0)),)
        if relation == "replace-one":
            return (((rate, -shift), ((1.0 - rate) * (1.0 - grown), 0), (-rate * grown, shift)),)
        removed = 1.0 - grown * (1.0 - rate)
        added: Test = ((rate, -shift), (1.0 - rate - grown, 0))
        # Below 0, absence is never likely enough to be told at this epsilon.
        return (added, ((removed, -shift), (-rate * grown, 0))) if removed > 0.0 else (added,)


def single_release(parts: Composition) -> Release | None:
    """Return the release that a composition is, or None where it is something else."""
    if len(parts) != 1 or not parts[0].fully_observed:
        return None
    inner, count, rate = parts[0].event, parts[0].count, 1.0
    if isinstance(inner, ev.Poisson):
        rate, inner = inner.rate, inner.event
    if not isinstance(inner, (ev.DiscreteGaussian, ev.TruncatedDiscreteGaussian)):
        return None
    bound = inner.bound if isinstance(inner, ev.TruncatedDiscreteGaussian) else None
    if count > (1 if rate < 1.0 or bound is not None else MAX_SUMMED):
        return None
    sigma = inner.noise_multiplier * inner.sensitivity
    return Release(sigma, inner.sensitivity, rate, bound, count)


def smallest_lattice_noise(
    unknown: Unknown, certifier: Certifier, composition_at: CompositionAt
) -> CertifiedValue | None:
    """Return the smallest noise of a release on a lattice, certified by pld; None if it is not one.

    None too where no noise serves, or all does, or where a number is too large or too small to
    climb.  Below the result no noise meets the target, to rounding, for a single release (see
    above for several); an interval of noise that serves and is narrower than some 1e-10 of it may
    find no certificate, and is then passed over.
    """
    if unknown.name != "noise multiplier" or not isinstance(certifier, PldCertifier):
        return None
    epsilon, delta, relation = certifier.target
    if delta < LEAST_CLIMBED_DELTA or epsilon > MOST_EPSILON:
        return None
    if single_release(composition_at(unknown.start)) is None:
        return None
    return _Climb(unknown, certifier, composition_at, epsilon, delta, relation).top()


@dataclass(frozen=True)
class _Climb:
    unknown: Unknown
    certifier: Certifier
    composition_at: CompositionAt
    epsilon: float
    delta: float
    relation: Neighbours

    def top(self) -> CertifiedValue | None:
        """Return the first certified value from below."""
        value = self.unknown.low
        for _ in range(MAX_JUMPS):
            sticks = self.hockey_sticks(value)
            if sticks is None:
                return None
            best = max(range(len(sticks)), key=lambda test: float(sticks[test].max()))
            j = int(sticks[best].argmax())
            following: float | None
            if float(sticks[best][j]) <= self.delta:
                if value == self.unknown.low:
                    return None
                certified = self.certified(value)
                if isinstance(certified, CertifiedValue):
                    return certified
                following = certified
            else:
                following = self.end(value, best, j)
            if following is None or following > self.unknown.high:
                return None
            value = following
        return None

    def hockey_sticks(self, value: float) -> list[FloatArray] | None:
        """Return, for each order of the data sets, the hockey sticks of all tests from j = 1 on."""
        release = single_release(self.composition_at(value))
        if release is None:
            return None
        tests = release.tests(self.epsilon, self.relation)
        farthest = max(abs(offset) for test in tests for _, offset in test)
        masses = release.noise(self.delta, farthest)
        if masses is None:
            return None
        # T(k) for k from -farthest on; sums begin with the smallest terms.
        tails = np.cumsum(masses[::-1])[::-1]
        reach = (len(masses) - 1) // 2
        first = reach + 1 - farthest
        padded = np.concatenate([np.ones(max(-first, 0)), tails[max(first, 0) :]])
        highest = reach + farthest + 1
        padded = np.concatenate([padded, np.zeros(highest + 2 * farthest - len(padded))])
        windows = [
            [factor * padded[farthest + offset : offset + highest] for factor, offset in test]
            for test in tests
        ]
        return [np.sum(window, axis=0) for window in windows]

    def end(self, value: float, test: int, j: int) -> float | None:
        """Return where the hockey stick of one test falls to delta; None if it does not."""

        def excess(log_value: float) -> float:
            sticks = self.hockey_sticks(math.exp(log_value))
            if sticks is None:
                return math.inf
            stick = float(sticks[test][j]) if j < len(sticks[test]) else 0.0
            return math.log(stick / self.delta) if stick > 0.0 else -math.inf

        start = math.log(value)
        bracket = enclose(excess, start, FIRST_STEP, start, math.log(self.unknown.high))
        if bracket is None:
            return None
        return math.exp(narrow(excess, bracket, absolute=JUMP_PRECISION).high)

    def certified(self, value: float) -> CertifiedValue | float:
        """Return the first of some values above that is certified, or one that does not serve."""
        failed = value
        for nudge in NUDGES:
            near = value * math.exp(nudge)
            sticks = self.hockey_sticks(near)
            if sticks is None or max(float(each.max()) for each in sticks) > self.delta:
                return near
            best = self.proven(near)
            while best is not None and math.log(best.value / failed) > SEARCH_PRECISION:
                middle = math.sqrt(best.value * failed)
                nearer = self.proven(middle)
                best, failed = (best, middle) if nearer is None else (nearer, failed)
            if best is not None:
                return best
            failed = near
        return failed

    def proven(self, value: float) -> CertifiedValue | None:
        """Return the value with its certificate, or None where it has none."""
        certificate = self.certifier.certify(self.composition_at(value))
        meets = certificate.log_excess <= 0.0 and certificate.epsilon_upper <= self.epsilon
        if not meets or self.certifier.delta_log_excess(certificate) > 0.0:
            return None
        return CertifiedValue(value, certificate)
