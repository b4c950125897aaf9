"""`privplan run`: carry out a run under its plan, and leave the log that proves what it spent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..inputs import anchors, options
from ..inputs.request import OutputOptions, takes
from ..terminal.exit_codes import Interruption
from ..terminal.output import Report
from .doctor import naming_install_command

if TYPE_CHECKING:
    from ...fl.running import ReadyRun
    from ...fl.running.checkpoint import RoundMeasurement

RUN_EXAMPLE: Final = "privplan run CONFIG.toml --out DIR"

ConfigPath = Annotated[
    Path | None,
    typer.Argument(metavar="[CONFIG.toml]", help="What to run (privplan explain run)."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", show_default=False, help="New folder for the log, the model and the metrics."
    ),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the run in DIR, which was cut off.")
]

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print what each observer would learn, and write nothing."),
]
Head = Annotated[
    str | None,
    options.optional(
        "HEX",
        "With --resume: the newest head of the log that was kept elsewhere, or its first 32 "
        "digits or more; a log that lacks it has forgotten what was spent.",
    ),
]

RoundReport = Callable[["RoundMeasurement", int], None]


@options.option_group
class RunRequest(OutputOptions):
    """What is run, and where its folder is."""

    config: ConfigPath = None
    out: Out = None
    resume: Resume = False
    dry_run: DryRun = False
    head: Head = None
    accept_delta: options.AcceptDelta = False


@takes(RunRequest)
def run(_: typer.Context, asked: RunRequest) -> Report:
    """Train under a plan, and keep the log.

    The plan is certified before anything is written, every release is in the log before it is
    made, and a run that was cut off goes on with --resume from its last released model.  --quiet
    prints the proven epsilon.
    """
    try:
        with naming_install_command("fl"):
            return _forecast(asked) if asked.dry_run else _executed(asked)
    except KeyboardInterrupt as error:
        raise _interrupted(error, asked.out, asked.head) from None


def _executed(asked: RunRequest) -> Report:
    """Return the report of a run that was carried out, or went on, to its end."""
    # This makes the folder: whatever stops the run from here on leaves it fit for --resume.
    ready = _ready(asked, anchors.normalised_head(asked.head))
    from ...fl.running.run_and_resume import execute_ready
    from ...fl.running.warnings import warnings_of
    from ..reports.run import report_of

    with ready.writer:
        # Collected before the first round, while nothing is spent.
        warnings = warnings_of(ready.prepared)
        with _progress_bar(ready, shown=not (asked.as_json or asked.quiet)) as tell:
            result, unnoted = execute_ready(ready, tell)
    return report_of(ready, result, ready.writer.head, (*warnings, *unnoted))


def _forecast(asked: RunRequest) -> Report:
    """Return what a run would prove; a folder has no part in it."""
    from ...accountant.errors import InvalidInput
    from ..reports.forecast import forecast_of

    if asked.config is None or asked.resume:
        raise InvalidInput(
            "--dry-run takes a configuration, and no --resume.",
            "It plans a run anew; what a run that was cut off has spent stands in its log.",
            "privplan run CONFIG.toml --dry-run",
        )
    return forecast_of(asked.config, accept_delta=asked.accept_delta)


def _interrupted(error: KeyboardInterrupt, out: Path | None, head: str | None) -> Interruption:
    """Return how to go on where a run was interrupted, in a round or outside of all."""
    from ...fl.running.folder import CONFIG_FILE
    from ...fl.running.interrupted_run import RunInterrupted, between_rounds

    # A folder with a configuration holds a run, whatever line it stopped at.
    if isinstance(error, RunInterrupted) or (out is not None and (out / CONFIG_FILE).is_file()):
        stopped = between_rounds(error, out or Path(), head)
        return Interruption(stopped.what, stopped.why, stopped.next_step)
    return Interruption("The run was interrupted.", "No round was under way.")


def _ready(asked: RunRequest, head: str | None) -> ReadyRun:
    from ...accountant.errors import InvalidInput
    from ...fl.running import Configuration, ready_new_run, ready_to_resume

    config, out, resume = asked.config, asked.out, asked.resume
    if out is None:
        raise InvalidInput(
            "`out` is missing.", "A run keeps its log and its model in a folder.", RUN_EXAMPLE
        )
    if config is None and not resume:
        raise InvalidInput("A configuration is missing.", "It says what is run.", RUN_EXAMPLE)
    if head is not None and not resume:
        raise InvalidInput(
            "`head` is given, and the run is a new one.",
            "It is the head of a log that goes on.",
            "Leave it out, or give --resume.",
        )
    if asked.accept_delta and resume:
        raise InvalidInput(
            "--accept-delta is given, and the run was begun.",
            "What it accepted stands in its own configuration.",
            "Leave it out.",
        )
    source = None if config is None else Configuration.read(config)
    if source is not None and asked.accept_delta:
        source = source.with_accepted_delta()
    if resume:
        return ready_to_resume(source, out, head)
    assert source is not None
    return ready_new_run(source, out)


@contextmanager
def _progress_bar(ready: ReadyRun, *, shown: bool) -> Iterator[RoundReport | None]:
    """Show how far the run is, on a terminal only; yield what is to be told of each round."""
    if not (shown and sys.stderr is not None and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ..reports.run import line_of

    columns = (
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=ready.prepared.rounds)
        observer = ready.prepared.opening.claim.observer

        def tell(measured: RoundMeasurement, _: int) -> None:
            progress.update(task, completed=measured.round, description=line_of(measured, observer))

        yield tell
