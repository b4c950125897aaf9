"""A data set inside a transaction: its row is locked, its balances are read, entries are added."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Self

import sqlalchemy as sa

from ...fl.log.hash_chain import START, canonical, chained
from .balances import Vector, loaded, stored
from .database import locked_row, locked_rows
from .names import MAX_BLOCKS, Refusal
from .signer import Signer, Statement
from .tables import blocks, data_sets, entries
from .terms import Terms


@dataclass
class Books:
    """The books of one data set, open for writing until the transaction ends.

    `spent` is what each block has spent, by its name; `ids` are those of the blocks.  `seq` and
    `head` are of the last entry; `keys` signed the history, and the last one signs it now.  `asked`
    is the name that was asked for: the data set, or a view.
    """

    connection: sa.Connection
    signer: Signer
    id: int
    name: str
    asked: str
    terms: Terms
    cap: Vector
    epsilon: float
    certified: bool
    frozen: str | None
    behind: str | None
    seq: int
    head: str
    keys: tuple[str, ...]
    spent: dict[str, Vector] = field(default_factory=dict)
    ids: dict[str, int] = field(default_factory=dict)
    _staged: list[dict[str, object]] = field(default_factory=list)

    @classmethod
    def open(cls, connection: sa.Connection, signer: Signer, name: str) -> Self:
        """Return the books of a data set or of a view, locked; `Refusal` where there is none."""
        row = connection.execute(sa.select(data_sets).where(data_sets.c.name == name)).first()
        if row is None:
            raise no_data_set(name)
        return cls.of_id(connection, signer, row.parent_id or row.id, asked=name)

    @classmethod
    def of_id(
        cls, connection: sa.Connection, signer: Signer, number: int, *, asked: str | None = None
    ) -> Self:
        """Return the books of a data set by its id, locked."""
        row = locked_row(connection, data_sets, data_sets.c.id == number)
        assert row is not None
        books = cls._of_row(connection, signer, row, asked)
        if books.keys[-1] != signer.public:
            raise Refusal(
                503,
                "other-key",
                f"The history of {books.name} is signed by another key.",
                "One key signs a history until it names the next.",
                "Start the service with that key, or rotate it with both.",
            )
        for block in locked_rows(connection, blocks, blocks.c.data_set_id == number):
            books.ids[block.name], books.spent[block.name] = block.id, loaded(block.spent)
        return books

    @classmethod
    def reading(cls, connection: sa.Connection, signer: Signer, name: str) -> Self:
        """Return the books of a data set or a view as they were committed last, unlocked."""
        row = connection.execute(sa.select(data_sets).where(data_sets.c.name == name)).first()
        if row is None:
            raise no_data_set(name)
        root = row
        if row.parent_id is not None:
            parent = sa.select(data_sets).where(data_sets.c.id == row.parent_id)
            root = connection.execute(parent).one()
        books = cls._of_row(connection, signer, root, name)
        asked = sa.select(blocks).where(blocks.c.data_set_id == root.id).order_by(blocks.c.id)
        for block in connection.execute(asked):
            books.ids[block.name], books.spent[block.name] = block.id, loaded(block.spent)
        return books

    @classmethod
    def _of_row(
        cls, connection: sa.Connection, signer: Signer, row: Any, asked: str | None
    ) -> Self:
        return cls(
            connection,
            signer,
            row.id,
            row.name,
            asked or row.name,
            terms_of(row.terms),
            loaded(row.cap),
            float(row.epsilon),
            bool(row.certified),
            row.frozen,
            row.behind,
            row.seq,
            row.head,
            tuple(row.keys.split()),
        )

    def chosen(self, names: Sequence[str] | None) -> tuple[str, ...]:
        """Return the blocks that a claim names, all that exist for None, in the order of ids."""
        if names is None:
            if len(self.ids) > MAX_BLOCKS:
                raise Refusal(422, "too-many-blocks", f"A claim has at most {MAX_BLOCKS} blocks.")
            return tuple(self.ids)
        for name in names:
            if name not in self.ids:
                raise Refusal(
                    404,
                    "no-block",
                    f"{self.name} has no block {name}.",
                    "A claim names blocks that exist.",
                    f"GET /v1/data-sets/{self.name} lists them.",
                )
        return tuple(sorted(names, key=self.ids.__getitem__))

    def require_served(self) -> None:
        """Raise `Refusal` where the data set takes no claims."""
        if self.behind is not None:
            raise Refusal(
                409,
                "behind",
                f"{self.name} is older than what was seen of it: {self.behind}.",
                "A database that was restored from a backup has forgotten what was spent since.",
                "An owner presents receipts and acknowledges the gap in the history.",
            )
        if self.frozen is not None:
            raise Refusal(
                409,
                "frozen",
                f"{self.name} is frozen: {self.frozen}.",
                "Nothing is claimed or begun until an owner has dealt with it.",
                "Ask an owner of the data set.",
            )

    def put_spent(self, changed: Mapping[str, Vector]) -> None:
        """Write what blocks have spent."""
        if not changed:
            return
        self.spent.update(changed)
        update = blocks.update().where(blocks.c.id == sa.bindparam("block"))
        self.connection.execute(
            update.values(spent=sa.bindparam("units")),
            [{"block": self.ids[name], "units": stored(units)} for name, units in changed.items()],
        )

    def append(self, record: Mapping[str, object], **changed: object) -> None:
        """Add an entry, and write what it changes of the data set's row."""
        self.stage(record)
        self.write_staged(**changed)

    def stage(self, record: Mapping[str, object]) -> str:
        """Add an entry that `write_staged` writes, and return its line."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self.seq += 1
        line, self.head = chained({**record, "at": at}, self.seq, self.head)
        row = {"data_set_id": self.id, "seq": self.seq, "line": line, "hash": self.head}
        self._staged.append(row)
        return line

    def write_staged(self, **changed: object) -> None:
        """Write the entries that were added, and what they change of the data set's row."""
        self.connection.execute(entries.insert(), self._staged)
        self._staged = []
        values = {"seq": self.seq, "head": self.head, **changed}
        self.connection.execute(
            data_sets.update().where(data_sets.c.id == self.id).values(**values)
        )

    def statement(
        self, claim: str | None = None, state: str | None = None, request: str | None = None
    ) -> dict[str, object]:
        """Return the signed statement of what is spent now, and of how far a claim is."""
        said = Statement(
            self.name,
            self.seq,
            self.head,
            self.spent,
            self.cap,
            self.certified,
            self.frozen is not None or self.behind is not None,
            claim,
            state,
            request,
        )
        return self.signer.sign(said).to_json()

    def freeze(self, reason: str, by: str, *, certifies: bool = True) -> None:
        """Let nothing be claimed or begun; `certifies` is False where a loss is not known."""
        self.frozen, self.certified = reason, self.certified and certifies
        record = {"type": "freeze", "reason": reason, "by": by}
        self.append(record, frozen=reason, certified=int(self.certified))


def no_data_set(name: str) -> Refusal:
    """Return the refusal of a name that nothing has."""
    return Refusal(
        404,
        "no-data-set",
        f"There is no data set {name}.",
        "A data set is opened by an owner before its first claim.",
        "GET /v1/data-sets lists them.",
    )


@lru_cache(maxsize=1024)
def terms_of(text: str) -> Terms:
    """Return the terms in a column."""
    return Terms.from_json(json.loads(text))


def terms_text(terms: Terms) -> str:
    """Return terms as they stand in a column."""
    return canonical(terms.to_json())


FIRST_HEAD = START
"""What stands as `prev` in the first entry."""
