"""Evidence that was taken out: commitments that a line must have, and has not."""

from __future__ import annotations

from ..evidence.evidence import Evidence
from ..ledger.commitments import stripped
from .hazard import Found, rule


@rule(
    "stripped-commitments",
    "error",
    why="What a run seals is decided by its configuration, never by its data. Without a commitment "
    "nobody can test what the release was made of.",
    next_step="Take the log from a copy that nobody has touched.",
)
def stripped_commitments(evidence: Evidence) -> Found | None:
    """Fire where a release lacks a commitment to an item that its phase seals."""
    found = stripped(evidence.ledger)
    if not found:
        return None
    names = ", ".join(dict.fromkeys(name for one in found for name in one.names))
    return Found(f"Commitments are missing: {names}.", tuple(one.line for one in found))
