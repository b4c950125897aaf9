"""`privplan ledger witness` and `privplan audit ledger`: what others can hold a ledger against."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import quote

import typer

from ...fl.ledger_client import TOKEN_VARIABLE
from ..inputs.options import option_group
from ..inputs.plot_target import PlotOptions
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, plain, table, wrapped
from .doctor import naming_install_command

if TYPE_CHECKING:
    from ...audit.budget_service.audited import LedgerAudit

LEDGER_ASSUMPTIONS: Final = (
    "The ledger counts what it is told: a release that nobody claimed is not in it.",
    "A history that was written anew as a whole is found only by a head or a receipt that was kept "
    "elsewhere (--head, --receipt).",
)

Export = Annotated[
    str,
    typer.Argument(metavar="EXPORT", help="The history, as `privplan ledger export` writes it."),
]
HeadGiven = Annotated[
    str | None,
    typer.Option(
        "--head",
        metavar="HEX|FILE",
        help="A head that was kept elsewhere: its hash, or the file of a signed one.",
        show_default=False,
    ),
]
Receipts = Annotated[
    list[Path] | None,
    typer.Option(
        "--receipt",
        metavar="FILE",
        help="A receipt of a claim, again for each.",
        show_default=False,
    ),
]
PublicKey = Annotated[
    str | None,
    typer.Option(
        "--public-key",
        metavar="HEX",
        help="The public key of the service: it, or one that it named since, signed a head or a "
        "receipt that is given.",
        show_default=False,
    ),
]
LimitMegabytes = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Most megabytes of the file; it is kept in memory."),
]
LimitSeconds = Annotated[
    float,
    typer.Option(metavar="N", min=0.0, help="Most seconds of a processor that the audit may take."),
]
Url = Annotated[str, typer.Argument(metavar="URL", help="The address of the ledger.")]
State = Annotated[
    Path, typer.Option("--state", metavar="FILE", help="Where heads are kept, on another machine.")
]
Name = Annotated[str, typer.Argument(metavar="DATA_SET", help="The name of the data set.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write.")]
DataSets = Annotated[
    list[str] | None,
    typer.Option(
        "--data-set", metavar="NAME", help="Only this one, again for each.", show_default=False
    ),
]


@option_group
class LedgerAuditRequest(OutputOptions, PlotOptions):
    """An exported history, and what it is held against."""

    export: Export
    head: HeadGiven = None
    receipt: Receipts = None
    public_key: PublicKey = None
    limit_megabytes: LimitMegabytes = 2_000
    limit_seconds: LimitSeconds = 900.0


@option_group
class WitnessRequest(OutputOptions):
    """A ledger, and where its heads are kept."""

    url: Url
    state: State
    data_set: DataSets = None


@option_group
class ExportRequest(OutputOptions):
    """A data set of a ledger, and the file of its history."""

    url: Url
    name: Name
    out: Out


@takes(ExportRequest)
def export(_: typer.Context, asked: ExportRequest) -> Report:
    """Write the whole history of a data set to a file, as `privplan audit ledger` takes it.

    The token, of an auditor or an owner, is read from the variable PRIVPLAN_LEDGER_TOKEN.  --quiet
    prints the head, the hash of the last entry: keep it elsewhere.
    """
    from ...accountant.errors import InvalidInput
    from ...fl.ledger_client.connection import Connection

    connection = Connection(asked.url, os.environ.get(TOKEN_VARIABLE, ""))
    address = f"/v1/data-sets/{quote(asked.name, safe='')}/entries"
    count, head = 0, ""
    try:
        with asked.out.open("x", encoding="ascii") as file:
            try:
                while text := connection.text(f"{address}?first={count}"):
                    file.write(text)
                    count += text.count("\n")
                    head = _head_of(text)
            except BaseException:
                asked.out.unlink()
                raise
    except OSError as error:
        raise InvalidInput(
            f"{asked.out} cannot be written: {error.strerror}.",
            "No file is written over, and none is left cut off.",
            "Give a new file.",
        ) from None
    rows = [("entries", f"{count:,}"), ("head", head), ("file", str(asked.out))]
    return Report(result={"entries": count, "head": head}, text=table(rows), number=head)


def _head_of(text: str) -> str:
    """Return the hash of the last of some entries; `LedgerUnreachable` for what are none."""
    from ...fl.ledger_client.connection import no_ledger

    try:
        if not text.endswith("\n"):
            raise ValueError("a line is cut off")
        return str(json.loads(text.splitlines()[-1])["hash"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise no_ledger("What it gives as a history is none.") from None


@takes(LedgerAuditRequest)
def audit_ledger(_: typer.Context, asked: LedgerAuditRequest) -> Report:
    """Add up the history of a data set anew, from the events that it states.

    Every price, balance, cap and step is derived again, without the service.  Leaves with exit code
    1 where a line was edited, moved or taken out, where a charge is below the price of its event or
    a cap was exceeded, and where a head or a receipt says otherwise.  Where a limit is
    reached it leaves with exit code 2, and says nothing of the history.  --quiet prints epsilon.
    """
    with naming_install_command("plots"):
        asked.require_plot()
    with naming_install_command("fl"):
        from ...audit.budget_service.audit_limits import AuditLimits, exported_lines
        from ...audit.budget_service.audited import audit_history, head_of, statement_in
        from ...audit.plots.ledger_course import LedgerCourse

        course = LedgerCourse()
        limits = AuditLimits(asked.limit_megabytes, asked.limit_seconds)
        audited = audit_history(
            exported_lines(asked.export, limits),
            None if asked.head is None else head_of(asked.head),
            [statement_in(file) for file in asked.receipt or ()],
            None if asked.public_key is None else asked.public_key.strip().lower(),
            None if asked.plot is None else course.note,
            limits,
        )
    report = Report(
        result=audited.to_json(),
        text=table(_rows(audited)),
        number=str(audited.largest),
        assumptions=LEDGER_ASSUMPTIONS,
        warnings=audited.warnings,
        ok=audited.ok,
    )
    if asked.plot is None or not audited.entries:
        return report
    from ..reports import plots

    course.audit = audited
    return plots.with_plot(report, course.chart(), asked.plot)


@takes(WitnessRequest)
def witness(_: typer.Context, asked: WitnessRequest) -> Report:
    """Keep the head of each data set, and hold every new one against the last.

    Run it now and then on a machine that the operator of the ledger cannot write.  The token, of an
    auditor, is read from the variable PRIVPLAN_LEDGER_TOKEN.  Leaves with exit code 1 where a
    history is not the one that was seen: restored from a backup, cut off, or written anew.
    """
    with naming_install_command("fl"):
        from ...audit.budget_service.witness import witness as held
        from ...fl.ledger_client.connection import Connection

        connection = Connection(asked.url, os.environ.get(TOKEN_VARIABLE, ""))
        seen = held(connection, asked.state, tuple(asked.data_set or ()))
    rows: list[tuple[str, str]] = []
    for each in seen:
        if each.restored:
            text = f"entry {each.seq}, restored from a backup, and its gap was charged"
            rows.append((plain(each.data_set), text))
        elif each.problem is None:
            rows.append((plain(each.data_set), f"entry {each.seq}, {each.added:,} new"))
        else:
            rows += wrapped("FAILED", f"{each.data_set}: {each.problem}")
    return Report(
        result={
            "data_sets": [
                {
                    "data_set": each.data_set,
                    "seq": each.seq,
                    "added": each.added,
                    "problem": each.problem,
                    "restored": each.restored,
                }
                for each in seen
            ]
        },
        text=table(rows),
        number=str(sum(each.problem is not None for each in seen)),
        ok=all(each.problem is None for each in seen),
    )


def _rows(audited: LedgerAudit) -> list[tuple[str, str]]:
    rows = [
        ("data set", plain(audited.data_set or "none")),
        ("entries", f"{audited.entries:,}"),
        ("head", audited.head),
        ("held against", audited.held_against),
    ]
    if audited.epsilon is not None:
        cap = f"epsilon {audited.epsilon:g} at delta {audited.delta:g}"
        rows.append(("cap", cap if audited.certified else f"{cap}, NOT CERTIFIED"))
    rows += [(f"block {name}", f"epsilon {spent} spent") for name, spent in audited.spent.items()]
    rows += [(f"claims {state}", f"{count:,}") for state, count in audited.claims.items()]
    if audited.frozen:
        rows.append(("frozen", "it takes no claims"))
    if audited.problem is not None:
        where = "" if audited.entry is None else f"entry {audited.entry}: "
        rows += wrapped("FAILED", f"{where}{audited.problem}")
    return rows
