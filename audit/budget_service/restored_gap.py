"""What a database that was restored from a backup has forgotten, as far as statements show it.

A conflicting statement is one that the service signed and whose entry the history lacks: it is of
another history, which parted from this one at some entry, and what was spent there was spent as
well.  Of what it says, only what both histories share may be left out:

- what was spent at the entry at which the backup ended, where an owner states that entry, and
- what was charged already for statements that were acknowledged before.

Where no owner states an entry, nothing is left out: all that the other history spent is charged on
top.  That errs on the safe side, and the history says which it was.

A claim that was not begun at that entry, and was cancelled here since, may have been begun in the
other history: its price is charged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .balances import Vector, above, largest, of_texts, plus, zero
from .signer import Statement

Balances = Mapping[str, Vector]


def gap(
    size: int,
    conflicting: Sequence[Statement],
    acknowledged: Sequence[Statement],
    shared: Balances,
    refunded: Balances,
) -> dict[str, Vector]:
    """Return what each block is to be charged; blocks that need nothing are left out.

    `shared` is what blocks had spent where the backup ended, empty where no owner states it;
    `refunded` what was given back since of claims that stood there.
    """
    nothing = zero(size)
    names = {name for each in conflicting for name in each.balances} | refunded.keys()
    charged: dict[str, Vector] = {}
    for name in sorted(names):
        said = largest([nothing, *(each.balances.get(name, nothing) for each in conflicting)])
        known = [nothing, shared.get(name, nothing)]
        known += [each.balances.get(name, nothing) for each in acknowledged]
        missing = plus(above(said, largest(known)), refunded.get(name, nothing))
        if any(missing):
            charged[name] = missing
    return charged


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
    size = len(statement.cap)
    nothing = zero(size)
    return all(
        not any(
            above(
                spent,
                largest([nothing, *(each.balances.get(name, nothing) for each in acknowledged)]),
            )
        )
        for name, spent in statement.balances.items()
    )
