"""What no run writes: how a rule that looks for it is entered, and what it returns.

These rules read a log, and compute nothing of its budget: `audit log` looks with them too, and
stays quick.
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
    """What a rule saw: one sentence, and the lines."""

    what: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class NotStated:
    """What a rule could not look at, in one sentence: neither a fault nor a sign that all is well.

    The log lacks a fact that the rule compares: an older version wrote it, or another program.
    """

    what: str


@dataclass(frozen=True)
class Contradiction:
    """What cannot stand in a log, or beside it, as a run left them."""

    id: str
    what: str
    why: str
    next_step: str
    lines: tuple[int, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object, with the first ten lines and how many there are."""
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
    """A log, and which models its rounds start from and leave."""

    ledger: Ledger

    @cached_property
    def lineage(self) -> Lineage:
        """Which models the rounds start from and leave."""
        return Lineage.of(self.ledger)


EditCheck = Callable[[History], EditFinding | NotStated | None]


@dataclass(frozen=True)
class EditRule:
    """A rule: its stable `id`, why it matters, what to do, and how it looks."""

    id: str
    why: str
    next_step: str
    look: EditCheck

    def applied(self, history: History) -> Contradiction | NotStated | None:
        """Return the contradiction, if there is one, or what could not be looked at."""
        seen = self.look(history)
        if seen is None or isinstance(seen, NotStated):
            return seen
        return Contradiction(self.id, seen.what, self.why, self.next_step, seen.lines)


EDITS: Final[dict[str, EditRule]] = {}
"""Every rule by its id."""


def edit(name: str, *, why: str, next_step: str) -> Callable[[EditCheck], EditCheck]:
    """Return a decorator that enters a rule under its id."""

    def enter(look: EditCheck) -> EditCheck:
        EDITS[name] = EditRule(name, why, next_step, look)
        return look

    return enter
