"""Curves of one event: delta by epsilon, and misses by false alarms with what attacks measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from ...accountant import events as ev
from ...accountant.account import bounds_on_epsilon
from ...accountant.curves import PrivacyProfile, privacy_profile
from ...accountant.risk import Risk, RocCurve, roc
from ...accountant.rounding import up
from ..measurement import Measurement
from .chart import Axis, Band, Chart, Line, Mark, Points, Role, conditions, stairs

PROFILE_POINTS: Final = 160
"""Epsilons of a profile that is computed for a plot."""

LAST_DELTA: Final = 1e-10
"""Such a profile ends where delta falls below this."""

LARGEST_DRAWN_EPSILON: Final = 60.0
"""And here at the latest."""

ROC_POINTS: Final = 160
"""False positive rates of a trade-off curve that is computed for a plot."""

SMALLEST_DELTA: Final = 1e-12
"""No smaller delta is drawn."""


def profile_of(event: ev.Event, neighbours: str, *, at: float | None = None) -> PrivacyProfile:
    """Return delta at epsilons from 0 to where it is negligible, `at` (an epsilon) among them."""
    last = bounds_on_epsilon(event, delta=LAST_DELTA, neighbours=neighbours).upper
    last = max(min(last, LARGEST_DRAWN_EPSILON), min(at or 0.0, LARGEST_DRAWN_EPSILON)) or 1.0
    epsilons = np.linspace(0.0, last, PROFILE_POINTS).tolist()
    if at is not None and math.isfinite(at):
        epsilons = sorted({*epsilons, at})
    return privacy_profile(event, epsilons, neighbours=neighbours)


def roc_of(event: ev.Event, neighbours: str) -> RocCurve:
    """Return the largest TPR at false positive rates that are dense at both ends."""
    few = np.geomspace(1e-4, 0.02, ROC_POINTS // 8)
    even = np.linspace(0.02, 0.98, ROC_POINTS)
    rates = np.unique(np.concatenate([few, even, 1.0 - few]))
    return roc(event, rates.tolist(), neighbours=neighbours)


def profile_chart(
    profile: PrivacyProfile, *, unit: str, marked: tuple[float, float] | None = None
) -> Chart:
    """Return delta by epsilon, between both ends; `marked` is a proven (epsilon, delta)."""
    order = np.argsort(profile.epsilons)
    shown = order[profile.upper[order] > 0.0]
    epsilons = profile.epsilons[shown].tolist()
    floor = max(float(profile.upper[shown].min(initial=1.0)), SMALLEST_DELTA) / 3.0
    # A logarithmic axis has no 0: a lower end there ends below the axis.
    lower = np.maximum(profile.lower[shown], floor).tolist()
    upper = np.maximum(profile.upper[shown], floor).tolist()
    band = replace(stairs(epsilons, lower, upper), label="proven delta, upper end (the guarantee)")
    marks: list[Mark] = [band]
    if marked is not None and marked[1] > 0.0:
        point = f"epsilon {_said(marked[0])} at delta {_said(marked[1])}"
        marks.append(Points(point, (marked[0],), (marked[1],), "limit"))
    return Chart(
        "Privacy profile",
        conditions(unit=unit, neighbours=profile.neighbours),
        Axis("epsilon (nats)", limits=(min(epsilons, default=0.0), max(epsilons, default=1.0))),
        Axis("delta (probability)", "log", (floor, 1.0)),
        tuple(marks),
    )


def trade_off_chart(
    curve: RocCurve | None,
    *,
    unit: str,
    neighbours: str,
    delta: float | None = None,
    observer: str | None = None,
    risk: Risk | None = None,
    claimed: tuple[float, float] | None = None,
    measured: Sequence[Measurement] = (),
) -> Chart:
    """Return misses by false alarms: below the certified line no attack can come.

    `claimed` is an (epsilon, delta), whose line no attack on a mechanism with that guarantee
    crosses; `measured` are what attacks found.
    """
    guessing = Line("guessing", (0.0, 1.0), (1.0, 0.0), "reference")
    marks: list[Mark] = [guessing]
    if curve is not None:
        order = np.argsort(curve.fprs)
        x = [0.0, *curve.fprs[order].tolist(), 1.0]
        lower = [0.0, *(1.0 - curve.upper[order]).tolist(), 0.0]
        upper = [1.0, *(1.0 - curve.lower[order]).tolist(), 0.0]
        band = stairs(x, lower, upper)
        label = "proven: no attack comes below"
        marks.append(Band(label, band.x, band.lower, band.upper, "lower"))
    if claimed is not None and math.isfinite(claimed[0]):
        epsilon, slack = claimed
        meeting = (1.0 - slack) / (1.0 + math.exp(min(epsilon, 700.0)))
        # (epsilon, delta) alone allows two lines and the axis: these are their corners.
        corners = (0.0, meeting, 1.0 - slack, 1.0), (1.0 - slack, meeting, 0.0, 0.0)
        label = f"claimed: epsilon {epsilon:.4g} at delta {slack:g}"
        marks.append(Line(label, *corners, "claimed"))
    if risk is not None:
        # The lower end of misses is the guarantee, so the point lies on the certified line.
        label = f"at FPR {risk.fpr:g} no attack misses less"
        marks.append(Points(label, (risk.fpr,), (1.0 - risk.tpr.upper,), "limit"))
    attacks = [result for result in measured if "trade-off" in result.curves]
    for result in attacks:
        points = [each for each in result.curves["trade-off"] if _are_rates(each)]
        if points:
            alarms, misses_seen = zip(*points, strict=True)
            role: Role = "measured" if len(attacks) == 1 else "series"
            label = f"measured, tier {result.tier}"
            marks.append(Points(label, alarms, misses_seen, role))
    notes = ("A measured point far above the line is no proof of privacy.",) if attacks else ()
    return Chart(
        "Trade-off of the best attack",
        conditions(unit=unit, neighbours=neighbours, delta=delta, observer=observer),
        Axis("false alarms (share of innocents accused)", limits=(0.0, 1.0)),
        Axis("misses (share of members not found)", limits=(0.0, 1.0)),
        tuple(marks),
        notes,
    )


def _said(value: float) -> str:
    """Return a number as it was given where it has few digits, else rounded up."""
    return f"{value:g}" if float(f"{value:g}") == value else up(value)


def _are_rates(point: tuple[float, float]) -> bool:
    return all(0.0 <= value <= 1.0 for value in point)
