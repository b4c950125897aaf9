"""Grids of losses, pmfs on them, and chords of a hockey stick between their points.

Intervals lie along the last axis: of one pair, or of one row for each of many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ....arrays import FloatArray

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


def upward_share(
    log_p: FloatArray, log_q: FloatArray, left: FloatArray, length: float | FloatArray
) -> FloatArray:
    """Return which share of an interval's P mass a chord puts on its right end, in [0, 1].

    From p = u + v and q = u e^-l + v e^-(l + length), where l is the loss at the `left` end.
    """
    with np.errstate(invalid="ignore"):
        # 1 - q e^l / p is 0 if all mass has the loss of the left end, 1 - e^-length if of the
        # right one.
        fall = -np.expm1(np.minimum(log_q + left - log_p, 0.0))
    share = np.where(np.isneginf(log_p), 0.0, fall / -np.expm1(-length))
    return np.clip(share, 0.0, 1.0)


def chord_excess(
    log_p: FloatArray,
    log_q: FloatArray,
    edges: FloatArray,
    to_left: FloatArray,
    to_right: FloatArray,
) -> FloatArray:
    """Return by how much each chord exceeds the tangents of h at the interval's ends and middle.

    `log_p` and `log_q` are masses of the halves of the intervals between `edges`.  The three
    tangents meet at the likelihood ratios of the two halves, so the largest excess is at one of
    them: `to_left` (r_left / alpha_left - 1) or `to_right` (1 - r_right / alpha_right).
    """
    with np.errstate(invalid="ignore", over="ignore"):
        # r / alpha - 1 of the left half at the left end, 1 - r / alpha of the right half at the
        # right one; an empty half has no ratio and exceeds nothing.
        left = np.expm1(log_p[..., ::2] - log_q[..., ::2] - edges[..., :-1])
        right = -np.expm1(log_p[..., 1::2] - log_q[..., 1::2] - edges[..., 1:])
    at_left = np.where(np.isfinite(left), to_left * np.maximum(left, 0.0), 0.0)
    at_right = np.where(np.isfinite(right), to_right * np.maximum(right, 0.0), 0.0)
    excess: FloatArray = np.maximum(at_left, at_right)
    return excess
