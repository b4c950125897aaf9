"""Hazards of the file itself, which leave no record to look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...fl.log.reader import NEXT, UNBEGUN, WHY
from ...fl.log.signing import OTHER_KEY
from ..edits import EDITS, Contradiction, EditRule, History, NotStated, folder_contradictions
from ..evidence.evidence import Evidence
from ..ledger.entries import Ledger
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
