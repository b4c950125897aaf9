"""Trees of any size: how far a unit moves C x, from the number of its rounds under each node.

C has a row for every complete node and ones for the rounds under it, so with n_v of a unit's rounds
under node v the sum of C^T C over pairs of them is sum_v n_v^2: no entry is negative, so equal
contributions attain it.  A node of w rounds holds at most ceil(w / b) that are b apart, and one
level's nodes hold no more than all k rounds: a level adds at most k min(k, ceil(w / b)).  From
below the earliest rounds count, which attain that where whole nodes are filled.
Source: Kairouz et al. 2021, arXiv 2103.00039 (trees); the bound is derived here.
"""

from __future__ import annotations

import numpy as np

from .directions import Squares
from .participations import SeparatedRounds
from .strategies import require_steps


def tree_squares(fan_out: int, allowed: SeparatedRounds) -> Squares:
    """Return bounds on the squared sensitivity, exact for a single round: the number of levels.

    Raises `Unsupported` for more rounds than are computed with.

    >>> tree_squares(2, SeparatedRounds(100_000, 1, 100_000))
    Squares(lower=17.0, upper=17.0, dimensions=1)
    """
    require_steps(allowed.steps)
    rounds = np.arange(allowed.most, dtype=np.int64) * allowed.separation
    lower = upper = 0
    width = 1
    while width <= allowed.steps:
        complete = rounds[rounds < allowed.steps // width * width]
        held = np.unique(complete // width, return_counts=True)[1]
        lower += int((held * held).sum())
        upper += allowed.most * min(allowed.most, -(-width // allowed.separation))
        width *= fan_out
    return Squares(float(lower), float(upper))
