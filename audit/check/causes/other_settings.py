"""Claims that are the number of other settings, and facts that contradict each other."""

from __future__ import annotations

from ....accountant.rounding import as_given
from ...reproduction.matching import is_target
from ..check_case import CheckCase, between
from .cause_rule import CauseFinding, cause_rule


@cause_rule("contradiction", "Two facts cannot both be true.")
def contradiction(case: CheckCase) -> CauseFinding | None:
    """Fire where two facts cannot both be true."""
    contradictions = case.run.contradictions
    if not contradictions:
        return None
    says = " ".join(each.says for each in contradictions)
    return CauseFinding("error", says, "Correct one of them: the verdict rests on both.")


@cause_rule(
    "other-settings",
    "The number is that of other settings, or no common accountant gives it for these.",
)
def other_settings(case: CheckCase) -> CauseFinding | None:
    """Fire where other settings give the claim, or no common accountant gives it for these."""
    near = case.near(
        "other-rate",
        "other-batch",
        "other-noise",
        "other-records",
        "more-steps",
        "no-amplification",
    )
    step = "Give the settings that the number was computed for, or compute it again for these."
    if near is not None:
        return CauseFinding(case.severity_of(near), near.says, step, case.reference)
    recomputation = case.recomputation
    if recomputation.same or recomputation.near or not recomputation.comparable:
        return None
    if case.claim is None or (case.standing == "holds" and is_target(case.claim)):
        return None
    if is_target(case.claim) and not case.short:
        return None
    says = (
        "No common accountant gives this number for these settings, nor for those settings near "
        "them that were tried."
    )
    return CauseFinding(case.severity(), says, step, case.reference)


@cause_rule(
    "below-proven",
    "The number is below what is proven, and nothing more particular explains it.",
)
def below_proven(case: CheckCase) -> CauseFinding | None:
    """Fire where the claim is false; it is asked where no other rule finds an error."""
    if case.standing != "false" or case.proof.bounds is None or case.run.contradictions:
        return None
    assert case.claim is not None
    says = (
        f"The claim is {case.claim.value:g}, at most {as_given(case.claim.highest)} before it was "
        f"rounded, and {case.run.currency} is {between(case.proof.bounds)} for these settings."
        if case.claim.half_unit
        else f"The claim is {case.claim.value:g}, and {case.run.currency} is "
        f"{between(case.proof.bounds)} for these settings."
    )
    step = "Give the settings that the number was computed for, or print what is proven."
    return CauseFinding("error", says, step, case.proof.bounds)


@cause_rule("budget", "The claim is a round number, chosen beforehand, and the settings keep it.")
def budget(case: CheckCase) -> CauseFinding | None:
    """Fire where a round number, chosen beforehand, is kept by the settings."""
    if case.claim is None or case.short or not is_target(case.claim):
        return None
    if case.recomputation.same or not case.recomputation.comparable:
        return None
    says = "The claim is a round number, as a budget is: these settings keep it."
    return CauseFinding("info", says, "Print what the settings prove, if that is smaller.")
