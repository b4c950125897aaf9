"""A budget that refuses before the release, and says which mathematics it is kept in.

- `odometer`: composes what is released, and refuses before a release that would pass the budget.
- `adaptive_ledger`, `plan_ledger`: releases chosen by earlier results; releases fixed beforehand.
- `budget_currencies`, `plan_currencies`, `data_set_currency`: what a budget is kept in: zCDP, Renyi
  at fixed orders, mu^2, whole plans; and a data set's choice.
- `pricing`, `balances`, `fitting`, `conversions`: prices in whole units, what blocks have spent,
  what would still fit, and events stated for another unit.
- `gaussian_domination`: the mu of a whole plan, up to a slack.
"""

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
