"""Discrete Gaussian noise of any width, put together from exact draws of 64 bits.

What a protocol decrypts may stand on a grid so fine that its noise is 10^20 steps wide, or 10^100.
Such noise is a sum of exact draws at different scales, the finest first:

    x  =  y_0 + B y_1 + ... + B^K y_K,    y_k ~ N_Z(t_k),    B = 2^32

where N_Z(t) is the discrete Gaussian, P(y) ~ e^(-y^2 / (2 t^2)) on the integers, and every t_k is
2^36 but the last, which makes up the rest: 2^7.9 to 2^40, and from 1 where it is the only one.

**What x is.**  N_Z(s) with s^2 = sum_k B^(2k) t_k^2, up to a factor 1 +- 10^-2175 at every integer.
Let X have P(X = x) ~ e^(-x^2 / (2 b^2)) (1 + e(x)), |e| <= alpha, let Y ~ N_Z(t) be independent of
it, and c a positive integer.  P(X + c Y = n) is a sum over y; complete the square of its exponent:

    y^2 / t^2 + (n - c y)^2 / b^2  =  n^2 / (b^2 + c^2 t^2) + (y - m)^2 / w^2
    1 / w^2  =  1 / t^2 + c^2 / b^2,    m = w^2 c n / b^2

By Poisson summation, whatever the real number m is,

    sum_y e^(-(y - m)^2 / (2 w^2))  =  w sqrt(2 pi) (1 + h),
    |h|  <=  2 sum_(j >= 1) e^(-2 pi^2 w^2 j^2)  <=  3 e^(-2 pi^2 w^2)    for w >= 1/2

so P(X + c Y = n) ~ e^(-n^2 / (2 (b^2 + c^2 t^2))) (1 + e'(n)), |e'| <= (1 + alpha)(1 + |h|) - 1:
X + c Y is as X was, of parameter (b^2 + c^2 t^2)^(1/2).  Start with X = y_0, alpha = 0, and add one
scale after the other.  Here b^2 / c^2 is at least (2^36 / B)^2 = 2^8, and t^2 above 2^15.9, so
w^2 > 254 and |h| < 3 e^-5013 at each of K steps.  In the end the probabilities sum to 1, so the
constant before the exponential is off by no more than they are, and the factor is within
1 +- 8 K e^(-2 pi^2 w^2).  There are at most 12 steps: it is less than 10^-2175 away from 1.

**How wide it is.**  Variances here are rational numbers.  B^2K times the last t_K^2 is what the
others leave of the variance that is asked for; t_K is rounded up to a float, whose value is then
exact.  So s^2 is never less than what was asked for, and more by a factor below 1 + 2^-50.

Sources: the argument is self-contained; that sums of discrete Gaussians on nested lattices are
discrete Gaussians is known from Micciancio and Walter 2017 (IACR ePrint 2017/259), and with another
constant from Kairouz, Liu and Steinke 2021, arXiv 2102.06387v4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final, Self

from ..errors import InvalidInput
from ..randomness import Stream
from ..sensitivity.release import root_up
from .discrete_sampler import MAX_SCALE, discrete_gaussian

SHIFT_BITS: Final = 32
"""B = 2^32."""

FINE_PARAMETER: Final = 2.0**36
"""The parameter of every draw but the last."""

MAX_VARIANCE: Final = 2**800
"""Largest variance."""


@dataclass(frozen=True)
class WideGaussian:
    """A discrete Gaussian on the integers as a sum of draws; `of` makes it, for a variance.

    `scales` are the parameters t_k, the finest first, and 2^`shift` is B.  Other scales than those
    of `of` are another distribution, at most e^`log_error` from a discrete Gaussian.
    >>> WideGaussian.of(2**150).scales
    (68719476736.0, 68719476736.0, 2047.9374990462966)
    """

    scales: tuple[float, ...]
    shift: int = SHIFT_BITS

    @classmethod
    def of(cls, variance: Fraction | int) -> Self:
        """Return the one whose s^2 is at least `variance`, and hardly more.

        Range: 1 to 2^800.  Raises `InvalidInput`.
        """
        remaining = Fraction(variance)
        if not 1 <= remaining <= MAX_VARIANCE:
            raise InvalidInput(
                "The variance of discrete noise must lie between 1 and 2^800.",
                next_step="Choose another grid.",
            )
        # Take fine draws off until one discrete Gaussian makes up the rest, rounded up.
        scales: tuple[float, ...] = ()
        while remaining > Fraction(MAX_SCALE) ** 2:
            remaining = (remaining - Fraction(FINE_PARAMETER) ** 2) / 4**SHIFT_BITS
            scales += (FINE_PARAMETER,)
        return cls((*scales, root_up(remaining)))

    @cached_property
    def variance(self) -> Fraction:
        """The square of its parameter, s^2."""
        return self._below(len(self.scales))

    @cached_property
    def log_error(self) -> float:
        """The logarithm of a bound on |P(x) / N_Z(s)(x) - 1|, for all x together.

        Infinite where a step is so coarse (w below 1/2, or a factor of 1.4) that none is proven.
        """
        steps = len(self.scales) - 1
        if not steps:
            return -math.inf
        smallest = float(min(map(self._overlap, range(1, len(self.scales)))))
        log_bound = math.log(8 * steps) - 2 * math.pi**2 * smallest
        return log_bound if smallest >= 0.25 and log_bound <= math.log(0.4) else math.inf

    def draw(self, stream: Stream, count: int) -> list[int]:
        """Return `count` draws; how many bytes of the stream they take is independent of them."""
        *lower, last = [discrete_gaussian(stream, count, scale) for scale in self.scales]
        # Horner's rule in base B, from the coarsest draw, in integers of any size.
        total = last.astype(object)
        for draws in reversed(lower):
            total = (total << self.shift) + draws
        return list(total.tolist())

    def tail(self, times: int) -> int:
        """Return T = `times` s, rounded up: P(|x| > T) < 3 e^(-times^2 / 2).

        E e^(r x) = e^(r^2 s^2 / 2) sum_x e^(-(x - r s^2)^2 / (2 s^2)) / sum_x e^(-x^2 / (2 s^2)),
        and the sum around r s^2 is at most that around 0, as the coefficients of its Fourier
        series are positive; so e^(r^2 s^2 / 2) bounds it, and with r = T / s^2, P(x >= T) is at
        most e^(-T^2 / (2 s^2)), for N_Z(s).
        """
        return math.isqrt(math.ceil(self.variance * times**2)) + 1

    def _below(self, level: int) -> Fraction:
        """Return the variance of the sum of the first draws, as many as `level`."""
        levels = enumerate(self.scales[:level])
        return sum(
            (Fraction(scale) ** 2 * 4 ** (self.shift * k) for k, scale in levels), Fraction(0)
        )

    def _overlap(self, level: int) -> Fraction:
        """Return w^2 of the step that adds the draw at `level`."""
        coarse_precision = Fraction(4 ** (self.shift * level)) / self._below(level)
        return 1 / (1 / Fraction(self.scales[level]) ** 2 + coarse_precision)
