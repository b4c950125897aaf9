"""Renyi curves at the same orders as dp_accounting's: time, and how far apart they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import timing
from dp_accounting.rdp import RdpAccountant
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

import privplan as pp
from privplan import events as ev

WHOLE = tuple(float(order) for order in range(2, 65))
FRACTIONAL = tuple(1.0 + step / 10.0 for step in range(1, 100))

AGREEMENT = 1e-6
"""Relative difference, at most, where both are exact."""

NOTE = """\
Settings A to C are those of the bounds on epsilon. dp_accounting composes and returns its RDP, by a
sum at whole orders and by a series between them, which may lie far above the truth; ours is one
quadrature of all orders, with a certified lower end. The gap is the largest (upper - lower) / upper
of ours; the difference is the largest |ours - theirs| / theirs."""


@dataclass(frozen=True)
class Case:
    name: str
    event: ev.Event
    orders: tuple[float, ...]

    def ours(self) -> pp.RenyiCurve:
        return pp.rdp(self.event, self.orders)

    def theirs(self) -> np.ndarray:
        accountant = RdpAccountant(self.orders)
        accountant.compose(self.event.to_dp_event())
        return np.asarray(accountant.rdp)


def _sampled(noise: float, rate: float, rounds: int) -> ev.Event:
    return ev.Repeat(rounds, ev.Poisson(rate, ev.Gaussian(noise)))


CASES = (
    Case("A, whole orders", _sampled(1.0, 0.01, 1_000), WHOLE),
    Case("A, fractional orders", _sampled(1.0, 0.01, 1_000), FRACTIONAL),
    Case("B, whole orders", _sampled(0.6, 0.001, 100_000), WHOLE),
    Case("B, fractional orders", _sampled(0.6, 0.001, 100_000), FRACTIONAL),
    Case("C, fractional orders", _sampled(5.0, 0.1, 5_000), FRACTIONAL),
    Case(
        "200 different rounds",
        ev.Compose([ev.Poisson(0.01, ev.Gaussian(1.0 + round / 100)) for round in range(200)]),
        FRACTIONAL,
    ),
)


@dataclass(frozen=True)
class Row:
    case: Case
    ours: timing.Timing[pp.RenyiCurve]
    theirs: timing.Timing[np.ndarray]

    @property
    def gap(self) -> float:
        curve = self.ours.result
        return float(((curve.upper - curve.lower) / curve.upper).max())

    @property
    def difference(self) -> float:
        return float(np.abs(self.ours.result.upper / self.theirs.result - 1.0).max())

    @property
    def below(self) -> int:
        """At how many orders theirs lies below a certified lower end."""
        return int((self.theirs.result < self.ours.result.lower * (1.0 - 1e-12)).sum())

    @property
    def ratio(self) -> float:
        return self.theirs.seconds / self.ours.seconds


def rows(quick: bool) -> Iterator[Row]:
    """Yield one row for each case."""
    for case in CASES:
        progress(f"curve of {case.name}")
        runs = (3, 1) if quick else (9, 3)
        yield Row(case, *timing.race(case.ours, case.theirs, ours_runs=runs[0], peer_runs=runs[1]))


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    table = grid(
        "Renyi curves next to dp_accounting",
        "<case",
        "orders",
        "ours",
        "dp_accounting",
        "dp_accounting / ours",
        "gap of ours",
        "difference",
        "theirs below the truth",
        "<faster",
    )
    measured = list(rows(quick))
    for row in measured:
        table.add_row(
            row.case.name,
            str(len(row.case.orders)),
            seconds(row.ours.seconds),
            seconds(row.theirs.seconds),
            f"{row.ratio:.1f}x",
            f"{row.gap:.1e}",
            f"{row.difference:.1e}",
            str(row.below),
            yes(row.ratio > 1.0),
        )
    console.print(table, NOTE, "", sep="\n")
    slowest = min(measured, key=lambda row: row.ratio)
    widest = max(measured, key=lambda row: row.gap)
    whole = [row for row in measured if row.case.orders is WHOLE]
    farthest = max(whole, key=lambda row: row.difference)
    return [
        Verdict(
            "a Renyi curve faster than dp_accounting, worst",
            "> 1x in each",
            f"{slowest.ratio:.1f}x, {slowest.case.name}",
            slowest.ratio > 1.0,
        ),
        Verdict(
            "a Renyi curve from both sides, widest",
            f"<= {AGREEMENT:g}",
            f"{widest.gap:.1e}, {widest.case.name}",
            widest.gap <= AGREEMENT,
        ),
        Verdict(
            "the same RDP as dp_accounting at whole orders",
            f"<= {AGREEMENT:g}",
            f"{farthest.difference:.1e}, {farthest.case.name}",
            farthest.difference <= AGREEMENT,
        ),
    ]
