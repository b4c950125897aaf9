"""A log in memory, and a look at what reaches whom."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from ...accountant import records
from ...accountant.errors import MissingParty
from ..aggregation.sums import Aggregator, Integers, Silo, Sum
from ..parties.network import Network, silo_name


class MemoryLog:
    """A recorder that keeps public records in memory, and nothing of what would be sealed."""

    def __init__(self) -> None:
        self.records: list[records.Record] = []

    def append(self, record: records.Record) -> int:
        """Keep a record; return its number."""
        self.records.append(record)
        return len(self.records) - 1

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Forget the items; a commitment to nothing stands in their place."""
        return dict.fromkeys(items, "0" * 64)

    def settle(self) -> None:
        """There is no disk."""


class RecordingAggregator:
    """An aggregator that adds nothing of its own and shows what the last round sent.

    `sent` holds each silo's integers, as it sent them: what a server sees in the clear, and what
    each silo knows of itself.  `sum` is what arrived.  Nothing before the noise passes here.  Silos
    in `missing` send nothing in any round.
    """

    def __init__(self, inner: Aggregator, *, missing: Collection[int] = ()) -> None:
        self._inner, self._missing = inner, frozenset(missing)
        self.sent: dict[int, Integers] = {}
        self.sum: Sum | None = None

    @property
    def security(self) -> records.Security | None:
        """Those of the aggregator that is watched."""
        return self._inner.security

    @property
    def network(self) -> Network | None:
        """That of the aggregator that is watched."""
        return self._inner.network

    def total(self, number: int, silos: Sequence[Silo], length: int) -> Sum:
        """Return the sum of what the silos make, as the aggregator that is watched does."""
        self.sent = {}
        own = [partial(self._keep, place, silo) for place, silo in enumerate(silos)]
        self.sum = self._inner.total(number, own, length)
        return self.sum

    def _keep(self, place: int, silo: Silo) -> Integers:
        if place in self._missing:
            raise MissingParty(f"{silo_name(place)} is missing from this rehearsal.")
        self.sent[place] = silo()
        return self.sent[place]
