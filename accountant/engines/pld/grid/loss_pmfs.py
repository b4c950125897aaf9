"""Discretize a pair's loss on a grid: a pmf that dominates the pair, and one that it dominates.

Write h(alpha) = sum over outcomes of (P - alpha Q)+ for the pair's hockey stick, a convex
function, and alpha_j = e^(l_j) for the grid.  A pmf that puts P mass p_j on the loss l_j has the
hockey stick sum_j p_j (1 - alpha / alpha_j)+, convex and piecewise linear with kinks at alpha_j
only.  So

* an upper pmf interpolates h between the alpha_j: every chord lies above h (connect the dots);
* a lower pmf lies below h.  The chords are lowered at each alpha_j by g_j, at least the largest
  excess of the two chords that meet there over tangents of h, so that each lowered chord lies below
  those tangents, hence below h; then the result is made convex again from below.

Both are second order in the grid width.  Hockey sticks that are ordered at every alpha stay
ordered under composition, round by round, so both survive any number of rounds.  The chords are
not computed from values of h, which would cancel, but from the P and Q mass in each interval:
a chord is the same as moving that mass to the two ends so that both masses are kept.

Source: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi, "Connect the Dots" (arXiv 2207.04380), for
the upper pmf; the lower pmf is derived above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ....arrays import FloatArray, IndexArray
from .loss_grid import Grid, LossPmf, chord_excess, upward_share
from .lower_hull import lower_hull
from .pair import Pair
from .pair_parts import AtomPair, ContinuousPart

LEAST_MASS: Final = 5e-324
"""The smallest mass above 0 that a float can be."""

LEAST_LOWER_MASS: Final = 1e-300
"""Below, among the smallest floats, relative errors have no bound: a lower pmf has no mass."""


def upper_pmf(pair: Pair, grid: Grid, tail: float) -> LossPmf:
    """Return a pmf that dominates `pair`; `tail` bounds the mass that is moved to infinity."""
    # Atoms then lie just below a grid point, and move up by no more than rounding.
    if pair.grid_atoms and pair.support_end is None:
        grid = _grid_next_to_atoms(pair, grid.width, tail, +1.0)
    first, last = grid.covering(*pair.loss_range(tail))
    edges = grid.points(first, last)
    masses = np.zeros(edges.size)
    beyond = pair.infinite_mass + pair.omitted_mass
    if beyond == 0.0 and math.isinf(pair.largest_loss):
        beyond = LEAST_MASS  # what underflows is rounded up
    if pair.continuous is not None:
        log_p, log_q = pair.continuous.log_masses(edges)
        # The chord over each interval, shape (edges - 1,): P mass goes to both ends such that the
        # Q mass is kept.  A share that is rounded up puts more on the larger loss, which raises
        # h.
        inside = np.exp(log_p[1:-1])
        up = upward_share(log_p[1:-1], log_q[1:-1], edges[:-1], grid.width)
        up = np.minimum(up + _share_error(pair.continuous, edges, grid.width, inside, tail), 1.0)
        masses[:-1] += inside * (1.0 - up)
        masses[1:] += inside * up
        # Mass below the grid moves up to its first point, mass above it to an infinite loss.
        masses[0] += math.exp(log_p[0])
        beyond += math.exp(log_p[-1])
    if pair.atoms is not None:
        split = _AtomSplit.of(pair.atoms, edges, grid.width)
        masses[:-1] += split.sums(split.to_left)
        masses[1:] += split.sums(split.to_right)
        masses[0] += split.below
        beyond += split.above
    # Masses are raised by the bound on their relative error.
    inflation = 1.0 + pair.mass_error(tail)
    return LossPmf(
        grid, first, masses * inflation, min(beyond * inflation, 1.0), 2.0 * pair.edge_error(tail)
    )


def lower_pmf(pair: Pair, grid: Grid, tail: float) -> LossPmf:
    """Return a pmf that `pair` dominates; `tail` bounds the mass that is dropped on each side.

    The offset of the grid is replaced where another one loses less: at an end of the support where
    mass gathers, and just below heavy atoms, which would otherwise be lowered by a whole grid
    width.
    """
    if pair.support_end is not None and pair.continuous is not None:
        grid = _balanced_grid(pair.continuous, pair.support_end, grid.width)
    elif pair.grid_atoms:
        grid = _grid_next_to_atoms(pair, grid.width, tail, -1.0)
    first, last = grid.covering(*pair.loss_range(tail))
    edges = grid.points(first, last)
    # Chords and their excess over tangents of h, shape (edges - 1,), summed over the continuous
    # part and the atoms.  Mass beyond the grid is dropped, which lowers h.
    to_left, to_right = np.zeros(edges.size - 1), np.zeros(edges.size - 1)
    excess = np.zeros(edges.size - 1)
    if pair.continuous is not None:
        left, right, over = _smooth_chords(pair.continuous, grid, first, last, tail)
        to_left, to_right, excess = to_left + left, to_right + right, excess + over
    if pair.atoms is not None:
        split = _AtomSplit.of(pair.atoms, edges, grid.width)
        to_left, to_right = (
            to_left + split.sums(split.to_left),
            to_right + split.sums(split.to_right),
        )
        excess = excess + split.excess()
    # A little more depth and a little less mass than computed: the bound stays a lower one.
    masses = lower_hull(to_left, to_right, excess * (1.0 + 1e-6), grid.width)
    masses *= 1.0 - pair.mass_error(tail)
    return LossPmf(grid, first, masses, certain_mass(pair), 2.0 * pair.edge_error(tail))


def certain_mass(pair: Pair) -> float:
    """Return the P mass at an infinite loss, rounded down."""
    infinite = pair.infinite_mass * (1.0 - 1e-12)
    return infinite if infinite >= LEAST_LOWER_MASS else 0.0


def _smooth_chords(
    pair: ContinuousPart, grid: Grid, first: int, last: int, tail: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what the chords put on the two ends of each interval, and their excess."""
    width = grid.width
    halves = Grid(width / 2.0, grid.offset).points(2 * first, 2 * last)
    edges = halves[::2]
    # Masses of the halves of the intervals, shape (2 (edges - 1),): tangents at ends and middle.
    log_p, log_q = (logs[1:-1] for logs in pair.log_masses(halves))
    inside_p = np.logaddexp(log_p[::2], log_p[1::2])
    inside_q = np.logaddexp(log_q[::2], log_q[1::2])
    inside = np.exp(inside_p)
    error = _share_error(pair, edges, width, inside, tail)
    # A share that is rounded down puts less on the larger loss, which lowers h.
    up = np.maximum(upward_share(inside_p, inside_q, edges[:-1], width) - error, 0.0)
    to_left, to_right = inside * (1.0 - up), inside * up
    excess = chord_excess(log_p, log_q, edges, to_left, to_right)
    return to_left, to_right, excess + 4.0 * error * width * inside


@dataclass(frozen=True, eq=False)
class _AtomSplit:
    """Outcomes placed into the intervals of a grid, each split between the ends by itself.

    Nothing cancels, so an outcome keeps its digits next to a much heavier one.
    """

    interval: IndexArray
    count: int
    width: float
    masses: FloatArray
    steps: FloatArray  # loss above the left end
    below: float
    above: float

    @classmethod
    def of(cls, pair: AtomPair, edges: FloatArray, width: float) -> _AtomSplit:
        # Interval (e_j, e_j+1] of each outcome; -1 and edges - 1 stand for those beyond the grid.
        interval = np.searchsorted(edges, pair.losses, side="left") - 1
        inside = (interval >= 0) & (interval < edges.size - 1)
        indices = interval[inside]
        return cls(
            indices,
            edges.size - 1,
            width,
            pair.masses[inside],
            np.clip(pair.losses[inside] - edges[indices], 0.0, width),
            float(pair.masses[interval < 0].sum()),
            float(pair.masses[interval >= edges.size - 1].sum()),
        )

    @property
    def to_right(self) -> FloatArray:
        """What each outcome puts on the right end."""
        # The share (1 - e^-s) / (1 - e^-w) keeps P and Q mass of an outcome s above the left end.
        return self.masses * np.expm1(-self.steps) / math.expm1(-self.width)

    @property
    def to_left(self) -> FloatArray:
        """What each outcome puts on the left end."""
        rest = np.expm1(self.steps - self.width) / math.expm1(-self.width)
        return self.masses * np.exp(-self.steps) * rest

    def sums(self, amounts: FloatArray) -> FloatArray:
        """Return the sums of `amounts` by interval."""
        sums: FloatArray = np.bincount(self.interval, amounts, minlength=self.count).astype(
            np.float64
        )
        return sums

    def excess(self) -> FloatArray:
        """Return the excess of each chord over tangents at ends and middle; see `chord_excess`."""
        # r / alpha_left - 1 and 1 - r / alpha_right, r the likelihood ratio of the left (right)
        # half of each interval, as quotients of sums in which nothing cancels.
        at_left = self.steps <= 0.5 * self.width
        p, fall = self.masses, np.exp(-self.steps)
        rise = np.exp(self.width - self.steps)
        left = _ratio(
            self.sums(np.where(at_left, p * -np.expm1(-self.steps), 0.0)),
            self.sums(np.where(at_left, p * fall, 0.0)),
        )
        right = _ratio(
            self.sums(np.where(at_left, 0.0, p * np.expm1(self.width - self.steps))),
            self.sums(np.where(at_left, 0.0, p * rise)),
        )
        return np.maximum(self.sums(self.to_left) * left, self.sums(self.to_right) * right)


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0.0)


def _balanced_grid(pair: ContinuousPart, end: tuple[float, float], width: float) -> Grid:
    """Return the grid whose first point near the end of the support needs no extra depth.

    If that point is close to the end, h is hardly above its last line there and the next point must
    be lowered to a tangent; if it is far, the point itself is lowered by all that lies beyond it.
    In between, the two depths are equal.
    """
    fractions = np.geomspace(1e-12, 1.0, 97)
    count = fractions.size
    at_end, sign = end
    points = at_end - sign * width * fractions
    # Points, and the middles and ends of the interval next to them on the inner side.
    edges = np.concatenate([points - sign * width * part for part in (0.0, 0.5, 1.0)])
    order = np.argsort(edges)
    log_p, log_q = pair.log_masses(edges[order])
    # rank[i] is the place of edge i in ascending order, an index into the cumulative masses.
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    p_up_to, q_up_to = np.cumsum(np.exp(log_p)), np.cumsum(np.exp(log_q))

    def between(low: IndexArray, high: IndexArray) -> tuple[FloatArray, FloatArray]:
        return p_up_to[high] - p_up_to[low], q_up_to[high] - q_up_to[low]

    # At each candidate: the `room` of h above its last (or first) line, and the masses of the two
    # halves of the interval on the inner side.
    first, middle, last = rank[:count], rank[count : 2 * count], rank[2 * count :]
    if sign > 0:
        beyond_p, beyond_q = p_up_to[-1] - p_up_to[first], q_up_to[-1] - q_up_to[first]
        room = beyond_p - np.exp(points) * beyond_q
        inner = (between(last, middle), between(middle, first))
        left = points - width
    else:
        room = np.exp(points) * q_up_to[first] - p_up_to[first]
        inner = (between(first, middle), between(middle, last))
        left = points
    (p_left, q_left), (p_right, q_right) = inner
    p, q = p_left + p_right, q_left + q_right
    # The chord over that interval and its excess, as in loss_grid.py.
    up = (p - np.exp(left) * q) / -math.expm1(-width)
    with np.errstate(divide="ignore", invalid="ignore"):
        at_left = (p - up) * (p_left / q_left / np.exp(left) - 1.0)
        at_right = up * (1.0 - p_right / q_right / np.exp(left + width))
    excess = np.fmax(np.fmax(at_left, at_right), 0.0)
    # Where the two depths are nearest, as logarithms; any candidate is sound.
    best = int(
        np.argmin(np.abs(np.log(np.maximum(room, 1e-300)) - np.log(np.maximum(excess, 1e-300))))
    )
    return Grid(width, float(points[best]))


def _grid_next_to_atoms(pair: Pair, width: float, tail: float, sign: float) -> Grid:
    """Return the grid whose points lie right next to the atoms: above (+1) or below (-1) them.

    An upper pmf then moves an atom up by no more than rounding, and a lower pmf does not have to
    move it down by a whole grid width.
    """
    steps = np.array(pair.grid_atoms) - pair.grid_atoms[0]
    misfit = sign * (steps - width * np.round(steps / width))
    shift = float(misfit.max()) + 8.0 * pair.edge_error(tail)
    return Grid(width, pair.grid_atoms[0] + sign * shift)


def _share_error(
    pair: ContinuousPart, edges: FloatArray, width: float, inside: FloatArray, tail: float
) -> FloatArray:
    """Return the error of each share: of the two masses, and of the edges between them.

    P and Q masses are computed for edges that may differ between them by `edge_mismatch`, which
    moves mass at the density around the edge.  That is no more than the lighter of the two
    intervals there has on average, times 16 for a density that changes inside an interval.
    """
    lighter = np.concatenate((inside[:1], np.minimum(inside[:-1], inside[1:]), inside[-1:]))
    moved = 16.0 * pair.edge_mismatch(edges) * lighter / width
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(inside > 0.0, (moved[:-1] + moved[1:]) / inside, 0.0)
    return (relative + 2.0 * pair.mass_error(tail)) / -math.expm1(-width)
