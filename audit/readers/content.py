"""The bytes of a file as text or JSON, with limits: what every reader asks first.

Nothing here runs what it reads.  What is no text, or no JSON, is answered with None or
`NOT_JSON`; what is JSON and misleads (one key twice, nesting without end, a number with more
digits than any field has) raises `InvalidInput`.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput


class NotJson:
    """What stands for a content that is no JSON, since JSON's null is None."""


NOT_JSON: Final = NotJson()


@lru_cache(maxsize=2)
def text_of(content: bytes) -> str | None:
    """Return the UTF-8 text of a content, without its byte order mark; None if it is none."""
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def all_lines(content: bytes) -> list[str]:
    """Return the lines of a text, none for what is no text.

    Line feeds and carriage returns end lines (progress bars write the latter), and nothing else
    does: other characters that Python splits at may stand inside a line.
    """
    text = text_of(content) or ""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def numbered_lines(content: bytes) -> list[tuple[int, str]]:
    """Return the lines of a text that are not blank, each with its number from 1."""
    return [(number, line) for number, line in enumerate(all_lines(content), 1) if line.strip()]


def lines_of(content: bytes) -> list[str]:
    """Return the lines of a text that are not blank; none for what is no text."""
    return [line for line in all_lines(content) if line.strip()]


def json_of_text(text: str, *, as_printed: bool = False) -> Any:
    """Return the value of a JSON text, `NOT_JSON` if it is none; see `json_of`."""
    try:
        return parsed_json(text, parse_float=Decimal if as_printed else float, parse_constant=float)
    except InvalidInput:
        raise
    except ValueError:
        return NOT_JSON


@lru_cache(maxsize=2)
def json_of(content: bytes, *, as_printed: bool = False) -> Any:
    """Return the value of a JSON content, `NOT_JSON` if it is none; nobody may change it.

    Numbers with a decimal point are floats, or with `as_printed` decimals that keep their digits.
    """
    text = text_of(content)
    if text is None or not text.lstrip()[:1]:
        return NOT_JSON
    return json_of_text(text, as_printed=as_printed)


def object_of(content: bytes, *, as_printed: bool = False) -> Mapping[str, Any] | None:
    """Return the JSON object of a content; None for anything else."""
    value = json_of(content, as_printed=as_printed)
    return value if isinstance(value, dict) else None
