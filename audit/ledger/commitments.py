"""Missing commitments: sealed items that a log's opening announces and its releases lack.

A release states a commitment to each item that its run wrote into the sealed sidecar.  Where one
was taken out of the log, the item can no longer be checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...accountant.errors import InvalidInput
from .entries import Ledger

SEALED_ITEMS_NOT_STATED: Final = "which items each round seals"
"""The fact that logs of earlier versions do not state, in words."""


@dataclass(frozen=True)
class MissingCommitments:
    """Line `line` of the log lacks commitments to the items `names`."""

    line: int
    names: tuple[str, ...]


def not_stated(ledger: Ledger) -> tuple[str, ...]:
    """Return the facts about sealed items that this log does not state; () for none."""
    return () if ledger.opened.sealed is not None else (SEALED_ITEMS_NOT_STATED,)


def missing_commitments(ledger: Ledger) -> tuple[MissingCommitments, ...]:
    """Return the lines that lack a commitment, in order; the opening may lack that to its data.

    The opening states, for each phase, the items that every release seals.  Logs of earlier
    versions do not state them: there all releases of a phase must seal the same items, so an item
    that every release lacks is not noticed.
    """
    return tuple(_missing_commitments(ledger))


def _missing_commitments(ledger: Ledger) -> Iterator[MissingCommitments]:
    announced = ledger.opened.sealed
    if announced is not None and ledger.opened.dataset is None:
        yield MissingCommitments(1, ("dataset",))
    if announced is None:  # a log of an earlier version
        announced = _items_by_phase(ledger)
    for spent in ledger.spent:
        needed = announced.get(spent.intent.phase, ())
        for line, release in spent.releases:
            lacking = tuple(name for name in needed if name not in release.sealed)
            if lacking:
                yield MissingCommitments(line, lacking)


def _items_by_phase(ledger: Ledger) -> dict[str, tuple[str, ...]]:
    """Return for each phase the items that at least one of its releases seals."""
    sealed_names: dict[str, set[str]] = {}
    for spent in ledger.spent:
        for _, release in spent.releases:
            sealed_names.setdefault(spent.intent.phase, set()).update(release.sealed)
    return {phase: tuple(sorted(names)) for phase, names in sealed_names.items()}


def require_commitments(ledger: Ledger) -> None:
    """Raise `InvalidInput` for the first line that lacks a commitment."""
    lacking = missing_commitments(ledger)
    if lacking:
        raise InvalidInput(
            f"Line {lacking[0].line:,} lacks commitments to: {', '.join(lacking[0].names)}.",
            "What a run sealed was taken out of its log, so it cannot be tested.",
            "Give the folder of a run as privplan left it.",
        )
