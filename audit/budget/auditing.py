"""The audit of a budget: read the log, derive what it supports, look for hazards, compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.records import RunOpen
from ...accountant.rootfinding import last_integer
from ...fl.declarations.data_table import study_words
from ...fl.declarations.registry import exactly_named
from ...fl.log import Sidecar
from ...fl.log.reader import UNBEGUN
from ...fl.observers.assumptions import remedies
from ...fl.observers.names import DEFAULT_OBSERVERS, observer_names
from ..configuration.first_line import Comparison, compare_with_file
from ..evidence.epsilon_total import EpsilonTotal, no_guarantee_total
from ..evidence.evidence import Evidence
from ..findings import apply_rules
from ..hazards import search_hazards
from ..hazards.configuration_mismatch import comparison
from ..hazards.run_course import lost_if_cut_off
from ..hazards.sealed import sealed_check
from ..ledger.entries import Entry, Ledger, not_stated, rounds_of
from ..ledger.phases import configured_value
from ..verify import Verification, verify
from .assumptions import assumptions_of
from .report import BudgetReport, Chain, GroupRow, Row

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAX_ROUNDS_LEFT: Final = 10**9
"""More rounds, or blocks of them, than that are not searched for."""


@dataclass(frozen=True)
class RoundsLeft:
    """How many more `rounds` fit, and how many of these the block under way has `paid` for."""

    rounds: int
    paid: int = 0


def rounds_left(evidence: Evidence, epsilon_limit: float | None) -> RoundsLeft | None:
    """Return how many more rounds like the last one fit; None for a run that is over.

    Rounds that share correlated noise are paid in blocks: those that are left of the last block
    cost nothing more, and behind it whole blocks are counted.
    """
    ledger = evidence.ledger
    observer = ledger.opened.claim.observer
    if epsilon_limit is None or ledger.closed is not None or not ledger.spent:
        return None
    if not math.isfinite(evidence.total(observer).upper):
        return None

    def fits(count: int) -> bool:
        return evidence.with_more(observer, count).upper <= epsilon_limit

    if not fits(0):
        return RoundsLeft(0)
    low, high = 0, 1
    # Doubling, then bisection: the total grows with every further round.
    while high <= MAX_ROUNDS_LEFT and fits(high):
        low, high = high, 2 * high
    if high > MAX_ROUNDS_LEFT:
        return None
    more, paid = last_integer(fits, low, high), _paid(ledger)
    block = ledger.spent[-1].intent.block
    return RoundsLeft(paid + more * (1 if block is None else block.rounds), paid)


def _paid(ledger: Ledger) -> int:
    """Return how many rounds are left of the block that the last round is of."""
    last = ledger.spent[-1]
    # A start of the process behind it: the silos' sums are lost, and another block begins.
    cut_off = any(recovery.number > last.number for recovery in ledger.recoveries)
    if last.intent.block is None or cut_off:
        return 0
    return max(last.intent.block.last - last.intent.round, 0)


@exactly_named()
def audit_budget(
    folder: str | Path,
    *,
    limit: float | None = None,
    groups: Sequence[int] = (),
    sealed: bool = False,
    public_key: Ed25519PublicKey | None = None,
    expected_head: str | None = None,
) -> BudgetReport:
    """Return what the log in a folder supports, derived from its facts alone.

    `limit` is an epsilon that must not be exceeded, at the delta and before the observer of the
    claim; `groups` are sizes of units to answer for as well.  `sealed` opens the sidecar too, as a
    trusted auditor does: then the report is not to be published.  A log whose chain is broken
    supports nothing, and the report names the line.  `public_key` and `expected_head` are what
    the log must fit (`audit.verify`).

    Range: `limit` 0 or above, `groups` 1 or above.  Raises `InvalidInput` where there is no log.
    """
    epsilon_limit = None if limit is None else validate.non_negative(limit=limit)
    sizes = tuple(dict.fromkeys(validate.count(group=size) for size in groups))
    verified, entries = verified_entries(folder, public_key, expected_head)
    # Nothing behind a bad line can be trusted, nor that what stands before it is all.
    if verified.first_bad is not None:
        number, reason = verified.first_bad
        why = f"line {number} of the log is bad: {reason}"
        broken = Chain(verified.records, verified.head, number, reason)
        return _nothing(broken, why, verified, epsilon_limit)
    chain = chain_of(verified)
    if not entries:
        unbegun = replace(chain, bad_line=1, reason=UNBEGUN)
        return _nothing(unbegun, UNBEGUN, verified, epsilon_limit)
    ledger = Ledger.of(entries)
    surroundings = folder_facts(folder, ledger, entries, verified)
    if sealed:
        surroundings["sidecar"] = Sidecar.read(folder)
    return audit_ledger(ledger, chain, limit=epsilon_limit, groups=sizes, surroundings=surroundings)


def verified_entries(
    folder: str | Path, public_key: Ed25519PublicKey | None, expected_head: str | None
) -> tuple[Verification, list[Entry]]:
    """Return what the log of a folder turned out to be, and its lines as far as they are good."""
    entries: list[Entry] = []
    verified = verify(
        folder,
        public_key,
        expected_head=expected_head,
        each=lambda line: entries.append(Entry(line.number, line.seq, line.record)),
    )
    return verified, entries


def folder_facts(
    folder: str | Path, ledger: Ledger, entries: Sequence[Entry], verified: Verification
) -> dict[str, object]:
    """Return the facts of the file of a log, and of what stands next to it in its folder."""
    return {
        "verification": verified,
        "folder": Path(folder),
        "file_comparison": compare_with_file(folder, ledger.opened),
        "entries": entries,
    }


@exactly_named()
def audit_ledger(
    ledger: Ledger,
    chain: Chain,
    *,
    limit: float | None = None,
    groups: Sequence[int] = (),
    surroundings: Mapping[str, object] | None = None,
) -> BudgetReport:
    """Return what a ledger supports; `surroundings` come from `folder_facts`."""
    evidence = Evidence.of(ledger)
    claim, closed = ledger.opened.claim, ledger.closed
    stated = {} if closed is None else closed.epsilon
    total = evidence.spent_total(claim.observer)
    left = rounds_left(evidence, claim.epsilon if limit is None else limit)
    # The rules read the same evidence as the numbers, so both speak of one reading of the log.
    search = search_hazards(evidence, surroundings)
    sidecar, file = (surroundings or {}).get("sidecar"), (surroundings or {}).get("file_comparison")
    return BudgetReport(
        chain=chain,
        claim=claim,
        total=total,
        planned=_planned(evidence),
        rows=tuple(
            Row(
                name,
                evidence.spent_total(name),
                stated.get(name),
                evidence.dropouts,
                evidence.rests_on(name),
            )
            for name in evidence.observers
        ),
        groups=tuple(
            GroupRow(size, evidence.spent_total(claim.observer, group=size)) for size in groups
        ),
        hazards=search.findings,
        spent=ledger.rounds,
        released=rounds_of(spent for spent in ledger.spent if spent.releases),
        planned_rounds=ledger.opened.plan.rounds,
        dangling=ledger.dangling,
        complete=closed is not None,
        limit=limit,
        left=None if left is None else left.rounds,
        paid_ahead=0 if left is None else left.paid,
        resumable=closed is not None or lost_if_cut_off(ledger) is None,
        assumptions=assumptions_of(evidence),
        relief=remedies(evidence.circumstances),
        observers=_named(ledger.opened),
        not_stated=(
            *search.not_stated,
            *comparison(evidence).not_stated,
            *not_stated(ledger),
            *(file.not_stated if isinstance(file, Comparison) else ()),
        ),
        sealed=sealed_check(evidence, sidecar) if isinstance(sidecar, Sidecar) else None,
        derived=len(ledger.derived),
        study=study_words(configured_value(ledger, "data", "name"), claim.unit),
    )


def _named(opened: RunOpen) -> tuple[str, ...]:
    """Return whose numbers the verdict is about: as the configuration says, if it does."""
    privacy = opened.configuration.get("privacy")
    listed = privacy.get("observers") if isinstance(privacy, Mapping) else None
    try:
        return DEFAULT_OBSERVERS if listed is None else observer_names(observers=listed)
    except InvalidInput:
        return DEFAULT_OBSERVERS


def chain_of(verified: Verification) -> Chain:
    """Return the chain of a log that is whole."""
    return Chain(
        verified.records,
        verified.head,
        checked=verified.checked,
        signature=verified.signature,
        up_to=verified.up_to,
    )


def _nothing(chain: Chain, why: str, verified: Verification, limit: float | None) -> BudgetReport:
    """Return the report of a log that nobody can trust, or that holds nothing."""
    return BudgetReport(
        chain=chain,
        claim=None,
        total=no_guarantee_total(why),
        planned=None,
        rows=(),
        groups=(),
        hazards=apply_rules({"verification": verified}).findings[:1],
        spent=0,
        released=0,
        planned_rounds=0,
        dangling=(),
        complete=False,
        limit=limit,
        left=None,
        assumptions=(),
    )


def _planned(evidence: Evidence) -> EpsilonTotal | None:
    observer = evidence.ledger.opened.claim.observer
    if observer not in evidence.ledger.opened.plan.events:
        return None
    return evidence.total(observer, whole=True)
