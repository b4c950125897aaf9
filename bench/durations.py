"""What the tests take, from the last run of `make test`, `make slow` or `.ci/run`.

Nothing is measured here: each of those leaves a report in `build/tests/`, and this reads it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from verdicts import grid, seconds

ROOT = Path(__file__).resolve().parents[1]

REPORTS = (("default.xml", "make test"), ("slow.xml", "make slow"))

SLOWEST = 5


@dataclass(frozen=True)
class Suite:
    """The seconds of each test of one run, as the worker's clock saw them."""

    tests: tuple[tuple[float, str], ...]
    wall: float

    @property
    def total(self) -> float:
        """The seconds of all tests, on however many workers they ran."""
        return sum(each for each, _ in self.tests)

    @property
    def slowest(self) -> tuple[tuple[float, str], ...]:
        """The tests that took longest."""
        return tuple(sorted(self.tests, reverse=True)[:SLOWEST])

    @property
    def share(self) -> float:
        """The part of `total` that the slowest tests take."""
        return sum(each for each, _ in self.slowest) / self.total


def show(console: Console) -> None:
    """Print a table for each report; say which is missing."""
    for name, command in REPORTS:
        path = ROOT / "build" / "tests" / name
        recorded = read(path) if path.exists() else None
        if recorded is None:
            console.print(f"[yellow]No times of tests in {path}: `{command}` writes them.[/]\n")
            continue
        hours = (time.time() - path.stat().st_mtime) / 3600.0
        table = grid(f"The slowest tests of `{command}`", "<test", "time", "share")
        for each, test in recorded.slowest:
            table.add_row(test, seconds(each), f"{each / recorded.total:.1%}")
        table.add_row(f"these {SLOWEST}", "", f"{recorded.share:.1%}")
        table.add_row(f"all {len(recorded.tests):,} tests", seconds(recorded.total), "100%")
        note = (
            f"From {path.relative_to(ROOT)}, {hours:.1f} hours old.  Seconds are the workers' own, "
            f"added up; on the clock that run took {seconds(recorded.wall)}."
        )
        console.print(table, note, "", sep="\n")


def read(path: Path) -> Suite | None:
    """Return what a JUnit report says of tests that ran; None if none did."""
    root = ElementTree.parse(path).getroot()
    tests = tuple(
        (float(case.get("time", 0.0)), f"{case.get('classname')}::{case.get('name')}")
        for case in root.iter("testcase")
        if case.find("skipped") is None
    )
    if not sum(each for each, _ in tests):
        return None
    return Suite(tests, sum(float(suite.get("time", 0.0)) for suite in root.iter("testsuite")))
