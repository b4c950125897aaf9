"""Lower pairs for samples that are cut: all others at one point, where a unit can be missed.

All other units contribute the same vector v of norm 1.  Seen along v, the sum of the others tells,
through the noise, how many of them are in the sample; the unit contributes a, or nothing, or b.
In the terms of truncated.py, on the plane of v and a,

    P = sum_{k<B} p_k ((1-q) N(k v) + q N(k v + a)) + (P(N >= B) - f) N(B v) + f N((B-1) v + a),

and Q likewise with b, or with k v and B v where P has the unit.  Under add-remove a unit at -v is
two bounds from the one that it replaces in a full sample, but hidden by the spread of N in all
others; a unit across v is not hidden there, and in a full sample the root of two from the one that
it replaces.  So a = -c v + s w, w across v, is tried for some c.  Under Laplace noise norms are
sums of absolute values, and s = 1 - c.

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
from ...guarantee import Neighbours
from .atoms import AtomPair
from .noise import UNIT_ROUNDOFF, Array, GaussianNoise, LaplaceNoise
from .pair import Pair

TOWARDS: Final = (0.0, 0.2, 0.5, 0.8, 1.0)
"""How far along -v the unit lies."""

CELLS: Final = 5.0
"""How many cells a bound, or a standard deviation if that is less, is cut into."""

MOST_CELLS: Final = 1 << 14
"""Most cells along v."""

CUT: Final = 1e-32
"""Mass that may lie beyond the outermost cells, and in numbers that are left out."""

LEAST: Final = 1e-20
"""Cells with less mass are dropped."""

MERGED: Final = 0.03
"""Losses this close, as a share of their usual size, are taken together."""


@dataclass(frozen=True, eq=False)
class _Plane:
    """Noise in cells along v and across it, and how many others there are.

    A bound is cut into `parts` cells along v; `masses` are the likely ones of N up to B - 1.
    """

    noise: GaussianNoise | LaplaceNoise
    parts: int
    masses: Array
    joining: JoinDistribution
    rate: float

    def along(self, weights: Array, shift: float) -> Array:
        """Return the masses of the cells along v; `weights` are those of successive numbers."""
        spread = np.zeros((weights.size - 1) * self.parts + 1)
        spread[:: self.parts] = weights
        reach = math.ceil((self.noise.radius(CUT) + 1.0) * self.parts)
        edges = np.arange(-reach, reach + 1) / self.parts
        edges[0], edges[-1] = -math.inf, math.inf
        return np.convolve(spread, np.exp(self.noise.log_interval_masses(edges - shift)))

    def across(self, shift: float) -> Array:
        """Return the masses of the cells across v."""
        reach = self.noise.radius(CUT)
        width = self.noise.scale / CELLS
        edges = np.arange(-reach - 1.0 - width, reach + 1.0 + width, width)
        edges[0], edges[-1] = -math.inf, math.inf
        return np.exp(self.noise.log_interval_masses(edges - shift))

    def pair(self, one: tuple[float, float], other: tuple[float, float] | None) -> Pair | None:
        """Return the pair of a unit at `one` against `other` (along v, across), or absent."""
        joining, rate = self.joining, self.rate
        whole = np.append(self.masses, joining.full)
        outside = np.append(self.masses * (1.0 - rate), joining.full - joining.joined)
        inside = np.append(self.masses * rate, 0.0)
        inside[-2] += joining.joined
        still = self.across(0.0)
        rest = np.outer(self.along(outside, 0.0), still)
        p = rest + np.outer(self.along(inside, one[0]), self.across(one[1]))
        if other is None:
            q = np.outer(self.along(whole, 0.0), still)
        else:
            q = rest + np.outer(self.along(inside, other[0]), self.across(other[1]))
        full_error = joining.error * (1.0 + joining.full / (joining.full - joining.joined))
        terms = UNIT_ROUNDOFF * (8.0 * whole.size + 64.0)
        reach = self.noise.radius(CUT) + 3.0
        error = 2.0 * full_error + terms + 4.0 * self.noise.mass_error(reach) + CUT / LEAST
        return _merged(p.ravel(), q.ravel(), error)


def crowd_pairs(
    noise: GaussianNoise | LaplaceNoise,
    population: int,
    rate: float,
    batch: int,
    neighbours: Neighbours,
) -> list[Pair]:
    """Return the attained pairs of all designs, none where the numbers are too many to list.

    `rate` is in (0, 1) and `batch` below `population`.
    """
    plane = _plane(noise, population, rate, batch)
    if plane is None:
        return []
    found: list[Pair | None] = []
    for c in TOWARDS:
        s = math.sqrt(1.0 - c * c) if isinstance(noise, GaussianNoise) else 1.0 - c
        s = max(s - 1e-12, 0.0)  # so that the norm is at most 1
        found += [plane.pair((-c, s), other) for other in _others(neighbours, c, s)]
    return [pair for pair in found if pair is not None]


def _others(neighbours: Neighbours, c: float, s: float) -> list[tuple[float, float] | None]:
    """Return where the unit may be under Q: absent, at 0, with all others, or across from P's."""
    if neighbours == "add-remove":
        return [None]
    return [(0.0, 0.0)] if neighbours == "zero-out" else [(1.0, 0.0), (-c, -s)]


def _plane(
    noise: GaussianNoise | LaplaceNoise, population: int, rate: float, batch: int
) -> _Plane | None:
    joining = JoinDistribution.of(population, rate, batch)
    if joining is None or not joining.full > joining.joined > 0.0:
        return None
    likely = np.cumsum(joining.masses) > CUT
    kept = joining.masses[likely] if likely.any() else np.zeros(1)
    parts = math.ceil(CELLS / min(noise.scale, 1.0))
    cells = (kept.size + 2.0 * noise.radius(CUT)) * parts
    if cells > MOST_CELLS or 2.0 * noise.radius(CUT) * CELLS / noise.scale > MOST_CELLS:
        return None
    return _Plane(noise, parts, kept, joining, rate)


def _merged(p: Array, q: Array, error: float) -> Pair | None:
    kept = (p > LEAST) & (q > LEAST)
    p, q = p[kept], q[kept]
    if p.size == 0:
        return None
    losses = np.log(p / q)
    width = MERGED * math.sqrt(float((p * losses**2).sum())) + 1e-12
    places = np.round(losses / width).astype(np.int64)
    order = np.argsort(places, kind="stable")
    starts = np.unique(places[order], return_index=True)[1]
    log_p, log_q = (np.log(np.add.reduceat(each[order], starts)) for each in (p, q))
    error += UNIT_ROUNDOFF * (p.size + 64.0)
    return Pair.of_outcomes(AtomPair(log_p, log_q, few=False, rounding=2.0 * error))
