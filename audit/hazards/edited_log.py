"""The rules of `audit.edits` as hazards: a contradiction is an error, whatever the log claims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
