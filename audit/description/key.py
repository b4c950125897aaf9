"""One key of a description: its range, what it means, and how a value becomes a fact."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from ...accountant import validate
from ...accountant.decoding import decimal_number, suggestion
from ...accountant.errors import InvalidInput
from .printed_number import PrintedNumber, half_unit_of, in_words
from .run_description import Fact, Provenance

Check = Callable[[str, object], object]
"""Takes the name of a key and a value; returns the value in its type, or raises `InvalidInput`."""


ALLOCATION_WORDS: Final = ("random-allocation", "random allocation", "balls-in-bins")
"""What people call a sampler that only `privplan account` takes."""

GROUPED_DIGITS: Final = re.compile(r"\d{1,3}([,_ ]\d{3})+")
"""A count as people write it: 60,000."""

SMALLEST_RATE: Final = 1e-18
"""One of as many records as are ever counted."""


@dataclass(frozen=True)
class Key:
    """A dotted `name`, its `check`, its `meaning`, and the question that `asks` for it.

    `words` are the allowed words of a key that has some; `is_text` tells a key of free text.
    """

    name: str
    check: Check
    meaning: str
    asks: str
    words: tuple[str, ...] = ()
    is_text: bool = False

    def value(self, given: object) -> object:
        """Return a value in the type of the key; raises `InvalidInput` outside its range."""
        return self.check(self.name, given)

    def fact(self, given: object, provenance: Provenance, source: str) -> Fact:
        """Return the fact that a source states, with the precision of its last digit."""
        value = self.value(given)
        return Fact(value, provenance, source, _half_unit(self.name, value, given))


def _half_unit(name: str, value: object, given: object) -> float:
    """Return how far the last printed digit leaves the value open."""
    if isinstance(value, (PrintedNumber, float)):
        # A delta of one digit, as 1e-5, is meant so; and 1.67e-5 is a rounded 1/60000.
        if name == "claim.delta" and isinstance(given, Decimal):
            digits = len(given.normalize().as_tuple().digits)
            return half_unit_of(given) if digits > 1 else 0.0
        return half_unit_of(given)
    if name == "schedule.phases" and isinstance(given, Sequence):
        rates = (half_unit_of(row[1]) for row in given if isinstance(row, Sequence))
        return max(rates, default=0.0)
    return 0.0


def plain_number(name: str, value: object) -> object:
    """Return a number that was parsed as a decimal as a float; a container is refused."""
    if isinstance(value, PrintedNumber):
        return value.value
    if isinstance(value, Decimal):
        return float("nan") if value.is_nan() else float(value)
    if isinstance(value, str):
        step = f"Write `{name}` without quotes."
        if GROUPED_DIGITS.fullmatch(value):
            step = f"Write the digits alone: {re.sub('[,_ ]', '', value)}."
        raise InvalidInput(
            f"`{name}` must be a number; it is the text {in_words(value)}.", next_step=step
        )
    if value is None or isinstance(value, (list, tuple, dict)):
        raise InvalidInput(
            f"`{name}` must be a number; it is {in_words(value)}.",
            next_step=f"Give `{name}` a number, or leave it out.",
        )
    return value


def claimed(name: str, value: object) -> PrintedNumber:
    """Return the number of a claim, as precisely as it is printed."""
    return PrintedNumber.of(**{name: value})


def positive(name: str, value: object) -> float:
    """Return a finite number above 0."""
    return validate.positive(**{name: plain_number(name, value)})


def non_negative(name: str, value: object) -> float:
    """Return a finite number that is at least 0."""
    return validate.non_negative(**{name: plain_number(name, value)})


def rate(name: str, value: object) -> float:
    """Return a number in (0, 1], at least `SMALLEST_RATE`."""
    number = validate.probability(**{name: plain_number(name, value)})
    if number < SMALLEST_RATE:
        raise InvalidInput(
            f"`{name}` must be above 0, and at most 1; it is {number:g}.",
            "Nothing would ever be sampled.",
            f"Give `{name}` a value in that range.",
        )
    return number


def delta(name: str, value: object) -> float:
    """Return a number in [0, 1), given as a number or as a decimal string."""
    number = decimal_number(value) if isinstance(value, str) else plain_number(name, value)
    if number is None:
        raise InvalidInput(
            f"`{name}` must be a number in [0, 1); it is {in_words(value)}.",
            next_step="Give a number, or say by which rule it was set: "
            'delta_rule = "1/records" or "1/batches" (--set delta_rule=1/records).',
        )
    probability = validate.probability(**{name: number})
    if probability >= 1.0:
        raise InvalidInput(
            f"`{name}` must be a number in [0, 1); it is 1.",
            "With delta 1 nothing is promised.",
            f"Give `{name}` a value in that range.",
        )
    return probability


def count(name: str, value: object) -> int:
    """Return a positive integer; a decimal that is whole (6e4) counts as one."""
    number = plain_number(name, value)
    # An integer that a program wrote as 60000.0 is still that integer.
    if isinstance(number, float) and number.is_integer() and abs(number) <= 2**53:
        number = int(number)
    return validate.count(**{name: number})


def boolean(name: str, value: object) -> bool:
    """Return true or false."""
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise InvalidInput(
        f"`{name}` must be true or false; it is {in_words(value)}.",
        next_step=f"Write {name.rpartition('.')[2]} = true, or = false.",
    )


def text(name: str, value: object) -> str:
    """Return a text in one line, of 1 to 200 characters."""
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        raise InvalidInput(
            f"`{name}` must be a text of 1 to 200 characters; it is {in_words(value)}.",
            next_step=f"Give `{name}` a short text, or leave it out.",
        )
    if not value.isprintable():
        raise InvalidInput(
            f"`{name}` must be a text in one line; it is {in_words(value)}.",
            next_step="Take out line breaks and control characters.",
        )
    return value.strip()


def word_of(words: Sequence[str]) -> Check:
    """Return the check of a key with closed words."""

    def check(name: str, value: object) -> str:
        if isinstance(value, str) and value in words:
            return value
        listed = ", ".join(words)
        if name == "sampling.method" and value in ALLOCATION_WORDS:
            raise InvalidInput(
                f"`{name}` must be one of {listed}; it is {in_words(value)}.",
                "A description has no word for random allocation; `account` takes it.",
                "privplan account --sampling random-allocation --claimed E, with the noise "
                "multiplier, records, batch and epochs.",
            )
        raise InvalidInput(
            f"`{name}` must be one of {listed}; it is {in_words(value)}.",
            next_step=suggestion(str(value)[:80], words, f"Give `{name}` one of those words.")
            if isinstance(value, str)
            else f"Give `{name}` one of those words.",
        )

    return check
