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

from ..accountant.claims.table import SYSTEMS
from . import options, rounding
from .output import Report, show

if TYPE_CHECKING:
    from ..accountant.claims.claim import Claim

System = Annotated[
    str | None,
    typer.Argument(
        metavar="[SYSTEM]",
        help=f"One of {', '.join(SYSTEMS)}; without it, all of them.",
        show_default=False,
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
)


def claims(
    system: System = None, as_json: options.Json = False, quiet: options.Quiet = False
) -> None:
    """Put the privacy numbers of five published systems beside what can be proven.

    Every number is computed here: the claim by the published formula, mistakes included, and the
    bounds by privplan.  The first run takes a while and is kept.  With SYSTEM, each row says whom
    it protects, and why.  --quiet prints how many claims are false or no guarantee.
    """
    from ..accountant.claims.table import as_system

    chosen = SYSTEMS if system is None else (as_system(system),)
    found = [claim for name in chosen for claim in _of(name)]
    counts = Counter(claim.verdict for claim in found)
    width = min(max(shutil.get_terminal_size((NARROWEST, 24)).columns, NARROWEST), WIDEST)
    report = Report(
        result={"rows": [row_json(claim) for claim in found], "verdicts": dict(counts)},
        text=text(found, width, detailed=system is not None),
        number=str(counts["false"] + counts["no-guarantee"]),
        assumptions=ASSUMPTIONS,
    )
    show(report, as_json=as_json, quiet=quiet)


def row_json(claim: Claim) -> dict[str, object]:
    """Return a row of the JSON result."""
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
    }


def text(found: Sequence[Claim], width: int, *, detailed: bool) -> str:
    """Return the table for a person, at most `width` columns wide."""
    cells = [_cells(claim) for claim in found]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *cells, strict=True)]
    first = width - sum(widths) - len(widths) - 1
    blocks: list[str] = []
    for system in dict.fromkeys(claim.system for claim in found):
        lines = [_line(NAMES[system], HEADINGS, widths, first)]
        for claim, row in zip(found, cells, strict=True):
            if claim.system == system:
                lines += [""] if detailed else []
                lines += _entry(claim, row, widths, first)
                lines += _details(claim, width) if detailed else []
        blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, _closing(found, width, detailed=detailed)])


def _of(system: str) -> tuple[Claim, ...]:
    from . import claims_cache

    version = claims_cache.current()  # before the code is loaded that computes
    known = claims_cache.recall(system, version)
    if known is None:
        from ..accountant.claims.table import table

        if sys.stderr is not None and sys.stderr.isatty():
            typer.echo(f"{NAMES[system]}: computing, to be kept for later ...", err=True)
        known = table(system)
        claims_cache.keep(system, known, version)
    return known


def _cells(claim: Claim) -> tuple[str, str, str, str]:
    """Return the numbers of a row: what is proven rounded up, what is shown rounded down."""
    claimed = claim.printed or _claimed(claim.claimed)
    proven = "-" if claim.proven is None else rounding.up(claim.proven)
    lower = "-" if claim.lower is None else rounding.down(claim.lower)
    return claimed, proven, lower, claim.verdict


def _claimed(number: float) -> str:
    """Return a claimed number to four digits; it is no guarantee, so the nearest will do."""
    return rounding.as_given(float(f"{number:.4g}"))


def _line(setting: str, cells: Sequence[str], widths: Sequence[int], first: int) -> str:
    numbers = (f" {cell:>{width}}" for cell, width in zip(cells[:-1], widths, strict=False))
    return f"{setting:<{first}}{''.join(numbers)}  {cells[-1]}".rstrip()


def _entry(claim: Claim, cells: Sequence[str], widths: Sequence[int], first: int) -> list[str]:
    start, *rest = textwrap.wrap(claim.setting, first, subsequent_indent="  ")
    return [_line(start, cells, widths, first), *rest]


def _details(claim: Claim, width: int) -> list[str]:
    slack = f"; delta {claim.delta:.4g}" if claim.quantity == "epsilon" else ""
    whom = f"{claim.unit}, {claim.neighbours}, against the {claim.observer}{slack}"
    if claim.quantity != "epsilon":
        whom = f"{claim.quantity}: {whom}"
    sentences = (whom, claim.why, f"[{claim.source}]")
    return [
        textwrap.fill(sentence, width, initial_indent="  ", subsequent_indent="  ")
        for sentence in sentences
    ]


def _closing(found: Sequence[Claim], width: int, *, detailed: bool) -> str:
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
    paragraphs = (f"{len(found)} claims: {named}.", f"{note} {then}")
    return "\n".join(textwrap.fill(paragraph, width) for paragraph in paragraphs)
