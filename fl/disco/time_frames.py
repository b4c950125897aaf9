"""Time frames: in which rounds each peer takes part, by a schedule that all know beforehand.

Peers may join and leave between rounds.  What a peer holds is in the rounds of its frame and in no
others, so these are the rounds that its guarantee counts; noise is made for the smallest group that
a round of the run has.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Final

from ...accountant.errors import InvalidInput
from ..secagg.peers import MIN_PEERS

SMALL_GROUP: Final = "In a small group the sum says much about each."
"""Why a round has so many peers or more."""

_FRAME: Final = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")


def frame_list(**field: object) -> tuple[str, ...]:
    """Return the frame of each peer, as "first-last"; raise `InvalidInput` for anything else.

    An empty list means that all peers take part in all rounds.
    """
    ((name, value),) = field.items()
    frames = value if isinstance(value, (list, tuple)) else ()
    matches = [_FRAME.fullmatch(frame) for frame in frames if isinstance(frame, str)]
    if len(matches) != len(frames) or None in matches or not isinstance(value, (list, tuple)):
        raise InvalidInput(
            f"`{name}` must be a list of the first and the last round of each peer.",
            "In these rounds a peer takes part, and in no others.",
            f'Write {name} = ["1-20", "1-10", "11-20"], for three peers and 20 rounds.',
        )
    for first, last in map(_rounds_of, frames):
        if last < first:
            raise InvalidInput(
                f"`{name}` has a frame from round {first} to round {last}.",
                "A frame ends after it begins.",
                "Write the first round before the last.",
            )
    return tuple(frames)


def _rounds_of(frame: str) -> tuple[int, int]:
    first, last = frame.split("-")
    return int(first), int(last)


@dataclass(frozen=True)
class Schedule:
    """Who takes part in which of `rounds` rounds; without `frames` all `peers` in all of them.

    Raises `InvalidInput` where the frames are not one for each peer, go beyond the rounds, or leave
    a round with fewer than `fewest` peers.
    """

    frames: tuple[str, ...]
    peers: int
    rounds: int
    fewest: int

    def __post_init__(self) -> None:
        """Check the frames against peers and rounds."""
        if not self.frames:
            return
        if len(self.frames) != self.peers:
            raise InvalidInput(
                f"There are {self.peers} peers, and `time_frames` has {len(self.frames)}.",
                "Each peer has a frame of its own.",
                "Give one for each, in the order of the silos.",
            )
        if max(last for _, last in self._pairs) > self.rounds:
            raise InvalidInput(
                f"`time_frames` goes beyond the {self.rounds} rounds of the run.",
                "A round that is not made counts for nobody.",
                "Give frames within the rounds.",
            )
        for number, there in self._sizes:
            if there < self.fewest:
                lower = ", or lower `min_participants`" if there >= MIN_PEERS else ""
                raise InvalidInput(
                    f"In round {number} {there} peers take part; at least {self.fewest} must.",
                    SMALL_GROUP,
                    f"Have more peers stay in `time_frames`{lower}.",
                )

    def members(self, number: int) -> tuple[int, ...]:
        """Return the indices of the peers of round `number`, from 1."""
        if not self.frames:
            return tuple(range(self.peers))
        return tuple(
            peer for peer, (first, last) in enumerate(self._pairs) if first <= number <= last
        )

    def stated(self, number: int) -> tuple[int, ...] | None:
        """Return what the log states of a round: its peers, or None where all take part in all."""
        return None if not self.frames else self.members(number)

    @property
    def smallest(self) -> int:
        """The size of the smallest group of a round."""
        if not self.frames:
            return self.peers
        return min(there for _, there in self._sizes)

    @property
    def most_rounds(self) -> int | None:
        """The most rounds of one peer; None where all take part in all."""
        if not self.frames:
            return None
        return max(last - first + 1 for first, last in self._pairs)

    @cached_property
    def _sizes(self) -> tuple[tuple[int, int], ...]:
        """How many peers take part from which round on, in order: the size of each stretch."""
        changes = Counter({1: 0})
        for first, last in self._pairs:
            changes[first] += 1
            changes[last + 1] -= 1
        starts = sorted(start for start in changes if start <= self.rounds)
        return tuple(zip(starts, accumulate(changes[start] for start in starts), strict=True))

    @cached_property
    def _pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple(map(_rounds_of, self.frames))
