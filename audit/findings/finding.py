"""A finding: what is wrong or in doubt of a run, under a stable id, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from ...accountant.guarantee import Bounds

UNTOUCHED_COPY: Final = "Take the log from a copy that nobody has touched."
"""What to do where a log was changed."""

COPY_OF_CUT_LOG: Final = (
    "Take the log from a copy that nobody has touched; what was cut out is spent all the same, and "
    "is not in the numbers here."
)
"""What to do where something was cut out of a log."""


Severity = Literal["error", "warning", "note", "info"]
"""`error`: the claim cannot rest on these facts, or the log does not support it.  `warning`: it
needs a condition that nothing shows, or promises little.  `note`: a fact to keep in mind; in the
result of a check it is called `info`."""

_RANKS: Final[dict[Severity, int]] = {"error": 0, "warning": 1, "note": 2, "info": 2}


@dataclass(frozen=True)
class Match:
    """What a rule matched: one sentence, the numbers of `lines` of a log, and what is still proven.

    `epsilon` is None where the finding changes no number, or where nothing is proven.  `severity`,
    `next_step` and `why` replace the rule's, where they are given.
    """

    says: str
    lines: tuple[int, ...] = ()
    epsilon: Bounds | None = None
    severity: Severity | None = None
    next_step: str | None = None
    why: str | None = None


@dataclass(frozen=True)
class NotStated:
    """A rule could not be tried: `what` says in one sentence which fact the log lacks.

    An older version or another program wrote the log.  This is neither a finding nor evidence that
    there is none.
    """

    what: str


@dataclass(frozen=True)
class Finding:
    """Something of a run that is wrong or in doubt: what was found, why it matters, what to do.

    `id` is stable.  `epsilon` is what is proven, or what the log still supports, once the finding
    is taken into account (None: not changed, or nothing); `lines` are those of a log, and
    `rests_on` names the facts that the rule was given (`registry.FACTS`).
    """

    id: str
    severity: Severity
    says: str
    why: str
    next_step: str
    epsilon: Bounds | None = None
    lines: tuple[int, ...] = ()
    rests_on: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return a JSON object, as audits of logs print it: of `lines` the first ten, and `count`.

        `what` is what the finding says, and `epsilon` the upper end.
        """
        return {
            "id": self.id,
            "severity": self.severity,
            "what": self.says,
            "why": self.why,
            "next": self.next_step,
            "epsilon": None if self.epsilon is None else self.epsilon.upper,
            "lines": list(self.lines[:10]),
            "count": len(self.lines),
        }


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings, errors before warnings before notes."""
    return tuple(sorted(findings, key=lambda finding: _RANKS[finding.severity]))
