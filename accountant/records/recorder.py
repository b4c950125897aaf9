"""What the runtime asks of whoever keeps the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from .kinds import Record


class Recorder(Protocol):
    """Takes records in their order, and keeps what may only be seen by a trusted auditor apart."""

    def append(self, record: Record) -> int:
        """Return the sequence number of the record once it is safely kept.

        An intent, a release and a recovery are durable when this returns; if it raises, nothing
        may be drawn or released.
        """

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Keep items in the sealed sidecar; return a hiding commitment for each, by name."""

    def settle(self) -> None:
        """Return when all that was appended and sealed is safely kept."""
