"""Whole numbers of budget units: what a claim costs, what a block has spent, what still fits.

A vector has a number for each budget of the currency (one, or one for each Renyi order), and a last
one for the delta that is set aside.  Numbers are Python's: no sum overflows, none is rounded, and
what is taken back is exactly what was added.

A claim fits a block where at least one budget has room for it, and the delta has room too.  So one
budget, never exceeded by what was begun, bounds the loss of every unit (the proof stands in
`accountant.odometer.budget_currencies`); a claim that is cancelled before it was begun drew no
noise, and leaves every sum of what was begun as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final, TypeAlias

from ...accountant.composition import MAX_ROUNDS
from ...accountant.odometer.balances import BUDGET_UNITS, EXHAUSTED

Vector: TypeAlias = tuple[int, ...]
"""Budget units, by budget, and those of delta."""

UNPAYABLE: Final = 10**40
"""Stands for a price that no budget pays: a sum with it is above every cap, also a raised one."""

ROUNDING_SHARE: Final = 10**9
"""A log states decimal numbers, and an audit rounds them outward: a part of so many is no loss."""


def price_vector(prices: Iterable[float]) -> Vector:
    """Return a price of `accountant.odometer` as a vector, also above the budget: a cap may rise.

    >>> price_vector([5, 2 * EXHAUSTED, float("inf")]) == (5, 2 * EXHAUSTED, UNPAYABLE)
    True
    """
    return tuple(int(units) if units < UNPAYABLE else UNPAYABLE for units in prices)


def zero(size: int) -> Vector:
    """Return what a block has spent before its first claim."""
    return (0,) * size


def plus(spent: Vector, price: Vector) -> Vector:
    """Return the sum."""
    return tuple(a + b for a, b in zip(spent, price, strict=True))


def minus(spent: Vector, price: Vector) -> Vector:
    """Return the difference; `ValueError` where more is taken back than was added."""
    left = tuple(a - b for a, b in zip(spent, price, strict=True))
    if min(left) < 0:
        raise ValueError("more is given back than was spent")
    return left


def above(first: Vector, second: Vector) -> Vector:
    """Return by how much each number of the first is above that of the second, at least 0."""
    return tuple(max(0, a - b) for a, b in zip(first, second, strict=True))


def largest(vectors: Iterable[Vector]) -> Vector:
    """Return the largest number of each budget."""
    return tuple(map(max, zip(*vectors, strict=True)))


def is_clearly_above(difference: Vector, price: Vector) -> bool:
    """Return whether a difference to a price is more than the rounding of a log's numbers explains.

    >>> is_clearly_above((1, 0), (10**10, 0)), is_clearly_above((11, 0), (10**10, 0))
    (False, True)
    """
    return any(each * ROUNDING_SHARE > units for each, units in zip(difference, price, strict=True))


def within(spent: Vector, cap: Vector) -> bool:
    """Return whether a sum is within at least one budget, and within the delta.

    >>> within((5, 20, 0), (10, 10, 0)), within((20, 20, 0), (10, 10, 0)), within((5, 1), (9, 0))
    (True, False, False)
    """
    pairs = list(zip(spent, cap, strict=True))
    return any(a <= b for a, b in pairs[:-1]) and pairs[-1][0] <= pairs[-1][1]


def count_that_fits(spent: Vector, price: Vector, cap: Vector) -> int:
    """Return how many claims of this price still fit, at most 10^15.

    >>> count_that_fits((0, 0), (3, 0), (10, 0)), count_that_fits((0, 0), (3, 1), (10, 0))
    (3, 0)
    """

    def times(index: int) -> int:
        left = cap[index] - spent[index]
        if left < 0:
            return 0
        return MAX_ROUNDS if price[index] == 0 else min(left // price[index], MAX_ROUNDS)

    return min(max(times(index) for index in range(len(cap) - 1)), times(len(cap) - 1))


def tightest(rooms: Iterable[tuple[Sequence[int], Sequence[int]]]) -> Vector:
    """Return what a block would have spent of 10^15 units that has room for no more than each room.

    A room is what is spent and the cap; what fits all of them in one budget may be more.

    >>> tightest([((4, 0), (10, 0))]) == (BUDGET_UNITS - 6, BUDGET_UNITS)
    True
    """
    shifted = [
        tuple(max(0, min(a + BUDGET_UNITS - b, EXHAUSTED)) for a, b in zip(spent, cap, strict=True))
        for spent, cap in rooms
    ]
    return largest(shifted)


def part(cap: Vector, share: Fraction) -> Vector:
    """Return a share of a cap, rounded down."""
    return tuple(int(units * share) for units in cap)


def share_spent(spent: Vector, cap: Vector) -> Fraction:
    """Return the spent share of a cap: of the budget that is least spent, or of the delta."""
    shares = [
        Fraction(a, b) if b else Fraction(int(a > 0)) for a, b in zip(spent, cap, strict=True)
    ]
    return max(min(shares[:-1]), shares[-1])


def texts(vector: Vector) -> list[str]:
    """Return a vector as it stands in an entry: decimal strings."""
    return [str(units) for units in vector]


def stored(vector: Vector) -> str:
    """Return a vector as it stands in a column."""
    return json.dumps(texts(vector))


def loaded(text: str) -> Vector:
    """Return the vector of a column."""
    return tuple(map(int, json.loads(text)))


def of_texts(source: object, size: int) -> Vector:
    """Return the vector of decimal strings; `ValueError` where it is none of this size."""
    if not isinstance(source, list) or len(source) != size:
        raise ValueError("a vector has one number for each budget, and one for delta")
    if not all(isinstance(each, str) and each.isascii() and each.isdigit() for each in source):
        raise ValueError("budget units are decimal strings of whole numbers")
    if any(len(each) > 60 for each in source):
        raise ValueError("a number of budget units has at most 60 digits")
    return tuple(map(int, source))


def spent_most(balances: Mapping[str, Vector], cap: Vector) -> str:
    """Return the block that has spent most of a cap; the first by name where several have."""
    return max(sorted(balances), key=lambda name: share_spent(balances[name], cap))


def largest_spending(balances: Sequence[Vector], cap: Vector) -> Vector:
    """Return what the block has spent that has spent most of a cap."""
    return max(balances, key=lambda spent: share_spent(spent, cap))


__all__ = [
    "BUDGET_UNITS",
    "UNPAYABLE",
    "Vector",
    "above",
    "count_that_fits",
    "is_clearly_above",
    "largest",
    "largest_spending",
    "loaded",
    "minus",
    "of_texts",
    "part",
    "plus",
    "price_vector",
    "share_spent",
    "spent_most",
    "stored",
    "texts",
    "tightest",
    "within",
    "zero",
]
