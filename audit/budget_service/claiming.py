"""Claims of one data set, made together: decided one after the other, and written all at once.

The data set is locked first, so what its blocks have spent is read once for the whole group, and
kept in memory from claim to claim.  A claim that does not fit changes nothing.  What is written at
the end is the sum of all, in one transaction.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from ...accountant.errors import PrivplanError
from ...fl.ledger_client.receipts import request_of
from ...fl.log.hash_chain import canonical
from .balances import Vector, count_that_fits, part, plus, stored, texts, within
from .books import Books
from .claims import Actor, ClaimRequest, answer_of
from .daily_limits import ClaimedToday, DailyLimits, claimed_today, put_claimed, today
from .limits import analyst_of, limited_spending, new_project, project_of, put_limited
from .names import Refusal
from .signer import Signer
from .tables import claims


@dataclass(frozen=True)
class PricedClaim:
    """A claim with its price, its holder and the key under which it may be repeated."""

    request: ClaimRequest
    price: Vector
    actor: Actor
    key: str


class BudgetRefusal(Refusal):
    """A claim does not fit; `rooms` are what limits it, as pairs of what is spent and the cap."""

    def __init__(self, name: str, price: Vector, rooms: Sequence[tuple[Vector, Vector]]) -> None:
        count = min(count_that_fits(spent, price, cap) for spent, cap in rooms)
        super().__init__(
            409,
            "budget",
            f"The claim does not fit into what is left of {name}.",
            "In at least one block, or for the project, it would exceed the cap.",
            "Claim what fits: fewer releases, a lower rate or more noise.",
            {"fits": {"count": count}},
        )
        self.rooms = tuple(dict.fromkeys(rooms))


def make_claims(
    connection: sa.Connection,
    signer: Signer,
    asked: Sequence[PricedClaim],
    limits: DailyLimits | None = None,
) -> list[dict[str, object] | PrivplanError]:
    """Charge each claim to every block and to its project; return answers with receipts.

    All are of one data set, or of its views.  The same key with the same content returns the answer
    that was given, in the state that the claim has now; one that was cancelled is refused (409), as
    is one to be begun at once that has ended, and another content (422).  A claim that is refused
    stands in the list as the refusal: `BudgetRefusal` where it does not fit, of which nothing is
    remembered, and (429) where its holder has claimed what `limits` allow for a day.
    """
    books = Books.open(connection, signer, asked[0].request.data_set)
    now = datetime.now(UTC)
    holders = [each.actor.holder for each in asked]
    claimed = claimed_today(connection, books.id, holders, today(now))
    group = _Group(books, _earlier(connection, asked), limits or DailyLimits(), now, claimed)
    answers: list[dict[str, object] | PrivplanError] = []
    for each in asked:
        try:
            answers.append(group.claim(each))
        except PrivplanError as refusal:
            answers.append(refusal)
    group.write()
    return answers


def _earlier(
    connection: sa.Connection, asked: Sequence[PricedClaim]
) -> dict[tuple[str, str], tuple[str, str, str]]:
    """Return content, answer and state of claims that were made under these keys.

    Asked after the lock: a key may just have been used by a retry.
    """
    keys = [(each.actor.holder, each.key) for each in asked]
    rows = connection.execute(
        sa.select(
            claims.c.holder, claims.c.key, claims.c.content, claims.c.answer, claims.c.state
        ).where(sa.tuple_(claims.c.holder, claims.c.key).in_(keys))
    )
    return {(row.holder, row.key): (row.content, row.answer, row.state) for row in rows}


@dataclass
class _Group:
    """What a group has read and will write.

    `limits` are ids and shares of projects by their names, and of holders that are limited;
    `spending` is what each of them has spent by block; `claimed` what holders claimed today.
    """

    books: Books
    earlier: dict[tuple[str, str], tuple[str, str, str]]
    daily: DailyLimits
    now: datetime
    claimed: dict[str, ClaimedToday]
    rows: list[dict[str, Any]] = field(default_factory=list)
    projects: dict[str, tuple[int, Fraction]] = field(default_factory=dict)
    analysts: dict[str, dict[int, Fraction]] = field(default_factory=dict)
    spending: dict[int, dict[str, Vector]] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    changed_limits: dict[int, dict[str, None]] = field(default_factory=dict)

    def claim(self, asked: PricedClaim) -> dict[str, object]:
        """Return the answer to a claim that fits; else raise, and change nothing."""
        request, price, books = asked.request, asked.price, self.books
        known = self.earlier.get((asked.actor.holder, asked.key))
        if known is not None:
            return _remembered(*known, request)
        books.require_served()
        if not any(price):
            raise Refusal(
                422,
                "costs-nothing",
                "The event costs nothing.",
                "It needs no claim, and a history of claims that always fit has no end.",
                "Claim what is drawn from data.",
            )
        names = books.chosen(request.blocks)
        limits = self._limits(request.project, asked.actor.holder, fits=False)
        rooms = [(books.spent[name], books.cap) for name in names]
        for each, share in limits.items():
            if share < 1:
                limit = part(books.cap, share)
                rooms += [(self.spending[each][name], limit) for name in names]
        if not all(within(plus(spent, price), cap) for spent, cap in rooms):
            raise BudgetRefusal(request.data_set, price, rooms)
        claimed = self.claimed[asked.actor.holder]
        claimed.require_within(self.daily, request.data_set, self.now)
        limits = self._limits(request.project, asked.actor.holder, fits=True)
        for name in names:
            books.spent[name] = plus(books.spent[name], price)
            self.changed[name] = None
            for each in limits:
                self.spending[each][name] = plus(self.spending[each][name], price)
                self.changed_limits.setdefault(each, {})[name] = None
        return self._noted(asked, names)

    def write(self) -> None:
        """Write what the group charged, if anything."""
        if not self.rows:
            return
        books = self.books
        books.put_spent({name: books.spent[name] for name in self.changed})
        for each, names in self.changed_limits.items():
            put_limited(books, each, {name: self.spending[each][name] for name in names})
        books.write_staged()
        books.connection.execute(claims.insert(), self.rows)
        holders = {row["holder"] for row in self.rows}
        claimed = {holder: self.claimed[holder] for holder in holders}
        put_claimed(books.connection, books.id, claimed, today(self.now))

    def _limits(self, project: str, holder: str, *, fits: bool) -> dict[int, Fraction]:
        """Return the ids and shares that limit a claim; what they have spent is then at hand."""
        books = self.books
        if project not in self.projects:
            known = project_of(books, project)
            # One that is named first by a claim that does not fit is not kept.
            if known is None and fits:
                known = new_project(books, project)
            if known is not None:
                self.projects[project] = known
        if holder not in self.analysts:
            self.analysts[holder] = analyst_of(books, holder)
        limits = dict([self.projects[project]] if project in self.projects else [])
        limits |= self.analysts[holder]
        for each in limits:
            if each not in self.spending:
                self.spending[each] = limited_spending(books, each, list(books.ids))
        return limits

    def _noted(self, asked: PricedClaim, names: Sequence[str]) -> dict[str, object]:
        """Stage the entry and the row of a claim that was charged, and return its answer."""
        request, books = asked.request, self.books
        # Ids are of 128 bits, so no other holder guesses one.
        claim = secrets.token_hex(16)
        state = "begun" if request.begin else "claimed"
        record: dict[str, object] = {
            "type": "claim",
            "claim": claim,
            "project": request.project,
            "blocks": list(names),
            "event": dict(request.event),
            "price": texts(asked.price),
            "begun": request.begin,
            "by": asked.actor.holder,
        }
        if request.data_set != books.name:
            record["view"] = request.data_set
        if request.stated is not None:
            record |= {"stated": dict(request.stated), "derivation": list(request.derivation)}
        line = books.stage(record)
        known = request_of(request.content, asked.key)
        answer = answer_of(books, claim, state, names, known)
        text = canonical(answer)
        claimed = self.claimed[asked.actor.holder]
        claimed.claims, claimed.bytes = claimed.claims + 1, claimed.bytes + len(line) + len(text)
        self.earlier[asked.actor.holder, asked.key] = (request.content, text, state)
        self.rows.append(
            {
                "id": claim,
                "data_set_id": books.id,
                "project_id": self.projects[request.project][0],
                "holder": asked.actor.holder,
                "key": asked.key,
                "content": request.content,
                "answer": text,
                "state": state,
                "block_ids": json.dumps([books.ids[name] for name in names]),
                "price": stored(asked.price),
                "log_head": None,
            }
        )
        return answer


def _remembered(content: str, answer: str, state: str, asked: ClaimRequest) -> dict[str, object]:
    if content != asked.content:
        raise Refusal(
            422,
            "key-reused",
            "This Idempotency-Key was used for another claim.",
            "One key stands for one claim, so that a retry never charges twice.",
            "Give a new key.",
        )
    if state == "cancelled":
        raise Refusal(
            409,
            "state",
            "The claim of this Idempotency-Key was cancelled.",
            "What it had claimed is given back, and nothing may be drawn under it.",
            "Claim anew with a new key.",
            {"state": state},
        )
    if asked.begin and state != "begun":
        raise Refusal(
            409,
            "state",
            f"The claim of this Idempotency-Key is {state}.",
            "What it paid for was drawn or given up; a program that runs again draws anew.",
            "Claim anew with a new key.",
            {"state": state},
        )
    remembered: dict[str, object] = json.loads(answer)
    return {**remembered, "state": state}
