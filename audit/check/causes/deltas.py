"""Deltas that promise nothing, or are set by a rule that does."""

from __future__ import annotations

from typing import Final

from ....accountant.delta_checks import DELTA_LIMIT, DELTA_TOPIC, allows_publishing
from ....accountant.rounding import as_given
from ..check_case import CheckCase
from .cause_rule import CauseFinding, cause_rule

NEXT: Final = f"Choose a delta well below 1 / records: {DELTA_TOPIC}."
ABOUT: Final = 0.05
"""Relative excess over 1/n of a delta that was chosen as 1/n and printed with one digit."""

RULE_TOLERANCE: Final = 2e-3
"""Relative difference at which a delta still is 1 / batches, as it is printed."""


@cause_rule("delta-too-large", "Delta is so large that publishing one unit satisfies it.")
def delta_too_large(case: CheckCase) -> CauseFinding | None:
    """Fire where delta allows to publish one unit; a warning where it is 1/n itself."""
    delta, units, unit = case.settings.delta, case.run.units, case.settings.unit
    if delta is None or delta <= 0.0:
        return None
    if delta >= DELTA_LIMIT:
        return CauseFinding("error", f"Delta is {as_given(delta)}, one half or more.", NEXT)
    if units is None or not allows_publishing(delta, units):
        return None
    equal = delta * units <= 1.0 + ABOUT
    says = (
        f"Delta {as_given(delta)} is {'about' if equal else 'more than'} one in the {units:,} "
        f"{unit}s: publishing one {unit} at random satisfies it with epsilon 0."
    )
    return CauseFinding("warning" if equal else "error", says, NEXT)


@cause_rule(
    "delta-rule",
    "Delta was set by a rule (1/records, 1/batches), or the number is that of another delta.",
)
def delta_rule(case: CheckCase) -> CauseFinding | None:
    """Fire where delta is 1/batches, or the claim is the number of 1/records or 1/batches."""
    near = case.near("delta-one-over-records", "delta-one-over-batches", "other-delta")
    if near is not None:
        step = "State the delta that epsilon was computed for."
        return CauseFinding(case.severity_of(near), near.says, step, case.reference)
    delta, batches = case.settings.delta, case.settings.steps_per_epoch
    by_batches = case.run.delta_rule == "1/batches" or (
        delta is not None
        and batches is not None
        and batches > 1
        and abs(delta * batches - 1.0) <= RULE_TOLERANCE
        and batches != case.run.units
    )
    if by_batches:
        says = "Delta is one in the number of batches, which is far fewer than there are records."
        stated = case.run.delta_rule == "1/batches" or case.run.units is not None
        return CauseFinding("error" if stated else "warning", says, NEXT)
    if case.run.delta_rule == "1/records":
        says = "Delta is one in the number of records, so it allows to publish one of them."
        return CauseFinding("warning", says, NEXT)
    return None
