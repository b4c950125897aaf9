"""Hazards of the file itself, which leave no record to look at, and of what stands next to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...accountant.records import AuditResult, RunOpen
from ...fl.log.reader import NEXT, UNBEGUN, WHY
from ...fl.log.signing import OTHER_KEY
from ..configuration.first_line import Comparison, sentence_of
from ..findings import Match, rule
from ..ledger.entries import Entry, Ledger
from ..measurement import Measurement
from ..results import result_of
from ..verify import Verification


@rule(
    "broken-chain",
    why="A line is changed, missing or out of place, so nothing in the log can be trusted.",
    next_step="Take the log from a copy that nobody has touched: privplan audit log DIR.",
)
def broken_chain(verification: Verification) -> Match | None:
    """Fire where the chain of a log is broken at a line, or signed by somebody else."""
    if verification.first_bad is None:
        return None
    line, reason = verification.first_bad
    if reason == OTHER_KEY:
        return Match(
            f"Line {line} is not signed by the key that was given.",
            (line,),
            why="Whoever signed it may have written all of it; the log is another one, or the key "
            "is.",
            next_step="Give the public key of the owner of the run, or ask the owner for the log.",
        )
    return Match(f"Line {line} is bad: {reason}.", (line,))


@rule("no-run", why=WHY, next_step=NEXT)
def no_run(verification: Verification) -> Match | None:
    """Fire where a log has no record."""
    return Match(f"{UNBEGUN[0].upper()}{UNBEGUN[1:]}.") if verification.unbegun else None


@rule(
    "torn-line",
    severity="warning",
    why="The run, or its machine, stopped there; every intent before it is counted.",
    next_step="Resume the run, which mends its log.",
)
def torn_line(verification: Verification) -> Match | None:
    """Fire where a last line was cut off while it was written."""
    if verification.torn is None:
        return None
    line = verification.torn.number
    return Match(f"Line {line} was cut off while it was written.", (line,))


@rule(
    "not-anchored",
    why="The head and the key are what the verifier has from elsewhere; a log that does not fit "
    "them may be any log.",
    next_step="Ask the owner of the run for the log that they belong to: privplan explain log.",
)
def not_anchored(verification: Verification) -> Match | None:
    """Fire where a log is not the one of a head, or of a key, that was given."""
    mismatch = verification.mismatch
    return None if mismatch is None else Match(f"{mismatch[0].upper()}{mismatch[1:]}.")


@rule(
    "configuration-file-mismatch",
    why="A run keeps its configuration next to its log, and goes on from no other. One of them was "
    "edited, or they are of two runs.",
    next_step="Take the folder from a copy that nobody has touched.",
)
def file_mismatch(file_comparison: Comparison) -> Match | None:
    """Fire where the configuration in a folder is not that of its log."""
    differences = file_comparison.differences
    return Match(sentence_of(differences), (1,)) if differences else None


BOUNDING_TIERS: Final = ("claim", "robust")
"""Tiers whose results are lower bounds on epsilon, held against the promise."""

CLAIM_EXCESS_RELATIVE: Final = 1e-4
"""How much more than the promise a result may call claimed: rounding, and other machines."""


@rule(
    "foreign-result",
    why="Attacks hold what they measure against the promise of the first line. What is held "
    "against another one contradicts nothing, whatever it shows.",
    next_step="Attack the run again: privplan audit attack DIR.",
)
def foreign_results(ledger: Ledger, entries: Sequence[Entry]) -> Match | None:
    """Fire where no attack on this run can have found a result.

    An attack holds its lower bounds against what the first line promises, or against less where it
    rehearsed fewer rounds.  A bound at a larger delta holds at the promised one.
    """
    reasons: dict[int, str] = {}
    for entry in entries:
        if isinstance(entry.record, AuditResult):
            measurement = result_of(entry.record, entry.number).measurement
            reason = None if measurement is None else _wrong(ledger.opened, measurement)
            if reason is not None:
                reasons[entry.number] = reason
    if not reasons:
        return None
    first = next(iter(reasons))
    return Match(f"Line {first:,}: {reasons[first]}", tuple(reasons))


def _wrong(opened: RunOpen, measurement: Measurement) -> str | None:
    if measurement.tier not in BOUNDING_TIERS or measurement.quantity != "epsilon":
        return None
    if measurement.kind != "lower-bound":
        return (
            f"a result of the tier {measurement.tier} calls itself no lower bound "
            f"({measurement.kind})."
        )
    claim = opened.claim
    same = (measurement.unit, measurement.neighbours, measurement.observer)
    promised = claim.epsilon
    if opened.as_published or promised is None or measurement.delta is None:
        return None
    if same != (claim.unit, claim.neighbours, claim.observer):
        return None
    if measurement.delta == claim.delta and (
        measurement.claimed is None
        or measurement.claimed > promised * (1.0 + CLAIM_EXCESS_RELATIVE)
    ):
        shown = "nothing" if measurement.claimed is None else f"epsilon {measurement.claimed:.6g}"
        return f"a result is held against {shown}, and line 1 promises epsilon {promised:.6g}."
    # delta' >= delta: a lower bound at the larger delta is one at the smaller too.
    if measurement.delta > claim.delta and measurement.value > promised and not measurement.unusual:
        return (
            f"a result shows epsilon {measurement.value:.6g} at delta {measurement.delta:.6g}, "
            f"and line 1 promises {promised:.6g} at {claim.delta:.6g}."
        )
    return None
