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

MEANINGS: Final[dict[str, str]] = {}
"""What each cause means, in one sentence, by its id."""

LAST: Final = "below-proven"
"""The cause of a false claim for which no rule finds a grave one."""

ORDER: Final[dict[Severity, int]] = {"error": 0, "warning": 1, "info": 2}


def cause_rule(name: str, meaning: str) -> Callable[[CauseCheck], CauseCheck]:
    """Return a decorator that registers a check as the rule of the cause `name`."""

    def register(check: CauseCheck) -> CauseCheck:
        CAUSE_RULES[name] = check
        MEANINGS[name] = meaning
        return check

    return register


def apply_rules(case: CheckCase) -> tuple[Cause, ...]:
    """Return the causes of a case, errors before warnings before infos.

    A false claim has a cause at least, and a claim that holds has none of severity `error`: what
    makes it weak, such as a large delta, is a warning then.
    """
    causes = [
        _cause(case, name, finding)
        for name, check in CAUSE_RULES.items()
        if name != LAST and (finding := check(case)) is not None
    ]
    if all(cause.severity != "error" for cause in causes):
        finding = CAUSE_RULES[LAST](case)
        causes += [] if finding is None else [_cause(case, LAST, finding)]
    return tuple(sorted(causes, key=lambda cause: ORDER[cause.severity]))


def _cause(case: CheckCase, name: str, finding: CauseFinding) -> Cause:
    holds = case.standing == "holds" and not case.run.contradictions
    severity = "warning" if holds and finding.severity == "error" else finding.severity
    return Cause(name, severity, finding.says, finding.next_step, finding.epsilon)
