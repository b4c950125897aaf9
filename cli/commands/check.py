"""`privplan check`: is the number that somebody reports of a run right?"""

from __future__ import annotations

from typing import Annotated

import typer

from ..inputs.options import option_group, optional
from ..inputs.plot_target import PlotOptions
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report
from .doctor import naming_install_command

Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE]...",
        help="Descriptions (TOML, JSON), accountants' states, checkpoints, histories, run folders "
        "of privplan; a folder of such files stands for each of them; - for standard input.",
        show_default=False,
    ),
]
Facts = Annotated[
    list[str] | None,
    optional(
        "KEY=VALUE",
        "Say what no file holds, such as sampling.method=shuffled; may be given several "
        "times (privplan explain check).",
        "--set",
    ),
]
Claimed = Annotated[
    str | None,
    optional(
        "E",
        "The epsilon that is claimed, with the digits that were printed: --set claim.epsilon=E.",
    ),
]
ClaimedDelta = Annotated[
    str | None, optional("D", "The delta of the claim: --set claim.delta=D.", "--delta")
]
Together = Annotated[
    bool, typer.Option("--together", help="All files describe one run, whatever they are.")
]
Each = Annotated[bool, typer.Option("--each", help="Each file is a run of its own: a table.")]

Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Take nothing for granted: open what a verdict takes to be so otherwise."
    ),
]
Verdict = Annotated[bool, typer.Option("--quiet", "-q", help="Print the verdict alone.")]
Brief = Annotated[
    bool,
    typer.Option("--brief", help="Leave out the facts, and the questions about those missing."),
]
Statement = Annotated[
    bool,
    typer.Option(
        "--statement",
        help="Print a paragraph for a paper or a model card: what is proven, and on what it rests.",
    ),
]


@option_group
class CheckRequest(OutputOptions, PlotOptions):
    """The files that describe runs, what is said with them, and how much is printed."""

    files: Files = None
    facts: Facts = None
    claimed: Claimed = None
    delta: ClaimedDelta = None
    together: Together = False
    each: Each = False
    strict: Strict = False
    brief: Brief = False
    statement: Statement = False
    quiet: Verdict = False


@takes(CheckRequest)
def check(_: typer.Context, asked: CheckRequest) -> Report:
    """Say whether a number that is reported of a run is right, whichever library computed it.

    Files of different kinds (an accountant's state and a description) describe one run, and
    contradictions are named; files of one kind, and descriptions that each state a claim or a
    noise, are runs of their own, in a table.  --set holds for all of them, and stands before what
    a file says ("what if batches had been Poisson samples?"); what it overrode is named.

    A description stands for every run that it allows, and the verdict is about all of them.  What
    nobody mentions falls under conventions, which are listed; --strict opens these as well.

    Exit code 0: the claim holds.  1: it is false, or what was said contradicts itself.  3: it is
    unproven, or cannot be verified without what is asked for.  Of several runs it is the worst: 1
    before 2 (a file that cannot be read), 2 before 3.  --quiet prints the verdict, of several runs
    with their files.  --plot draws what is claimed and what is proven, a row for each run.
    """
    from ..inputs.run_files import grouping_of
    from ..reports.checked_runs import report_on, runs_in_files

    with naming_install_command("plots"):
        asked.require_plot()
    runs = runs_in_files(
        asked.files or (),
        stated=asked.facts or (),
        claimed=asked.claimed,
        delta=asked.delta,
        grouping=grouping_of(together=asked.together, each=asked.each),
        strict=asked.strict,
    )
    report = report_on(runs, brief=asked.brief, as_statement=asked.statement)
    if asked.plot is None:
        return report
    from ..reports import plots

    return plots.with_plot(report, plots.chart_of_checks(runs), asked.plot)
