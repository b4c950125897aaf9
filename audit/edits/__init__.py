"""Edited logs: contradictions within a log, or with the files beside it, that no run leaves.

They are looked for wherever a log is judged, before its budget is computed.  Their absence proves
nothing: the owner of a log can write a consistent one of a run that never took place.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from ...accountant.errors import InvalidInput
from ...fl.declarations.registry import exactly_named
from ...fl.log.reader import Scan
from ..ledger.entries import Entry, Ledger
from . import matrix_statements, models, round_numbers, streams
from .edit_rule import EDITS, Contradiction, EditRule, History, NotStated
from .folder_files import folder_contradictions

__all__ = [
    "EDITS",
    "Contradiction",
    "EditRule",
    "History",
    "NotStated",
    "edits_of",
    "folder_contradictions",
    "require_unedited",
]

_RULE_MODULES = (round_numbers, models, streams, matrix_statements)
"""Imported so that their rules are registered."""


@exactly_named()
def edits_of(folder: str | Path) -> tuple[Contradiction, ...]:
    """Return how the log in a folder contradicts itself, or the files beside it; () for nothing.

    Raises `BadLine` where its chain is broken, and `InvalidInput` where there is no log.
    """
    entries = [Entry(line.number, line.seq, line.record) for line in Scan(folder)]
    if not entries:
        return ()
    history = History(Ledger.of(entries))
    outcomes = [rule.apply(history) for rule in EDITS.values()]
    contradictions = tuple(outcome for outcome in outcomes if isinstance(outcome, Contradiction))
    return (*contradictions, *folder_contradictions(folder, history))


@exactly_named()
def require_unedited(folder: str | Path) -> None:
    """Raise `InvalidInput`, with the first contradiction, where a log cannot be as a run left it.

    Raises as `edits_of`.
    """
    contradictions = edits_of(folder)
    if contradictions:
        more = f" ({len(contradictions):,} contradictions)" if len(contradictions) > 1 else ""
        raise InvalidInput(
            f"The log is not as its run left it{more}. {contradictions[0].what}",
            "What is measured would be held against a log that says nothing of this run.",
            f"privplan audit budget {shlex.quote(str(folder))}",
        )
