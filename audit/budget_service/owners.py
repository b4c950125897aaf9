"""What owners do: open data sets, views and blocks, limit projects, move caps, freeze.

A cap moves by four eyes: one owner proposes it with a reason, another one approves, and the history
names both.  Up to `cap_at_most` epsilon stays certified, since the filter was sized for that before
the first claim; above it certification ends for good.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from ...accountant import validate
from ...accountant.errors import InvalidInput
from .balances import Vector, loaded, plus, stored, texts, within, zero
from .books import FIRST_HEAD, Books, terms_text
from .claims import Actor
from .database import locked_row
from .limits import analyst_row, put_limited
from .names import MAX_BLOCKS, Refusal, name_of, names_of
from .signer import Signer
from .tables import blocks, claims, data_sets, projects, proposals
from .terms import Terms, epsilon_of, left_of
from .tokens import same_person

MAX_REASON_CHARACTERS: Final = 1000


def open_data_set(
    connection: sa.Connection,
    signer: Signer,
    terms: Terms,
    epsilon: float,
    block_names: Sequence[str],
    actor: Actor,
) -> dict[str, object]:
    """Open a data set with its cap and its first blocks, and return how it stands.

    The same terms once more are answered alike; other ones under a name that is taken are refused.
    """
    row = connection.execute(sa.select(data_sets).where(data_sets.c.name == terms.name)).first()
    if row is not None:
        raise _taken(terms.name)
    cap = terms.cap_of(epsilon)
    values: dict[str, Any] = {
        "name": terms.name,
        "terms": terms_text(terms),
        "cap": stored(cap),
        "epsilon": repr(epsilon),
        "certified": 1,
        "seq": -1,
        "head": FIRST_HEAD,
        "keys": signer.public,
    }
    try:
        connection.execute(data_sets.insert(), values)
    except sa.exc.IntegrityError:  # another server opened it meanwhile
        raise _taken(terms.name) from None
    books = Books.open(connection, signer, terms.name)
    insert_blocks(books, block_names)
    books.append(
        {
            "type": "data-set.open",
            "terms": terms.to_json(),
            "epsilon": repr(epsilon),
            "cap": texts(cap),
            "blocks": list(block_names),
            "key": signer.public,
            "by": actor.holder,
        }
    )
    return shown(books)


def add_blocks(
    connection: sa.Connection, signer: Signer, name: str, new: Sequence[str], actor: Actor
) -> dict[str, object]:
    """Add blocks, of units that lie in no other block: new people are new blocks."""
    books = _root(connection, signer, name)
    if any(each in books.ids for each in new):
        raise Refusal(
            409,
            "block-exists",
            "One of these blocks exists.",
            "A block never begins anew: what its units have lost stays lost.",
            "Give new blocks other names.",
        )
    if len(books.ids) + len(new) > MAX_BLOCKS:
        raise Refusal(
            422,
            "too-many-blocks",
            f"A data set has at most {MAX_BLOCKS} blocks.",
            "One claim must be able to charge all of them in one transaction.",
            "Put more units into a block.",
        )
    insert_blocks(books, new)
    books.append({"type": "blocks.add", "blocks": list(new), "by": actor.holder})
    return shown(books)


def open_view(
    connection: sa.Connection, signer: Signer, name: str, parent: str, actor: Actor
) -> dict[str, object]:
    """Open a view or a copy of a data set: what is claimed of it, its parent pays."""
    books = Books.open(connection, signer, parent)
    if connection.execute(sa.select(data_sets.c.id).where(data_sets.c.name == name)).first():
        raise _taken(name)
    values: dict[str, Any] = {
        "name": name,
        "parent_id": books.id,
        "terms": terms_text(books.terms),
        "cap": stored(books.cap),
        "epsilon": repr(books.epsilon),
        "certified": 1,
        "seq": -1,
        "head": FIRST_HEAD,
        "keys": signer.public,
    }
    connection.execute(data_sets.insert(), values)
    books.append({"type": "view.open", "view": name, "by": actor.holder})
    books.asked = name
    return shown(books)


def limit_project(
    connection: sa.Connection, signer: Signer, name: str, project: str, share: float, actor: Actor
) -> dict[str, object]:
    """Limit a project to a share of each block's cap.

    It is a limit and no guarantee: two projects together may spend more than either.
    """
    books = _root(connection, signer, name)
    text = repr(validate.probability(share=share))
    condition = (projects.c.data_set_id == books.id) & (projects.c.name == name_of(project=project))
    if locked_row(connection, projects, condition) is None:
        values = {"data_set_id": books.id, "name": project, "share": text}
        connection.execute(projects.insert(), values)
    else:
        connection.execute(projects.update().where(condition).values(share=text))
    books.append({"type": "project.limit", "project": project, "share": text, "by": actor.holder})
    return shown(books)


def limit_analyst(
    connection: sa.Connection, signer: Signer, name: str, analyst: str, share: float, actor: Actor
) -> dict[str, object]:
    """Limit a holder of tokens to a share of each block's cap; what it spent before counts.

    It is a limit and no guarantee: analysts may tell each other what they were told.
    """
    books = _root(connection, signer, name)
    text = repr(validate.probability(share=share))
    row = analyst_row(name_of(analyst=analyst))
    condition = (projects.c.data_set_id == books.id) & (projects.c.name == row)
    if locked_row(connection, projects, condition) is None:
        values = {"data_set_id": books.id, "name": row, "share": text}
        key = connection.execute(projects.insert(), values).inserted_primary_key
        assert key is not None
        put_limited(books, int(key[0]), _spent_by(books, analyst))
    else:
        connection.execute(projects.update().where(condition).values(share=text))
    books.append({"type": "analyst.limit", "analyst": analyst, "share": text, "by": actor.holder})
    return shown(books)


def _spent_by(books: Books, holder: str) -> dict[str, Vector]:
    """Return what a holder has spent in each block."""
    names = {number: name for name, number in books.ids.items()}
    spent = {name: zero(books.terms.size) for name in books.ids}
    asked = sa.select(claims.c.price, claims.c.block_ids).where(
        claims.c.data_set_id == books.id,
        claims.c.holder == holder,
        claims.c.state != "cancelled",
    )
    for price, numbers in books.connection.execute(asked):
        for number in json.loads(numbers):
            spent[names[number]] = plus(spent[names[number]], loaded(price))
    return spent


def propose_cap(
    connection: sa.Connection, signer: Signer, name: str, epsilon: float, reason: str, actor: Actor
) -> dict[str, object]:
    """Propose another cap; nothing moves until another owner approves."""
    books = _root(connection, signer, name)
    books.terms.cap_of(validate.positive(epsilon=epsilon))
    said, number = reason_of(reason), secrets.token_hex(16)
    values = {"id": number, "data_set_id": books.id, "epsilon": repr(epsilon), "reason": said}
    connection.execute(
        proposals.insert(), {**values, "proposer": actor.holder, "state": "proposed"}
    )
    books.append(
        {
            "type": "cap.propose",
            "proposal": number,
            "epsilon": repr(epsilon),
            "reason": said,
            "by": actor.holder,
        }
    )
    return {"proposal": number, "epsilon": epsilon, "state": "proposed"}


def approve_cap(
    connection: sa.Connection, signer: Signer, name: str, proposal: str, actor: Actor
) -> dict[str, object]:
    """Move the cap as another owner proposed; a cap below what is spent freezes the data set."""
    books = _root(connection, signer, name)
    row = locked_row(connection, proposals, proposals.c.id == proposal)
    if row is None or row.data_set_id != books.id or row.state != "proposed":
        raise Refusal(404, "no-proposal", "There is no such open proposal.")
    if same_person(connection, row.proposer, actor.holder):
        raise Refusal(
            403,
            "four-eyes",
            "Whoever proposed a cap does not approve it.",
            "A cap moves by two owners who have their tokens from different hands.",
            "Ask another owner.",
        )
    epsilon = float(row.epsilon)
    books.cap, books.epsilon = books.terms.cap_of(epsilon), epsilon
    # Once a cap was chosen above what the filter was sized for, no later cap mends it.
    books.certified = books.certified and epsilon <= books.terms.cap_at_most
    connection.execute(
        proposals.update().where(proposals.c.id == proposal).values(state="approved")
    )
    books.append(
        {
            "type": "cap.move",
            "proposal": proposal,
            "epsilon": row.epsilon,
            "cap": texts(books.cap),
            "certified": books.certified,
            "by": actor.holder,
        },
        cap=stored(books.cap),
        epsilon=row.epsilon,
        certified=int(books.certified),
    )
    if not all(within(spent, books.cap) for spent in books.spent.values()):
        books.freeze("the cap is below what is spent", "service")
    return shown(books)


def freeze(
    connection: sa.Connection, signer: Signer, name: str, reason: str, actor: Actor
) -> dict[str, object]:
    """Let nothing be claimed or begun."""
    books = _root(connection, signer, name)
    books.freeze(reason_of(reason), actor.holder)
    return shown(books)


def thaw(
    connection: sa.Connection, signer: Signer, name: str, reason: str, actor: Actor
) -> dict[str, object]:
    """Let claims be made again; refused while a block has spent more than its cap."""
    books = _root(connection, signer, name)
    if not all(within(spent, books.cap) for spent in books.spent.values()):
        raise Refusal(
            409,
            "above-cap",
            "A block has spent more than its cap.",
            "Nothing more may be claimed of it.",
            "Move the cap by four eyes, or leave the data set frozen.",
        )
    books.frozen = None
    record = {"type": "thaw", "reason": reason_of(reason), "by": actor.holder}
    books.append(record, frozen=None)
    return shown(books)


def shown(books: Books) -> dict[str, object]:
    """Return how a data set stands: what each block has spent, and what is left."""
    terms, currency = books.terms, books.terms.currency
    rows: dict[str, object] = {}
    worst: float | str = 0.0
    for name, spent in books.spent.items():
        epsilon = epsilon_of(terms, spent)
        rows[name] = {"spent": epsilon, "left": left_of(books.epsilon, epsilon)}
        worst = max(worst, epsilon, key=lambda each: float(each))
    return {
        "name": books.asked,
        "charged": books.name,
        "unit": currency.unit,
        "neighbours": currency.neighbours,
        "observer": terms.observer,
        "epsilon": books.epsilon,
        "delta": terms.delta,
        "cap_at_most": terms.cap_at_most,
        "certified": books.certified,
        "frozen": books.behind or books.frozen,
        "currency": currency.kind,
        "orders": list(currency.orders),
        "slack": currency.target.slack,
        "blocks_per_unit": currency.blocks_per_unit,
        "spent": {"epsilon": worst, "delta": terms.delta},
        "left": {"epsilon": left_of(books.epsilon, worst), "delta": terms.delta},
        "blocks": rows,
        "seq": books.seq,
        "head": books.head,
        "notes": [COUNTS_WHAT_IT_IS_TOLD]
        if books.certified
        else [UNCERTIFIED, COUNTS_WHAT_IT_IS_TOLD],
    }


COUNTS_WHAT_IT_IS_TOLD: Final = (
    "The ledger counts what it is told: a release that nobody claimed is not in it."
)
UNCERTIFIED: Final = (
    "NOT CERTIFIED: the cap was moved above cap_at_most, or more was lost than was claimed and "
    "nobody says how much, so epsilon is a reading and no guarantee."
)


def reason_of(reason: object) -> str:
    """Return a reason; `InvalidInput` unless it is a text of 1 to 1,000 characters."""
    fits = isinstance(reason, str) and 0 < len(reason.strip()) <= MAX_REASON_CHARACTERS
    if not isinstance(reason, str) or not fits or not reason.isprintable():
        raise InvalidInput(
            f"`reason` must be a text of 1 to {MAX_REASON_CHARACTERS} printable characters.",
            "It stands in the history with the name of whoever gave it.",
            "Say why.",
        )
    return reason.strip()


def _root(connection: sa.Connection, signer: Signer, name: str) -> Books:
    books = Books.open(connection, signer, name)
    if books.asked != books.name:
        raise Refusal(
            422, "view", f"{name} is a view.", "Its parent decides.", f"Ask for {books.name}."
        )
    return books


def insert_blocks(books: Books, new: Sequence[str]) -> None:
    """Add blocks that have spent nothing."""
    checked = names_of(blocks=list(new))
    nothing = zero(books.terms.size)
    rows = [{"data_set_id": books.id, "name": name, "spent": stored(nothing)} for name in checked]
    books.connection.execute(blocks.insert(), rows)
    asked = sa.select(blocks.c.id, blocks.c.name).where(blocks.c.data_set_id == books.id)
    for number, name in books.connection.execute(asked.order_by(blocks.c.id)):
        books.ids.setdefault(name, number)
        books.spent.setdefault(name, nothing)


def _taken(name: str) -> Refusal:
    return Refusal(
        409,
        "name-taken",
        f"There is a data set {name}.",
        "Its terms were fixed before its first claim.",
        "Give another name.",
    )
