"""What is said to reach whom, against the facts that it rests on."""

from __future__ import annotations

import math

from ...accountant.errors import enumerated
from ...fl.observers.stated_assumptions import ASSUMED_PREFIX, remedy
from ..derivation.believed_reach import BelievedReach, believed_reach
from ..evidence.evidence import Evidence, RoundKind
from ..evidence.round_kinds import lines_of
from ..findings import Match, rule


@rule(
    "reach-contradicted",
    why="What reaches an observer decides its number, and whoever writes the log states it.  It "
    "counts only as far as everything else that is stated fits.",
    next_step="Find out what wrote these records. The observer counts as if it saw every message, "
    "or has no number.",
    explains=True,
)
def reach_contradicted(evidence: Evidence) -> Match | None:
    """Fire where what is said to reach an observer is less than other facts say."""
    wrong = [
        (name, kind, seen.contradicted[0])
        for name, kind, seen in _looked(evidence)
        if seen.contradicted
    ]
    if not wrong:
        return None
    name, _, why = wrong[0]
    what = f"What reaches {name!r} is contradicted: {why}."
    return Match(what, _lines(evidence, wrong), evidence.left(name))


@rule(
    "reach-of-nobody",
    why="Of an observer that nobody knows there is no telling what it sees.",
    next_step="Name one of those that privplan knows: model, server, silo, peer, client, "
    "coordinator, shuffler, analyzer, or server+2 for the server with two silos.",
    explains=True,
)
def reach_of_nobody(evidence: Evidence) -> Match | None:
    """Fire where something is said to reach an observer that no table knows."""
    bad = [
        (name, kind)
        for kind in evidence.kinds
        for name, _ in kind.facts.reaches or ()
        if believed_reach(kind.facts, evidence.setting, name) is None
    ]
    if not bad:
        return None
    return Match(
        f"Something is said to reach {bad[0][0]!r:.60}, an observer that is not known.",
        lines_of(list({id(kind): kind for _, kind in bad}.values())),
    )


@rule(
    "reach-missing",
    why="Code that states what reaches an observer states it in every round.",
    next_step="Find out what wrote these records. In the rounds that are silent the observer "
    "counts as if it saw every message.",
    explains=True,
)
def reach_missing(evidence: Evidence) -> Match | None:
    """Fire where only some rounds of a phase say what reaches an observer."""
    bad = [kind for kind in evidence.kinds if kind.facts.missing]
    if not bad:
        return None
    name = bad[0].facts.missing[0]
    return Match(
        f"Other rounds say what reaches {name!r}, and these do not.",
        lines_of(bad),
        evidence.left(name),
    )


@rule(
    "reach-assumed",
    severity="warning",
    why="No protocol in the log makes it so, and nothing in the log can show it.",
    next_step="Say so wherever the number is cited, or run a protocol that keeps the rest from "
    "this observer.",
)
def reach_assumed(evidence: Evidence) -> Match | None:
    """Fire where a number before an observer rests on an assumption about what reaches it."""
    rests = [
        (name, kind, seen.assumed[0]) for name, kind, seen in _looked(evidence) if seen.assumed
    ]
    # An assumption matters only where a number rests on it.
    rests = [seen for seen in rests if math.isfinite(evidence.spent_total(seen[0]).upper)]
    if not rests:
        return None
    name, _, text = rests[0]
    what = text.removeprefix(ASSUMED_PREFIX)
    names = [*dict.fromkeys(repr(who) for who, _, said in rests if said == text)]
    numbers = "number" if len(names) == 1 else "numbers"
    return Match(
        f"The {numbers} before {enumerated(names, 'and')} "
        f"assume{'s' * (len(names) == 1)} what no protocol here provides: {what}.",
        _lines(evidence, rests),
        evidence.left(name),
        next_step=f"Say so wherever the number is cited, or {remedy(text)}.",
    )


def _lines(evidence: Evidence, believed: list[tuple[str, RoundKind, str]]) -> tuple[int, ...]:
    """Return the lines of all rounds of which something is said, in the order of their kinds."""
    kinds_named = {id(kind) for _, kind, _ in believed}
    return lines_of([kind for kind in evidence.kinds if id(kind) in kinds_named])


def _looked(evidence: Evidence) -> list[tuple[str, RoundKind, BelievedReach]]:
    """Return how far each stated reach is believed, by observer and kind of round."""
    believed = []
    for kind in evidence.kinds:
        for name, _ in kind.facts.reaches or ():
            seen = believed_reach(kind.facts, evidence.setting, name)
            if seen is not None:
                believed.append((name, kind, seen))
    return believed
