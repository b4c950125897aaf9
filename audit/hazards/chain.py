"""Hazards of the file itself, which leave no record to look at, and of results appended to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from ...accountant.records import AuditResult, RunOpen
from ...fl.log.reader import NEXT, UNBEGUN, WHY
from ...fl.log.signing import OTHER_KEY
from ..edits import EDITS, Contradiction, EditRule, History, NotStated, folder_contradictions
from ..evidence.evidence import Evidence
from ..ledger.entries import Entry, Ledger
from ..measurement import Measurement
from ..results import result_of
from .rule import Hazard, RuleFinding, rule


def hazards_beside(folder: str | Path, ledger: Ledger) -> tuple[Hazard, ...]:
    """Return how the model and the measurements in a folder differ from what its log names."""
    return tuple(
        _hazard(contradiction) for contradiction in folder_contradictions(folder, History(ledger))
    )


def _hazard(contradiction: Contradiction) -> Hazard:
    return Hazard(
        contradiction.id,
        "error",
        contradiction.what,
        contradiction.why,
        contradiction.next_step,
        None,
        contradiction.lines,
    )


def _as_hazard_check(edit: EditRule) -> Callable[[Evidence], RuleFinding | NotStated | None]:
    def check(evidence: Evidence) -> RuleFinding | NotStated | None:
        finding = edit.check(evidence.history)
        if finding is None or isinstance(finding, NotStated):
            return finding
        return RuleFinding(finding.what, finding.lines)

    return check


for _edit in EDITS.values():
    rule(_edit.id, "error", why=_edit.why, next_step=_edit.next_step)(_as_hazard_check(_edit))


def broken_chain(line: int, reason: str) -> Hazard:
    """Return the hazard of a log whose chain is broken at a line, or signed by somebody else."""
    if reason == OTHER_KEY:
        return Hazard(
            "broken-chain",
            "error",
            f"Line {line} is not signed by the key that was given.",
            "Whoever signed it may have written all of it; the log is another one, or the key is.",
            "Give the public key of the owner of the run, or ask the owner for the log.",
            None,
            (line,),
        )
    return Hazard(
        "broken-chain",
        "error",
        f"Line {line} is bad: {reason}.",
        "A line is changed, missing or out of place, so nothing in the log can be trusted.",
        "Take the log from a copy that nobody has touched: privplan audit log DIR.",
        None,
        (line,),
    )


def unbegun() -> Hazard:
    """Return the hazard of a log without a record."""
    return Hazard("no-run", "error", f"{UNBEGUN[0].upper()}{UNBEGUN[1:]}.", WHY, NEXT)


def not_anchored(mismatch: str) -> Hazard:
    """Return the hazard of a log that is not the one of a head, or of a key, that was given."""
    return Hazard(
        "not-anchored",
        "error",
        f"{mismatch[0].upper()}{mismatch[1:]}.",
        "The head and the key are what the verifier has from elsewhere; a log that does not fit "
        "them may be any log.",
        "Ask the owner of the run for the log that they belong to: privplan explain log.",
    )


def torn_line(line: int) -> Hazard:
    """Return the hazard of a last line that was cut off while it was written."""
    return Hazard(
        "torn-line",
        "warning",
        f"Line {line} was cut off while it was written.",
        "The run, or its machine, stopped there; every intent before it is counted.",
        "Resume the run, which mends its log.",
        None,
        (line,),
    )


BOUNDING_TIERS: Final = ("claim", "robust")
"""Tiers whose results are lower bounds on epsilon, held against the promise."""

CLAIM_EXCESS_RELATIVE: Final = 1e-4
"""How much more than the promise a result may call claimed: rounding, and other machines."""


def foreign_results(opened: RunOpen, entries: Iterable[Entry]) -> tuple[Hazard, ...]:
    """Return the hazard of results that no attack on this run can have found; none if all may be.

    An attack holds its lower bounds against what the first line promises, or against less where it
    rehearsed fewer rounds.  A bound at a larger delta holds at the promised one.
    """
    reasons, lines = [], []
    for entry in entries:
        if not isinstance(entry.record, AuditResult):
            continue
        measurement = result_of(entry.record, entry.number).measurement
        reason = None if measurement is None else _wrong(opened, measurement)
        if reason is not None:
            reasons.append(reason)
            lines.append(entry.number)
    if not reasons:
        return ()
    return (
        Hazard(
            "foreign-result",
            "error",
            f"Line {lines[0]:,}: {reasons[0]}",
            "Attacks hold what they measure against the promise of the first line. What is held "
            "against another one contradicts nothing, whatever it shows.",
            "Attack the run again: privplan audit attack DIR.",
            None,
            tuple(lines),
        ),
    )


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
