"""A database that was restored from a backup, seen by what others keep: heads and receipts.

Whoever holds a statement that this service signed may present it.  Where the history has no entry
of that number and hash, the statement is of another history: the data set takes no claims until an
owner acknowledges it, and then each block is charged what is known to be missing (`restored_gap`).
Without a witness or a receipt a restored backup cannot be seen at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...fl.log.hash_chain import START
from .audited import hash_of
from .balances import plus, texts, within
from .books import Books
from .claims import Actor
from .database import Database
from .names import Refusal
from .owners import insert_blocks, reason_of, shown
from .replayed import ReplayedHistory
from .restored_gap import CHARGED, COUNTED, covered, gap, parted, refunds, too_few, too_late
from .signer import SignedStatement, Signer, Statement
from .tables import claims, entries, presented

_Rotations: TypeAlias = dict[tuple[str, tuple[str, ...]], tuple[int, ...]]

_rotated: Final[WeakKeyDictionary[sa.Engine, _Rotations]] = WeakKeyDictionary()
"""Numbers of entries, by the data set and its keys, for each open database."""


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
    _require_key_of_then(books, signed)
    agrees = _entry_hash(connection, books, signed.statement.seq) == signed.statement.hash
    if not agrees:
        _keep(books, signed)
    return {"agrees": agrees, "frozen": books.behind or books.frozen}


def acknowledge(
    connection: sa.Connection,
    signer: Signer,
    name: str,
    reason: str,
    restored_at: int | None,
    actor: Actor,
    histories: int | None = None,
) -> dict[str, object]:
    """Charge what is known to be missing, say so in the history, and serve again.

    `restored_at` is the number of the last entry of the backup, by the word of the owner; None
    leaves nothing out of what the other history spent.  `histories` is of how many lost histories
    the statements are, by the same word; None takes each for one of its own (`restored_gap`).
    Claims that were not begun are begun from here on: in the other history they may have been.
    """
    books = Books.open(connection, signer, name)
    if books.behind is None:
        raise Refusal(409, "not-behind", f"{books.name} is not behind anything that was presented.")
    kept = list(connection.execute(_of(books)))
    conflicting = [_statement(row) for row in kept if not row.acknowledged]
    acknowledged = [_statement(row) for row in kept if row.acknowledged]
    if histories is not None:
        histories = validate.count_from(0, histories=histories)
    if too_few(histories, conflicting, acknowledged):
        raise InvalidInput(
            f"{histories} lost histories cannot be what was presented.",
            "Two statements of one entry with different hashes are of two histories, and none is "
            "of a history that was acknowledged before unless that one says at least as much.",
            "Leave `histories` out: each is charged then.",
        )
    shared, given_back = {}, {}
    if restored_at is not None:
        last = validate.count_from(0, restored_at=restored_at)
        if too_late(last, _first_behind(connection, books), conflicting):
            raise InvalidInput(
                f"`restored_at` must be before the entry that says that {books.name} is behind, "
                "and before the entry of each statement that was presented.",
                "The backup ended before it was restored, and before the lost history went on.",
                "Give the number of the last entry of the backup, or leave it out.",
            )
        backup = ReplayedHistory(reprice=False)
        rest: list[dict[str, Any]] = []
        for record in _records(connection, books):
            if record["seq"] <= last:
                backup.take(record, START)
            else:
                rest.append(record)
        shared = dict(backup.spent)
        given_back = refunds(books.terms.size, backup.waiting(), rest)
    charged = gap(books.terms.size, conflicting, shared, given_back, histories)
    forgotten = [block for block in charged if block not in books.spent]
    if forgotten:
        insert_blocks(books, forgotten)
    books.put_spent({block: plus(books.spent[block], units) for block, units in charged.items()})
    waiting = (claims.c.data_set_id == books.id) & (claims.c.state == "claimed")
    connection.execute(claims.update().where(waiting).values(state="begun"))
    books.behind = None
    books.append(
        {
            "type": "restore",
            "reason": reason_of(reason),
            "restored_at": restored_at,
            "histories": histories,
            "charged": {block: texts(units) for block, units in charged.items()},
            "statements": [json.loads(row.statement) for row in kept if not row.acknowledged],
            "by": actor.holder,
        },
        behind=None,
    )
    connection.execute(
        presented.update()
        .where(presented.c.data_set_id == books.id, presented.c.acknowledged == 0)
        .values(acknowledged=CHARGED if histories is None else COUNTED)
    )
    if not all(within(spent, books.cap) for spent in books.spent.values()):
        books.freeze("what the restored backup had forgotten does not fit", "service")
    return shown(books)


def hold_witnessed(
    database: Database, signer: Signer, heads: Iterable[SignedStatement]
) -> list[str]:
    """Hold heads that a witness kept against the database, before anything is served.

    Return the data sets that are behind: they take no claims until an owner acknowledges it.
    Raises `InvalidInput` for a head of a data set that the database has lost as a whole, and for
    one that the service did not sign.
    """
    behind: list[str] = []
    for signed in heads:
        name = signed.statement.data_set

        def is_served(connection: sa.Connection, signed: SignedStatement = signed) -> bool:
            name = signed.statement.data_set
            present(connection, signer, name, signed.to_json())
            # What was acknowledged before is charged, and no reason to stop again.
            return Books.reading(connection, signer, name).behind is None

        (answer,) = database.write([is_served])
        if isinstance(answer, Refusal):
            raise InvalidInput(
                f"A witness saw the data set {name}: {answer.what}",
                "Whoever opens it anew gives its people a second budget.",
                "Restore a newer backup of the database.",
            )
        if isinstance(answer, Exception):
            raise answer
        if not answer:
            behind.append(name)
    return list(dict.fromkeys(behind))


def _keep(books: Books, signed: SignedStatement) -> None:
    """Keep a statement of another history, and mark the data set, unless both were done before."""
    said, connection = signed.statement, books.connection
    kept = list(connection.execute(_of(books)))
    if any((row.seq, row.hash) == (said.seq, said.hash) for row in kept):
        return
    # Another one of a history that was charged, by the word of an owner; else it is charged itself.
    counted = [_statement(row) for row in kept if row.acknowledged == COUNTED]
    acknowledged = [_statement(row) for row in kept if row.acknowledged]
    if counted and covered(said, counted) and not parted(said, acknowledged):
        return
    values: dict[str, Any] = {"data_set_id": books.id, "seq": said.seq, "hash": said.hash}
    text = json.dumps(signed.to_json())
    connection.execute(presented.insert(), {**values, "statement": text, "acknowledged": 0})
    books.behind = books.behind or f"entry {said.seq} of its history was seen, and is not in it"
    record = {"type": "behind", "seen": said.seq, "seen_hash": said.hash}
    books.append(record, behind=books.behind)


def _require_key_of_then(books: Books, signed: SignedStatement) -> None:
    """Raise `Refusal` where a key signed that had named its successor before that entry."""
    if signed.key == books.keys[-1]:
        return
    handed_over = sum(seq <= signed.statement.seq for seq in _rotations(books))
    if signed.key not in books.keys[handed_over:]:
        raise Refusal(
            422,
            "signature",
            "The key that signed this had named its successor before that entry.",
            "Whoever has an old key must not say what was spent since.",
            "Give a statement of the time when the key was in use.",
        )


def _rotations(books: Books) -> tuple[int, ...]:
    """Return at which entries the keys of a history handed over.

    It takes a look at the whole history, and anybody may ask, so it is looked up once for each key.
    """
    known = _rotated.setdefault(books.connection.engine, {})
    if (books.name, books.keys) not in known:
        asked = sa.select(entries.c.seq, entries.c.line).where(
            entries.c.data_set_id == books.id,
            entries.c.line.contains('"type":"key.rotate"', autoescape=True),
        )
        rows = books.connection.execute(asked.order_by(entries.c.seq))
        rotations = [row.seq for row in rows if json.loads(row.line)["type"] == "key.rotate"]
        known[books.name, books.keys] = tuple(rotations)
    return known[books.name, books.keys]


def _first_behind(connection: sa.Connection, books: Books) -> int:
    """Return the number of the first entry since when the data set is behind."""
    first = 0
    for record in _records(connection, books, newest_first=True):
        if record["type"] == "behind":
            first = int(record["seq"])
        elif record["type"] == "restore":
            break
    return first


def _records(
    connection: sa.Connection, books: Books, *, newest_first: bool = False
) -> Iterator[dict[str, Any]]:
    order = entries.c.seq.desc() if newest_first else entries.c.seq
    asked = sa.select(entries.c.line).where(entries.c.data_set_id == books.id).order_by(order)
    for line in connection.execute(asked).scalars():
        yield json.loads(line)


def _statement(row: sa.Row[Any]) -> Statement:
    return SignedStatement.from_json(json.loads(row.statement)).statement


def _of(books: Books) -> sa.Select[Any]:
    return sa.select(presented).where(presented.c.data_set_id == books.id)


def _entry_hash(connection: sa.Connection, books: Books, seq: int) -> str | None:
    """Return the hash of an entry, of what it says: the column of hashes is nobody's word."""
    asked = sa.select(entries.c.line).where(entries.c.data_set_id == books.id, entries.c.seq == seq)
    line = connection.execute(asked).scalar()
    return None if line is None else hash_of(line)
