"""A whole run on Heart Disease, as a person waits for it, and what its log costs of that."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, yes

from privplan.accountant.records import Record
from privplan.fl.log import LogWriter
from privplan.fl.settings.toml_file import parse

DATA = Path(
    os.environ.get("PRIVPLAN_DATA", Path(__file__).resolve().parents[1] / ".." / "shared" / "data")
)

MAX_RUN_SECONDS = 15.0
ASKED_SHARE = 0.02

CONFIGURATION = """\
[run]
system = "uldp-avg"
rounds = 50
[data]
name = "heart-disease"
path = "{path}"
users = 50
allocation = "zipf"
[privacy]
noise_multiplier = 5.0
"""

NOTE = """\
50 rounds of uldp-avg, 50 users, 4 silos, dealt by zipf; data, plan, training, measuring, log and
model are all in it. The log forces every intent and every release to the disk before the run goes
on, so its share depends on the disk more than on anything else."""


class TimedLog:
    """The real log, which adds up the time that it takes, and how much of it the disk takes."""

    def __init__(self, writer: LogWriter) -> None:
        self.writer = writer
        self.seconds = 0.0
        self.disk = 0.0

    def append(self, record: Record) -> int:
        """Append, and count the time."""
        with self._counted():
            return self.writer.append(record)

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        """Seal, and count the time."""
        with self._counted():
            return self.writer.seal(items)

    def settle(self) -> None:
        """Settle, and count the time."""
        with self._counted():
            self.writer.settle()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        force = os.fsync

        def timed(descriptor: int) -> None:
            began = time.perf_counter()
            force(descriptor)
            self.disk += time.perf_counter() - began

        start = time.perf_counter()
        os.fsync = timed  # type: ignore[assignment]
        try:
            yield
        finally:
            os.fsync = force
            self.seconds += time.perf_counter() - start


def show(console: Console) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    folder = DATA / "heart_disease"
    if not folder.is_dir():
        console.print("[yellow]The run is skipped: no Heart Disease data; set PRIVPLAN_DATA.[/]")
        return []
    from privplan.fl.running.preparation import prepare
    from privplan.fl.running.session import execute

    progress("running uldp-avg on Heart Disease")
    settings = parse(CONFIGURATION.format(path=folder).encode(), "bench.toml")
    with tempfile.TemporaryDirectory() as directory:
        start = time.perf_counter()
        prepared = prepare(settings)
        ready = time.perf_counter()
        with LogWriter.create(Path(directory) / "run") as writer:
            log = TimedLog(writer)
            execute(prepared, Path(directory) / "run", log)
            lines = writer.records
        end = time.perf_counter()
    whole, share = end - start, log.seconds / (end - ready)
    work = (log.seconds - log.disk) / (end - ready)
    table = grid("A run with its log", "<what", "<asked", "measured", "<reached")
    rows = (
        ("run Heart Disease", f"< {MAX_RUN_SECONDS:g} s", seconds(whole), whole < MAX_RUN_SECONDS),
        ("its log, share of time", f"< {ASKED_SHARE:.0%}", f"{share:.2%}", share < ASKED_SHARE),
        ("log without the disk", f"< {ASKED_SHARE:.0%}", f"{work:.2%}", work < ASKED_SHARE),
    )
    for what, asked, measured, reached in rows:
        table.add_row(what, asked, measured, yes(reached))
    table.add_row("data, model and plan", "", seconds(ready - start), "")
    table.add_row(f"{lines} lines of log, forced to disk", "", seconds(log.disk), "")
    console.print(table, NOTE, "", sep="\n")
    return [Verdict(*row) for row in rows]
