"""`privplan claims`: what five published systems claim, beside what can be proven."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...accountant import rounding
from ...accountant.claims.table import SYSTEMS
from ..inputs import options
from ..terminal.output import Report, show

if TYPE_CHECKING:
    from ...accountant.claims.claim import Claim
    from ..cache.measured_rows import Measured, Rows

System = Annotated[
    str | None,
    typer.Argument(
        metavar="[SYSTEM]",
        help=f"One of {', '.join(SYSTEMS)}; without it, all of them.",
        show_default=False,
    ),
]

Measure = Annotated[
    bool,
    typer.Option(
        "--measure",
        help="Run the demonstrations that were not run on this machine yet; takes seconds.",
    ),
]

NAMES: Final = {
    "uldp-fl": "Uldp-FL",
    "flame": "FLAME",
    "disco": "DISCO",
    "fedpower": "FedPower",
    "delm": "DELM",
}
"""The systems as they write themselves."""

HEADINGS: Final = ("claimed", "proven", "at least", "verdict")
HEADINGS_MEASURED: Final = ("claimed", "proven", "at least", "measured", "verdict")
"""The headings where something has been measured."""

NARROWEST, WIDEST = 80, 100

ASSUMPTIONS: Final = (
    "`claimed` is the published formula, mistakes included, in the published setting; nothing is "
    "derived from it.",
    "`proven` is an upper bound on the truth, computed by privplan; none is known where it is "
    "missing, and none is finite where it is inf.",
    "`lower` is a number that the truth is not below: a test on concrete neighbouring data, or the "
    "lower end of the exact curve.",
    "A claim is `false` where `lower` exceeds it, `unproven` where `proven` does, `loose` where "
    "it is true and over 5 per cent above `proven`, `no-guarantee` where no number holds.",
    "`measured` is what a simulation of the published mechanism showed of the same quantity, a "
    "bound from below that is wrong with probability at most 1 - confidence, each row by itself; "
    "the verdict does not rest on it, and where it is low or missing that is no proof of privacy.",
    "An infinite `measured` rests on `measured_by.assumes`: what was seen cannot happen at all on "
    "the neighbouring data.  Only how often it was seen is counted.",
)


def claims(
    system: System = None,
    measure: Measure = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Put the privacy numbers of five published systems beside what can be proven.

    Every number is computed here: the claim by the published formula, mistakes included, and the
    bounds by privplan.  The first run takes a while and is kept.  With SYSTEM, each row says whom
    it protects, and why.  A column `measured` appears where a demonstration has been run here
    (--measure, or privplan audit demo).  --quiet prints how many claims are false or no guarantee.
    """
    from ...accountant.claims.table import as_system

    chosen = SYSTEMS if system is None else (as_system(system),)
    found = [claim for name in chosen for claim in _of(name)]
    measured, unknown, warnings = _measured(chosen, measure=measure)
    counts = Counter(claim.verdict for claim in found)
    width = min(max(shutil.get_terminal_size((NARROWEST, 24)).columns, NARROWEST), WIDEST)
    report = Report(
        result={
            "rows": [row_json(claim, _of_row(claim, measured)) for claim in found],
            "verdicts": dict(counts),
        },
        text=text(found, width, detailed=system is not None, measured=measured, hint=unknown),
        number=str(counts["false"] + counts["no-guarantee"]),
        assumptions=ASSUMPTIONS,
        warnings=warnings,
    )
    show(report, as_json=as_json, quiet=quiet)


def row_json(claim: Claim, measured: Measured | None = None) -> dict[str, object]:
    """Return a row of the JSON result; `measured` is null where nothing has been."""
    by = None
    if measured is not None:
        by = {
            "demo": measured.demo,
            "kind": measured.kind,
            "confidence": measured.confidence,
            "contradicted": measured.contradicted,
            "assumes": measured.assumes,
        }
    return {
        "system": claim.system,
        "setting": claim.setting,
        "unit": claim.unit,
        "neighbours": claim.neighbours,
        "observer": claim.observer,
        "claimed": claim.claimed,
        "proven": claim.proven,
        "lower": claim.lower,
        "verdict": claim.verdict,
        "delta": claim.delta,
        "quantity": claim.quantity,
        "printed": claim.printed,
        "why": claim.why,
        "source": claim.source,
        "measured": None if measured is None else measured.value,
        "measured_by": by,
    }


def text(
    found: Sequence[Claim],
    width: int,
    *,
    detailed: bool,
    measured: Rows | None = None,
    hint: bool = True,
) -> str:
    """Return the table for a person, at most `width` columns wide.

    `hint`: say how to measure what has not been measured.
    """
    by_row = [_of_row(claim, measured or {}) for claim in found]
    cells: list[tuple[str, ...]] = [_cells(claim) for claim in found]
    headings: tuple[str, ...] = HEADINGS
    if any(by_row):
        headings = HEADINGS_MEASURED
        cells = [(*row[:-1], _cell(one), row[-1]) for row, one in zip(cells, by_row, strict=True)]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    first = width - sum(widths) - len(widths) - 1
    blocks: list[str] = []
    for system in dict.fromkeys(claim.system for claim in found):
        lines = [_line(NAMES[system], headings, widths, first)]
        for claim, row, one in zip(found, cells, by_row, strict=True):
            if claim.system == system:
                lines += [""] if detailed else []
                lines += _entry(claim, row, widths, first)
                lines += _details(claim, one, width) if detailed else []
        blocks.append("\n".join(lines))
    shown = [one for one in by_row if one is not None]
    return "\n\n".join([*blocks, _closing(found, shown, width, detailed=detailed, hint=hint)])


def _measured(systems: Sequence[str], *, measure: bool) -> tuple[Rows, bool, tuple[str, ...]]:
    """Return what is known by row, whether some is not known, and what could not be measured."""
    from ...audit.demos import DEMOS, MEASURES
    from ..cache import measured_rows

    version = measured_rows.current()  # before the code is loaded that measures
    names = [name for name, system in MEASURES.items() if system in systems]
    known = {name: measured_rows.recall(name, version) for name in names}
    missing = [name for name in names if known[name] is None]
    warnings: list[str] = []
    if measure:
        from ...accountant.errors import MissingExtra
        from .audit_demo import measured

        for name in missing:
            try:
                known[name] = measured_rows.rows_of(DEMOS[name], measured(name, version))
            except MissingExtra as error:
                warnings.append(f"{name} was not measured: {error.what} {error.next_step}")
    return measured_rows.joined(known.values()), bool(missing) and not measure, tuple(warnings)


def _of_row(claim: Claim, measured: Rows) -> Measured | None:
    return measured.get((claim.system, claim.setting))


def _of(system: str) -> tuple[Claim, ...]:
    from ..cache import computed_claims

    version = computed_claims.current()  # before the code is loaded that computes
    known = computed_claims.recall(system, version)
    if known is None:
        from ...accountant.claims.table import table

        if sys.stderr is not None and sys.stderr.isatty():
            typer.echo(f"{NAMES[system]}: computing, to be kept for later ...", err=True)
        known = table(system)
        computed_claims.keep(system, known, version)
    return known


def _cells(claim: Claim) -> tuple[str, str, str, str]:
    """Return the numbers of a row: what is proven rounded up, what is shown rounded down."""
    claimed = claim.printed or _claimed(claim.claimed)
    proven = "-" if claim.proven is None else rounding.up(claim.proven)
    lower = "-" if claim.lower is None else rounding.down(claim.lower)
    return claimed, proven, lower, claim.verdict


def _cell(measured: Measured | None) -> str:
    """Return a measured number rounded down, and marked where it is an estimate."""
    if measured is None:
        return "-"
    return ("~" if measured.kind == "estimate" else "") + rounding.down(measured.value)


def _claimed(number: float) -> str:
    """Return a claimed number to four digits; it is no guarantee, so the nearest will do."""
    return rounding.as_given(float(f"{number:.4g}"))


def _line(setting: str, cells: Sequence[str], widths: Sequence[int], first: int) -> str:
    numbers = (f" {cell:>{width}}" for cell, width in zip(cells[:-1], widths, strict=False))
    return f"{setting:<{first}}{''.join(numbers)}  {cells[-1]}".rstrip()


def _entry(claim: Claim, cells: Sequence[str], widths: Sequence[int], first: int) -> list[str]:
    start, *rest = textwrap.wrap(claim.setting, first, subsequent_indent="  ")
    return [_line(start, cells, widths, first), *rest]


def _details(claim: Claim, measured: Measured | None, width: int) -> list[str]:
    slack = f"; delta {claim.delta:.4g}" if claim.quantity == "epsilon" else ""
    whom = f"{claim.unit}, {claim.neighbours}, against the {claim.observer}{slack}"
    if claim.quantity != "epsilon":
        whom = f"{claim.quantity}: {whom}"
    sentences = [whom, claim.why, f"[{claim.source}]"]
    if measured is not None:
        sentences.append(_measured_by(measured))
    return [
        textwrap.fill(sentence, width, initial_indent="  ", subsequent_indent="  ")
        for sentence in sentences
    ]


def _measured_by(measured: Measured) -> str:
    value = rounding.down(measured.value)
    sure = f"at {100.0 * measured.confidence:g} % confidence"
    found = f"about {value}" if measured.kind == "estimate" else f"at least {value} {sure}"
    against = ", against the claim" if measured.contradicted else ""
    if math.isinf(measured.value):
        found = f"infinite, seen {sure} and impossible on the neighbouring data"
    said = f"Measured: {found}{against} (privplan audit demo {measured.demo})."
    rests_on = "; ".join(measured.assumes)
    return f"{said} Rests on: {rests_on}." if rests_on else said


def _closing(
    found: Sequence[Claim], measured: Sequence[Measured], width: int, *, detailed: bool, hint: bool
) -> str:
    counts = Counter(claim.verdict for claim in found)
    named = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
    where = found[0].system if detailed else "SYSTEM"
    then = f"The story: privplan explain {where}."
    if not detailed:
        then = f"Why: privplan claims {where}. {then}"
    unknown = any(claim.proven is not None and math.isinf(claim.proven) for claim in found)
    note = "Epsilon unless a row says otherwise, proven rounded up and at least rounded down."
    if unknown:
        note += " Infinite: no number holds."
    paragraphs = [f"{len(found)} claims: {named}.", f"{note} {then}"]
    if measured:
        sure = 100.0 * min(one.confidence for one in measured)
        said = (
            f"Measured: bounds from below at {sure:g} % confidence, each by itself, from attacks "
            "on simulations; what is low or missing proves nothing."
        )
        if any(math.isinf(one.value) for one in measured):
            said += (
                " Infinite there: seen, and impossible on the neighbouring data, by the mechanism "
                "and not by a count."
            )
        paragraphs.append(said)
    if hint:
        command = f"privplan claims {where} --measure" if detailed else "privplan claims --measure"
        paragraphs.append(f"What attacks on the published mechanisms show: {command}.")
    return "\n".join(textwrap.fill(paragraph, width) for paragraph in paragraphs)
