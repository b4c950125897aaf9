"""Logs of one party among several: what it says of noise that others drew.

Each party of a network keeps a log of its own.  That of a silo states the bytes of its own share of
the noise, that of the server none; the other shares stand in the logs of others.
"""

from __future__ import annotations

from ..evidence.evidence import Evidence
from ..findings import Match, rule


@rule(
    "noise-drawn-elsewhere",
    severity="note",
    why="This is the log of one party, which cannot show noise that others drew. What it says of "
    "that is what the parties agreed on.",
    next_step="Take the logs of all parties together: privplan audit log SERVER --against SILO",
)
def noise_drawn_elsewhere(evidence: Evidence) -> Match | None:
    """Fire where shares of the noise stand in the logs of other parties."""
    opened = evidence.ledger.opened
    drawn = [
        (number, release.drawn_here, release.shares)
        for _, number, release in evidence.ledger.releases
        if release.drawn_here is not None and release.drawn_here < release.shares
    ]
    if opened.party is None or not drawn:
        return None
    _, here, shares = drawn[0]
    return Match(
        f"Of {shares} shares of the noise {here or 'none'} {'was' if here == 1 else 'were'} drawn "
        f"by {opened.party.name}, whose log this is.",
        tuple(number for number, _, _ in drawn),
    )


@rule(
    "noise-of-nobody",
    why="Noise that was drawn elsewhere stands in another party's log. Where the first line names "
    "no party, or one that draws another part of it, there is no such log.",
    next_step="Find out whose log it is. The numbers here are those of noise that somebody drew.",
)
def noise_of_nobody(evidence: Evidence) -> Match | None:
    """Fire where releases leave noise to others, and the first line does not say to whom."""
    party = evidence.ledger.opened.party
    due = None if party is None else int(party.silo is not None)
    lines = tuple(
        number
        for _, number, release in evidence.ledger.releases
        if release.drawn_here != due and release.draws
    )
    if not lines:
        return None
    whose = "no party" if party is None else party.name
    return Match(
        f"Releases say how much of their noise was drawn here, and the first line names {whose}.",
        lines,
    )
