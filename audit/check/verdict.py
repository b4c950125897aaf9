"""The verdict: how a claim stands, and whether it is the number of these settings."""

from __future__ import annotations

import math
from typing import Final

from ...accountant import events as ev
from ...accountant.account import account
from ...accountant.errors import PrivplanError
from ...accountant.guarantee import Bounds
from ..reproduction.matching import is_target
from .check_case import CheckCase, between
from .check_result import Verdict
from .checked_run import CheckedRun


def once_per_pass(run: CheckedRun) -> Bounds | None:
    """Return bounds on epsilon of ceil(epochs) releases of all the data, one record set to zero.

    It needs no secret order and no sampler, only batches that share no record within a pass.  None
    where passes, noise or delta are not known, or the noise is not Gaussian.

    Source: parallel composition; McSherry 2009.
    """
    settings = run.settings
    noise, delta = settings.noise_multiplier, settings.delta
    if run.currency != "epsilon" or settings.family != "gaussian" or settings.unit != "record":
        return None
    if not noise or not delta or settings.accumulation > 1 or settings.microbatches > 1:
        return None
    if settings.epochs is None or settings.releases or settings.restarts > 1:
        return None
    passes = max(1, math.ceil(settings.epochs * (1.0 - 1e-9)))
    try:
        return account(ev.Repeat(passes, ev.Gaussian(noise)), delta=delta).epsilon
    except (PrivplanError, ValueError):
        return None


SAMPLER_WORDS: Final = {
    "poisson": "Under Poisson sampling",
    "shuffled": "From a shuffled loader",
    "fixed-size": "In batches of a fixed size",
    "full": "With every record in every step",
}

WORST: Final = "full"
"""The sampler without any amplification."""

NOT_FROM_THESE: Final = "holds-not-from-these-settings"


def verdict_of(case: CheckCase) -> Verdict:
    """Return the verdict of a case.

    Facts that contradict each other always leave it open.  So does a sampler that nobody stated,
    unless the claim is false under each, or holds under each.
    """
    if case.run.contradictions:
        return "unverifiable"
    match case.status:
        case "false":
            return "false"
        case "holds":
            return _second_layer(case)
        case "between":
            return "unproven"
    return "unverifiable"


def _second_layer(case: CheckCase) -> Verdict:
    recomputation = case.recomputation
    if recomputation.same or not recomputation.comparable:
        return "holds"
    if case.claim is not None and is_target(case.claim) and case.claim.half_unit < case.claim.value:
        return "holds"
    return NOT_FROM_THESE


def conditions_of(case: CheckCase) -> tuple[str, ...]:
    """Return the sentences under which the verdict holds."""
    proof = case.proof
    return (*((proof.unbounded,) if proof.unbounded else ()), *proof.conditions)


def by_sampler(case: CheckCase) -> tuple[str, ...]:
    """Return what each sampler would mean, where nobody stated which one ran."""
    sentences = []
    for name, bounds in case.proof.alternatives.items():
        says = f"{SAMPLER_WORDS[name]}: {case.run.currency} {between(bounds)}"
        # A missing amplification refutes nothing: it is the worst that any sampler can be.
        if case.claim is not None and name != WORST:
            says += f"; the claim {_how(case.claim.highest, bounds)}"
        sentences.append(f"{says}.")
    passes = once_per_pass(case.run) if sentences else None
    if passes is not None:
        sentences.append(
            "Each record once per pass and no amplification, where one is replaced by zeros: "
            f"{case.run.currency} {between(passes)}."
        )
    return tuple(sentences)


def _how(highest: float, bounds: Bounds) -> str:
    if highest < bounds.lower:
        return "is false"
    return "holds" if math.isfinite(bounds.upper) and highest >= bounds.upper else "is not proven"
