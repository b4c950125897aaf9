"""A budget that refuses before the release, and says which mathematics it is kept in."""

from .balances import Balances, add, copies, largest, room, share, take_back, vector
from .budget_currencies import BudgetReading
from .data_set_currency import (
    BudgetCurrency,
    budget_currency,
    epsilon_of,
    epsilon_of_largest,
    left_of,
)
from .odometer import Odometer
from .pricing import price

__all__ = [
    "Balances",
    "BudgetCurrency",
    "BudgetReading",
    "Odometer",
    "add",
    "budget_currency",
    "copies",
    "epsilon_of",
    "epsilon_of_largest",
    "largest",
    "left_of",
    "price",
    "room",
    "share",
    "take_back",
    "vector",
]
