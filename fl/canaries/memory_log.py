"""A log in memory, and an aggregator that records what silos send."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from ...accountant import records
from ...accountant.arrays import IntArray
from ...accountant.errors import MissingParty
from ..aggregation.sums import Aggregator, Silo, Sum, indices
from ..parties.network import Network, silo_name


class MemoryLog:
    """A log that keeps its public records in memory, and discards what would be sealed."""

    def __init__(self) -> None:
        self.records: list[records.Record] = []

    def append(self, record: records.Record) -> int:
        """Keep a record; return its number."""
        self.records.append(record)
        return len(self.records) - 1

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Discard the items; return zeros in place of commitments."""
        return dict.fromkeys(items, "0" * 64)

    def settle(self) -> None:
        """Do nothing: there is no disk to write to."""


class RecordingAggregator:
    """An aggregator that passes everything on to another one, and records the last round.

    `sent` holds each silo's integers as it sent them, noise included: what a server sees in the
    clear, and what each silo knows of itself.  `sum` is their sum as it arrived.  Silos in
    `missing` send nothing in any round.  Where a round has several sums, `kept` has `sent` and what
    arrived of as many as are to `keep`, the latest one last.
    """

    def __init__(
        self,
        inner: Aggregator,
        *,
        missing: Collection[int] = (),
        keep: int = 0,
        network: Network | None = None,
    ) -> None:
        self._inner, self._missing, self._network = inner, frozenset(missing), network
        self.kept: deque[tuple[dict[int, IntArray], IntArray]] = deque(maxlen=keep)
        self.sent: dict[int, IntArray] = {}
        self.sum: Sum | None = None

    @property
    def security(self) -> records.Security | None:
        """The public parameters of the inner aggregator's protocol."""
        return self._inner.security

    @property
    def network(self) -> Network | None:
        """The network that was given, or else that of the inner aggregator."""
        return self._network or self._inner.network

    def total(
        self,
        number: int,
        silos: Sequence[Silo],
        length: int,
        *,
        present: Sequence[int] | None = None,
        largest: int | None = None,
    ) -> Sum:
        """Return the sum of what the silos send, as the inner aggregator adds it up."""
        self.sent = {}
        recorded = [
            partial(self._record, index, silo)
            for index, silo in zip(indices(present, len(silos)), silos, strict=True)
        ]
        self.sum = self._inner.total(number, recorded, length, present=present, largest=largest)
        self.kept.append((self.sent, self.sum.total))
        return self.sum

    def _record(self, index: int, silo: Silo) -> IntArray:
        if index in self._missing:
            raise MissingParty(f"{silo_name(index)} is missing from this rehearsal.")
        self.sent[index] = silo()
        return self.sent[index]
