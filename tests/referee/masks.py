"""What chance or the hour decides in an answer, and is therefore not compared; each with why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


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


def masked(text: str, names: list[str]) -> str:
    """Return a text with the masks of these names put on."""
    for name in names:
        text = MASKS[name].pattern.sub(MASKS[name].instead, text)
    return text
