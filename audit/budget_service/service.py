"""The service behind the addresses: it prices, submits what is written, and reads."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import require_fields
from . import claims, owners, restoring, tokens
from .balances import Vector
from .books import Books, no_data_set, terms_of
from .claiming import BudgetRefusal, PricedClaim
from .claims import Actor, ClaimRequest
from .daily_limits import DailyLimits
from .database import Database
from .names import name_of, names_of
from .pricer import PricedEvent, Pricer
from .signer import Signer
from .stating import FIELDS, stated_in
from .tables import data_sets, entries
from .terms import Terms
from .writer import Writer

T = TypeVar("T")

MAX_ENTRIES_OF_ANSWER: Final = 1000

MAX_HISTORY_BYTES: Final = 2**24
"""Above so many bytes no further entry goes into an answer."""


class LedgerService:
    """The budget ledger over an open database, with the key that signs its histories.

    Every method that writes returns when what it did is on the disk.
    """

    def __init__(
        self,
        database: Database,
        signer: Signer,
        pricer: Pricer | None = None,
        limits: DailyLimits | None = None,
    ) -> None:
        self.database, self.signer = database, signer
        # One that was given may serve others, and is left to whoever gave it.
        self._ends_pricer = pricer is None
        self.pricer = pricer or Pricer()
        self._writer = Writer(database, signer, limits)
        self._ids: dict[str, tuple[int, Terms]] = {}

    def close(self) -> None:
        """Finish what was submitted, and close everything."""
        self._writer.close()
        if self._ends_pricer:
            self.pricer.close()
        self.database.close()

    def actor(self, secret: str) -> Actor:
        """Return whose token this is."""
        with self.database.reading() as connection:
            return tokens.actor_of(connection, secret)

    def open_data_set(self, source: Mapping[str, Any], actor: Actor) -> dict[str, Any]:
        """Open a data set as a request describes it."""
        terms = Terms.of(source)
        names = names_of(blocks=source.get("blocks", ["all"]))
        epsilon = validate.positive(epsilon=source["epsilon"])
        return self.wrote(
            lambda connection: owners.open_data_set(
                connection, self.signer, terms, epsilon, names, actor
            )
        )

    def claim(self, request: ClaimRequest, actor: Actor, key: str | None = None) -> dict[str, Any]:
        """Claim an event, and return the answer with its receipt.

        Raises `BudgetRefusal` with what would fit, and as pricing does.
        """
        return self.claimed(*self.priced(request, actor), actor, key).result()

    def priced(self, request: ClaimRequest, actor: Actor) -> tuple[ClaimRequest, Vector]:
        """Return the request with its event as it is written, and its price."""
        _, terms = self.data_set(request.data_set)
        priced = self.pricer.price(terms, request.event, request.stated, actor.holder)
        return _as_written(request, priced), priced.price

    def kept_price(self, request: ClaimRequest) -> tuple[ClaimRequest, Vector] | None:
        """Return the same at once, where the event was priced before; None otherwise."""
        known = self._ids.get(request.data_set)
        if known is None:
            return None
        kept = self.pricer.kept(known[1], request.event, request.stated)
        return None if kept is None else (_as_written(request, kept), kept.price)

    def claimed(
        self, request: ClaimRequest, price: Vector, actor: Actor, key: str | None
    ) -> Future[dict[str, Any]]:
        """Return the future of a claim whose event is priced."""
        number, _ = self.data_set(request.data_set)
        chosen = secrets.token_hex(16) if key is None else key
        return self._writer.claim(PricedClaim(request, price, actor, chosen), number)

    def fits(self, request: ClaimRequest, refusal: BudgetRefusal, actor: Actor) -> BudgetRefusal:
        """Return a refusal with what else would fit: another count, rate or noise."""
        _, terms = self.data_set(request.data_set)
        more = self.pricer.fits(terms, request.event, request.stated, refusal.rooms, actor.holder)
        if more:
            refusal.more["fits"] = more
        return refusal

    def audited_loss(
        self,
        claim: str,
        event: Mapping[str, Any] | None,
        actor: Actor,
        stated: Mapping[str, Any] | None = None,
    ) -> claims.AuditedLoss | None:
        """Return the event that an audit names as it is written, with its price; None for none."""
        if event is None:
            return None
        with self.database.reading() as connection:
            number = claims.data_set_of(connection, claim)
            if number is None:
                raise claims.no_claim()
            text = sa.select(data_sets.c.terms).where(data_sets.c.id == number)
            terms = terms_of(connection.execute(text).scalar_one())
        priced = self.pricer.price(terms, event, stated, actor.holder)
        return claims.AuditedLoss(priced.event, priced.price, stated, priced.derivation)

    def step(self, claim: str, operation: Callable[[sa.Connection], T]) -> Future[T]:
        """Return the future of a step in the life of a claim."""
        with self.database.reading() as connection:
            number = claims.data_set_of(connection, claim)
        if number is None:
            raise claims.no_claim()
        return self._writer.submit(operation, number)

    def wrote(self, operation: Callable[[sa.Connection], T], data_set: str | None = None) -> T:
        """Return what an operation answers, when it is durable."""
        number = None if data_set is None else self.data_set(data_set)[0]
        answer: T = self._writer.submit(operation, number).result()
        return answer

    def data_set(self, name: str) -> tuple[int, Terms]:
        """Return the id and the terms of what pays for a data set or a view; neither changes."""
        known = self._ids.get(name)
        if known is None:
            with self.database.reading() as connection:
                row = connection.execute(
                    sa.select(data_sets).where(data_sets.c.name == name)
                ).first()
                if row is None:
                    raise no_data_set(name)
                number = row.parent_id or row.id
                asked = sa.select(data_sets.c.terms).where(data_sets.c.id == number)
                terms = terms_of(connection.execute(asked).scalar_one())
            known = self._ids[name] = (number, terms)
        return known

    def shown(self, name: str) -> dict[str, Any]:
        """Return how a data set stands."""
        with self.database.reading() as connection:
            return owners.shown(Books.reading(connection, self.signer, name))

    def names(self) -> list[str]:
        """Return the names of all data sets and views."""
        with self.database.reading() as connection:
            asked = sa.select(data_sets.c.name).order_by(data_sets.c.name)
            return list(connection.execute(asked).scalars())

    def head(self, name: str) -> dict[str, Any]:
        """Return the signed head of a data set's history."""
        with self.database.reading() as connection:
            return Books.reading(connection, self.signer, name).statement()

    def lines(self, name: str, first: int, most: int = MAX_ENTRIES_OF_ANSWER) -> list[str]:
        """Return entries of a history as they were written, from number `first` on."""
        number, _ = self.data_set(name)
        lines: list[str] = []
        size = 0
        with self.database.reading() as connection:
            asked = (
                sa.select(entries.c.line)
                .where(entries.c.data_set_id == number, entries.c.seq >= first)
                .order_by(entries.c.seq)
                .limit(min(most, MAX_ENTRIES_OF_ANSWER))
                .execution_options(yield_per=100)
            )
            for line in connection.execute(asked).scalars():
                lines.append(line)
                size += len(line)
                if size > MAX_HISTORY_BYTES:
                    break
        return lines

    def claim_now(self, claim: str, actor: Actor) -> dict[str, Any]:
        """Return a claim as it is now."""
        with self.database.reading() as connection:
            return claims.shown_claim(connection, claim, actor)

    def knows(self, name: str) -> bool:
        """Return whether a data set was asked for before, so that its terms are at hand."""
        return name in self._ids

    def tokens(self) -> list[dict[str, object]]:
        """Return every token, without its secret."""
        with self.database.reading() as connection:
            return tokens.listed(connection)

    def present(self, name: str, source: object) -> dict[str, Any]:
        """Hold a head or a receipt against the history."""
        return self.wrote(
            lambda connection: restoring.present(connection, self.signer, name, source), name
        )


def claim_request(source: Mapping[str, Any]) -> ClaimRequest:
    """Return the claim of a request's body; `InvalidInput` for what is none."""
    known = ("data_set", "blocks", "project", "event", "begin", *FIELDS)
    require_fields(
        source,
        known,
        "claim",
        optional=("blocks", "begin", *FIELDS),
        otherwise="A claim has data_set, blocks, project, event and begin.",
        if_missing="A claim has data_set, blocks, project, event and begin.",
    )
    named, begun = source.get("blocks", "all"), source.get("begin", False)
    if not isinstance(begun, bool):
        raise InvalidInput("`begin` must be true or false.")
    if not isinstance(source["event"], dict):
        raise InvalidInput(
            "`event` must be an object with a `type`.",
            next_step="Every event has an example: privplan explain events",
        )
    return ClaimRequest(
        name_of(data_set=source["data_set"]),
        None if named == "all" else names_of(blocks=named),
        name_of(project=source["project"]),
        source["event"],
        begun,
        stated_in(source),
    )


def _as_written(request: ClaimRequest, priced: PricedEvent) -> ClaimRequest:
    return replace(request, event=priced.event, derivation=priced.derivation)
