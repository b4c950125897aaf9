"""Rounds that share correlated noise: which of them are paid for by the first of their block.

The first round of a block has the event of all of it: per-round noise of multiplier s is z in
C x + z, whatever part of the sum and of the noise an observer sees, so its event `Gaussian(s)`
becomes `MatrixGaussian(s, C, participation)`, for the smallest s that any round of it supports
before that observer.  The rounds behind it show rows of the same, and nothing else, if they state
the same facts, follow each other without a gap, and no start of the process lies between: silos
keep their last sums in memory alone.  Everything else is unpaid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms.banded_gaussian import require_coefficients
from ...accountant.records import Block, RoundIntent
from ..ledger.entries import Recovery, SpentIntent
from .event_order import weakest
from .round_facts import RoundFacts
from .run_setting import NoProof

UNPAID: Final = "no round before it has paid for its block"

_ALIKE: Final = (
    *("block", "phase", "contribution", "noise", "sensitivity", "weights", "sampling"),
)


def unpaid_rounds(spent: Iterable[SpentIntent], recoveries: Iterable[Recovery]) -> dict[int, str]:
    """Return why rounds of a block are not covered by its first one, by the `seq` of the intent."""
    starts = sorted(recovery.number for recovery in recoveries)
    unpaid: dict[int, str] = {}
    first: SpentIntent | None = None
    last_round = 0
    for each in spent:
        intent = each.intent
        if intent.block is None:
            continue
        if not intent.is_covered:
            # Whatever came of it, and whatever it states, all of its block is counted here.
            first, last_round = each, intent.round
            continue
        follows = (
            first is not None
            and _is_alike(first.intent, intent)
            and intent.round == last_round + 1 <= intent.block.last
            # A start of the process in between: the sums of the rounds before are lost.
            and not any(first.number < start < each.number for start in starts)
        )
        if follows:
            last_round = intent.round
        else:
            unpaid[each.seq] = UNPAID
    return unpaid


def _is_alike(first: RoundIntent, intent: RoundIntent) -> bool:
    return all(getattr(first, name) == getattr(intent, name) for name in _ALIKE)


def unfit_block(intent: RoundIntent) -> list[str]:
    """Return why the facts of a round with correlated noise bound nothing."""
    block = intent.block
    if block is None:
        return []
    reasons = []
    try:
        # Off the grid C x is no integer, and noise on integers does not cover it.
        require_coefficients(block.coefficients)
    except InvalidInput:
        reasons.append("its coefficients are off the grid that its noise covers, or grow")
    if len(block.coefficients) > block.separation:
        reasons.append("it has more bands than there are rounds between two of one unit")
    if intent.noise.tolerated_dropouts or intent.silos is not None:
        reasons.append("correlated noise is of silos that all take part in every round")
    if intent.sampling.method != "none":
        reasons.append("correlated noise is of units that take part by a public schedule")
    if intent.contribution.terms != "unit" or intent.noise.family != "gaussian":
        reasons.append("correlated noise is accounted for units' own terms, and Gaussian")
    return reasons


def event_in_block(event: ev.Event, facts: RoundFacts, rows: Sequence[ev.Event] = ()) -> ev.Event:
    """Return what a round adds to what was paid, given its event as if its noise were its own.

    `rows` are such events of the rounds that the first one of a block is paid for.  All of it is
    counted as if every row was like the weakest: noise of which some rows have more shows less.
    """
    if facts.block is None or isinstance(event, ev.NoGuarantee):
        return event
    paid = event if facts.covered else weakest([event, *rows])
    if isinstance(paid, ev.NoGuarantee):
        return paid
    if not isinstance(paid, ev.Gaussian):
        raise NoProof("correlated noise is accounted for where a round by itself is Gaussian")
    # A round behind the first shows a row of what was paid there.
    return ev.Compose(()) if facts.covered else facts.block.event(paid.noise_multiplier)


def beyond_schedule(joined: Iterable[tuple[RoundIntent, int, int]], users: int) -> tuple[int, ...]:
    """Return the lines of rounds that more units joined than a schedule of blocks allows.

    `joined` are an intent, the line of its release, and how many units joined.  No unit takes part
    twice within `separation` rounds of a block, so these have at most all `users` together.
    """
    by_block: dict[Block, list[tuple[int, int, int]]] = {}
    for intent, line, count in joined:
        if intent.block is not None:
            by_block.setdefault(intent.block, []).append((intent.round, line, count))
    lines = []
    for block, counts in by_block.items():
        counts.sort()
        oldest, together = 0, 0
        for number, line, count in counts:
            together += count
            while counts[oldest][0] <= number - block.separation:
                together -= counts[oldest][2]
                oldest += 1
            if count < 0 or together > users:
                lines.append(line)
    return tuple(sorted(lines))
