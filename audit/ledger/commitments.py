"""What each release should have sealed, by the first line of its log, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...accountant.errors import InvalidInput
from .entries import Ledger

SEALED_ITEMS_NOT_STATED: Final = "which items each round seals"
"""What an earlier log does not say."""


@dataclass(frozen=True)
class MissingCommitments:
    """A line that lacks commitments to these items."""

    line: int
    names: tuple[str, ...]


def not_stated(ledger: Ledger) -> tuple[str, ...]:
    """Return what the rules about sealed items need, and this log does not say."""
    return () if ledger.opened.sealed is not None else (SEALED_ITEMS_NOT_STATED,)


def missing_commitments(ledger: Ledger) -> tuple[MissingCommitments, ...]:
    """Return the lines that lack a commitment.

    The first line says, by phase, what every release seals.  Where it does not, as an earlier
    version wrote it, releases of one phase must seal the same.
    """
    return tuple(_missing_commitments(ledger))


def _missing_commitments(ledger: Ledger) -> Iterator[MissingCommitments]:
    announced = ledger.opened.sealed
    if announced is not None and ledger.opened.dataset is None:
        yield MissingCommitments(1, ("dataset",))
    # Earlier versions: whatever one release of a phase seals, all of them must.
    if announced is None:
        announced = _of_any(ledger)
    for spent in ledger.spent:
        needed = announced.get(spent.intent.phase, ())
        for line, release in spent.releases:
            lacking = tuple(name for name in needed if name not in release.sealed)
            if lacking:
                yield MissingCommitments(line, lacking)


def _of_any(ledger: Ledger) -> dict[str, tuple[str, ...]]:
    """Return what any release of each phase seals."""
    sealed_names: dict[str, set[str]] = {}
    for spent in ledger.spent:
        for _, release in spent.releases:
            sealed_names.setdefault(spent.intent.phase, set()).update(release.sealed)
    return {phase: tuple(sorted(names)) for phase, names in sealed_names.items()}


def require_whole(ledger: Ledger) -> None:
    """Raise `InvalidInput` where a line lacks a commitment that it must have."""
    lacking = missing_commitments(ledger)
    if lacking:
        raise InvalidInput(
            f"Line {lacking[0].line:,} lacks commitments to: {', '.join(lacking[0].names)}.",
            "What a run sealed was taken out of its log, so it cannot be tested.",
            "Give the folder of a run as privplan left it.",
        )
