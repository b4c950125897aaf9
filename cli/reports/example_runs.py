"""Example runs of published systems for a person and for a program, beside the claims."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from ...accountant import rounding

if TYPE_CHECKING:
    from ...audit.measurement import ExampleResult

HEADINGS: Final = ("Runs", "claimed", "proven", "measured")


def run_json(result: ExampleResult) -> dict[str, object]:
    """Return one run in the JSON result; infinite numbers are floats still."""
    return asdict(result)


def text(results: Sequence[ExampleResult], width: int) -> str:
    """Return the runs for a person, at most `width` columns wide; there is some run.

    What is proven is rounded up, and what is measured down.
    """
    cells = [_cells(result) for result in results]
    widths = [max(map(len, column)) for column in zip(HEADINGS[1:], *cells, strict=True)]
    first = width - sum(widths) - 2 * len(widths)
    lines = [_row(HEADINGS[0], HEADINGS[1:], widths, first)]
    for result, numbers in zip(results, cells, strict=True):
        start, *rest = textwrap.wrap(_words(result), first, subsequent_indent="  ")
        lines += [_row(start, numbers, widths, first), *rest]
    sure = 100.0 * min(result.confidence for result in results)
    note = (
        "Epsilon of small runs on bundled data, each for its own unit and observer: what the run "
        "claims, what its log proves before that observer, and what canaries showed of it at "
        f"least, at {sure:g} % confidence, each by itself.  What is low proves nothing."
    )
    return "\n".join([*lines, textwrap.fill(note, width)])


def _words(result: ExampleResult) -> str:
    form = ", as published" if result.as_published else ""
    rounds = "1 round" if result.rounds == 1 else f"{result.rounds} rounds"
    return (
        f"{result.system}{form}: {result.data}, {rounds}; {result.unit}, {result.neighbours}, "
        f"against the {result.observer}"
    )


def _cells(result: ExampleResult) -> tuple[str, str, str]:
    claimed = "-" if result.claimed is None else rounding.as_given(float(f"{result.claimed:.4g}"))
    proven = "no guarantee" if math.isinf(result.proven) else rounding.up(result.proven)
    return claimed, proven, rounding.down(result.measured)


def _row(start: str, numbers: Sequence[str], widths: Sequence[int], first: int) -> str:
    columns = (f"{number:>{width}}" for number, width in zip(numbers, widths, strict=True))
    return f"{start:<{first}}  {'  '.join(columns)}"
