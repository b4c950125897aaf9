"""One key of a description: its range, its meaning, how a value becomes a fact; two are lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, cast

from ...accountant import validate
from ...accountant.decoding import decimal_number
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import require_fields, suggestion
from ...accountant.toml_source import WHY_NAMES_ARE_CLOSED
from .printed_number import PrintedNumber, half_unit_of, in_words
from .run_description import ExtraRelease, Fact, Phase, Provenance

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


MAX_ROWS: Final = 100_000
"""Most phases or releases that are read."""

RELEASE_FAMILIES: Final = ("gaussian", "laplace")
"""Families of the noise of a release besides; its scale or deviation is over what a unit moves."""

RELEASE_FIELDS: Final[Mapping[str, Check]] = {
    "what": text,
    "noise_multiplier": non_negative,
    "count": count,
    "moves": boolean,
    "family": word_of(RELEASE_FAMILIES),
    "of_batch": boolean,
}
"""What a release besides may say, and the range of each."""


def phases(name: str, value: object) -> tuple[Phase, ...]:
    """Return phases from rows of noise multiplier, rate and steps, in order."""
    result = []
    for index, row in enumerate(_rows(name, value)):
        if isinstance(row, Phase):
            row = (row.noise_multiplier, row.rate, row.steps)
        if not isinstance(row, (list, tuple)) or len(row) != 3:
            raise InvalidInput(
                f"`{name}[{index}]` must be a list of three numbers; it is {in_words(row)}.",
                next_step="Give noise multiplier, rate and steps, such as [1.1, 0.004, 1000].",
            )
        result.append(
            Phase(
                non_negative(f"{name}[{index}].noise_multiplier", row[0]),
                rate(f"{name}[{index}].rate", row[1]),
                count(f"{name}[{index}].steps", row[2]),
            )
        )
    return tuple(result)


def releases(name: str, value: object) -> tuple[ExtraRelease, ...]:
    """Return extra releases from tables of `RELEASE_FIELDS`."""
    if isinstance(value, Mapping):
        raise InvalidInput(
            f"`{name}` must be a list of tables; it is one table.",
            next_step=f"Write [[{name}]], in two brackets, or a list in JSON.",
        )
    return tuple(_release(f"{name}[{index}]", row) for index, row in enumerate(_rows(name, value)))


def _rows(name: str, value: object) -> list[object]:
    if not isinstance(value, (list, tuple)) or not 0 < len(value) <= MAX_ROWS:
        given = in_words(value)
        if isinstance(value, (list, tuple)):
            given = f"one of {len(value):,}" if value else "empty"
        raise InvalidInput(
            f"`{name}` must be a list of 1 to {MAX_ROWS:,} rows; it is {given}.",
            next_step=f"Give `{name}` a row for each, or leave it out.",
        )
    return list(value)


def _release(name: str, row: object) -> ExtraRelease:
    if isinstance(row, ExtraRelease):
        row = {field: getattr(row, field) for field in RELEASE_FIELDS}
        row = {field: value for field, value in row.items() if value is not None}
    if not isinstance(row, Mapping):
        raise InvalidInput(
            f"`{name}` must be a table; it is {in_words(row)}.",
            next_step=f"Its keys: {', '.join(RELEASE_FIELDS)}.",
        )
    require_fields(
        row,
        RELEASE_FIELDS,
        name,
        optional=RELEASE_FIELDS,
        why_closed=WHY_NAMES_ARE_CLOSED,
        otherwise=f"Known: {', '.join(RELEASE_FIELDS)}.",
    )
    given = {
        field: check(f"{name}.{field}", row[field])
        for field, check in RELEASE_FIELDS.items()
        if field in row
    }
    return ExtraRelease(**cast(Mapping[str, Any], given))
