"""What the log says of itself, against what its facts support."""

from __future__ import annotations

import math

from ...accountant import events as ev
from ...accountant.errors import counted
from ...fl.observers.names import MODEL, SERVER, SILO, SILO_WITH_RECORDS
from ..evidence.doubts import EVALUATION, TUNING, unpaid
from ..evidence.evidence import Evidence
from ..evidence.round_kinds import lines_of
from ..findings import UNTOUCHED_COPY, Match, rule
from ..ledger.entries import missing_commitments

EPSILON_TOLERANCE_RELATIVE = 1e-5
"""Relative difference between two computations of one epsilon that rounding explains."""


@rule(
    "no-guarantee",
    why="The run itself says that this release protects nobody.",
    next_step="Read the reason; no number can be proven here.",
    explains=True,
)
def no_guarantee(evidence: Evidence) -> Match | None:
    """Fire where a round has no guarantee by its own statement, in a run that promises one."""
    if evidence.setting.as_published:
        return None
    promised = {MODEL, evidence.ledger.opened.claim.observer}
    bad, reason = [], ""
    for kind in evidence.kinds:
        given = [kind.stated[who] for who in promised if who in kind.stated]
        reasons = [event.reason for event in given if isinstance(event, ev.NoGuarantee)]
        if reasons:
            bad.append(kind)
            reason = reasons[0]
    if not bad:
        return None
    lines = lines_of(bad)
    what = f"{counted(len(lines), 'round')} without guarantee: {reason.rstrip('.')}."
    return Match(what, lines)


@rule(
    "as-published",
    severity="warning",
    why="A method that is run as its paper prints it may protect less than the paper says. What is "
    "claimed is the paper's number, what is proven follows from the facts of the log.",
    next_step="Use it to study the method, and cite the proven number.",
)
def as_published(evidence: Evidence) -> Match | None:
    """Fire where a method is run as it was published, although it is not sound."""
    if not evidence.setting.as_published:
        return None
    return Match(
        f"{evidence.ledger.opened.system!r:.60} is run as published.", (1,), evidence.left()
    )


@rule(
    "private-evaluation",
    why="A number that is computed from private data without noise is a release without a "
    "guarantee, however harmless it looks.",
    next_step="Measure on public data, or release the measurement with noise and an event.",
)
def private_evaluation(evidence: Evidence) -> Match | None:
    """Fire where metrics of private data are in the log and nothing accounts for them."""
    lines = tuple(
        number
        for number, evaluation in evidence.ledger.evaluations
        if unpaid(evidence.ledger, number, evaluation)
    )
    if not lines:
        return None
    observer = evidence.ledger.opened.claim.observer
    rest = evidence.total(observer, ignoring=frozenset({EVALUATION}), whole=_is_closed(evidence))
    return Match(
        "Metrics of private data stand in the log. Without them, the rounds support "
        f"{rest.upper:.6g}.",
        lines,
        rest.epsilon,
    )


@rule(
    "tuning-unaccounted",
    why="Choosing the best of several runs shows something of all of them.",
    next_step="Tune on public data, or account for the search. The number supposes that each run "
    "of the search was like this one, and that their number was fixed.",
)
def tuning_unaccounted(evidence: Evidence) -> Match | None:
    """Fire where settings were chosen by runs on private data, and nothing accounts for them."""
    tuning = evidence.ledger.opened.tuning
    if tuning.trials <= 1 or tuning.public_only or tuning.event is not None:
        return None
    observer = evidence.ledger.opened.claim.observer
    best = evidence.total(
        observer, ignoring=frozenset({TUNING}), tuned=True, whole=_is_closed(evidence)
    )
    return Match(
        f"The settings were chosen by {tuning.trials:,} runs on private data; the best of them "
        f"would support {best.upper:.6g}.",
        (1,),
        best.epsilon,
    )


@rule(
    "close-under-reports",
    why="The last line is what others will cite.",
    next_step="Cite the number that is derived here.",
)
def close_under_reports(evidence: Evidence) -> Match | None:
    """Fire where the last line states less than the facts support, for anybody."""
    closed = evidence.ledger.closed
    if closed is None:
        return None
    where = (evidence.ledger.closed_at,)
    if closed.delta > evidence.delta * (1.0 + 1e-9):
        what = f"The last line is at delta {closed.delta:g}, the promise at {evidence.delta:g}."
        return Match(what, where, evidence.left())
    for observer, stated in closed.epsilon.items():
        derived = evidence.spent_total(observer)
        if derived.upper > stated * (1.0 + EPSILON_TOLERANCE_RELATIVE):
            return Match(
                f"The last line states epsilon {stated:.6g} before {observer!r}; the facts "
                f"support {derived.upper:.6g}.",
                where,
                derived.epsilon,
            )
    for observer, event in closed.events.items():
        if evidence.missing(observer, event):
            what = f"The last line leaves out rounds that {observer!r} saw, or states others."
            return Match(what, where, evidence.left())
    if closed.rounds < evidence.ledger.released:
        what = f"The last line counts {closed.rounds:,} of {evidence.ledger.released:,} releases."
        return Match(what, where, evidence.left())
    return None


@rule(
    "plan-exceeds-claim",
    why="A run that follows its plan to the end will have spent more than it promises.",
    next_step="Plan fewer rounds or more noise, or promise less.",
)
def plan_exceeds_claim(evidence: Evidence) -> Match | None:
    """Fire where what was spent is within the promise, and the whole plan is not."""
    claim = evidence.ledger.opened.claim
    if claim.epsilon is None or claim.observer not in evidence.ledger.opened.plan.events:
        return None
    spent = evidence.spent_total(claim.observer).upper
    whole = evidence.total(claim.observer, whole=True)
    most = claim.epsilon * (1.0 + 1e-9)
    if spent > most or whole.upper <= most:
        return None
    return Match(
        f"The whole plan comes to {whole.upper:.6g}; promised is {claim.epsilon:.6g}.",
        (1,),
        whole.epsilon,
    )


@rule(
    "undisclosed-observer",
    severity="warning",
    why="A promise against one observer is silent about others who see more of the same run.",
    next_step="State what this observer sees, or keep it from them (masked aggregation).",
)
def undisclosed_observer(evidence: Evidence) -> Match | None:
    """Fire where somebody sees more than the promise covers, and the log does not say so."""
    opened, closed = evidence.ledger.opened, evidence.ledger.closed
    disclosed = {opened.claim.observer, *opened.plan.events, *(closed.epsilon if closed else ())}
    viewed = {name for kind in evidence.kinds for name in kind.stated} - {MODEL}
    promised = evidence.spent_total(opened.claim.observer).upper
    known = [SERVER, SILO]
    if opened.aggregation == "private-weighting":  # in earlier logs `silo` is any silo elsewhere
        known.append(SILO_WITH_RECORDS)
    for observer in (*known, *sorted(viewed - set(known))):
        if observer in disclosed or observer not in evidence.observers:
            continue
        seen = evidence.spent_total(observer)
        if seen.upper > promised * (1.0 + 1e-6) and not (math.isinf(promised)):
            return Match(
                f"{observer!r} sees more than {opened.claim.observer!r}, against whom the promise "
                f"is: the log supports {seen.upper:.6g} there.",
                (1,),
                seen.epsilon,
            )
    return None


@rule(
    "event-mismatch",
    why="The event is what the run accounted; the facts with it say what was done, and they "
    "prove less.",
    next_step="Look for what the code added in noise and what it wrote down; cite the number that "
    "is derived here.",
)
def event_mismatch(evidence: Evidence) -> Match | None:
    """Fire where a stated event is stronger than the facts support, or of another shape."""
    bad, first = [], ""
    for kind in evidence.kinds:
        for observer in kind.stated:
            seen = evidence.seen(kind, observer)
            if seen.verdict in ("stronger", "different"):
                bad.append(kind)
                first = first or (
                    f"Before {observer!r} the log states {seen.stated!r:.160}; the facts support "
                    f"{seen.supported!r:.160}."
                )
                break
    return Match(first, lines_of(bad), evidence.left()) if bad else None


@rule(
    "engines-disagree",
    why="Two calculations that exclude each other cannot both be right, so no number is given.",
    next_step="Report this log to the authors of privplan.",
)
def engines_disagree(evidence: Evidence) -> Match | None:
    """Fire where two engines contradict each other."""
    for observer in evidence.observers:
        spent = evidence.spent_total(observer)
        if spent.contradiction:
            return Match(f"Before {observer!r}: {spent.refusal}")
    return None


@rule(
    "no-number",
    why="Where nothing is proven, nothing is promised.",
    next_step="See which event has no number: privplan explain engines.",
)
def no_number(evidence: Evidence) -> Match | None:
    """Fire where the promise's observer has no finite epsilon."""
    spent = evidence.spent_total(evidence.ledger.opened.claim.observer)
    if math.isfinite(spent.upper):
        return None
    return Match(f"No epsilon is proven: {spent.refusal or 'the noise is too small'}.")


@rule(
    "stripped-commitments",
    why="What a run seals is decided by its configuration, never by its data. Without a commitment "
    "nobody can test what the release was made of.",
    next_step=UNTOUCHED_COPY,
)
def stripped_commitments(evidence: Evidence) -> Match | None:
    """Fire where a release lacks a commitment to an item that its phase seals."""
    lacking = missing_commitments(evidence.ledger)
    if not lacking:
        return None
    names = ", ".join(dict.fromkeys(name for line in lacking for name in line.names))
    return Match(f"Commitments are missing: {names}.", tuple(line.line for line in lacking))


def _is_closed(evidence: Evidence) -> bool:
    return evidence.ledger.closed is not None
