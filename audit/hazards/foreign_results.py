"""Results that were appended to a log, beside what its first line promises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...accountant.records import AuditResult, RunOpen
from ..ledger.entries import Entry
from ..measurement import Measurement
from ..results import result_of
from .rule import Hazard

BOUNDING_TIERS: Final = ("claim", "robust")
"""Tiers whose results are lower bounds on epsilon, held against the promise."""

CLAIM_EXCESS_RELATIVE: Final = 1e-4
"""How much more than the promise a result may call claimed: rounding, and other machines."""


def foreign_results(opened: RunOpen, entries: Iterable[Entry]) -> tuple[Hazard, ...]:
    """Return the hazard of results that no attack on this run can have found; none if all may be.

    An attack holds its lower bounds against what the first line promises, or against less where it
    rehearsed fewer rounds.  A bound at a larger delta holds at the promised one.
    """
    reasons, lines = [], []
    for entry in entries:
        if not isinstance(entry.record, AuditResult):
            continue
        measurement = result_of(entry.record, entry.number).measurement
        reason = None if measurement is None else _wrong(opened, measurement)
        if reason is not None:
            reasons.append(reason)
            lines.append(entry.number)
    if not reasons:
        return ()
    return (
        Hazard(
            "foreign-result",
            "error",
            f"Line {lines[0]:,}: {reasons[0]}",
            "Attacks hold what they measure against the promise of the first line. What is held "
            "against another one contradicts nothing, whatever it shows.",
            "Attack the run again: privplan audit attack DIR.",
            None,
            tuple(lines),
        ),
    )


def _wrong(opened: RunOpen, measurement: Measurement) -> str | None:
    if measurement.tier not in BOUNDING_TIERS or measurement.quantity != "epsilon":
        return None
    if measurement.kind != "lower-bound":
        return (
            f"a result of the tier {measurement.tier} calls itself no lower bound "
            f"({measurement.kind})."
        )
    claim = opened.claim
    same = (measurement.unit, measurement.neighbours, measurement.observer)
    promised = claim.epsilon
    if opened.as_published or promised is None or measurement.delta is None:
        return None
    if same != (claim.unit, claim.neighbours, claim.observer):
        return None
    if measurement.delta == claim.delta and (
        measurement.claimed is None
        or measurement.claimed > promised * (1.0 + CLAIM_EXCESS_RELATIVE)
    ):
        shown = "nothing" if measurement.claimed is None else f"epsilon {measurement.claimed:.6g}"
        return f"a result is held against {shown}, and line 1 promises epsilon {promised:.6g}."
    # delta' >= delta: a lower bound at the larger delta is one at the smaller too.
    if measurement.delta > claim.delta and measurement.value > promised and not measurement.unusual:
        return (
            f"a result shows epsilon {measurement.value:.6g} at delta {measurement.delta:.6g}, "
            f"and line 1 promises {promised:.6g} at {claim.delta:.6g}."
        )
    return None
