"""Delta by a rule, 1 / records or 1 / batches, beside the delta that is stated."""

from __future__ import annotations

import math
from typing import Final

from .agreement import near, shown
from .schedule_facts import batches_per_epoch
from .working_facts import WorkingFacts

DELTA: Final = "claim.delta"
RULE: Final = "claim.delta_rule"
DELTA_TOLERANCE: Final = 1e-6


def complete_delta(working: WorkingFacts) -> None:
    """Derive delta from its rule, or name that the stated delta is another."""
    counts = _counts(working)
    if not counts:
        return
    rule, stated = working.word(RULE, ""), working.number(DELTA)
    by_rule = min(1.0 / counts[0], math.nextafter(1.0, 0.0))
    if stated is None:
        working.derive(DELTA, by_rule, f"{rule} = 1 / {counts[0]:,}")
        return
    slack = max(working.half_unit(DELTA), DELTA_TOLERANCE * stated)
    if not any(near(stated, 1.0 / count, slack) for count in counts):
        says = (
            f"delta = {shown(stated)} and delta_rule = {rule} ({shown(by_rule)}) "
            "cannot both be true"
        )
        working.contradict(DELTA, says, DELTA, RULE)


def _counts(working: WorkingFacts) -> tuple[int, ...]:
    """Return what the rule divides by, the usual count first; nothing where it is not known."""
    rule = working.word(RULE, "")
    if rule == "1/records":
        records = working.count("data.records")
        return () if records is None else (records,)
    batches = batches_per_epoch(working) if rule == "1/batches" else None
    if batches is None:
        return ()
    return math.ceil(batches), max(math.floor(batches), 1)
