"""A budget that refuses before the release, and says which mathematics it is kept in."""

from .budget_currencies import BudgetReading
from .odometer import Odometer

__all__ = ["BudgetReading", "Odometer"]
