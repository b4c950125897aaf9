"""What the number leaves out, or is another's: releases, deltas, and settings that differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ....accountant.delta_checks import DELTA_LIMIT, DELTA_TOPIC, allows_publishing
from ....accountant.errors import counted
from ....accountant.rounding import as_given
from ...findings import Match, rule
from ...reproduction.matching import is_target
from ..check_case import CheckCase, between, reference_of
from ..completions.facts import periods

DAYS_OF_A_YEAR = 365


@rule("restarted-accountant", next_step="Count every release of the whole run with one accountant.")
def restarted_accountant(case: CheckCase) -> Match | None:
    """The accountant began anew, or the number is that of one round, epoch or client."""
    near = case.near("one-round", "one-epoch", "one-client")
    if near is not None:
        return case.that_of(near)
    restarts = case.settings.restarts
    if restarts <= 1 or not case.short:
        return None
    return case.changed_by(
        f"The accountant began anew {counted(restarts, 'time')}; all its counts together are what "
        "was released.",
        case.otherwise(restarts=1),
    )


@rule(
    "renewing-budget",
    next_step="State the budget over the time that one person takes part (schedule.horizon_days).",
)
def renewing_budget(case: CheckCase) -> Match | None:
    """The budget renews, and the number is that of one period."""
    settings = case.settings
    every = settings.renews_every_days
    if every is None:
        return None
    if settings.horizon_days is None:
        times = DAYS_OF_A_YEAR / every
        return Match(
            f"The budget renews every {every:g} days: over a year it is spent {times:,.4g} times, "
            "and the claim is about one of these.",
            severity="warning",
        )
    most = periods(case.run, upper=True)
    if most <= 1 or not case.short:
        return None
    return case.changed_by(
        f"The budget renews every {every:g} days, {counted(most, 'time')} in "
        f"{settings.horizon_days:g} days.",
        case.otherwise(horizon_days=every),
    )


@rule(
    "tuning-not-counted",
    severity="warning",
    next_step="Count all runs, choose on public data, or draw the number of runs at random "
    "(event best-of).",
)
def tuning_not_counted(case: CheckCase) -> Match | None:
    """The model was chosen from several on the same data, and the number is that of one."""
    runs = case.run.tuning_runs
    if runs <= 1 or not case.short:
        return None
    single = reference_of(replace(case.run, tuning_runs=1))
    says = (
        f"The model was chosen from {counted(runs, 'trained model')} on the same data, and each "
        f"of them was a release.{case.change_text(single)}"
    )
    return Match(says, epsilon=case.reference)


@rule("mid-epoch-value", next_step="Read epsilon after the last step that was released.")
def mid_epoch_value(case: CheckCase) -> Match | None:
    """The number is that of fewer steps than were released."""
    near = case.near("fewer-steps")
    return None if near is None else case.that_of(near)


_CHOOSE_SMALLER: Final = f"Choose a delta well below 1 / records: {DELTA_TOPIC}."
ABOUT: Final = 0.05
"""Relative excess over 1/n of a delta that was chosen as 1/n and printed with one digit."""

RULE_TOLERANCE: Final = 2e-3
"""Relative difference at which a delta still is 1 / batches, as it is printed."""


@rule("delta-too-large", next_step=_CHOOSE_SMALLER)
def delta_too_large(case: CheckCase) -> Match | None:
    """Delta is so large that publishing one unit satisfies it."""
    delta, units, unit = case.settings.delta, case.run.units, case.settings.unit
    if delta is None or delta <= 0.0:
        return None
    if delta >= DELTA_LIMIT:
        return Match(f"Delta is {as_given(delta)}, one half or more.")
    if units is None or not allows_publishing(delta, units):
        return None
    equal = delta * units <= 1.0 + ABOUT
    says = (
        f"Delta {as_given(delta)} is {'about' if equal else 'more than'} one in the {units:,} "
        f"{unit}s: publishing one {unit} at random satisfies it with epsilon 0."
    )
    return Match(says, severity="warning" if equal else None)


@rule("delta-rule", next_step=_CHOOSE_SMALLER)
def delta_rule(case: CheckCase) -> Match | None:
    """Delta was set by a rule (1/records, 1/batches), or the number is that of another delta."""
    near = case.near("delta-one-over-records", "delta-one-over-batches", "other-delta")
    if near is not None:
        return case.that_of(near, "State the delta that epsilon was computed for.")
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
        return Match(says, severity=None if stated else "warning")
    if case.run.delta_rule == "1/records":
        says = "Delta is one in the number of records, so it allows to publish one of them."
        return Match(says, severity="warning")
    return None


@rule("contradiction", next_step="Correct one of them: the verdict rests on both.")
def contradiction(case: CheckCase) -> Match | None:
    """Two facts cannot both be true."""
    contradictions = case.run.contradictions
    if not contradictions:
        return None
    return Match(" ".join(each.says for each in contradictions))


@rule(
    "other-settings",
    next_step="Give the settings that the number was computed for, or compute it again for these.",
)
def other_settings(case: CheckCase) -> Match | None:
    """The number is that of other settings, or no common accountant gives it for these."""
    near = case.near(
        "other-rate",
        "other-batch",
        "other-noise",
        "other-records",
        "more-steps",
        "no-amplification",
    )
    if near is not None:
        return case.that_of(near)
    recomputation = case.recomputation
    if recomputation.same or recomputation.near or not recomputation.comparable:
        return None
    if case.claim is None or (case.status == "holds" and is_target(case.claim)):
        return None
    if is_target(case.claim) and not case.short:
        return None
    says = (
        "No common accountant gives this number for these settings, nor for those settings near "
        "them that were tried."
    )
    return Match(says, epsilon=case.reference, severity=case.severity())


@rule(
    "below-proven",
    next_step="Give the settings that the number was computed for, or print what is proven.",
)
def below_proven(case: CheckCase) -> Match | None:
    """The number is below what is proven, and nothing more particular explains it."""
    if case.status != "false" or case.proof.bounds is None or case.run.contradictions:
        return None
    assert case.claim is not None
    says = (
        f"The claim is {case.claim.value:g}, at most {as_given(case.claim.highest)} before it was "
        f"rounded, and {case.run.currency} is {between(case.proof.bounds)} for these settings."
        if case.claim.half_unit
        else f"The claim is {case.claim.value:g}, and {case.run.currency} is "
        f"{between(case.proof.bounds)} for these settings."
    )
    return Match(says, epsilon=case.proof.bounds)


@rule("budget", severity="info", next_step="Print what the settings prove, if that is smaller.")
def budget(case: CheckCase) -> Match | None:
    """The claim is a round number, chosen beforehand, and the settings keep it."""
    if case.claim is None or case.short or not is_target(case.claim):
        return None
    if case.recomputation.same or not case.recomputation.comparable:
        return None
    return Match("The claim is a round number, as a budget is: these settings keep it.")
