"""Bounds on the distribution of a mean of independent likelihood ratios, on a lattice.

Where a unit hides in one of t places, the two outputs have the likelihood ratio

    W = (A_1 + ... + A_t) / t,   A_i independent, positive, of mean 1 without the unit.

**Upper.** A pair is dominated by another when the distribution of its ratio, without the unit, is
smaller in the convex order, and that order survives sums of independent terms.  So a distribution
may be replaced by a mean-preserving spread of it: a value between two points of a lattice is drawn
to them with the probabilities that keep its mean.  The values of the final distribution, taken as
ratios, make a pair that dominates.

**Lower.** The same drawing is a post-processing of the release.  So its distribution with the unit,
carried along with that without it, makes a pair that the release attains.

Sums of lattice points are lattice points, so t terms cost a spread only where the lattice must get
coarser:

* a distribution lives on multiples of h 2^c in zones that begin where it begins: c grows by one
  from zone
  to zone, the zone around the mean has most points, and those of its upper tail, which is heavy,
  and of its lower end, which may lie near 0, have few each;
* t terms are reached by doubling.  Zones are combined two by two on the coarser of their lattices.

What is so unlikely that it does not matter is left out, and its mass bounded.  No term is negative
anywhere, so rounding stays relative: `rounding` bounds it.

Derived here.  Source of the question: Feldman, Shenfeld 2025, arXiv 2502.08202; Chua et al. 2024,
arXiv 2412.16802.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ....arrays import FloatArray
from ..grid.noise import UNIT_ROUNDOFF

MEAN_ZONE_POINTS: Final = 2048
"""How many points the zone around the mean has; those above it have half as many."""

LOW_ZONE_SHARE: Final = 8
"""How many times fewer points a zone below the one around the mean has."""

COARSE_POINTS: Final = 256
"""Points of the zone around the mean that lose a lower bound about 1e-4, in a tenth of the time."""

RATIO_TAIL_MASS: Final = 1e-34
"""Mass that one step may leave out, on each side, over all terms together."""


@dataclass(frozen=True, eq=False)
class Zone:
    """Masses on consecutive multiples of 2^level, from the multiple `first` on.

    Row 0 of `masses` is without the unit, row 1 with it.
    """

    level: int
    first: int
    masses: FloatArray

    @property
    def positions(self) -> FloatArray:
        """Where the masses are, in units of h: integers, exact as floats."""
        count = self.masses.shape[1]
        return np.ldexp(self.first + np.arange(count, dtype=np.float64), self.level)


@dataclass(frozen=True, eq=False)
class RatioSum:
    """Bounds on the distribution of A_1 + ... + A_n: masses on zones of a lattice of spacing `h`,
    ascending.

    Position x of the lattice stands for the sum n `origin` + x h.  The distribution is meant for a
    sum of `total_terms` terms in the end.  `lost_p` and `lost_q` bound what was left out: its mass
    weighed by the mean of the ratios, and plainly.  `rounding` bounds the relative error of the
    masses.  The zone around the mean has `points` points, at most `MEAN_ZONE_POINTS`.
    """

    zones: tuple[Zone, ...]
    h: float
    count: int
    total_terms: int
    origin: float = 0.0
    lost_p: float = 0.0
    lost_q: float = 0.0
    rounding: float = 0.0
    points: int = MEAN_ZONE_POINTS

    def plus(self, other: RatioSum) -> RatioSum:
        """Return the distribution of the sum with an independent one; the unit is in any one
        term."""
        n, m = self.count, other.count
        # The unit is in one of the first n terms with probability n / (n + m).
        share = n / (n + m)
        positions, masses = _flattened(_products(self.zones, other.zones, share))
        # Where a term is left out, the other has mean 1.
        lost_p = share * (self.lost_p + other.lost_q) + (1.0 - share) * (other.lost_p + self.lost_q)
        levels = self.zones[-1].level + other.zones[-1].level
        return RatioSum(
            (),
            self.h,
            n + m,
            self.total_terms,
            self.origin,
            lost_p,
            self.lost_q + other.lost_q,
            # A convolution adds up at most the points of a zone, a coarser lattice three terms.
            self.rounding
            + other.rounding
            + UNIT_ROUNDOFF * (4.0 * MEAN_ZONE_POINTS + 4.0 * levels + 64.0),
            self.points,
        ).with_masses(positions, masses)

    def times(self, count: int) -> RatioSum:
        """Return the distribution of the sum of `count` independent copies, by doubling."""
        doubled, total = self, None
        while True:
            if count & 1:
                total = doubled if total is None else total.plus(doubled)
            count >>= 1
            if not count:
                assert total is not None
                return total
            doubled = doubled.plus(doubled)

    def with_masses(self, positions: FloatArray, masses: FloatArray) -> RatioSum:
        """Return this distribution with the given masses, spread onto zones that fit them."""
        order = np.argsort(positions, kind="stable")
        positions, masses = positions[order], masses[:, order]
        # Of RATIO_TAIL_MASS this sum may leave out count / whole on each side: mass without the
        # unit below, mass times its ratio above.
        plain = masses[0]
        weighed = plain * self.ratios(positions)
        allowed = RATIO_TAIL_MASS * self.count / self.total_terms
        below, above = np.cumsum(plain), np.cumsum(weighed[::-1])
        first = min(int(np.searchsorted(below, allowed, side="right")), plain.size - 1)
        last = max(plain.size - int(np.searchsorted(above, allowed, side="right")), first + 1)
        # What is left out counts in full on both measures.
        ends = np.r_[0:first, last : plain.size]
        offset = self.count * self.origin / self.h
        mean = self.count / self.h - offset
        levels = zone_levels(float(positions[first]), mean, offset, self.points)
        sizes = _zone_sizes(levels, self.points)
        zones_and_counts = list(_zones(positions[first:last], masses[:, first:last], sizes))
        max_points = max(max_points for _, max_points in zones_and_counts)
        return replace(
            self,
            zones=tuple(zone for zone, _ in zones_and_counts),
            lost_p=self.lost_p + 1.001 * float(weighed[ends].sum()),
            lost_q=self.lost_q + 1.001 * float(plain[ends].sum()),
            rounding=self.rounding + UNIT_ROUNDOFF * (2.0 * max_points + 8.0),
        )

    def ratios_and_masses(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the ratios W, and their masses without and with the unit."""
        positions, masses = _flattened(self.zones)
        return self.ratios(positions), masses[0], masses[1]

    def ratios(self, positions: FloatArray) -> FloatArray:
        """Return the mean ratios W that positions stand for."""
        return self.origin + positions * (self.h / self.count)


def zone_levels(
    start: float, mean: float, offset: float = 0.0, count: int = MEAN_ZONE_POINTS
) -> tuple[int, int]:
    """Return the levels of the first zone and of the one around the mean, of `count` points.

    A step there is so large that the zone reaches about as far above the mean as the distribution
    begins below it; at the start of the distribution, it is at most a 64th of the sum there, x +
    `offset`.
    """
    middle = math.floor(math.log2(max(2.0 * (mean - start) / count, 1.0)))
    first = math.floor(math.log2(max((start + offset) / 64.0, 1.0)))
    return min(first, middle), middle


def _zone_sizes(levels: tuple[int, int], count: int) -> Iterator[tuple[int, int]]:
    """Return level after level, and how many points its zone has: `count` around the mean."""
    first, middle = levels
    for level in itertools.count(first):
        if level < middle:
            yield level, count // LOW_ZONE_SHARE
        else:
            yield level, count if level == middle else count // 2


def lattice(
    first: float, last: float, mean: float, offset: float = 0.0, count: int = MEAN_ZONE_POINTS
) -> FloatArray:
    """Return the points of the zones from `first` to `last`, in units of h.

    The zone around the mean has `count` of them.
    """
    levels = zone_levels(first, mean, offset, count)
    start, points = math.floor(math.ldexp(first, -levels[0])), []
    for level, size in _zone_sizes(levels, count):
        if math.ldexp(float(start), level) > last:
            points.append(np.array([math.ldexp(float(start), level)]))
            break
        end = (start + size + 1) & ~1
        points.append(np.ldexp(np.arange(start, end, dtype=np.float64), level))
        start = end >> 1
    return np.concatenate(points)


def _flattened(zones: Iterable[Zone]) -> tuple[FloatArray, FloatArray]:
    parts = [(zone.positions, zone.masses) for zone in zones]
    positions = np.concatenate([each for each, _ in parts])
    masses = np.concatenate([each for _, each in parts], axis=1)
    positive = masses[0] > 0.0
    return positions[positive], masses[:, positive]


def _zones(
    positions: FloatArray, masses: FloatArray, sizes: Iterator[tuple[int, int]]
) -> Iterator[tuple[Zone, int]]:
    """Return zones of ascending positions, and how many of these a point stands for at most.

    `sizes` are levels and numbers of points.  Positions that are not on the lattice of their zone
    are spread.
    """
    done = 0
    carried = np.zeros(2)  # spread from the zone below onto the first point of this one
    start: int | None = None
    for level, size in sizes:
        if start is None:
            start = math.floor(math.ldexp(float(positions[0]), -level))
        if done == positions.size and not carried.any():
            return
        # In units of 2^level; even, so that the next zone begins on its own lattice.
        end = (start + size + 1) & ~1
        stop = int(np.searchsorted(positions, math.ldexp(float(end), level), side="left"))
        spread, max_points = _spread(positions[done:stop], masses[:, done:stop], level, start, end)
        spread[:, 0] += carried
        carried, done = spread[:, -1].copy(), stop
        yield Zone(level, start, spread[:, :-1]), max_points
        start = end >> 1


def _spread(
    positions: FloatArray, masses: FloatArray, level: int, start: int, end: int
) -> tuple[FloatArray, int]:
    """Return the masses on the multiples start..end of 2^level, split between neighbours.

    And how many positions lie between two neighbours at most.
    """
    # x between two lattice points goes up with probability frac(x): its mean is kept, so this is
    # a mean-preserving spread (upper bound) and a post-processing (lower bound).
    scaled = np.ldexp(positions, -level)
    floors = np.floor(scaled)
    share = scaled - floors
    left = (floors - start).astype(np.intp)
    result = np.zeros((2, end - start + 1))
    for row, mass in zip(result, masses, strict=True):
        row += np.bincount(left, mass * (1.0 - share), end - start + 1)
        row[1:] += np.bincount(left, mass * share, end - start)
    return result, int(np.bincount(left, minlength=1).max())


def _products(left: Sequence[Zone], right: Sequence[Zone], share: float) -> Iterator[Zone]:
    """Return the convolution, each pair of zones on the coarser of the two lattices.

    The unit is in `left` with probability `share`, else in `right`.
    """
    left_zones, right_zones = ({zone.level: zone for zone in zones} for zones in (left, right))
    lower_left: Zone | None = None
    lower_right: Zone | None = None
    for level in range(min(*left_zones, *right_zones), max(*left_zones, *right_zones) + 1):
        here_left, here_right = left_zones.get(level), right_zones.get(level)
        lower_left, lower_right = _coarsened(lower_left, level), _coarsened(lower_right, level)
        # Each pair of zones once: equal levels, and a zone with all lower ones brought to its
        # lattice.
        for a, b in ((here_left, lower_right), (lower_left, here_right), (here_left, here_right)):
            if a is not None and b is not None:
                yield Zone(level, a.first + b.first, _product(a.masses, b.masses, share))
        lower_left, lower_right = _merged(lower_left, here_left), _merged(lower_right, here_right)


def _product(left: FloatArray, right: FloatArray, share: float) -> FloatArray:
    # Without the unit both are plain; with it, the unit is on one side or on the other.
    plain = np.convolve(left[0], right[0])
    with_unit = share * np.convolve(left[1], right[0]) + (1.0 - share) * np.convolve(
        left[0], right[1]
    )
    return np.stack((plain, with_unit))


def _coarsened(zone: Zone | None, level: int) -> Zone | None:
    if zone is None or zone.level == level:
        return zone
    positions = zone.positions
    start = math.floor(math.ldexp(float(positions[0]), -level))
    end = math.floor(math.ldexp(float(positions[-1]), -level)) + 1
    return Zone(level, start, _spread(positions, zone.masses, level, start, end)[0])


def _merged(lower: Zone | None, upper: Zone | None) -> Zone | None:
    """Return the sum of two zones of the same level."""
    if lower is None or upper is None:
        return lower if upper is None else upper
    first = min(lower.first, upper.first)
    last = max(zone.first + zone.masses.shape[1] for zone in (lower, upper))
    masses = np.zeros((2, last - first))
    for zone in (lower, upper):
        masses[:, zone.first - first :][:, : zone.masses.shape[1]] += zone.masses
    return Zone(lower.level, first, masses)
