"""What a round of messages costs, before anything runs, and when it is refused."""

from __future__ import annotations

from typing import Final

from ...accountant.errors import counted
from ..frame.opening import Note

MOST_SEALED: Final = 1_000_000
"""The most messages of a round, dummies too, that are sealed."""

MOST_DRAWN: Final = 10_000_000_000
"""The most messages of a round, dummies too, that are drawn where none is sealed."""

_DRAWING_MICROSECONDS: Final = 0.1
"""Processor time to draw one message and to add it to a sum, about, as measured."""

_MICROSECONDS: Final = 86 + 42
"""Processor time to lock and to open one message, as measured."""


def sealed_messages(users: int, sent: int, dimensions: int, padded_to: int | None) -> int:
    """Return about how many messages a round seals, dummies among them.

    n users send `sent` each; d coordinates have n_p each in the end:  max(n sent, d n_p).  Where a
    coordinate has more than n_p, and messages are left out, a few more are sealed.
    """
    return max(users * sent, dimensions * (users if padded_to is None else padded_to))


def processor_seconds(messages: int) -> float:
    """Return about how much processor time so many ciphertexts take, all parties together.

    >>> round(processor_seconds(216_450))
    28
    """
    return messages * _MICROSECONDS * 1e-6


def sealing_note(messages: int, rounds: int) -> Note:
    """Return what a person should know of the time that so many ciphertexts a round take.

    >>> sealing_note(216_450, 5).sentences[0]
    '216,450 ciphertexts a round: about 139 seconds of processor time in 5 rounds.'
    """
    seconds = rounds * processor_seconds(messages)
    return Note(
        "sealed",
        (
            f"{messages:,} ciphertexts a round: about {seconds:,.0f} seconds of processor time in "
            f"{counted(rounds, 'round')}.",
        ),
        {"messages": float(messages), "seconds": seconds},
    )


def too_many(messages: int) -> tuple[str, str]:
    """Return why so many messages are not sealed, and what to do."""
    return (
        f"Each needs a ciphertext of its own: about {processor_seconds(messages):,.0f} seconds of "
        f"processor time a round, and at most {MOST_SEALED:,} messages are sealed.",
        'Write transport = "ideal" under [flame], which supposes a shuffler that cannot read; or '
        "have a smaller model, fewer users or a smaller `padded_to`.",
    )


def too_many_drawn(messages: int) -> tuple[str, str]:
    """Return why so many messages are not drawn, and what to do."""
    seconds = messages * _DRAWING_MICROSECONDS * 1e-6
    return (
        f"Each is drawn: about {seconds:,.0f} seconds of processor time a round, and at most "
        f"{MOST_DRAWN:,} messages are.",
        "Give a smaller `padded_to` under [flame], or have a smaller model or fewer users.",
    )
