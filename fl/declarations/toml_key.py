"""A key of a configuration: its name, its range, what it means, and its default.

Nothing heavy is imported here, so that lists and pages cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...accountant import validate
from ...accountant.errors import InvalidInput


@dataclass(frozen=True)
class Key:
    """One key of a table.

    `check(name=value)` returns the value in its canonical type or raises `InvalidInput`: it is the
    key's range.  `meaning` and `default` are what a person reads; `why` is the reason for the
    range, and `words` are what may be written where that is a word.
    """

    name: str
    check: Callable[..., Any]
    meaning: str
    default: str
    why: str = ""
    words: tuple[str, ...] = ()


def word(name: str, words: tuple[str, ...], meaning: str, default: str, why: str = "") -> Key:
    """Return a key that takes one of `words`."""

    def check(**field: object) -> str:
        return validate.choice(words, **field)

    return Key(name, check, meaning, default, why, words)


def choice(name: str, values: tuple[int, ...], meaning: str, default: str, why: str = "") -> Key:
    """Return a key that takes one of the integers `values`."""

    def check(**field: object) -> int:
        ((_, value),) = field.items()
        if isinstance(value, bool) or value not in values:
            allowed = ", ".join(map(str, values))
            raise InvalidInput(f"`{name}` must be one of {allowed}; it is {value!r:.60}.")
        return validate.count(**field)

    return Key(name, check, meaning, default, why)


def between(least: int, most: int) -> Callable[..., int]:
    """Return the range of the integers from `least` to `most`."""

    def check(**field: object) -> int:
        ((name, value),) = field.items()
        integer = validate.count_from(least, **field)
        if integer > most:
            raise InvalidInput(
                f"`{name}` must be an integer from {least} to {most}; it is {value!r}."
            )
        return integer

    return check


def at_least(least: int) -> Callable[..., int]:
    """Return the range of the integers from `least`."""

    def check(**field: object) -> int:
        return validate.count_from(least, **field)

    return check


def rate(**field: object) -> float:
    """Return a number in (0, 1]."""
    ((name, value),) = field.items()
    if validate.probability(**field) == 0.0:
        raise InvalidInput(f"`{name}` must be a number in (0, 1]; it is {value!r}.")
    return validate.probability(**field)


def below_one(**field: object) -> float:
    """Return a number in [0, 1)."""
    ((name, value),) = field.items()
    if validate.probability(**field) == 1.0:
        raise InvalidInput(f"`{name}` must be a number in [0, 1); it is {value!r}.")
    return validate.probability(**field)


def text(**field: object) -> str:
    """Return a text that is not empty and holds no control characters."""
    ((name, value),) = field.items()
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidInput(f"`{name}` must be a text; it is {value!r:.60}.")
    return value


def flag(**field: object) -> bool:
    """Return true or false."""
    ((name, value),) = field.items()
    if not isinstance(value, bool):
        raise InvalidInput(f"`{name}` must be true or false; it is {value!r:.60}.")
    return value
