"""The registration of rules that find causes, each under a stable id."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ....accountant.guarantee import Bounds
from ..check_case import CheckCase
from ..check_result import Cause, Severity


@dataclass(frozen=True)
class CauseFinding:
    """A cause that a rule found: how grave it is, what it does, what to do next."""

    severity: Severity
    says: str
    next_step: str
    epsilon: Bounds | None = None


CauseCheck = Callable[[CheckCase], CauseFinding | None]

CAUSE_RULES: Final[dict[str, CauseCheck]] = {}
"""Every rule by the id of its cause."""


def cause_rule(name: str) -> Callable[[CauseCheck], CauseCheck]:
    """Return a decorator that registers a check as the rule of the cause `name`."""

    def register(check: CauseCheck) -> CauseCheck:
        CAUSE_RULES[name] = check
        return check

    return register


def apply_rules(case: CheckCase) -> tuple[Cause, ...]:
    """Return the causes of a case, errors before warnings before infos."""
    order = {"error": 0, "warning": 1, "info": 2}
    causes = [
        Cause(name, finding.severity, finding.says, finding.next_step, finding.epsilon)
        for name, check in CAUSE_RULES.items()
        if (finding := check(case)) is not None
    ]
    return tuple(sorted(causes, key=lambda cause: order[cause.severity]))
