"""Random streams with gaps: bytes that were drawn, and whose release is not in the log.

Every start of a run has streams of its own, each read from its first byte on, without a gap: what
one release leaves off, the next one begins with.  Only an intent without a release has drawn bytes
that no line states.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..budget.evidence import Evidence
from ..budget.ledger import Ledger, Spent
from .hazard import Found, rule

_NEXT = "Take the log from a copy that nobody has touched; what was cut out is spent all the same, "
_NEXT += "and is not in the numbers here."


@dataclass
class _Segment:
    """The rounds between two starts of a run; `lost` are the lines of intents without release."""

    rounds: list[Spent] = field(default_factory=list)

    @property
    def lost(self) -> list[int]:
        return [one.number for one in self.rounds if not one.releases]

    def ranges(self) -> dict[str, list[tuple[int, int, int]]]:
        """Return the ranges of each stream, by their first byte, with the lines of releases."""
        found: dict[str, list[tuple[int, int, int]]] = {}
        for one in self.rounds:
            for number, release in one.releases:
                for own in release.streams:
                    found.setdefault(own.stream, []).append((own.first, own.last, number))
        for same in found.values():
            same.sort()
        return found


def _segments(ledger: Ledger) -> list[_Segment]:
    """Return the rounds of each start of the run, in their order."""
    starts = [one.number for one in ledger.recoveries]
    found = [_Segment() for _ in range(len(starts) + 1)]
    for one in ledger.spent:
        found[bisect_left(starts, one.number)].rounds.append(one)
    return found


@rule(
    "broken-streams",
    "error",
    why="A stream is read from its first byte, and releases state all that they draw. Bytes that "
    "no release states belong to rounds that were cut out.",
    next_step=_NEXT,
    edited=True,
)
def broken_streams(evidence: Evidence) -> Found | None:
    """Fire where bytes of a stream are left out, and no intent without release can have them."""
    for segment in _segments(evidence.ledger):
        for place, first, number in _gaps(segment):
            begins = "begins" if place == 0 else "goes on"
            return Found(
                f"A random stream {begins} at byte {first:,}, where byte {place:,} belongs.",
                (number,),
            )
    return None


def _gaps(segment: _Segment) -> Iterator[tuple[int, int, int]]:
    """Yield where a stream should go on, where it does, and the line."""
    lost = segment.lost
    for same in segment.ranges().values():
        reached, line = 0, 0
        for first, last, number in same:
            excused = any(line < one < number for one in lost)
            if first > reached and not excused:
                yield reached, first, number
            reached, line = max(reached, last), number


@rule(
    "missing-recovery",
    "error",
    why="Streams are new after a recovery, and only then. Where they change without one, or come "
    "back behind one, lines were cut out, put in, or taken from another log.",
    next_step=_NEXT,
    edited=True,
)
def missing_recovery(evidence: Evidence) -> Found | None:
    """Fire where rounds that are alike draw from new streams, and the log knows no new start."""
    segments = _segments(evidence.ledger)
    seen: set[str] = set()
    for segment in segments:
        own = segment.ranges()
        for stream in seen & own.keys():
            return Found(
                "A recovery goes on with a random stream from before it.", (own[stream][0][2],)
            )
        seen |= own.keys()
    kinds = {one.seq: place for place, kind in enumerate(evidence.kinds) for one in kind.spent}
    for segment in segments:
        by_kind: dict[int, list[Spent]] = {}
        for one in segment.rounds:
            by_kind.setdefault(kinds[one.seq], []).append(one)
        for same in by_kind.values():
            line = _changed(same)
            if line:
                return Found(
                    "Rounds draw from other random streams than those before them, and no "
                    "recovery stands in between.",
                    (line,),
                )
    return None


def _changed(same: list[Spent]) -> int:
    """Return the line from which on rounds have more streams than there can be; 0 for none.

    A share of the noise has one stream.  One round may lack those of shares that did not arrive.
    """
    noise = same[0].intent.noise
    releases = [one for spent in same for one in spent.releases]
    most = max((len(own.streams) for _, own in releases), default=0) + noise.tolerated_dropouts
    names: set[str] = set()
    for number, own in releases:
        names |= {one.stream for one in own.streams}
        if len(names) > most:
            return number
    return 0
