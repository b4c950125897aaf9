"""What attacks on a run measured, over the curve that its log proves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...accountant.errors import PrivplanError
from ...accountant.events import Event
from ...accountant.records import Claim
from ...accountant.risk import RocCurve
from ..attack.report import AttackReport
from ..budget import Evidence, Ledger
from ..budget.auditing import verified_entries
from ..measurement import Measurement
from ..report.run_facts import RunFacts
from .chart import Chart
from .loss_curves import roc_of, trade_off_chart


def attack_chart(folder: str | Path, attacked: AttackReport) -> Chart:
    """Return what one attack measured before its observer; sealed results are left out."""
    _, entries = verified_entries(folder, None, None)
    evidence, observer = Evidence.of(Ledger.of(entries)), attacked.observer
    finite = math.isfinite(evidence.total(observer).upper)
    event = evidence.composed(observer) if finite else None
    curved = [each for each in attacked.measurements if "trade-off" in each.curves]
    measured = [each for each in curved if each.tier not in attacked.sealed_tiers]
    hidden = [each for each in curved if each.tier in attacked.sealed_tiers]
    chart = _chart(event, attacked.claim, observer, measured)
    if not hidden:
        return chart
    names = ", ".join(dict.fromkeys(each.tier for each in hidden))
    return replace(chart, notes=(*chart.notes, f"Sealed, and not drawn: {names}."))


def run_chart(facts: RunFacts) -> Chart:
    """Return what attacks on a run have measured so far, as far as it stands in its log."""
    claim = facts.opened.claim
    finite = math.isfinite(facts.budget.total.upper) and facts.course
    measured = [result for _, result in facts.measured]
    return _chart(facts.event if finite else None, claim, claim.observer, measured)


def _chart(
    event: Event | None, claim: Claim, observer: str, measured: Sequence[Measurement]
) -> Chart:
    # What was measured before somebody else, or of another unit, is of another curve.
    fitting = [
        result
        for result in measured
        if (result.observer, result.unit, result.neighbours)
        == (observer, claim.unit, claim.neighbours)
    ]
    same = observer == claim.observer and claim.epsilon is not None
    chart = trade_off_chart(
        _curve(event, claim.neighbours),
        unit=claim.unit if claim.group == 1 else f"{claim.unit} of up to {claim.group:,} records",
        neighbours=claim.neighbours,
        delta=float(claim.delta),
        observer=observer,
        claimed=(float(claim.epsilon or 0.0), float(claim.delta)) if same else None,
        measured=fitting,
    )
    notes = list(chart.notes)
    if event is None:
        notes.append("Nothing finite is proven: there is no certified line.")
    others = sum("trade-off" in each.curves for each in measured if each not in fitting)
    if others:
        notes.append(f"Of another observer or unit, and not drawn: {others:,}.")
    return replace(chart, notes=tuple(notes))


def _curve(event: Event | None, neighbours: str) -> RocCurve | None:
    try:
        return None if event is None else roc_of(event, neighbours)
    except PrivplanError:  # an epsilon may be known where no curve is
        return None
