"""The check of other people's numbers: one verdict, one with a search, many files, a process."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from pathlib import Path

import startup
import timing
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

import privplan as pp
from privplan.audit.check import bounds
from privplan.audit.reproduction import accountants, renyi_values

FILES = 50

USUAL: Mapping[str, object] = {
    "claimed": Decimal("1.13"),
    "delta": 1e-5,
    "noise_multiplier": 1.1,
    "records": 60_000,
    "batch": 256,
    "epochs": 15,
    "method": "poisson",
    "neighbours": "add-remove",
}
"""DP-SGD on MNIST, and the number that PLD accountants print of it."""

ELSEWHERE = {**USUAL, "claimed": Decimal("1.19")}
"""A number that other settings give, or none: it is searched for."""

SHUFFLED = {**USUAL, "method": "shuffled"}

UNSTATED = {key: value for key, value in USUAL.items() if key not in ("method", "neighbours")}
"""Nobody says the sampler: each is proven, and the relation that shows least."""

TEMPLATE = """\
[claim]
epsilon = 1.19
delta = 1e-5
[noise]
noise_multiplier = {noise}
[data]
records = 60000
[sampling]
batch = 256
{method}
[schedule]
epochs = {epochs}
"""

NOTE = """\
Every verdict is computed anew: what earlier ones left in memory is forgotten. A process is whole,
from the start of Python; CPU is the mean of its own time, of which numpy and scipy.special take
what the table of whole processes shows. All claims of the files are searched for; in the
last row nobody says the sampler, so all of them are proven."""


def show(console: Console, environment: dict[str, str], quick: bool) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    table = grid("Checking numbers", "<what", "<asked", "median", "CPU", "runs", "<reached")
    runs = 3 if quick else 7
    verdicts = []

    def row(what: str, limit: float, timed: timing.Timing[float]) -> None:
        reached = timed.seconds < limit
        cells = seconds(timed.seconds), seconds(timed.result), f"{timed.runs}"
        table.add_row(what, f"< {limit:g} s", *cells, yes(reached))
        verdicts.append(Verdict(what, f"< {limit:g} s", seconds(timed.seconds), reached))

    pp.check(**USUAL)  # modules are loaded once
    for what, limit, facts in (
        ("a verdict, Poisson samples", 1.0, USUAL),
        ("a verdict, a shuffled loader", 1.0, SHUFFLED),
        ("a verdict, no sampler stated", 1.0, UNSTATED),
        ("a verdict with a search", 5.0, ELSEWHERE),
    ):
        progress(f"timing {what}")
        row(what, limit, timing.timed(lambda: _cpu(facts), runs))  # noqa: B023
    if not startup.SCRIPT.exists():
        console.print(table, NOTE, "", sep="\n")
        return verdicts

    def process(command: list[str], count: int = runs) -> timing.Timing[float]:
        return startup.processes(command, environment, count, check=False)  # 1 says a verdict

    with tempfile.TemporaryDirectory() as directory:
        for what, method in (("Poisson samples", 'method = "poisson"'), ("no sampler stated", "")):
            files = _write(Path(directory), method)
            command = [str(startup.SCRIPT), "check", "--quiet", "--each"]
            if method:
                progress("timing a process")
                row("a process, one file", 1.0, process([*command, files[0]]))
            progress(f"timing {FILES} files, {what}")
            name = f"a process, {FILES} files, {what}"
            row(name, 60.0, process([*command, *files], 1))
    console.print(table, NOTE, "", sep="\n")
    return verdicts


def _cpu(facts: Mapping[str, object]) -> float:
    """Return the CPU time of a verdict that nothing was kept for."""
    for module in (bounds, accountants, renyi_values):
        _forget(module.__dict__)
    _forget(_engine_modules())
    began = time.process_time()
    pp.check(**facts)  # type: ignore[arg-type]
    return time.process_time() - began


def _forget(names: Mapping[str, object]) -> None:
    for value in names.values():
        clear = getattr(value, "cache_clear", None)
        if clear is not None:
            clear()


@lru_cache(maxsize=1)
def _engine_modules() -> dict[str, object]:
    """Return what the engine that is asked most keeps between questions."""
    from privplan.accountant.engines.pld.pairs import allocation, batches

    return {**allocation.__dict__, **batches.__dict__}


def _write(folder: Path, method: str) -> list[str]:
    """Write descriptions that all differ, and return their names."""
    names = []
    for number in range(FILES):
        name = folder / f"run{number:02}{'p' if method else 'u'}.toml"
        facts = {"noise": 0.8 + 0.02 * number, "epochs": 5 + number % 7}
        name.write_text(TEMPLATE.format(method=method, **facts), encoding="utf-8")
        names.append(str(name))
    return names
