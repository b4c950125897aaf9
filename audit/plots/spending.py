"""Epsilon by round: of a run as its log shows it, and of an event before anybody runs it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant import events as ev
from ...accountant.account import account
from ...accountant.errors import InvalidInput
from ...accountant.event_tree import observer_of, unit_of
from ...fl.log.reader import NEXT, UNBEGUN, WHY, BadLine, log_of
from ..budget import Ledger
from ..budget.auditing import verified_entries
from ..budget.report import CLAIM_ROUNDING_RELATIVE
from ..report.run_facts import RunFacts, SpendingPoint, course_of
from .chart import Axis, Chart, Gap, Level, Mark, Points, conditions, stairs

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAX_POINTS: Final = 24
"""Most rounds at which epsilon of an event is computed."""

MAX_DRAWN_RATIO: Final = 20.0
"""How many times what is proven a budget may be, to be drawn next to it."""


@dataclass(frozen=True)
class SpendingCourse:
    """How epsilon grows with rounds, between both ends; `budget` is what it is meant to keep to.

    `rounds` is how many are planned, `stated` what the last line of a log says that was spent.
    """

    points: tuple[SpendingPoint, ...]
    rounds: int
    conditions: str
    budget: float | None = None
    stated: float | None = None

    @classmethod
    def of_ledger(cls, ledger: Ledger) -> SpendingCourse:
        """Return that of a log whose chain was verified."""
        return cls._of_run(ledger, course_of(ledger))

    @classmethod
    def of_facts(cls, facts: RunFacts) -> SpendingCourse:
        """Return that of a run that was read already."""
        claim = facts.opened.claim
        stated = {row.observer: row.stated for row in facts.budget.rows}.get(claim.observer)
        said = _said(claim.unit, claim.group, claim.neighbours, claim.delta, claim.observer)
        return cls(facts.course, facts.budget.planned_rounds, said, claim.epsilon, stated)

    @classmethod
    def _of_run(cls, ledger: Ledger, points: tuple[SpendingPoint, ...]) -> SpendingCourse:
        claim, closed = ledger.opened.claim, ledger.closed
        stated = None if closed is None else closed.epsilon.get(claim.observer)
        said = _said(claim.unit, claim.group, claim.neighbours, claim.delta, claim.observer)
        return cls(points, ledger.opened.plan.rounds, said, claim.epsilon, stated)

    @classmethod
    def of_folder(
        cls,
        folder: str | Path,
        *,
        public_key: Ed25519PublicKey | None = None,
        expected_head: str | None = None,
    ) -> SpendingCourse:
        """Return that of the run in a folder.

        Raises `InvalidInput` where there is no log, and `BadLine` where its chain is broken.
        """
        verified, entries = verified_entries(folder, public_key, expected_head)
        if verified.first_bad is not None:
            raise BadLine(log_of(folder), *verified.first_bad)
        if not entries:
            raise InvalidInput(f"There is nothing to plot in {folder}: {UNBEGUN}.", WHY, NEXT)
        return cls.of_ledger(Ledger.of(entries))

    @classmethod
    def of_event(
        cls, event: ev.EventLike, *, delta: float, neighbours: str, budget: float | None = None
    ) -> SpendingCourse:
        """Return what the first rounds of an event prove, at up to 24 of them.

        Rounds are the repetitions of a `Repeat`, and the parts of a `Compose`.  Raises as `account`
        does.
        """
        known = ev.known_event(event)
        count, first = _rounds(known)
        # Epsilon grows about as the root of the rounds, so most points stand where it is steep.
        at = sorted({math.ceil(count * (k / MAX_POINTS) ** 2) for k in range(1, MAX_POINTS + 1)})
        points = []
        for rounds in at:
            proven = account(first(rounds), delta=delta, neighbours=neighbours).epsilon
            points.append(SpendingPoint(rounds, proven.upper, proven.lower))
        said = _said(unit_of(known), 1, neighbours, delta, observer_of(known))
        return cls(tuple(points), count, said, budget)

    def chart(self) -> Chart:
        """Return the plot: a band between both ends, and the budget.

        Raises `InvalidInput` where no number is finite.
        """
        finite = [point for point in self.points if math.isfinite(point.epsilon)]
        if not finite:
            raise InvalidInput(
                "There is no plot of epsilon by round: no round has a finite epsilon.",
                "What was released supports no guarantee.",
                "privplan audit budget DIR says why.",
            )
        rounds = [0.0, *(float(point.rounds) for point in finite)]
        lower = [0.0, *(point.lower for point in finite)]
        upper = [0.0, *(point.epsilon for point in finite)]
        band = stairs(rounds, lower, upper)
        marks: list[Mark] = []
        end = float(max(self.rounds, self.points[-1].rounds))
        if len(finite) < len(self.points):
            marks.append(Gap("no finite epsilon", rounds[-1], float(self.points[-1].rounds)))
        label = "proven, upper end (the guarantee)"
        marks.append(type(band)(label, band.x, band.lower, band.upper))
        notes = []
        top = upper[-1]
        if self.budget is not None:
            if self.budget <= MAX_DRAWN_RATIO * top:
                marks.append(Level(f"budget: epsilon {self.budget:g}", self.budget))
                if top > self.budget * (1.0 + CLAIM_ROUNDING_RELATIVE):
                    notes.append("The last round that is drawn exceeds the budget.")
                top = max(top, self.budget)
            else:
                notes.append(f"The budget, epsilon {self.budget:g}, lies far above.")
        if self.stated is not None and self.stated <= MAX_DRAWN_RATIO * upper[-1]:
            stated = (float(self.points[-1].rounds),), (self.stated,)
            marks.append(Points("stated at the end of the log", *stated, "claimed"))
            top = max(top, self.stated)
        return Chart(
            "Epsilon by round",
            self.conditions,
            Axis("rounds", limits=(0.0, end), whole=True),
            Axis("epsilon (nats)", limits=(0.0, 1.08 * top or 1.0)),
            tuple(marks),
            tuple(notes),
        )


def _said(unit: str, group: int, neighbours: str, delta: float, observer: str) -> str:
    whole = unit if group == 1 else f"{unit} of up to {group:,} records"
    return conditions(unit=whole, neighbours=neighbours, delta=float(delta), observer=observer)


def _rounds(event: ev.Event) -> tuple[int, Callable[[int], ev.Event]]:
    """Return how many rounds an event has, and what its first so many are."""
    match event:
        case ev.Group(size, inner):
            count, within = _rounds(inner)
            return count, lambda rounds: ev.Group(size, within(rounds))
        case ev.Repeat(count, inner):
            return count, lambda rounds: ev.Repeat(rounds, inner)
        case ev.Compose(events) if events:
            parts = [_rounds(part) for part in events]

            def first(rounds: int) -> ev.Event:
                taken = []
                for count, within in parts:
                    if rounds > 0:
                        taken.append(within(min(rounds, count)))
                    rounds -= count
                return ev.Compose(tuple(taken))

            return sum(count for count, _ in parts), first
    return 1, lambda _: event
