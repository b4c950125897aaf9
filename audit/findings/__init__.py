"""Findings: what rules find in descriptions, in logs and in the files next to a log."""

from __future__ import annotations

from .finding import (
    COPY_OF_CUT_LOG,
    UNTOUCHED_COPY,
    Finding,
    Match,
    NotStated,
    Severity,
    worst_first,
)
from .registry import FACTS, RULES, Rule, Search, apply_rules, rule, rules_on

__all__ = [
    "COPY_OF_CUT_LOG",
    "FACTS",
    "RULES",
    "UNTOUCHED_COPY",
    "Finding",
    "Match",
    "NotStated",
    "Rule",
    "Search",
    "Severity",
    "apply_rules",
    "rule",
    "rules_on",
    "worst_first",
]
