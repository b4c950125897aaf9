"""Additive shares of a million parameters among peers without a server, as seeds."""

from __future__ import annotations

import time
from importlib.util import find_spec

import numpy as np
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds

PEERS = 10
LENGTH = 1_000_000
STEP, BOUND = 2.0**-27, 100.0

ASKED_BYTES = 10e6
ASKED_ERROR = 1e-8

NOTE = f"""\
{LENGTH:,} floats in +-{BOUND:g}, on a grid of 2^-27, in the ring modulo 2^64; "error" is the
largest difference to the mean of the floats; "up" is what one peer sends, keys and signatures
included."""


def show(console: Console) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    if find_spec("cryptography") is None:
        console.print("[yellow]Additive shares are skipped: cryptography is not installed.[/]")
        return []
    progress(f"additive shares of {PEERS} peers")
    spent, sent, error = _measured()
    table = grid("Additive shares", "peers", "parameters", "CPU of a peer", "up", "error")
    up = f"{sent / 1e6:.2f} MB"
    table.add_row(str(PEERS), f"{LENGTH:,}", seconds(spent / PEERS), up, f"{error:.2g}")
    console.print(table, NOTE, "", sep="\n")
    who = f"additive shares of {PEERS} peers"
    return [
        Verdict(f"{who}, sent by one", f"<= {ASKED_BYTES / 1e6:g} MB", up, sent <= ASKED_BYTES),
        Verdict(f"{who}, error", f"<= {ASKED_ERROR:g}", f"{error:.2g}", error <= ASKED_ERROR),
    ]


def _measured() -> tuple[float, int, float]:
    """Return CPU seconds of all peers, the most bytes that one sent, and the largest error."""
    from privplan.fl.crypto.fixed_point_sums import FixedPoint
    from privplan.fl.crypto.keys import Identity
    from privplan.fl.parties.network import Network
    from privplan.fl.secagg.decentralised import Group, decentralised_sum

    names = [f"peer-{index}" for index in range(PEERS)]
    identities = {name: Identity.new() for name in names}
    point = FixedPoint(step=STEP, bound=BOUND, terms=PEERS, modulus=2**64)
    roster = {name: identity.public for name, identity in identities.items()}
    group = Group(roster, PEERS, point, LENGTH)
    network = Network(names)
    posts = {name: network.post(name) for name in names}
    rng = np.random.default_rng(0)
    values = rng.uniform(-BOUND, BOUND, (PEERS, LENGTH))
    start = time.process_time()
    encoded = {name: point.encode(row) for name, row in zip(names, values, strict=True)}
    totals = decentralised_sum(posts, group, identities, b"a session of the benchmark", 1, encoded)
    spent = time.process_time() - start
    wanted = values.mean(axis=0)
    error = max(
        float(np.abs(point.decode(total) / PEERS - wanted).max()) for total in totals.values()
    )
    return spent, max(network.sent.values()), error
