"""Before anything is served: do the balances in the tables follow from the histories?

Whoever can write the database alone can lower a balance there, and cannot write a history to it
that a kept head or receipt does not contradict.  So a service whose tables say other than its own
histories does not start.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from ...accountant.errors import InvalidInput
from ...fl.log.hash_chain import START
from .audited import taken
from .books import Books
from .database import Database
from .replayed import Contradiction, ReplayedHistory
from .signer import Signer
from .tables import data_sets, entries

MAX_CHECKED_ENTRIES: Final = 300_000
"""A longer history is left to `privplan audit ledger`: a service must start within a minute."""


def require_consistent(database: Database, signer: Signer) -> list[str]:
    """Return the data sets whose histories are too long to be added up at a start.

    Prices are taken as they stand: whether they are those of their events is what an audit says.
    Raises `InvalidInput` where a history is broken, or says other than the tables.
    """
    skipped: list[str] = []
    with database.reading() as connection:
        roots = sa.select(data_sets.c.name, data_sets.c.seq).where(data_sets.c.parent_id.is_(None))
        for name, seq in connection.execute(roots.order_by(data_sets.c.id)).all():
            if seq >= MAX_CHECKED_ENTRIES:
                skipped.append(name)
            else:
                _check(connection, Books.reading(connection, signer, name))
    return skipped


def _check(connection: sa.Connection, books: Books) -> None:
    lines = (
        sa.select(entries.c.line)
        .where(entries.c.data_set_id == books.id)
        .order_by(entries.c.seq)
        .execution_options(yield_per=1000)
    )
    replayed, prev, seq = ReplayedHistory(reprice=False), START, 0
    try:
        for line in connection.execute(lines).scalars():
            prev = taken(line.encode("ascii", "replace"), seq, prev, replayed)
            seq += 1
    except Contradiction as error:
        raise _inconsistent(books, f"entry {seq}: {error}") from None
    said = (books.seq, books.head, books.spent, books.cap, books.certified)
    if said != (seq - 1, prev, replayed.spent, replayed.cap, replayed.certified):
        raise _inconsistent(books, "its tables say other than its history")
    frozen = (books.frozen is not None, books.behind is not None)
    if frozen != (replayed.frozen, replayed.behind):
        raise _inconsistent(books, "its tables say otherwise whether it is frozen")


def _inconsistent(books: Books, reason: str) -> InvalidInput:
    return InvalidInput(
        f"The ledger of {books.name} was changed from outside: {reason}.",
        "What is spent can no longer be told from it, so nothing is served.",
        "Find out who wrote the database, and restore a backup; keep heads with a witness.",
    )
