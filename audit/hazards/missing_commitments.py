"""Evidence that was taken out: commitments that a line must have, and has not."""

from __future__ import annotations

from ..evidence.evidence import Evidence
from ..ledger.commitments import missing_commitments
from .rule import RuleFinding, rule


@rule(
    "stripped-commitments",
    "error",
    why="What a run seals is decided by its configuration, never by its data. Without a commitment "
    "nobody can test what the release was made of.",
    next_step="Take the log from a copy that nobody has touched.",
)
def stripped_commitments(evidence: Evidence) -> RuleFinding | None:
    """Fire where a release lacks a commitment to an item that its phase seals."""
    lacking = missing_commitments(evidence.ledger)
    if not lacking:
        return None
    names = ", ".join(dict.fromkeys(name for line in lacking for name in line.names))
    return RuleFinding(f"Commitments are missing: {names}.", tuple(line.line for line in lacking))
