"""What the public files of a run say, gathered for one page.

Only the log is read.  The sealed sidecar and the sealed report hold facts from before the noise;
a page that is handed on has no place for them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...accountant import events as ev
from ...accountant.errors import InvalidInput
from ...accountant.records import AuditResult, Evaluation, RunOpen
from ...fl.declarations.registry import exactly_named
from ...fl.frame.held_out_score import HeldOutScore
from ...fl.log.reader import NEXT, UNBEGUN, WHY, BadLine, log_of
from ..budget import BudgetReport, Evidence, Ledger, audit_ledger
from ..budget.auditing import chain_of, folder_facts, verified_entries
from ..ledger.phases import score_of
from ..measurement import Measurement
from ..results import Result, result_of

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

MAX_SPENDING_POINTS: Final = 24
"""Most rounds at which epsilon is derived for the curve."""

FULL_CURVE_ROUNDS: Final = 10_000
"""Runs with more rounds than this get fewer points."""

MIN_SPENDING_POINTS: Final = 4
"""Least number of points of the curve."""


@dataclass(frozen=True)
class SpendingPoint:
    """The upper end of epsilon that the log supports after `rounds` of its rounds.

    `lower` is the other end: nothing below it is true of the run.
    """

    rounds: int
    epsilon: float
    lower: float = 0.0


@dataclass(frozen=True, eq=False)
class RunFacts:
    """A run as its log shows it.

    `budget` is what the log supports; `course` how that grew, before the observer of the claim;
    `event` all of it as one event, for that observer; `evaluation` the last metrics of the model;
    `held_out` how users who were held out voted on it;
    `results` what audits appended, and `measured` those of them that can be read as such: all, as
    whoever shows the newest alone lets one choose among them.
    """

    opened: RunOpen
    budget: BudgetReport
    course: tuple[SpendingPoint, ...]
    event: ev.Event
    evaluation: Evaluation | None
    held_out: HeldOutScore | None
    results: tuple[Result, ...]

    @property
    def measured(self) -> tuple[tuple[int, Measurement], ...]:
        """What was measured and published, each with the number of its line."""
        return tuple(
            (result.number, result.measurement)
            for result in self.results
            if result.measurement is not None
        )

    @property
    def contradicting(self) -> tuple[tuple[int, Measurement], ...]:
        """What was measured that contradicts a claim, whether or not it says so itself."""
        return tuple(row for row in self.measured if contradicts(row[1]))

    @property
    def unusual(self) -> tuple[tuple[int, Measurement], ...]:
        """What was measured that few sound runs show, and that contradicts nothing."""
        return tuple(row for row in self.measured if row[1].unusual)


def contradicts(result: Measurement) -> bool:
    """Return whether a result rejects its claim, or bounds from below what is above it.

    A bound above the claim that calls itself unusual holds with its confidence, and accuses nobody.
    """
    above = (
        result.kind == "lower-bound"
        and result.claimed is not None
        and result.value > result.claimed
    )
    return result.contradicted or (above and not result.unusual)


@exactly_named()
def read(
    folder: str | Path,
    *,
    public_key: Ed25519PublicKey | None = None,
    expected_head: str | None = None,
) -> RunFacts:
    """Return the facts of the run in a folder, held against a key or a head where one is given.

    Raises `InvalidInput` where there is no log, and `BadLine` where its chain is broken: a page
    about a log that somebody changed would lend it a good appearance.
    """
    verified, entries = verified_entries(folder, public_key, expected_head)
    if verified.first_bad is not None:
        raise BadLine(log_of(folder), *verified.first_bad)
    if not entries:
        raise InvalidInput(
            f"There is nothing to report on in {folder}: {UNBEGUN}.",
            WHY,
            NEXT,
        )
    ledger = Ledger.of(entries)
    evidence = Evidence.of(ledger)
    return RunFacts(
        opened=ledger.opened,
        budget=audit_ledger(
            ledger,
            chain_of(verified),
            surroundings=folder_facts(folder, ledger, entries, verified),
        ),
        course=course_of(ledger),
        event=evidence.composed(ledger.opened.claim.observer),
        evaluation=ledger.evaluations[-1][1] if ledger.evaluations else None,
        held_out=score_of(ledger),
        results=tuple(
            result_of(entry.record, entry.number)
            for entry in entries
            if isinstance(entry.record, AuditResult)
        ),
    )


def course_of(ledger: Ledger) -> tuple[SpendingPoint, ...]:
    """Return what the first rounds of a log support, at up to `MAX_SPENDING_POINTS` of them."""
    observer, spent = ledger.opened.claim.observer, ledger.spent
    numbers = [intended.intent.round for intended in spent]
    ends = [  # a round may have several intents, one behind the other
        index + 1
        for index, number in enumerate(numbers)
        if index + 1 == len(numbers) or numbers[index + 1] != number
    ]
    # Deriving epsilon for t rounds takes time in t, so long runs get fewer points.
    count = len(ends)
    course = []
    points = max(
        MIN_SPENDING_POINTS,
        MAX_SPENDING_POINTS * FULL_CURVE_ROUNDS // max(FULL_CURVE_ROUNDS, count),
    )
    for rounds in sorted({round(count * step / points) for step in range(1, points + 1)} - {0}):
        # The log as it was after these rounds: not closed yet.
        first = replace(ledger, spent=spent[: ends[rounds - 1]], closed=None)
        total = Evidence.of(first).total(observer)
        course.append(SpendingPoint(rounds, total.upper, total.epsilon.lower))
    return tuple(course)
