"""What may become of messages in a shuffled round: of a client's, and of what is handed on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.fl.crypto.sealed_box import BOX_BYTES, BoxKey, sealed
from privplan.fl.parties.network import Message
from privplan.fl.shuffling import Terms
from privplan.fl.shuffling.terms import Bundle, MixedBoxes

Change = Callable[[Message], Iterable[Message]]

BOX = Terms(1).box
"""Bytes of a box with a message of one number."""

WRONG_ROUND = 2
"""The round in which something goes wrong; the one before is released."""


@dataclass
class Meddler:
    """Changes messages of one kind and sender, in round `WRONG_ROUND`; and remembers all others."""

    kind: str
    sender: str
    change: Change
    seen: list[Message] = field(default_factory=list)
    hits: int = 0

    def __call__(self, message: Message) -> Iterable[Message]:
        self.seen.append(message)
        if (message.round, message.kind, message.sender) != (WRONG_ROUND, self.kind, self.sender):
            return (message,)
        self.hits += 1
        return self.change(message)


def bundles(change: Change, sender: str = "client-1") -> Meddler:
    """Change what a client sends."""
    return Meddler(Bundle.kind, sender, change)


def raw(change: Callable[[bytes], bytes]) -> Meddler:
    """Change the bytes of what client-1 sends."""
    return bundles(lambda message: (replace(message, body=change(message.body)),))


def bundled(change: Callable[[Bundle], Bundle]) -> Meddler:
    """Change the body of what client-1 sends."""
    return bundles(
        lambda message: (replace(message, body=change(Bundle.unpack(message.body)).pack()),)
    )


def rows(change: Change) -> Meddler:
    """Change what the shuffler hands on, of all coordinates."""
    return Meddler(MixedBoxes.kind, "shuffler", change)


def mixed(change: Callable[[MixedBoxes], MixedBoxes], coordinate: int | None = 1) -> Meddler:
    """Change the body of what the shuffler hands on of a coordinate; of all, if None."""

    def changed(message: Message) -> tuple[Message, ...]:
        body = MixedBoxes.unpack(message.body)
        if coordinate not in (None, body.coordinate):
            return (message,)
        return (replace(message, body=change(body).pack()),)

    return rows(changed)


def coordinates(raw: bytes) -> list[int]:
    """Return the coordinates in a bundle."""
    return list(np.frombuffer(raw, "<u4").tolist())


def as_places(numbers: Iterable[int]) -> bytes:
    """Return coordinates as a bundle has them."""
    return np.array([*numbers], "<u4").tobytes()


def flipped(raw: bytes, at: int) -> bytes:
    """Return bytes of which one has another bit."""
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


def late() -> Meddler:
    """Let a second copy of a bundle arrive once the shuffler hands boxes on."""

    def change(message: Message) -> Iterable[Message]:
        first = meddler.hits == 1
        copies = [one for one in meddler.seen if one.sender == "client-1"]
        return (copies[-1], message) if first else (message,)

    meddler = rows(change)
    return meddler


def earlier(kind: str, sender: str) -> Meddler:
    """Send, in front of a message, the one of the round before."""

    def change(message: Message) -> Iterable[Message]:
        alike = [one for one in meddler.seen if (one.kind, one.sender) == (kind, sender)]
        return (next(one for one in alike if one.round == message.round - 1), message)

    meddler = Meddler(kind, sender, change)
    return meddler


def replayed() -> Meddler:
    """Put a box of the round before in place of another, as the shuffler could."""

    def change(body: MixedBoxes) -> MixedBoxes:
        said = [MixedBoxes.unpack(m.body) for m in meddler.seen if m.kind == MixedBoxes.kind]
        (old,) = [one for one in said if one.coordinate == body.coordinate][:1]
        return replace(body, boxes=old.boxes[:BOX] + body.boxes[BOX:])

    meddler = mixed(change)
    return meddler


def exchanged() -> Meddler:
    """Hand the boxes of coordinate 1 on as those of coordinate 2, and the other way round."""
    held: list[MixedBoxes] = []

    def change(message: Message) -> Iterable[Message]:
        body = MixedBoxes.unpack(message.body)
        if body.coordinate == 1:
            held.append(body)
            return ()
        if body.coordinate != 2:
            return (message,)
        swapped = (replace(body, coordinate=1), replace(held[0], coordinate=2))
        return [replace(message, body=one.pack()) for one in swapped]

    return rows(change)


def copied() -> Meddler:
    """Let client-2 send what client-1 has sent."""

    def change(message: Message) -> Iterable[Message]:
        (one,) = [one for one in meddler.seen if one.sender == "client-1"][-1:]
        return (replace(message, body=one.body),)

    meddler = bundles(change, "client-2")
    return meddler


def another(body: Bundle, dimensions: int = 31) -> bytes:
    """Return its places, the first of them exchanged for one that it does not have, or the next."""
    has = coordinates(body.places)
    other = [one for one in range(dimensions) if one not in has]
    return as_places([other[0], *has[1:]] if other else [has[1], has[0], *has[2:]])


# -- faults ----------------------------------------------------------------------------------------

MALFORMED = "client-1 to shuffler is not a well-formed 'shuffle-bundle'"
ELSEWHERE = "from client-1 to shuffler belongs to another session or round"
MISPLACED = "client-1 sent a coordinate that it may not send"
MISCOUNTED = "shuffler handed on another number of messages"

HANDED_ELSEWHERE = "from shuffler to analyzer belongs to another session or round"
OTHER_LENGTH = "client-1 sent boxes of another length"
OTHER_COORDINATE = "shuffler handed on a message that is of another coordinate"
SHUT = "box from the shuffler does not open"

Fault = tuple[Callable[[], Meddler], type[Exception], str]
Said = tuple[Callable[[], Meddler], str]


def faults(**named: Said) -> dict[str, Fault]:
    """Return faults of the protocol by their names, which have spaces in the place of `_`."""
    return {
        name.replace("_", " "): (meddler, ProtocolFault, said)
        for name, (meddler, said) in named.items()
    }


CLIENT: dict[str, Fault] = {
    "missing": (lambda: bundles(lambda _: ()), MissingParty, "client-1 did not send"),
    "under another name": (
        lambda: bundles(lambda m: (replace(m, sender="client-2"),)),
        MissingParty,
        "client-1 did not send",
    ),
    "under a name that nobody has": (
        lambda: bundles(lambda m: (replace(m, sender="client-99"),)),
        InvalidInput,
        "no party 'client-99'",
    ),
    **faults(
        twice=(lambda: bundles(lambda m: (m, m)), "from client-1 that nobody asked"),
        late=(late, "from client-1 that nobody asked for"),
        of_the_round_before=(lambda: earlier(Bundle.kind, "client-1"), ELSEWHERE),
        of_a_round_to_come=(
            lambda: bundles(lambda m: (replace(m, round=m.round + 1),)),
            ELSEWHERE,
        ),
        of_another_session=(
            lambda: bundles(lambda m: (replace(m, session=bytes(16)),)),
            ELSEWHERE,
        ),
        of_another_kind=(
            lambda: bundles(lambda m: (replace(m, kind=MixedBoxes.kind),)),
            "from client-1 to shuffler is not 'shuffle-bundle'",
        ),
        that_of_another=(copied, "sent twice, by client-1 and by client-2"),
        empty=(lambda: raw(lambda _: b""), MALFORMED),
        cut_off=(lambda: raw(lambda b: b[:-1]), MALFORMED),
        run_on=(lambda: raw(lambda b: b + b"\0"), MALFORMED),
        oversized=(lambda: raw(lambda b: b + bytes(10**6)), "client-1 to shuffler is longer than"),
        a_message_too_few=(
            lambda: bundled(lambda b: Bundle(b.places[:-4], b.boxes[:-BOX])),
            "client-1 did not send",
        ),
        a_message_too_many=(
            lambda: bundled(lambda b: Bundle(b.places + b.places[:4], b.boxes + b.boxes[:BOX])),
            "client-1 to shuffler is longer than",
        ),
        a_coordinate_without_a_box=(
            lambda: bundled(lambda b: replace(b, boxes=b.boxes[:-BOX])),
            OTHER_LENGTH,
        ),
        a_box_that_is_too_short=(
            lambda: bundled(lambda b: replace(b, boxes=b.boxes[:-1])),
            OTHER_LENGTH,
        ),
        a_coordinate_twice=(
            lambda: bundled(lambda b: replace(b, places=b.places[:4] + b.places[:-4])),
            MISPLACED,
        ),
        a_coordinate_out_of_range=(
            lambda: bundled(lambda b: replace(b, places=b.places[:-4] + as_places([31]))),
            MISPLACED,
        ),
        a_coordinate_far_out_of_range=(
            lambda: bundled(lambda b: replace(b, places=b.places[:-4] + as_places([2**32 - 1]))),
            MISPLACED,
        ),
        another_coordinate_than_in_the_box=(
            lambda: bundled(lambda b: replace(b, places=another(b))),
            OTHER_COORDINATE,
        ),
        a_box_twice=(
            lambda: bundled(lambda b: replace(b, boxes=b.boxes[:BOX] + b.boxes[:-BOX])),
            "same box was sent twice, by client-1",
        ),
        a_box_that_does_not_open=(
            lambda: bundled(lambda b: replace(b, boxes=flipped(b.boxes, BOX - 1))),
            SHUT,
        ),
        a_box_for_somebody_else=(
            lambda: bundled(
                lambda b: replace(
                    b, boxes=sealed(BoxKey().public, [bytes(BOX - BOX_BYTES)]) + b.boxes[BOX:]
                )
            ),
            SHUT,
        ),
    ),
}
"""What a client sends, what is raised, and what is said of it."""

SHUFFLER: dict[str, Fault] = {
    "nothing": (lambda: rows(lambda _: ()), MissingParty, "shuffler did not send"),
    **faults(
        a_coordinate_is_missing=(
            lambda: rows(lambda m: () if MixedBoxes.unpack(m.body).coordinate == 1 else (m,)),
            MISCOUNTED,
        ),
        everything_twice=(lambda: rows(lambda m: (m, m)), "shuffler handed on another"),
        the_round_before=(lambda: earlier(MixedBoxes.kind, "shuffler"), HANDED_ELSEWHERE),
        of_another_round=(
            lambda: rows(lambda m: (replace(m, round=m.round + 1),)),
            HANDED_ELSEWHERE,
        ),
        malformed=(
            lambda: rows(lambda m: (replace(m, body=m.body[:-1]),)),
            "shuffler to analyzer is not a well-formed 'shuffle-mixed'",
        ),
        oversized=(
            lambda: mixed(lambda b: replace(b, boxes=b.boxes + bytes(BOX))),
            "shuffler to analyzer is longer than",
        ),
        a_message_dropped=(lambda: mixed(lambda b: replace(b, boxes=b.boxes[BOX:])), MISCOUNTED),
        a_message_repeated=(
            lambda: mixed(lambda b: replace(b, boxes=b.boxes[:BOX] + b.boxes[:-BOX])),
            "shuffler handed the same box on twice",
        ),
        a_dummy_of_no_use=(
            lambda: mixed(lambda b: replace(b, boxes=b.boxes[:-BOX] + bytes(BOX))),
            SHUT,
        ),
        under_the_wrong_coordinate=(lambda: mixed(lambda b: replace(b, coordinate=0)), MISCOUNTED),
        under_no_coordinate=(lambda: mixed(lambda b: replace(b, coordinate=-1)), MISCOUNTED),
        coordinates_exchanged=(exchanged, OTHER_COORDINATE),
        a_message_of_the_round_before=(
            replayed,
            "shuffler handed on a message that belongs to another round",
        ),
    ),
    "padded too little, everywhere": (
        lambda: mixed(lambda b: replace(b, boxes=b.boxes[:-BOX]), None),
        ProtocolFault,
        MISCOUNTED,
    ),
}
"""What the shuffler hands on, likewise."""
