"""The life of a claim: claimed, begun, released, audited; or cancelled before, or abandoned after.

Every step is one operation of a transaction (`database.Database.write`): it charges, writes its
entry and returns the answer, or it refuses and leaves nothing behind.  What was begun is spent:
no step after `begin` gives anything back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ...fl.ledger_client.receipts import content_of, request_of
from ...fl.log.hash_chain import canonical
from .balances import (
    Vector,
    above,
    is_clearly_above,
    largest_spending,
    loaded,
    minus,
    of_texts,
    plus,
    stored,
    texts,
    within,
    zero,
)
from .books import Books
from .database import locked_row
from .limits import analyst_of, limited_spending, put_limited
from .names import Refusal
from .signer import Signer
from .stating import audit_noted
from .tables import claims, entries
from .terms import epsilon_of, left_of


@dataclass(frozen=True)
class ClaimRequest:
    """What a client claims: an event in blocks of a data set (None: in all), for a project.

    `stated` says for whom the event is stated, where not as the data set is (`stating`), and
    `derivation` how what is charged follows from it.
    """

    data_set: str
    blocks: tuple[str, ...] | None
    project: str
    event: Mapping[str, Any]
    begin: bool
    stated: Mapping[str, Any] | None = None
    derivation: tuple[str, ...] = ()

    @property
    def content(self) -> str:
        """The digest of what is claimed: the same key stands for the same content only."""
        return content_of(
            self.data_set, self.blocks, self.project, self.event, self.begin, self.stated
        )


@dataclass(frozen=True)
class AuditedLoss:
    """What an audited log supports: an event, its price, and for whom it is stated (`stating`)."""

    event: Mapping[str, Any]
    price: Vector
    stated: Mapping[str, Any] | None = None
    derivation: tuple[str, ...] = ()


@dataclass(frozen=True)
class Actor:
    """Who asks: the holder of a token, and its role."""

    holder: str
    role: str


def begin(connection: sa.Connection, signer: Signer, claim: str, actor: Actor) -> dict[str, object]:
    """Have a claim begun: from here on it is spent, whatever becomes of it."""
    row, books = _opened(connection, signer, claim, actor)
    if row.state == "begun":
        return _answer(books, row, "begun")
    _require_state(row, "claimed")
    books.require_served()
    _step(books, row, {"type": "claim.begin"}, "begun", actor)
    return _answer(books, row, "begun")


def cancel(
    connection: sa.Connection, signer: Signer, claim: str, actor: Actor
) -> dict[str, object]:
    """Take back a claim that was not begun, so that nothing was drawn under it."""
    row, books = _opened(connection, signer, claim, actor)
    names = _names(books, row)
    if row.state == "cancelled":
        return _answer(books, row, "cancelled")
    _require_state(row, "claimed")
    if books.behind is not None:
        books.require_served()  # in the history that was lost it may have been begun
    price = loaded(row.price)
    books.put_spent({name: minus(books.spent[name], price) for name in names})
    for each in (row.project_id, *analyst_of(books, row.holder)):
        spent = limited_spending(books, each, names)
        put_limited(books, each, {name: minus(spent[name], price) for name in names})
    _step(books, row, {"type": "claim.cancel"}, "cancelled", actor)
    return _answer(books, row, "cancelled")


def release(
    connection: sa.Connection, signer: Signer, claim: str, actor: Actor, head: str | None
) -> dict[str, object]:
    """Close a claim with the head of the log that says what was released."""
    row, books = _opened(connection, signer, claim, actor)
    if row.state == "released" and row.log_head == head:
        return _answer(books, row, "released")
    _require_state(row, "begun")
    record: dict[str, object] = {"type": "claim.release", "head": head}
    _step(books, row, record, "released", actor, log_head=head)
    return _answer(books, row, "released")


def abandon(
    connection: sa.Connection, signer: Signer, claim: str, actor: Actor
) -> dict[str, object]:
    """Close a claim that ends without a release; it stays spent."""
    row, books = _opened(connection, signer, claim, actor)
    if row.state == "abandoned":
        return _answer(books, row, "abandoned")
    _require_state(row, "begun")
    _step(books, row, {"type": "claim.abandon"}, "abandoned", actor)
    return _answer(books, row, "abandoned")


def audit(
    connection: sa.Connection,
    signer: Signer,
    claim: str,
    actor: Actor,
    verdict: str,
    lost: AuditedLoss | None,
) -> dict[str, object]:
    """Close a claim with an audit's verdict, `holds` or `above`, and charge what was lost above it.

    `lost` is what the audited log supports.  What is above the claim is charged also where it does
    not fit, and the data set is then frozen.  A loss above the claim whose size nobody states, or
    with an event that costs no more than was claimed, freezes it too, and nothing is certified any
    more.  A loss that is clearly above the claim is, whatever the verdict says.  So is a claim
    audited that was abandoned, or audited before, and with `above` one that was not released; the
    same once more changes nothing, and what an earlier verdict charged is not charged again.
    """
    row, books = _opened(connection, signer, claim, actor)
    names, paid = _names(books, row), loaded(row.price)
    if row.state not in ("begun", "released", "abandoned", "audited"):
        _require_state(row, "released")
    difference = zero(books.terms.size) if lost is None else above(lost.price, paid)
    if is_clearly_above(difference, paid):
        verdict = "above"
    if row.state == "begun" and verdict != "above":
        _require_state(row, "released")
    answer = json.loads(row.answer)
    claimed = _claimed_price(books, row.id, answer["receipt"]["seq"])
    record = {**_audit_record(verdict, lost, difference), "claimed": texts(claimed)}
    noted = audit_noted(record)
    earlier = answer.get("audit", {"verdict": None, "content": None})
    if earlier["content"] == noted["content"] and earlier["verdict"] in ("above", verdict):
        return {**_answer(books, row, "audited"), "audit": earlier}
    _charge_above(books, row, names, difference)
    values = {
        "price": stored(plus(paid, difference)),
        "answer": canonical({**answer, "audit": noted}),
    }
    _step(books, row, record, "audited", actor, **values)
    if not all(within(books.spent[name], books.cap) for name in names):
        books.freeze(f"claim {claim} lost more than it claimed, and more than was left", "service")
    elif verdict == "above" and not any(difference) and not _is_above(lost, claimed):
        reason = f"claim {claim} lost more than it claimed, nobody says how much"
        books.freeze(reason, "service", certifies=False)
    return {**_answer(books, row, "audited"), "audit": noted}


def _audit_record(verdict: str, lost: AuditedLoss | None, difference: Vector) -> dict[str, object]:
    record: dict[str, object] = {
        "type": "claim.audit",
        "verdict": verdict,
        "event": None if lost is None else dict(lost.event),
        "price": None if lost is None else texts(lost.price),
        "charged": texts(difference),
    }
    if lost is not None and lost.stated is not None:
        record |= {"stated": dict(lost.stated), "derivation": list(lost.derivation)}
    return record


def _claimed_price(books: Books, claim: str, seq: int) -> Vector:
    """Return what a claim was charged when it was made: its row has what audits added as well."""
    asked = sa.select(entries.c.line).where(entries.c.data_set_id == books.id, entries.c.seq == seq)
    record = json.loads(books.connection.execute(asked).scalar_one())
    if (record["type"], record["claim"]) != ("claim", claim):
        raise ValueError("the answer of a claim names an entry that is not its own")
    return of_texts(record["price"], books.terms.size)


def _is_above(lost: AuditedLoss | None, claimed: Vector) -> bool:
    return lost is not None and any(above(lost.price, claimed))


def _charge_above(books: Books, row: sa.Row[Any], names: Sequence[str], difference: Vector) -> None:
    """Charge blocks, project and holder what was lost above a claim."""
    if not any(difference):
        return
    books.put_spent({name: plus(books.spent[name], difference) for name in names})
    for each in (row.project_id, *analyst_of(books, row.holder)):
        spent = limited_spending(books, each, names)
        put_limited(books, each, {name: plus(spent[name], difference) for name in names})


def data_set_of(connection: sa.Connection, claim: str) -> int | None:
    """Return the id of the data set of a claim, which never changes; None for no claim."""
    asked = sa.select(claims.c.data_set_id).where(claims.c.id == claim)
    return connection.execute(asked).scalar()


def shown_claim(connection: sa.Connection, claim: str, actor: Actor) -> dict[str, object]:
    """Return a claim as it is now; an analyst sees those of its own."""
    row = connection.execute(sa.select(claims).where(claims.c.id == claim)).first()
    if row is None or (actor.role == "analyst" and row.holder != actor.holder):
        raise no_claim()
    answer: dict[str, object] = json.loads(row.answer)
    return {**answer, "state": row.state, "head": row.log_head}


def _opened(
    connection: sa.Connection, signer: Signer, claim: str, actor: Actor
) -> tuple[sa.Row[Any], Books]:
    """Return the row of a claim and its data set's books, both locked, the data set first."""
    number = data_set_of(connection, claim)
    if number is None:
        raise no_claim()
    books = Books.of_id(connection, signer, number)
    row = locked_row(connection, claims, claims.c.id == claim)
    assert row is not None
    if actor.role == "analyst" and row.holder != actor.holder:
        raise no_claim()
    return row, books


def no_claim() -> Refusal:
    """Return the refusal of a claim that is not there, or not of whoever asks."""
    return Refusal(404, "no-claim", "There is no such claim of yours.")


def _require_state(row: sa.Row[Any], state: str) -> None:
    if row.state != state:
        raise Refusal(
            409,
            "state",
            f"The claim is {row.state}, and not {state}.",
            "What was begun is spent, and each step is taken once.",
            "GET /v1/claims/ID says how far it is.",
            {"state": row.state},
        )


def _step(
    books: Books,
    row: sa.Row[Any],
    record: Mapping[str, object],
    state: str,
    actor: Actor,
    **changed: object,
) -> None:
    books.append({**record, "claim": row.id, "by": actor.holder})
    values = {"state": state, **changed}
    books.connection.execute(claims.update().where(claims.c.id == row.id).values(**values))


def _names(books: Books, row: sa.Row[Any]) -> tuple[str, ...]:
    names = {number: name for name, number in books.ids.items()}
    return tuple(names[number] for number in json.loads(row.block_ids))


def _answer(books: Books, row: sa.Row[Any], state: str) -> dict[str, object]:
    """Return what whoever took a step is told; `row` is the claim as it was before."""
    return answer_of(books, row.id, state, _names(books, row), request_of(row.content, row.key))


def answer_of(
    books: Books, claim: str, state: str, names: Sequence[str], request: str
) -> dict[str, object]:
    """Return what is told of a claim, with the receipt."""
    spent = largest_spending([books.spent[name] for name in names], books.cap)
    epsilon = epsilon_of(books.terms, spent)
    return {
        "id": claim,
        "state": state,
        "spent": {"epsilon": epsilon, "delta": books.terms.delta},
        "left": {"epsilon": left_of(books.epsilon, epsilon), "delta": books.terms.delta},
        "receipt": books.statement(claim, state, request),
    }
