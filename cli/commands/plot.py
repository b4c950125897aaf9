"""`privplan plot ...`: results as pictures, or as charts of characters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..inputs import options
from ..inputs.options import option_group, optional
from ..inputs.plot_target import Out, require_target
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report
from .doctor import naming_install_command

if TYPE_CHECKING:
    from ...accountant.events import Event
    from ...audit.plots.chart import Chart

PLOT_DOCUMENTATION: Final = (
    "Draw results, with both ends of each number: in a file, or in characters on the terminal."
)
NOISE_EXAMPLE: Final = "privplan plot noise --epsilon 0.5,1,2,4 --rate 0.01 --rounds 1000"

Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", help="Print the path alone; without a file, the numbers, a point a line."
    ),
]
RunOrEvent = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="The folder of a run, or the JSON file of an event.",
        show_default=False,
    ),
]
EventPath = Annotated[
    str, typer.Argument(metavar="EVENT", help="A JSON file, or - for standard input.")
]
Folders = Annotated[
    list[str], typer.Argument(metavar="DIR...", help="Folders of runs.", show_default=False)
]
Export = Annotated[
    str,
    typer.Argument(metavar="EXPORT", help="The history, as `privplan ledger export` writes it."),
]
System = Annotated[
    str | None,
    typer.Argument(metavar="[SYSTEM]", help="A published system; without it, all of them."),
]
Files = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="What `privplan check` takes.", show_default=False),
]
Budget = Annotated[float | None, optional("E", "Of an event: a budget to draw.")]
Metric = Annotated[
    str | None, optional("NAME", "Which metric; accuracy, or the one that all runs have.")
]
Epsilons = Annotated[str | None, optional("LIST", "Target epsilon: 2, or 0.5,1,2,4.", "--epsilon")]
Rates = Annotated[str | None, optional("LIST", "Sampling rate: 0.01, or 0.01,0.03.", "--rate")]
RoundCounts = Annotated[str | None, optional("LIST", "Rounds: 1000, or 100,1000.", "--rounds")]


@option_group
class PlotRequest(OutputOptions):
    """Where a plot goes."""

    out: Out = None
    quiet: Quiet = False

    def report(self, chart: Callable[[], Chart]) -> Report:
        """Return the report on a chart, which is made once it is known that it can be written."""
        from ..reports.plots import report_of

        with naming_install_command("plots"):
            require_target(self.out)
        return report_of(chart(), self.out)


@option_group
class RoundsRequest(PlotRequest):
    """A run, or an event, and what its epsilon is compared with."""

    source: RunOrEvent
    delta: options.Delta = None
    budget: Budget = None
    neighbours: options.Neighbours = "add-remove"


@takes(RoundsRequest)
def rounds(_: typer.Context, asked: RoundsRequest) -> Report:
    """Draw epsilon by round, between both ends, and the budget.

    Of a run all is read from its log.  Rounds of an event are its repetitions; delta is 1e-5 where
    none is given.
    """
    from ...audit.plots.spending import SpendingCourse

    def chart() -> Chart:
        if Path(asked.source).is_dir():
            _refuse_with_a_run(delta=asked.delta, budget=asked.budget)
            return SpendingCourse.of_folder(asked.source).chart()
        from ...accountant import validate
        from ...accountant.delta_checks import delta_from_zero

        delta = options.DEFAULT_DELTA if asked.delta is None else asked.delta
        most = asked.budget
        return SpendingCourse.of_event(
            _event(asked.source, asked.neighbours),
            delta=options.checked(delta_from_zero, delta=delta),
            neighbours=options.word(options.NEIGHBOURS, neighbours=asked.neighbours),
            budget=None if most is None else options.checked(validate.positive, budget=most),
        ).chart()

    return asked.report(chart)


@option_group
class NoiseRequest(PlotRequest):
    """Targets and schedules, one of which is a list."""

    epsilon: Epsilons = None
    delta: options.Delta = None
    rate: Rates = None
    rounds: RoundCounts = None
    mechanism: options.Mechanism = "gaussian"
    neighbours: options.Neighbours = "add-remove"


@takes(NoiseRequest)
def noise(_: typer.Context, asked: NoiseRequest) -> Report:
    """Draw the noise that targets need: against epsilon, the rate or the rounds.

    One of --epsilon, --rate and --rounds is a list, such as 0.5,1,2,4; each noise is that of
    privplan calibrate, for Poisson samples.  Delta is 1e-5 where none is given.
    """
    from ...accountant.delta_checks import delta_from_zero

    epsilons = _numbers("positive", epsilon=asked.epsilon)
    rates = _numbers("probability", rate=asked.rate)
    counts = _numbers("count", rounds=asked.rounds)
    options.word(options.MECHANISMS, mechanism=asked.mechanism)
    options.word(options.NEIGHBOURS, neighbours=asked.neighbours)
    given = options.DEFAULT_DELTA if asked.delta is None else asked.delta
    delta = options.checked(delta_from_zero, delta=given)
    _require_single_list(epsilon=epsilons, rate=rates, rounds=counts)

    def chart() -> Chart:
        from ...audit.plots.sized_noise import noise_chart
        from ..inputs.schedule import from_rounds
        from ..reports.epsilon_noise import EpsilonPlan

        plans = [
            EpsilonPlan(
                from_rounds(rate, count), asked.mechanism, asked.neighbours, 1, None, epsilon, delta
            )
            for epsilon in epsilons
            for rate in rates
            for count in counts
        ]
        return noise_chart([plan.solve(None) for plan in plans])

    return asked.report(chart)


@option_group
class ProfileRequest(PlotRequest):
    """An event, and the delta whose epsilon is marked."""

    event: EventPath
    delta: options.Delta = None
    neighbours: options.Neighbours = "add-remove"


@takes(ProfileRequest)
def profile(_: typer.Context, asked: ProfileRequest) -> Report:
    """Draw delta by epsilon, between both ends; with --delta, the epsilon there is marked."""

    def chart() -> Chart:
        from ...accountant.account import bounds_on_epsilon
        from ...accountant.delta_checks import delta_from_zero
        from ...accountant.event_tree import unit_of
        from ...audit.plots.loss_curves import profile_chart, profile_of

        relation = options.word(options.NEIGHBOURS, neighbours=asked.neighbours)
        event = _event(asked.event, relation)
        marked = None
        if asked.delta is not None:
            delta = options.checked(delta_from_zero, delta=asked.delta)
            marked = bounds_on_epsilon(event, delta=delta, neighbours=relation).upper, delta
        at = None if marked is None else marked[0]
        profile = profile_of(event, relation, at=at)
        return profile_chart(profile, unit=unit_of(event), marked=marked)

    return asked.report(chart)


@option_group
class TradeOffRequest(PlotRequest):
    """A run with what attacks on it measured, or an event."""

    source: RunOrEvent
    neighbours: options.Neighbours = "add-remove"


@takes(TradeOffRequest)
def trade_off(_: typer.Context, asked: TradeOffRequest) -> Report:
    """Draw what the best attack misses by whom it accuses, with what attacks measured.

    Of a run the log says what is claimed, what it proves, and what privplan audit attack
    added to it.
    """

    def chart() -> Chart:
        from ...accountant.event_tree import unit_of
        from ...audit.plots.attacked import run_chart
        from ...audit.plots.loss_curves import roc_of, trade_off_chart
        from ...audit.report import read

        if Path(asked.source).is_dir():
            return run_chart(read(asked.source))
        relation = options.word(options.NEIGHBOURS, neighbours=asked.neighbours)
        event = _event(asked.source, relation)
        curve = roc_of(event, relation)
        return trade_off_chart(curve, unit=unit_of(event), neighbours=relation)

    return asked.report(chart)


@option_group
class ClaimsPlotRequest(PlotRequest):
    """Which published systems."""

    system: System = None


@takes(ClaimsPlotRequest)
def claims(_: typer.Context, asked: ClaimsPlotRequest) -> Report:
    """Draw the claims of published systems, with what is proven of each, as intervals."""

    def chart() -> Chart:
        from ...accountant.claims.table import SYSTEMS, as_system
        from ...audit.plots.comparisons import claims_chart
        from .claims import claims_of

        chosen = SYSTEMS if asked.system is None else (as_system(asked.system),)
        return claims_chart([claim for name in chosen for claim in claims_of(name)])

    return asked.report(chart)


@option_group
class ChecksPlotRequest(PlotRequest):
    """The files that describe runs."""

    files: Files


@takes(ChecksPlotRequest)
def checks(_: typer.Context, asked: ChecksPlotRequest) -> Report:
    """Draw what runs claim and what is proven of each, as privplan check finds it."""

    def chart() -> Chart:
        from ..reports.checked_runs import runs_in_files
        from ..reports.plots import chart_of_checks

        return chart_of_checks(runs_in_files(asked.files))

    return asked.report(chart)


@option_group
class LedgerPlotRequest(PlotRequest):
    """An exported history."""

    export: Export


@takes(LedgerPlotRequest)
def ledger(_: typer.Context, asked: LedgerPlotRequest) -> Report:
    """Draw what each block of a data set has spent over time, against its cap."""

    def chart() -> Chart:
        with naming_install_command("fl"):
            from ...audit.plots.ledger_course import LedgerCourse

            return LedgerCourse.of_export(asked.export).chart()

    return asked.report(chart)


@option_group
class UtilityRequest(PlotRequest):
    """Runs, and what their models are compared by."""

    folders: Folders
    metric: Metric = None


@takes(UtilityRequest)
def utility(_: typer.Context, asked: UtilityRequest) -> Report:
    """Draw a metric of several runs against the epsilon that their logs support."""

    def chart() -> Chart:
        from ...audit.plots.comparisons import utility_chart
        from ...audit.report import read

        return utility_chart({name: read(name) for name in asked.folders}, asked.metric)

    return asked.report(chart)


def _event(source: str, neighbours: str) -> Event:
    from ...accountant.work_limit import require_little_work
    from ..inputs.curve_file import read_released

    event = read_released(source, neighbours)
    require_little_work(event)
    return event


def _refuse_with_a_run(**given: object) -> None:
    from ...accountant.errors import InvalidInput

    for name, value in given.items():
        if value is not None:
            raise InvalidInput(
                f"--{name} is given with a run.",
                "The log of a run says its delta and its budget.",
                f"Leave out --{name}.",
            )


def _numbers(check: str, **field: str | None) -> tuple[Any, ...]:
    """Return the numbers of a list that was typed; raise `InvalidInput` where there is none."""
    from ...accountant.errors import InvalidInput

    ((name, text),) = field.items()
    why = options.REASON_BY_OPTION[name]
    if text is None:
        raise InvalidInput(f"`{name}` is missing.", why, NOISE_EXAMPLE)
    return options.listed_numbers(name, text, check, why)


def _require_single_list(**lists: tuple[object, ...]) -> None:
    from ...accountant.errors import InvalidInput

    several = [name for name, values in lists.items() if len(set(values)) > 1]
    if len(several) != 1:
        what = f"--{' and --'.join(several)} are lists." if several else "No option is a list."
        raise InvalidInput(
            what,
            "A plot has one horizontal axis: what differs.",
            NOISE_EXAMPLE,
        )
