"""Names of data sets, blocks, projects and holders, and the refusals of the service."""

from __future__ import annotations

import re
from typing import Final

from ...accountant.errors import InvalidInput, ServiceFault

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}")

MAX_BLOCKS: Final = 400
"""Most blocks of a data set, so that one claim can charge all of them in one transaction."""


class Refusal(ServiceFault):
    """What the service answers instead of doing it: an HTTP status, and a word for programs.

    `more` is what the answer holds besides, such as what would still fit.
    """

    def __init__(
        self,
        status: int,
        word: str,
        what: str,
        why: str = "",
        next_step: str = "",
        more: dict[str, object] | None = None,
    ) -> None:
        super().__init__(what, why, next_step)
        self.status, self.word, self.more = status, word, more or {}


def name_of(**field: object) -> str:
    """Return a name; `InvalidInput` unless it is 1 to 100 letters, digits and . _ + -.

    >>> name_of(block="2026-11")
    '2026-11'
    """
    ((name, value),) = field.items()
    if not isinstance(value, str) or _NAME.fullmatch(value) is None:
        raise InvalidInput(
            f"`{name}` must be 1 to 100 letters, digits, and . _ + or -, the first a letter or "
            "a digit.",
            "It stands in addresses and in the history that everybody reads.",
            f"Give a short `{name}`.",
        )
    return value


def names_of(**field: object) -> tuple[str, ...]:
    """Return a list of at most 400 names that are different, as `name_of`."""
    ((name, values),) = field.items()
    if not isinstance(values, list) or not 1 <= len(values) <= MAX_BLOCKS:
        raise InvalidInput(f"`{name}` must be a list of 1 to {MAX_BLOCKS} names.")
    names = tuple(name_of(**{name: each}) for each in values)
    if len(set(names)) < len(names):
        raise InvalidInput(f"`{name}` names something twice.", next_step="Name each once.")
    return names
