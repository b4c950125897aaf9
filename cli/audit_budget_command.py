"""`privplan audit budget`: what epsilon do the facts of a log support?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..accountant import rounding
from . import options
from .audit_log_command import Folder
from .output import Report, paragraph, plain, show, table

if TYPE_CHECKING:
    from ..accountant.records import Claim
    from ..audit.budget import BudgetReport
    from ..audit.hazards import Hazard

Limit = Annotated[
    float | None,
    typer.Option(
        metavar="E", help="Epsilon that must not be exceeded; exit code 1.", show_default=False
    ),
]
Groups = Annotated[
    list[int] | None,
    typer.Option(
        "--group",
        metavar="K",
        help="Answer for units of K as well; may be given several times.",
        show_default=False,
    ),
]
Sealed = Annotated[
    bool,
    typer.Option(
        "--sealed",
        help="Open the sealed sidecar too, as a trusted auditor; what it shows is not to be "
        "published.",
    ),
]

SEALED: Final = (
    "the sealed sidecar was opened. What it shows was computed before the noise: keep this report "
    "to yourself."
)

_WIDTH: Final = 20
"""Characters of the bar."""

WHOM: Final = {
    "model": "whoever sees the released models",
    "server": "the server",
    "silo": "every other silo",
}


def budget(
    folder: Folder,
    limit: Limit = None,
    group: Groups = None,
    sealed: Sealed = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Derive the budget of a run again, from the facts in its log alone.

    Nothing that the log says about epsilon is used: sensitivity, noise and samples are read from
    each round, and two engines account for them.  Exit code 1 if the log does not support its
    claim, exceeds --limit, or holds a hazard that is an error.
    """
    from ..audit.budget import audit_budget

    found = audit_budget(folder, limit=limit, groups=group or (), sealed=sealed)
    report = Report(
        result=found.to_json(),
        text=_text(found),
        number=rounding.bare(found.total.upper),
        assumptions=found.assumptions,
        warnings=(SEALED,) if sealed else (),
        ok=found.ok,
    )
    show(report, as_json=as_json, quiet=quiet)


def _text(found: BudgetReport) -> str:
    parts = [table(_rows(found))]
    parts += [_hazard(hazard) for hazard in found.hazards]
    return "\n\n".join(parts)


def _rows(found: BudgetReport) -> list[tuple[str, str]]:
    chain = found.chain
    if chain.bad_line is not None:
        where = f"{chain.records:,} good records, then line {chain.bad_line} is bad: {chain.reason}"
        return [("ledger", plain(where)), ("spent", "nothing can be told from this log")]
    whole = f"{found.spent:,} of {found.planned_rounds:,} rounds"
    state = "closed" if found.complete else "not closed"
    rows = [("ledger", f"{chain.records:,} records, chain intact; {whole}, {state}")]
    claim = found.claim
    assert claim is not None
    rows.append(("spent", _spent(found, claim)))
    if found.total.epsilon.lower > 0.0:
        lower = rounding.down(found.total.epsilon.lower, rounding.EXACT_DIGITS)
        rows.append(("at least", f"epsilon {lower}"))
    rows.append(("hides", _hides(claim)))
    if found.left is not None:
        rows.append(("left", _left(found, found.left)))
    if found.planned is not None and not found.complete:
        rows.append(("planned", f"epsilon {_up(found.planned.upper)} at its end"))
    rows += [
        (
            f"before {plain(row.observer)}",
            _number(row.total.upper, row.total.refusal) + _scope(row.observer),
        )
        for row in found.rows
        if row.observer != claim.observer
    ]
    rows += [
        (f"group of {row.size:,}", _number(row.total.upper, row.total.refusal))
        for row in found.groups
    ]
    rows.append(("claimed", _claimed(found, claim)))
    rows += [("not stated", plain(one)) for one in found.not_stated]
    return rows


def _spent(found: BudgetReport, claim: Claim) -> str:
    upper = found.total.upper
    most = claim.epsilon if found.limit is None else found.limit
    what = f"epsilon {_up(upper)}"
    if most is not None:
        what += f" of {rounding.as_given(most)}"
    what += f" at delta {rounding.as_given(claim.delta)}"
    if most is not None and 0.0 < most < float("inf"):
        what += "   " + _bar(upper / most)
    return what


def _hides(claim: Claim) -> str:
    from . import describe

    unit = claim.unit if claim.group == 1 else f"{claim.unit} of up to {claim.group:,} records"
    changed = describe.change(claim.neighbours, unit)
    return f"{changed}, from {WHOM.get(claim.observer, plain(claim.observer))}"


def _up(number: float) -> str:
    return rounding.up(number, rounding.EXACT_DIGITS)


def _bar(share: float) -> str:
    if share > 1.0 + 1e-9:
        return "[" + "!" * _WIDTH + "]"
    full = min(_WIDTH, int(share * _WIDTH + 0.999999))
    return "[" + "#" * full + "." * (_WIDTH - full) + "]"


def _left(found: BudgetReport, left: int) -> str:
    if left == 0:
        return "no further round like the last one"
    more = f"{left:,} more rounds like the last one" if left > 1 else "1 more round like the last"
    planned = max(found.planned_rounds - found.spent, 0)
    return f"{more}; round {found.spent + left + 1:,} would exceed it ({planned:,} are planned)"


def _scope(observer: str) -> str:
    """Return of what a number holds: a silo sees the records that it holds itself."""
    return ", of records in other silos" if observer.startswith("silo") else ""


def _number(upper: float, refusal: str) -> str:
    if upper == float("inf"):
        return f"no guarantee: {plain(refusal)}" if refusal else "no guarantee"
    return f"epsilon {_up(upper)}"


def _claimed(found: BudgetReport, claim: Claim) -> str:
    if claim.epsilon is None:
        return "nothing"
    verdict = "the log supports it" if found.supported else "the log does NOT support it"
    if found.within_claim and found.errors:
        named = ", ".join(plain(name) for name in found.errors)
        verdict = f"the log does NOT support it, whatever its rounds come to: {named}"
    return f"epsilon {rounding.as_given(claim.epsilon)}: {verdict}"


def _hazard(hazard: Hazard) -> str:
    where = ""
    if hazard.lines:
        shown = ", ".join(str(line) for line in hazard.lines[:3])
        more = f" and {len(hazard.lines) - 3:,} more" if len(hazard.lines) > 3 else ""
        where = f"  (line{'s' * (len(hazard.lines) > 1)} {shown}{more})"
    return "\n".join(
        [
            f"{hazard.severity} {hazard.id}{where}",
            paragraph("  ", hazard.what),
            paragraph("   why: ", hazard.why),
            paragraph("  next: ", hazard.next_step),
        ]
    )
