"""How far an interrupted run had come, as its log tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .kinds import RoundIntent, RoundRelease, RunOpen


@dataclass(frozen=True)
class Progress:
    """What a run that goes on must know: everything spent, and the last model released.

    `intents` are all intents by sequence number, released or not: each is spent.  `releases` are
    the releases by the sequence number of their intent.  `recoveries` counts how often the run was
    resumed before.

    A round may have several intents: one that was cut off between them has spent those that stand
    here, and the next start goes on behind it.
    """

    opened: RunOpen
    intents: Mapping[int, RoundIntent]
    releases: Mapping[int, RoundRelease]
    recoveries: int

    @property
    def last_round(self) -> int:
        """The last round that was begun, with however many of its intents; 0 before the first."""
        return max((intent.round for intent in self.intents.values()), default=0)

    @property
    def dangling(self) -> tuple[int, ...]:
        """Intents without a release; they count as spent."""
        # Noise may have been drawn for them, and something may have been sent.
        return tuple(sorted(set(self.intents) - set(self.releases)))
