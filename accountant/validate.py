"""One shape for every complaint about a value: the field, its range, and what was given.

Each check takes exactly one keyword, `check(field=value)`, and returns the value in its
canonical type.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from .errors import InvalidInput, kind_of


def _single(field: Mapping[str, object]) -> tuple[str, object]:
    ((name, value),) = field.items()
    return name, value


def _refuse(name: str, allowed: str, value: object) -> InvalidInput:
    try:
        shown = repr(value)
    except ValueError:  # an integer with more digits than Python prints
        shown = "a very large integer"
    if len(shown) > 60:
        shown = shown[:57] + "..."
    return InvalidInput(
        f"`{name}` must be {allowed}; it is {shown}.",
        next_step=f"Give `{name}` a value in that range.",
    )


def _real(name: str, allowed: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _refuse(name, allowed, value)
    try:
        number = float(value)
    except OverflowError:
        raise _refuse(name, allowed, value) from None
    if math.isnan(number):
        raise _refuse(name, allowed, value)
    return number


def _number(
    field: Mapping[str, object], allowed: str, is_allowed: Callable[[float], bool]
) -> float:
    name, value = _single(field)
    number = _real(name, allowed, value)
    if not is_allowed(number):
        raise _refuse(name, allowed, value)
    return number


def finite(**field: object) -> float:
    """Return a finite number, of any sign."""
    return _number(field, "a finite number", math.isfinite)


def positive(**field: object) -> float:
    """Return a finite number above 0."""
    return _number(field, "a finite number above 0", lambda x: 0.0 < x < math.inf)


def non_negative(**field: object) -> float:
    """Return a finite number that is at least 0."""
    return _number(field, "a finite number, 0 or above", lambda x: 0.0 <= x < math.inf)


def probability(**field: object) -> float:
    """Return a number in [0, 1]."""
    return _number(field, "a number in [0, 1]", lambda x: 0.0 <= x <= 1.0)


def open_probability(**field: object) -> float:
    """Return a number strictly between 0 and 1."""
    return _number(field, "a number strictly between 0 and 1", lambda x: 0.0 < x < 1.0)


def probability_below_one(**field: object) -> float:
    """Return a number in [0, 1)."""
    return _number(field, "a number, 0 or above and below 1", lambda x: 0.0 <= x < 1.0)


LARGEST_COUNT: Final = 10**18
"""Counts above this are surely mistakes, and would overflow what is computed from them."""


def count(**field: object) -> int:
    """Return a positive integer, at most `LARGEST_COUNT`."""
    return _integer(field, 1, "a positive integer")


def count_from(least: int, **field: object) -> int:
    """Return an integer that is at least `least`, and at most `LARGEST_COUNT`."""
    return _integer(field, least, f"an integer, {least} or above")


def _integer(field: Mapping[str, object], least: int, allowed: str) -> int:
    name, value = _single(field)
    # True is an integer in Python, and never a count.
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise _refuse(name, allowed, value)
    number = int(value)
    if number > LARGEST_COUNT:
        raise _refuse(name, f"{allowed}, at most 10^18", value)
    if number < least:
        raise _refuse(name, allowed, value)
    return number


def choice(options: Sequence[str], **field: object) -> str:
    """Return one of the given words."""
    name, value = _single(field)
    if not isinstance(value, str) or value not in options:
        raise _refuse(name, "one of " + ", ".join(options), value)
    return value


def listed(**field: object) -> list[float]:
    """Return the numbers of a list, at least one; infinite ones are left to the caller."""
    name, values = _single(field)
    next_step = "Give a list such as [2.0, 4.0, 8.0]."
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidInput(
            f"`{name}` must be a list of numbers; it is {kind_of(values)}.", next_step=next_step
        )
    listed_numbers = [
        _real(f"{name}[{index}]", "a number", value) for index, value in enumerate(values)
    ]
    if not listed_numbers:
        raise InvalidInput(
            f"`{name}` must be a list of numbers, at least one; it is empty.", next_step=next_step
        )
    return listed_numbers
