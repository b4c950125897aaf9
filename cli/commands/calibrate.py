"""`privplan calibrate`: how much noise does a target need?"""

from __future__ import annotations

from typing import Annotated

import typer

from ..inputs import attack_risk, gram, options
from ..inputs.plot_target import PlotOptions
from ..inputs.request import LossOptions, OutputOptions, takes
from ..inputs.schedule import ScheduleOptions, given_by, protected, required
from ..terminal.output import Report
from .doctor import naming_install_command

Units = Annotated[
    int | None,
    options.optional(
        "N",
        "With --rate and --rounds: how many units are protected; a delta of 1 / N or more "
        "is refused, or needs --accept-delta.",
    ),
]


@options.option_group
class CalibrateRequest(
    OutputOptions,
    PlotOptions,
    gram.GramOptions,
    LossOptions,
    ScheduleOptions,
    attack_risk.TargetOptions,
):
    """A target, and the run or the release that has to meet it."""

    mechanism: options.Mechanism = "gaussian"
    units: Units = None
    accept_delta: options.AcceptDelta = False

    def require_delta_below(self, delta: float, units: int | None, unit: str) -> None:
        """Raise `InvalidInput` for a delta of 1 / units or more that nobody accepted."""
        from ...accountant.delta_checks import require_delta_below_units

        accept = options.ACCEPT_DELTA_FLAG
        require_delta_below_units(delta, units, unit, accepted=self.accept_delta, accept=accept)


@takes(CalibrateRequest)
def calibrate(context: typer.Context, asked: CalibrateRequest) -> Report:
    """Find the smallest noise that provably meets a target.

    Needs a target, and a schedule.  The target is --epsilon and --delta, or what the best attack
    may reach: --advantage, or --tpr at --fpr, or --bayes at --prior (privplan explain risk).  The
    schedule is either --records, --batch and --epochs, or --rate and
    --rounds.  Steps are records x epochs / batch, rounded up; the rate is batch / records, and
    --sampling says how a batch is drawn.  A delta of 1 / records or more is refused without
    --accept-delta; with --rate and --rounds it is compared with 1 / units, where --units says how
    many there are.

    With --release gram: the noise of a Gram matrix with label sums, released once of all data, and
    its sensitivities, for rows that are clipped to a public norm R.  It needs --dimension, and
    takes no schedule.

    --plot draws the noise for the target epsilon, and for others up to four times it and a quarter
    of it.
    """
    from ...accountant import validate
    from ...accountant.delta_checks import delta_below_half, delta_from_zero

    risk = attack_risk.asked_target(context, asked)
    if asked.plot is not None and risk is not None:
        raise _unplotted("an attack risk")
    with naming_install_command("plots"):
        asked.require_plot()
    epsilon = slack = 0.0
    if risk is not None:
        _refuse_with_risk(release=asked.release, units=asked.units)
    else:
        epsilon = required(validate.positive, epsilon=asked.epsilon)
        if asked.delta is None:
            raise options.missing_delta(asked.units or asked.records)
        slack = required(delta_below_half if asked.release else delta_from_zero, delta=asked.delta)
    options.word(options.MECHANISMS, mechanism=asked.mechanism)
    options.word(options.NEIGHBOURS, neighbours=asked.neighbours)
    if asked.engine is not None:
        options.word(options.ENGINES, engine=asked.engine)
    size = options.checked(validate.count, group=asked.group)
    units = asked.units
    if gram.is_asked(context, asked.release):
        from ..reports.gram import GramTarget

        if asked.plot is not None:
            raise _unplotted("a release")
        if units is not None:
            units = options.checked(validate.count, units=units)
        asked.require_delta_below(slack, units, asked.unit)
        bound = gram.bound(asked)
        return GramTarget(
            epsilon,
            slack,
            bound,
            asked.unit,
            asked.mechanism,
            asked.neighbours,
            asked.engine,
            units,
        ).report()
    kind = given_by(context)
    run = asked.schedule(kind), asked.mechanism, asked.neighbours, size, asked.engine
    if risk is not None:
        from ..reports.risk_noise import RiskPlan

        return RiskPlan(*run, risk).report()
    units, whom = protected(context, kind, asked.records, units)
    asked.require_delta_below(slack, units, whom)
    from ..reports.epsilon_noise import EpsilonPlan

    plan = EpsilonPlan(*run, epsilon, slack, units, whom)
    calibration = plan.solve(asked.engine)
    report = plan.report(calibration, brief=asked.quiet and not asked.as_json)
    if asked.plot is not None:
        from ..reports import plots

        report = plots.with_plot(report, plots.chart_of_calibration(plan, calibration), asked.plot)
    return report


def _unplotted(what: str) -> Exception:
    from ...accountant.errors import InvalidInput

    return InvalidInput(
        f"--plot does not go with {what}.",
        "It draws noise against epsilon, for a schedule.",
        "Leave out --plot, or give --epsilon, --delta and a schedule.",
    )


def _refuse_with_risk(**options: object) -> None:
    from ...accountant.errors import InvalidInput

    for name, value in options.items():
        if value is not None:
            raise InvalidInput(
                f"`{name}` goes with --epsilon and --delta, not with an attack risk.",
                "An attack risk has no delta that could be too large for so many units."
                if name == "units"
                else "The noise of a Gram matrix is calibrated to epsilon at a delta.",
                f"Leave out --{name}, or give --epsilon and --delta.",
            )
