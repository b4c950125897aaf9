"""Dominating pairs: two distributions that tell neighbouring data sets apart at least as well.

A pair (P, Q) is known to the engine through its loss log(P/Q): how much P and Q mass has which
loss.  It has a smooth part, whose mass is known by loss interval, and an exact part, whose
outcomes are known one by one.  Bounds are for the direction P against Q; `reverse` gives the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .atoms import AtomPair
from .noise import Array
from .smooth import Smooth


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair of distributions, seen through the loss log(P/Q).

    `anchors` are losses that should lie on the grid: heavy atoms, or an end of the support.
    `end` is a loss at which the support ends while mass crowds there, and on which side: -1, +1.
    """

    smooth: Smooth | None
    exact: AtomPair | None
    anchors: tuple[float, ...] = ()
    end: tuple[float, float] | None = None

    @classmethod
    def of_outcomes(cls, exact: AtomPair) -> Pair:
        """Return a pair that has no smooth part."""
        return cls(None, exact, exact.heaviest() if exact.few else ())

    def reverse(self) -> Pair:
        """Return the pair (Q, P)."""
        return Pair(
            self.smooth.reverse() if self.smooth else None,
            self.exact.reverse() if self.exact else None,
            tuple(-anchor for anchor in self.anchors),
            (-self.end[0], -self.end[1]) if self.end else None,
        )

    @property
    def infinite_mass(self) -> float:
        """P mass at an infinite loss."""
        return self.exact.infinite_mass if self.exact else 0.0

    @property
    def unseen(self) -> float:
        """Bound on the P mass of what was left out, which may have any loss."""
        return self.exact.unseen if self.exact else 0.0

    @property
    def largest_loss(self) -> float:
        """A bound on every loss, infinite where there is none."""
        if self.infinite_mass > 0.0 or self.unseen > 0.0:
            return math.inf
        ends = []
        if self.exact is not None and self.exact.losses.size:
            ends.append(float(self.exact.losses[-1]))
        if self.smooth is not None:
            bounded = self.end is not None and self.end[1] > 0.0
            ends.append(self.end[0] if self.end and bounded else self.smooth.largest_loss)
        return max(ends, default=0.0) + 4.0 * self.edge_error(1e-30)

    def loss_range(self, tail: float) -> tuple[float, float]:
        """Return (low, high) with P(loss < low) and P(high < loss < inf) of about `tail`."""
        ranges = [part.loss_range(tail) for part in (self.smooth, self.exact) if part]
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    def mass_error(self, tail: float) -> float:
        """Return the relative error of the masses inside `loss_range(tail)`."""
        return max(part.mass_error(tail) for part in (self.smooth, self.exact) if part)

    def edge_error(self, tail: float) -> float:
        """Return by how much a loss may differ from the one that was computed."""
        return max(part.edge_error(tail) for part in (self.smooth, self.exact) if part)

    def probes(self, tail: float) -> tuple[Array, Array]:
        """Return losses and log P masses that stand for the pair, down to a mass of `tail`."""
        found = [part.probes(tail) for part in (self.smooth, self.exact) if part]
        return (
            np.concatenate([losses for losses, _ in found]),
            np.concatenate([log_p for _, log_p in found]),
        )
