"""The price of an event in a currency: whole budget units of 10^-15 of each budget, rounded up.

It is the server of a budget that prices; what a client says of a price counts for nothing.  An
event is charged release by release, each in its own right; in a currency of whole plans it is
charged as a whole.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from .. import events as ev
from ..arrays import IntArray
from ..composition import Composition
from ..errors import Unsupported
from ..event_tree import check_depth
from ..neighbours import Neighbours, as_neighbours
from .balances import BUDGET_UNITS, EXHAUSTED
from .budget_currencies import Currency

BudgetUnits = int | float
"""A whole number of budget units, or infinity."""


def price(event: ev.Event, currency: Currency, relation: Neighbours) -> IntArray:
    """Return what an event costs, an entry for each budget and a last one for delta.

    Each is a number of budget units of 10^-15 of the budget, rounded up and at most `EXHAUSTED`.
    Raises `Unsupported` where a release has no cost in the currency.
    """
    total = whole_price(event, currency, relation)
    return np.array([int(min(parts, EXHAUSTED)) for parts in total], dtype=np.int64)


def whole_price(
    event: ev.Event, currency: Currency, relation: Neighbours
) -> tuple[BudgetUnits, ...]:
    """Return the price of an event however far it is above the budget, which may be infinitely."""
    as_neighbours(relation)
    check_depth(event)
    if currency.whole_plans:
        return _price(currency, event, relation)
    total: list[BudgetUnits] = [0] * (len(currency.budgets) + 1)
    for leaf in Composition.of(event):
        price_of_leaf = _price(currency, leaf.event, relation)
        total = [
            units + leaf.count * cost for units, cost in zip(total, price_of_leaf, strict=True)
        ]
    return tuple(total)


@lru_cache(maxsize=1024)
def _price(currency: Currency, event: ev.Event, relation: Neighbours) -> tuple[BudgetUnits, ...]:
    """Return the price of one leaf, or of a whole plan, in budget units."""
    try:
        cost = currency.cost(event, relation)
    except Unsupported as refusal:
        raise refusal.unforced() from None
    pairs = zip(cost.amounts, currency.budgets, strict=True)
    budgets = tuple(_budget_units(amount, budget) for amount, budget in pairs)
    return (*budgets, _budget_units(Fraction(cost.delta), Fraction(currency.target.slack)))


def _budget_units(amount: Fraction | float, budget: Fraction) -> BudgetUnits:
    if amount == 0:
        return 0
    if budget <= 0 or not isinstance(amount, Fraction):
        return math.inf
    # Rounded up: a price is never below the cost.
    return -(-(amount * BUDGET_UNITS) // budget)
