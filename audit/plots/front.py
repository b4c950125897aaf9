"""`privplan.plot`: results of privplan on axes of matplotlib.

Every function returns the axes that it drew on: those that are given, or those of a new figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.errors import InvalidInput, kind_of
from .axes import drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...accountant.calibration_aims import Calibration
    from ...accountant.claims.table import Claim
    from ...accountant.curves import PrivacyProfile
    from ...accountant.plan import Plan
    from ...accountant.risk import Risk, RocCurve
    from ..check.check_result import CheckResult
    from ..measurement import ExampleResult, Measurement
    from ..report.run_facts import RunFacts

Folder = str | PathLike[str]


def epsilon_by_round(
    source: Folder | ev.EventLike | RunFacts,
    *,
    delta: float | None = None,
    budget: float | None = None,
    neighbours: str = "add-remove",
    ax: Axes | None = None,
) -> Axes:
    """Draw how epsilon grows with rounds, between both ends, and the budget.

    `source` is the folder of a run, whose log says all else, or an event, whose rounds are its
    repetitions.  Between two computed rounds the upper end of the later one is drawn.  An event
    needs `delta`, in (0, 1); `budget` is an epsilon above 0.

    Raises `InvalidInput` for what is no run and no event, and where nothing is finite; `BadLine`
    for a log whose chain is broken; `Unsupported` where no engine has an answer; `MissingExtra`
    without matplotlib.
    """
    from ..report.run_facts import RunFacts
    from .spending import SpendingCourse

    if isinstance(source, RunFacts):
        course = SpendingCourse.of_facts(source)
    elif isinstance(source, (str, PathLike)):
        course = SpendingCourse.of_folder(Path(source))
    else:
        if delta is None:
            raise InvalidInput(
                "`delta` is missing.",
                "The epsilon of an event depends on it.",
                "Give a delta well below 1 / units, such as delta=1e-6.",
            )
        most = None if budget is None else validate.positive(budget=budget)
        course = SpendingCourse.of_event(source, delta=delta, neighbours=neighbours, budget=most)
    return drawn(course.chart(), ax)


def noise(
    results: Calibration | Plan | Iterable[Calibration | Plan],
    *,
    against: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the noise multiplier of calibrations or plans against what differs among them.

    `against` is `epsilon`, `rounds`, `rate` or `group`.  A line joins the points only where the
    noise in between is proven to be enough, too.

    Raises `InvalidInput` where results do not say it; `MissingExtra` without matplotlib.
    """
    from ...accountant.calibration_aims import Calibration
    from ...accountant.plan import Plan
    from .sized_noise import noise_chart

    listed = [results] if isinstance(results, (Calibration, Plan)) else list(results)
    return drawn(noise_chart(listed, against), ax)


def privacy_profile(
    profile: PrivacyProfile, *, unit: str = "record", ax: Axes | None = None
) -> Axes:
    """Draw delta by epsilon, between both ends; the upper end is the guarantee.

    `profile` is what `privplan.privacy_profile` returned, and `unit` what it protects.

    Raises `InvalidInput` for anything else; `MissingExtra` without matplotlib.
    """
    from .loss_curves import profile_chart

    _require(profile, "PrivacyProfile", "what `privplan.privacy_profile` returned")
    return drawn(profile_chart(profile, unit=unit), ax)


def trade_off(
    curve: RocCurve,
    *,
    measured: Measurement | Sequence[Measurement] = (),
    risk: Risk | None = None,
    claimed: tuple[float, float] | None = None,
    unit: str = "record",
    ax: Axes | None = None,
) -> Axes:
    """Draw misses against false alarms: below the proven line no attack can come.

    `curve` is what `privplan.roc` returned, `measured` what attacks found, `risk` what
    `privplan.risk` returned, and `claimed` an (epsilon, delta) to compare with.

    Raises `InvalidInput` for anything else; `MissingExtra` without matplotlib.
    """
    from ..measurement import Measurement
    from .loss_curves import trade_off_chart

    _require(curve, "RocCurve", "what `privplan.roc` returned")
    results = [measured] if isinstance(measured, Measurement) else list(measured)
    chart = trade_off_chart(
        curve,
        unit=unit,
        neighbours=curve.neighbours,
        risk=risk,
        claimed=claimed,
        measured=results,
    )
    return drawn(chart, ax)


def claims(
    results: Mapping[str, CheckResult] | Iterable[Claim | ExampleResult],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw a row for each claim: what is proven between two ends, claimed and measured.

    `results` are verdicts of `privplan.check` by the names of their runs, or rows of the table of
    published claims.

    Raises `InvalidInput` where none is about an epsilon; `MissingExtra` without matplotlib.
    """
    from .comparisons import claims_chart

    return drawn(claims_chart(results), ax)


def ledger_spending(export: Folder, *, ax: Axes | None = None) -> Axes:
    """Draw what each block of a data set has spent over time, against its cap.

    `export` is the file that `privplan ledger export` wrote; everything is added up anew.

    Raises `InvalidInput` for a file that is none; `MissingExtra` without matplotlib.
    """
    from .ledger_course import LedgerCourse

    return drawn(LedgerCourse.of_export(Path(export)).chart(), ax)


def utility(
    runs: Sequence[Folder] | Mapping[str, Folder | RunFacts],
    *,
    metric: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric of each run's model against the epsilon that its log supports.

    `runs` are folders of runs, or folders by the names to show; `metric` is one that all have.

    Raises `InvalidInput` where there is none, or no log; `MissingExtra` without matplotlib.
    """
    from ..report.run_facts import RunFacts, read
    from .comparisons import utility_chart

    named = runs if isinstance(runs, Mapping) else {str(folder): folder for folder in runs}
    facts = {
        name: each if isinstance(each, RunFacts) else read(Path(each))
        for name, each in named.items()
    }
    return drawn(utility_chart(facts, metric), ax)


def _require(value: Any, kind: str, what: str) -> None:
    if type(value).__name__ != kind:
        raise InvalidInput(
            f"{kind} is needed; this is {kind_of(value)}.", next_step=f"Give {what}."
        )
