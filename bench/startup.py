"""Whole processes, as a person waits for them."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import timing
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

SCRIPT = Path(sys.executable).with_name("privplan")

COMMANDS = (
    ("calibrate --epsilon 2 --delta 1e-5 --records 60000 --batch 256 --epochs 10", 0.7),
    ("--help", 0.25),
)

FLOOR = "import scipy.special"
"""What every command that computes must load: shown next to the commands."""

NOTE = """\
Each is a new process, after one that warms the disk; CPU is its own time, which other load on the
machine moves less than the time on the clock."""


def show(console: Console, environment: dict[str, str], quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    if not SCRIPT.exists():
        console.print(f"[yellow]Whole processes are skipped: there is no {SCRIPT}.[/]")
        return []
    table = grid("Whole processes", "<command", "<asked", "median", "CPU", "runs", "<reached")
    runs = 3 if quick else 5
    verdicts = []
    for arguments, asked in COMMANDS:
        progress(f"timing privplan {arguments.split()[0]}")
        try:
            timed = processes([str(SCRIPT), *arguments.split()], environment, runs)
        except (OSError, subprocess.SubprocessError) as error:
            console.print(f"[yellow]`privplan {arguments}` is skipped: {error}[/]")
            continue
        limit, reached = f"< {asked:g} s", timed.seconds < asked
        table.add_row(f"privplan {arguments}", limit, *_cells(timed), yes(reached))
        name = f"process privplan {arguments.split()[0]}"
        verdicts.append(Verdict(name, limit, seconds(timed.seconds), reached))
    floor = processes([sys.executable, "-c", FLOOR], environment, runs)
    table.add_row(f"python -c '{FLOOR}', for comparison", "", *_cells(floor), "")
    console.print(table, NOTE, "", sep="\n")
    return verdicts


def processes(
    command: list[str], environment: dict[str, str], runs: int, *, check: bool = True
) -> timing.Timing[float]:
    """Return the median time of a new process; the result is the CPU time of one, on average."""

    def call() -> None:
        subprocess.run(command, env=environment, check=check, capture_output=True)

    call()  # the files come from the disk only once
    before = _children()
    timed = timing.timed(call, runs)
    return timing.Timing((_children() - before) / timed.runs, timed.seconds, timed.runs)


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cells(timed: timing.Timing[float]) -> tuple[str, str, str]:
    return seconds(timed.seconds), seconds(timed.result), f"{timed.runs}"
