"""Before anything is served: the rows of claims, projects, proposals and what was presented.

Each is held against what the history makes of it.  Tokens have no history, and nothing is spent by
one that a claim does not tell.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from .balances import loaded, zero
from .books import Books
from .claims import ClaimRequest
from .replayed import Contradiction, ReplayedHistory
from .replayed_fields import share_in
from .restored_gap import COUNTED
from .signer import SignedStatement
from .tables import claims, presented, project_blocks, projects, proposals


@dataclass
class HistoryWithContents(ReplayedHistory):
    """A history that keeps the digests of what was claimed, with its blocks named and without."""

    contents: dict[str, tuple[str, str]] = field(default_factory=dict)

    def _claim(self, record: Mapping[str, Any], prev: str) -> None:
        super()._claim(record, prev)
        source = record.get("view", self.open_terms.name)
        asked = [
            ClaimRequest(
                source,
                names,
                record["project"],
                record["event"],
                record["begun"],
                record.get("stated"),
            )
            for names in (None, tuple(record["blocks"]))
        ]
        self.contents[record["claim"]] = (asked[0].content, asked[1].content)


def require_rows(connection: sa.Connection, books: Books, history: HistoryWithContents) -> None:
    """Raise `Contradiction` where a row says other than the history."""
    _require_claims(connection, books, history)
    _require_limits(connection, books, history)
    _require_proposals(connection, books, history)
    _require_presented(connection, books, history)


def _require_claims(connection: sa.Connection, books: Books, history: HistoryWithContents) -> None:
    names = {number: name for name, number in books.ids.items()}
    asked = sa.select(claims, projects.c.name.label("project")).where(
        claims.c.project_id == projects.c.id, claims.c.data_set_id == books.id
    )
    count = 0
    for row in connection.execute(asked.execution_options(yield_per=1000)):
        claim = history.claims.get(row.id)
        count += 1
        if claim is None:
            raise Contradiction("its tables have a claim that its history lacks")
        limited = (row.project, f"analyst:{row.holder}")
        touched = tuple(names.get(number) for number in json.loads(row.block_ids))
        said = (row.state, limited, touched, loaded(row.price), row.log_head)
        if said != (claim.state, claim.limited, claim.blocks, claim.price, claim.head):
            raise Contradiction("its tables say other of a claim than its history")
        answer = json.loads(row.answer)
        if answer.get("audit") != claim.audit:
            raise Contradiction("its tables say other of an audit than its history")
        if row.content not in history.contents[row.id] or answer["id"] != row.id:
            raise Contradiction("its tables answer a claim by another one")
    if count != len(history.claims):
        raise Contradiction("its tables lack a claim that its history has")


def _require_limits(connection: sa.Connection, books: Books, history: ReplayedHistory) -> None:
    nothing = zero(books.terms.size)
    rows = connection.execute(sa.select(projects).where(projects.c.data_set_id == books.id)).all()
    spending: dict[int, dict[int, str]] = {row.id: {} for row in rows}
    asked = sa.select(project_blocks).join(projects).where(projects.c.data_set_id == books.id)
    for row in connection.execute(asked):
        spending[row.project_id][row.block_id] = row.spent
    limits = {row.name: row.id for row in rows}
    for row in rows:
        if share_in(row.share) != history.shares.get(row.name, Fraction(1)):
            raise Contradiction("its tables have another share than its history")
    for name in {*history.shares, *limits}:
        if name not in limits:
            raise Contradiction("its tables lack a limit that its history has")
    for (name, block), spent in history.limited.items():
        is_kept = name in limits or not name.startswith("analyst:")
        if is_kept and any(spent):
            number = limits.get(name)
            text = None if number is None else spending[number].pop(books.ids[block], None)
            if text is None or loaded(text) != spent:
                raise Contradiction("its tables say other of a project than its history")
    if any(loaded(text) != nothing for by_block in spending.values() for text in by_block.values()):
        raise Contradiction("its tables say that a project spent what its history lacks")


def _require_proposals(connection: sa.Connection, books: Books, history: ReplayedHistory) -> None:
    asked = sa.select(proposals).where(
        proposals.c.data_set_id == books.id, proposals.c.state == "proposed"
    )
    rows = {row.id: (row.epsilon, row.proposer) for row in connection.execute(asked)}
    if rows != history.proposals:
        raise Contradiction("its tables have other proposals than its history")


def _require_presented(connection: sa.Connection, books: Books, history: ReplayedHistory) -> None:
    asked = sa.select(presented).where(presented.c.data_set_id == books.id)
    waiting: set[tuple[int, str]] = set()
    acknowledged: dict[tuple[int, str], bool] = {}
    for row in connection.execute(asked):
        signed, name = SignedStatement.from_json(json.loads(row.statement)), (row.seq, row.hash)
        said = (signed.statement.data_set, signed.statement.seq, signed.statement.hash)
        if said != (books.name, *name) or not history.signed_then(signed):
            raise Contradiction("its tables have a statement that its service did not sign")
        if row.acknowledged:
            acknowledged[name] = row.acknowledged == COUNTED
        else:
            waiting.add(name)
    known = {(each.seq, each.hash): False for each in history.acknowledged}
    if history.seen != waiting or acknowledged != known | dict.fromkeys(history.counted, True):
        raise Contradiction("its tables have other statements than its history")
