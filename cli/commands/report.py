"""`privplan report`: one page about a run, for people who were not there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..inputs import anchors, options
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, one_line, table
from .doctor import naming_install_command

if TYPE_CHECKING:
    from ...audit.report import RunFacts

REPORT_EXAMPLE: Final = "privplan report DIR -o report.html"
PAGE_PREFIX: Final = b"<!doctype html>"

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", show_default=False, help="Where the page goes."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the path alone.")]


@options.option_group
class ReportRequest(OutputOptions, anchors.AnchorOptions):
    """A run, and where its page goes."""

    folder: options.Folder
    out: Out = None
    quiet: Quiet = False


@takes(ReportRequest)
def report(_: typer.Context, asked: ReportRequest) -> Report:
    """Make one self-contained HTML page about a run: claimed, proven, measured.

    It is made from the log alone; the sealed sidecar is never read.  The page loads nothing, and
    replaces an older one at once, but no other file of a run.  Exit code 1 if the log does not
    support its claim, or if what was measured contradicts it; the page is made all the same.
    """
    from ...accountant.errors import InvalidInput
    from ...audit.report import read, render

    out = asked.out
    if out is None:
        raise InvalidInput("`out` is missing.", "The page is a file.", REPORT_EXAMPLE)
    if out.is_dir() or not out.parent.is_dir():
        raise InvalidInput(
            f"{out} cannot be written: it is a folder, or its folder does not exist.",
            "The page is one file.",
            REPORT_EXAMPLE,
        )
    # Before the log is read, which may take a while.
    _require_replaceable(out)
    facts = read(asked.folder, **asked.expected())
    with naming_install_command("report"):
        page = render(facts)
    _write(out, page)
    return _summary(facts, out, len(page.encode()))


def _summary(facts: RunFacts, out: Path, size: int) -> Report:
    """Return what the command says of the page that it made, of `size` bytes."""
    from ...audit.report import verdict

    chain = facts.budget.chain
    contradicted = [measurement.tier for _, measurement in facts.contradicting]
    return Report(
        result={
            "path": str(out),
            "bytes": size,
            "ok": facts.budget.ok,
            "contradicted": contradicted,
            "unusual": [measurement.tier for _, measurement in facts.unusual],
            "measured": len(facts.measured),
            "checked": chain.checked,
            "up_to": chain.up_to,
        },
        text=table(
            [
                ("report", str(out)),
                ("log", verdict(facts)[1]),
                (
                    "measured",
                    _measured_text(facts, contradicted),
                ),
                *anchors.rows(chain.checked, chain.signature, chain.up_to),
            ]
        ),
        number=one_line(str(out)),
        ok=facts.budget.ok and not contradicted,
    )


def _measured_text(facts: RunFacts, contradicted: Sequence[str]) -> str:

    count, unusual = len(facts.measured), len(facts.unusual)
    if contradicted:
        return f"the claim is contradicted: {', '.join(contradicted)}"
    if not count:
        return "nothing yet: privplan audit attack DIR"
    rare = f", {unusual} unusual" if unusual else ""
    return f"{count} result{'s' * (count > 1)}{rare}"


def _require_replaceable(out: Path) -> None:
    """Raise `InvalidInput` for a device or a link, and for what a run left in its folder."""
    from ...accountant.errors import InvalidInput
    from ...fl.log.hash_chain import LOG

    if not (out.exists() or out.is_symlink()):
        return
    # Outside of a run's folder a file may be replaced; inside, only an older page.
    if out.is_file() and not out.is_symlink():
        if not (out.parent / LOG).exists():
            return
        try:
            with out.open("rb") as file:
                if file.read(len(PAGE_PREFIX)) == PAGE_PREFIX:
                    return
        except OSError:
            pass
    raise InvalidInput(
        f"{out} is there, and is no report.",
        "It is not written over: what is in it would be lost.",
        "Give another file.",
    )


def _write(out: Path, page: str) -> None:
    from ...accountant.errors import InvalidInput
    from ...fl.files import atomic

    try:
        atomic.write(out, page.encode())
    except OSError as error:
        raise InvalidInput(
            f"{out} cannot be written: {error.strerror}.",
            "What was there before is still there.",
            "Give another file.",
        ) from None
