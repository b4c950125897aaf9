"""What a database that was restored from a backup has forgotten, as far as statements show it.

A conflicting statement is one that the service signed and whose entry the history lacks: it is of
another history, which parted from this one at some entry, and what was spent there was spent as
well.  Of what it says, only what was spent at the entry at which the backup ended may be left out,
where an owner states that entry.

Two statements may be of two lost histories, as one backup can be restored twice, and what both
spent adds up; or of one, where the larger one says it all.  They do not show which.  So they are
added up, unless an owner states of how many lost histories they are; then as many are added up as
that, the largest ones of each number.  Two statements of one number and different hashes are of
different histories, whatever is stated.  "None" is a word for statements of a history that was
acknowledged before, of which that one says at least as much.

A claim that was not begun at that entry, and was cancelled here since, may have been begun in the
other history: its price is charged again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from .balances import Vector, above, largest, of_texts, plus, zero
from .signer import Statement

CHARGED: Final = 1
COUNTED: Final = 2
"""How a statement was acknowledged: charged, or one of as many histories as an owner stated."""

Balances = Mapping[str, Vector]


def gap(
    size: int,
    conflicting: Sequence[Statement],
    shared: Balances,
    refunded: Balances,
    histories: int | None,
) -> dict[str, Vector]:
    """Return what each block is to be charged; blocks that need nothing are left out.

    `shared` is what blocks had spent where the backup ended, empty where no owner states it;
    `refunded` what was given back since of claims that stood there; `histories` of how many lost
    histories the statements are, None where nobody states it.
    """
    nothing, most = zero(size), len(conflicting) if histories is None else histories
    names = {name for each in conflicting for name in each.balances} | refunded.keys()
    charged: dict[str, Vector] = {}
    for name in sorted(names):
        known = shared.get(name, nothing)
        beyond = [above(each.balances.get(name, nothing), known) for each in conflicting]
        lost = [sum(sorted(units, reverse=True)[:most]) for units in zip(*beyond, strict=True)]
        missing = plus(tuple(lost) or nothing, refunded.get(name, nothing))
        if any(missing):
            charged[name] = missing
    return charged


def too_few(
    histories: int | None, conflicting: Sequence[Statement], acknowledged: Sequence[Statement]
) -> bool:
    """Return whether statements are of more lost histories than somebody states."""
    if histories is None:
        return False
    if histories == 0:
        return not all(
            covered(each, acknowledged) and not parted(each, acknowledged) for each in conflicting
        )
    hashes = {(each.seq, each.hash) for each in conflicting}
    return histories < max(Counter(seq for seq, _ in hashes).values(), default=0)


def too_late(restored_at: int, behind_since: int, conflicting: Sequence[Statement]) -> bool:
    """Return whether a backup did not end at an entry: a statement shows that it ended before.

    A statement of another hash parted from this history at its own entry at the latest, and the
    history that is behind was restored before it says so.
    """
    return restored_at >= min([behind_since, *(each.seq for each in conflicting)])


def refunds(
    size: int,
    waiting: Mapping[str, tuple[Sequence[str], Vector]],
    after: Iterable[Mapping[str, Any]],
) -> dict[str, Vector]:
    """Return what entries gave back of claims that were not begun before them, by block.

    `waiting` are the blocks and the price of each such claim.
    """
    given_back: dict[str, Vector] = {}
    for record in after:
        if record["type"] == "claim.cancel" and record["claim"] in waiting:
            names, price = waiting[record["claim"]]
            for name in names:
                given_back[name] = plus(given_back.get(name, zero(size)), price)
    return given_back


def charged_in(source: Mapping[str, Any], size: int) -> dict[str, Vector]:
    """Return what an entry says that blocks are charged; `ValueError` for what is none."""
    return {name: of_texts(units, size) for name, units in source.items()}


def covered(statement: Statement, acknowledged: Sequence[Statement]) -> bool:
    """Return whether statements that were acknowledged before say at least as much."""
    nothing = zero(len(statement.cap))
    return any(each.seq >= statement.seq for each in acknowledged) and all(
        not any(above(spent, largest(each.balances.get(name, nothing) for each in acknowledged)))
        for name, spent in statement.balances.items()
    )


def parted(statement: Statement, acknowledged: Sequence[Statement]) -> bool:
    """Return whether a statement is of no history of which one of its number was acknowledged."""
    return any(each.seq == statement.seq and each.hash != statement.hash for each in acknowledged)
