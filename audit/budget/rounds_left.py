"""How many more rounds like the last one fit into what is left of a budget."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ...accountant.rootfinding import last_integer
from ..evidence.evidence import Evidence
from ..ledger.entries import Ledger

MAX_ROUNDS_LEFT: Final = 10**9
"""More rounds, or blocks of them, than that are not searched for."""


@dataclass(frozen=True)
class RoundsLeft:
    """How many more `rounds` fit, and how many of these the block under way has `paid` for."""

    rounds: int
    paid: int = 0


def rounds_left(evidence: Evidence, epsilon_limit: float | None) -> RoundsLeft | None:
    """Return how many more rounds like the last one fit; None for a run that is over.

    Rounds that share correlated noise are paid in blocks: those that are left of the last block
    cost nothing more, and behind it whole blocks are counted.
    """
    ledger = evidence.ledger
    observer = ledger.opened.claim.observer
    if epsilon_limit is None or ledger.closed is not None or not ledger.spent:
        return None
    if not math.isfinite(evidence.total(observer).upper):
        return None

    def fits(count: int) -> bool:
        return evidence.with_more(observer, count).upper <= epsilon_limit

    if not fits(0):
        return RoundsLeft(0)
    low, high = 0, 1
    # Doubling, then bisection: the total grows with every further round.
    while high <= MAX_ROUNDS_LEFT and fits(high):
        low, high = high, 2 * high
    if high > MAX_ROUNDS_LEFT:
        return None
    more, paid = last_integer(fits, low, high), _paid(ledger)
    block = ledger.spent[-1].intent.block
    return RoundsLeft(paid + more * (1 if block is None else block.rounds), paid)


def _paid(ledger: Ledger) -> int:
    """Return how many rounds are left of the block that the last round is of."""
    last = ledger.spent[-1]
    # A start of the process behind it: the silos' sums are lost, and another block begins.
    cut_off = any(recovery.number > last.number for recovery in ledger.recoveries)
    if last.intent.block is None or cut_off:
        return 0
    return max(last.intent.block.last - last.intent.round, 0)
