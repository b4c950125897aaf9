"""`privplan account`: what did a known mechanism cost?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..inputs import attack_risk, options
from ..inputs.described_run import RunOptions
from ..inputs.plot_target import PlotOptions
from ..inputs.request import OutputOptions, QuestionOptions, takes
from ..terminal.output import Report
from .doctor import naming_install_command

EventPath = Annotated[
    str | None,
    typer.Argument(
        metavar="[EVENT]", help="A JSON file, or - for standard input.", show_default=False
    ),
]

Units = Annotated[
    int | None,
    options.optional(
        "N",
        "How many units are protected: a delta of 1 / N or more is refused, or needs "
        "--accept-delta.",
    ),
]
Claimed = Annotated[
    str | None,
    options.optional(
        "E",
        "An epsilon that is said of it, as it is printed: is it right?  Exit code 1 if it is "
        "false, 3 if it is not proven.",
    ),
    options.PER_CALL,
]
Routes = Annotated[
    bool,
    typer.Option("--routes", help="List every way to the number, also those that lose."),
    options.PER_CALL,
]
Curve = Annotated[
    Path | None,
    options.optional(
        "FILE.csv",
        "Write delta by epsilon, and the Renyi divergence by order, into a CSV file.",
        "--curve",
    ),
    options.PER_CALL,
]


@options.option_group
class AccountRequest(
    OutputOptions, PlotOptions, attack_risk.AttackOptions, QuestionOptions, RunOptions
):
    """An event or a run, and what is asked of it."""

    event: EventPath = None
    routes: Routes = False
    units: Units = None
    accept_delta: options.AcceptDelta = False
    claimed: Claimed = None
    curve: Curve = None


@takes(AccountRequest)
def account(context: typer.Context, asked: AccountRequest) -> Report:
    """Say what a known mechanism proves, from both sides.

    The mechanism is an EVENT (JSON, or a Renyi curve in a .csv file), or noisy sums:
    --noise-multiplier with --records, --batch and --epochs, or with --rate and --rounds, drawn as
    --sampling says.

    It finds epsilon at a --delta, or delta at an --epsilon; without either, delta is 1e-5.  The
    upper end of the answer is the guarantee, and nothing below the lower end is true of the
    mechanism.  With --group K it is about units of K records each.

    With --units N (or --records), a delta of 1 / N or more is refused without
    --accept-delta.  With --claimed E it says whether that number is right (privplan explain check);
    without --sampling it then holds only if batches were Poisson samples.  --quiet prints the upper
    end, and the verdict where there is a claim.

    One line says what an attacker reaches who accuses 1 in 100 innocents, where that takes a moment
    only; --risk says more, of any event: advantage, TPR at --fpr, error at --prior, naming 1 of
    --guesses, and the Gaussian that dominates from --from-fpr on.

    --plot draws delta by epsilon, and with --risk what attacks miss by whom they accuse.
    """
    from ...accountant import validate
    from ...accountant.work_limit import require_little_work
    from ..inputs.curve_file import read_released, require_replaceable
    from ..inputs.described_run import described, grouped
    from ..inputs.run_files import TypedFacts, reading_of_claim
    from ..inputs.schedule import protected
    from ..reports import account as reports

    group = options.checked(validate.count, group=asked.group)
    run = described(context, asked.event, asked, group)
    units, unit = asked.units, "unit"
    if run is not None:
        units, unit = protected(context, run.kind, asked.records, units)
    question = reports.Question.of(context, asked)
    counted = question.unit_count(units, asked.accept_delta, unit)
    question = replace(question, units=counted, unit=unit)
    if asked.routes:
        question.check_routes()
    if asked.claimed is not None:
        question.check_claim(group)
    if asked.curve is not None:
        require_replaceable(asked.curve)  # before anything is computed
    with naming_install_command("plots"):
        asked.require_plot()
    attack = asked.attack(asked.engine)
    if run is None:
        assert asked.event is not None
        released = grouped(read_released(asked.event, asked.neighbours), group)
        require_little_work(released)
        report = question.answer_of(released, routes=asked.routes).report()
    else:
        released = run.event
        report = reports.report_of(run, question, routes=asked.routes)
    if asked.claimed is not None:
        typed = TypedFacts(
            delta=question.chosen,
            neighbours=bool(options.strongest(context, {"neighbours": ["neighbours"]})),
            sampling=asked.sampling is not None,
        )
        reading = reading_of_claim(
            asked.claimed, question.given, asked.neighbours, run, released, typed
        )
        report = reports.with_verdict(report, reading)
    risk = None
    if report.result.get("refused") is None and (asked.as_json or not asked.quiet or asked.plot):
        if attack is not None:
            risk = reports.risk_of(released, question, attack)
            report = reports.with_risk(report, risk)
        elif not asked.as_json:
            report = reports.with_attack_sentence(report, released, question)
    if asked.curve is not None:
        report = reports.with_curve(report, released, asked.neighbours, asked.curve)
    if asked.plot is not None and report.result.get("refused") is None:
        from ..reports import plots

        chart = plots.chart_of_event(released, question, report.result, risk)
        report = plots.with_plot(report, chart, asked.plot)
    return report
