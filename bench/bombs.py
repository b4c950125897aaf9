"""Small files that ask for much: what the largest that is let through takes, and what is refused.

    python bench/bombs.py

A limit of work is decided before the work begins (`accountant/work_limit.py`); here it is seconds
and memory of a whole process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import startup
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

from privplan.accountant import events as ev
from privplan.accountant.work_limit import MOST_WORK, work_of

MOST_SECONDS, MOST_BYTES = 10.0, 1e9

NOTE = """\
Code 3 or 2 is a refusal that names the limit.  What is judged is the process's CPU time, which
other load on the machine moves less than the time on the clock."""


@dataclass(frozen=True)
class Bomb:
    """A file of these bytes, and the command that reads it."""

    what: str
    name: str
    content: bytes
    command: tuple[str, ...]


def bombs() -> Iterator[Bomb]:
    """Yield events, states, plans and tables: at the limit, and far beyond it."""
    account = ("account", "{}", "--delta", "1e-5")

    def event(what: str, made: ev.Event) -> Bomb:
        text = json.dumps(made.to_json(), separators=(",", ":"))
        named = f"{what}, {work_of(made):,} units"
        return Bomb(named, "event.json", text.encode(), account)

    def sampled(rate: float, noise: float) -> ev.Event:
        return ev.Poisson(rate, ev.Gaussian(noise))

    steps = [sampled(0.001 + 1e-7 * i, 5.0 + i) for i in range(MOST_WORK)]
    yield event("releases at the limit", ev.Compose(steps))
    groups = [ev.Group(1_000 - i, sampled(0.001, 5_000.0 + i)) for i in range(200)]
    while work_of(ev.Compose(groups)) > MOST_WORK:
        groups.pop()
    yield event("groups at the limit", ev.Compose(groups))
    capped = [ev.TruncatedPoisson(0.01, 100 + i, 10_000, ev.Gaussian(1 + i)) for i in range(60)]
    while work_of(ev.Compose(capped)) > MOST_WORK:
        capped.pop()
    yield event("capped samples at the limit", ev.Compose(capped))
    far = [ev.Group(99_999 - i, ev.Repeat(1_000 + i, sampled(0.001, 5_000))) for i in range(60)]
    yield event("groups far beyond it", ev.Compose(far))
    for rows, said in ((100, "accumulation of 4"), (200_000, "as many rows as are read")):
        state = {"history": [[1.0 + 1e-5 * i, 0.01, 10] for i in range(rows)], "mechanism": "rdp"}
        more = ("--set", "schedule.accumulation=4") if rows == 100 else ()
        command = ("check", "{}", "--claimed", "3", "--delta", "1e-5", *more)
        content = json.dumps(state).encode()
        yield Bomb(f"a state of {rows:,} rows, {said}", "state.json", content, command)
    phases = "".join(
        f'[[phase]]\nname = "p{i}"\nmechanism = "gaussian"\nrate = {0.001 + 1e-4 * i:.4f}\n'
        f"rounds = {1_000 + i}\n"
        for i in range(200)
    )
    plan = f"[target]\nepsilon = 2.0\ndelta = 1e-5\n{phases}"
    yield Bomb("a plan at its limit, 200 phases", "plan.toml", plan.encode(), ("plan", "{}"))
    nested = b"[" * 100_000 + b"]" * 100_000
    yield Bomb("100,000 levels of JSON", "deep.json", nested, account)
    wide = b'{"a":[' + b"1," * 7_500_000 + b"1]}"
    yield Bomb("15 MB of JSON", "wide.json", wide, ("check", "{}", "--claimed", "3"))


def show(console: Console, environment: dict[str, str]) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    if not startup.SCRIPT.exists():
        console.print(f"[yellow]Files that ask for much: there is no {startup.SCRIPT}.[/]")
        return []
    asked = f"< {MOST_SECONDS:g} s, {MOST_BYTES / 1e9:g} GB"
    table = grid(
        "Files that ask for much", "<file", "size", "time", "CPU", "memory", "code", "<reached"
    )
    verdicts = []
    with tempfile.TemporaryDirectory() as folder:
        for bomb in bombs():
            progress(f"reading {bomb.what}")
            path = Path(folder) / bomb.name
            path.write_bytes(bomb.content)
            words = [part.format(path) for part in bomb.command]
            took, busy, memory, code = process([str(startup.SCRIPT), *words], environment)
            reached = busy < MOST_SECONDS and memory < MOST_BYTES
            size = f"{len(bomb.content) / 1e3:,.0f} kB"
            cells = seconds(took), seconds(busy), f"{memory / 1e6:,.0f} MB", f"{code}"
            table.add_row(bomb.what, size, *cells, yes(reached))
            verdicts.append(Verdict(bomb.what, asked, f"{seconds(busy)}, {cells[2]}", reached))
    console.print(table, NOTE, "", sep="\n")
    return verdicts


def process(command: list[str], environment: dict[str, str]) -> tuple[float, float, float, int]:
    """Return a new process's seconds, CPU seconds, most bytes in memory and exit code."""
    began = time.perf_counter()
    running = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    took, busy = time.perf_counter() - began, usage.ru_utime + usage.ru_stime
    return took, busy, float(usage.ru_maxrss * unit), running.returncode


if __name__ == "__main__":
    show(Console(width=120), dict(os.environ))
