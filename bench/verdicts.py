"""What was asked of the benchmark, and whether it was reached.  Nothing here fails a run."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True)
class Verdict:
    """One thing that was asked, what came out, and whether that is enough."""

    what: str
    asked: str
    measured: str
    reached: bool


def yes(reached: bool) -> str:
    """Return the word for a column."""
    return "[green]yes[/]" if reached else "[red]no[/]"


def word(reached: bool) -> str:
    """Return the word without colour, for what was measured."""
    return "yes" if reached else "no"


def seconds(value: float) -> str:
    """Return a time with three figures."""
    return f"{value:.3g} s" if value >= 1.0 else f"{value * 1e3:.3g} ms"


def progress(text: str) -> None:
    """Say on stderr what is running."""
    print(f"{text} ...", file=sys.stderr)


def grid(title: str, *columns: str) -> Table:
    """Return an empty table; a column whose name begins with < is aligned to the left."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        if column.startswith("<"):
            table.add_column(column.removeprefix("<"), no_wrap=True)
        else:
            table.add_column(column, justify="right")
    return table


def summary(verdicts: list[Verdict]) -> Table:
    """Return the table of everything that was asked."""
    table = grid("What was asked", "<", "<asked", "<measured", "<reached")
    for each in verdicts:
        table.add_row(each.what, each.asked, each.measured, yes(each.reached))
    return table
