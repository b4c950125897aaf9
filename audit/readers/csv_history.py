"""Histories as CSV: a header, and one row for each phase, epoch or evaluation.

The delimiter is whichever of comma, semicolon, tab and bar gives a header with known names.  The
names and what they stand for are in `content.py`, how rows are understood in `history.py`:

    sigma,q,steps            epoch,loss,epsilon,delta
    1.3,0.0043,1000          1,0.71,0.52,1e-5
    1.1,0.0043,2516          2,0.55,0.71,1e-5

Rows with another number of cells than the header are refused.  Source: the tables that the logging
helpers of training frameworks write, and those of papers' repositories.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Final

from ...accountant.errors import InvalidInput
from ..description.run_description import Reading
from .content import all_lines, lines_of
from .history import columns_of, is_history, reading_of
from .history_rows import History, limited_rows, require_whole_rows

FORMAT: Final = "CSV history"
DELIMITERS: Final = (",", ";", "\t", "|")

MAX_HEADER_CELLS: Final = 10_000
"""A line of more cells heads no table of a run."""


def recognises(content: bytes, name: str) -> bool:
    """Return whether the first line is a header with names of a private run."""
    del name
    return _delimiter(content) is not None


def read(content: bytes, name: str) -> Reading:
    """Return what the rows say; raises `InvalidInput` for rows that do not fit the header."""
    delimiter = _delimiter(content) or ","
    lines = all_lines(content)
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=True)
    try:
        header = [cell.strip() for cell in _first_row(reader)]
        columns = columns_of(header)
        positions = {role: header.index(column) for role, column in columns.items()}
        rows: list[dict[str, str]] = []
        numbers: list[int] = []
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise InvalidInput(
                    f"Line {reader.line_num} has {len(row)} cells, and the header has "
                    f"{len(header)}.",
                    "Cells that are missing or too many leave open what stands for what.",
                    "Correct the line.",
                )
            limited_rows(len(numbers))
            rows.append({role: row[position] for role, position in positions.items()})
            numbers.append(reader.line_num)
    except csv.Error as error:
        raise InvalidInput(
            f"Line {reader.line_num} is not CSV: {error}.",
            "A cell may be open, or longer than 128 KiB.",
            "Correct the line.",
        ) from None
    history = History(columns, rows, numbers)
    require_whole_rows(history)
    return reading_of(history, name, FORMAT)


def _first_row(reader: Iterator[list[str]]) -> list[str]:
    return next((row for row in reader if any(cell.strip() for cell in row)), [])


def _delimiter(content: bytes) -> str | None:
    """Return what parts the first line into names of a private run; None if nothing does."""
    first = next(iter(lines_of(content)), "")
    for delimiter in DELIMITERS:
        try:
            header = next(csv.reader([first], delimiter=delimiter), [])
        except csv.Error:
            continue
        if 1 < len(header) <= MAX_HEADER_CELLS and is_history([cell.strip() for cell in header]):
            return delimiter
    return None
