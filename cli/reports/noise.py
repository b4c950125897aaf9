"""The noise of published systems for a person and for a program: each number with its unit."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...accountant import rounding

if TYPE_CHECKING:
    from ...accountant.claims.table import Noise

NOISE_HEADINGS: Final = ("Noise on each number", "deviation", "proves")


def line_json(line: Noise) -> dict[str, object]:
    """Return one line of `noise` in the JSON result."""
    return {
        "system": line.system,
        "setting": line.setting,
        "way": line.way,
        "deviation": line.deviation,
        "in": line.symbol,
        "length": line.length,
        "unit": line.unit,
        "neighbours": line.neighbours,
        "observer": line.observer,
        "delta": line.delta,
        "proven": line.proven,
        "published": line.published,
    }


def text(lines: Sequence[Noise], width: int) -> str:
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


def _row(start: str, numbers: Sequence[str], widths: Sequence[int], first: int) -> str:
    columns = (f"{number:>{width}}" for number, width in zip(numbers, widths, strict=True))
    return f"{start:<{first}}  {'  '.join(columns)}"
