"""The configuration of a run beside the facts of its log."""

from __future__ import annotations

from typing import Final

from ..budget.evidence import Evidence
from ..configuration import compared
from ..first_line import Comparison, said
from .hazard import Found, Hazard, left_over, rule

_MISMATCH: Final = "configuration-mismatch"

_WHY: Final = (
    "The configuration and the code decide these facts before the first release. Where the log "
    "states others, one of them was edited, or they are of two runs."
)

_NEXT: Final = "Take the log from a copy that nobody has touched; no number of it can be relied on."


@rule(
    _MISMATCH,
    "error",
    why=_WHY,
    next_step=_NEXT,
)
def configuration_mismatch(evidence: Evidence) -> Found | None:
    """Fire where the log states another value than its configuration makes."""
    found = comparison(evidence).differences
    if not found:
        return None
    lines = tuple(sorted({one.line for one in found}))
    return Found(said(found), lines, left_over(evidence))


def comparison(evidence: Evidence) -> Comparison:
    """Return the comparison of a log with its configuration, made once for each log."""
    if evidence.configuration is None:
        evidence.configuration = compared(evidence.ledger)
    return evidence.configuration


def file_mismatch(found: Comparison) -> tuple[Hazard, ...]:
    """Return the hazard of a folder whose configuration is not that of its log; none if it is."""
    if not found.differences:
        return ()
    return (
        Hazard(
            "configuration-file-mismatch",
            "error",
            said(found.differences),
            "A run keeps its configuration beside its log, and goes on from no other. One of them "
            "was edited, or they are of two runs.",
            "Take the folder from a copy that nobody has touched.",
            None,
            (1,),
        ),
    )
