"""Certified bounds on delta(epsilon) for one direction of a composition, on a grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from ..grid.families import CountedPair, Family, families
from ..grid.loss_grid import Grid, LossPmf
from ..grid.loss_pmfs import LEAST_LOWER_MASS, LEAST_MASS, certain_mass, lower_pmf, upper_pmf
from ..grid.noise import UNIT_ROUNDOFF
from ..grid.pair import Pair
from ..grid.pmf_rows import PmfRows, lower_pmf_rows, upper_pmf_rows
from .estimate import SaddlePoint
from .rounds import Part, RepeatedPmf, RepeatedPmfRows, Rounds
from .transform import ComposedLoss, compose

MAX_ADDED_OUTCOMES: Final = 100_000
"""Most outcomes of one release that are summed at each epsilon."""

LISTED_ROUNDING: Final = 2e-13
"""Error of the logarithm of a delta, which is at least -745."""


def listed_outcomes(pairs: Sequence[tuple[Pair, int]]) -> Pair | None:
    """Return the pair of a single release that has finitely many outcomes, None for all else."""
    if len(pairs) != 1 or pairs[0][1] != 1:
        return None
    pair = pairs[0][0]
    few = pair.atoms is not None and pair.atoms.log_p.size <= MAX_ADDED_OUTCOMES
    return pair if few and pair.continuous is None else None


def listed_delta(pair: Pair, *, upward: bool) -> Callable[[float], float]:
    """Return log delta as a function of epsilon, rounded up or down.

    delta(eps) = P[no Q mass] + sum over losses l > eps of P (1 - e^(eps - l)); nothing cancels.
    """
    atoms, side = pair.atoms, 1.0 if upward else -1.0
    assert atoms is not None
    # Every loss, and every mass, may be off.
    losses = atoms.losses + side * 2.0 * pair.edge_error(0.0)
    factor = 1.0 + side * (pair.mass_error(0.0) + losses.size * UNIT_ROUNDOFF)
    if upward:
        # What underflows is rounded up, and what was left out may have any loss.
        masses = np.maximum(atoms.masses, LEAST_MASS)
        infinite = pair.infinite_mass + pair.omitted_mass
        infinite += LEAST_MASS if atoms.has_infinite_losses else 0.0
    else:
        masses, infinite = atoms.masses, certain_mass(pair)

    def log_delta(epsilon: float) -> float:
        first = int(np.searchsorted(losses, epsilon, side="right"))
        shares = -np.expm1(epsilon - losses[first:])
        delta = (float((masses[first:] * shares).sum()) + infinite) * factor
        if upward:
            return min(math.log(delta) + LISTED_ROUNDING, 0.0) if delta > 0.0 else -math.inf
        return math.log(delta) - LISTED_ROUNDING if delta >= LEAST_LOWER_MASS else -math.inf

    return log_delta


TAIL_SHARE_OF_DELTA: Final = 1e-7
"""Mass that a pmf may move to infinity, or drop, over all rounds, as a share of delta."""

DELTA_LOG_ROUNDING: Final = 1e-12
"""Error of adding the two parts of delta, as a log."""


DeltaBound: TypeAlias = Callable[[float], float]
"""A bound on log delta as a function of epsilon, falling: it never crosses the truth."""


def upper_delta_bound(
    pairs: Sequence[tuple[Pair, int]], width: float, saddle: SaddlePoint, delta: float
) -> DeltaBound:
    """Return an upper bound on log delta, tight around the saddle point's epsilon and `delta`."""
    return _delta_bound(pairs, width, saddle, delta, upward=True)


def lower_delta_bound(
    pairs: Sequence[tuple[Pair, int]], width: float, saddle: SaddlePoint, delta: float
) -> DeltaBound:
    """Return a lower bound on log delta, tight around the saddle point's epsilon and `delta`."""
    return _delta_bound(pairs, width, saddle, delta, upward=False)


def _delta_bound(
    pairs: Sequence[tuple[Pair, int]],
    width: float,
    saddle: SaddlePoint,
    delta: float,
    *,
    upward: bool,
) -> DeltaBound:
    listed = listed_outcomes(pairs)
    if listed is not None:
        return listed_delta(listed, upward=upward)
    rows, pmf = (upper_pmf_rows, upper_pmf) if upward else (lower_pmf_rows, informative_lower_pmf)
    rounds = discretized_rounds(pairs, width, saddle, delta, rows, pmf)
    return _summed_delta(rounds, saddle, upward=upward)


def _summed_delta(rounds: Rounds, saddle: SaddlePoint, *, upward: bool) -> DeltaBound:
    """Return the log delta of finite and infinite losses together, rounded up or down."""
    infinite = rounds.infinite_mass
    composed = _composed(rounds, saddle)

    # A round with an infinite loss is counted in full, whatever the others lose.
    def upper(epsilon: float) -> float:
        if composed is None:
            return math.log(infinite) if infinite > 0 else -math.inf
        finite = composed.log_delta_upper(epsilon)
        return min(_log_add(finite, infinite) + DELTA_LOG_ROUNDING, 0.0)

    # The same sum from below: rounding is subtracted.
    def lower(epsilon: float) -> float:
        finite = composed.log_delta_lower(epsilon) if composed is not None else -math.inf
        return _log_add(finite, infinite) - DELTA_LOG_ROUNDING

    return upper if upward else lower


def _log_add(log_finite: float, infinite: float) -> float:
    if infinite <= 0.0:
        return log_finite
    log_infinite = math.log(infinite)
    # log(e^high + e^low) without overflow.
    high, low = max(log_finite, log_infinite), min(log_finite, log_infinite)
    return high + math.log1p(math.exp(low - high))


def discretized_rounds(
    pairs: Sequence[CountedPair],
    width: float,
    saddle: SaddlePoint,
    delta: float,
    discretize_family: Callable[
        [Family, float, float, float], tuple[list[PmfRows], tuple[CountedPair, ...]]
    ],
    discretize_one: Callable[[Pair, Grid, float], LossPmf],
) -> Rounds:
    """Return pmfs of all pairs on grids of one width: families in rows, the others one by one."""
    releases = sum(count for _, count in pairs)
    # By the union bound all releases together move or drop at most TAIL_SHARE_OF_DELTA of delta.
    tail = max(delta * TAIL_SHARE_OF_DELTA / releases, 1e-300)
    family_list, single = families(pairs)
    parts: list[Part] = []
    for family in family_list:
        rows, rest = discretize_family(family, width, saddle.tilt, tail)
        parts += map(RepeatedPmfRows, rows)
        single += rest
    for pair, count in single:
        grid = Grid(width, pair.grid_atoms[0] if pair.grid_atoms else 0.0)
        parts.append(RepeatedPmf(discretize_one(pair, grid, tail), count))
    if sum(part.releases for part in parts) != releases:
        raise ArithmeticError("a release was left out")
    return Rounds(tuple(parts))


def informative_lower_pmf(pair: Pair, grid: Grid, tail: float) -> LossPmf:
    """Return a lower pmf; on a grid too wide for one, all mass at loss 0.

    Every pair dominates two equal distributions.
    """
    pmf = lower_pmf(pair, grid, tail)
    if pmf.masses.any() or pmf.infinite_mass > 0.0:
        return pmf
    return LossPmf(Grid(grid.width), 0, np.ones(1), 0.0, 0.0)


def _composed(rounds: Rounds, saddle: SaddlePoint) -> ComposedLoss | None:
    if rounds.is_empty():
        return None
    spread = math.sqrt(saddle.variance)
    tilt = rounds.centring_tilt(saddle.epsilon, saddle.tilt, spread)
    return compose(rounds, rounds.lighter_tilt(saddle.epsilon, tilt))


def fitting_width(pairs: Sequence[tuple[Pair, int]], max_width: float) -> float:
    """Return a grid width, at most `max_width`, whose grid meets the atoms of the pairs.

    Each pair's grid starts at its first atom.  Where distances between atoms are several, the
    width is the one of about four thousand candidates that misses them least.
    """
    distances = [
        abs(atom - pair.grid_atoms[0])
        for pair, _ in pairs
        for atom in pair.grid_atoms[1:]
        if max_width <= abs(atom - pair.grid_atoms[0]) < math.inf
    ]
    if not distances:
        return max_width
    longest = max(distances)
    least = math.ceil(longest / max_width)
    if len(distances) == 1:
        return longest / least
    candidates = range(least, min(2 * least, least + 4096) + 1)

    def misfit(steps: int) -> float:
        width = longest / steps
        return max(abs(d / width - round(d / width)) for d in distances)

    return longest / min(candidates, key=misfit)
