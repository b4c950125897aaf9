"""The sensitivity of correlated noise, next to jax_privacy and opake: values and CPU time.

Run by itself, `python bench/matrix.py`, or with the others.  The peers are no dependencies: where
one is not installed its columns stay empty.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import opake_module
import timing
from matrix_cases import JAX, OPAKE, Case, cases
from rich.console import Console
from verdicts import Verdict, grid, progress, seconds, word

from privplan.accountant.sensitivity.matrix import MatrixSensitivity

LAST_DIGITS: Final = {JAX: 2e-6, OPAKE: 1e-11}
"""Relative rounding of a peer: jax_privacy computes in float32, opake in float64."""

NOTE = """\
1,000 rounds (random: 200; the last three: 2, 3 and 8). Each peer: the function that it has for the
case, given C, C^T C, columns or parameters; jax_privacy in its float32. Times are of all cores, of
second calls, after compilation. "exact" is ours: both ends agree. by hand: the largest norm that
rounds and signs attain, all of them in the last three, evenly spaced ones with equal signs in the
others. over: a peer's number less that norm, relative: what is below 0 is below the truth."""

FLOAT64_DIGITS: Final = 1e-13
"""Relative rounding of the norm by hand, at most."""


@dataclass(frozen=True)
class Row:
    """What everybody says of a case."""

    case: Case
    ours: timing.Timing[MatrixSensitivity]
    theirs: dict[str, timing.Timing[float]]
    by_hand: float

    def over(self, peer: str) -> float:
        """How far a peer's number is above what rounds and signs attain, relative."""
        return self.theirs[peer].result / self.by_hand - 1.0

    def ratio(self, peer: str) -> float:
        """Our upper end over a peer's number."""
        return self.ours.result.bounds.upper / self.theirs[peer].result


def rows() -> Iterator[Row]:
    """Yield a row for each case."""
    for case in cases():
        progress(case.name)
        ours = timing.timed(case.ours, 3, time.process_time)
        yield Row(case, ours, case.theirs(), case.by_hand())


def show(console: Console) -> list[Verdict]:
    """Print the table and return what was asked of it."""
    measured = list(rows())
    table = grid(
        "Correlated noise: by how much a unit moves C x",
        "<strategy, participation",
        "lower",
        "upper",
        "<exact",
        "by hand",
        "CPU",
        JAX,
        "over",
        "CPU",
        opake_module.name(),
        "over",
        "CPU",
    )
    for row in measured:
        bounds = row.ours.result.bounds
        table.add_row(
            row.case.name,
            f"{bounds.lower:.5f}",
            f"{bounds.upper:.5f}",
            "yes" if row.ours.result.exact else "no",
            f"{row.by_hand:.5f}",
            seconds(row.ours.seconds),
            *_cells(row, JAX),
            *_cells(row, OPAKE),
        )
    console.print(table, NOTE, _below(measured), "", sep="\n")
    return verdicts(measured)


def _below(measured: list[Row]) -> str:
    below = [
        f"{peer} in {row.case.name} (by {-row.over(peer):.0e})"
        for row in measured
        for peer in row.theirs
        if row.over(peer) < -FLOAT64_DIGITS
    ]
    return f"Below the truth: {', '.join(below) or 'nobody'}."


def _cells(row: Row, peer: str) -> tuple[str, str, str]:
    answer = row.theirs.get(peer)
    if answer is None:
        return "not installed", "", ""
    return f"{answer.result:.5f}", f"{row.over(peer):+.0e}", seconds(answer.seconds)


def verdicts(measured: list[Row]) -> list[Verdict]:
    """Return what was asked, and what came out."""
    slowest = max(row.ours.seconds for row in measured)
    sound = all(
        row.by_hand <= row.ours.result.bounds.upper * (1.0 + FLOAT64_DIGITS) for row in measured
    )
    asked = [
        Verdict("sensitivity of C, slowest", "<= 2 s", seconds(slowest), slowest <= 2.0),
        Verdict("sensitivity of C, at or above the one by hand", "each", word(sound), sound),
    ]
    for peer in measured[0].theirs:
        digits = LAST_DIGITS[peer]
        equal = all(abs(row.ratio(peer) - 1.0) <= digits for row in measured if not row.case.bound)
        never_above = all(row.ratio(peer) <= 1.0 + digits for row in measured)
        asked += [
            Verdict(f"sensitivity of C, where {peer} is exact too", "equal", word(equal), equal),
            Verdict(
                f"sensitivity of C, never above {peer}'s", "each", word(never_above), never_above
            ),
        ]
    return asked


if __name__ == "__main__":
    from verdicts import summary

    wide = Console(width=170)
    wide.print(summary(show(wide)))
