"""Saddle-point estimates of epsilon and delta, which no bound rests on.

The loss of one round is replaced by a few hundred atoms (the probes of its pair), and the tail
integral E[(1 - e^(eps - S))+] by its saddle point: with F(t) = K(t) - t eps - log t - log(1 + t)
and F'(t) = 0, delta is about e^F / sqrt(2 pi F'') (1 + F4 / (8 F2^2) - 5 F3^2 / (24 F2^3)).

Source: Alghamdi, Gomez, Asoodeh, Calmon, Kosut, Sankar 2023, "The Saddle-Point Method in
Differential Privacy" (arXiv 2208.09595).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ....arrays import FloatArray
from ....rootfinding import enclose, narrow
from ..grid.noise import dot
from ..grid.pair import Pair

MAX_ESTIMATED_LOSS: Final = 1e150
"""Larger losses are estimated as this one, whose square is a number of the machine."""


@dataclass(frozen=True, eq=False)
class QuadraturePoints:
    """Losses with their log P masses, of one round; and how many rounds there are."""

    losses: FloatArray
    log_p: FloatArray
    count: int


@dataclass(frozen=True)
class SaddlePoint:
    """An estimate: log delta at epsilon, and the tilt that centres the sum of the losses there.

    `variance` is that of the tilted sum, `plain_variance` that of the sum itself.
    """

    epsilon: float
    log_delta: float
    tilt: float
    variance: float
    plain_variance: float


@dataclass(frozen=True, eq=False)
class SaddlePointEstimate:
    """Estimates for one direction of a composition."""

    parts: tuple[QuadraturePoints, ...]
    infinite_mass: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[Pair, int]], delta: float) -> SaddlePointEstimate:
        """Return the estimate for pairs with their counts, good for deltas down to `delta`."""
        tail = max(1e-3 * delta / sum(n for _, n in pairs), 1e-300)
        survive = sum(n * math.log1p(-min(pair.infinite_mass, 1.0 - 1e-16)) for pair, n in pairs)
        return cls(tuple(_atoms(pair, n, tail) for pair, n in pairs), -math.expm1(survive))

    def epsilon(self, delta: float) -> SaddlePoint:
        """Return the estimate at which delta is reached; epsilon may come out negative."""
        target = math.log(max(delta, self.infinite_mass * (1.0 + 1e-6)))
        return self._solve(lambda saddle: saddle.log_delta - target)

    def delta(self, epsilon: float) -> SaddlePoint:
        """Return the estimate at this epsilon."""
        return self._solve(lambda saddle: epsilon - saddle.epsilon)

    def _solve(self, falling: Callable[[SaddlePoint], float]) -> SaddlePoint:
        """Return the saddle at which a function that falls as the tilt grows is 0."""

        def at(log_tilt: float) -> float:
            return falling(self._at_tilt(math.exp(log_tilt)))

        bracket = enclose(at, math.log(3.0), 1.0, -28.0, 28.0)
        if bracket is None:
            return self._at_tilt(math.exp(-28.0 if at(0.0) <= 0.0 else 28.0))
        root = narrow(at, bracket, absolute=1e-9, value=1e-7, steps=40)
        nearest = root.low if abs(root.f_low) < abs(root.f_high) else root.high
        return self._at_tilt(math.exp(nearest))

    def _at_tilt(self, tilt: float) -> SaddlePoint:
        cumulant = mean = variance = third = fourth = 0.0
        # K and the second to fourth cumulants of the tilted sum add up over rounds.
        for part in self.parts:
            exponents = part.log_p + tilt * part.losses
            peak = float(exponents.max())
            weights = np.exp(exponents - peak)
            total = float(weights.sum())
            weights /= total
            centre = dot(weights, part.losses)
            off = part.losses - centre
            weighted = weights * off * off
            second = float(weighted.sum())
            cumulant += part.count * (peak + math.log(total))
            mean += part.count * centre
            variance += part.count * second
            third += part.count * dot(weighted, off)
            fourth += part.count * (dot(weighted, off * off) - 3.0 * second * second)
        a, b = 1.0 / tilt, 1.0 / (1.0 + tilt)
        # F'(t) = 0 gives eps = K'(t) - 1/t - 1/(1 + t); then F'', F''' and F''''.
        epsilon = mean - a - b
        f2 = variance + a * a + b * b
        f3 = third - 2.0 * (a**3 + b**3)
        f4 = fourth + 6.0 * (a**4 + b**4)
        # Second-order term of the saddle point, kept in [0.3, 3] where it stops being small.
        correction = 1.0 + f4 / (8.0 * f2 * f2) - 5.0 * f3 * f3 / (24.0 * f2**3)
        exponent = cumulant - tilt * epsilon + math.log(a) + math.log(b)
        log_delta = exponent - 0.5 * math.log(2.0 * math.pi * f2)
        log_delta += math.log(min(max(correction, 0.3), 3.0))
        if self.infinite_mass > 0.0:
            log_delta = float(np.logaddexp(log_delta, math.log(self.infinite_mass)))
        return SaddlePoint(epsilon, log_delta, tilt, variance, self._plain_variance)

    @cached_property
    def _plain_variance(self) -> float:
        total = 0.0
        for part in self.parts:
            weights = np.exp(part.log_p)
            weights /= weights.sum()
            centre = dot(weights, part.losses)
            total += part.count * dot(weights, (part.losses - centre) ** 2)
        return total


def _atoms(pair: Pair, count: int, tail: float) -> QuadraturePoints:
    losses, log_p = pair.quadrature_points(tail)
    if losses.size == 0:
        return QuadraturePoints(np.zeros(1), np.zeros(1), count)
    losses = np.clip(losses, -MAX_ESTIMATED_LOSS, MAX_ESTIMATED_LOSS)
    return QuadraturePoints(losses, log_p, count)
