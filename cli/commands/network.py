"""`privplan network demo`: a whole network on one machine, one of whose guards is killed."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from ..inputs.options import option_group
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, plain, table
from .doctor import naming_install_command


@option_group
class DemoRequest(OutputOptions):
    """Where the parties' folders are kept."""

    out: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A new folder to keep.  Default: none is kept."),
    ] = None


@takes(DemoRequest)
def demo(_: typer.Context, asked: DemoRequest) -> Report:
    """Make a run over a network on this machine, kill a guard, and hold all logs together.

    A superlink, three supernodes and the guards of three hospitals run as processes of their own,
    on loopback.  It takes about a minute, and leaves with exit code 1 where the logs do not fit.
    """
    if asked.out is not None:
        return _demonstrated(Path(asked.out), asked, kept=True)
    with tempfile.TemporaryDirectory(prefix="privplan-network-") as folder:
        return _demonstrated(Path(folder), asked, kept=False)


def _demonstrated(folder: Path, asked: DemoRequest, *, kept: bool) -> Report:
    with naming_install_command("flower"):
        from ...accountant.errors import InvalidInput
        from ...audit.budget import audit_budget
        from ...audit.reconciliation import reconcile
        from ...audit.verify import verify
        from ...fl.network.demo import demonstrate

        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InvalidInput(
                f"{folder} is not an empty folder.",
                "A demonstration has folders of its own.",
                "Name a new folder.",
            )
        runs = demonstrate(folder.absolute(), lambda line: _tell(line, asked))
    together = reconcile(runs["server"], [runs[name] for name in runs if name != "server"])
    whole = {name: verify(run).complete for name, run in runs.items()}
    budget = audit_budget(together.fullest)
    rows = [
        ("logs", f"{sum(whole.values())} of {len(whole)} are whole and closed"),
        ("rounds", f"{together.spent} were begun somewhere, {together.released} released"),
        ("spent", f"epsilon {budget.total.upper:.6g}, before the observer `model`"),
        ("parties", "; ".join(map(plain, together.problems)) or "their logs fit together"),
        *(("note", plain(each)) for each in together.notes),
    ]
    if kept:
        rows.append(("kept in", str(folder)))
    result = {
        "whole": whole,
        "spent": together.spent,
        "released": together.released,
        "epsilon": budget.total.upper,
        "problems": list(together.problems),
    }
    return Report(
        result, table(rows), str(together.released), ok=together.ok and all(whole.values())
    )


def _tell(line: str, asked: DemoRequest) -> None:
    if not (asked.as_json or asked.quiet):
        print(plain(line), file=sys.stderr, flush=True)
