"""Accounting that is no bound, or is one for something else."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal
from typing import Final

from ....accountant.guarantee import Bounds
from ....accountant.rounding import as_given, down
from ...description.printed_number import PrintedNumber
from ...description.run_description import Phase
from ...findings import Match, Severity, rule
from ...reproduction.reproduction import Method
from ..check_case import CheckCase, between
from ..library_defects import defects_of

CLT_WORDS: Final = ("gdp", "clt", "glw", "central")
BOUNDS: Final[tuple[Method, ...]] = ("rdp", "rdp-classical", "pld", "prv")
"""Kinds of accountants whose numbers are bounds."""

CLASSICAL_WORDS: Final = ("classical", "textbook", "dwork")
SWAPPED_NOISE: Final = 0.1
"""Noise below this is hardly ever used for training."""

SWAPPED_RATE: Final = 0.3
"""A rate above this is a usual noise multiplier, and hardly ever a rate of mini-batches."""

SWAPPED_STEPS: Final = 10
"""Steps on all the data, with as little noise, are no more than this."""


@rule(
    "neighbour-mismatch",
    next_step="State the relation that the number was computed for: privplan explain neighbours.",
)
def neighbour_mismatch(case: CheckCase) -> Match | None:
    """The promise is for replacing a unit, and the noise was accounted for removing one."""
    near = case.near("other-relation")
    whole = next((each for each in case.reproductions if "not halve" in each.accountant), None)
    replaced = case.settings.neighbours == "replace-one" and case.short
    if near is None and not replaced and whole is None:
        return None
    removed = case.otherwise(neighbours="add-remove") if replaced else None
    fits = removed is not None and case.claim is not None and case.claim.highest >= removed.lower
    if near is None and whole is None and not fits:
        return None
    if replaced or whole is not None:
        says = "The promise is for replacing a unit, which moves a sum twice as far as removing one"
        if case.reference is not None:
            says += f": {case.run.currency} is {between(case.reference)}"
        says += "." if removed is None else f", and for removing one {between(removed)}."
    else:
        assert near is not None
        says = near.says
    return Match(says, epsilon=case.reference, severity=case.severity(removed))


@rule("clt-approximation", next_step="Account with Renyi or privacy-loss distributions (prv, pld).")
def clt_approximation(case: CheckCase) -> Match | None:
    """The number comes from a central-limit formula (gdp), which bounds nothing."""
    named = any(word in (case.run.accountant or "").lower() for word in CLT_WORDS)
    by_limit = case.only_by("clt", "small-rate-approximation", "textbook-gaussian")
    if by_limit is not None and by_limit.method == "textbook-gaussian":
        by_limit = None
    if not named and by_limit is None:
        return None
    source = "the stated accountant" if by_limit is None else by_limit.accountant
    says = f"The number is that of {source}: a limit for many small steps, and no bound."
    if case.reference is not None:
        says += f" Proven is {between(case.reference)}."
    severity: Severity = "info"
    if case.short:
        severity = case.severity() if by_limit is None else case.severity_of(by_limit)
    return Match(says, epsilon=case.reference, severity=severity)


@rule("classical-gaussian", next_step="Use the exact formula: privplan account.")
def classical_gaussian(case: CheckCase) -> Match | None:
    """The number is of the textbook formula for Gaussian noise, proven below epsilon 1 only."""
    named = any(word in (case.run.accountant or "").lower() for word in CLASSICAL_WORDS)
    textbook = case.only_by("textbook-gaussian")
    if case.claim is None or case.claim.value <= 1.0 or (textbook is None and not named):
        return None
    says = (
        "The number follows the textbook formula sqrt(2 ln(1.25/delta)) / noise, which is proven "
        "for an epsilon below 1 only."
    )
    if case.reference is not None:
        says += f" Proven is {between(case.reference)}."
    severity = case.severity() if case.short else "info"
    return Match(says, epsilon=case.reference, severity=severity)


@rule(
    "not-from-this-number",
    severity="warning",
    next_step="Describe the mechanism itself: its noise, its clipping norm and its sampling.",
)
def not_from_this_number(case: CheckCase) -> Match | None:
    """The run is known by a stated epsilon, and the worst mechanism with it exceeds the claim."""
    least = case.proof.class_lower
    if case.claim is None or case.status in ("holds", "false") or not case.claim.highest < least:
        return None
    return Match(
        f"For the worst mechanism with this number epsilon is at least {down(least)}: the claim "
        "may be true of yours, and does not follow from the number."
    )


@rule("library-defect", severity="warning")
def library_defect(case: CheckCase) -> Match | None:
    """The library has a known defect for such settings, in the version that is named."""
    defects = defects_of(case.run)
    if not defects:
        return None
    worst = next((each for each in defects if each.lowers), defects[0])
    says = " ".join(f"{each.what} ({each.source})." for each in defects[:2])
    severity: Severity = "warning" if worst.lowers and case.short else "info"
    return Match(says, severity=severity, next_step=worst.next_step)


@rule("rounded-down", severity="info", next_step="Round a guarantee up, never to the nearest.")
def rounded_down(case: CheckCase) -> Match | None:
    """Only the rounding of its last digit carries the claim: the number itself is too small."""
    claim, bounds = case.claim, case.reference
    if claim is None or bounds is None:
        return None
    if case.status == "false":
        return _cut_off(case, claim, bounds)
    if case.short or claim.value >= bounds.upper or math.isinf(bounds.upper):
        return None
    return Match(
        f"The number was rounded down: proven is {between(bounds)}. "
        f"Print {printed_up(bounds.upper, claim.half_unit)}.",
        epsilon=bounds,
    )


def _cut_off(case: CheckCase, claim: PrintedNumber, bounds: Bounds) -> Match | None:
    """Return the cause that digits were cut off a bound of these settings, so that it is false."""
    cut = [each for each in case.recomputation.same if each.method in BOUNDS]
    last_digit = 2.0 * claim.half_unit
    within = bounds.lower < claim.value + last_digit and math.isfinite(bounds.upper)
    if not cut or not last_digit or not within:
        return None
    return Match(
        f"The number was cut off: {cut[0].accountant} gives {as_given(cut[0].epsilon)} for these "
        f"settings, and proven is {between(bounds)}. "
        f"Print {printed_up(bounds.upper, claim.half_unit)}.",
        epsilon=bounds,
        severity=case.severity(),
        next_step="Round a guarantee up, never to the nearest, and never cut it off.",
    )


def printed_up(value: float, half_unit: float) -> str:
    """Return a value rounded up to the digits of a printed number.

    >>> printed_up(1.2731, 0.005)
    '1.28'
    """
    unit = (Decimal(repr(half_unit)) * 2).normalize()
    return str(Decimal(value).quantize(unit, rounding=ROUND_CEILING))


@rule(
    "swapped-tuple", severity="warning", next_step="Check the order: noise multiplier, rate, steps."
)
def swapped_tuple(case: CheckCase) -> Match | None:
    """Noise multiplier and sampling rate are so unusual that they may have changed places."""
    swapped = [phase for phase in case.phases if _is_swapped(case, phase)]
    if not swapped:
        return None
    noise, rate = swapped[0].noise_multiplier, swapped[0].rate
    return Match(
        f"A noise multiplier of {noise:g} at rate {rate:g} is far from usual; the two may have "
        "changed places."
    )


def _is_swapped(case: CheckCase, phase: Phase) -> bool:
    if not 0.0 < phase.noise_multiplier < SWAPPED_NOISE or phase.rate < SWAPPED_RATE:
        return False
    # All records in every step, as `full` says, go with any noise.
    return phase.rate < 1.0 or (phase.steps > SWAPPED_STEPS and "sampling.rate" in case.run.stated)
