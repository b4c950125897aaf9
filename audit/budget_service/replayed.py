"""What a history says, entry by entry: every balance is added up anew, and every rule is asked.

It shares no code with the transactions of the service, but the arithmetic of vectors and the price
of an event, which is computed from the event that the entry states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from ...accountant import events as ev
from ...accountant.errors import PrivplanError
from ...accountant.odometer.pricing import whole_price
from ...fl.ledger_client.receipts import signature_holds
from ...fl.log.hash_chain import START, canonical, digest
from .audit_limits import MAX_PRICING_BYTES, memory_limited
from .balances import Vector, above, minus, of_texts, part, plus, price_vector, within, zero
from .names import MAX_BLOCKS, name_of, names_of
from .replayed_fields import ended_after, epsilon_in, key_in, number_in, share_in, text_in
from .restored_gap import charged_in, gap, refunds, too_few, too_late
from .signer import SignedStatement, Statement, rotation_message
from .stating import as_charged, audit_noted
from .terms import Terms

MAX_PRICING_SECONDS: Final = 30.0
"""How much of a processor an event may take; a service ends it after 2 seconds, on any machine."""


class Contradiction(Exception):
    """An entry says what the entries before it, or its own event, exclude."""


@dataclass
class ReplayedClaim:
    """A claim as a history has it; `limited` are its project, and the row of its holder.

    `claimed` is what it was charged when it was made, `price` that with what audits added.
    """

    state: str
    blocks: tuple[str, ...]
    limited: tuple[str, ...]
    price: Vector
    claimed: Vector
    head: str | None = None
    audit: dict[str, object] | None = None


_NEXT: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "claim.begin": (("claimed",), "begun"),
    "claim.cancel": (("claimed",), "cancelled"),
    "claim.release": (("begun",), "released"),
    "claim.abandon": (("begun",), "abandoned"),
    "claim.audit": (("begun", "released", "abandoned", "audited"), "audited"),
}
"""From which states each step leads to which."""


@dataclass
class ReplayedHistory:
    """A data set as its history makes it; `take` takes the next entry.

    `warnings` are what an auditor must know and no rule excludes.  Without `reprice` prices and
    signatures of keys are taken as they stand, for a history that was derived before.  `past`
    returns the entries that were taken, for what looks back.

    `seen` are the numbers and hashes of statements that conflict, until they are `acknowledged`;
    `counted` those of which an owner stated of how many lost histories they are;
    `shares` and `limited` those of projects and holders and what they spent in each block;
    `must_freeze` is why the next entry has to freeze the data set.
    """

    terms: Terms | None = None
    cap: Vector = ()
    epsilon: float = 0.0
    certified: bool = True
    frozen: bool = False
    behind: bool = False
    keys: list[str] = field(default_factory=list)
    spent: dict[str, Vector] = field(default_factory=dict)
    claims: dict[str, ReplayedClaim] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    reprice: bool = True
    past: Callable[[], Iterable[Mapping[str, Any]]] = tuple
    views: set[str] = field(default_factory=set)
    acknowledged: list[Statement] = field(default_factory=list)
    seen: set[tuple[int, str]] = field(default_factory=set)
    counted: set[tuple[int, str]] = field(default_factory=set)
    shares: dict[str, Fraction] = field(default_factory=dict)
    limited: dict[tuple[str, str], Vector] = field(default_factory=dict)
    proposals: dict[str, tuple[str, str]] = field(default_factory=dict)
    must_freeze: str | None = None
    _behind_since: int = 0
    _retired: dict[str, int] = field(default_factory=dict)
    _prices: dict[str, Vector] = field(default_factory=dict)

    @property
    def open_terms(self) -> Terms:
        """The terms; `Contradiction` before the first entry."""
        if self.terms is None:
            raise Contradiction("nothing was opened before it")
        return self.terms

    def take(self, record: Mapping[str, Any], prev: str) -> None:
        """Take the next entry; raise `Contradiction` where it does not follow."""
        kind = record["type"]
        if self.must_freeze is not None and kind != "freeze":
            raise Contradiction(f"it goes on, and is not frozen, where {self.must_freeze}")
        handlers: dict[str, Callable[[Mapping[str, Any], str], None]] = {
            "data-set.open": self._open,
            "blocks.add": self._blocks,
            "claim": self._claim,
            "project.limit": self._limit,
            "analyst.limit": self._limit,
            "view.open": self._view,
            "behind": self._behind,
            "cap.propose": self._propose,
            "cap.move": self._move,
            "restore": self._restore,
            "key.rotate": self._rotate,
        }
        if kind != "data-set.open":
            self.open_terms  # noqa: B018
        if kind in _NEXT:
            self._step(record, *_NEXT[kind])
        elif kind in ("freeze", "thaw"):
            self._mark(kind)
        elif kind in handlers:
            handlers[kind](record, prev)
        else:
            raise Contradiction(f"no service writes an entry `{kind!r:.40}`")

    def priced(self, event: Mapping[str, Any], stated: Mapping[str, Any] | None = None) -> Vector:
        """Return the price of an event of an entry, computed here."""
        text, terms = digest(canonical([event, stated])), self.open_terms
        if text not in self._prices:
            try:
                with ended_after(MAX_PRICING_SECONDS), memory_limited(MAX_PRICING_BYTES):
                    charged, _ = as_charged(ev.from_json(dict(event)), stated, terms)
                    units = whole_price(charged, terms.currency, terms.neighbours)
            except TimeoutError:
                raise Contradiction("its event is too long to be priced by any service") from None
            except MemoryError:
                raise Contradiction("its event is too large to be priced by any service") from None
            except PrivplanError as error:
                raise Contradiction(f"its event has no price: {error.what}") from None
            self._prices[text] = price_vector(units)
        return self._prices[text]

    def waiting(self) -> dict[str, tuple[tuple[str, ...], Vector]]:
        """Return the blocks and the price of each claim that was not begun."""
        return {
            number: (claim.blocks, claim.price)
            for number, claim in self.claims.items()
            if claim.state == "claimed"
        }

    def _open(self, record: Mapping[str, Any], _: str) -> None:
        if self.terms is not None:
            raise Contradiction("the data set is opened twice")
        try:
            self.terms = Terms.from_json(record["terms"])
            self.epsilon = epsilon_in(record["epsilon"])
            self.cap = self.terms.cap_of(self.epsilon)
        except PrivplanError as error:
            raise Contradiction(f"its terms make no sense: {error.what}") from None
        if self.epsilon > self.terms.cap_at_most:
            raise Contradiction("the first cap is above what is certified")
        if not _no_more(self._vector(record["cap"]), self.cap):
            raise Contradiction("the cap is above what its epsilon allows")
        self.cap = self._vector(record["cap"])
        self.keys.append(key_in(record["key"]))
        self._blocks(record, "")

    def _blocks(self, record: Mapping[str, Any], _: str) -> None:
        for name in names_of(blocks=record["blocks"]):
            if name in self.spent:
                raise Contradiction(f"block {name!r:.60} begins anew")
            self.spent[name] = zero(self.open_terms.size)
        if len(self.spent) > MAX_BLOCKS:
            raise Contradiction(f"a data set has more than {MAX_BLOCKS} blocks")

    def _view(self, record: Mapping[str, Any], _: str) -> None:
        self.views.add(name_of(view=record["view"]))

    def _claim(self, record: Mapping[str, Any], _: str) -> None:
        number, names = name_of(claim=record["claim"]), names_of(blocks=record["blocks"])
        project = name_of(project=record["project"])
        if number in self.claims:
            raise Contradiction("the claim stands in the history already")
        if self.frozen or self.behind:
            raise Contradiction("a claim is made while the data set is frozen")
        if not set(names) <= self.spent.keys():
            raise Contradiction("it names a block that does not exist")
        if record.get("view", self.open_terms.name) not in {self.open_terms.name, *self.views}:
            raise Contradiction("it is of a view that nobody opened")
        cost = self._vector(record["price"])
        exact = self.reprice
        if exact and not _no_more(self.priced(record["event"], record.get("stated")), cost):
            raise Contradiction("its price is below that of its event")
        limited = (project, f"analyst:{text_in(record['by'])}")
        self._charge(names, limited, cost)
        if not all(within(self.spent[name], self.cap) for name in names):
            raise Contradiction("a block spends more than its cap")
        for each in limited:
            limit = part(self.cap, self.shares.get(each, Fraction(1)))
            if not all(within(self.limited[each, name], limit) for name in names):
                raise Contradiction(f"{each!r:.60} spends more than its share")
        state = "begun" if record["begun"] is True else "claimed"
        self.claims[number] = ReplayedClaim(state, names, limited, cost, cost)

    def _step(self, record: Mapping[str, Any], before: tuple[str, ...], after: str) -> None:
        claim = self.claims.get(record["claim"])
        if claim is None or claim.state not in before:
            is_now = "unknown" if claim is None else claim.state
            raise Contradiction(f"the claim is {is_now}, and not {' or '.join(before)}")
        if after == "audited" and claim.state == "begun" and record["verdict"] != "above":
            raise Contradiction("an audit says that a claim holds whose run may go on")
        claim.state = after
        if after == "begun" and (self.frozen or self.behind):
            raise Contradiction("a claim is begun while the data set is frozen")
        if after == "released":
            claim.head = None if record["head"] is None else text_in(record["head"])
        if after == "cancelled":
            if self.behind:
                raise Contradiction(
                    "a claim is cancelled that may have been begun in a lost history"
                )
            for name in claim.blocks:
                self.spent[name] = minus(self.spent[name], claim.price)
                for each in claim.limited:
                    key = (each, name)
                    self.limited[key] = minus(self.limited[key], claim.price)
        if after == "audited":
            self._audit(record, claim)

    def _audit(self, record: Mapping[str, Any], claim: ReplayedClaim) -> None:
        event, charged = record["event"], self._vector(record["charged"])
        difference = zero(self.open_terms.size)
        if event is not None and self.reprice:
            difference = above(self.priced(event, record.get("stated")), claim.price)
        if not _no_more(difference, charged):
            raise Contradiction("an audit charges less than what was lost above the claim")
        self._charge(claim.blocks, claim.limited, charged)
        claim.price = plus(claim.price, charged)
        self._require_caps("what was lost above a claim does not fit")
        if record["verdict"] not in ("holds", "above"):
            raise Contradiction("an audit says neither that a claim holds nor that it does not")
        claim.audit = audit_noted(record)
        if record["verdict"] == "above" and not any(charged) and not self._is_paid(record, claim):
            self.must_freeze = "a claim lost more than it claimed, and nobody says how much"
            self.certified = False
            self.warnings.append(
                "Somebody lost more than was claimed, and nobody says how much: epsilon is a "
                "reading and no guarantee."
            )

    def _is_paid(self, record: Mapping[str, Any], claim: ReplayedClaim) -> bool:
        """Return whether a loss above what was claimed is one that earlier verdicts charged."""
        if "claimed" not in record:  # an older service froze the data set for it
            return False
        if self._vector(record["claimed"]) != claim.claimed:
            raise Contradiction("an audit says other of what was claimed")
        if record["event"] is None:
            return False
        return any(above(self._vector(record["price"]), claim.claimed))

    def _require_caps(self, reason: str) -> None:
        if not all(within(each, self.cap) for each in self.spent.values()):
            self.must_freeze = reason

    def _charge(self, names: tuple[str, ...], limited: tuple[str, ...], cost: Vector) -> None:
        nothing = zero(self.open_terms.size)
        for name in names:
            self.spent[name] = plus(self.spent[name], cost)
            for each in limited:
                key = (each, name)
                self.limited[key] = plus(self.limited.get(key, nothing), cost)

    def _limit(self, record: Mapping[str, Any], _: str) -> None:
        of_project = record["type"] == "project.limit"
        name = name_of(name=record["project" if of_project else "analyst"])
        self.shares[name if of_project else f"analyst:{name}"] = share_in(record["share"])

    def _propose(self, record: Mapping[str, Any], _: str) -> None:
        epsilon_in(record["epsilon"])
        self.proposals[text_in(record["proposal"])] = (record["epsilon"], text_in(record["by"]))

    def _move(self, record: Mapping[str, Any], _: str) -> None:
        proposed = self.proposals.pop(record["proposal"], None)
        if proposed is None or proposed[0] != record["epsilon"]:
            raise Contradiction("a cap moves that nobody proposed so")
        if proposed[1] == record["by"]:
            raise Contradiction("a cap is approved by whoever proposed it")
        terms, self.epsilon = self.open_terms, epsilon_in(record["epsilon"])
        self.certified = self.certified and self.epsilon <= terms.cap_at_most
        cap = self._vector(record["cap"])
        if record["certified"] is not self.certified or not _no_more(
            cap, terms.cap_of(self.epsilon)
        ):
            raise Contradiction("a cap is above what its epsilon allows")
        self.cap = cap
        self._require_caps("the cap is below what is spent")
        if not self.certified:
            self.warnings.append(
                "The cap was moved above `cap_at_most`: epsilon is a reading and no guarantee."
            )

    def _mark(self, kind: str) -> None:
        if kind == "thaw" and not all(within(each, self.cap) for each in self.spent.values()):
            raise Contradiction("the data set is thawed while a block is above its cap")
        self.frozen, self.must_freeze = kind == "freeze", None

    def _behind(self, record: Mapping[str, Any], _: str) -> None:
        self._behind_since = self._behind_since if self.behind else record["seq"]
        self.behind = True
        self.seen.add((number_in(record["seen"]), key_in(record["seen_hash"])))

    def signed_then(self, signed: SignedStatement) -> bool:
        """Return whether a key signed a statement that had not handed over before its entry."""
        retired = self._retired.get(signed.key)
        in_time = retired is None or signed.statement.seq < retired
        return in_time and signed.holds(frozenset(self.keys))

    def _restore(self, record: Mapping[str, Any], _: str) -> None:
        if not self.behind:
            raise Contradiction("a restored backup is acknowledged that nobody saw")
        size, statements = self.open_terms.size, []
        for source in record["statements"]:
            signed = SignedStatement.from_json(source)
            if not self.signed_then(signed) or signed.statement.data_set != self.open_terms.name:
                raise Contradiction("a statement that charges a gap is not signed")
            statements.append(signed.statement)
        if not self.seen <= {(each.seq, each.hash) for each in statements}:
            raise Contradiction("a restored backup is acknowledged without what was seen of it")
        histories = record.get("histories")
        if histories is not None:
            number_in(histories)
        charged = charged_in(record["charged"], size)
        if self.reprice:  # who replays a part has not the whole to look into
            last = record["restored_at"]
            if last is not None and too_late(number_in(last), self._behind_since, statements):
                raise Contradiction("a backup ended before the entry that somebody states")
            if too_few(histories, statements, self.acknowledged):
                raise Contradiction("statements are of more lost histories than are charged")
            shared, given_back = self._of_backup(last)
            for name, units in gap(size, statements, shared, given_back, histories).items():
                if not _no_more(units, charged.get(name, zero(size))):
                    raise Contradiction("a restored backup is charged less than was spent")
        for name, units in charged.items():  # a block that was forgotten is there again
            self.spent[name_of(block=name)] = plus(self.spent.get(name, zero(size)), units)
        for claim in self.claims.values():
            claim.state = "begun" if claim.state == "claimed" else claim.state
        self.behind, self.seen = False, set()
        self.acknowledged += statements
        if histories is not None:
            self.counted |= {(each.seq, each.hash) for each in statements}
        self._require_caps("what a restored backup had forgotten does not fit")
        by_word = record["restored_at"] is not None or histories is not None
        stated = "by the word of an owner" if by_word else "as a whole"
        self.warnings.append(
            f"The database was restored from a backup, and its gap was charged {stated}; what was "
            "spent and never presented since is not in it."
        )

    def _of_backup(self, last: int | None) -> tuple[dict[str, Vector], dict[str, Vector]]:
        """Return what was spent where a backup ended, and what was given back of it since."""
        if last is None:
            return {}, {}
        backup, rest = ReplayedHistory(reprice=False), []
        for record in self.past():
            if record["seq"] <= number_in(last):
                backup.take(record, START)
            else:
                rest.append(record)
        return dict(backup.spent), refunds(self.open_terms.size, backup.waiting(), rest)

    def _rotate(self, record: Mapping[str, Any], prev: str) -> None:
        key = key_in(record["key"])
        message = rotation_message(self.open_terms.name, prev, key)
        if self.reprice and not signature_holds(self.keys[-1], record["signature"], message):
            raise Contradiction("the next key is not signed by the one before")
        self._retired[self.keys[-1]] = record["seq"]
        self._retired.pop(key, None)
        self.keys.append(key)

    def _vector(self, source: object) -> Vector:
        return of_texts(source, self.open_terms.size)


def _no_more(first: Vector, second: Vector) -> bool:
    """Return whether no number of the first is above that of the second."""
    return all(a <= b for a, b in zip(first, second, strict=True))
