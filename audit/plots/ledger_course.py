"""What each block of a data set has spent over time, against its cap, by an exported history."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput
from ..budget_service.audit_limits import exported_lines
from ..budget_service.audited import LedgerAudit, audit_history
from ..budget_service.balances import Vector, largest
from ..budget_service.terms import Terms, epsilon_of
from .chart import Axis, Chart, Line, Mark, conditions, shown

if TYPE_CHECKING:
    from ..budget_service.replayed import ReplayedHistory

MAX_DRAWN_BLOCKS: Final = 6
"""Most blocks that are drawn: those that have spent most."""

MAX_DRAWN_MOMENTS: Final = 400
"""Most moments of one line; of what lies between two, the largest is drawn."""

TIME_UNITS: Final = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0))
"""What time is counted in: the longest of which a history has at least two."""


@dataclass(frozen=True)
class LedgerMoment:
    """A data set after an entry: when its service says it was, what was spent, and the cap."""

    seq: int
    at: str
    spent: dict[str, Vector]
    cap: float


@dataclass
class LedgerCourse:
    """The moments of a history, noted while it is audited (`audit_history(..., after=noted)`)."""

    moments: list[LedgerMoment] = field(default_factory=list)
    terms: Terms | None = None
    audit: LedgerAudit | None = None

    def note(self, line: bytes, history: ReplayedHistory) -> None:
        """Note what an entry left."""
        entry = json.loads(line)
        self.terms = history.terms
        at, spent = str(entry.get("at", "")), dict(history.spent)
        self.moments.append(LedgerMoment(int(entry["seq"]), at, spent, history.epsilon))

    @classmethod
    def of_export(cls, path: str | Path) -> LedgerCourse:
        """Return the course of an exported history; raises as `exported_lines` does."""
        course = cls()
        course.audit = audit_history(exported_lines(path), after=course.note)
        return course

    def chart(self) -> Chart:
        """Return what was spent against the cap, up to the first entry that contradicts others.

        Raises `InvalidInput` where the history has no good entry.
        """
        terms = self.terms
        if terms is None or not self.moments:
            raise InvalidInput(
                "There is nothing to plot: the history has no entry that a service writes.",
                "What was spent is added up from its entries.",
                "privplan audit ledger EXPORT says what is wrong.",
            )
        when, label = _times(self.moments)
        end = when[-1] or 1.0
        final = {name: _number(terms, units) for name, units in self.moments[-1].spent.items()}
        ranked = sorted(final, key=lambda name: -final[name])
        caps = [(x, moment.cap) for x, moment in zip(when, self.moments, strict=True)]
        courses = {name: self._course_of(name, when, terms) for name in ranked[:MAX_DRAWN_BLOCKS]}
        known = [number for course in courses.values() for _, number in course]
        top = 1.08 * max(each for each in (*known, *(cap for _, cap in caps)) if each < math.inf)
        marks: list[Mark] = []
        for name, course in courses.items():
            # What has no finite epsilon is drawn at the top, and a note says so.
            x, y = _stairs([(at, min(number, top)) for at, number in course], end)
            marks.append(Line(f"block {shown(name)}", x, y))
        changed = [caps[0], *(b for a, b in itertools.pairwise(caps) if a[1] != b[1])]
        marks.append(Line("cap", *_stairs(changed, end), "limit"))
        endless = [name for name in courses if final[name] == math.inf]
        return Chart(
            "Spending of a data set",
            conditions(
                data_set=shown(terms.name),
                unit=terms.currency.unit,
                neighbours=terms.neighbours,
                delta=terms.delta,
                observer=shown(terms.observer),
            ),
            Axis(label, limits=(0.0, end)),
            Axis("epsilon spent, upper end (nats)", limits=(0.0, top)),
            tuple(marks),
            self._notes(ranked, endless),
        )

    def _course_of(
        self, name: str, when: Sequence[float], terms: Terms
    ) -> list[tuple[float, float]]:
        moments = zip(when, self.moments, strict=True)
        course = [(at, moment.spent[name]) for at, moment in moments if name in moment.spent]
        return [(at, _number(terms, units)) for at, units in _thinned(course)]

    def _notes(self, ranked: Sequence[str], endless: Sequence[str]) -> tuple[str, ...]:
        notes = []
        if endless:
            names = ", ".join(map(shown, endless))
            notes.append(f"Drawn at the top, as no finite epsilon is known: {names}.")
        if len(ranked) > MAX_DRAWN_BLOCKS:
            others = len(ranked) - MAX_DRAWN_BLOCKS
            notes.append(f"{others:,} more block{'s' * (others > 1)}, none of which spent more.")
        if self.audit is not None and self.audit.problem is not None:
            good = len(self.moments)
            notes.append(
                f"Only the first {good:,} entries are drawn: a later one contradicts them."
            )
        return tuple(notes)


def _number(terms: Terms, units: Vector) -> float:
    return float(epsilon_of(terms, units))


def _thinned(course: Sequence[tuple[float, Vector]]) -> list[tuple[float, Vector]]:
    """Return the moments at which something changed; of too many, the largest of each stretch."""
    changed = [course[0], *(b for a, b in itertools.pairwise(course) if a[1] != b[1])]
    if len(changed) <= MAX_DRAWN_MOMENTS:
        return changed
    width = math.ceil(len(changed) / MAX_DRAWN_MOMENTS)
    stretches = [changed[k : k + width] for k in range(0, len(changed), width)]
    whole = [(each[0][0], largest([units for _, units in each])) for each in stretches]
    return [*whole, changed[-1]]


def _stairs(
    course: Iterable[tuple[float, float]], end: float
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return a line that keeps each number until the next, up to the end."""
    x: list[float] = []
    y: list[float] = []
    for at, number in course:
        if x:
            x.append(at)
            y.append(y[-1])
        x.append(at)
        y.append(number)
    return (*x, end), (*y, y[-1])


def _times(moments: Sequence[LedgerMoment]) -> tuple[list[float], str]:
    """Return when each entry was made, and from when on; else the number of the entry."""
    try:
        at = [datetime.fromisoformat(moment.at) for moment in moments]
        seconds = [(each - at[0]).total_seconds() for each in at]
    except (ValueError, TypeError):
        seconds = []
    if seconds and seconds == sorted(seconds):
        for name, length in TIME_UNITS:
            if seconds[-1] >= 2.0 * length:
                # By the clock of the service: nothing in a history proves it.
                since = f"{name} since {at[0]:%Y-%m-%d %H:%M %Z} (the service's clock)"
                return [each / length for each in seconds], since
    return [float(moment.seq) for moment in moments], "entry of the history"
