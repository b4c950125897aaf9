"""Releases that nobody counted: other starts, other periods, other models."""

from __future__ import annotations

from dataclasses import replace

from ....accountant.errors import counted
from ..check_case import CheckCase, reference_of
from ..completions.facts import periods
from .cause_rule import CauseFinding, cause_rule

DAYS_OF_A_YEAR = 365


@cause_rule(
    "restarted-accountant",
    "The accountant began anew, or the number is that of one round, epoch or client.",
)
def restarted_accountant(case: CheckCase) -> CauseFinding | None:
    """Fire where the accountant began anew, or the claim is that of one round or client."""
    near = case.near("one-round", "one-epoch", "one-client")
    if near is not None:
        step = "Count every release of the whole run with one accountant."
        return CauseFinding(case.severity_of(near), near.says, step, case.reference)
    restarts = case.settings.restarts
    if restarts <= 1 or not case.short:
        return None
    once = case.otherwise(restarts=1)
    says = (
        f"The accountant began anew {counted(restarts, 'time')}; all its counts together are what "
        f"was released.{case.change_text(once)}"
    )
    step = "Count every release of the whole run with one accountant."
    return CauseFinding(case.severity(once), says, step, case.reference)


@cause_rule("renewing-budget", "The budget renews, and the number is that of one period.")
def renewing_budget(case: CheckCase) -> CauseFinding | None:
    """Fire where a budget renews, so that the claim is about one period only."""
    settings = case.settings
    every = settings.renews_every_days
    if every is None:
        return None
    step = "State the budget over the time that one person takes part (schedule.horizon_days)."
    if settings.horizon_days is None:
        times = DAYS_OF_A_YEAR / every
        says = (
            f"The budget renews every {every:g} days: over a year it is spent {times:,.4g} times, "
            "and the claim is about one of these."
        )
        return CauseFinding("warning", says, step)
    most = periods(case.run, upper=True)
    if most <= 1 or not case.short:
        return None
    single = case.otherwise(horizon_days=every)
    says = (
        f"The budget renews every {every:g} days, {counted(most, 'time')} in "
        f"{settings.horizon_days:g} days.{case.change_text(single)}"
    )
    return CauseFinding(case.severity(single), says, step, case.reference)


@cause_rule(
    "tuning-not-counted",
    "The model was chosen from several on the same data, and the number is that of one.",
)
def tuning_not_counted(case: CheckCase) -> CauseFinding | None:
    """Fire where the model was chosen from several and the claim is that of one."""
    runs = case.run.tuning_runs
    if runs <= 1 or not case.short:
        return None
    single = reference_of(replace(case.run, tuning_runs=1))
    says = (
        f"The model was chosen from {counted(runs, 'trained model')} on the same data, and each "
        f"of them was a release.{case.change_text(single)}"
    )
    step = (
        "Count all runs, choose on public data, or draw the number of runs at random "
        "(event best-of)."
    )
    return CauseFinding("warning", says, step, case.reference)


@cause_rule("mid-epoch-value", "The number is that of fewer steps than were released.")
def mid_epoch_value(case: CheckCase) -> CauseFinding | None:
    """Fire where the claim is the number of fewer steps than were made."""
    near = case.near("fewer-steps")
    if near is None:
        return None
    step = "Read epsilon after the last step that was released."
    return CauseFinding(case.severity_of(near), near.says, step, case.reference)
