"""The table of claims for a person and for a program: published numbers and proven ones.

With the claims stand the noise of published systems, each number with its unit, and example runs.
"""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from ...accountant import rounding
from .guarantee_words import facts

if TYPE_CHECKING:
    from ...accountant.claims.table import Claim, Noise
    from ...audit.measurement import ExampleResult
    from ..cache.measured_rows import MeasuredRow, Rows


SYSTEM_TITLES: Final = {
    "uldp-fl": "Uldp-FL",
    "flame": "FLAME",
    "disco": "DISCO",
    "fedpower": "FedPower",
    "delm": "DELM",
}
"""The systems as they write themselves."""

HEADINGS: Final = ("claimed", "proven", "at least", "verdict")
HEADINGS_MEASURED: Final = ("claimed", "proven", "at least", "measured", "verdict")
"""The headings where something has been measured."""


ROW_FACTS: Final = (
    *("system", "setting", "unit", "neighbours", "observer", "claimed", "proven", "lower"),
    *("verdict", "delta", "quantity", "printed", "why", "source"),
)
NOISE_FACTS: Final = ("length", "unit", "neighbours", "observer", "delta", "proven", "published")


def row_json(claim: Claim, measured: MeasuredRow | None = None) -> dict[str, object]:
    """Return a row of the JSON result; `measured` is null where nothing has been."""
    by = None
    if measured is not None:
        by = facts(measured, "demo", "kind", "confidence", "contradicted", "assumes")
    return {
        **facts(claim, *ROW_FACTS),
        "measured": None if measured is None else measured.value,
        "measured_by": by,
    }


def text(
    rows: Sequence[Claim],
    width: int,
    *,
    detailed: bool,
    measured: Rows | None = None,
    hint: bool = True,
    noise: str = "",
    runs: str = "",
) -> str:
    """Return the table for a person, at most `width` columns wide.

    `hint`: say how to measure what has not been measured.  `noise` and `runs`: blocks for after the
    rows.
    """
    by_row = [measured_of(claim, measured or {}) for claim in rows]
    cells: list[tuple[str, ...]] = [_cells(claim) for claim in rows]
    headings: tuple[str, ...] = HEADINGS
    if any(by_row):
        headings = HEADINGS_MEASURED
        cells = [
            (*row[:-1], _cell(measured_row), row[-1])
            for row, measured_row in zip(cells, by_row, strict=True)
        ]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    # The setting takes what the numbers leave.
    first = width - sum(widths) - len(widths) - 1
    blocks: list[str] = []
    for system in dict.fromkeys(claim.system for claim in rows):
        lines = [_line(SYSTEM_TITLES[system], headings, widths, first)]
        for claim, row, measured_row in zip(rows, cells, by_row, strict=True):
            if claim.system == system:
                lines += [""] if detailed else []
                lines += _entry(claim, row, widths, first)
                lines += _details(claim, measured_row, width) if detailed else []
        blocks.append("\n".join(lines))
    shown = [measured_row for measured_row in by_row if measured_row is not None]
    blocks += [block for block in (noise, runs) if block]
    return "\n\n".join([*blocks, _closing(rows, shown, width, detailed=detailed, hint=hint)])


def measured_of(claim: Claim, measured: Rows) -> MeasuredRow | None:
    """Return what was measured of the row of a claim, or None."""
    return measured.get((claim.system, claim.setting))


def _cells(claim: Claim) -> tuple[str, str, str, str]:
    """Return the numbers of a row: what is proven rounded up, what is shown rounded down."""
    claimed = claim.printed or _claimed(claim.claimed)
    proven = "-" if claim.proven is None else rounding.up(claim.proven)
    lower = "-" if claim.lower is None else rounding.down(claim.lower)
    return claimed, proven, lower, claim.verdict


def _cell(measured: MeasuredRow | None) -> str:
    """Return a measured number rounded down, and marked where it is an estimate."""
    if measured is None:
        return "-"
    return ("~" if measured.kind == "estimate" else "") + rounding.down(measured.value)


def _claimed(number: float) -> str:
    """Return a claimed number to four digits; it is no guarantee, so the nearest will do."""
    return rounding.as_given(float(f"{number:.4g}"))


def _line(setting: str, cells: Sequence[str], widths: Sequence[int], first: int) -> str:
    numbers = (f" {cell:>{width}}" for cell, width in zip(cells[:-1], widths, strict=False))
    return f"{setting:<{first}}{''.join(numbers)}  {cells[-1]}".rstrip()


def _entry(claim: Claim, cells: Sequence[str], widths: Sequence[int], first: int) -> list[str]:
    start, *rest = textwrap.wrap(claim.setting, first, subsequent_indent="  ")
    return [_line(start, cells, widths, first), *rest]


def _details(claim: Claim, measured: MeasuredRow | None, width: int) -> list[str]:
    slack = f"; delta {claim.delta:.4g}" if claim.quantity == "epsilon" else ""
    whom = f"{claim.unit}, {claim.neighbours}, against the {claim.observer}{slack}"
    if claim.quantity != "epsilon":
        whom = f"{claim.quantity}: {whom}"
    sentences = [whom, claim.why, f"[{claim.source}]"]
    if measured is not None:
        sentences.append(_measured_by(measured))
    return [
        textwrap.fill(sentence, width, initial_indent="  ", subsequent_indent="  ")
        for sentence in sentences
    ]


def _measured_by(measured: MeasuredRow) -> str:
    value = rounding.down(measured.value)
    sure = f"at {100.0 * measured.confidence:g} % confidence"
    number = f"about {value}" if measured.kind == "estimate" else f"at least {value} {sure}"
    against = ", against the claim" if measured.contradicted else ""
    # Only how often it was seen is counted; that it is impossible otherwise is mathematics.
    if math.isinf(measured.value):
        number = f"infinite, seen {sure} and impossible on the neighbouring data"
    sentence = f"Measured: {number}{against} (privplan audit demo {measured.demo})."
    rests_on = "; ".join(measured.assumes)
    return f"{sentence} Rests on: {rests_on}." if rests_on else sentence


def _closing(
    rows: Sequence[Claim],
    measured: Sequence[MeasuredRow],
    width: int,
    *,
    detailed: bool,
    hint: bool,
) -> str:
    counts = Counter(claim.verdict for claim in rows)
    named = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    where = rows[0].system if detailed else "SYSTEM"
    then = f"The story: privplan explain {where}."
    if not detailed:
        then = f"Why: privplan claims {where}. {then}"
    unknown = any(claim.proven is not None and math.isinf(claim.proven) for claim in rows)
    note = "Epsilon unless a row says otherwise, proven rounded up and at least rounded down."
    if unknown:
        note += " Infinite: no number holds."
    paragraphs = [f"{len(rows)} claims: {named}.", f"{note} {then}"]
    if measured:
        sure = 100.0 * min(row.confidence for row in measured)
        sentence = (
            f"Measured: bounds from below at {sure:g} % confidence, each by itself, from attacks "
            "on simulations; what is low or missing proves nothing."
        )
        if any(math.isinf(row.value) for row in measured):
            sentence += (
                " Infinite there: seen, and impossible on the neighbouring data, by the mechanism "
                "and not by a count."
            )
        paragraphs.append(sentence)
    if hint:
        command = f"privplan claims {where} --measure" if detailed else "privplan claims --measure"
        paragraphs.append(f"What attacks on the published mechanisms show: {command}.")
    return "\n".join(textwrap.fill(paragraph, width) for paragraph in paragraphs)


NOISE_HEADINGS: Final = ("Noise on each number", "deviation", "proves")


def noise_json(line: Noise) -> dict[str, object]:
    """Return one line of `noise` in the JSON result."""
    where = facts(line, "system", "setting", "way", "deviation")
    return {**where, "in": line.symbol, **facts(line, *NOISE_FACTS)}


def noise_text(lines: Sequence[Noise], width: int) -> str:
    """Return the lines for a person by setting, at most `width` columns wide; there is some line.

    What a proof asks for is rounded up, as is what noise proves; what is published to the nearest.
    """
    cells = [(_deviation(line), rounding.up(line.proven)) for line in lines]
    widths = [max(map(len, column)) for column in zip(NOISE_HEADINGS[1:], *cells, strict=True)]
    first = width - sum(widths) - 4
    shown = [_row(NOISE_HEADINGS[0], NOISE_HEADINGS[1:], widths, first)]
    setting = ""
    for line, numbers in zip(lines, cells, strict=True):
        if line.setting != setting:
            setting = line.setting
            shown.append(f"{setting}, delta {line.delta:g}, {line.neighbours}")
        start, *rest = textwrap.wrap(line.way, first, initial_indent="  ", subsequent_indent="    ")
        shown += [_row(start, numbers, widths, first), *rest]
    lengths = dict.fromkeys(line.length.replace(", ", ": ", 1) for line in lines)
    note = (
        f"{'; '.join(lengths)}.  Standard deviations, which compare only in one unit; what they "
        f"prove is epsilon against the {lines[0].observer}."
    )
    return "\n".join([*shown, textwrap.fill(note, width)])


def _deviation(line: Noise) -> str:
    if line.published:
        number = rounding.as_given(float(f"{line.deviation:.{rounding.DIGITS}g}"))
    else:
        number = rounding.up(line.deviation)
    return f"{number} {line.symbol}"


RUN_HEADINGS: Final = ("Runs", "claimed", "proven", "measured")


def run_json(result: ExampleResult) -> dict[str, object]:
    """Return one run in the JSON result; infinite numbers are floats still."""
    return asdict(result)


def runs_text(results: Sequence[ExampleResult], width: int) -> str:
    """Return the runs for a person, at most `width` columns wide; there is some run.

    What is proven is rounded up, and what is measured down.
    """
    cells = [_run_cells(result) for result in results]
    widths = [max(map(len, column)) for column in zip(RUN_HEADINGS[1:], *cells, strict=True)]
    first = width - sum(widths) - 2 * len(widths)
    lines = [_row(RUN_HEADINGS[0], RUN_HEADINGS[1:], widths, first)]
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


def _run_cells(result: ExampleResult) -> tuple[str, str, str]:
    claimed = "-" if result.claimed is None else rounding.as_given(float(f"{result.claimed:.4g}"))
    proven = "no guarantee" if math.isinf(result.proven) else rounding.up(result.proven)
    return claimed, proven, rounding.down(result.measured)


def _row(start: str, numbers: Sequence[str], widths: Sequence[int], first: int) -> str:
    columns = (f"{number:>{width}}" for number, width in zip(numbers, widths, strict=True))
    return f"{start:<{first}}  {'  '.join(columns)}"
