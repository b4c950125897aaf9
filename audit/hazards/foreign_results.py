"""Results that were appended to a log, beside what its first line promises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ...accountant.records import AuditResult, RunOpen
from ..ledger.entries import Entry
from ..measurement import Measurement
from ..results import result_of
from .hazard import Hazard

BOUNDING: Final = ("claim", "robust")
"""Tiers whose results are lower bounds on epsilon, held against the promise."""

NEAR: Final = 1e-4
"""How much more than the promise a result may call claimed: rounding, and other machines."""


def foreign_results(opened: RunOpen, entries: Iterable[Entry]) -> tuple[Hazard, ...]:
    """Return the hazard of results that no attack on this run can have found; none if all may be.

    An attack holds its lower bounds against what the first line promises, or against less where it
    rehearsed fewer rounds.  A bound at a larger delta holds at the promised one.
    """
    said, lines = [], []
    for entry in entries:
        if not isinstance(entry.record, AuditResult):
            continue
        one = result_of(entry.record, entry.number).measurement
        what = None if one is None else _wrong(opened, one)
        if what is not None:
            said.append(what)
            lines.append(entry.number)
    if not said:
        return ()
    return (
        Hazard(
            "foreign-result",
            "error",
            f"Line {lines[0]:,}: {said[0]}",
            "Attacks hold what they measure against the promise of the first line. What is held "
            "against another one contradicts nothing, whatever it shows.",
            "Attack the run again: privplan audit attack DIR.",
            None,
            tuple(lines),
        ),
    )


def _wrong(opened: RunOpen, one: Measurement) -> str | None:
    if one.tier not in BOUNDING or one.quantity != "epsilon":
        return None
    if one.kind != "lower-bound":
        return f"a result of the tier {one.tier} calls itself no lower bound ({one.kind})."
    claim = opened.claim
    same = (one.unit, one.neighbours, one.observer)
    promised = claim.epsilon
    if opened.as_published or promised is None or one.delta is None:
        return None
    if same != (claim.unit, claim.neighbours, claim.observer):
        return None
    if one.delta == claim.delta and (one.claimed is None or one.claimed > promised * (1.0 + NEAR)):
        shown = "nothing" if one.claimed is None else f"epsilon {one.claimed:.6g}"
        return f"a result is held against {shown}, and line 1 promises epsilon {promised:.6g}."
    if one.delta > claim.delta and one.value > promised and not one.unusual:
        return (
            f"a result shows epsilon {one.value:.6g} at delta {one.delta:.6g}, and line 1 promises "
            f"{promised:.6g} at {claim.delta:.6g}."
        )
    return None
