"""How contributions become one sum: weights, the divisor, missing replies."""

from __future__ import annotations

from dataclasses import replace

from ..bounds import normaliser_is_harmless
from ..check_case import CheckCase, reference_of
from .cause_rule import CauseFinding, cause_rule


@cause_rule("unequal-weights", "Contributions are weighted, and the noise may cover weight 1 only.")
def unequal_weights(case: CheckCase) -> CauseFinding | None:
    """Fire where contributions are weighted and the noise may cover weight 1 only."""
    if case.run.weights != "unequal":
        return None
    says = (
        "Contributions are weighted, so the heaviest moves the sum by more than the mean does; "
        "the noise must be sized for the heaviest."
    )
    step = "Clip after weighting, or divide the noise multiplier by the largest weight over 1."
    return CauseFinding("warning", says, step)


@cause_rule(
    "realised-normaliser",
    "Sums are divided by how many came, which changes with one of them and is not hidden.",
)
def realised_normaliser(case: CheckCase) -> CauseFinding | None:
    """Fire where sums are divided by a batch size that depends on who is in the data."""
    if case.run.normaliser != "realised" or normaliser_is_harmless(case.run):
        return None
    says = (
        "The noisy sum is divided by how many records really came: that count changes with one "
        "record and nothing hides it, so no epsilon is proven."
    )
    step = "Divide by the expected batch size, a constant."
    poisson = case.settings.method == "poisson" and case.settings.neighbours == "add-remove"
    return CauseFinding("error" if poisson else "warning", says, step)


@cause_rule("fewer-replies", "Fewer parties replied than the shares of noise were sized for.")
def fewer_replies(case: CheckCase) -> CauseFinding | None:
    """Fire where fewer parties replied than the noise was shared among."""
    replies, expected = case.run.replies, case.run.expected_replies
    if replies is None or expected is None or replies >= expected or not case.short:
        return None
    all_there = reference_of(replace(case.run, replies=expected))
    says = (
        f"{replies:,} of {expected:,} expected parties replied; noise that is drawn in shares is "
        f"missing theirs.{case.change_text(all_there)}"
    )
    step = "Size each share for the fewest replies, or draw the noise in one place."
    return CauseFinding(case.severity(all_there), says, step, case.reference)
