"""`privplan audit budget`: what epsilon do the facts of a log support?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...accountant import rounding
from ...accountant.errors import InvalidInput, counted
from ...fl.observers.names import coalition_of, holds_part
from ...fl.observers.words import phrase, unit_before
from ..inputs import anchors, options
from ..inputs.plot_target import PlotOptions
from ..inputs.request import OutputOptions, takes
from ..reports.run_words import study_rows
from ..terminal.output import Report, paragraph, plain, table, wrapped
from .doctor import naming_install_command

if TYPE_CHECKING:
    from ...accountant.records import Claim
    from ...audit.budget import BudgetReport
    from ...audit.budget.ledger_verdict import AuditedClaim, LedgerVerdict
    from ...audit.budget.report import Row
    from ...audit.findings import Finding
    from ...audit.hazards.sealed import SealedCheck

Limit = Annotated[
    float | None,
    options.optional(
        "E", "Epsilon that must not be exceeded before the observer of the claim; exit code 1."
    ),
]
Groups = Annotated[
    list[int] | None,
    options.optional("K", "Answer for units of K as well; may be given several times.", "--group"),
]
Sealed = Annotated[
    bool,
    typer.Option(
        "--sealed",
        help="Open the sealed sidecar too, as a trusted auditor; what it shows is not to be "
        "published.",
    ),
]
LedgerAddress = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="URL",
        help="Tell the verdict to the budget ledger that the run claimed from, as an auditor whose "
        "token is in PRIVPLAN_LEDGER_TOKEN (privplan explain ledger).",
        show_default=False,
    ),
    options.PER_CALL,
]
ClaimId = Annotated[
    str | None,
    typer.Option(
        "--claim",
        metavar="ID",
        help="The claim on the ledger, where the run's folder does not have it.",
        show_default=False,
    ),
    options.PER_CALL,
]

SEALED: Final = (
    "the sealed sidecar was opened. What it shows was computed before the noise: keep this report "
    "to yourself."
)

BAR_WIDTH: Final = 20
"""Characters of the bar."""


@options.option_group
class BudgetRequest(OutputOptions, PlotOptions, anchors.AnchorOptions):
    """A run, and what its budget is asked about."""

    folder: options.Folder
    limit: Limit = None
    group: Groups = None
    sealed: Sealed = False
    ledger: LedgerAddress = None
    claim: ClaimId = None


@takes(BudgetRequest)
def budget(_: typer.Context, asked: BudgetRequest) -> Report:
    """Derive the budget of a run again, from the facts in its log alone.

    Nothing that the log says about epsilon is used: sensitivity, noise and samples are read from
    each round, and two engines account for them.  --limit and --quiet are about the epsilon before
    the observer of the claim, which the line `hides` names.  Exit code 1 if the log does not
    support its claim, exceeds --limit, or holds a hazard that is an error.  --ledger tells the
    budget ledger: what was lost above the run's claim there is charged, and where nobody can say
    how much it was, the data set is frozen.  --plot draws epsilon by round, and the budget.
    """
    from ...audit.budget import audit_budget

    with naming_install_command("plots"):
        asked.require_plot()
    expected, claimed = asked.expected(), _claim_on_ledger(asked)
    if claimed is not None:
        expected["expected_head"] = claimed.head
    audited = audit_budget(
        asked.folder,
        limit=asked.limit,
        groups=asked.group or (),
        sealed=asked.sealed,
        **expected,
    )
    told = None if claimed is None else claimed.judged(asked.folder, audited)
    report = Report(
        result={**audited.to_json(), **({} if told is None else {"ledger": told.to_json()})},
        text=_text(audited, told),
        number=rounding.plain(audited.total.upper),
        assumptions=audited.assumptions,
        warnings=(SEALED,) if asked.sealed else (),
        ok=audited.ok and (told is None or told.ok),
        is_verdict=True,
    )
    # A log whose chain is broken supports nothing, and has no plot.
    if asked.plot is None or audited.chain.bad_line is not None:
        return report
    from ...audit.plots.spending import SpendingCourse
    from ..reports import plots

    course = SpendingCourse.of_folder(asked.folder, **expected)
    return plots.with_plot(report, course.chart(), asked.plot)


def _claim_on_ledger(asked: BudgetRequest) -> AuditedClaim | None:
    """Return the claim that the verdict is about; None where no ledger is to be told."""
    if asked.ledger is None:
        if asked.claim is not None:
            raise InvalidInput("--claim names a claim on a ledger: give --ledger URL too.")
        return None
    if asked.sealed or asked.head is not None:
        raise InvalidInput(
            "--ledger cannot be given with --sealed or --head.",
            "What the ledger is told is published, and the claim has the head of its log.",
            "Leave the other one out.",
        )
    from ...audit.budget.ledger_verdict import AuditedClaim
    from ...fl.ledger_client.ledger import Ledger

    return AuditedClaim.of(asked.folder, Ledger(asked.ledger), asked.claim)


def _text(report: BudgetReport, told: LedgerVerdict | None) -> str:
    rows = _rows(report)
    if told is not None:
        rows += wrapped("told", _told(told))
    parts = [table(rows)]
    parts += [_hazard(hazard) for hazard in report.hazards]
    return "\n\n".join(parts)


def _told(told: LedgerVerdict) -> str:
    """Return what the ledger made of the verdict, in words."""
    claim = f"claim {plain(told.claim)}"
    if told.verdict is None:
        return f"the ledger nothing of {claim}: {told.why}"
    words = [f"the ledger that {claim} " + ("holds" if told.ok else "does NOT hold")]
    if told.charged:
        words.append("what was lost above it was charged")
    if told.frozen:
        words.append("the data set is FROZEN")
    return "; ".join(words)


def _rows(report: BudgetReport) -> list[tuple[str, str]]:
    chain = report.chain
    if chain.unbegun:
        return [("ledger", "no record"), ("spent", "nothing, as far as the log tells")]
    # Nothing after a broken line is believed, and a budget needs every line.
    if chain.bad_line is not None:
        good = counted(chain.records, "good record")
        where = f"{good}, then line {chain.bad_line} is bad: {chain.reason}"
        rows = [("ledger", plain(where)), ("spent", "nothing can be told from this log")]
        return [*rows, *anchors.rows(chain.checked, chain.signature)]
    whole = f"{report.spent:,} of {counted(report.planned_rounds, 'round')}"
    state = "closed" if report.complete else "not closed"
    rows = [("ledger", f"{counted(chain.records, 'record')}, chain intact; {whole}, {state}")]
    claim = report.claim
    assert claim is not None
    rows.append(("spent", _spent(report, claim)))
    if report.limit is not None:
        rows.append(("limit", _limit(report, report.limit)))
    # A lower end of 0 says nothing, so it has no row.
    if report.total.epsilon.lower > 0.0:
        lower = rounding.down(report.total.epsilon.lower, rounding.EXACT_DIGITS)
        rows.append(("at least", f"epsilon {lower}"))
    if report.total.upper < float("inf"):
        rows.append(("hides", _hidden_change(claim)))
    else:
        rows.append(("hides", f"nothing that is proven; asked was {_hidden_change(claim)}"))
    rows += study_rows(report.study)
    rows += [
        line for row in report.rows if row.observer == claim.observer for line in _rests_on(row)
    ]
    if report.left is not None:
        rows.append(("left", _left(report, report.left)))
    # A closed run releases no more, so what was planned is what was spent.
    if report.planned is not None and not report.complete:
        rows.append(("planned", f"epsilon {_rounded_up(report.planned.upper)} at its end"))
    for row in report.rows:
        if row.observer != claim.observer:
            rows += wrapped(f"before {plain(row.observer)}", _proven_text(row, claim.unit))
            rows += _rests_on(row)
    rows += [row for relief in report.relief for row in wrapped("instead", relief)]
    rows += [
        (f"group of {row.size:,}", _number(row.total.upper, row.total.refusal))
        for row in report.groups
    ]
    rows.append(("claimed", _claimed(report, claim)))
    if report.worst is not None and claim.epsilon is not None:
        rows += wrapped("worst asked" if report.worst.beyond else "worst", report.worst.text)
    rows += anchors.rows(chain.checked, chain.signature, chain.up_to)
    if report.sealed is not None:
        rows.append(("sealed", _sidecar_text(report.sealed)))
    if report.derived:
        fits = counted(report.derived, "fit")
        rows.append(("derived", f"{fits} of what was released, at no cost"))
    if report.not_stated:
        rows += wrapped("not stated", "; ".join(report.not_stated))
    return rows


def _spent(report: BudgetReport, claim: Claim) -> str:
    upper = report.total.upper
    most = claim.epsilon if report.limit is None else report.limit
    what = f"epsilon {_rounded_up(upper)}"
    if most is not None:
        what += f" of {rounding.as_given(most)}"
    what += f" at delta {rounding.as_given(claim.delta)}"
    if most is not None and 0.0 < most < float("inf"):
        what += "   " + _budget_bar(upper / most)
    return what


def _limit(report: BudgetReport, limit: float) -> str:
    """Return whether the limit is kept, in words."""
    given = rounding.as_given(limit)
    if report.within_limit:
        return f"kept: epsilon is at most {given}"
    upper = report.total.upper
    if upper == float("inf"):
        return f"EXCEEDED: there is no guarantee, and the limit is epsilon {given}"
    return f"EXCEEDED: epsilon {_rounded_up(upper)} is above the limit of {given}"


def _hidden_change(claim: Claim) -> str:
    from ..reports import assumption_words

    unit = claim.unit if claim.group == 1 else f"{claim.unit} of up to {claim.group:,} records"
    if holds_part(claim.observer):
        unit = unit_before(claim.observer, unit)
    changed = assumption_words.change(claim.neighbours, unit)
    return f"{changed}, from {plain(phrase(claim.observer))}"


def _rounded_up(number: float) -> str:
    return rounding.up(number, rounding.EXACT_DIGITS)


def _budget_bar(share: float) -> str:
    # Calibrated noise meets its target to rounding, which is no excess.
    if share > 1.0 + 1e-9:
        return "[" + "!" * BAR_WIDTH + "]"
    # Rounded up: the bar never shows less than is spent.
    full = min(BAR_WIDTH, int(share * BAR_WIDTH + 0.999999))
    return "[" + "#" * full + "." * (BAR_WIDTH - full) + "]"


def _left(report: BudgetReport, left: int) -> str:
    if left == 0:
        return "no further round like the last one"
    more = f"{left:,} more rounds like the last one" if left > 1 else "1 more round like the last"
    planned = max(report.planned_rounds - report.spent, 0)
    ahead = f"; {report.paid_ahead:,} paid for" * bool(report.paid_ahead)
    if not report.resumable:
        ahead += "; if the run was cut off, nothing resumes it"
    elif report.paid_ahead:
        ahead += ", unless the run was cut off"
    what = f"{planned:,} are planned{ahead}"
    return f"{more}; round {report.spent + left + 1:,} would exceed it ({what})"


def _proven_text(row: Row, unit: str) -> str:
    """Return what is proven before an observer; who holds records is told of none but the others'.

    A silo as the unit lies with nobody else, so that goes without saying.  Of a coalition it is
    said how much of the noise may be missing.
    """
    number = _number(row.total.upper, row.total.refusal)
    silos = row.observer.startswith("silo") or coalition_of(row.observer) is not None
    silos = silos and unit != "silo"
    if row.total.upper == float("inf"):
        return number
    lost = f", with {row.dropouts:,} of them missing"
    missing = row.dropouts and coalition_of(row.observer) is not None
    return number + ", of records in other silos" * silos + lost * bool(missing)


def _rests_on(row: Row) -> list[tuple[str, str]]:
    return wrapped("", f"rests on: {'; '.join(row.rests_on)}") if row.rests_on else []


def _number(upper: float, refusal: str) -> str:
    if upper == float("inf"):
        return f"no guarantee: {plain(refusal)}" if refusal else "no guarantee"
    return f"epsilon {_rounded_up(upper)}"


def _claimed(report: BudgetReport, claim: Claim) -> str:
    if claim.epsilon is None:
        return "nothing"
    verdict = "the log supports it" if report.supported else "the log does NOT support it"
    # The number may be below the claim and still rest on facts that a hazard denies.
    if report.within_claim and report.errors:
        named = ", ".join(plain(name) for name in report.errors)
        verdict = f"the log does NOT support it, whatever its rounds come to: {named}"
    return f"epsilon {rounding.as_given(claim.epsilon)}: {verdict}"


def _sidecar_text(check: SealedCheck) -> str:
    """Return how much of the sidecar was tested."""
    return (
        f"tested {check.rounds:,} of {counted(check.released, 'round')}: "
        f"{counted(check.values, 'value')} opened, {counted(check.counts, 'sample size')} against "
        f"{'its' if check.counts == 1 else 'their'} rate"
    )


def _hazard(hazard: Finding) -> str:
    where = ""
    if hazard.lines:
        shown = ", ".join(str(line) for line in hazard.lines[:3])
        more = f" and {len(hazard.lines) - 3:,} more" if len(hazard.lines) > 3 else ""
        where = f"  (line{'s' * (len(hazard.lines) > 1)} {shown}{more})"
    return "\n".join(
        [
            f"{hazard.severity} {hazard.id}{where}",
            paragraph("  ", hazard.says),
            paragraph("   why: ", hazard.why),
            paragraph("  next: ", hazard.next_step),
        ]
    )
