"""Runs whose noise and rate change at every step, against dp_accounting's PLD on few steps."""

from __future__ import annotations

import math

import peers
import timing
from rich.console import Console
from rich.table import Table
from verdicts import Verdict, grid, progress, seconds

import privplan as pp
from privplan import events as ev
from privplan.audit.evidence.epsilon_total import total

DELTA = 1e-5
STEPS = (100, 500, 1000, 5000)
AUDITED = 5000
PEER_STEPS = 100
NARROW = 1e-3

NOTE = """\
Noise falls from 1.5 to .8, the Poisson rate swings between .005 and .015: no two steps are alike;
delta 1e-5. dp_accounting composes step by step, on its default grid; more steps take it minutes."""


def schedule(steps: int, factor: float = 1.0) -> ev.Compose:
    """Return a run of so many different steps, its noise times a common factor."""
    return ev.Compose(
        [
            ev.Poisson(
                0.01 * (1.0 + 0.5 * math.cos(step)),
                ev.Gaussian(factor * (1.5 - 0.7 * step / (steps - 1))),
            )
            for step in range(steps)
        ]
    )


def show(console: Console, quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    table = grid("Schedules", "question", "steps", "lower", "upper", "gap / epsilon", "time")
    took, gaps = {}, {}
    for steps in STEPS:
        progress(f"a schedule of {steps} steps")
        run = schedule(steps)
        mine = timing.timed(lambda run=run: pp.account(run, delta=DELTA), 1 if quick else 3)
        bounds = mine.result.epsilon
        took[steps], gaps[steps] = mine.seconds, bounds.gap / bounds.upper
        _row(table, "account", steps, bounds, mine.seconds)
    progress("calibrating a schedule")
    timed = timing.call_once(
        lambda: pp.calibrate(lambda f: schedule(1000, f), epsilon=2.0, delta=DELTA)
    )
    _row(table, "calibrate a common factor", 1000, timed.result.guarantee.epsilon, timed.seconds)
    progress("auditing a schedule")
    spent = dict.fromkeys(schedule(AUDITED).events, 1)
    audited = timing.call_once(
        lambda: total(spent, delta=DELTA, neighbours="add-remove", lower=spent)
    )
    _row(table, "budget audit's total", AUDITED, audited.result.epsilon, audited.seconds)
    progress("dp_accounting on a schedule")
    theirs = timing.call_once(lambda: peers.google_composed(schedule(PEER_STEPS), DELTA))
    table.add_row(
        "dp_accounting", str(PEER_STEPS), "", f"{theirs.result:.5f}", "", seconds(theirs.seconds)
    )
    console.print(table)
    console.print(NOTE)
    widest = max(gaps.values())
    return [
        Verdict("schedule of 1,000 steps: time", "<= 5 s", seconds(took[1000]), took[1000] <= 5.0),
        Verdict("schedules: gap", f"<= {NARROW:g}", f"{widest:.1e}", widest <= NARROW),
        Verdict("the same, calibrated", "<= 5 s", seconds(timed.seconds), timed.seconds <= 5.0),
        Verdict(
            "5,000 audited rounds", "<= 10 s", seconds(audited.seconds), audited.seconds <= 10.0
        ),
    ]


def _row(table: Table, question: str, steps: int, bounds: pp.Bounds, took: float) -> None:
    gap = bounds.gap / bounds.upper
    table.add_row(
        question,
        f"{steps:,}",
        f"{bounds.lower:.5f}",
        f"{bounds.upper:.5f}",
        f"{gap:.1e}",
        seconds(took),
    )
