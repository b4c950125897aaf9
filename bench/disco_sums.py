"""Noisy sums among peers that a coordinator gathers, all parties in this process.

    python bench/disco_sums.py [--json FILE]

One round of a large model, and many rounds of a small one with and without transcripts.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: one thread for all parties

import numpy as np
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, summary, yes

if TYPE_CHECKING:
    from privplan.accountant.mechanisms import Gaussian
    from privplan.fl.aggregation.sums import Aggregator, Sum

CLIP, STD = 1.0, 4.0
TAIL = 12.0
"""Standard deviations of a share of the noise that a word has room for: beyond, 4e-33 each."""

LARGE = (10, 1, 1_000_000)
SMALL = (20, 20, 7_850)
"""Peers, rounds and parameters."""

FEWEST = 3

ASKED_LARGE_SECONDS = 3.0
ASKED_LARGE_BYTES = 10e6
ASKED_SMALL_SECONDS = 30.0

NOTE = f"""\
Gaussian noise in shares, one a peer; a public bound of the clip and {TAIL:g} standard deviations;
"CPU" is of all peers and the coordinator together, noise, keys and signatures included; "up" is
what one peer sends in a round; "exact": every peer has the bits of the sum in the clear. The
control takes the same noise from the same seed. Transcripts are kept and written to a folder."""


@dataclass(frozen=True)
class Measured:
    """What some rounds took: CPU and wall-clock seconds, and bytes that one peer sent a round."""

    peers: int
    rounds: int
    parameters: int
    transcripts: bool
    cpu_seconds: float
    wall_seconds: float
    bytes_up: float
    bytes_a_word: int
    exact: bool


def measured(peers: int, rounds: int, parameters: int, *, transcripts: bool) -> Measured:
    """Return what rounds of so many peers take, and whether each is the sum in the clear."""
    from privplan.accountant.mechanisms import Gaussian
    from privplan.fl.aggregation.share_sums import ShareAggregator
    from privplan.fl.aggregation.sums import PlainAggregator
    from privplan.fl.crypto.fixed_point_sums import FixedPoint
    from privplan.fl.parties.transcripts import append_transcripts

    progress(f"{rounds} rounds of {peers} peers, {parameters:,} parameters")
    mechanism = Gaussian(bound=CLIP, std=STD, shares=peers)
    largest = math.ceil((CLIP + TAIL * mechanism.share_std) / mechanism.grid)
    rng = np.random.default_rng(0)
    totals = [mechanism.total(rng.normal(size=(1, parameters))) for _ in range(peers)]
    by = ShareAggregator(peers, fewest=FEWEST, keep=transcripts)
    shared, plain = Rounds(by, mechanism, largest), Rounds(PlainAggregator(), mechanism, largest)
    exact, cpu, wall = True, 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, rounds + 1):
            began = time.process_time(), time.perf_counter()
            received = shared.sum(number, totals)
            if transcripts:
                append_transcripts(Path(folder), by.network)
            cpu += time.process_time() - began[0]
            wall += time.perf_counter() - began[1]
            exact &= bool(np.array_equal(received.total, plain.sum(number, totals).total))
    return Measured(
        *(peers, rounds, parameters, transcripts, cpu, wall),
        bytes_up=max(by.network.sent[f"silo-{silo}"] for silo in range(peers)) / rounds,
        bytes_a_word=FixedPoint(1.0, float(largest), peers, 2**64).bytes_needed,
        exact=exact,
    )


class Rounds:
    """Rounds of one aggregator under one mechanism; noise from one seed, to compare bits."""

    def __init__(self, by: Aggregator, mechanism: Gaussian, largest: int) -> None:
        from privplan.accountant.mechanisms import Gate
        from privplan.accountant.randomness import Streams
        from privplan.fl.canaries.memory_log import MemoryLog

        self._by, self._mechanism, self._largest = by, mechanism, largest
        self._gate = Gate(None, MemoryLog(), Streams.seeded(1))

    def sum(self, number: int, totals: list[Any]) -> Sum:
        """Return the noisy sum of a round in which all take part."""
        from privplan.accountant import events as ev
        from privplan.accountant.mechanisms import RoundDescription
        from privplan.fl.aggregation.sums import noisy_sum

        about = RoundDescription(number, "train", event_override=ev.NoGuarantee("a benchmark"))
        with self._gate.open(self._mechanism.intent(about, "replace-one")) as ticket:
            received = noisy_sum(
                *(self._by, number, self._mechanism, ticket, totals),
                present=range(len(totals)),
                largest=self._largest,
            )
            ticket.close(values=len(totals[0]))
        return received


def every_case() -> list[Measured]:
    """Measure all that is asked."""
    return [
        measured(*LARGE, transcripts=False),
        measured(*SMALL, transcripts=False),
        measured(*SMALL, transcripts=True),
    ]


def table_and_verdicts(console: Console, cases: list[Measured]) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    columns = ("peers", "rounds", "parameters", "<transcripts", "CPU", "wall", "a word", "up")
    table = grid("Noisy sums among peers", *columns, "<exact")
    for one in cases:
        table.add_row(
            *(str(one.peers), str(one.rounds), f"{one.parameters:,}"),
            *("kept" if one.transcripts else "not kept", seconds(one.cpu_seconds)),
            *(seconds(one.wall_seconds), f"{one.bytes_a_word} bytes"),
            *(f"{one.bytes_up / 1e6:.3g} MB", yes(one.exact)),
        )
    console.print(table, NOTE, "", sep="\n")
    large, *small = cases
    who = f"a noisy round of {large.peers} peers, {large.parameters:,} parameters"
    up = f"{large.bytes_up / 1e6:.2f} MB"
    verdicts = [
        _limit(f"{who}, CPU of all", ASKED_LARGE_SECONDS, large.cpu_seconds),
        Verdict(f"{who}, sent by one", "<= 10 MB", up, large.bytes_up <= ASKED_LARGE_BYTES),
    ]
    for one in small:
        kept = "kept" if one.transcripts else "not kept"
        what = f"{one.rounds} rounds of {one.peers} peers, transcripts {kept}, wall"
        verdicts.append(_limit(what, ASKED_SMALL_SECONDS, one.wall_seconds))
    return verdicts


def show(console: Console) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    if find_spec("cryptography") is None:
        console.print("[yellow]Sums among peers are skipped: cryptography is not installed.[/]")
        return []
    return table_and_verdicts(console, every_case())


def _limit(what: str, asked: float, value: float) -> Verdict:
    return Verdict(what, f"<= {asked:g} s", seconds(value), value <= asked)


def main() -> None:
    """Measure, print, and write JSON where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="a file for the numbers")
    target = parser.parse_args().json
    console = Console(width=150)
    cases = every_case()
    console.print(summary(table_and_verdicts(console, cases)))
    if target is not None:
        target.write_text(json.dumps([asdict(one) for one in cases], indent=1) + "\n")


if __name__ == "__main__":
    main()
