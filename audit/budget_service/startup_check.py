"""Before anything is served: does what stands in the tables follow from the histories?

Whoever can write the database alone can lower a balance there, or have a claim that was begun look
as if it was not; but cannot write a history to it that a kept head or receipt does not contradict.
So a service whose tables say other than its own histories does not start.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from ...accountant.errors import InvalidInput
from ...fl.log.hash_chain import START
from .audited import taken
from .books import Books, terms_of
from .database import Database
from .replayed import Contradiction, ReplayedHistory
from .signer import Signer
from .startup_rows import HistoryWithContents, require_rows
from .tables import blocks, claims, data_sets, entries, presented, projects, proposals

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
                _check_terms(connection, Books.reading(connection, signer, name))
            else:
                _check(connection, Books.reading(connection, signer, name))
        _require_parents(connection)
    return skipped


def _require_parents(connection: sa.Connection) -> None:
    """Raise `InvalidInput` where something is of what is no data set with a history."""
    roots = sa.select(data_sets.c.id).where(data_sets.c.parent_id.is_(None))
    columns = [table.c.data_set_id for table in (entries, blocks, claims, projects)]
    columns += [proposals.c.data_set_id, presented.c.data_set_id, data_sets.c.parent_id]
    for column in columns:
        asked = sa.select(column).where(column.is_not(None), column.not_in(roots)).limit(1)
        if connection.execute(asked).first() is not None:
            raise _inconsistent(
                "some data set", f"a row of `{column.table.name}` is of none that has a history"
            )


def _check_terms(connection: sa.Connection, books: Books) -> None:
    """Hold what events are priced by against the first entry, where the others are too many."""
    asked = sa.select(entries.c.line).where(entries.c.data_set_id == books.id, entries.c.seq == 0)
    first = ReplayedHistory(reprice=False)
    try:
        taken(str(connection.execute(asked).scalar()).encode("ascii", "replace"), 0, START, first)
        if books.terms != first.open_terms:
            raise Contradiction("its tables have other terms than its history")
    except Contradiction as error:
        raise _inconsistent(books.name, str(error)) from None


def _check(connection: sa.Connection, books: Books) -> None:
    lines = (
        sa.select(entries.c.line, entries.c.hash)
        .where(entries.c.data_set_id == books.id)
        .order_by(entries.c.seq)
        .execution_options(yield_per=1000)
    )
    replayed, prev, seq = HistoryWithContents(reprice=False), START, 0
    try:
        for row in connection.execute(lines):
            prev = taken(row.line.encode("ascii", "replace"), seq, prev, replayed)
            if row.hash != prev:
                raise Contradiction("its tables have another hash of it than what it says")
            seq += 1
        tables = (books.seq, books.head, books.spent, books.cap, books.epsilon, books.certified)
        history = (seq - 1, prev, replayed.spent, replayed.cap, replayed.epsilon)
        if tables != (*history, replayed.certified):
            raise Contradiction("its tables say other than its history")
        if (books.name, books.terms) != (replayed.open_terms.name, replayed.open_terms):
            raise Contradiction("its tables have other terms than its history")
        if list(books.keys) != replayed.keys:
            raise Contradiction("its tables have other keys than its history")
        frozen = (books.frozen is not None, books.behind is not None)
        if frozen != (replayed.frozen, replayed.behind) or replayed.must_freeze is not None:
            raise Contradiction("its tables say otherwise whether it is frozen")
        _require_views(connection, books, replayed.views)
        require_rows(connection, books, replayed)
    except (Contradiction, ValueError, KeyError, TypeError) as error:
        said = str(error) if isinstance(error, Contradiction) else "a row is none of a service"
        raise _inconsistent(books.name, f"at entry {seq}, {said}") from None


def _require_views(connection: sa.Connection, books: Books, opened: set[str]) -> None:
    asked = sa.select(data_sets).where(data_sets.c.parent_id == books.id)
    views = {row.name: row for row in connection.execute(asked)}
    if views.keys() != opened:
        raise Contradiction("its tables have other views than its history")
    for row in views.values():
        keys = tuple(row.keys.split())
        if terms_of(row.terms) != books.terms or not keys or books.keys[-len(keys) :] != keys:
            raise Contradiction("a view has other terms or keys than its data set")


def _inconsistent(name: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"The ledger of {name} was changed from outside: {reason}.",
        "What is spent can no longer be told from it, so nothing is served.",
        "Find out who wrote the database, and restore a backup; keep heads with a witness.",
    )
