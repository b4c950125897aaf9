"""Plain text for a terminal: paragraphs and tables of at most 88 characters or so."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final

MAX_LINE_CHARACTERS: Final = 88
"""Characters of a line behind its label."""


def plain(text: str) -> str:
    """Return `text` on one line, with what a terminal would obey (or not show) written out."""
    # A line break inside a value could forge a line of ours.
    return printable(" ".join(text.split()))


def one_line(text: str) -> str:
    """Return `text` as it is named, with line breaks written out too: a name is no sentence."""
    return printable(text).replace("\n", "\\n")


def printable(text: str) -> str:
    """Return `text` in its lines, with what a terminal would obey (or not show) written out."""
    return "".join(
        char
        if char == "\n" or char.isprintable()
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def paragraph(label: str, text: str) -> str:
    """Return `text` plain and wrapped, behind a label and as far in as it."""
    return textwrap.fill(
        plain(text),
        width=88,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Return rows of a label and a text, the labels in one column.

    A row is one line: a name in it (of a folder, say) could otherwise forge another row.
    """
    width = max((len(label) for label, _ in rows), default=0) + 3
    return "\n".join(f"{one_line(label):<{width}}{one_line(text)}".rstrip() for label, text in rows)


def wrapped(label: str, text: str) -> list[tuple[str, str]]:
    """Return a text as rows of a table: the label beside its first line."""
    lines = textwrap.wrap(
        plain(text), MAX_LINE_CHARACTERS, break_long_words=False, break_on_hyphens=False
    )
    labels = [label, *[""] * len(lines)]
    return list(zip(labels, lines, strict=False))
