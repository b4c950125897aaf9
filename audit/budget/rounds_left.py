"""How many more rounds like the last one fit into what is left of a budget."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from ...accountant.rootfinding import last_integer
from ..evidence.evidence import Evidence

if TYPE_CHECKING:
    pass


MAX_ROUNDS_LEFT: Final = 10**9
"""More rounds than that are not searched for."""


def rounds_left(evidence: Evidence, epsilon_limit: float | None) -> int | None:
    """Return how many more rounds like the last one fit; None for a run that is over."""
    observer = evidence.ledger.opened.claim.observer
    if epsilon_limit is None or evidence.ledger.closed is not None or not evidence.ledger.spent:
        return None
    if not math.isfinite(evidence.total(observer).upper):
        return None

    def fits(count: int) -> bool:
        return evidence.with_more(observer, count).upper <= epsilon_limit

    if not fits(0):
        return 0
    low, high = 0, 1
    # Doubling, then bisection: the total grows with every further round.
    while high <= MAX_ROUNDS_LEFT and fits(high):
        low, high = high, 2 * high
    if high > MAX_ROUNDS_LEFT:
        return None
    return last_integer(fits, low, high)
