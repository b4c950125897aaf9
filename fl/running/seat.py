"""The seat of one party in a run that several make together, each in a process of its own.

The life cycle of a run is the same at every party: its gate, its intents before any noise, its log,
its checkpoint.  What differs is said by the party's seat: whose records are here, how many shares
of the noise are drawn here, who adds up what the silos send, and when a round may begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...accountant.records import Party
    from ..data.federation import Federation
    from ..frame.system import System
    from ..settings.schema import Settings
    from .checkpoint import Checkpoint


class Seat(Protocol):
    """One party among others; it is a silo, or the server."""

    @property
    def party(self) -> Party:
        """Whose log it is, as the first line states it."""

    @property
    def drawn_here(self) -> int:
        """How many shares of the noise of each sum this party draws: 1 at a silo, else 0."""

    def federation(self, settings: Settings) -> tuple[Federation, dict[str, str]]:
        """Return the federation in which only this party's records are, and their digests.

        Raises `InvalidInput` for data that cannot be read.
        """

    def connect(self, system: System) -> None:
        """Have what the silos send added up between the parties."""

    def turn(self, number: int, kept: Checkpoint) -> Checkpoint:
        """Return, once round `number` may begin, what it starts from; else wait, or raise.

        `kept` is what this party has kept of the last round that it released.  Where it missed the
        end of a later one, the result is what the others released then.  Raises `MissingParty`
        where the run does not go on.
        """
