"""What holds for the whole run: who is protected, under which relation, and who is there to see."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from ...accountant.errors import with_article
from ...accountant.guarantee import Neighbours, as_neighbours
from ...accountant.records import (
    RunOpen,
    Security,
)

Scope = Literal["same", "finer", "group"]
"""How the unit of a promise lies in what is clipped together: it is that, a part of it, or several
of it."""

_FINER_UNITS: Final = frozenset(
    {
        ("entry", "record"),
        ("entry", "user"),
        ("entry", "silo"),
        ("record", "user"),
        ("record", "silo"),
    }
)


class NoProof(Exception):
    """The facts support no guarantee; the text says why."""


@dataclass(frozen=True)
class RunSetting:
    """What holds for the whole run: the promise's unit and relation, and who is there to see.

    `users` and `records` are how many there are, None where that is not public; `aggregation` says
    what the server sees, and `security` by which protocol (see `reliable_facts`).  `scheduled` says
    that silos take part by a public schedule; in the setting of one of their rounds (`of_round`)
    `silos` are those that do, and `everyone` is how many there are in all.
    """

    unit: str
    neighbours: Neighbours
    group: int
    silos: int
    aggregation: str
    as_published: bool
    users: int | None = None
    records: int | None = None
    security: Security | None = None
    scheduled: bool = False
    everyone: int | None = None

    @classmethod
    def of(cls, opened: RunOpen, *, group: int | None = None) -> RunSetting:
        """Return the setting of a run; `group` replaces the number of records of one unit."""
        claim = opened.claim
        return cls(
            claim.unit,
            as_neighbours(claim.neighbours),
            claim.group if group is None else group,
            opened.population.silos,
            opened.aggregation,
            opened.as_published,
            opened.population.users,
            opened.population.records,
            opened.security,
            opened.plan.counted is not None,
        )

    def of_round(self, roster: int | None) -> RunSetting:
        """Return the setting of a round in which so many silos take part; twice is as once.

        None where no schedule is stated for the round: in a run that announces one, all do.
        """
        if self.everyone is not None or (roster is None and not self.scheduled):
            return self
        return replace(self, silos=self.silos if roster is None else roster, everyone=self.silos)

    @property
    def reach(self) -> int:
        """How many contribution bounds an event lets a sum move under the relation."""
        return 2 if self.neighbours == "replace-one" else 1

    def size(self, unit: str) -> int | None:
        """Return how many units of a kind there are; None where that is not known."""
        known = {"user": self.users, "record": self.records, "silo": self.silos}
        return known.get(unit) or None

    def scope(self, clipped: str) -> Scope:
        """Return how the unit lies in what is clipped together; `NoProof` where it does not."""
        # A promise for k records composes k single ones (`Group`), so the clip of one record
        # serves.
        if self.group > 1 and clipped in ("entry", "record"):
            return "group"
        if clipped == self.unit:
            return "same"
        if (self.unit, clipped) in _FINER_UNITS:
            return "finer"
        unit = with_article(self.unit)
        raise NoProof(
            f"each {clipped} is clipped by itself, and {unit} may hold any number of them"
        )
