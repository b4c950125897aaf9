"""What each unit has spent before each observer, in whole budget units.

A budget is divided into 10^15 equal budget units.  A price is a whole number of them, rounded up,
and they are added as integers: no sum depends on its order or falls below the truth.

Arrays of budget units hold a column for each budget of the currency (one, or one for each Renyi
order), and a last one for the delta that is set aside for the releases' own deltas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from .. import events as ev
from ..arrays import BoolArray, IntArray
from ..composition import MAX_ROUNDS, leaves
from ..errors import Unsupported
from ..neighbours import Neighbours
from .budget_currencies import Currency

BUDGET_UNITS: Final = 10**15
"""Budget units in a whole budget."""

EXHAUSTED: Final = BUDGET_UNITS + 1
"""Stands for every number of budget units above the budget."""


def price(event: ev.Event, currency: Currency, relation: Neighbours) -> IntArray:
    """Return what an event costs, each number at most `EXHAUSTED`; `Unsupported` as `cost`."""
    total = [0] * (len(currency.budgets) + 1)
    for leaf in leaves(event):
        price_of_leaf = _price(currency, leaf.event, relation)
        total = [
            units + leaf.count * cost for units, cost in zip(total, price_of_leaf, strict=True)
        ]
    return np.array([min(parts, EXHAUSTED) for parts in total], dtype=np.int64)


@lru_cache(maxsize=1024)
def _price(currency: Currency, event: ev.Event, relation: Neighbours) -> tuple[int, ...]:
    """Return the price of one leaf in budget units."""
    try:
        cost = currency.cost(event, relation)
    except Unsupported as refusal:
        raise refusal.unforced() from None
    pairs = zip(cost.amounts, currency.budgets, strict=True)
    budgets = tuple(_budget_units(amount, budget) for amount, budget in pairs)
    return (*budgets, _budget_units(Fraction(cost.delta), Fraction(currency.target.slack)))


def _budget_units(amount: Fraction | float, budget: Fraction) -> int:
    if amount == 0:
        return 0
    if budget <= 0 or not isinstance(amount, Fraction):
        return EXHAUSTED
    # Rounded up: a price is never below the cost.
    return min(-(-(amount * BUDGET_UNITS) // budget), EXHAUSTED)


@dataclass
class Balances:
    """The budget units that were spent: on releases that touch everybody, and by single units.

    A unit can pay while at least one budget that was never exceeded has room, and the delta set
    aside has room too.  Units that were never named have spent what touched everybody.
    """

    budgets: int

    def __post_init__(self) -> None:
        self._common: IntArray = np.zeros(self.budgets + 1, dtype=np.int64)
        # One row for each unit that was ever named; the table doubles when it is full.
        self._rows: dict[str, int] = {}
        self._by_unit: IntArray = np.zeros((16, self.budgets + 1), dtype=np.int64)

    def spent(self, units: Sequence[str] | None = None) -> IntArray:
        """Return what units have spent, a row for each; None is everybody, with a nameless row."""
        if units is None:
            known = self._by_unit[: len(self._rows)]
            spent = np.concatenate((known, np.zeros_like(self._common)[None, :]))
        else:
            spent = np.zeros((len(units), self.budgets + 1), dtype=np.int64)
            rows = np.array([self._rows.get(unit, -1) for unit in units], dtype=np.int64)
            spent[rows >= 0] = self._by_unit[rows[rows >= 0]]
        return np.asarray(np.minimum(spent + self._common, EXHAUSTED))

    def admits(self, cost: IntArray, units: Sequence[str] | None) -> bool:
        """Return whether everybody concerned can pay."""
        return bool(self._within_budget(self.spent(units) + cost).all())

    def add(self, cost: IntArray, units: Sequence[str] | None) -> None:
        """Spend; whether they can pay is `admits`' question."""
        if units is None:
            self._common = np.minimum(self._common + cost, EXHAUSTED)
            return
        rows = [self._row(unit) for unit in dict.fromkeys(units)]
        self._by_unit[rows] = np.minimum(self._by_unit[rows] + cost, EXHAUSTED)

    def rounds(self, cost: IntArray, units: Sequence[str] | None) -> int:
        """Return how many releases of this cost everybody concerned can pay, at most 10^15."""
        spent = self.spent(units)
        # A budget that is exceeded pays for nothing more, ever.
        left = np.maximum(BUDGET_UNITS - spent, -1)
        affordable = np.where(cost > 0, left // np.maximum(cost, 1), MAX_ROUNDS)
        affordable = np.where(left < 0, 0, affordable)
        each = np.minimum(affordable[:, :-1].max(axis=1), affordable[:, -1])
        return int(each.min(initial=MAX_ROUNDS))

    def _within_budget(self, spent: IntArray) -> BoolArray:
        within = spent <= BUDGET_UNITS
        return np.asarray(within[:, :-1].any(axis=1) & within[:, -1])

    def _row(self, unit: str) -> int:
        row = self._rows.setdefault(unit, len(self._rows))
        if row == len(self._by_unit):
            self._by_unit = np.concatenate((self._by_unit, np.zeros_like(self._by_unit)))
        return row
