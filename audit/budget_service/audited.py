"""An exported history, audited by somebody who trusts nobody: lines, balances, heads, receipts.

It finds lines that were edited, moved, repeated or taken out; charges below the price of their
event; caps that were exceeded; and, by a head or a receipt that was kept elsewhere, an end that was
cut off or written anew.  Without any of those, a history that was written anew as a whole is not
found: every verdict says what it was held against.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput, PrivplanError
from ...fl.log.hash_chain import CHAIN, START, chained, is_hash
from .audit_limits import AuditLimits, AuditWork, memory_of_audit
from .balances import Vector, texts
from .replayed import Contradiction, ReplayedHistory
from .signer import SignedStatement
from .terms import epsilon_of

MAX_STATEMENT_BYTES: Final = 2**22
"""Most bytes of a head or a receipt that are read."""


@dataclass(frozen=True)
class LedgerAudit:
    """What an audit of one history found.

    `problem` is the first contradiction, at entry `entry`; None where there is none.  `spent` is
    what each block has spent by it, as epsilon at the data set's `delta`; `largest` that of the
    data set.  `held_against` says by what the end was checked.
    """

    data_set: str | None
    entries: int
    head: str
    problem: str | None
    entry: int | None
    held_against: str
    epsilon: float | None
    delta: float | None
    spent: dict[str, float | str]
    balances: dict[str, Vector]
    certified: bool
    frozen: bool
    claims: dict[str, int]
    warnings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing contradicts anything."""
        return self.problem is None

    def to_json(self) -> dict[str, object]:
        """Return the verdict as JSON."""
        return {
            "data_set": self.data_set,
            "entries": self.entries,
            "head": self.head,
            "problem": self.problem,
            "entry": self.entry,
            "held_against": self.held_against,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "spent": self.spent,
            "balances": {name: texts(units) for name, units in self.balances.items()},
            "certified": self.certified,
            "frozen": self.frozen,
            "claims": self.claims,
        }

    @property
    def largest(self) -> float | str:
        """What the block has spent that has spent most."""
        return max(self.spent.values(), key=float, default=0.0)


def audit_history(
    lines: Iterable[bytes],
    head: str | SignedStatement | None = None,
    receipts: Sequence[SignedStatement] = (),
    key: str | None = None,
    after: Callable[[bytes, ReplayedHistory], None] | None = None,
    limits: AuditLimits | None = None,
) -> LedgerAudit:
    """Return what a history of one data set says, held against what was kept elsewhere.

    `head` is a hash in hex, or a signed head; `key` a public key in hex: it, or one to which it
    handed over, must have signed one of them.  `after` is told each good line, and what the data
    set is after it.  `InvalidInput` for what is no key, and where the audit takes more than
    `limits` allow.
    """
    if key is not None and not is_hash(key):
        raise InvalidInput(
            "The public key is none.",
            "It has 64 hexadecimal digits, as `privplan serve` prints it.",
            "Give it as it was received from the owner of the ledger.",
        )
    listed, prev, seq = list(lines), START, 0
    replayed = ReplayedHistory(past=lambda: map(json.loads, listed[:seq]))
    problem: str | None = None
    entry: int | None = None
    anchored = head is None or isinstance(head, SignedStatement)
    kept = [*receipts, *([head] if isinstance(head, SignedStatement) else [])]
    pending = list(kept)
    lost: list[SignedStatement] = []
    work = AuditWork(limits or AuditLimits())
    with memory_of_audit():
        for line in listed:
            work.require_within(seq, len(replayed.limited))
            try:
                prev = taken(line, seq, prev, replayed)
                for signed in [each for each in pending if each.statement.seq == seq]:
                    pending.remove(signed)
                    if signed.statement.hash != prev:
                        lost.append(signed)  # a later entry may acknowledge that it was lost
                    else:
                        _require_agreement(signed, replayed)
            except Contradiction as error:
                problem, entry = str(error), seq
                break
            anchored = anchored or prev == head
            seq += 1
            if after is not None:
                after(line, replayed)
    if problem is None:
        problem, entry = _unmet(replayed, lost, pending, anchored=anchored)
        if problem is None and key is not None:
            agreed = [each for each in kept if each not in lost and each not in pending]
            problem = _unsigned(replayed, key, agreed)
    terms = replayed.terms
    balances = dict(replayed.spent)
    return LedgerAudit(
        None if terms is None else terms.name,
        seq,
        prev,
        problem,
        entry,
        _held_against(head, receipts),
        replayed.epsilon if terms else None,
        terms.delta if terms else None,
        {name: epsilon_of(terms, units) for name, units in balances.items()} if terms else {},
        balances,
        replayed.certified,
        replayed.frozen or replayed.behind,
        _counted(replayed),
        tuple(dict.fromkeys(replayed.warnings)),
    )


def taken(line: bytes, seq: int, prev: str, replayed: ReplayedHistory) -> str:
    """Take one line, and return its hash; raise `Contradiction` where it does not follow."""
    text = line.rstrip(b"\n").decode("ascii", "replace")
    try:
        source = parsed_json(text)
        if not isinstance(source, dict):
            raise Contradiction("it is no entry")
        said = (source.get("seq"), source.get("prev"))
        if type(said[0]) is not int or said != (seq, prev):
            raise Contradiction("it does not follow the entry before")
        record: dict[str, Any] = {key: source[key] for key in source if key not in CHAIN}
        whole, digest = chained(record, seq, prev)
        if whole != text:
            raise Contradiction("its hash is not that of what it says")
        replayed.take({**record, "seq": seq}, prev)
    except PrivplanError as error:
        raise Contradiction(error.what) from None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise Contradiction(
            f"it is no entry that a service writes ({type(error).__name__})"
        ) from None
    return digest


def hash_of(line: str) -> str:
    """Return the hash of a line that a service wrote, computed from what it says."""
    source = json.loads(line)
    record = {key: source[key] for key in source if key not in CHAIN}
    return chained(record, source["seq"], source["prev"])[1]


def _require_agreement(signed: SignedStatement, replayed: ReplayedHistory) -> None:
    """Raise `Contradiction` unless a head or a receipt says what the history makes of its entry."""
    said, what = signed.statement, _kind(signed)
    if not signed.holds(frozenset(replayed.keys[-1:])):
        raise Contradiction(f"{what} is not signed by the key of the history at it")
    if dict(said.balances) != replayed.spent or said.cap != replayed.cap:
        raise Contradiction(f"{what} that was kept has other balances at it")
    frozen = replayed.frozen or replayed.behind
    if (said.certified, said.frozen) != (replayed.certified, frozen):
        raise Contradiction(f"{what} that was kept is otherwise certified or frozen")
    if said.claim is not None and said.claim not in replayed.claims:
        raise Contradiction("a receipt that was kept is for a claim that is not there")


def _kind(signed: SignedStatement) -> str:
    return "a head" if signed.statement.claim is None else "a receipt"


def _unmet(
    replayed: ReplayedHistory,
    lost: Sequence[SignedStatement],
    pending: Sequence[SignedStatement],
    *,
    anchored: bool,
) -> tuple[str | None, int | None]:
    """Return which head or receipt is neither in the history nor acknowledged as lost by it."""
    if replayed.terms is None:
        return "the history is empty", None
    if replayed.must_freeze is not None:
        return f"it ends, and is not frozen, where {replayed.must_freeze}", None
    known = {(each.seq, each.hash): each for each in replayed.acknowledged}

    def is_known(signed: SignedStatement) -> bool:
        said = signed.statement
        return known.get((said.seq, said.hash)) == said

    for signed in lost:
        if not is_known(signed):
            what = f"{_kind(signed)} that was kept has another hash of it"
            return what, signed.statement.seq
    missing = [each for each in pending if not is_known(each)]
    if missing:
        last = max(each.statement.seq for each in missing)
        return (
            f"entry {last} is missing, of which a head or a receipt was kept: the end is cut off",
            None,
        )
    if not anchored:
        return "no entry has the expected head: the end is cut off, or it is another history", None
    count = len(lost) + len(pending)
    if count:
        replayed.warnings.append(
            f"{count:,} of what was kept is of a history that was lost, and was charged when that "
            "was acknowledged: it says nothing of the end of this one."
        )
    return None, None


def _unsigned(replayed: ReplayedHistory, key: str, agreed: Sequence[SignedStatement]) -> str | None:
    """Return why a key that was given says nothing of a history; None where it does.

    Whoever has a key that was used before could write what it signed, so a statement must be by the
    key that was given, or by one after it.
    """
    if key not in replayed.keys:
        return "the key that was given signs nothing of this history"
    if not {each.key for each in agreed}.intersection(replayed.keys[replayed.keys.index(key) :]):
        return "no head or receipt that was kept is signed by the key that was given, or one after"
    return None


def _held_against(head: object, receipts: Sequence[SignedStatement]) -> str:
    parts = [] if head is None else ["a head"]
    if receipts:
        parts.append(f"{len(receipts):,} receipt{'s' * (len(receipts) > 1)}")
    return " and ".join(parts) if parts else "itself alone"


def _counted(replayed: ReplayedHistory) -> dict[str, int]:
    counts: dict[str, int] = {}
    for claim in replayed.claims.values():
        counts[claim.state] = counts.get(claim.state, 0) + 1
    return counts


def statement_in(path: str | Path) -> SignedStatement:
    """Return the head or the receipt in a file, or that inside of an answer of the service.

    Raises `InvalidInput` for a file that holds neither.
    """
    from ...accountant.regular_file import regular_content

    try:
        source = parsed_json(regular_content(path, MAX_STATEMENT_BYTES))
    except (OSError, ValueError):
        raise InvalidInput(
            f"{path} holds no head and no receipt.",
            "They are JSON objects, as the service gave them.",
            "Give the file in which it was kept.",
        ) from None
    inner = source.get("receipt") if isinstance(source, dict) else None
    return SignedStatement.from_json(inner if isinstance(inner, dict) else source)


def head_of(given: str) -> str | SignedStatement:
    """Return what --head names: a hash in hex, or a file with a signed head."""
    text = given.strip().lower()
    return text if is_hash(text) else statement_in(given)


__all__ = ["LedgerAudit", "audit_history", "head_of", "statement_in"]
