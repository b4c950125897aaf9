"""A recorder that keeps the records of a release in memory, where nobody has given another."""

from __future__ import annotations

from collections.abc import Mapping

from ...accountant import records
from ...accountant.errors import Unsupported


class MemoryRecords:
    """Records in their order (`lines`); nothing can be sealed."""

    def __init__(self) -> None:
        self.lines: list[records.Record] = []

    def append(self, record: records.Record) -> int:
        """Keep a record, and return its place."""
        self.lines.append(record)
        return len(self.lines) - 1

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Raise `Unsupported`: there is no sidecar."""
        raise Unsupported(
            "Nothing is sealed without a sidecar.",
            f"{len(items)} items would be lost.",
            "Give a `recorder`.",
        )

    def settle(self) -> None:
        """Do nothing: all is kept."""
