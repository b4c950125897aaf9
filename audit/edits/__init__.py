"""Edited logs: contradictions within a log, or with the files next to it, that no run leaves.

They are looked for wherever a log is judged, before its budget is computed.  Their absence proves
nothing: the owner of a log can write a consistent one of a run that never took place.

- `round_numbers`, `streams`: rounds cut out or copied; random bytes without a release.
- `lineage`, `models`, `replay`, `stored_model`: which model follows from which, and files of
  models.
- `matrix_statements`: facts of matrices that do not fit.
- `folder_files`: the files next to a log.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

from ...accountant.errors import InvalidInput
from ...fl.declarations.registry import exactly_named
from ...fl.log.reader import Scan
from ..findings import Finding, apply_rules
from ..ledger.entries import Entry, Ledger
from . import folder_files, matrix_statements, models, round_numbers, streams
from .lineage import Lineage

__all__ = ["edits_of", "facts_of_lines", "require_unedited"]

RULE_MODULES = (matrix_statements, models, round_numbers, streams, folder_files)
"""The modules of the rules, in the order in which contradictions are listed."""


FACTS_OF_FOLDERS: Final = ("ledger", "lineage", "folder")
"""What is known of a log where no budget is computed."""


def facts_of_lines(ledger: Ledger) -> dict[str, object]:
    """Return the facts of a log's lines."""
    return {"ledger": ledger, "lineage": Lineage.of(ledger)}


@exactly_named()
def edits_of(folder: str | Path) -> tuple[Finding, ...]:
    """Return how the log in a folder contradicts itself, or the files next to it; () for nothing.

    Raises `BadLine` where its chain is broken, and `InvalidInput` where there is no log.
    """
    entries = [Entry(line.number, line.seq, line.record) for line in Scan(folder)]
    if not entries:
        return ()
    facts = {**facts_of_lines(Ledger.of(entries)), "folder": Path(folder)}
    return apply_rules(facts, order=RULE_MODULES).findings


@exactly_named()
def require_unedited(folder: str | Path) -> None:
    """Raise `InvalidInput`, with the first contradiction, where a log cannot be as a run left it.

    Raises as `edits_of`.
    """
    contradictions = edits_of(folder)
    if contradictions:
        more = f" ({len(contradictions):,} contradictions)" if len(contradictions) > 1 else ""
        raise InvalidInput(
            f"The log is not as its run left it{more}. {contradictions[0].says}",
            "What is measured would be held against a log that says nothing of this run.",
            f"privplan audit budget {shlex.quote(str(folder))}",
        )
