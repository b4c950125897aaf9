"""Why a reported number is wrong or in doubt: rules over a described run, each with an id."""

from __future__ import annotations

from . import accounting, clipping, counting, samplers
from .cause_rule import CAUSE_RULES, MEANINGS, CauseFinding, apply_rules, cause_rule

__all__ = [
    "CAUSE_RULES",
    "MEANINGS",
    "CauseFinding",
    "apply_rules",
    "cause_rule",
]

_RULE_MODULES = (samplers, counting, clipping, accounting)
"""The modules of the rules, imported so that they are registered."""
