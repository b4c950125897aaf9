"""A database that was restored from a backup, seen by what others keep: heads and receipts.

Whoever holds a statement that this service signed may present it.  Where the history has no entry
of that number and hash, it is older than the statement: the data set takes no claims until an
owner acknowledges it, and then each block is charged what is known to be missing.

What is missing is what the largest conflicting statement says, less what was spent at the last
statement that agrees with the history: after that one the two histories may have parted.  Without
any statement that agrees, all that it says is charged once more; that errs on the safe side.
Without a witness or a receipt a restored backup cannot be seen at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from .balances import Vector, above, largest, plus, texts, within, zero
from .books import Books
from .claims import Actor
from .database import Database
from .names import Refusal
from .owners import reason_of, shown
from .signer import SignedStatement, Signer
from .tables import entries, presented


def present(
    connection: sa.Connection, signer: Signer, name: str, source: object
) -> dict[str, object]:
    """Hold a head or a receipt against the history of its data set, and say whether it is in it."""
    signed = SignedStatement.from_json(source)
    books = Books.open(connection, signer, name)
    if signed.statement.data_set != books.name or not signed.holds(frozenset(books.keys)):
        raise Refusal(
            422,
            "signature",
            f"This is no statement that the service signed about {books.name}.",
            "Only what its key signed says anything about its history.",
            "Give the head or the receipt as it was received.",
        )
    return {"agrees": _held(books, signed), "frozen": books.behind or books.frozen}


def acknowledge(
    connection: sa.Connection, signer: Signer, name: str, reason: str, actor: Actor
) -> dict[str, object]:
    """Charge what is known to be missing, say so in the history, and serve again."""
    books = Books.open(connection, signer, name)
    if books.behind is None:
        raise Refusal(409, "not-behind", f"{books.name} is not behind anything that was presented.")
    agreed: SignedStatement | None = None
    conflicting: list[SignedStatement] = []
    for row in connection.execute(_of(books).order_by(presented.c.seq)):
        signed = SignedStatement.from_json(json.loads(row.statement))
        if _entry_hash(connection, books, signed.statement.seq) == signed.statement.hash:
            agreed = signed
        else:
            conflicting.append(signed)
    charged = _missing(books, agreed, conflicting)
    books.put_spent({block: plus(books.spent[block], units) for block, units in charged.items()})
    books.behind = None
    books.append(
        {
            "type": "restore",
            "reason": reason_of(reason),
            "charged": {block: texts(units) for block, units in charged.items()},
            "statements": [each.to_json() for each in conflicting],
            "by": actor.holder,
        },
        behind=None,
    )
    # They are charged now; what is presented later is held against the history from here on.
    connection.execute(presented.delete().where(presented.c.data_set_id == books.id))
    if not all(within(spent, books.cap) for spent in books.spent.values()):
        books.freeze("what the restored backup had forgotten does not fit", "service")
    return shown(books)


def hold_witnessed(
    database: Database, signer: Signer, heads: Iterable[SignedStatement]
) -> list[str]:
    """Hold heads that a witness kept against the database, before anything is served.

    Return the data sets that are behind: they take no claims until an owner acknowledges it.
    Raises `Refusal` for a head of a data set that the database has lost.
    """
    behind: list[str] = []
    for signed in heads:
        name = signed.statement.data_set

        def held(connection: sa.Connection, signed: SignedStatement = signed) -> bool:
            books = Books.open(connection, signer, signed.statement.data_set)
            return _held(books, signed)

        (answer,) = database.write([held])
        if isinstance(answer, Refusal):
            raise answer
        if not answer:
            behind.append(name)
    return list(dict.fromkeys(behind))


def _held(books: Books, signed: SignedStatement) -> bool:
    """Keep a statement, and mark the data set where its history lacks it."""
    said = signed.statement
    agrees = _entry_hash(books.connection, books, said.seq) == said.hash
    known = books.connection.execute(
        _of(books).where(presented.c.seq == said.seq, presented.c.hash == said.hash)
    ).first()
    if agrees:
        # Of those that agree, the newest bounds where another history may have parted.
        kept = books.connection.execute(_of(books).order_by(presented.c.seq.desc())).first()
        if known is None and (kept is None or kept.seq < said.seq or books.behind is not None):
            _keep(books, signed)
        return True
    if known is None:
        _keep(books, signed)
    if books.behind is None:
        books.behind = f"entry {said.seq} of its history was seen, and is not in it"
        books.append(
            {"type": "behind", "seen": said.seq, "seen_hash": said.hash}, behind=books.behind
        )
    return False


def _keep(books: Books, signed: SignedStatement) -> None:
    said = signed.statement
    values: dict[str, Any] = {"data_set_id": books.id, "seq": said.seq, "hash": said.hash}
    books.connection.execute(
        presented.insert(), {**values, "statement": json.dumps(signed.to_json())}
    )


def _missing(
    books: Books, agreed: SignedStatement | None, conflicting: list[SignedStatement]
) -> dict[str, Vector]:
    """Return what each block is to be charged."""
    nothing = zero(books.terms.size)
    charged: dict[str, Vector] = {}
    for block in books.spent:
        said = [
            each.statement.balances[block]
            for each in conflicting
            if block in each.statement.balances
        ]
        before = nothing if agreed is None else agreed.statement.balances.get(block, nothing)
        missing = above(largest([nothing, *said]), before)
        if any(missing):
            charged[block] = missing
    return charged


def _of(books: Books) -> sa.Select[Any]:
    return sa.select(presented).where(presented.c.data_set_id == books.id)


def _entry_hash(connection: sa.Connection, books: Books, seq: int) -> str | None:
    asked = sa.select(entries.c.hash).where(entries.c.data_set_id == books.id, entries.c.seq == seq)
    return connection.execute(asked).scalar()
