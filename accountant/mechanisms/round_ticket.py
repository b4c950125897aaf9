"""The right to draw what one intent states, and the line in the log that says it was done.

A ticket counts what its round draws against what the intent announced.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias

from .. import records, validate
from ..errors import InvalidInput, MissingParty, PrivplanError, Unsupported
from ..randomness import Stream
from ..records import release_binding


class DrawCounter:
    """The noisy sums of one round: each whole, or share by share; no more than announced.

    `part` names one of several disjoint sets of units, each with a count of its own: no unit is in
    two of them, so none sees another's sums.  `drawn_here` is how many shares of each sum this
    party draws by itself, where others draw the rest elsewhere; None: all of them.
    """

    def __init__(self, noise: records.Noise, drawn_here: int | None = None) -> None:
        self._noise = noise
        self._drawn_here = drawn_here
        self._complete = noise.shares if drawn_here is None else drawn_here
        self._min_shares = noise.shares - noise.tolerated_dropouts
        self._finished: dict[str, list[int]] = {}  # the shares of each sum
        self._unfinished: dict[str, set[str]] = {}  # whose shares an unfinished sum has so far

    def whole(self, shares: int | None, part: str, sums: int = 1) -> None:
        """Count sums with so many shares (all, if None)."""
        if self._drawn_here is not None:
            raise Unsupported(
                "A sum whose shares are drawn by several parties is not drawn whole by one.",
                "Its noise would be counted here, and again where the others draw theirs.",
                "Draw the share of this party alone.",
            )
        drawn_shares = self._noise.shares if shares is None else shares
        if not self._min_shares <= drawn_shares <= self._noise.shares:
            raise self._lacking(drawn_shares)
        self._begin(part, sums)
        self._finished.setdefault(part, []).extend([drawn_shares] * sums)

    def check_share(self, part: str, name: str) -> None:
        """Refuse what `share` may not count."""
        if self._noise.draws > 1 and self._noise.tolerated_dropouts:
            raise Unsupported(
                "Shares of several sums are not counted where some may be missing.",
                "Nothing would show which sum has too few of them.",
                "Draw each sum whole, or let each be a round of its own.",
            )
        if not self._complete:
            raise _drawn_elsewhere()
        if part not in self._unfinished:
            self._begin(part)
        elif name in self._unfinished[part]:
            raise InvalidInput(
                "A party has drawn its share of this sum already.",
                "Two shares of one party do not stand for the noise of two.",
                "Give every share a stream of its own, and draw it once.",
            )

    def share(self, part: str, name: str) -> None:
        """Count one share of a sum, that of the party `name`, which has no other in it."""
        self.check_share(part, name)
        parties = self._unfinished.setdefault(part, set())
        parties.add(name)
        if len(parties) == self._complete:
            self._finished.setdefault(part, []).append(len(self._unfinished.pop(part)))

    def done(self, arrived: int | None = None) -> tuple[int, int]:
        """Return the number of sums, and the fewest shares of one; refuse what lacks noise.

        `arrived` says of how many shares they were in the end, of those that were drawn.
        """
        if self._drawn_here is not None:
            return self._done_with_others(arrived)
        for parties in self._unfinished.values():
            if len(parties) < self._min_shares:
                raise self._lacking(len(parties))
        if not self._finished and not self._unfinished:
            if self._noise.family == "none" and not arrived:
                return 0, 0
            raise Unsupported(
                "No noise was drawn in this round.",
                "Its intent announces noise, so what it computed must not be released.",
                "Draw through a mechanism before closing.",
            )
        sums = {part: list(drawn_shares) for part, drawn_shares in self._finished.items()}
        for part, parties in self._unfinished.items():
            sums.setdefault(part, []).append(len(parties))
        fewest_drawn = min(min(drawn_shares) for drawn_shares in sums.values())
        fewest = fewest_drawn if arrived is None else arrived
        if fewest > fewest_drawn:
            raise InvalidInput(f"`shares` is {fewest}, but sums of {fewest_drawn} were drawn.")
        if fewest < self._min_shares:
            raise self._lacking(fewest)
        return max(map(len, sums.values())), fewest

    def _done_with_others(self, arrived: int | None) -> tuple[int, int]:
        """Return the number of sums, and of how many shares they were, of which few are drawn here.

        What the others drew stands in their logs; how many shares arrived, the protocol says.
        """
        if self._noise.family == "none" and not self._finished:
            return 0, 0
        lacking = self._complete and (self._unfinished or not self._finished)
        if lacking or arrived is None:
            raise Unsupported(
                "The noise of this party is not in the sum, or nobody says how many shares are.",
                "What lacks shares of its noise must not be released.",
                "Draw the share of this party, and give `shares`: how many arrived.",
            )
        if not self._min_shares <= arrived <= self._noise.shares:
            raise self._lacking(arrived)
        sums = max(map(len, self._finished.values())) if self._complete else self._noise.draws
        return sums, arrived

    def _begin(self, part: str, sums: int = 1) -> None:
        """Check that one more sum, or several, may be drawn."""
        counted = len(self._finished.get(part, [])) + (part in self._unfinished)
        more = counted + sums - self._noise.draws
        if more > 0:
            raise Unsupported(
                f"The intent announces {self._noise.draws} draws; this is {_word(more)} more.",
                "Every noisy sum is paid for before it is drawn.",
                "State all draws of the round in its intent.",
            )

    def _lacking(self, shares: int) -> Unsupported:
        return Unsupported(
            f"The intent announces {self._noise.shares} noise shares; a sum has {shares}.",
            f"Its promise needs at least {self._min_shares} of them, and no more are announced.",
            "Abort the round, or announce how many may be missing.",
        )


def _drawn_elsewhere() -> Unsupported:
    return Unsupported(
        "This party draws no noise: the shares of every sum are drawn elsewhere.",
        "Noise that it added would be counted where nobody expects it.",
        "Draw where the data are.",
    )


def _word(count: int) -> str:
    return "one" if count == 1 else str(count)


AbortReason: TypeAlias = Literal["error", "interrupted", "missing-party", "refused"]


class TicketIssuer(Protocol):
    """What a ticket needs of the gate that hands it out: streams, the log, and a check of both."""

    run_id: str
    drawn_here: int | None

    def check(self) -> None:
        """Raise where the log has failed before."""

    def lend(self, name: str, ticket: Ticket) -> Stream:
        """Return the stream of a name, to one ticket at a time."""

    def take_back(self, names: set[str]) -> None:
        """Free the streams of a ticket that is done."""

    def append(self, record: records.Record) -> int:
        """Record, and return the sequence number; if it fails, nothing more may be drawn."""

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Keep items in the sealed sidecar, and return their commitments by name."""


class Ticket:
    """The right to draw what one intent states; a context manager that `Gate.open` hands out.

    `seq` is the sequence number of the intent.  Leaving without `close` is recorded as an abort,
    and is an error in itself where there was none; what was spent stays spent.
    """

    def __init__(self, gate: TicketIssuer, seq: int, intent: records.RoundIntent) -> None:
        self.seq = seq
        self.intent = intent
        self.admitted: object = None  # the mechanism that was found to be the intent's
        self._gate = gate
        self._lock = threading.RLock()
        self._closed = False
        self._streams: dict[str, tuple[Stream, int]] = {}
        self._draws = DrawCounter(intent.noise, gate.drawn_here)

    def __enter__(self) -> Self:
        self.check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._closed:
            return
        if kind is None or error is None:
            self.abort("error")
            raise PrivplanError(
                "The round ended without a release in the log, so it counts as aborted.",
                "What does not stand in the log must not be handed on.",
                "Call `close` before leaving.",
            )
        try:
            self.abort(reason_of(error))
        except Exception:  # the log has failed: the intent dangles, which counts as spent
            error.add_note("The abort of the round could not be recorded; it counts as spent.")

    def check(self) -> None:
        """Raise where nothing may be drawn any more: this round is over, or its log failed."""
        if self._closed:
            raise PrivplanError(
                "This round is over.",
                "Its line in the log says what was drawn, and no more may be.",
                "Open another round.",
            )
        self._gate.check()

    def stream(self, name: str) -> Stream:
        """Return a stream of the run; what is drawn from it will stand in the release.

        It gives no more bytes once the round is over.
        """
        with self._lock:
            self.check()
            if name not in self._streams:
                stream = self._gate.lend(name, self)
                self._streams[name] = (stream, stream.position)
            return self._streams[name][0]

    def draw(self, shares: int | None = None, part: str = "", sums: int = 1) -> None:
        """Count one noisy sum, of `shares` noise shares (all, if None); call it before drawing.

        `part` names one of several disjoint sets of units, each with a count of its own: no unit
        is in two of them.  `sums` counts several at once.  Raises `Unsupported` for more sums than
        the intent announces, or with fewer shares than its promise needs.
        """
        with self._lock:
            self.check()
            self._draws.whole(shares, part, validate.count(sums=sums))

    def draw_share(self, name: str, part: str = "") -> Stream:
        """Count one share of a noisy sum, and return the stream `name`, to draw it from.

        For a sum that is drawn share by share, of which a stream gives one; otherwise like `draw`.
        """
        with self._lock:
            self.check()
            self._draws.check_share(part, name)
            stream = self.stream(name)  # where it is not to be had, nothing is counted
            self._draws.share(part, name)
            return stream

    def close(
        self,
        *,
        normaliser: records.Normaliser | None = None,
        aggregate: bytes | None = None,
        model_out: str | None = None,
        state_out: str | None = None,
        sealed: Mapping[str, object] | None = None,
        values: int = 1,
        shares: int | None = None,
        clip_enforced: bool = True,
    ) -> int:
        """Record the release and return its sequence number; only then hand the result on.

        `aggregate` is the noisy sum, of which the log keeps the SHA-256; `model_out` and
        `state_out` are digests of what follows from released values; `sealed` goes to the sidecar,
        and its commitments to the log.  The number of sums is counted, and so are the shares of
        their noise; `shares` is given where not all of them arrived.  Raises
        `Unsupported` where a sum was announced and its noise was not drawn, or arrived in fewer
        shares than its promise needs, and whatever the recorder raises: then the round has no
        release.
        """
        with self._lock:
            self.check()
            # Refused before the release is recorded: sums that lack shares of their noise.
            arrived = None if shares is None else validate.count_from(0, shares=shares)
            draws, fewest = self._draws.done(arrived)
            digest = None if aggregate is None else hashlib.sha256(aggregate).hexdigest()
            release = records.RoundRelease(
                round=self.intent.round,
                intent=self.seq,
                streams=tuple(stream.range_since(at) for stream, at in self._streams.values()),
                shares=fewest,
                draws=draws,
                values=validate.count(values=values),
                clip_enforced=clip_enforced,
                normaliser=normaliser,
                aggregate=digest,
                model_out=model_out,
                sealed=self._sealed(sealed, digest) if sealed else {},
                state_out=state_out,
                drawn_here=self._gate.drawn_here,
            )
            return self._end(release)

    def abort(self, reason: AbortReason = "error") -> int:
        """End the round without a release, and record that; the budget stays spent."""
        with self._lock:
            self.check()
            return self._end(records.RoundAbort(self.intent.round, self.seq, reason))

    def _sealed(self, items: Mapping[str, object], aggregate: str | None) -> Mapping[str, str]:
        """Keep items in the sidecar; those that are objects say of which release they are."""
        run_id = self._gate.run_id
        if run_id:
            items = release_binding.bound(items, run_id, self.seq, aggregate)
        return self._gate.seal(items)

    def _end(self, record: records.Record) -> int:
        """Close the ticket, then record how it ended."""
        # First nothing more can be drawn: if the log fails, the intent dangles and counts as spent.
        self._closed = True
        self._gate.take_back(set(self._streams))
        return self._gate.append(record)


def reason_of(error: BaseException) -> AbortReason:
    """Return how the log names what ended a round."""
    if isinstance(error, MissingParty):
        return "missing-party"
    return "error" if isinstance(error, Exception) else "interrupted"
