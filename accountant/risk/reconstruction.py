"""How often the right one of m equally likely candidates for a unit is named.

Let A_i be the outcomes at which candidate i is named and P_i the release with that candidate.  Some
release Q is a neighbour of each P_i, and TPR is at most a concave R of FPR, so

    success = (1/m) sum P_i(A_i) <= (1/m) sum R(Q(A_i)) <= R(1/m).

Under replace-one every P_j is such a Q for all i but j.  The average over j then gives
success <= R((1 - success) / (m - 1)), which for two candidates is half of 1 + advantage.
Source: Hayes, Mahloujifar and Balle 2023, arXiv 2302.07225, and Kaissis, Hayes, Ziller and Rueckert
2023, arXiv 2307.03928, for the first; the second is derived above.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..guarantee import Bounds, Neighbours


def reconstruction(
    miss_floor: Callable[[float], float], guesses: int, neighbours: Neighbours
) -> Bounds:
    """Return bounds on the probability to name the right one of `guesses` candidates.

    `miss_floor` is a convex trade-off function of every two neighbours.  The lower end is that of
    guessing: nothing is known to attain more in general.
    """
    guessing = 1.0 / guesses

    def named(fpr: float) -> float:
        return min(math.nextafter(1.0 - miss_floor(fpr), 2.0), 1.0)

    upper = named(math.nextafter(guessing, 1.0))
    if neighbours == "replace-one":
        # R((1 - s) / (m - 1)) falls in s: every s above what it gives is out of reach.
        low, high = guessing, upper
        for _ in range(60):
            middle = 0.5 * (low + high)
            spread = math.nextafter((1.0 - middle) * (1.0 + 1e-15) / (guesses - 1), 1.0)
            if middle > named(min(spread, 1.0)):
                high = middle
            else:
                low = middle
        upper = high
    return Bounds(guessing, max(upper, guessing))
