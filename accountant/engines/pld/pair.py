"""Pairs of distributions (P, Q), known through the privacy loss log(P/Q).

A pair (P, Q) is known to the engine through its loss log(P/Q): how much P and Q mass has which
loss.  It has a continuous part, whose mass is known by loss interval, and atoms, whose outcomes
are known one by one.  Bounds are for the direction P against Q; `reverse` gives the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from ...arrays import FloatArray
from .atoms import AtomPair
from .continuous import ContinuousPart


@dataclass(frozen=True, eq=False)
class Pair:
    """A pair of distributions, seen through the loss log(P/Q).

    `grid_atoms` are losses that should lie on the grid: heavy atoms, or an end of the support.
    `support_end` is a loss at which the support ends while mass crowds there, and on which side:
    -1, +1.
    """

    continuous: ContinuousPart | None
    atoms: AtomPair | None
    grid_atoms: tuple[float, ...] = ()
    support_end: tuple[float, float] | None = None

    @classmethod
    def of_outcomes(cls, atoms: AtomPair) -> Pair:
        """Return a pair without a continuous part."""
        return cls(None, atoms, atoms.heaviest_losses() if atoms.has_heavy_atoms else ())

    def reverse(self) -> Pair:
        """Return the pair (Q, P)."""
        return Pair(
            self.continuous.reverse() if self.continuous else None,
            self.atoms.reverse() if self.atoms else None,
            tuple(-atom for atom in self.grid_atoms),
            (-self.support_end[0], -self.support_end[1]) if self.support_end else None,
        )

    @property
    def infinite_mass(self) -> float:
        """P mass at an infinite loss."""
        return self.atoms.infinite_mass if self.atoms else 0.0

    @property
    def omitted_mass(self) -> float:
        """Bound on the P mass of omitted outcomes, which may have any loss."""
        return self.atoms.omitted_mass if self.atoms else 0.0

    @property
    def largest_loss(self) -> float:
        """A bound on every loss, infinite where there is none."""
        if self.omitted_mass > 0.0 or (self.atoms is not None and self.atoms.has_infinite_losses):
            return math.inf
        ends = []
        if self.atoms is not None and self.atoms.losses.size:
            ends.append(float(self.atoms.losses[-1]))
        if self.continuous is not None:
            bounded = self.support_end is not None and self.support_end[1] > 0.0
            ends.append(
                self.support_end[0]
                if self.support_end and bounded
                else self.continuous.largest_loss
            )
        return max(ends, default=0.0) + 4.0 * self.edge_error(1e-30)

    def loss_range(self, tail: float) -> tuple[float, float]:
        """Return (low, high) with P(loss < low) and P(high < loss < inf) of about `tail`."""
        ranges = [part.loss_range(tail) for part in (self.continuous, self.atoms) if part]
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    def mass_error(self, tail: float) -> float:
        """Return the relative error of the masses inside `loss_range(tail)`."""
        return max(part.mass_error(tail) for part in (self.continuous, self.atoms) if part)

    def edge_error(self, tail: float) -> float:
        """Return by how much a loss may differ from the one that was computed."""
        return max(part.edge_error(tail) for part in (self.continuous, self.atoms) if part)

    def quadrature_points(self, tail: float) -> tuple[FloatArray, FloatArray]:
        """Return losses and log P masses that stand for the pair, down to a mass of `tail`."""
        points = [part.quadrature_points(tail) for part in (self.continuous, self.atoms) if part]
        return (
            np.concatenate([losses for losses, _ in points]),
            np.concatenate([log_p for _, log_p in points]),
        )


class LaterPair(Pair):
    """A pair that is made when it is first looked at: mostly one that is fitted takes its place."""

    _made: Callable[[], Pair]

    def __init__(self, make: Callable[[], Pair]) -> None:
        object.__setattr__(self, "_made", cache(make))

    @property
    def continuous(self) -> ContinuousPart | None:
        """The continuous part, where there is one."""
        return self._made().continuous

    @property
    def atoms(self) -> AtomPair | None:
        """The outcomes that are known one by one, where there are any."""
        return self._made().atoms

    @property
    def grid_atoms(self) -> tuple[float, ...]:
        """Losses that should lie on the grid."""
        return self._made().grid_atoms

    @property
    def support_end(self) -> tuple[float, float] | None:
        """A loss at which the support ends while mass crowds there, and on which side."""
        return self._made().support_end
