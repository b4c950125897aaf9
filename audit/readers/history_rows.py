"""The rows of a history, and what must stand in them: no row lends another its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...accountant.errors import InvalidInput

SETTINGS: Final = ("noise", "rate", "steps", "batch", "accumulation")
"""Roles that a row must say where other rows say them with what it says itself."""

COMPANIONS: Final = (*SETTINGS, "step", "epoch", "epsilon")

MAX_HISTORY_ROWS: Final = 200_000
"""Most rows of a table; more would take gigabytes of memory."""


@dataclass(frozen=True)
class History:
    """`rows` of cells by role; `columns` are the names behind the roles, in their order.

    `numbers` are the numbers of the rows' lines in the file, for messages.
    """

    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, str]]
    numbers: Sequence[int]


def limited_rows(count: int) -> None:
    """Raise `InvalidInput` where a table that has `count` rows already goes on beyond the limit."""
    if count >= MAX_HISTORY_ROWS:
        raise InvalidInput(
            f"The history has more than {MAX_HISTORY_ROWS:,} rows.",
            "A run's privacy is in far fewer: its phases, or its last row.",
            "Give one row for each phase or epoch.",
        )


def require_whole_rows(history: History) -> None:
    """Raise `InvalidInput` for a row that lacks a setting which other rows of its kind have.

    Rows are of a kind where they share a column: a first line of JSON with the noise, before lines
    with an epoch each, is no kind of theirs, and speaks for all of them.
    """
    roles = [role for role in COMPANIONS if role in history.columns]
    filled = [{role for role in roles if row.get(role, "").strip()} for row in history.rows]
    together = {
        (setting, role)
        for cells in set(map(frozenset, filled))
        for setting in cells
        if setting in SETTINGS
        for role in cells
    }
    for cells, number in zip(filled, history.numbers, strict=True):
        for setting, role in sorted(together):
            if role in cells and setting not in cells:
                raise InvalidInput(
                    f"Line {number} has `{history.columns[role]:.40}` and no "
                    f"`{history.columns[setting]:.40}`, which other lines have with it.",
                    "That it is the same as in other lines is not said; the settings may stand "
                    "there under another name.",
                    "Fill the cell in, or describe the run in a TOML file.",
                )
