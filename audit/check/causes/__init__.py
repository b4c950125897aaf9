"""Why a reported number is wrong or in doubt: rules over a described run, each with an id."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ...findings import Finding, Rule, apply_rules, rules_on, worst_first
from ..check_case import CheckCase
from . import accounting, clipping, counting, samplers

__all__ = ["CAUSE_RULES", "causes_of"]

_RULE_MODULES = (accounting, clipping, counting, samplers)

CAUSE_RULES: Final[Mapping[str, Rule]] = rules_on(("case",))
"""The rules about a description, by id."""

LAST: Final = "below-proven"
"""The cause of a false claim for which no rule finds a grave one."""


def causes_of(case: CheckCase) -> tuple[Finding, ...]:
    """Return the causes of a case, errors before warnings before notes.

    A false claim has a cause at least, and a claim that holds has none of severity `error`: what
    makes it weak, such as a large delta, is a warning then.
    """
    causes = apply_rules({"case": case}, order=_RULE_MODULES).findings
    if case.status == "holds" and not case.run.contradictions:
        causes = tuple(
            replace(each, severity="warning") if each.severity == "error" else each
            for each in causes
        )
    if any(each.severity == "error" and each.id != LAST for each in causes):
        causes = tuple(each for each in causes if each.id != LAST)
    return worst_first(causes)
