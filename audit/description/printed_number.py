"""A number as it is printed: its value, and how far the last digit leaves it open."""

from __future__ import annotations

import math
import numbers
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from ...accountant.errors import InvalidInput, kind_of

DECIMAL_TEXT: Final = re.compile(r"\+?\d{1,40}(\.\d{0,40})?([eE][+-]?\d{1,4})?", re.ASCII)
"""Text that is a number: digits, perhaps a point and an exponent."""

SMALLEST_EXPONENT: Final = -400
"""Decimals with more decimal places than this are not told from whole numbers of them."""


@dataclass(frozen=True)
class PrintedNumber:
    """A finite number with `half_unit`, half of its last printed digit (0 where it is exact).

    Whoever printed `1.19` had a number of at most 1.195 before them; `highest` is that number.

    >>> PrintedNumber.of(epsilon=Decimal("1.19")).highest
    1.195
    >>> PrintedNumber.of(epsilon="1.19").highest, PrintedNumber.of(epsilon=3).highest
    (1.19, 3.0)
    """

    value: float
    half_unit: float = 0.0

    @property
    def highest(self) -> float:
        """Return the largest number that is printed so."""
        return float(Decimal(repr(self.value)) + Decimal(repr(self.half_unit)))

    @property
    def lowest(self) -> float:
        """Return the smallest number that is printed so."""
        return float(Decimal(repr(self.value)) - Decimal(repr(self.half_unit)))

    @classmethod
    def of(cls, **field: object) -> PrintedNumber:
        """Return the number of a field: a `Decimal` is open by its last digit, others are exact.

        Strings are read as decimals, and are exact, as integers and floats are.  Raises
        `InvalidInput` for what is no finite number, 0 or above.
        """
        ((name, value),) = field.items()
        if isinstance(value, PrintedNumber):
            return value
        number = _decimal(value)
        if number is None or not number.is_finite() or number < 0 or math.isinf(float(number)):
            raise _no_number(name, value)
        return cls(float(number), half_unit_of(value))


def half_unit_of(value: object) -> float:
    """Return half of the last printed digit of a `Decimal`; 0 for numbers that are exact.

    A decimal without decimal places (1e1) says nothing of where it was rounded.

    >>> half_unit_of(Decimal("1.20")), half_unit_of(1.2), half_unit_of(Decimal("1e1"))
    (0.005, 0.0, 0.0)
    """
    if isinstance(value, PrintedNumber):
        return value.half_unit
    if not isinstance(value, Decimal):
        return 0.0
    exponent = value.as_tuple().exponent
    # The second comparison keeps exponents out that no float has.
    if not isinstance(exponent, int) or not SMALLEST_EXPONENT <= exponent < 0:
        return 0.0
    return float(f"5e{exponent - 1}")


def _decimal(value: object) -> Decimal | None:
    """Return a number, or the text of one, as a decimal; None for anything else."""
    if isinstance(value, Decimal):
        return value
    if isinstance(value, str):
        return Decimal(value) if DECIMAL_TEXT.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        return Decimal(repr(float(value)))
    except OverflowError:  # an integer above all floats
        return None


def _no_number(name: str, value: object) -> InvalidInput:
    """Return the complaint about a claim that is no number."""
    if _is_infinite(value):
        return InvalidInput(
            f"`{name}` is infinite.",
            "An infinite value promises nothing, so there is nothing to check.",
            f"Give `{name}` as it is printed, or leave it out.",
        )
    return InvalidInput(
        f"`{name}` must be a finite number, 0 or above; it is {in_words(value)}.",
        "A claim without a number cannot be checked.",
        f"Give `{name}` as it is printed, such as 1.19.",
    )


def _is_infinite(value: object) -> bool:
    if isinstance(value, str):
        return value.strip().lower().lstrip("+") in ("inf", "infinity")
    return isinstance(value, (Decimal, float)) and math.isinf(value)


def in_words(value: object) -> str:
    """Return a value that somebody gave, short enough for a sentence, and printable.

    >>> in_words("about 3"), in_words([1]), in_words(Decimal("1.20"))
    ("'about 3'", 'a list', '1.20')
    """
    if value is None:
        return "null"
    if isinstance(value, (bool, float, str)):
        shown = repr(value[:80] if isinstance(value, str) else value)
    elif isinstance(value, int):
        shown = str(value) if abs(value) < 10**60 else "a very large integer"
    elif isinstance(value, Decimal):
        shown = str(value)
    else:
        return kind_of(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
