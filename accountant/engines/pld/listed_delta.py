"""The delta of one release with listed outcomes: a sum, which needs no grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from .atoms import AtomPair
from .loss_pmfs import LEAST_LOWER_MASS, LEAST_MASS
from .pair import Pair


def listed_outcomes(pairs: Sequence[tuple[Pair, int]]) -> AtomPair | None:
    """Return the outcomes of a single release that has no others; None for anything else."""
    if len(pairs) != 1 or pairs[0][1] != 1 or pairs[0][0].continuous is not None:
        return None
    return pairs[0][0].atoms


def listed_delta(atoms: AtomPair, *, upward: bool) -> Callable[[float], float]:
    """Return log delta as a function of epsilon, rounded up or down.

    delta(eps) = P[no Q mass] + sum over losses l > eps of P (1 - e^(eps - l)); nothing cancels.
    """
    side = 1.0 if upward else -1.0
    losses = atoms.losses + side * 2.0 * atoms.edge_error(0.0)
    masses, infinite = atoms.masses, atoms.infinite_mass
    if upward:
        # What underflows is rounded up, and what was left out may have any loss.
        masses = np.maximum(masses, LEAST_MASS)
        infinite += atoms.omitted_mass + (LEAST_MASS if atoms.has_infinite_losses else 0.0)
    else:
        masses = np.where(masses < LEAST_LOWER_MASS, 0.0, masses)
        infinite = infinite if infinite >= LEAST_LOWER_MASS else 0.0
    factor = 1.0 + side * atoms.mass_error(0.0)

    def log_delta(epsilon: float) -> float:
        first = int(np.searchsorted(losses, epsilon, side="right"))
        shares = -np.expm1(epsilon - losses[first:])
        delta = (float(masses[first:] @ shares) + infinite) * factor
        return min(math.log(delta), 0.0) if delta > 0.0 else -math.inf

    return log_delta
