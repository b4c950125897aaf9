"""What the public files of a run say, gathered for one page.

Only the log is read.  The sealed sidecar and the sealed report hold facts from before the noise;
a page that is handed on has no place for them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import InvalidInput
from ...accountant.records import AuditResult, Evaluation, RunOpen
from ..budget import BudgetReport, Entry, Evidence, Ledger, audit_ledger
from ..budget.report import Chain
from ..hazards.chain import torn_line
from ..hazards.edited import hazards_beside
from ..log.reader import Scan
from ..log.results import Result, result_of
from ..measurement import Measurement

POINTS: Final = 24
"""At how many rounds, at most, epsilon is derived for the curve."""

ROUNDS: Final = 10_000
"""Of runs with more rounds it is derived at fewer of them, as each takes as long as the rounds."""

FEWEST: Final = 4
"""But at so many."""


@dataclass(frozen=True)
class Spending:
    """What the log supports once `rounds` of its rounds were spent: an upper end of epsilon."""

    rounds: int
    epsilon: float


@dataclass(frozen=True, eq=False)
class RunFacts:
    """A run as its log shows it.

    `budget` is what the log supports; `course` how that grew, before the observer of the claim;
    `event` all of it as one event, for that observer; `evaluation` the last metrics of the model;
    `results` what audits appended, and `measured` those of them that can be read as such: all, as
    whoever shows the newest alone lets one choose among them.
    """

    opened: RunOpen
    budget: BudgetReport
    course: tuple[Spending, ...]
    event: ev.Event
    evaluation: Evaluation | None
    results: tuple[Result, ...]

    @property
    def measured(self) -> tuple[tuple[int, Measurement], ...]:
        """What was measured and published, each with the number of its line."""
        return tuple(
            (one.number, one.measurement) for one in self.results if one.measurement is not None
        )

    @property
    def contradicting(self) -> tuple[tuple[int, Measurement], ...]:
        """What was measured that contradicts a claim, whether or not it says so itself."""
        return tuple(one for one in self.measured if contradicts(one[1]))


def contradicts(one: Measurement) -> bool:
    """Return whether a result rejects its claim, or bounds from below what is above it."""
    above = one.kind == "lower-bound" and one.claimed is not None and one.value > one.claimed
    return one.contradicted or above


def read(folder: str | Path) -> RunFacts:
    """Return the facts of the run in a folder.

    Raises `InvalidInput` where there is no log, and `BadLine` where its chain is broken: a page
    about a log that somebody changed would lend it a good appearance.
    """
    scan = Scan(folder)
    entries = [Entry(line.number, line.seq, line.record) for line in scan]
    if not entries:
        raise InvalidInput(
            f"The log in {folder} holds no record.",
            "There is nothing to report on.",
            "Give the folder of a run.",
        )
    ledger = Ledger.of(entries)
    evidence = Evidence.of(ledger)
    torn = [] if scan.torn is None else [torn_line(scan.torn.number)]
    beside = hazards_beside(folder, ledger)
    return RunFacts(
        opened=ledger.opened,
        budget=audit_ledger(ledger, Chain(scan.records, scan.head), more=[*torn, *beside]),
        course=_course(ledger),
        event=evidence.composed(ledger.opened.claim.observer),
        evaluation=ledger.evaluations[-1][1] if ledger.evaluations else None,
        results=tuple(
            result_of(one.record, one.number)
            for one in entries
            if isinstance(one.record, AuditResult)
        ),
    )


def _course(ledger: Ledger) -> tuple[Spending, ...]:
    """Return what the first rounds of a log support, at up to `POINTS` of them."""
    made, observer = len(ledger.spent), ledger.opened.claim.observer
    found = []
    points = max(FEWEST, POINTS * ROUNDS // max(ROUNDS, made))
    for rounds in sorted({round(made * step / points) for step in range(1, points + 1)} - {0}):
        first = replace(ledger, spent=ledger.spent[:rounds], closed=None)
        found.append(Spending(rounds, Evidence.of(first).total(observer).upper))
    return tuple(found)
