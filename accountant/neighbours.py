"""The neighbouring relations: what one step between two data sets is, and how it is said in words.

This is the one vocabulary of the tree: configurations, options, records and reports import it.

    add-remove     one unit present or absent
    replace-one    one unit's data replaced by other data
    zero-out       one unit's data replaced by zeros
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from . import validate

Neighbours = Literal["add-remove", "replace-one", "zero-out"]
"""A relation between neighbouring data sets."""

NEIGHBOURS: Final[tuple[Neighbours, ...]] = ("add-remove", "replace-one", "zero-out")
"""All relations."""

Unit = Literal["record", "user", "silo", "entry"]
"""What is there or not, or replaced: all of one record, user or silo, or one number of a record."""

CHANGE_WORDS: Final[Mapping[str, str]] = {
    "add-remove": "adding or removing one {unit}",
    "replace-one": "replacing one {unit} by another",
    "zero-out": "replacing one {unit} by zeros",
}
"""The step as an action, to be filled in with the unit."""

UNIT_WORDS: Final[Mapping[str, str]] = {
    "add-remove": "is there or is not",
    "replace-one": "is replaced by another",
    "zero-out": "is replaced by zeros",
}
"""What happens to one unit, after its name."""

GROUP_WORDS: Final[Mapping[str, str]] = {
    "add-remove": "come or go together",
    "zero-out": "are all set to zero, or all there",
    "replace-one": "may all be replaced by as many others",
}
"""What happens to the records of one unit, after their number."""


def as_neighbours(neighbours: object) -> Neighbours:
    """Return `neighbours` if it is a known relation; raise `InvalidInput` otherwise."""
    validate.choice(NEIGHBOURS, neighbours=neighbours)
    return next(known for known in NEIGHBOURS if known == neighbours)
