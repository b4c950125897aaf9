"""The two keys that are lists: phases of a schedule, and releases besides the training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from ...accountant.decoding import require_fields
from ...accountant.errors import InvalidInput
from ...accountant.toml_source import WHY_NAMES_ARE_CLOSED
from .key import Check, boolean, count, non_negative, rate, text, word_of
from .printed_number import in_words
from .run_description import ExtraRelease, Phase

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
