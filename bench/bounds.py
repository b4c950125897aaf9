"""Epsilon from both sides in four settings, against prv_accountant and dp_accounting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import peers
import timing
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

import privplan as pp
from privplan import events as ev

NARROW = 1e-3
"""Width of the answer, relative to epsilon, that was asked."""

EPS_ERROR = 0.01


NOTE = """\
A: noise 1, rate .01, 1,000 rounds, delta 1e-5. B: .6, .001, 100,000, 1e-6. C: 5, .1, 5,000, 1e-5.
D: 10, no sampling, 100, 1e-5. ours bounds both directions (removing and adding a record) and by
default cross-checks with rdp; prv_accountant bounds one, its time is that of construction and
compute_epsilon, with delta_error = delta / 1000."""


@dataclass(frozen=True)
class PoissonSetting:
    name: str
    noise: float
    rate: float
    rounds: int
    delta: float

    @property
    def training(self) -> peers.SampledGaussian:
        return peers.SampledGaussian(self.rate, self.rounds)

    def ours(self, engine: str | None) -> pp.Guarantee:
        event = ev.Repeat(self.rounds, ev.Poisson(self.rate, ev.Gaussian(self.noise)))
        return pp.account(event, delta=self.delta, engine=engine)

    def microsoft(self) -> tuple[float, float]:
        return peers.microsoft_epsilon(self.training, self.noise, self.delta, EPS_ERROR)


POISSON_SETTINGS = (
    PoissonSetting("A", 1.0, 0.01, 1_000, 1e-5),
    PoissonSetting("B", 0.6, 0.001, 100_000, 1e-6),
    PoissonSetting("C", 5.0, 0.1, 5_000, 1e-5),
    PoissonSetting("D", 10.0, 1.0, 100, 1e-5),
)


@dataclass(frozen=True)
class Row:
    """One way to an answer; `peer` is the time of prv_accountant in the same setting."""

    setting: PoissonSetting
    tool: str
    lower: float | None
    upper: float
    time: timing.Timing[object]
    peer: float

    @property
    def gap(self) -> float | None:
        return None if self.lower is None else (self.upper - self.lower) / self.upper

    @property
    def ratio(self) -> float:
        return self.peer / self.time.seconds


def rows(setting: PoissonSetting, quick: bool) -> Iterator[Row]:
    """Yield ours by pld and by default, then the peers."""
    ours_runs, peer_runs = (3, 1) if quick else (9, 3)
    pld, microsoft = timing.race(
        lambda: setting.ours("pld"), setting.microsoft, ours_runs=ours_runs, peer_runs=peer_runs
    )
    setting.ours(None)
    default = timing.timed(lambda: setting.ours(None), ours_runs)
    peer = microsoft.seconds
    for label, mine in (("ours, engine pld", pld), ("ours, default", default)):
        bounds = mine.result.epsilon
        label = f"{label} ({mine.result.engine})" if "default" in label else label
        yield Row(setting, label, bounds.lower, bounds.upper, mine, peer)
    low, high = microsoft.result
    yield Row(setting, f"prv_accountant, {EPS_ERROR:g}", low, high, microsoft, peer)
    arguments = setting.training, setting.noise, setting.delta
    google = timing.timed(lambda: peers.google_epsilon(*arguments), peer_runs)
    yield Row(setting, "dp_accounting PLD", None, google.result, google, peer)
    rdp = timing.timed(lambda: peers.google_rdp(*arguments), peer_runs)
    yield Row(setting, "dp_accounting RDP", None, rdp.result, rdp, peer)


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    table = grid(
        "Epsilon from both sides",
        "<setting",
        "<tool",
        "lower",
        "upper",
        "gap / epsilon",
        "time",
        "prv_accountant / this",
        f"<gap <= {NARROW:g}",
        "<faster than prv",
    )
    ours = []
    agree = True
    for setting in POISSON_SETTINGS:
        progress(f"bounding {setting.name}")
        bounds = list(rows(setting, quick))
        agree &= max(row.lower or 0.0 for row in bounds) <= min(row.upper for row in bounds)
        for row in bounds:
            mine = row.tool.startswith("ours")
            if mine:
                ours.append(row)
            table.add_row(
                setting.name,
                row.tool,
                "-" if row.lower is None else f"{row.lower:.6f}",
                f"{row.upper:.6f}",
                "-" if row.gap is None else f"{row.gap:.1e}",
                seconds(row.time.seconds),
                f"{row.ratio:.1f}x",
                yes(row.gap is not None and row.gap <= NARROW) if mine else "",
                yes(row.ratio > 1.0) if mine else "",
                end_section=row is bounds[-1],
            )
    console.print(table, NOTE, "", sep="\n")
    widest = max(ours, key=lambda row: row.gap or 0.0)
    slowest = min(ours, key=lambda row: row.ratio)
    return [
        Verdict(
            "gap of epsilon in A to D, worst",
            f"<= {NARROW:g} of epsilon",
            f"{widest.gap:.1e} in {widest.setting.name} by {widest.tool}",
            (widest.gap or 0.0) <= NARROW,
        ),
        Verdict(
            f"faster than prv_accountant at {EPS_ERROR:g}, worst",
            "> 1x in each",
            f"{slowest.ratio:.1f}x in {slowest.setting.name} by {slowest.tool}",
            slowest.ratio > 1.0,
        ),
        Verdict(
            "no lower end above any upper end",
            "all five in A to D",
            "they agree" if agree else "they contradict each other",
            agree,
        ),
    ]
