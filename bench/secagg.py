"""Masked sums of a million parameters, all parties and the server, next to Flower's SecAgg+."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

if TYPE_CHECKING:
    from privplan.fl.secagg.terms import Terms

LENGTH = 1_000_000

SUM_CASES = (
    # parties, dropouts allowed, of them gone, colluders, server, CPU seconds that are asked
    (30, 3, 0, 5, "malicious", 1.0),
    (30, 3, 0, 5, "honest-but-curious", 1.0),
    (100, 10, 10, 20, "honest-but-curious", 4.0),
    (100, 10, 10, 20, "malicious", None),
)

NOTE = """\
Vectors of a million 32-bit words; CPU seconds of all parties and the server together, in one
process, with keys, signatures, shares and recovery. Those who drop out do so after they have shared
their secrets, which costs the others most. "up" is what one party sends. Flower: its SecAgg+ client
functions and the same work of its server, as they are, without transport; weights of 32 bits, the
rounding of which to integers is a twentieth of its time and no part of ours."""

SKIPPED = "Flower's SecAgg+ is skipped: flwr is not installed."


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    if find_spec("cryptography") is None:
        console.print("[yellow]Masked sums are skipped: cryptography is not installed.[/]")
        return []
    table = grid(
        "Masked sums",
        *("parties", "gone", "neighbours", "threshold", "<server", "CPU", "up", "<exact"),
    )
    verdicts, first = [], 0.0
    for parties, dropouts, gone, colluders, server, asked in SUM_CASES:
        progress(f"masked sum of {parties} parties, {server} server")
        terms = _terms(parties, dropouts, colluders, server)
        runs = [_masked_sum(terms, gone) for _ in range(1 if quick else 3)]
        spent = statistics.median(run[0] for run in runs)
        first = first or spent
        exact = all(run[2] for run in runs)
        table.add_row(
            str(parties),
            str(gone),
            str(terms.degree),
            str(terms.threshold),
            server,
            seconds(spent),
            _megabytes(runs[0][1]),
            yes(exact),
        )
        if asked is not None:
            what = f"masked sum of {parties} parties, CPU, {server} server"
            verdicts.append(
                Verdict(what, f"<= {asked:g} s", seconds(spent), exact and spent <= asked)
            )
    notes = [NOTE]
    if find_spec("flwr") is None:
        notes.append(SKIPPED)
    else:
        progress("Flower's SecAgg+ with 30 parties")
        import flower

        spent, up, right = flower.masked_sum(30, 18, LENGTH)
        name = f"Flower {version('flwr')}"
        row = ("30", "0", "29", "18", name, seconds(spent), _megabytes(up), yes(right))
        table.add_row(*row)
        notes.append(f"Flower takes {spent / first:.1f} times as long as the first row.")
    console.print(table, *notes, "", sep="\n")
    return verdicts


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.2f} MB"


def _cpu(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def _terms(parties: int, dropouts: int, colluders: int, server: Any) -> Terms:
    from privplan.fl.secagg.terms import choose

    return choose(
        parties,
        length=LENGTH,
        dropouts=dropouts,
        colluders=colluders,
        ring_bits=32,
        server=server,
    )


def _masked_sum(terms: Terms, gone: int) -> tuple[float, int, bool]:
    """Return CPU seconds, bytes that the last party sent, and whether the sum is right."""
    from privplan.accountant.errors import MissingParty
    from privplan.fl.parties.network import SERVER, Network, silo_name
    from privplan.fl.secagg.committee import Committee

    def leave() -> Any:
        raise MissingParty("gone")

    rng = np.random.default_rng(0)
    two = rng.integers(0, 2**32 - 1, (2, terms.length), dtype=np.uint32, endpoint=True)
    names = [silo_name(index) for index in range(terms.parties)]
    network = Network([SERVER, *names])
    committee = Committee.on(network, terms, b"a session of the benchmark")
    inputs = {n: leave if index < gone else two[index % 2] for index, n in enumerate(names)}
    spent, (total, survivors) = _cpu(lambda: committee.sum(1, inputs))
    there = np.bincount([index % 2 for index in range(gone, terms.parties)], minlength=2)
    right = survivors == tuple(names[gone:]) and np.array_equal(total, there.astype("u4") @ two)
    return spent, network.sent[names[-1]], right
