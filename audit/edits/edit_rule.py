"""Rules that detect edited logs: their registration by `edit_rule`, and their results.

A rule reads the log for something that no run of privplan writes.  It computes no budget, so that
`audit log`, which applies these rules too, stays quick.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ..ledger.entries import Ledger
from .lineage import Lineage


@dataclass(frozen=True)
class EditFinding:
    """A contradiction that a rule found: `what` in one sentence, and the numbers of its `lines`."""

    what: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class NotStated:
    """A rule could not be checked: `what` says in one sentence which fact the log lacks.

    An older version or another program wrote the log.  This is neither a contradiction nor
    evidence that there is none.
    """

    what: str


@dataclass(frozen=True)
class Contradiction:
    """Something in a log, or in the files beside it, that no run can have left there.

    `id` is that of the rule; `what` was found in which `lines`, `why` it matters, and `next_step`.
    """

    id: str
    what: str
    why: str
    next_step: str
    lines: tuple[int, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return a JSON object, with the numbers of the first ten lines, and how many there are."""
        return {
            "id": self.id,
            "what": self.what,
            "why": self.why,
            "next": self.next_step,
            "lines": list(self.lines[:10]),
            "count": len(self.lines),
        }


@dataclass
class History:
    """What the rules read of a log: its ledger, and the lineage of its models."""

    ledger: Ledger

    @cached_property
    def lineage(self) -> Lineage:
        """From model to model: which one each round starts from, and which it releases."""
        return Lineage.of(self.ledger)


EditCheck = Callable[[History], EditFinding | NotStated | None]
"""The check of a rule; None where it finds nothing."""


@dataclass(frozen=True)
class EditRule:
    """A rule: its stable `id`, why a finding matters, what to do then, and the check itself."""

    id: str
    why: str
    next_step: str
    check: EditCheck

    def apply(self, history: History) -> Contradiction | NotStated | None:
        """Return the contradiction that the check finds, or that it cannot be made; else None."""
        finding = self.check(history)
        if finding is None or isinstance(finding, NotStated):
            return finding
        return Contradiction(self.id, finding.what, self.why, self.next_step, finding.lines)


EDITS: Final[dict[str, EditRule]] = {}
"""Every registered rule by its id, in the order of registration."""


def edit_rule(name: str, *, why: str, next_step: str) -> Callable[[EditCheck], EditCheck]:
    """Return a decorator that registers a check as the rule with the id `name`."""

    def register(check: EditCheck) -> EditCheck:
        EDITS[name] = EditRule(name, why, next_step, check)
        return check

    return register
