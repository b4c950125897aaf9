"""A run of privplan itself: its log is audited, and the audit's answer is the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...accountant.guarantee import Bounds
from ...fl.log.canonical import LOG
from ..budget import BudgetReport, audit_budget
from ..description.fact import Fact
from ..description.printed_number import PrintedNumber
from .check_result import Cause, CheckResult, MissingFact, Severity, Verdict

FORMAT: Final = "privplan-log"
"""What the format of such a run is called."""

_SEVERITY: Final[dict[str, Severity]] = {"error": "error", "warning": "warning", "note": "info"}


def logged_run(path: str | Path) -> Path | None:
    """Return the folder of a run of privplan, given by itself or by its log; None for others."""
    given = Path(path)
    try:
        if given.is_dir() and (given / LOG).is_file():
            return given
        return given.parent if given.name == LOG and given.is_file() else None
    except (OSError, ValueError):
        return None


def check_log(folder: Path) -> tuple[CheckResult, bool]:
    """Return the verdict about a logged run, and whether `audit budget` lets it pass.

    A claim is `false` only where the lower end of what was logged is above it; a log that does
    not support its claim otherwise leaves it `unproven`, and passes all the same not.
    Raises `InvalidInput` as `audit_budget` does.
    """
    audited = audit_budget(folder)
    claim = audited.claim
    claimed = None
    if claim is not None and claim.epsilon is not None:
        claimed = PrintedNumber.of(epsilon=claim.epsilon)
    proven = None
    if audited.chain.bad_line is None and claim is not None:
        proven = audited.total.epsilon
    source = str(folder / LOG)
    facts: dict[str, Fact] = {}
    if claim is not None:
        stated = {
            "claim.epsilon": claimed,
            "claim.delta": claim.delta,
            "claim.unit": claim.unit,
            "claim.neighbours": claim.neighbours,
            "schedule.steps": audited.spent,
        }
        facts = {
            key: Fact(value, "read", source) for key, value in stated.items() if value is not None
        }
    result = CheckResult(
        verdict=_verdict(audited, claimed, proven),
        proven=proven,
        claimed=claimed,
        delta=None if claim is None else claim.delta,
        reproduced_by=(),
        causes=tuple(
            Cause(hazard.id, _SEVERITY[hazard.severity], hazard.what, hazard.next_step)
            for hazard in audited.hazards
        ),
        missing=()
        if claimed is not None
        else (MissingFact("claim.epsilon", "Which epsilon is said? The log claims no number."),),
        facts=facts,
        conditions=audited.assumptions,
        doubts=_doubts(audited),
    )
    return result, audited.ok


def _verdict(
    audited: BudgetReport, claimed: PrintedNumber | None, proven: Bounds | None
) -> Verdict:
    if claimed is None or proven is None:
        return "unverifiable"
    if audited.supported:
        return "holds"
    return "false" if proven.lower > claimed.highest else "unproven"


def _doubts(audited: BudgetReport) -> tuple[str, ...]:
    doubts = tuple(f"Not stated in the log: {fact}." for fact in audited.not_stated)
    chain = audited.chain
    if chain.bad_line is not None:
        doubts += (f"Line {chain.bad_line} of the log is bad: {chain.reason}",)
    return doubts
