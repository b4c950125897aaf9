"""A unit of k records in the setting of Uldp-FL's Figure 2, against dp_accounting's mixture PLD."""

from __future__ import annotations

import peers
import timing
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

import privplan as pp
from privplan import events as ev

NOISE, RATE, ROUNDS, DELTA = 5.0, 0.01, 100_000, 1e-5
EPSILON_BY_GROUP = {1: 2.63, 2: 5.84, 8: 34.18, 16: 95.16, 32: 295.76, 64: 1011.0}
NARROW = 1e-3

NOTE = """\
Noise 5, Poisson rate .01, 100,000 rounds, delta 1e-5; all k records come or go together. "asked" is
the value to two decimals. dp_accounting: from_mixture_gaussian_mechanism, default grid,
self-composed."""


def ours(size: int) -> pp.Guarantee:
    """Return our guarantee for a unit of `size` records."""
    run = ev.Repeat(ROUNDS, ev.Poisson(RATE, ev.Gaussian(NOISE)))
    return pp.account(ev.Group(size, run), delta=DELTA)


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    table = grid(
        "A unit of k records",
        "k",
        "asked",
        "lower",
        "upper",
        "gap / epsilon",
        "time",
        "dp_accounting",
        "its time",
        "ratio",
    )
    widest, slowest, agree = 0.0, 0.0, True
    for size, asked in EPSILON_BY_GROUP.items():
        progress(f"a unit of {size} records")
        mine = timing.timed(lambda size=size: ours(size), 1 if quick else 3)
        peer = timing.timed(
            lambda size=size: peers.google_group_epsilon(size, NOISE, RATE, ROUNDS, DELTA), 1
        )
        bounds = mine.result.epsilon
        gap = (bounds.upper - bounds.lower) / bounds.upper
        widest, slowest = max(widest, gap), max(slowest, mine.seconds)
        agree &= abs(bounds.upper / asked - 1.0) <= 2e-3 and bounds.lower <= peer.result
        table.add_row(
            str(size),
            f"{asked:g}",
            f"{bounds.lower:.4f}",
            f"{bounds.upper:.4f}",
            f"{gap:.1e}",
            seconds(mine.seconds),
            f"{peer.result:.4f}",
            seconds(peer.seconds),
            f"{peer.seconds / mine.seconds:.1f}x",
        )
    console.print(table, NOTE, "", sep="\n")
    return [
        Verdict(
            "epsilon of k records, as asked", "within .2 %", yes(agree).split("]")[1][:-2], agree
        ),
        Verdict("epsilon of k records, gap", f"<= {NARROW:g}", f"{widest:.1e}", widest <= NARROW),
        Verdict("epsilon of k records, slowest", "about 1 s", seconds(slowest), slowest <= 1.5),
    ]
