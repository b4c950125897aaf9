"""What each unit has spent before each observer, in whole parts of the budget.

A budget is divided into 10^15 equal parts.  A price is a whole number of parts, rounded up, and
parts are added as integers: no sum depends on its order or falls below the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .. import events as ev
from ..composition import MAX_ROUNDS, leaves
from ..errors import Unsupported
from ..neighbours import Neighbours
from .budget_currencies import Currency

PARTS: Final = 10**15
"""Parts of a budget."""

EXHAUSTED: Final = PARTS + 1
"""Stands for every number of parts above the budget."""

Parts: TypeAlias = NDArray[np.int64]
"""Parts of each purse, and of the delta that is set aside, which comes last."""


def price(event: ev.Event, currency: Currency, relation: Neighbours) -> Parts:
    """Return what an event costs, each number at most `EXHAUSTED`; `Unsupported` as `cost`."""
    total = [0] * (len(currency.budgets) + 1)
    for leaf in leaves(event):
        one = _price(currency, leaf.event, relation)
        total = [have + leaf.count * parts for have, parts in zip(total, one, strict=True)]
    return np.array([min(parts, EXHAUSTED) for parts in total], dtype=np.int64)


@lru_cache(maxsize=1024)
def _price(currency: Currency, event: ev.Event, relation: Neighbours) -> tuple[int, ...]:
    """Return the parts that one leaf costs."""
    try:
        cost = currency.cost(event, relation)
    except Unsupported as refusal:
        raise refusal.unforced() from None
    pairs = zip(cost.amounts, currency.budgets, strict=True)
    purses = tuple(_parts(amount, budget) for amount, budget in pairs)
    return (*purses, _parts(Fraction(cost.delta), Fraction(currency.target.slack)))


def _parts(amount: Fraction | float, budget: Fraction) -> int:
    if amount == 0:
        return 0
    if budget <= 0 or not isinstance(amount, Fraction):
        return EXHAUSTED
    return min(-(-(amount * PARTS) // budget), EXHAUSTED)


@dataclass
class Balances:
    """The parts that were spent: on releases that touch everybody, and by single units.

    A unit can pay while at least one purse that was never exceeded has room, and the delta set
    aside has room too.  Units that were never named have spent what touched everybody.
    """

    purses: int

    def __post_init__(self) -> None:
        self._common: Parts = np.zeros(self.purses + 1, dtype=np.int64)
        self._rows: dict[str, int] = {}
        self._own: Parts = np.zeros((16, self.purses + 1), dtype=np.int64)

    def spent(self, units: Sequence[str] | None = None) -> Parts:
        """Return what units have spent, a row for each; None is everybody, with a nameless row."""
        if units is None:
            known = self._own[: len(self._rows)]
            own = np.concatenate((known, np.zeros_like(self._common)[None, :]))
        else:
            own = np.zeros((len(units), self.purses + 1), dtype=np.int64)
            rows = np.array([self._rows.get(unit, -1) for unit in units], dtype=np.int64)
            own[rows >= 0] = self._own[rows[rows >= 0]]
        return np.asarray(np.minimum(own + self._common, EXHAUSTED))

    def admits(self, cost: Parts, units: Sequence[str] | None) -> bool:
        """Return whether everybody concerned can pay."""
        return bool(self._able(self.spent(units) + cost).all())

    def add(self, cost: Parts, units: Sequence[str] | None) -> None:
        """Spend; whether they can pay is `admits`' question."""
        if units is None:
            self._common = np.minimum(self._common + cost, EXHAUSTED)
            return
        rows = [self._row(unit) for unit in dict.fromkeys(units)]
        self._own[rows] = np.minimum(self._own[rows] + cost, EXHAUSTED)

    def rounds(self, cost: Parts, units: Sequence[str] | None) -> int:
        """Return how many releases of this cost everybody concerned can pay, at most 10^15."""
        spent = self.spent(units)
        left = np.maximum(PARTS - spent, -1)
        many = np.where(cost > 0, left // np.maximum(cost, 1), MAX_ROUNDS)
        many = np.where(left < 0, 0, many)
        each = np.minimum(many[:, :-1].max(axis=1), many[:, -1])
        return int(each.min(initial=MAX_ROUNDS))

    def _able(self, spent: Parts) -> NDArray[np.bool_]:
        within = spent <= PARTS
        return np.asarray(within[:, :-1].any(axis=1) & within[:, -1])

    def _row(self, unit: str) -> int:
        row = self._rows.setdefault(unit, len(self._rows))
        if row == len(self._own):
            self._own = np.concatenate((self._own, np.zeros_like(self._own)))
        return row
