"""Charts of what commands answered, written into a file or added to what is printed."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...accountant.errors import InvalidInput, PrivplanError
from ..inputs.plot_target import TERMINAL
from ..terminal.output import Report, one_line, table, wrapped

if TYPE_CHECKING:
    from ...accountant.calibration_aims import Calibration
    from ...accountant.events import Event
    from ...accountant.risk import Risk
    from ...audit.attack.report import AttackReport
    from ...audit.plots.chart import Chart
    from .account import Question
    from .checked_runs import RunRow
    from .epsilon_noise import EpsilonPlan
    from .plan import Comparison

NEAR_TARGETS: Final = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The epsilons next to a target for which noise is drawn, as multiples of it."""

DEFAULT_COLUMNS: Final = 80


def with_plot(report: Report, chart: Chart, target: str) -> Report:
    """Return the report with a plot: written into a file, or below its text."""
    if target == TERMINAL:
        said = f"{report.text}\n\n{in_characters(chart)}"
        return replace(report, result={**report.result, "plot": chart.to_json()}, text=said)
    written = _written(chart, target)
    rows = table([("plot", target)])
    return replace(report, result={**report.result, "plot": written}, text=f"{report.text}\n{rows}")


def report_of(chart: Chart, target: str | None) -> Report:
    """Return the report that is a plot alone."""
    if target is None or target == TERMINAL:
        numbers = "\n".join("; ".join(row) for row in _numbers(chart))
        return Report(chart.to_json(), in_characters(chart), numbers)
    written = _written(chart, target)
    rows = [("plot", chart.title), *wrapped("of", chart.subtitle), ("file", target)]
    rows += [row for note in chart.notes for row in wrapped("note", note)]
    return Report({**chart.to_json(), **written}, table(rows), one_line(target))


def in_characters(chart: Chart) -> str:
    """Return a chart as wide as the terminal, in ASCII where it knows no more."""
    from ...audit.plots.text_chart import text_chart

    columns = shutil.get_terminal_size((DEFAULT_COLUMNS, 24)).columns
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    text = text_chart(chart, columns)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text_chart(chart, columns, unicode=False)
    return text


def _written(chart: Chart, target: str) -> dict[str, object]:
    from ...audit.plots.picture import save

    return {"path": target, "bytes": save(chart, Path(target))}


def _numbers(chart: Chart) -> Iterator[tuple[str, ...]]:
    """Yield the numbers of a chart: a label, and those of a point, by the names of their fields."""
    for mark in chart.to_json()["marks"]:  # type: ignore[attr-defined]
        columns = {name: each for name, each in mark.items() if isinstance(each, list)}
        if columns:
            for values in zip(*columns.values(), strict=True):
                pairs = zip(columns, values, strict=True)
                yield (mark["label"], *(f"{name}={value:.12g}" for name, value in pairs))
            continue
        single = {name: each for name, each in mark.items() if isinstance(each, float)}
        yield (mark["label"], *(f"{name}={value:.12g}" for name, value in single.items()))


def chart_of_event(
    event: Event, question: Question, answer: Mapping[str, Any], risk: Risk | None
) -> Chart:
    """Return delta by epsilon with the answer in it; with a risk, the trade-off of the attack."""
    from ...accountant.event_tree import unit_of
    from ...audit.plots import loss_curves

    unit, relation = unit_of(event), question.neighbours
    if risk is not None:
        curve = loss_curves.roc_of(event, relation)
        return loss_curves.trade_off_chart(curve, unit=unit, neighbours=relation, risk=risk)
    proven = float(answer[question.quantity]["upper"])
    marked = (
        (proven, question.given) if question.quantity == "epsilon" else (question.given, proven)
    )
    if not math.isfinite(marked[0]):
        raise InvalidInput(
            "There is no plot: no finite epsilon is proven.",
            "The plot shows delta by epsilon.",
            "Leave out --plot.",
        )
    profile = loss_curves.profile_of(event, relation, at=marked[0])
    return loss_curves.profile_chart(profile, unit=unit, marked=marked)


def chart_of_calibration(plan: EpsilonPlan, solved: Calibration) -> Chart:
    """Return the noise that meets the target, and epsilons next to it where some noise does."""
    from ...audit.plots.sized_noise import noise_chart

    results = []
    for factor in NEAR_TARGETS:
        if factor == 1.0:
            results.append(solved)
            continue
        # A target next to ours may hold without noise, or be met by none.
        try:
            results.append(replace(plan, epsilon=factor * plan.epsilon).solve(plan.engine))
        except PrivplanError:
            continue
    return noise_chart(results, "epsilon")


def chart_of_designs(compared: Comparison) -> Chart:
    """Return the noise of several designs, or how epsilon grows with the rounds of a single one."""
    from ...audit.plots.sized_noise import noise_chart
    from ...audit.plots.spending import SpendingCourse

    plans = [row.plan for row in compared.rows if row.plan is not None]
    if len(plans) > 1:
        return noise_chart(plans)
    (plan,) = plans
    observer = max(plan.guarantees.values(), key=lambda each: each.epsilon.upper).observer
    course = SpendingCourse.of_event(
        plan.seen_by(observer), delta=plan.delta, neighbours=plan.neighbours, budget=plan.epsilon
    )
    return replace(course.chart(), title="Epsilon by round of the plan")


def chart_of_checks(runs: Sequence[RunRow]) -> Chart:
    """Return the claims of the runs that were read, with what is proven of each."""
    from ...audit.plots.comparisons import claims_chart

    results = {run.name: run.result for run in runs if run.result is not None}
    return claims_chart(results)


def chart_of_attack(folder: str, attacked: AttackReport) -> Chart:
    """Return what an attack measured, over what is proven of the run that it attacked.

    Results that are sealed are left out: a picture is handed on.
    """
    from ...audit.plots.attacked import attack_chart

    return attack_chart(folder, attacked)
