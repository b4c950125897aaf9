"""Rounds of a system without a folder: a log in memory, and a look at what reaches whom."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from ...accountant import records
from ...accountant.errors import MissingParty
from ...accountant.mechanisms import Gate
from ...accountant.odometer import Odometer
from ...accountant.randomness import Streams
from ...fl.aggregation import Aggregator, Integers, Silo, Sum
from ...fl.frame.rounds import model_phases, rehearsed_rounds
from ...fl.parties import Network, silo_name
from ...fl.system import Parameters, System

Each: TypeAlias = Callable[[int, Parameters, Parameters], None]
"""Called after a release with its round, the model before it and the model after it."""


class Memory:
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


class Watching:
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


def conduct(system: System, streams: Streams, *, rounds: int | None = None, each: Each) -> Memory:
    """Make the rounds of a system (those of its plan, or fewer), and return the log of them.

    The gate, the odometer and the order of things are those of a run; there is no folder, and the
    log is in memory.  Raises what the system raises.
    """
    plan, opening, log = system.plan(), system.opening(), Memory()
    promises = not opening.as_published and opening.claim.epsilon is not None
    gate = Gate(Odometer.for_plan(plan) if promises else None, log, streams)
    with np.errstate(all="ignore"):
        for number, model, moved in rehearsed_rounds(system, gate, most=rounds):
            each(number, model, moved.parameters)
    return log


def made(system: System, rounds: int | None) -> int:
    """Return how many models are made: those planned, or `rounds` if that is fewer."""
    planned = sum(phase.plan.rounds for phase in model_phases(system))
    return planned if rounds is None else min(rounds, planned)
