"""What chance or the hour decides in an answer, and is therefore not compared; each with why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Mask:
    """A pattern in printed text, what stands in its place, and why it is not compared."""

    name: str
    pattern: re.Pattern[str]
    instead: str
    reason: str


def _mask(name: str, pattern: str, instead: str, reason: str) -> Mask:
    return Mask(name, re.compile(pattern), instead, reason)


MASKS: Final = {
    mask.name: mask
    for mask in (
        _mask(
            "hash",
            r"\b[0-9a-f]{64}\b",
            "<hash>",
            "The head of a new log is the hash of lines that hold fresh noise and the hour.",
        ),
        _mask(
            "run",
            r"\b[0-9a-f]{32}\b",
            "<run>",
            "The number of a new run is drawn at random.",
        ),
        _mask(
            "measured",
            r"(?<=accuracy )[\d.]+|(?<=loss )[\d.]+|(?<=roc_auc )[\d.]+",
            "<measured>",
            "What a new run measures on its test data depends on fresh noise.",
        ),
        _mask(
            "version",
            r"\b\d+\.\d+(?:\.\d+)+(?:[.+]\w+)*\b",
            "<version>",
            "`doctor` prints the versions of what is installed.",
        ),
    )
}
"""All masks by name; a case names those that it needs."""


FIELDS: Final = {
    "gap": "The difference of two numbers that agree to six digits or more, both of which are "
    "compared: its last digits are those of the processor.",
}
"""Fields of JSON objects that are not compared, each with why."""


def without_fields(value: Any) -> Any:
    """Return a JSON value with a word in the place of each number of `FIELDS`."""
    if isinstance(value, dict):
        return {
            key: f"<{key}>"
            if key in FIELDS and isinstance(inner, (int, float))
            else without_fields(inner)
            for key, inner in value.items()
        }
    return [without_fields(inner) for inner in value] if isinstance(value, list) else value


def masked(text: str, names: list[str]) -> str:
    """Return a text with the masks of these names put on."""
    for name in names:
        text = MASKS[name].pattern.sub(MASKS[name].instead, text)
    return text
