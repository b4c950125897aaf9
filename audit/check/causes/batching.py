"""What is clipped together, and what is summed before one draw of noise."""

from __future__ import annotations

from ..check_case import CheckCase
from .cause_rule import CauseFinding, cause_rule


@cause_rule(
    "microbatches",
    "Several records are averaged before they are clipped, so one moves the sum by two norms.",
)
def microbatches(case: CheckCase) -> CauseFinding | None:
    """Fire where several records are averaged before they are clipped."""
    size = case.settings.microbatches
    near = case.near("microbatches")
    if (size <= 1 or not case.short) and near is None:
        return None
    alone = case.otherwise(microbatches=1)
    says = (
        f"{size:,} records are averaged before they are clipped: one of them can turn the clipped "
        f"mean around, which moves it by two norms.{case.change_text(alone)}"
        if size > 1
        else ""
    )
    says = f"{says} {near.says}".strip() if near is not None else says
    step = (
        "Clip each record by itself, or halve the noise multiplier in the accounts; where the "
        "noise was divided by the number of microbatches, account for what was really added."
    )
    return CauseFinding(case.severity(alone), says, step, case.reference)


@cause_rule(
    "accumulation",
    "Several batches are summed before one draw of noise, and the rate may be that of one.",
)
def accumulation(case: CheckCase) -> CauseFinding | None:
    """Fire where several batches come before one draw of noise."""
    batches = case.settings.accumulation
    near = case.near("accumulation")
    if (batches <= 1 or not case.short) and near is None:
        return None
    alone = case.otherwise(accumulation=1)
    says = (
        f"{batches:,} batches are summed before one draw of noise. If the rate is that of one "
        f"batch, a record joins a step {batches:,} times as often.{case.change_text(alone)}"
        if batches > 1
        else ""
    )
    says = f"{says} {near.says}".strip() if near is not None else says
    step = "Give the accountant the expected size of everything before one draw of noise."
    return CauseFinding(case.severity(alone), says, step, case.reference)
