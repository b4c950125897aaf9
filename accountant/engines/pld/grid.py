"""Grids of losses, and pmfs on them: P mass on grid points and at an infinite loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...arrays import FloatArray

MAX_PMF_POINTS: Final = 1 << 22
"""Most grid points that one round may take."""


class GridTooFine(Exception):
    """The question needs more grid points than are allowed; use a wider grid."""


@dataclass(frozen=True)
class Grid:
    """The losses `width` * j + `offset`, j an integer."""

    width: float
    offset: float = 0.0

    def covering(self, low: float, high: float) -> tuple[int, int]:
        """Return the indices of the grid points just beyond `low` and `high`, or `GridTooFine`."""
        if not (math.isfinite(low) and math.isfinite(high) and self.width > 0.0):
            raise FloatingPointError("the losses are not finite")
        first = math.floor((low - self.offset) / self.width) - 1
        last = math.ceil((high - self.offset) / self.width) + 1
        if last - first > MAX_PMF_POINTS:
            raise GridTooFine(f"{last - first} grid points")
        return first, last

    def points(self, first: int, last: int) -> FloatArray:
        """Return the losses of the indices `first` to `last`."""
        return self.offset + self.width * np.arange(first, last + 1, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class LossPmf:
    """P masses on the losses of a grid, from index `first` on, and at an infinite loss.

    `slack` is how far a loss may be from the grid point that stands for it, through rounding.
    """

    grid: Grid
    first: int
    masses: FloatArray
    infinite_mass: float
    slack: float

    def __post_init__(self) -> None:
        masses = self.masses
        if not ((masses >= 0.0).all() and np.isfinite(masses).all() and math.isfinite(self.slack)):
            raise FloatingPointError("a mass or its error is not a number, or below 0")

    @property
    def losses(self) -> FloatArray:
        """The losses that carry `masses`."""
        return self.grid.points(self.first, self.first + self.masses.size - 1)
