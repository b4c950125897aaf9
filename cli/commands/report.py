"""`privplan report`: one page about a run, for people who were not there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..inputs import anchors, options
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, one_line, plain, table
from .audit_scores import CONCLUSIONS
from .doctor import naming_install_command

if TYPE_CHECKING:
    from ...audit.report import RunFacts
    from ...audit.report.training_facts import TrainingFacts

REPORT_EXAMPLE: Final = "privplan report DIR -o report.html"
PAGE_PREFIX: Final = b"<!doctype html>"

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", show_default=False, help="Where the page goes."),
]
Description = Annotated[
    list[str] | None,
    options.optional(
        "FILE",
        "What describes the training that was audited, as for `privplan check`; once for each "
        "file.  For folders of privplan.audit_model.",
        "--check",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the path alone.")]


@options.option_group
class ReportRequest(OutputOptions, anchors.AnchorOptions):
    """A run, and where its page goes."""

    folder: options.Folder
    out: Out = None
    check: Description = None
    quiet: Quiet = False


@takes(ReportRequest)
def report(_: typer.Context, asked: ReportRequest) -> Report:
    """Make one self-contained HTML page about a run: claimed, proven, measured.

    It is made from the log alone; the sealed sidecar is never read.  The page loads nothing, and
    replaces an older one at once, but no other file of a run.  Exit code 1 if the log does not
    support its claim, or if what was measured contradicts it; the page is made all the same.

    Of a folder of privplan.audit_model the page shows what was measured of that training, from its
    coins and scores, next to the verdict of --check; exit code 1 as well if that verdict is false.
    """
    from ...accountant.errors import InvalidInput
    from ...audit.model_audits.audit_chain import is_model_audit
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
    if is_model_audit(asked.folder):
        return _of_training(asked, out)
    if asked.check:
        raise InvalidInput(
            "`check` is for folders of privplan.audit_model.",
            "What is proven of a run of privplan is derived from its own log.",
            REPORT_EXAMPLE,
        )
    facts = read(asked.folder, **asked.expected())
    with naming_install_command("report"):
        page = render(facts)
    _write(out, page)
    return _summary(facts, out, len(page.encode()))


def _of_training(asked: ReportRequest, out: Path) -> Report:
    """Make the page about an audit of a training, and return what the command says of it."""
    from ...accountant.errors import InvalidInput
    from ...audit.report import training_page as pages
    from ...audit.report.training_facts import read_training

    anchored = asked.expected()
    if anchored["public_key"] is not None:
        raise InvalidInput(
            "`public_key` is given, and audits of trainings are not signed.",
            "A plan's head that was kept elsewhere shows that coins and plan are those of before.",
            "Give --head.",
        )
    facts = read_training(asked.folder, asked.check or (), expected_head=anchored["expected_head"])
    with naming_install_command("report"):
        page = pages.render_training(facts)
    # What is sealed in the folder stands in the page.
    _write(out, page, private=not facts.audit.plan.public)
    rows = [
        ("report", str(out)),
        ("verdict", pages.training_verdict(facts)[1]),
        ("claimed", pages.claimed_words(facts)),
        ("proven", pages.proven_words(facts)),
        ("measured", pages.measured_words(facts)),
        ("training", CONCLUSIONS[facts.results.conclusion]),
    ]
    if facts.incomparable:
        rows.append(("apart", facts.incomparable))
    if not facts.audit.plan.public:
        rows.append(("private", "the page is for whoever may see the records"))
    rows += anchors.rows(facts.audit.checked, None)
    return Report(
        result={**_training_json(facts), "path": str(out), "bytes": len(page.encode())},
        text=table([(name, plain(text)) for name, text in rows]),
        number=one_line(str(out)),
        ok=facts.ok,
    )


def _training_json(facts: TrainingFacts) -> dict[str, object]:
    checked = facts.checked
    proven = None if checked is None else checked.proven
    return {
        "ok": facts.ok,
        "verdict": None if checked is None else checked.verdict,
        "claimed": facts.claimed,
        "proven": None if proven is None else {"lower": proven.lower, "upper": proven.upper},
        "measured": facts.measured,
        "delta": facts.delta,
        "contradicted": [
            name
            for name, epsilon in (("claimed", facts.claimed), ("proven", facts.proven))
            if facts.contradicts(epsilon)
        ],
        "compared": checked is not None and not facts.incomparable,
        "conclusion": facts.results.conclusion,
        "checked": facts.audit.checked,
        "anchor": facts.audit.anchor,
        "plan_head": facts.audit.lines[0].hash,
    }


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
    from ...audit.model_audits.audit_chain import AUDIT_LOG
    from ...fl.log.hash_chain import LOG

    if not (out.exists() or out.is_symlink()):
        return
    # Outside of a run's folder a file may be replaced; inside, only an older page.
    if out.is_file() and not out.is_symlink():
        if not any((out.parent / name).exists() for name in (LOG, AUDIT_LOG)):
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


def _write(out: Path, page: str, *, private: bool = False) -> None:
    from ...accountant.errors import InvalidInput
    from ...fl.files import atomic

    try:
        atomic.write(out, page.encode(), private=private)
    except OSError as error:
        raise InvalidInput(
            f"{out} cannot be written: {error.strerror}.",
            "What was there before is still there.",
            "Give another file.",
        ) from None
