"""The life of a claim: claimed, begun, released, audited; or cancelled before, or abandoned after.

Every step is one operation of a transaction (`database.Database.write`): it charges, writes its
entry and returns the answer, or it refuses and leaves nothing behind.  What was begun is spent:
no step after `begin` gives anything back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from ...fl.log.hash_chain import canonical, digest
from .balances import (
    Vector,
    above,
    largest_spending,
    loaded,
    minus,
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
from .tables import claims
from .terms import epsilon_of, left_of

FINAL_STATES: Final = ("cancelled", "abandoned", "audited")


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
        named = None if self.blocks is None else sorted(self.blocks)
        stated = None if self.stated is None else dict(self.stated)
        said = [self.data_set, named, self.project, dict(self.event), self.begin, stated]
        return digest(canonical(said))


@dataclass(frozen=True)
class Actor:
    """Who asks: the holder of a token, and its role."""

    holder: str
    role: str


def begin(connection: sa.Connection, signer: Signer, claim: str, actor: Actor) -> dict[str, object]:
    """Have a claim begun: from here on it is spent, whatever becomes of it."""
    row, books = _opened(connection, signer, claim, actor)
    if row.state == "begun":
        return answer_of(books, claim, "begun", _names(books, row))
    _require_state(row, "claimed")
    books.require_served()
    _step(books, row, {"type": "claim.begin"}, "begun", actor)
    return answer_of(books, claim, "begun", _names(books, row))


def cancel(
    connection: sa.Connection, signer: Signer, claim: str, actor: Actor
) -> dict[str, object]:
    """Take back a claim that was not begun, so that nothing was drawn under it."""
    row, books = _opened(connection, signer, claim, actor)
    names = _names(books, row)
    if row.state == "cancelled":
        return answer_of(books, claim, "cancelled", names)
    _require_state(row, "claimed")
    if books.behind is not None:
        books.require_served()  # in the history that was lost it may have been begun
    price = loaded(row.price)
    books.put_spent({name: minus(books.spent[name], price) for name in names})
    for each in (row.project_id, *analyst_of(books, row.holder)):
        spent = limited_spending(books, each, names)
        put_limited(books, each, {name: minus(spent[name], price) for name in names})
    _step(books, row, {"type": "claim.cancel"}, "cancelled", actor)
    return answer_of(books, claim, "cancelled", names)


def release(
    connection: sa.Connection, signer: Signer, claim: str, actor: Actor, head: str | None
) -> dict[str, object]:
    """Close a claim with the head of the log that says what was released."""
    row, books = _opened(connection, signer, claim, actor)
    names = _names(books, row)
    if row.state == "released" and row.log_head == head:
        return answer_of(books, claim, "released", names)
    _require_state(row, "begun")
    record: dict[str, object] = {"type": "claim.release", "head": head}
    _step(books, row, record, "released", actor, log_head=head)
    return answer_of(books, claim, "released", names)


def abandon(
    connection: sa.Connection, signer: Signer, claim: str, actor: Actor
) -> dict[str, object]:
    """Close a claim that ends without a release; it stays spent."""
    row, books = _opened(connection, signer, claim, actor)
    if row.state == "abandoned":
        return answer_of(books, claim, "abandoned", _names(books, row))
    _require_state(row, "begun")
    _step(books, row, {"type": "claim.abandon"}, "abandoned", actor)
    return answer_of(books, claim, "abandoned", _names(books, row))


def audit(
    connection: sa.Connection,
    signer: Signer,
    claim: str,
    actor: Actor,
    verdict: str,
    event: Mapping[str, Any] | None,
    price: Vector | None,
) -> dict[str, object]:
    """Close a claim with an audit's verdict, `holds` or `above`, and charge what was lost above it.

    `event` is what the audited log supports, and `price` its price.  What is above the claim is
    charged also where it does not fit, and the data set is then frozen; as it is by a loss above
    the claim whose size nobody states, or by an event that costs no more than was claimed.
    """
    row, books = _opened(connection, signer, claim, actor)
    _require_state(row, "released")
    names = _names(books, row)
    size = books.terms.size
    difference = zero(size) if price is None else above(price, loaded(row.price))
    if any(difference):
        books.put_spent({name: plus(books.spent[name], difference) for name in names})
        for each in (row.project_id, *analyst_of(books, row.holder)):
            spent = limited_spending(books, each, names)
            put_limited(books, each, {name: plus(spent[name], difference) for name in names})
    record: dict[str, object] = {
        "type": "claim.audit",
        "verdict": verdict,
        "event": None if event is None else dict(event),
        "price": None if price is None else texts(price),
        "charged": texts(difference),
    }
    _step(books, row, record, "audited", actor, price=stored(plus(loaded(row.price), difference)))
    if not all(within(books.spent[name], books.cap) for name in names):
        books.freeze(f"claim {claim} lost more than it claimed, and more than was left", "service")
    elif verdict == "above" and not any(difference):
        books.freeze(f"claim {claim} lost more than it claimed, nobody says how much", "service")
    return answer_of(books, claim, "audited", names)


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


def answer_of(books: Books, claim: str, state: str, names: Sequence[str]) -> dict[str, object]:
    spent = largest_spending([books.spent[name] for name in names], books.cap)
    epsilon = epsilon_of(books.terms, spent)
    return {
        "id": claim,
        "state": state,
        "spent": {"epsilon": epsilon, "delta": books.terms.delta},
        "left": {"epsilon": left_of(books.epsilon, epsilon), "delta": books.terms.delta},
        "receipt": books.statement(claim),
    }
