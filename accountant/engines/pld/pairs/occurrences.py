"""How far a unit that may be drawn several times can be told from its replacement.

With w_j the probability that the unit is drawn j times, A the release on draws of others, P_j and
P'_j that with the unit, or its replacement, at j of the positions (with_replacement.py), and c an
order of at least 1, a test T tells the outputs apart by

    sum_{j>0} w_j (P_j(T) - c P'_j(T)) - (c - 1) w_0 A(T).

Let x be the end of the half line {> x} to which the noise around 0 gives the mass A(T).  P_j is
within u_j bounds of A, so P_j(T) is the mass of some half line {> y} under the noise around u_j,
y >= x; and P'_j is within u_j - v_j bounds of P_j, so P'_j(T) is at least the mass of {> y} under
the noise around v_j.  So the sum is at most

    V(x) = sum_{j>0} w_j max over y >= x of (S(y - u_j) - c S(y - v_j)) - (c - 1) w_0 S(x),

S the noise's upper tail, and (u_j, v_j) are (2j, 0) under replace-one, (2j, j) where a unit is
replaced by nothing, (j, 0) where nothing is replaced by a unit.  The inner maximum is at x or,
where that is larger, at t_j, at which noise around u_j is c times as likely as around v_j.  The
derivative of V is, over the noise's density at x, (c - 1) w_0 less the sum of the increasing

    w_j (noise(x - u_j) - c noise(x - v_j))+ / noise(x),

so V rises up to where the two are equal, and then falls.  The maximum over x is convex in c, as
that of linear functions.  Where all t_j lie below x it is what others at -1 attain.

Source: derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from scipy.special import log_ndtr

from ....amplification.occurrences import WEIGHT_ERROR, OccurrenceCounts
from ....arrays import FloatArray
from ....rootfinding import bisect, mean
from ..grid.noise import AdditiveNoise, GaussianNoise
from ..grid.pair import Pair, pair_of_profile
from ..grid.pair_parts import AtomPair

POSITIONS_PER_SCALE: Final = 100.0
MAX_POSITIONS: Final = 8_000
"""How finely orders are chosen, by the position of the release, and at most how many."""

POSITION_HALVINGS: Final = 70
"""Steps of the search for the position at which V is largest."""

VALUE_ERROR: Final = 1e-13
"""Error of a difference of tails, relative to their sum."""

PROFILE_TAIL: Final = 1e-22
"""Orders are listed up to where P has about this mass beyond."""

LEAST_WEIGHT: Final = 1e-300
"""Stands for 0 in logarithms."""


@dataclass(frozen=True)
class Occurrences:
    """Numbers j > 0 with their weights, and how far each moves P (`up`) and P' (`down`)."""

    counts: OccurrenceCounts
    up: FloatArray
    down: FloatArray
    noise: AdditiveNoise

    @classmethod
    def of(
        cls, counts: OccurrenceCounts, moved: float, kept: float, noise: AdditiveNoise
    ) -> Occurrences:
        """Return those where each draw moves P by `moved` bounds and P' by `kept` of them."""
        return cls(counts, moved * counts.numbers, kept * counts.numbers, noise)

    def pair(self) -> Pair:
        """Return a pair above the profile at orders of at least 1."""
        losses = self._losses()
        return pair_of_profile(losses, self.sticks(losses))

    def sticks(self, losses: FloatArray) -> FloatArray:
        """Return upper bounds on the profile at the orders e^losses."""
        order, weights = np.exp(losses), self.counts.weights
        low, high = self._best_positions(losses)
        # Each maximum over y at its own position, shape (numbers, losses).
        y = np.maximum(low, self._crossings(losses))
        p, q = self._tail(y - self.up[:, None]), self._tail(y - self.down[:, None])
        told = weights @ np.where(np.isposinf(y), 0.0, p - order * q)
        # The weight of no draw is rounded down, as the others are raised.
        hidden = (order - 1.0) * self.counts.absent * (1.0 - WEIGHT_ERROR) * self._tail(high)
        error = weights @ np.where(np.isposinf(y), 0.0, p + order * q) + hidden
        bound: FloatArray = np.maximum(told - hidden, 0.0) + VALUE_ERROR * error
        return np.where(losses >= self._largest_loss, 0.0, bound)

    def attained(self) -> Pair:
        """Return sum_j w_j noise(u_j) against sum_j w_j noise(v_j), with j = 0, cut into cells.

        It is what others at -1 attain, where every number stands for itself; to see only the cell
        is a post-processing.
        """
        edges = np.concatenate(([-np.inf], self._positions(), [np.inf]))
        weights = [self.counts.absent, *self.counts.weights.tolist()]
        log_p, log_q = (
            np.logaddexp.reduce(
                [
                    math.log(max(weight, LEAST_WEIGHT))
                    + self.noise.log_interval_masses(edges - centre)
                    for weight, centre in zip(weights, [0.0, *centres.tolist()], strict=True)
                ],
                axis=0,
            )
            for centres in (self.up, self.down)
        )
        # What is not listed may be anywhere: more mass of Q is less to see.
        log_q = np.logaddexp(log_q, math.log(max(self.counts.tail, LEAST_WEIGHT)))
        cells = AtomPair(log_p, log_q, has_heavy_atoms=False, rounding=2.0 * WEIGHT_ERROR)
        return Pair.of_outcomes(cells)

    @cached_property
    def _largest_loss(self) -> float:
        """The loss from which on V is never above 0; infinite under Gaussian noise.

        Beyond all centres Laplace tails are multiples of each other, and so are all terms of V.
        """
        if isinstance(self.noise, GaussianNoise) or self.up.max() > 600.0 * self.noise.scale:
            return math.inf
        up, down = (np.exp(c / self.noise.scale) for c in (self.up, self.down))
        absent = self.counts.absent * (1.0 - WEIGHT_ERROR)

        def tells(loss: float) -> bool:
            order = math.exp(loss)
            told = self.counts.weights @ np.maximum(up - order * down, 0.0)
            return bool(told > (order - 1.0) * absent * (1.0 - 1e-12))

        farthest = float((self.up - self.down).max()) / self.noise.scale * (1.0 + 1e-9)
        return bisect(tells, 0.0, farthest, stop=lambda a, b: b - a <= 1e-12 * b, middle=mean)[1]

    def _crossings(self, losses: FloatArray) -> FloatArray:
        """Return t_j, shape (numbers, losses), infinite where no position is as telling."""
        distance = (self.up - self.down)[:, None]
        middle = 0.5 * (self.up + self.down)[:, None]
        scale = self.noise.scale
        if isinstance(self.noise, GaussianNoise):
            return middle + losses * scale**2 / distance
        # Rounded down: an earlier start only adds to a maximum that is taken from there.
        inside = losses <= distance / scale * (1.0 + 1e-15)
        return np.where(inside, middle + 0.5 * losses * scale, np.inf)

    def _best_positions(self, losses: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return positions between which V is largest, for each order."""
        reach = self.noise.radius(1e-300)
        low = np.full_like(losses, -reach)
        high = np.full_like(losses, float(self.up.max()) + reach)
        with np.errstate(divide="ignore"):
            log_level = np.log(np.expm1(losses)) + math.log(
                max(self.counts.absent * (1.0 - WEIGHT_ERROR), LEAST_WEIGHT)
            )
        for _ in range(POSITION_HALVINGS):
            middle = 0.5 * (low + high)
            rising = self._log_gain(middle, losses) < log_level
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        return low, high

    def _log_gain(self, x: FloatArray, losses: FloatArray) -> FloatArray:
        """Return the log of sum_j w_j (noise(x - u_j) - c noise(x - v_j))+ / noise(x)."""
        log_weights = np.log(self.counts.weights)[:, None]
        up = log_weights + self._log_ratio(x, self.up)
        down = log_weights + self._log_ratio(x, self.down) + losses
        gap = np.minimum(down - up, 0.0)
        with np.errstate(divide="ignore"):
            terms = up + np.log(-np.expm1(gap))
        total: FloatArray = np.logaddexp.reduce(terms, axis=0)
        return total

    def _log_ratio(self, x: FloatArray, centres: FloatArray) -> FloatArray:
        c = centres[:, None]
        if isinstance(self.noise, GaussianNoise):
            return np.asarray(c * (x - 0.5 * c) / self.noise.scale**2)
        return np.asarray(np.clip(2.0 * x - c, -c, c) / self.noise.scale)

    def _tail(self, x: FloatArray) -> FloatArray:
        z = x / self.noise.scale
        if isinstance(self.noise, GaussianNoise):
            return np.asarray(np.exp(log_ndtr(-z)))
        return np.asarray(np.where(z > 0.0, 0.5 * np.exp(-np.abs(z)), 1 - 0.5 * np.exp(-np.abs(z))))

    def _positions(self) -> FloatArray:
        """Return positions of the release, as dense as its noise, that hold all but a tail of P."""
        low, high = 0.0, float(self.up.max())
        if isinstance(self.noise, GaussianNoise):
            tails = np.minimum(PROFILE_TAIL / self.counts.weights, 0.4).tolist()
            reach = [self.noise.radius(tail) for tail in tails]
            low, high = -self.noise.radius(PROFILE_TAIL), float((self.up + np.array(reach)).max())
        count = math.ceil((high - low) / self.noise.scale * POSITIONS_PER_SCALE)
        return np.linspace(low, high, min(max(count, 1_000), MAX_POSITIONS))

    def _losses(self) -> FloatArray:
        """Return losses from 0 up, as dense as the release's own; any are sound."""
        x = self._positions()
        absent = np.full(x.size, math.log(max(self.counts.absent, LEAST_WEIGHT)))
        log_weights = np.log(self.counts.weights)[:, None]
        above, below = (
            np.logaddexp.reduce(
                np.vstack((absent, log_weights + self._log_ratio(x, centres))), axis=0
            )
            for centres in (self.up, self.down)
        )
        losses = np.minimum(above - below, 600.0)
        ends = [0.0, min(self._largest_loss, 600.0)] if self._largest_loss < math.inf else [0.0]
        return np.unique(np.concatenate((ends, losses[(losses > 0.0) & (losses < math.inf)])))
