"""The verdict of an audit, told to the budget ledger that the run claimed from.

A claim is closed with the head of the run's log, so a log that lacks this head is another one, and
nothing is told of it.  What the log supports is told as an event, which the ledger prices itself:
what it costs above the claim is charged.  Where the log supports no number, nobody can say how much
was lost, and the ledger freezes the data set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import InvalidInput
from ...fl.ledger_client.ledger import Ledger, LedgerClaim, claim_of
from ...fl.observers.names import MODEL
from ...fl.running.run_claim import claim_of_run
from ..evidence.epsilon_total import total
from ..evidence.evidence import Evidence
from ..ledger.entries import Ledger as LogLedger
from .auditing import verified_entries
from .report import CLAIM_ROUNDING_RELATIVE, BudgetReport

HOLDS: Final = "holds"
ABOVE: Final = "above"


@dataclass(frozen=True)
class LedgerVerdict:
    """What the ledger made of a verdict on a claim.

    `verdict` is `holds` or `above`, None where none was told: then `why` says why.  `charged` says
    whether something was charged above the claim, `frozen` whether the data set is now.
    """

    claim: str
    verdict: str | None
    charged: bool = False
    frozen: bool = False
    why: str = ""

    @property
    def ok(self) -> bool:
        """Whether the ledger has it that the claim holds."""
        return self.verdict == HOLDS

    def to_json(self) -> dict[str, object]:
        """Return the verdict as a JSON object."""
        return {
            "claim": self.claim,
            "verdict": self.verdict,
            "charged": self.charged,
            "frozen": self.frozen,
            "why": self.why or None,
        }


@dataclass(frozen=True)
class AuditedClaim:
    """A claim of a ledger that a run closed with the head of its log."""

    claim: LedgerClaim
    head: str

    @classmethod
    def of(cls, folder: str | Path, ledger: Ledger, claim: str | None = None) -> AuditedClaim:
        """Return the claim of a run, or the one that is named.

        Raises `InvalidInput` where the folder names none, or no log closed it.
        """
        number = claim_of_run(Path(folder)) if claim is None else claim
        if number is None:
            raise InvalidInput(
                f"{folder} does not say which claim the run made.",
                "A run that claims from a ledger keeps the claim's id in ledger.json.",
                "Name it: --claim ID",
            )
        paid = claim_of(ledger.connection, number)
        head = paid.answer.get("head")
        if not isinstance(head, str):
            raise InvalidInput(
                f"The claim {number} is {paid.state}, and no log closed it.",
                "A verdict is about the log whose head closed the claim.",
                f"Close it with the head of its log (POST /v1/claims/{number}/release), or say "
                f"what was lost: POST /v1/claims/{number}/audit",
            )
        return cls(paid, head)

    def judged(self, folder: str | Path, report: BudgetReport) -> LedgerVerdict:
        """Tell the ledger what an audit of the log, held against `head`, found.

        Raises `LedgerRefused` where the ledger has no price for what was lost, and
        `LedgerUnreachable`.
        """
        nothing = LedgerVerdict(self.claim.id, None)
        chain = report.chain
        if chain.bad_line is not None or chain.checked == "chain only" or report.claim is None:
            return replace(nothing, why="this is not the log that closed it, or not a whole one")
        if not report.complete:
            return replace(nothing, why="the run is not closed, and may go on")
        event, promise = lost_event(folder, report), report.claim
        answer = self.claim.audit(
            ABOVE if event is None else HOLDS,
            event,
            unit=promise.unit,
            neighbours=promise.neighbours,
            observer=promise.observer,
        )
        noted = answer["audit"]
        charged = any(units != "0" for units in noted["charged"])
        frozen = bool(answer["receipt"]["frozen"])
        return LedgerVerdict(self.claim.id, noted["verdict"], charged, frozen)


def lost_event(folder: str | Path, report: BudgetReport) -> ev.Event | None:
    """Return what a whole log supports before the observer of its claim, as one event.

    None where an error stands or nothing is proven, and where no event says all that the report
    counts: then nobody can say how much was lost.
    """
    if report.errors or not math.isfinite(report.total.upper):
        return None
    _, entries = verified_entries(folder, None, None)
    evidence = Evidence.of(LogLedger.of(entries))
    promise = evidence.ledger.opened.claim
    observer = promise.observer
    if evidence.spent_total(observer) is evidence.spent_total(MODEL):
        observer = MODEL  # what everybody sees is the worse of both
    event = evidence.composed(observer)
    counted = total({event: 1}, delta=promise.delta, neighbours=promise.neighbours).upper
    return event if report.total.upper <= counted * (1.0 + CLAIM_ROUNDING_RELATIVE) else None


__all__ = ["AuditedClaim", "LedgerVerdict", "lost_event"]
