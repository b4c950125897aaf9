"""The delta of one release with listed outcomes: a sum, which needs no grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from .loss_pmfs import LEAST_LOWER_MASS, LEAST_MASS, certain_mass
from .noise import UNIT_ROUNDOFF
from .pair import Pair

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
