"""Hazards of a log, and the registration of the rules that find them, each under a stable id."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ..edits.edit_rule import NotStated
from ..evidence.evidence import Evidence, RoundKind
from ..evidence.observed_rounds import ObservedEvent

Severity = Literal["error", "warning", "note"]
"""`error`: the log does not support its claim.  `warning`: it does, under a condition that a reader
should check.  `note`: a fact to keep in mind."""


@dataclass(frozen=True)
class RuleFinding:
    """A hazard that a rule found: one sentence, its lines, and what the log still supports.

    `lines` are line numbers.  `epsilon` is what the log still supports; None where the finding
    changes no number, or nothing is supported.  `severity` and `next_step` replace the rule's,
    where they are given.
    """

    what: str
    lines: tuple[int, ...] = ()
    epsilon: float | None = None
    severity: Severity | None = None
    next_step: str | None = None


@dataclass(frozen=True)
class Hazard:
    """A fault of a log: a claim that it does not support, or a fact that its reader should know.

    `id` and `why` are those of the rule, `what` was found in which `lines`, and `epsilon` is what
    the log still supports (None: not changed, or nothing).
    """

    id: str
    severity: Severity
    what: str
    why: str
    next_step: str
    epsilon: float | None = None
    lines: tuple[int, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the hazard as a JSON object, with the first ten lines and how many there are."""
        return {
            "id": self.id,
            "severity": self.severity,
            "what": self.what,
            "why": self.why,
            "next": self.next_step,
            "epsilon": self.epsilon,
            "lines": list(self.lines[:10]),
            "count": len(self.lines),
        }


RuleCheck = Callable[[Evidence], RuleFinding | NotStated | None]
"""The check of a rule; None where it finds nothing."""


@dataclass(frozen=True)
class Rule:
    """A rule: its stable `id`, its severity, why a finding matters, what to do, and its check.

    `explains` says that the rule gives the reason why a stated event is not what the facts support.
    """

    id: str
    severity: Severity
    why: str
    next_step: str
    check: RuleCheck
    explains: bool = False

    def apply(self, evidence: Evidence) -> Hazard | NotStated | None:
        """Return the hazard that the check finds, or that it cannot be made; else None."""
        finding = self.check(evidence)
        if finding is None or isinstance(finding, NotStated):
            return finding
        # A finding may be graver or milder than its rule, as the facts of the log say.
        return Hazard(
            self.id,
            finding.severity or self.severity,
            finding.what,
            self.why,
            finding.next_step or self.next_step,
            finding.epsilon,
            finding.lines,
        )


RULES: Final[dict[str, Rule]] = {}
"""Every rule by its id, in the order in which hazards are listed."""


def rule(
    name: str, severity: Severity, *, why: str, next_step: str, explains: bool = False
) -> Callable[[RuleCheck], RuleCheck]:
    """Return a decorator that registers a check as the rule with the id `name`."""

    def register(check: RuleCheck) -> RuleCheck:
        RULES[name] = Rule(name, severity, why, next_step, check, explains)
        return check

    return register


# --- what rules share ---------------------------------------------------------------------------


def lines_of(kinds: list[RoundKind]) -> tuple[int, ...]:
    """Return the lines of the intents of some kinds of rounds, in order."""
    return tuple(sorted(line for kind in kinds for line in kind.lines))


def left_over(evidence: Evidence) -> float | None:
    """Return the epsilon that the log supports before its claim's observer; None if infinite."""
    upper = evidence.spent_total(evidence.ledger.opened.claim.observer).upper
    return upper if math.isfinite(upper) else None


def disputed(seen: ObservedEvent) -> bool:
    """Return whether the stated event claims more privacy than the facts support."""
    return seen.verdict in ("stronger", "different")


def rounds(count: int) -> str:
    """Return a number of rounds as text, such as `1 round` or `1,000 rounds`."""
    return "1 round" if count == 1 else f"{count:,} rounds"
