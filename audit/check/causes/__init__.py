"""Why a reported number is wrong or in doubt: rules over a described run, each with an id."""

from __future__ import annotations

from . import (
    accounting,
    aggregation,
    batching,
    clipping,
    counting,
    deltas,
    other_settings,
    samplers,
)
from .cause_rule import CAUSE_RULES, MEANINGS, CauseFinding, apply_rules, cause_rule

__all__ = [
    "CAUSE_RULES",
    "MEANINGS",
    "RULE_MODULES",
    "CauseFinding",
    "apply_rules",
    "cause_rule",
]

RULE_MODULES = (
    *(samplers, counting, clipping, aggregation),
    *(batching, deltas, accounting, other_settings),
)
"""The modules of the rules, in the order in which causes of one severity are listed."""
