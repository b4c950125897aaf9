"""What nodes and the server compute in one round of each published algorithm, in seconds.

    python bench/fedpower_parties.py

20 nodes and a release of 294 x 10 numbers, as of the ratings, with masks and a Paillier key of
3,072 bits: everything that a run does, in one process.  Calls of each party's code are timed, so
waiting and the network are not in it.  With 100 nodes it takes minutes: a node's encryption costs
the same, and its masks and the server's work grow with the nodes.  The paper's table has other
hardware, so ratios are what can be compared.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
from fedpower_systems import dealt, settings
from rich.console import Console
from verdicts import grid, progress, seconds

from privplan.accountant.mechanisms import Gate, NoisyProduct
from privplan.accountant.mechanisms.product_rows import ProductRows
from privplan.accountant.randomness import Streams
from privplan.fl.canaries.memory_log import MemoryLog
from privplan.fl.fedpower import power
from privplan.fl.fedpower.noise_removal.node import Node
from privplan.fl.fedpower.noise_removal.server import Server as RemovalServer
from privplan.fl.frame.rounds import simulated_rounds
from privplan.fl.frame.system import build
from privplan.fl.secagg.client import Client
from privplan.fl.secagg.server import Server
from privplan.fl.training.local_training import NoTraining

NODES, ROWS, COLUMNS, RANK, ROUNDS = 20, 236, 294, 10, 2

TIMED: dict[str, tuple[tuple[type, tuple[str, ...]], ...]] = {
    "nodes": (
        (ProductRows, ("total",)),
        (NoisyProduct, ("share_steps",)),
        (Client, ("advertise", "share", "mask", "confirm", "recover")),
        (Node, ("begin", "blind", "answer")),
    ),
    "server": (
        (NoisyProduct, ("extra_steps",)),
        (
            Server,
            (
                *("begin", "collect_keys", "relay_shares", "add"),
                *("name_survivors", "relay_confirmations", "unmask"),
            ),
        ),
        (RemovalServer, ("begin", "select", "total")),
    ),
}
"""Whose methods count for which party."""


class Clock:
    """Seconds by party; of nested calls only the outermost counts."""

    def __init__(self) -> None:
        self.seconds = {"nodes": 0.0, "server": 0.0}
        self._inside = False

    def timed(self, party: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call, timed for a party."""

        @functools.wraps(call)
        def outer(*given: Any, **named: Any) -> Any:
            if self._inside:
                return call(*given, **named)
            self._inside, start = True, time.perf_counter()
            try:
                return call(*given, **named)
            finally:
                self._inside = False
                self.seconds[party] += time.perf_counter() - start

        return outer

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time all methods of the table within."""
        with ExitStack() as stack:
            for party, owners in TIMED.items():
                for owner, names in owners:
                    for name in names:
                        wrapped = self.timed(party, getattr(owner, name))
                        stack.enter_context(mock.patch.object(owner, name, wrapped))
            iterate = self.timed("server", power.next_iterate)
            stack.enter_context(mock.patch.object(power, "next_iterate", iterate))
            yield


def parties(system: str) -> dict[str, float]:
    """Return the seconds of one node and of the server in the second of two rounds."""
    progress(f"parties of {system}")
    rows = np.random.default_rng(1).integers(0, 6, (ROWS, COLUMNS)).astype(np.float64)
    federation = dealt(rows, NODES)
    chosen = settings(
        system,
        federation,
        privacy={"noise_multiplier": 5.0},
        fedpower={
            "rank": RANK,
            "row_norm": 100.0,
            "most_rows": 10 * ROWS,
            "divide_by_rows": True,
            "as_published": True,
        },
        rounds=ROUNDS,
    )
    made = build(chosen, federation, NoTraining(), Streams.seeded(1))
    clock = Clock()
    with clock.running():
        before = dict(clock.seconds)
        for number, _, _ in simulated_rounds(made, Gate(None, MemoryLog(), Streams.seeded(2))):
            if number < ROUNDS:  # keys and tables are made in the first round
                before = dict(clock.seconds)
    spent = {party: clock.seconds[party] - before[party] for party in before}
    return {"node": spent["nodes"] / NODES, "server": spent["server"]}


def show(console: Console) -> None:
    """Print the table."""
    systems = ("fedpower-original", "fedpower-utility", "fedpower-private")
    found = {system: parties(system) for system in systems}
    first = found[systems[0]]
    table = grid(
        f"One round, {NODES} nodes, {COLUMNS} x {RANK} numbers",
        *("<system", "a node", "to Algorithm 1", "server", "to Algorithm 1"),
    )
    for system, spent in found.items():
        cells = []
        for party in ("node", "server"):
            cells += [seconds(spent[party]), f"{spent[party] / first[party]:.3g}"]
        table.add_row(system, *cells)
    console.print(table)


if __name__ == "__main__":
    show(Console(width=120))
