"""The points of a row of losses, and the masses between them: few where little is decided."""

from __future__ import annotations

from typing import Final

import numpy as np

from ....arrays import FloatArray, IntArray
from .families import Family
from .loss_grid import chord_excess, upward_share

CELLS_PER_ROW: Final = 192
"""Into how many cells of equal length in position a row is cut to choose its points."""

MERGED_TAIL_SHARE: Final = 1e-10
"""Tilted share of a far tail whose outcomes a lower pmf merges, or drops at the bottom."""

MAX_INTERVAL_NATS: Final = 0.25
"""Longest interval, in nats."""


def row_points(
    family: Family, width: float, offset: FloatArray, tilt: float, low: FloatArray, high: FloatArray
) -> IntArray:
    """Return ascending grid indices for each row, the ends just beyond positions low and high."""
    losses, cumulative = cumulative_points(family, width, tilt, low, high)
    count = int(np.ceil(cumulative[:, -1].max())) + 2
    # Each row's cumulative share, moved to an interval of its own: one interpolation inverts all.
    row = np.arange(family.scale.size, dtype=np.float64)[:, None]
    share = np.zeros_like(losses)
    share[:, 1:] = cumulative / cumulative[:, -1:]
    targets = np.interp(
        (2.0 * row + np.linspace(0.0, 1.0, count)).ravel(),
        (2.0 * row + share).ravel(),
        losses.ravel(),
    ).reshape(row.size, count)
    rounded = np.round((targets - offset) / width)
    rounded[:, 0] = np.floor((losses[:, 0] - offset[:, 0]) / width) - 1.0
    rounded[:, -1] = np.ceil((losses[:, -1] - offset[:, 0]) / width) + 1.0
    if not np.isfinite(rounded).all() or np.abs(rounded).max() > 1e15:
        raise FloatingPointError("the losses are not finite")
    result: IntArray = rounded.astype(np.int64)
    return result


def cumulative_points(
    family: Family, width: float, tilt: float, low: FloatArray, high: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return losses between two positions, ascending, and how many points are needed up to each."""
    x = low + (high - low) * np.linspace(0.0, 1.0, CELLS_PER_ROW + 1)
    losses = family.loss(x)
    p, q = family.masses_between(x)
    log_p = q[:, ::-1] if family.swapped else p
    losses = losses[:, ::-1] if family.swapped else losses
    return losses, np.cumsum(_needed(losses, log_p, width, tilt), axis=-1)


def _needed(losses: FloatArray, log_p: FloatArray, width: float, tilt: float) -> FloatArray:
    """Return how many points each cell needs, so that all points cost about what `width` does."""
    length = np.maximum(np.diff(losses, axis=-1), 1e-300)
    density = _tilted(losses, log_p, tilt) + 0.1 * _tilted(losses, log_p, 0.0)
    # An interval of length d and density rho costs about rho d^3; for a given number of points
    # the sum is least where d is proportional to rho^(-1/3).
    cost = length ** (2.0 / 3.0) * density ** (1.0 / 3.0)
    needed = cost * np.sqrt(cost.sum(axis=-1, keepdims=True)) / width
    # Within an interval the tilted density changes by no more than a factor of about e.
    logs = np.log(
        np.maximum(density / length, 1e-14 * (density / length).max(axis=-1, keepdims=True))
    )
    steps = np.zeros_like(needed)
    steps[:, 1:] = np.abs(np.diff(logs, axis=-1))
    needed = np.maximum(needed, np.maximum(steps, length / MAX_INTERVAL_NATS))
    points: FloatArray = np.minimum(needed, length / width) + 1e-9
    return points


def _tilted(losses: FloatArray, log_p: FloatArray, tilt: float) -> FloatArray:
    """Return the shares of the cells in the tilted pmf."""
    exponents = log_p + tilt * 0.5 * (losses[:, 1:] + losses[:, :-1])
    weights = np.exp(exponents - exponents.max(axis=-1, keepdims=True))
    shares: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def strictly_ascending(indices: IntArray, *, upwards: bool) -> IntArray:
    """Return indices that strictly ascend, moved up (or down) where they would not."""
    if not upwards:
        return -strictly_ascending(-indices[:, ::-1], upwards=True)[:, ::-1]
    steps = np.arange(indices.shape[-1])
    return np.maximum.accumulate(indices - steps, axis=-1) + steps


def central_range(family: Family, tilt: float, tail: float) -> tuple[FloatArray, FloatArray]:
    """Return positions (low, high) beyond which less than `MERGED_TAIL_SHARE` of the tilted pmf
    lies."""
    low, high = family.reach(tail)
    x = low + (high - low) * np.linspace(0.0, 1.0, CELLS_PER_ROW + 1)
    losses = family.loss(x)
    p, q = family.masses_between(x)
    log_p = q if family.swapped else p
    # The untilted pmf counts too, a tenth as much, so that the range also suits smaller tilts.
    weights = _tilted(losses, log_p, tilt) + 0.1 * _tilted(losses, log_p, 0.0)
    below, above = np.cumsum(weights, axis=-1), np.cumsum(weights[:, ::-1], axis=-1)
    first = (below < MERGED_TAIL_SHARE).sum(axis=-1)
    last = CELLS_PER_ROW - (above < MERGED_TAIL_SHARE).sum(axis=-1)
    row = np.arange(first.size)
    return x[row, first][:, None], x[row, last][:, None]


def interval_masses(
    family: Family, edges: FloatArray, least: FloatArray | None, tail: float
) -> tuple[FloatArray, FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
    """Return P mass of the chords at both ends of each interval, their excess, and mass beyond.

    Beyond the last edge that is P mass, and the loss of all of it merged, rounded down.
    """
    gaps = np.diff(edges, axis=-1)
    # Edges and middles of the intervals alternate, shape (rows, 2 points - 1).
    halves = np.empty((edges.shape[0], 2 * edges.shape[1] - 1))
    halves[:, ::2] = edges
    halves[:, 1::2] = edges[:, :-1] + 0.5 * gaps
    log_p, log_q = family.log_masses(halves, least)
    beyond_p, beyond_q = log_p[:, -1], log_q[:, -1]
    log_p, log_q = log_p[:, 1:-1], log_q[:, 1:-1]
    inside_p = np.logaddexp(log_p[:, ::2], log_p[:, 1::2])
    inside_q = np.logaddexp(log_q[:, ::2], log_q[:, 1::2])
    inside = np.exp(inside_p)
    error = _share_error(family, edges, gaps, inside, tail)
    # Shares are rounded down, and the excess up: the bound stays a lower one.
    up = np.maximum(upward_share(inside_p, inside_q, edges[:, :-1], gaps) - error, 0.0)
    to_left, to_right = inside * (1.0 - up), inside * up
    excess = chord_excess(log_p, log_q, edges, to_left, to_right) + 4.0 * error * gaps * inside
    with np.errstate(invalid="ignore"):
        loss = beyond_p - beyond_q - 4.0 * family.mass_error(tail)[:, 0]
    return to_left, to_right, excess, (np.exp(beyond_p), loss)


def _share_error(
    family: Family, edges: FloatArray, gaps: FloatArray, inside: FloatArray, tail: float
) -> FloatArray:
    """Return the error of each share: of the two masses, and of the edges between them.

    The density at an edge is at most 16 times that of the heavier interval next to it: it has one
    peak, and lies between the two averages unless that peak is near.
    """
    density = inside / gaps
    heavier = np.concatenate(
        (density[:, :1], np.maximum(density[:, :-1], density[:, 1:]), density[:, -1:]), axis=-1
    )
    moved = 16.0 * family.edge_mismatch(edges) * heavier
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(inside > 0.0, (moved[:, :-1] + moved[:, 1:]) / inside, 0.0)
    error: FloatArray = (relative + 2.0 * family.mass_error(tail)) / -np.expm1(-gaps)
    return error
