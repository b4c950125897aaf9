"""Budgets derived again from logs: what the facts of a run support, whatever it says of itself.

>>> from privplan.audit.budget import audit_budget
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .auditing import audit_budget, audit_ledger
    from .evidence import Evidence
    from .ledger import Entry, Ledger
    from .report import BudgetReport

__all__ = [
    "BudgetReport",
    "Entry",
    "Evidence",
    "Ledger",
    "audit_budget",
    "audit_ledger",
]

_HOME = {
    "BudgetReport": "report",
    "Entry": "ledger",
    "Evidence": "evidence",
    "Ledger": "ledger",
    "audit_budget": "auditing",
    "audit_ledger": "auditing",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first used: the rules stand on parts of this package."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
