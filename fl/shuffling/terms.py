"""What all parties of a shuffled round hold in common, what they say, and what comes out.

How the shuffler pads a round is here, too: both transports use it, so that under one seed the same
messages are kept and the same dummies are drawn, in blocks of a fixed size, as where a draw is cut
decides what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final, Literal

import numpy as np

from ...accountant import validate
from ...accountant.arrays import BoolArray, IntArray
from ...accountant.errors import InvalidInput, ProtocolFault
from ...accountant.mechanisms import Messages, ShuffledRound, Ticket
from ...accountant.randomness import Stream, grouped_order
from ..crypto.keys import framed
from ..crypto.sealed_box import BOX_BYTES
from ..parties.message_bodies import Body, Limits, room

SHUFFLER: Final = "shuffler"
ANALYZER: Final = "analyzer"

TAG_BYTES: Final = 16
_COORDINATE_BYTES: Final = 4


def client_name(number: int) -> str:
    """Return the name of the client of a unit, counted from 0."""
    return f"client-{number}"


@dataclass(frozen=True)
class Bundle(Body):
    """All messages of a client: which coordinate each is of (4 bytes), and a box for each."""

    kind: ClassVar[str] = "shuffle-bundle"
    places: bytes
    boxes: bytes


@dataclass(frozen=True)
class MixedBoxes(Body):
    """The boxes of one coordinate, in random order."""

    kind: ClassVar[str] = "shuffle-mixed"
    coordinate: int
    boxes: bytes


@dataclass(frozen=True)
class Terms:
    """How many clients send how much: `chosen` of `dimensions` coordinates, a message for each.

    A message is `width` integers of 64 bits.  `padded_to` is how many messages each coordinate has
    in the end, dummies among them; None where all clients send all coordinates, and as many as
    there are clients is enough.  `overflow` says what becomes of more: the round is given up
    (`refuse`), or as many as there is room for are kept, at random (`cap`).

    Range: all 1 or above, `chosen` at most `dimensions`, below 2^32.  Raises `InvalidInput`, also
    where coordinates are chosen and not padded: how many chose each would be seen; and for dummies
    of messages of several integers, whose blanket is that of one number no more.
    """

    clients: int
    dimensions: int = 1
    chosen: int = 1
    width: int = 1
    padded_to: int | None = None
    overflow: Literal["refuse", "cap"] = "refuse"

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("clients", "dimensions", "chosen", "width"):
            object.__setattr__(self, name, validate.count(**{name: getattr(self, name)}))
        validate.choice(("refuse", "cap"), overflow=self.overflow)
        if self.chosen > self.dimensions or self.dimensions >= 2**32:
            raise InvalidInput("`chosen` must be at most `dimensions`, and these below 2^32.")
        if self.padded_to is None:
            if self.chosen < self.dimensions:
                raise InvalidInput(
                    "Coordinates that are chosen must be padded.",
                    "How many clients chose each of them would be seen.",
                    "Give `padded_to`, and a mechanism whose dummies are drawn.",
                )
            return
        object.__setattr__(self, "padded_to", validate.count(padded_to=self.padded_to))
        if self.width > 1:
            raise InvalidInput(
                "Messages of several integers have no dummies.",
                "What all such messages have in common is not what each integer has.",
                "Send each coordinate as a message of its own, or leave `padded_to` out.",
            )
        if self.chosen == self.dimensions and self.count < self.clients:
            raise InvalidInput(
                f"`padded_to` must be {self.clients:,} or above: all send everything.",
                "Each coordinate has a message of every client, and none is left out.",
                f"Give `padded_to` = {self.clients} or more.",
            )

    @property
    def count(self) -> int:
        """How many messages each coordinate has in the end."""
        return self.clients if self.padded_to is None else self.padded_to

    @property
    def box(self) -> int:
        """Bytes of one box; all have the same."""
        return TAG_BYTES + _COORDINATE_BYTES + 8 * self.width + BOX_BYTES

    @cached_property
    def limits(self) -> Limits:
        """How long each message may be."""
        return {
            Bundle: room(_COORDINATE_BYTES * self.chosen, self.box * self.chosen),
            MixedBoxes: room(8, self.box * self.count),
        }

    def shuffled(self, colluders: int = 0) -> ShuffledRound:
        """Return how the messages are mixed, for the mechanism that states the event.

        `colluders` of the clients tell the analyzer all they know; they hide nobody, and take up
        places of the padding (`ShuffledRound.without`).  Raises `InvalidInput` for
        messages of several integers.
        """
        if self.width > 1:
            raise InvalidInput(
                "Messages of several integers, mixed as a whole, have no event of their own here.",
                "The shuffle bound is that of one number.",
                "State the local event of the mechanism.",
            )
        if self.chosen == self.dimensions:
            return ShuffledRound(self.clients).without(colluders)
        sizes = (self.clients, self.dimensions, self.chosen, self.padded_to)
        return ShuffledRound(*sizes, overflow=self.overflow).without(colluders)

    def tag(self, session: bytes, round: int, public: bytes) -> bytes:
        """Return what every message begins with: it belongs to this round, terms and receiver."""
        numbers = (round, self.clients, self.dimensions, self.chosen, self.width, self.count)
        parts = (session, public, self.overflow.encode(), *(str(n).encode() for n in numbers))
        return framed(b"privplan shuffled message", *parts)[:TAG_BYTES]

    def packed(self, tag: bytes, places: IntArray, messages: IntArray) -> list[bytes]:
        """Return the content of a box for each message: (m,) places, (m, width) integers."""
        content = np.empty((len(messages), self.box - BOX_BYTES), np.uint8)
        content[:, :TAG_BYTES] = np.frombuffer(tag, np.uint8)
        after = TAG_BYTES + _COORDINATE_BYTES
        content[:, TAG_BYTES:after] = places.astype("<u4")[:, None].view(np.uint8)
        content[:, after:] = np.ascontiguousarray(messages, "<i8").view(np.uint8)
        return [row.tobytes() for row in content]

    def unpacked(self, tag: bytes, contents: list[bytes]) -> tuple[IntArray, IntArray] | None:
        """Return the places and the integers of contents; None where one belongs elsewhere."""
        size = self.box - BOX_BYTES
        if any(len(content) != size or content[:TAG_BYTES] != tag for content in contents):
            return None
        table = np.frombuffer(b"".join(contents), np.uint8).reshape(-1, size)
        after = TAG_BYTES + _COORDINATE_BYTES
        places = np.ascontiguousarray(table[:, TAG_BYTES:after]).view("<u4")[:, 0]
        values = np.ascontiguousarray(table[:, after:]).view("<i8")
        return places.astype(np.int64), values.astype(np.int64)


@dataclass(frozen=True, eq=False)
class ReceivedMessages:
    """What the analyzer receives: `messages` (dimensions, count, width) of int64, no senders.

    Dummies are among them, and cannot be told from others.
    """

    messages: IntArray

    @property
    def sums(self) -> IntArray:
        """The sum of each coordinate: (dimensions, width), exact."""
        return np.asarray(self.messages.sum(axis=1, dtype=np.int64))

    def counts(self, categories: int) -> IntArray:
        """Return how often each of `categories` words was sent: (dimensions, categories).

        Raises `ProtocolFault` for a message that is no such word.
        """
        known = validate.count(categories=categories)
        words = self.messages.reshape(len(self.messages), -1)
        if words.size and not 0 <= words.min() <= words.max() < known:
            raise fault("A message is none of the words that may be sent.")
        table = np.zeros((len(words), known), np.int64)
        np.add.at(table, (np.arange(len(words))[:, None], words), 1)
        return table


def require_honest(terms: Terms, colluders: int) -> int:
    """Return how many clients collude; raises `InvalidInput` where fewer than two others are."""
    honest = terms.clients - validate.count_from(0, colluders=colluders)
    if honest < 2:
        raise InvalidInput(
            f"Of {terms.clients:,} clients {honest:,} tell the analyzer nothing.",
            "One message is not hidden among others that are known.",
            "Have more clients, or fewer that collude.",
        )
    return colluders


def summable(values: IntArray, count: int) -> bool:
    """Return whether no sum of `count` such values can wrap around."""
    largest = 2**62 // count
    return not values.size or bool(-largest <= values.min() <= values.max() <= largest)


def fault(what: str) -> ProtocolFault:
    """Return the error for what is against the protocol."""
    return ProtocolFault(
        what,
        "The messages can no longer be trusted, or no longer hide who sent them.",
        "Find out why, and begin again with new keys; the budget of the round is spent.",
    )


DUMMIES_STREAM: Final = "shuffler/dummies"
"""A stream of the shuffler; it stands in the release."""

BLOCK_MESSAGES: Final = 2**20
"""How many dummies are drawn at once: 8 MB of integers."""


def lacking(terms: Terms, places: IntArray) -> IntArray:
    """Return how many messages each coordinate lacks, (dimensions,); below 0 where too many came.

    Raises `ProtocolFault` for too many where these are refused.
    """
    missing = terms.count - np.bincount(places, minlength=terms.dimensions)
    if terms.overflow == "refuse" and (missing < 0).any():
        raise fault("A coordinate has more messages than it is padded to.")
    return np.asarray(missing, np.int64)


def kept_messages(stream: Stream, terms: Terms, places: IntArray, missing: IntArray) -> BoolArray:
    """Return which messages there is room for: of too many a uniform set, (messages,)."""
    kept = np.ones(len(places), bool)
    over_full = np.flatnonzero(missing[places] < 0)
    if not len(over_full):
        return kept
    order = grouped_order(stream, places[over_full])
    sorted_places = places[over_full][order]
    # The position of each message in the random order of its coordinate.
    ranks = np.arange(len(order)) - np.searchsorted(sorted_places, sorted_places)
    kept[over_full[order[ranks >= terms.count]]] = False
    return kept


def dummies_drawn(terms: Terms, needed: int) -> int:
    """Return how many dummies are drawn for so many that are needed.

    Where messages may be left out, as many as there could be: how many were needed does not show
    in what was drawn.
    """
    return terms.dimensions * terms.count if terms.overflow == "cap" else needed


def dummy_blocks(
    mechanism: Messages, ticket: Ticket, terms: Terms, needed: int
) -> Iterator[IntArray]:
    """Yield the dummies that are needed, block by block; all that could be needed are drawn."""
    drawn = dummies_drawn(terms, needed)
    for first in range(0, drawn, BLOCK_MESSAGES):
        part = mechanism.dummies(ticket, min(BLOCK_MESSAGES, drawn - first), DUMMIES_STREAM)
        yield part[: max(0, needed - first)]
