"""Budgets derived again from logs: what the facts of a run support, whatever it says of itself.

>>> from privplan.audit.budget import audit_budget
"""

from __future__ import annotations

from ..evidence.evidence import Evidence
from ..ledger import Entry, Ledger
from .auditing import audit_budget, audit_ledger
from .report import BudgetReport

__all__ = [
    "BudgetReport",
    "Entry",
    "Evidence",
    "Ledger",
    "audit_budget",
    "audit_ledger",
]
