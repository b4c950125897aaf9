"""The audit of a budget: read the log, derive what it supports, look for hazards, compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.errors import InvalidInput, with_article
from ...accountant.records import RunOpen
from ...fl.declarations.registry import exactly_named
from ...fl.log.empty_log import UNBEGUN
from ...fl.observers.assumptions import COUNTS_UNKNOWN, remedies
from ...fl.observers.names import DEFAULT_OBSERVERS, coalition_of, observer_names
from ..commitments import not_stated
from ..first_line import beside
from ..hazards import Hazard, looked_for, worst_first
from ..hazards.appended import foreign_results
from ..hazards.chain import broken_chain, not_anchored, torn_line, unbegun
from ..hazards.configuration import comparison, file_mismatch
from ..hazards.edited import hazards_beside
from ..verify import Verified, verify
from .evidence import Evidence
from .facts import SILO, SILO_WITH_RECORDS
from .ledger import Entry, Ledger, rounds_of
from .report import BudgetReport, Chain, GroupRow, Row, SealedCheck
from .total import Total, nothing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MOST_LEFT: Final = 10**9
"""More rounds than that are not searched for."""


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
    most = None if limit is None else validate.non_negative(limit=limit)
    sizes = tuple(dict.fromkeys(validate.count(group=size) for size in groups))
    entries: list[Entry] = []
    verified = verify(
        folder,
        public_key,
        expected_head=expected_head,
        each=lambda line: entries.append(Entry(line.number, line.seq, line.record)),
    )
    if verified.first_bad is not None:
        number, reason = verified.first_bad
        why = f"line {number} of the log is bad: {reason}"
        bad = Chain(verified.records, verified.head, number, reason)
        return _nothing(bad, why, broken_chain(number, reason), most)
    chain = chain_of(verified)
    if not entries:
        return _nothing(replace(chain, bad_line=1, reason=UNBEGUN), UNBEGUN, unbegun(), most)
    ledger = Ledger.of(entries)
    more: list[Hazard] = []
    opened: SealedCheck | None = None
    more += chain_hazards(verified)
    more += hazards_beside(folder, ledger)
    held = beside(folder, ledger.opened)
    more += file_mismatch(held)
    more += foreign_results(ledger.opened, entries)
    if sealed:
        from ..hazards.sealed import sealed_hazards

        found, opened = sealed_hazards(Evidence.of(ledger), folder)
        more += found
    return audit_ledger(
        ledger, chain, limit=most, groups=sizes, more=more, sealed=opened, unread=held.not_stated
    )


@exactly_named()
def audit_ledger(
    ledger: Ledger,
    chain: Chain,
    *,
    limit: float | None = None,
    groups: Sequence[int] = (),
    more: Sequence[Hazard] = (),
    sealed: SealedCheck | None = None,
    unread: Sequence[str] = (),
) -> BudgetReport:
    """Return what a ledger supports; `more` are hazards that were found outside of its records.

    `sealed` is how much of the sidecar was opened, if it was; `unread` what could not be compared.
    """
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
            Row(
                name,
                evidence.settled(name),
                stated.get(name),
                evidence.dropouts,
                evidence.rests_on(name),
            )
            for name in evidence.observers
        ),
        groups=tuple(
            GroupRow(size, evidence.settled(claim.observer, group=size)) for size in groups
        ),
        hazards=worst_first((*looked.hazards, *more)),
        spent=ledger.rounds,
        released=rounds_of(spent for spent in ledger.spent if spent.releases),
        planned_rounds=ledger.opened.plan.rounds,
        dangling=ledger.dangling,
        complete=closed is not None,
        limit=limit,
        left=_left(evidence, claim.epsilon if limit is None else limit),
        assumptions=_assumptions(evidence),
        relief=remedies(evidence.circumstances),
        observers=_named(ledger.opened),
        not_stated=(
            *looked.not_stated,
            *comparison(evidence).not_stated,
            *not_stated(ledger),
            *unread,
        ),
        sealed=sealed,
    )


def _named(opened: RunOpen) -> tuple[str, ...]:
    """Return whose numbers the verdict is about: as the configuration says, if it does."""
    privacy = opened.configuration.get("privacy")
    listed = privacy.get("observers") if isinstance(privacy, Mapping) else None
    try:
        return DEFAULT_OBSERVERS if listed is None else observer_names(observers=listed)
    except InvalidInput:
        return DEFAULT_OBSERVERS


def chain_of(verified: Verified) -> Chain:
    """Return the chain of a log that is whole."""
    return Chain(
        verified.records,
        verified.head,
        checked=verified.checked,
        signature=verified.signature,
        up_to=verified.up_to,
    )


def chain_hazards(verified: Verified) -> tuple[Hazard, ...]:
    """Return the hazards of a log that is whole, as a file: torn, or not what was expected."""
    found = []
    if verified.torn is not None:
        found.append(torn_line(verified.torn.number))
    if verified.mismatch is not None:
        found.append(not_anchored(verified.mismatch))
    return tuple(found)


def _nothing(chain: Chain, why: str, hazard: Hazard, limit: float | None) -> BudgetReport:
    """Return the report of a log that nobody can trust, or that holds nothing."""
    return BudgetReport(
        chain=chain,
        claim=None,
        total=nothing(why),
        planned=None,
        rows=(),
        groups=(),
        hazards=(hazard,),
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
            f"{COUNTS_UNKNOWN}: the silos make a user's weights from it, and no message carries it."
        )
    return found


def _of_test_data(ledger: Ledger) -> list[str]:
    """Return whose word it is that the data of evaluations are public."""
    declared = [one for _, one in ledger.evaluations if one.data == "declared-public"]
    stated = dict.fromkeys(one.source for one in declared)
    return [
        "The test data are public: declared public, "
        + ("source not stated." if source is None else f"source: {source:.300}.")
        for source in stated
    ]


def _assumptions(evidence: Evidence) -> tuple[str, ...]:
    """Return what must be true of the run for the numbers to hold."""
    ledger, names = evidence.ledger, evidence.observers
    found = [
        "Clip, weights, sampling and noise were as the log states them; nothing that it says about "
        "epsilon is used.",
        "Every release drew fresh noise from a source that nobody can predict.",
        "What was to be released was fixed before the first release.",
    ]
    told = any(coalition_of(name) is not None for name in names)
    if SILO in names:
        found.append(
            "Noise was added inside each silo, before its update left it, and silos do not collude "
            "with each other or with the server"
            f"{', but for coalitions that are named here' * told}."
        )
    if SILO in names:
        # Where k records of a user take part, a silo that holds some may learn of the others.
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
    found += _of_test_data(ledger)
    return tuple(found)
