"""Random streams with gaps: bytes that were drawn, and whose release is not in the log.

Every start of a run has streams of its own, each read from its first byte on, without a gap: what
one release leaves off, the next one begins with.  Only an intent without a release has drawn bytes
that no line states.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from ...accountant.records import RoundIntent, RoundRelease
from ..findings import COPY_OF_CUT_LOG, Match, rule
from ..ledger.entries import Ledger, SpentIntent
from ..ledger.phases import CONTINUOUS_FAMILIES, configured_value, votes_of


@dataclass
class _Segment:
    """The rounds between two starts of a run; `lost` are the lines of intents without release."""

    rounds: list[SpentIntent] = field(default_factory=list)

    @property
    def lost(self) -> list[int]:
        return [spent.number for spent in self.rounds if not spent.releases]

    def ranges(self) -> dict[str, list[tuple[int, int, int]]]:
        """Return the ranges of each stream, by their first byte, with the lines of releases."""
        ranges: dict[str, list[tuple[int, int, int]]] = {}
        for spent in self.rounds:
            for number, release in spent.releases:
                for used in release.streams:
                    ranges.setdefault(used.stream, []).append((used.first, used.last, number))
        for same in ranges.values():
            same.sort()
        return ranges


def _segments(ledger: Ledger) -> list[_Segment]:
    """Return the rounds of each start of the run, in their order."""
    starts = [recovery.number for recovery in ledger.recoveries]
    segments = [_Segment() for _ in range(len(starts) + 1)]
    for spent in ledger.spent:
        segments[bisect_left(starts, spent.number)].rounds.append(spent)
    return segments


@rule(
    "broken-streams",
    why="A stream is read from its first byte, and releases state all that they draw. Bytes that "
    "no release states belong to rounds that were cut out.",
    next_step=COPY_OF_CUT_LOG,
)
def broken_streams(ledger: Ledger) -> Match | None:
    """Fire where bytes of a stream are left out, and intents without release cannot have them."""
    for segment in _segments(ledger):
        for due, first, number in _gaps(segment):
            begins = "begins" if due == 0 else "goes on"
            return Match(
                f"A random stream {begins} at byte {first:,}, where byte {due:,} belongs.",
                (number,),
            )
    if configured_value(ledger, "run", "system") is None:
        return None  # another program may draw otherwise, and not say what it used
    unlike = next(filter(None, map(_unlike_ours, _segments(ledger))), None)
    return unlike or _unlike_votes(ledger)


def _unlike_ours(segment: _Segment) -> Match | None:
    """Return what no run of privplan states: too few bytes, or more in a round than before."""
    for spent in segment.rounds:
        for number, release in spent.releases:
            stated = sum(max(stream.last - stream.first, 0) for stream in release.streams)
            least = least_bytes(spent.intent, release)
            if stated < least:
                return Match(
                    f"A release states {stated:,} random bytes; its noise takes {least:,} or more.",
                    (number,),
                )
    uneven = _uneven(segment)
    if uneven is None:
        return None
    read, due, line = uneven
    return Match(
        f"A round reads {read:,} bytes of a random stream, and those before it {due:,}; rounds of "
        "privplan read equally many.",
        (line,),
    )


def _unlike_votes(ledger: Ledger) -> Match | None:
    """Return what no sum of votes states: other streams than one of its own for each share.

    Each of them is read from its first byte, equally far.  What a stream is called is random, and
    how far it is read depends on how noise was drawn: nothing in a log tells these.  Of messages
    there is one sum, whose shuffler draws from the streams of the training.
    """
    votes = votes_of(ledger)
    if votes is None or votes.intent.contribution.terms == "message":
        return None
    if votes.intent.noise.family not in CONTINUOUS_FAMILIES:
        return None
    before = {
        stream.stream
        for spent in ledger.spent
        if spent is not votes
        for _, release in spent.releases
        for stream in release.streams
    }
    for number, release in votes.releases:
        names = {stream.stream for stream in release.streams}
        read = {(stream.first, stream.last) for stream in release.streams}
        distinct = len(names) == len(release.streams) and not names & before
        shares = release.shares <= len(names) <= max(votes.intent.noise.shares, release.shares)
        if not distinct or not shares or len(read) > 1:
            return Match(
                "Votes of who was held out have other random streams than one of their own for "
                "each share of their noise, all read equally far.",
                (number,),
            )
    return None


def least_bytes(intent: RoundIntent, release: RoundRelease) -> int:
    """Return how many random bytes a release takes at least: one for each value of each share.

    Of a party among several, its own shares alone count.

    Where units send messages, a sum has more values than each of them sends: one for each message.
    """
    noise = intent.noise
    if release.drawn_here == 0:
        return 0  # others drew it (`hazards.parties` asks who)
    if noise.family not in CONTINUOUS_FAMILIES:
        return int(noise.family != "none")
    if intent.contribution.terms == "message":
        return max(release.draws, 1)
    shares = release.shares if release.drawn_here is None else release.drawn_here
    return max(release.values * release.draws * shares, 1)


_SINGLE_BLOCK_BYTES = 2**18
"""Up to so many bytes of a stream, noise is drawn in a single block, of a length that is fixed."""

_LARGEST_UNEVENNESS_RELATIVE = 0.01
"""Of longer streams, how far rounds may differ: proposals that were rejected are made up for.

A draw of 20,000 numbers varies by .0005 (a standard deviation), and longer ones by less.
"""


def _uneven(segment: _Segment) -> tuple[int, int, int] | None:
    """Return the bytes that a round reads, those of rounds before it, and the line; or None."""
    known: dict[tuple[bool, str], int] = {}
    for spent in segment.rounds:
        for number, release in spent.releases:
            for stream in release.streams:
                size = stream.last - stream.first
                due = known.setdefault((spent.intent.round == 0, stream.stream), size)
                longer = max(size, due)
                allowed = 0.0
                if longer > _SINGLE_BLOCK_BYTES:
                    allowed = _LARGEST_UNEVENNESS_RELATIVE * longer
                if abs(size - due) > allowed:
                    return size, due, number
    return None


def _gaps(segment: _Segment) -> Iterator[tuple[int, int, int]]:
    """Yield where a stream should go on, where it does, and the line.

    An intent that was not released has drawn what a release draws of the stream, and no more.
    """
    lost = segment.lost
    for same in segment.ranges().values():
        most = max(last - first for first, last, _ in same)
        reached, line = 0, 0
        for first, last, number in same:
            # Every intent that was cut off in between may have drawn as much as the largest
            # release.
            excused = bisect_left(lost, number) - bisect_left(lost, line)
            if first - reached > excused * most:
                yield reached, first, number
            reached, line = max(reached, last), number


@rule(
    "missing-recovery",
    why="An intent that is neither released nor aborted was cut off, and an abort ends a run: a "
    "recovery follows. Streams are new after it, and only then. Otherwise lines were cut out, put "
    "in, or taken from another log.",
    next_step=COPY_OF_CUT_LOG,
)
def missing_recovery(ledger: Ledger) -> Match | None:
    """Fire where a run goes on as only a new start does, and the log knows of none."""
    hanging = _hanging(ledger)
    if hanging:
        what = "The run was ended behind an intent that was cut off, and no recovery took it up."
        return Match(what, (hanging,))
    resumed = _beyond_abort(ledger)
    if resumed:
        what = "The run goes on behind a round that was aborted, and no recovery took it up."
        return Match(what, (resumed,))
    segments = _segments(ledger)
    seen: set[str] = set()
    for segment in segments:
        ranges = segment.ranges()
        for stream in seen & ranges.keys():
            return Match(
                "A recovery goes on with a random stream from before it.", (ranges[stream][0][2],)
            )
        seen |= ranges.keys()
    votes = votes_of(ledger)  # which have streams of their own, however alike they are
    for segment in segments:
        by_kind: dict[Hashable, list[SpentIntent]] = {}
        for spent in segment.rounds:
            intent = spent.intent
            facts = intent.noise, intent.contribution, intent.weights, intent.sampling
            kind = *facts, spent is votes
            by_kind.setdefault(kind, []).append(spent)
        for same in by_kind.values():
            line = _changed(same)
            if line:
                return Match(
                    "Rounds draw from other random streams than those before them, and no "
                    "recovery stands in between.",
                    (line,),
                )
    return None


def _hanging(ledger: Ledger) -> int:
    """Return the line of an intent that was cut off, and after which the run simply ends; or 0."""
    newest = max((recovery.number for recovery in ledger.recoveries), default=0)
    cut = (spent.number for spent in ledger.spent if not (spent.releases or spent.aborted))
    return next((line for line in cut if ledger.closed is not None and line > newest), 0)


def _beyond_abort(ledger: Ledger) -> int:
    """Return the line behind an abort with which a run goes on or ends by itself; or 0."""
    starts = [recovery.number for recovery in ledger.recoveries]
    lasting = [spent.number for spent in ledger.spent]
    lasting += [number for spent in ledger.spent for number, _ in spent.releases]
    lasting += [number for number, _ in ledger.evaluations]
    lasting += [ledger.closed_at] if ledger.closed is not None else []
    lasting.sort()
    for abort in ledger.aborts:
        after = bisect_left(lasting, abort)
        if after < len(lasting) and bisect_left(starts, abort) == bisect_left(
            starts, lasting[after]
        ):
            return lasting[after]
    return 0


def _changed(same: list[SpentIntent]) -> int:
    """Return the line from which on rounds have more streams than there can be; 0 for none.

    A share of the noise has one stream.  One round may lack those of shares that did not arrive.
    Releases of one round may each have streams of their own.  Where silos take part by a schedule,
    each of them brings its streams, and finds them again in its next round.
    """
    noise = same[0].intent.noise
    releases = [release for spent in same for release in spent.releases]
    of_round: dict[int, Counter[str]] = {}
    for spent in same:
        most_of = max((len(release.streams) for _, release in spent.releases), default=0)
        phases = of_round.setdefault(spent.intent.round, Counter())
        phases[spent.intent.phase] = max(phases[spent.intent.phase], most_of)
    most = max((phases.total() for phases in of_round.values()), default=0)
    scheduled = [set(spent.intent.silos) for spent in same if spent.intent.silos is not None]
    if scheduled:
        # As many streams for each silo that is ever named as one of them has in a round.
        there = set[int]().union(*scheduled)
        most = -(-most // min(map(len, scheduled))) * max(len(there), noise.shares)
    # Shares that did not arrive in one round bring their streams in another.
    most += noise.tolerated_dropouts
    names: set[str] = set()
    for number, release in releases:
        names |= {stream_range.stream for stream_range in release.streams}
        if len(names) > most:
            return number
    return 0
