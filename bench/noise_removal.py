"""Noise removal: a whole synchronisation of FedPower's utility-enhanced algorithm."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds

if TYPE_CHECKING:
    from privplan.fl.fedpower.noise_removal.driver import NoiseRemoval

KEY_BITS, PROCESSES = 3072, 2
NODES, FEW_NODES = 100, 10
VALUES = 500 * 10
LARGEST = 2**26
"""Bound on one share: 40 deviations of 1.7 million steps."""

MAX_SECONDS = 60.0
"""Wall seconds that a synchronisation may take on two idle cores."""

PLAIN_POWERS = 10
"""Powers that gmpy2's powmod is measured on."""

NOTE = """\
Keys of 3072 bits, two processes, all parties one after the other. The setup makes the server's key
and a key for each pair of nodes; precomputation, once a run, makes each node's table of residues.
CPU is that of all processes: half of it is about what a synchronisation takes on two idle cores.
The last line is the raising of selections alone, by gmpy2's powmod, without masks or residues. The
result is compared with plain integers."""


class Spent(NamedTuple):
    """What a call returned, its wall seconds, and the CPU seconds of all processes."""

    result: Any
    wall: float
    cpu: float


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    missing = [package for package in ("gmpy2", "phe", "joblib") if find_spec(package) is None]
    if missing:
        console.print(f"[yellow]Noise removal is skipped: {', '.join(missing)} not there.[/]")
        return []
    nodes = FEW_NODES if quick else NODES
    progress(f"noise removal of {VALUES} values over {nodes} nodes")
    table = grid(f"Noise removal: {VALUES:,} values, {nodes} nodes", "<part", "wall", "CPU")
    setup = _spent(lambda: _begin(nodes))
    removal: NoiseRemoval = setup.result
    prepared = _spent(lambda: removal.prepare(VALUES, largest=LARGEST))
    done = _spent(lambda: _synchronise(removal, nodes))
    packs = _packs(removal)
    plain = _plain() * packs * nodes
    for part, spent in (("setup", setup), ("precomputation", prepared), ("synchronisation", done)):
        table.add_row(part, seconds(spent.wall), seconds(spent.cpu))
    table.add_row(f"powmod, {packs} packs a node", "", seconds(plain))
    console.print(table, NOTE, "", sep="\n")
    allowed = MAX_SECONDS * nodes / NODES
    return [
        Verdict(
            f"noise removal of {VALUES:,} values over {nodes} nodes",
            f"<= {allowed:g} s",
            seconds(done.wall),
            done.wall <= allowed,
        )
    ]


def _begin(nodes: int) -> NoiseRemoval:
    from privplan.fl.crypto.paillier.processes import Workers
    from privplan.fl.fedpower.noise_removal.driver import NoiseRemoval
    from privplan.fl.parties.network import SERVER, Network, silo_name

    Workers(PROCESSES).start()
    network = Network([SERVER, *(silo_name(node) for node in range(nodes))])
    posts = {name: network.post(name) for name in network.names}
    return NoiseRemoval(posts, nodes, key_bits=KEY_BITS, processes=PROCESSES)


def _synchronise(removal: NoiseRemoval, nodes: int) -> None:
    rng = np.random.default_rng(1)
    noises = rng.integers(-LARGEST, LARGEST + 1, (nodes, VALUES))
    draws: list[Callable[[], Any]] = [lambda row=row: row for row in noises]
    removed = removal.removed(1, draws, largest=LARGEST)
    if not (noises.sum(axis=0) - removed == noises).all(axis=1).any():
        raise RuntimeError("What stayed is no node's noise.")


def _packs(removal: NoiseRemoval) -> int:
    from privplan.fl.fedpower.noise_removal.terms import RoundTerms

    return RoundTerms(removal.terms, VALUES, LARGEST).packs


def _plain() -> float:
    """Return the CPU seconds of one power with an exponent as long as the key, modulo n^2."""
    from gmpy2 import mpz, powmod

    square = mpz(secrets.randbits(2 * KEY_BITS) | 1)
    base, exponent = mpz(secrets.randbits(2 * KEY_BITS)), mpz(secrets.randbits(KEY_BITS))
    start = time.process_time()
    for _ in range(PLAIN_POWERS):
        powmod(base, exponent, square)
    return (time.process_time() - start) / PLAIN_POWERS


def _spent(call: Callable[[], Any]) -> Spent:
    wall, cpu = time.perf_counter(), _cpu()
    result = call()
    return Spent(result, time.perf_counter() - wall, _cpu() - cpu)


def _cpu() -> float:
    """Return the CPU seconds of this process and of its children that live (on Linux)."""
    total = time.process_time()
    for listed in Path("/proc/self/task").glob("*/children"):
        for child in listed.read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total
