"""Histories as JSON lines: one object a line, for a phase, an epoch or an evaluation.

    {"epoch": 1, "loss": 0.71, "epsilon": 0.52, "delta": 1e-05}
    {"epoch": 2, "loss": 0.55, "epsilon": 0.71, "delta": 1e-05}

The names and what they stand for are in `content.py`, how rows are understood in `history.py`.
Lines may lack keys; names are looked for on the first level of each object only.  There must be
two lines at least: one object alone is a configuration.  Source: the metrics that training
scripts write.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from ...accountant.errors import InvalidInput, kind_of
from ..description.run_description import Reading
from .content import NOT_JSON, json_of, json_of_text, lines_of, numbered_lines
from .history import columns_of, is_history, reading_of
from .history_rows import History, limited_rows, require_whole_rows

FORMAT: Final = "JSONL history"


def recognises(content: bytes, name: str) -> bool:
    """Return whether the lines are objects, of which the first or last names a private run."""
    del name
    if json_of(content) is not NOT_JSON:
        return False
    lines = lines_of(content)
    if len(lines) < 2 or not all(line.lstrip().startswith("{") for line in (lines[0], lines[-1])):
        return False
    ends = [json_of_text(line) for line in (lines[0], lines[-1])]
    return any(isinstance(row, dict) and is_history(list(row)) for row in ends)


def read(content: bytes, name: str) -> Reading:
    """Return what the lines say; raises `InvalidInput` for a line that is no object."""
    rows: list[Mapping[str, Any]] = []
    numbers: list[int] = []
    for number, line in numbered_lines(content):
        row = json_of_text(line, as_printed=True)
        if not isinstance(row, dict):
            raise InvalidInput(
                f"Line {number} is no JSON object.",
                "A history has one object a line; the run may have been cut off while it wrote.",
                "Remove the line, or correct it.",
            )
        limited_rows(len(numbers))
        rows.append(row)
        numbers.append(number)
    names = list(dict.fromkeys(key for row in rows for key in row))
    columns = columns_of(names)
    cells = [
        {role: _cell(row.get(column), column) for role, column in columns.items()} for row in rows
    ]
    history = History(columns, cells, numbers)
    require_whole_rows(history)
    return reading_of(history, name, FORMAT)


def _cell(value: object, column: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise InvalidInput(
            f"`{column:.60}` must be a number; it is {kind_of(value)}.",
            "A history has numbers in its columns.",
            "Correct the line.",
        )
    return str(value)
