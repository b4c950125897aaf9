"""Loss pmfs of a whole family at once, each on a sparse subset of the grid.

The bounds are those of loss_pmfs.py: chords above the hockey stick, and chords lowered below it.
Neither needs neighbouring grid points.  So each row takes points that are close where the tilted
loss has its mass and far apart elsewhere, at distances that cost all intervals alike (the error of
an interval of length d is its tilted mass times d^2, so d grows with density^(-1/3)).

The lower pmf differs from that of loss_pmfs.py in how it ends.  Where mass gathers at an end of the
losses, and in the far upper tail, outcomes are merged: that is post-processing, and what is merged
is an atom whose loss is known; the grid is laid so that the atom where mass gathers lies on a
point, the other is moved down to one.  Chords are then lowered by the largest excess at each point,
and an atom at the top leaves nothing to be lowered there.  What comes out negative is taken from
the points above: a mass v at a loss l lowers the hockey stick at least as much when it is removed
as v at a smaller loss.

Source: derived here and in loss_pmfs.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ....arrays import BoolArray, FloatArray, IntArray
from .families import CountedPair, Family
from .loss_grid import upward_share
from .noise import UNIT_ROUNDOFF
from .pmf_points import (
    _share_error,
    central_range,
    cumulative_points,
    interval_masses,
    row_points,
    strictly_ascending,
)

_MAX_ATOM_MOVES: Final = 40
"""How often the end of what is merged is moved until it lies far enough from the atom."""

ROW_SIZES: Final = (512, 2048, 8192)
"""Rows that need up to so many points are laid together; a row that needs more is none of these."""


@dataclass(frozen=True, eq=False)
class PmfRows:
    """Pmfs on grids of one width: row i has P masses `masses[i]` on `width * indices[i] +
    offset[i]`.

    `infinite` is P mass at an infinite loss, `slack` how far a loss may be from its grid point
    through rounding, `counts` how often a row is composed.
    """

    width: float
    offset: FloatArray
    indices: IntArray
    masses: FloatArray
    infinite: FloatArray
    slack: FloatArray
    counts: IntArray

    def __post_init__(self) -> None:
        masses = self.masses
        if not (
            (masses >= 0.0).all() and np.isfinite(masses).all() and np.isfinite(self.slack).all()
        ):
            raise FloatingPointError("a mass or its error is not a number, or below 0")


def upper_pmf_rows(
    family: Family, width: float, tilt: float, tail: float
) -> tuple[list[PmfRows], tuple[CountedPair, ...]]:
    """Return pmfs that dominate the family's pairs, and the pairs that need too many points.

    `tail` bounds the mass moved to infinity.  The points are chosen for a `tilt`, on which no bound
    depends.
    """
    alike, rest = _by_size(family, width, tilt, tail)
    return [_upper(subset, width, tilt, tail) for subset in alike], rest


def _upper(family: Family, width: float, tilt: float, tail: float) -> PmfRows:
    low, high = family.reach(tail)
    offset = family.end_loss if family.has_end_atom else np.zeros_like(family.scale)
    indices = strictly_ascending(row_points(family, width, offset, tilt, low, high), upwards=True)
    edges = offset + width * indices
    log_p, log_q = family.log_masses(edges)
    # Chords over intervals of unequal length, shape (rows, points - 1); shares are rounded up,
    # mass above the last point is an infinite loss.
    inside = np.exp(log_p[:, 1:-1])
    gaps = np.diff(edges, axis=-1)
    share = upward_share(log_p[:, 1:-1], log_q[:, 1:-1], edges[:, :-1], gaps)
    share = np.minimum(share + _share_error(family, edges, gaps, inside, tail), 1.0)
    masses = np.zeros_like(edges)
    masses[:, :-1] += inside * (1.0 - share)
    masses[:, 1:] += inside * share
    masses[:, 0] += np.exp(log_p[:, 0])
    inflation = 1.0 + family.mass_error(tail)
    infinite = np.minimum(np.exp(log_p[:, -1:]) * inflation, 1.0)[:, 0]
    slack = _slack(family, edges, tail)
    return PmfRows(width, offset[:, 0], indices, masses * inflation, infinite, slack, family.counts)


def lower_pmf_rows(
    family: Family, width: float, tilt: float, tail: float
) -> tuple[list[PmfRows], tuple[CountedPair, ...]]:
    """Return pmfs that the pairs dominate, and the pairs for which none came out.

    `tail` bounds the mass that is dropped on each side; the points are chosen for a `tilt`.
    """
    alike, rest = _by_size(family, width, tilt, tail)
    rows_of_class = [_lower(subset, width, tilt, tail) for subset in alike]
    return [rows for rows, _ in rows_of_class], rest + tuple(
        m for _, more in rows_of_class for m in more
    )


def _by_size(
    family: Family, width: float, tilt: float, tail: float
) -> tuple[list[Family], tuple[CountedPair, ...]]:
    """Return the rows, grouped by the number of points they need, and the pairs that need too
    many."""
    needed = cumulative_points(family, width, tilt, *family.reach(tail))[1][:, -1]
    # One class for each row, the last one for all that no size holds, be it not a number.
    # NaN compares as false, so such a row is among those treated one by one.
    classes = np.where(needed <= ROW_SIZES[-1], np.searchsorted(ROW_SIZES, needed), len(ROW_SIZES))
    alike = [
        family.subset(classes == each) for each in range(len(ROW_SIZES)) if (classes == each).any()
    ]
    rest = zip(family.members, classes == len(ROW_SIZES), strict=True)
    return alike, tuple(member for member, left in rest if left)


def _lower(
    family: Family, width: float, tilt: float, tail: float
) -> tuple[PmfRows, tuple[CountedPair, ...]]:
    chords = _Chords.of(family, width, tilt, tail)
    masses = chords.lower_hull()
    valid = chords.valid & (masses.sum(axis=-1) > 0.0)
    masses *= 1.0 - family.mass_error(tail)
    slack = _slack(family, chords.edges, tail)
    rows = PmfRows(
        width,
        chords.offset[valid, 0],
        chords.indices[valid],
        masses[valid],
        np.zeros(int(valid.sum())),
        slack[valid],
        family.counts[valid],
    )
    rest = tuple(
        member for member, is_valid in zip(family.members, valid, strict=True) if not is_valid
    )
    return rows, rest


def _slack(family: Family, edges: FloatArray, tail: float) -> FloatArray:
    """Return how far each row's losses may be from its points, through rounding."""
    largest = np.abs(edges).max(axis=-1)
    slack: FloatArray = 2.0 * family.edge_error(tail)[:, 0] + 8.0 * UNIT_ROUNDOFF * largest
    return slack


# --- chords -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Chords:
    """P mass of the chords at both ends of each interval, and their excess over tangents.

    `atoms` is mass that lies on a point itself.  `valid` says for which rows all this holds.
    """

    offset: FloatArray
    indices: IntArray
    edges: FloatArray
    to_left: FloatArray
    to_right: FloatArray
    atoms: FloatArray
    excess: FloatArray
    valid: BoolArray

    @classmethod
    def of(cls, family: Family, width: float, tilt: float, tail: float) -> _Chords:
        low, high = central_range(family, tilt, tail)
        end_atom = _EndAtom.of(family, width, tail) if family.has_end_atom else None
        least = None if end_atom is None else end_atom.position
        offset = np.zeros_like(family.scale) if end_atom is None else end_atom.loss
        indices = row_points(family, width, offset, tilt, low, high)
        at_top = end_atom is not None and family.swapped
        if end_atom is not None:
            # The atom where mass gathers is point 0, at the bottom or at the top.
            indices = np.minimum(indices, 0) if family.swapped else np.maximum(indices, 0)
            indices[:, -1 if family.swapped else 0] = 0
        indices = strictly_ascending(indices, upwards=not at_top)
        edges = offset + width * indices
        to_left, to_right, excess, beyond = interval_masses(family, edges, least, tail)
        atoms = np.zeros_like(edges)
        valid = np.ones(edges.shape[0], dtype=np.bool_)
        if end_atom is not None:
            atoms[:, -1 if family.swapped else 0] = end_atom.mass[:, 0]
            valid = end_atom.valid
        if not at_top:
            # A point more, for the tail beyond the last one.
            mass, loss = beyond
            top = np.floor((loss - offset[:, 0]) / width)
            valid = valid & np.isfinite(top) & (top > indices[:, -1])
            top = np.where(valid, top, indices[:, -1] + 1).astype(np.int64)
            indices = np.concatenate((indices, top[:, None]), axis=-1)
            edges = offset + width * indices
            nothing = np.zeros((edges.shape[0], 1))
            to_left, to_right, excess = (
                np.concatenate((each, nothing), axis=-1) for each in (to_left, to_right, excess)
            )
            atoms = np.concatenate((atoms, mass[:, None]), axis=-1)
        return cls(offset, indices, edges, to_left, to_right, atoms, excess, valid)

    def lower_hull(self) -> FloatArray:
        """Return P masses of the lowered chords: no row's hockey stick is above that of its
        pair."""
        # Masses of the chords themselves, shape (rows, points).
        gaps = np.diff(self.edges, axis=-1)
        rise, fall = np.expm1(gaps), -np.expm1(-gaps)
        masses = self.atoms.copy()
        masses[:, :-1] += self.to_left
        masses[:, 1:] += self.to_right
        excess = self.excess * (1.0 + 1e-6)
        depth = np.zeros_like(masses)
        depth[:, :-1] = excess
        depth[:, 1:-1] = np.maximum(depth[:, 1:-1], excess[:, :-1])
        # The last chord ends on the axis; lowered at its left end until all its mass lies there.
        collapse = self.to_right[:, -1] * fall[:, -1] * (1.0 + 1e-6)
        depth[:, -2] = np.maximum(depth[:, -2], np.where(excess[:, -1] > 0.0, collapse, 0.0))
        # P masses are the kinks: a depth that is linear between the points moves them by its
        # slopes.
        slopes = np.diff(depth, axis=-1)
        masses[:, :-1] -= slopes / rise
        masses[:, 1:] += slopes / fall
        # Left of the first point the depth runs to 0, so that no P mass is lost.
        masses[:, 0] += depth[:, 0]
        return _without_negative_masses(masses)


def _without_negative_masses(masses: FloatArray) -> FloatArray:
    """Return masses >= 0: negative mass is taken from the next points above, which lowers h.

    A row whose points above do not suffice comes out as 0.
    """
    below = (masses < 0.0).any(axis=-1)
    if not below.any():
        return masses
    rows = masses[below]
    deficit = np.zeros(rows.shape[0])
    # From the bottom to the top, one grid point of all rows at a time.
    for column in rows.T:
        left = column - deficit * (1.0 + 4.0 * UNIT_ROUNDOFF)
        deficit = np.maximum(-left, 0.0)
        column[:] = np.maximum(left, 0.0)
    result = masses.copy()
    result[below] = np.where(deficit[:, None] > 0.0, 0.0, rows)
    return result


@dataclass(frozen=True, eq=False)
class _EndAtom:
    """Outcomes where mass gathers, merged: those below a position, with their loss and P mass.

    All other losses are at least a grid width from the merged one, so that the interval next to it
    is empty and nothing has to be lowered at the atom.
    """

    position: FloatArray
    loss: FloatArray
    mass: FloatArray
    valid: BoolArray

    @classmethod
    def of(cls, family: Family, width: float, tail: float) -> _EndAtom:
        inwards = -1.0 if family.swapped else 1.0
        min_distance = width * (1.0 + 1e-6)
        span = np.full_like(family.scale, min_distance)
        for _ in range(_MAX_ATOM_MOVES):
            inner = family.end_loss + inwards * span
            position = family.position(inner)
            log_p, log_q = family.masses_below(position)
            # Rounded down: a smaller loss at the same P mass.
            loss = log_p - log_q - 4.0 * family.mass_error(tail)
            near = inwards * (inner - loss) < min_distance
            if not near.any():
                break
            span = np.where(near, 1.3 * span, span)
        return cls(position, loss, np.exp(log_p), ~near[:, 0])
