"""A budget that refuses before the release, and says which mathematics it is kept in."""

from .balances import Balances, add, copies, largest, room, share, take_back, vector
from .budget_currencies import BudgetReading
from .conversions import Conversion, converted
from .data_set_currency import (
    BudgetCurrency,
    budget_currency,
    epsilon_of,
    epsilon_of_largest,
    left_of,
    split_off,
)
from .fitting import Fit, fitting
from .odometer import Odometer
from .pricing import price

__all__ = [
    "Balances",
    "BudgetCurrency",
    "BudgetReading",
    "Conversion",
    "Fit",
    "Odometer",
    "add",
    "budget_currency",
    "converted",
    "copies",
    "epsilon_of",
    "epsilon_of_largest",
    "fitting",
    "largest",
    "left_of",
    "price",
    "room",
    "share",
    "split_off",
    "take_back",
    "vector",
]
