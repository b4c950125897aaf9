"""What is said to reach whom, beside the facts that it rests on."""

from __future__ import annotations

import math

from ..budget.evidence import Evidence, Kind
from ..budget.reached import Believed, believed
from .hazard import Found, lines_of, rule


@rule(
    "reach-contradicted",
    "error",
    why="What reaches an observer decides its number, and whoever writes the log states it.  It "
    "counts only as far as everything else that is stated fits.",
    next_step="Find out what wrote these records. The observer counts as if it saw every message, "
    "or has no number.",
    explains=True,
)
def reach_contradicted(evidence: Evidence) -> Found | None:
    """Fire where what is said to reach an observer is less than other facts say."""
    found = [
        (name, kind, one.contradicted[0])
        for name, kind, one in _looked(evidence)
        if one.contradicted
    ]
    if not found:
        return None
    name, _, why = found[0]
    lines = lines_of([kind for kind in evidence.kinds if any(kind is bad for _, bad, _ in found)])
    return Found(f"What reaches {name!r} is contradicted: {why}.", lines, _left(evidence, name))


@rule(
    "reach-of-nobody",
    "error",
    why="Of an observer that nobody knows there is no telling what it sees.",
    next_step="Name one of those that privplan knows: model, server, silo, peer, client, "
    "coordinator, shuffler, analyzer, or server+2 for the server with two silos.",
    explains=True,
)
def reach_of_nobody(evidence: Evidence) -> Found | None:
    """Fire where something is said to reach an observer that no table knows."""
    bad = [
        (name, kind)
        for kind in evidence.kinds
        for name, _ in kind.facts.reaches or ()
        if believed(kind.facts, evidence.setting, name) is None
    ]
    if not bad:
        return None
    return Found(
        f"Something is said to reach {bad[0][0]!r:.60}, an observer that is not known.",
        lines_of(list({id(kind): kind for _, kind in bad}.values())),
    )


@rule(
    "reach-missing",
    "error",
    why="Code that states what reaches an observer states it in every round.",
    next_step="Find out what wrote these records. In the rounds that are silent the observer "
    "counts as if it saw every message.",
    explains=True,
)
def reach_missing(evidence: Evidence) -> Found | None:
    """Fire where only some rounds of a phase say what reaches an observer."""
    bad = [kind for kind in evidence.kinds if kind.facts.missing]
    if not bad:
        return None
    name = bad[0].facts.missing[0]
    return Found(
        f"Other rounds say what reaches {name!r}, and these do not.",
        lines_of(bad),
        _left(evidence, name),
    )


@rule(
    "reach-assumed",
    "warning",
    why="No protocol in the log makes it so, and nothing in the log can show it.",
    next_step="Say so wherever the number is cited, or run a protocol that keeps the rest from "
    "this observer.",
)
def reach_assumed(evidence: Evidence) -> Found | None:
    """Fire where a number before an observer rests on an assumption about what reaches it."""
    found = [(name, kind, one.assumed[0]) for name, kind, one in _looked(evidence) if one.assumed]
    found = [one for one in found if math.isfinite(evidence.settled(one[0]).upper)]
    if not found:
        return None
    name, _, text = found[0]
    lines = lines_of([kind for kind in evidence.kinds if any(kind is own for _, own, _ in found)])
    what = text.removeprefix("assumed: ")
    return Found(
        f"The number before {name!r} assumes what no protocol here provides: {what}.",
        lines,
        _left(evidence, name),
    )


def _looked(evidence: Evidence) -> list[tuple[str, Kind, Believed]]:
    """Return how far each stated reach is believed, by observer and kind of round."""
    found = []
    for kind in evidence.kinds:
        for name, _ in kind.facts.reaches or ():
            one = believed(kind.facts, evidence.setting, name)
            if one is not None:
                found.append((name, kind, one))
    return found


def _left(evidence: Evidence, observer: str) -> float | None:
    """Return what the log supports before an observer; None if there is nothing."""
    upper = evidence.settled(observer).upper
    return upper if math.isfinite(upper) else None
