"""Lower the chords of a hockey stick below it such that the result is the pmf of a loss.

The chords interpolate a hockey stick h between grid points alpha_j = e^(l_j); see loss_pmfs.py.
Here masses are P masses on the grid points, so the function is sum_j p_j (1 - alpha / alpha_j)+.
"""

from __future__ import annotations

import math

import numpy as np

from ....arrays import FloatArray, IndexArray


def lower_hull(
    to_left: FloatArray, to_right: FloatArray, excess: FloatArray, width: float
) -> FloatArray:
    """Return P masses, shape (points,), of a convex function below the hockey stick.

    `to_left`, `to_right`: P mass of each chord at its two ends; `excess`: how far it lies above the
    tangents; shape (points - 1,).  All zero where no such function is found.

    At both ends the pmf must stay a pmf: no higher than the line on which h would run if nothing
    lay beyond, so depth is limited by how far h is above that line.
    """
    # alpha_{j+1} / alpha_j - 1 and 1 - alpha_j / alpha_{j+1} on a grid of equal steps.
    rise, fall = math.expm1(width), -math.expm1(-width)
    chords = np.append(to_left, 0.0)
    chords[1:] += to_right
    # By how much each point is lowered, shape (points,): at least the excess of both chords
    # there.
    depth = np.zeros(chords.size)
    depth[1:] = excess
    depth[:-1] = np.maximum(depth[:-1], excess)
    # How far the chords lie above the last line (the axis) and above the first line, both rounded
    # down: a point may be lowered by that much.
    above, below = hockey_stick(chords, width), shortfall(chords, width)
    safe_above, safe_below = above * (1.0 - 1e-9), below * (1.0 - 1e-9)
    # At the bottom a tiny excess may also be paid for with P mass: see below.
    collapse = to_left * rise
    lasting_excess = np.where(excess > 1e-6 * collapse, excess, 0.0)
    _relax_depth(depth, safe_below, excess, to_right * fall * (1.0 + 2e-6))
    ends = _hull_ends(
        safe_below, safe_above, depth, excess, lasting_excess, collapse, to_right * fall
    )
    if ends is None:
        return np.zeros(chords.size)
    bottom, top = ends
    at_bottom = (safe_below[bottom + 1] - depth[bottom + 1]) / rise
    at_top = (safe_above[top - 1] - depth[top - 1]) / fall
    # Where the first point is lowered below the line, the pmf that keeps `at_bottom` there is the
    # one through alpha = 0 less some P mass, which only lowers it.
    depth[bottom] = max(below[bottom] * (1.0 + 1e-9), excess[bottom] - lasting_excess[bottom])
    depth[top] = above[top] * (1.0 + 1e-9)
    masses = chords
    # P masses are the kinks of the function, so a depth that is linear between the points moves
    # masses by its slopes: out of each left end, into each right end.
    slopes = np.diff(depth)
    masses[:-1] -= slopes / rise
    masses[1:] += slopes / fall
    masses[: bottom + 1] = 0.0
    masses[top:] = 0.0
    masses[bottom], masses[top] = at_bottom, at_top
    return convex_minorant(masses, width)


def _hull_ends(
    room_below: FloatArray,
    room_above: FloatArray,
    depth: FloatArray,
    excess: FloatArray,
    lasting_excess: FloatArray,
    collapse_left: FloatArray,
    collapse_right: FloatArray,
) -> tuple[int, int] | None:
    """Return the first and the last grid point of the hull, None if they meet; adjusts `depth`.

    An end may deepen the point next to it, which can move the other end: until both stand.
    """
    bottom, top = -1, depth.size
    while True:
        # The bottom is a top seen in mirrored arrays, with the room above the first line.
        new_top = _lowered_end(room_above, depth, excess, collapse_right)
        mirrored = _lowered_end(
            room_below[::-1], depth[::-1], lasting_excess[::-1], collapse_left[::-1]
        )
        new_bottom = depth.size - 1 - mirrored
        if new_bottom >= new_top - 1:
            return None
        if (new_bottom, new_top) == (bottom, top):
            return bottom, top
        bottom, top = new_bottom, new_top


def _relax_depth(
    depth: FloatArray, room: FloatArray, excess: FloatArray, collapse: FloatArray
) -> None:
    """Reduce in place the `depth` of points above a deeply lowered first point.

    Mass that gathers at the bottom lets the first point be lowered far.  A chord's excess at t in
    [0, 1] is at most min(D, (1 - t) C), D its `excess` and C its `collapse`, so with depth g at
    its left end it needs no more than D (C - g) / (C - D) at its right end, and nothing once g
    is C.
    """
    # The last point, seen from the top, that has no room left above the first line.
    start = depth.size - 1 - int(np.argmax((room <= depth)[::-1]))
    if (
        start < excess.size
        and room[start] < excess[start]
        and room[start + 1] <= 2 * depth[start + 1]
    ):
        # The next point is about as deep as it can be: let the pmf begin there.
        start += 1
        depth[start] = max(depth[start], room[start])
    if start >= excess.size or room[start] < excess[start]:
        return
    left = float(room[start])
    for index in range(start, min(start + 64, excess.size - 1)):
        excess_here, collapse_here = float(excess[index]), float(collapse[index])
        if left >= collapse_here:
            needed = 0.0
        elif collapse_here <= excess_here:
            needed = excess_here
        else:
            needed = min(
                excess_here, excess_here * (collapse_here - left) / (collapse_here - excess_here)
            )
        needed_depth = max(needed, float(excess[index + 1]))
        if needed_depth >= depth[index + 1]:
            return
        depth[index + 1] = left = needed_depth


def _lowered_end(
    room: FloatArray, depth: FloatArray, excess: FloatArray, collapse: FloatArray
) -> int:
    """Return the grid point at which the lowered chords reach the last line; adjusts `depth`.

    It is the first point with no more `room` above the line than the depth.  The chord that ends
    there is lowered by that room only; where this is less than its excess, its other end is lowered
    to the tangent at this end (by `collapse`), which lies below h.
    """
    end = int(np.argmax(room <= depth))
    while end > 0 and room[end] < excess[end - 1]:
        depth[end - 1] = max(depth[end - 1], collapse[end - 1] * (1.0 + 1e-12))
        if room[end - 1] > depth[end - 1]:
            break
        end -= 1
    return end


def shortfall(masses: FloatArray, width: float) -> FloatArray:
    """Return sum over i < j of masses_i (e^(l_j - l_i) - 1) for every grid point j, at most 1e250.

    This is h minus its first line: what the points below j would add to h at j.  It is summed as
    (e^w - 1) sum over k <= j of e^(l_j - l_k) B_k, B_k the mass below k: nothing cancels.
    """
    result = np.empty(masses.size)
    block = max(int(300.0 / width), 1)
    below = np.concatenate(([0.0], np.cumsum(masses)[:-1]))
    carried = 0.0  # the sum over all k before the block, seen from the block's first point
    # Blocks of at most 300 nats, so that e^(l_j - l_k) is a number in each.
    for start in range(0, masses.size, block):
        part = below[start : start + block]
        growth = np.exp(width * np.arange(part.size))
        sums = growth * (carried + np.cumsum(part / growth))
        result[start : start + block] = sums
        carried = min(float(sums[-1]) * math.exp(width), 1e100)
    return np.minimum(math.expm1(width) * result, 1e250)


def hockey_stick(masses: FloatArray, width: float) -> FloatArray:
    """Return sum over i > j of masses_i (1 - e^(l_j - l_i)) for every grid point j.

    It is summed as (1 - e^-w) sum over k >= j of e^(l_j - l_k) A_k, A_k the mass above k.
    """
    result = np.empty(masses.size)
    block = max(int(300.0 / width), 1)
    above = np.concatenate((np.cumsum(masses[::-1])[::-1][1:], [0.0]))
    carried = 0.0  # the sum over all k beyond the block, seen from the block's last point
    # Blocks of at most 300 nats, from the top, so that nothing underflows.
    for stop in range(masses.size, 0, -block):
        start = max(stop - block, 0)
        part = above[start:stop][::-1]
        decay = np.exp(-width * np.arange(part.size))
        sums = decay * (carried + np.cumsum(part / decay))
        result[start:stop] = sums[::-1]
        carried = float(sums[-1]) * math.exp(-width)
    return -math.expm1(-width) * result


def convex_minorant(masses: FloatArray, width: float) -> FloatArray:
    """Return the masses of the largest convex function below the one with these signed masses.

    A kink with negative mass lies above the line between its neighbours, so it is removed and its
    mass given to them in the proportion that keeps the function elsewhere; repeated until no mass
    is negative.  The last kink is never negative: the function is positive before it and 0 there.
    """
    pending = np.flatnonzero(masses < 0.0).tolist()
    if not pending:
        return masses
    kinks = np.flatnonzero(masses)
    values = masses[kinks]
    # Neighbours of each kink that is left: a doubly linked list.
    before, after = np.arange(-1, kinks.size - 1), np.arange(1, kinks.size + 1)
    pending = np.flatnonzero(values < 0.0).tolist()
    while pending:
        kink = pending.pop()
        mass, left, right = float(values[kink]), int(before[kink]), int(after[kink])
        if mass >= 0.0:
            continue
        values[kink] = 0.0
        if right < kinks.size:
            before[right] = left
        if left >= 0:
            after[left] = right
        for index, share in _neighbour_shares(kinks, left, kink, right, width):
            values[index] += mass * share
            if values[index] < 0.0:
                pending.append(index)
    result = np.zeros(masses.size)
    result[kinks] = np.maximum(values, 0.0)
    return result


def _neighbour_shares(
    kinks: IndexArray, left: int, kink: int, right: int, width: float
) -> tuple[tuple[int, float], ...]:
    """Return the neighbours of a removed kink and their shares of its P mass.

    Left of the first kink the line runs to alpha = 0, where Q mass carries no P mass.
    """
    if right >= kinks.size:
        return ((left, 2.0),) if left >= 0 else ()
    y = width * float(kinks[right] - kinks[kink])
    if left < 0:
        return ((right, 1.0),)
    x = width * float(kinks[kink] - kinks[left])
    over = -math.expm1(-(x + y))
    return (
        (left, math.exp(-x) * -math.expm1(-y) / over),
        (right, -math.expm1(-x) / over),
    )
