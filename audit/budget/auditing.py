"""The audit of a budget: read the log, derive what it supports, look for hazards, compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.errors import with_article
from ..hazards import Hazard, looked_for, worst_first
from ..hazards.chain import broken_chain, torn_line
from ..hazards.edited import hazards_beside
from ..log.reader import BadLine, Scan
from .evidence import Evidence
from .facts import SILO, SILO_WITH_RECORDS
from .ledger import Entry, Ledger
from .report import BudgetReport, Chain, GroupRow, Row
from .total import Total, nothing

MOST_LEFT: Final = 10**9
"""More rounds than that are not searched for."""


def audit_budget(
    folder: str | Path,
    *,
    limit: float | None = None,
    groups: Sequence[int] = (),
    sealed: bool = False,
) -> BudgetReport:
    """Return what the log in a folder supports, derived from its facts alone.

    `limit` is an epsilon that must not be exceeded, at the delta and before the observer of the
    claim; `groups` are sizes of units to answer for as well.  `sealed` opens the sidecar too, as a
    trusted auditor does: then the report is not to be published.  A log whose chain is broken
    supports nothing, and the report names the line.

    Range: `limit` 0 or above, `groups` 1 or above.  Raises `InvalidInput` where there is no log.
    """
    most = None if limit is None else validate.non_negative(limit=limit)
    sizes = tuple(dict.fromkeys(validate.count(group=size) for size in groups))
    scan = Scan(folder)
    entries: list[Entry] = []
    try:
        entries.extend(Entry(line.number, line.seq, line.record) for line in scan)
    except BadLine as bad:
        return _broken(Chain(scan.records, scan.head, bad.number, bad.reason), most)
    chain = Chain(scan.records, scan.head)
    if not entries:
        return _broken(Chain(0, None, 1, "the log holds no record"), most)
    ledger = Ledger.of(entries)
    more: list[Hazard] = []
    if scan.torn is not None:
        more.append(torn_line(scan.torn.number))
    more += hazards_beside(folder, ledger)
    if sealed:
        from ..hazards.sealed import sealed_hazards

        more += sealed_hazards(Evidence.of(ledger), folder)
    return audit_ledger(ledger, chain, limit=most, groups=sizes, more=more)


def audit_ledger(
    ledger: Ledger,
    chain: Chain,
    *,
    limit: float | None = None,
    groups: Sequence[int] = (),
    more: Sequence[Hazard] = (),
) -> BudgetReport:
    """Return what a ledger supports; `more` are hazards that were found outside of its records."""
    evidence = Evidence.of(ledger)
    claim, closed = ledger.opened.claim, ledger.closed
    stated = {} if closed is None else closed.epsilon
    found = evidence.settled(claim.observer)
    looked = looked_for(evidence)
    return BudgetReport(
        chain=chain,
        claim=claim,
        total=found,
        planned=_planned(evidence),
        rows=tuple(
            Row(name, evidence.settled(name), stated.get(name)) for name in evidence.observers
        ),
        groups=tuple(
            GroupRow(size, evidence.settled(claim.observer, group=size)) for size in groups
        ),
        hazards=worst_first((*looked.hazards, *more)),
        spent=len(ledger.spent),
        released=ledger.released,
        planned_rounds=ledger.opened.plan.rounds,
        dangling=ledger.dangling,
        complete=closed is not None,
        limit=limit,
        left=_left(evidence, claim.epsilon if limit is None else limit),
        assumptions=_assumptions(evidence),
        not_stated=looked.not_stated,
    )


def _broken(chain: Chain, limit: float | None) -> BudgetReport:
    """Return the report of a log that nobody can trust."""
    return BudgetReport(
        chain=chain,
        claim=None,
        total=nothing(f"line {chain.bad_line} of the log is bad: {chain.reason}"),
        planned=None,
        rows=(),
        groups=(),
        hazards=(broken_chain(chain.bad_line or 1, chain.reason),),
        spent=0,
        released=0,
        planned_rounds=0,
        dangling=(),
        complete=False,
        limit=limit,
        left=None,
        assumptions=(),
    )


def _planned(evidence: Evidence) -> Total | None:
    observer = evidence.ledger.opened.claim.observer
    if observer not in evidence.ledger.opened.plan.events:
        return None
    return evidence.total(observer, whole=True)


def _left(evidence: Evidence, most: float | None) -> int | None:
    """Return how many more rounds like the last one fit; None for a run that is over."""
    observer = evidence.ledger.opened.claim.observer
    if most is None or evidence.ledger.closed is not None or not evidence.ledger.spent:
        return None
    if not math.isfinite(evidence.total(observer).upper):
        return None

    def fits(count: int) -> bool:
        return evidence.with_more(observer, count).upper <= most

    if not fits(0):
        return 0
    low, high = 0, 1
    while high <= MOST_LEFT and fits(high):
        low, high = high, 2 * high
    if high > MOST_LEFT:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _of_protocol(evidence: Evidence) -> list[str]:
    """Return what must be true of how silos' updates were summed and weighted."""
    own = evidence.ledger.opened.security
    private = own is not None and own.protocol == "private-weighting"
    found = []
    if own is not None:
        found.append(
            f"The protocol `{own.protocol}` was carried out with these parameters, by parties that "
            "follow it."
        )
    if private:
        found.append(
            "The server does not collude with any silo: together they know how many records each "
            "user has, and what is said against either of them is void."
        )
    elif evidence.setting.silos > 1 and any(
        kind.facts.weights.rule == "records" for kind in evidence.kinds
    ):
        found.append(
            "Nobody who is named here learns a user's weights, which are made from the number of "
            "its records; only private weighting keeps them from all parties."
        )
    return found


def _assumptions(evidence: Evidence) -> tuple[str, ...]:
    """Return what must be true of the run for the numbers to hold."""
    ledger, names = evidence.ledger, evidence.observers
    found = [
        "Clip, weights, sampling and noise were as the log states them; nothing that it says about "
        "epsilon is used.",
        "Every release drew fresh noise from a source that nobody can predict.",
        "What was to be released was fixed before the first release.",
    ]
    if SILO in names:
        found.append(
            "Noise was added inside each silo, before its update left it, and silos do not collude "
            "with each other or with the server."
        )
    if SILO in names:
        # Which k records of a user take part tells a silo that holds some how many lie elsewhere.
        other = SILO_WITH_RECORDS in names or evidence.setting.group > 1
        held = " of which it holds nothing itself" if other else ""
        unit = with_article(evidence.setting.unit)
        found.append(f"Before `{SILO}` the unit is what others hold of {unit}{held}.")
    found += _of_protocol(evidence)
    if any(one.facts.noise.std == 0.0 and not one.facts.voids for one in evidence.kinds):
        found.append("The epsilon of local randomizers stands in their event, and was not checked.")
    if evidence.settled(ledger.opened.claim.observer).epsilon.lower > 0.0:
        found.append(
            "The lower end is for a unit that may contribute anything within its bound, in every "
            "released round."
        )
    if any(isinstance(one.event, ev.Event) for _, one in ledger.evaluations):
        found.append("Measurements of private data cost what their events say.")
    if any(one.data == "declared-public" for _, one in ledger.evaluations):
        found.append("The data that were declared public are public.")
    return tuple(found)
