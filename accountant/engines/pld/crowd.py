"""Lower-bound pairs for truncated samples: all other units at one point.

All other units contribute the same vector v of norm 1.  Seen along v, the sum of the others tells,
through the noise, how many of them are in the sample; the unit contributes a, or nothing, or b.
In the terms of truncated.py, on the plane of v and a,

    P = sum_{k<B} p_k ((1-q) N(k v) + q N(k v + a)) + (P(N >= B) - f) N(B v) + f N((B-1) v + a),

and Q likewise with b, or with k v and B v where P has the unit.  Under add-remove a unit at -v is
two bounds from the one that it replaces in a full sample, but hidden by the spread of N in all
others; a unit across v is not hidden there, and in a full sample the root of two from the one that
it replaces.  So a = -c v + s w, w across v, is tried for some c, and under replace-one b = -a:
which c shows most depends on delta and on the number of rounds.  Under Laplace noise norms are sums
of absolute values, and s = 1 - c.  In searches over data sets of few units, each other unit at a
point of its own, none showed more than that.

What falls into cells of the plane is a post-processing of the release: every design is attained,
and any choice among them is sound.  Cells of nearly the same loss are merged.

Source: derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...amplification.truncation import JoinDistribution
from ...arrays import FloatArray
from ...guarantee import Neighbours
from .atoms import AtomPair
from .noise import UNIT_ROUNDOFF, AdditiveNoise, GaussianNoise
from .pair import Pair

CROWD_OFFSETS: Final = (0.0, 0.2, 0.4, 0.7, 1.0)
"""How far along -v the unit lies."""

CELLS_PER_BOUND: Final = 8.0
"""How many cells a bound, or a standard deviation if that is less, is cut into."""

MAX_CROWD_CELLS: Final = 26_000
"""Most cells along v."""

CROWD_TAIL_MASS: Final = 1e-32
"""Mass that may lie beyond the outermost cells, and in numbers that are left out."""

MIN_CELL_MASS: Final = 1e-20
"""Cells with less mass are dropped."""

MERGED_LOSS_SHARE: Final = 0.03
"""Losses this close, as a share of their usual size, are taken together."""


@dataclass(frozen=True, eq=False)
class _Plane:
    """Noise in cells along v and across it, and how many others there are.

    A bound is cut into `cells_per_bound` cells along v; `masses` are the likely ones of N up to B -
    1.
    """

    noise: AdditiveNoise
    cells_per_bound: int
    masses: FloatArray
    joining: JoinDistribution
    rate: float

    def along(self, weights: FloatArray, shift: float) -> FloatArray:
        """Return the masses of the cells along v; `weights` are those of successive numbers."""
        # The sum of others is a whole number of bounds, each `cells_per_bound` cells; then the
        # noise is added.
        spread = np.zeros((weights.size - 1) * self.cells_per_bound + 1)
        spread[:: self.cells_per_bound] = weights
        reach = math.ceil((self.noise.radius(CROWD_TAIL_MASS) + 1.0) * self.cells_per_bound)
        edges = np.arange(-reach, reach + 1) / self.cells_per_bound
        edges[0], edges[-1] = -math.inf, math.inf
        return np.convolve(spread, np.exp(self.noise.log_interval_masses(edges - shift)))

    def across(self, shift: float) -> FloatArray:
        """Return the masses of the cells across v."""
        reach = self.noise.radius(CROWD_TAIL_MASS)
        width = self.noise.scale / CELLS_PER_BOUND
        edges = np.arange(-reach - 1.0 - width, reach + 1.0 + width, width)
        edges[0], edges[-1] = -math.inf, math.inf
        return np.exp(self.noise.log_interval_masses(edges - shift))

    def pair(self, unit: tuple[float, float], other: tuple[float, float] | None) -> Pair | None:
        """Return the pair of a unit at `unit` against `other` (along v, across), or absent."""
        joining, rate = self.joining, self.rate
        # Weights of 0, ..., B - 1 others and of a full sample: in all, without the unit, with it.
        # Beside a unit in a full sample B - 1 others stay.
        all_counts = np.append(self.masses, joining.full)
        outside = np.append(self.masses * (1.0 - rate), joining.full - joining.joined)
        inside = np.append(self.masses * rate, 0.0)
        inside[-2] += joining.joined
        across_zero = self.across(0.0)
        rest = np.outer(self.along(outside, 0.0), across_zero)
        p = rest + np.outer(self.along(inside, unit[0]), self.across(unit[1]))
        if other is None:
            q = np.outer(self.along(all_counts, 0.0), across_zero)
        else:
            q = rest + np.outer(self.along(inside, other[0]), self.across(other[1]))
        # The relative error of a cell: of the weights, of the sums, of the noise, of what is cut
        # off.
        full_error = joining.error * (1.0 + joining.full / (joining.full - joining.joined))
        terms = UNIT_ROUNDOFF * (8.0 * all_counts.size + 64.0)
        reach = self.noise.radius(CROWD_TAIL_MASS) + 3.0
        error = (
            2.0 * full_error
            + terms
            + 4.0 * self.noise.mass_error(reach)
            + CROWD_TAIL_MASS / MIN_CELL_MASS
        )
        return _merged(p.ravel(), q.ravel(), error)


def crowd_pairs(
    noise: AdditiveNoise,
    population: int,
    rate: float,
    batch: int,
    neighbours: Neighbours,
) -> list[Pair]:
    """Return the attained pairs of all designs, none where there are too many cells.

    `rate` is in (0, 1) and `batch` below `population`.
    """
    plane = _plane(noise, population, rate, batch)
    if plane is None:
        return []
    candidates: list[Pair | None] = []
    for c in CROWD_OFFSETS:
        s = math.sqrt(1.0 - c * c) if isinstance(noise, GaussianNoise) else 1.0 - c
        s = max(s - 1e-12, 0.0)  # so that the norm is at most 1
        candidates.append(plane.pair((-c, s), _other(neighbours, c, s)))
    return [pair for pair in candidates if pair is not None]


def _other(neighbours: Neighbours, c: float, s: float) -> tuple[float, float] | None:
    """Return where the unit is under Q: absent, at 0, or opposite to where it is under P."""
    if neighbours == "add-remove":
        return None
    return (0.0, 0.0) if neighbours == "zero-out" else (c, -s)


def _plane(noise: AdditiveNoise, population: int, rate: float, batch: int) -> _Plane | None:
    joining = JoinDistribution.of(population, rate, batch)
    if joining is None or not joining.full > joining.joined > 0.0:
        return None
    likely = np.cumsum(joining.masses) > CROWD_TAIL_MASS
    likely_masses = joining.masses[likely] if likely.any() else np.zeros(1)
    cells_per_bound = math.ceil(CELLS_PER_BOUND / min(noise.scale, 1.0))
    cells = (likely_masses.size + 2.0 * noise.radius(CROWD_TAIL_MASS)) * cells_per_bound
    if (
        cells > MAX_CROWD_CELLS
        or 2.0 * noise.radius(CROWD_TAIL_MASS) * CELLS_PER_BOUND / noise.scale > MAX_CROWD_CELLS
    ):
        return None
    return _Plane(noise, cells_per_bound, likely_masses, joining, rate)


def _merged(p: FloatArray, q: FloatArray, error: float) -> Pair | None:
    heavy = (p > MIN_CELL_MASS) & (q > MIN_CELL_MASS)
    p, q = p[heavy], q[heavy]
    if p.size == 0:
        return None
    losses = np.log(p / q)
    # Cells whose losses fall into one bin are one outcome: a post-processing, so still attained.
    width = MERGED_LOSS_SHARE * math.sqrt(float((p * losses**2).sum())) + 1e-12
    bins = np.round(losses / width).astype(np.int64)
    order = np.argsort(bins, kind="stable")
    starts = np.unique(bins[order], return_index=True)[1]
    log_p, log_q = (np.log(np.add.reduceat(each[order], starts)) for each in (p, q))
    error += UNIT_ROUNDOFF * (p.size + 64.0)
    return Pair.of_outcomes(AtomPair(log_p, log_q, has_heavy_atoms=False, rounding=2.0 * error))
