"""The verdict: how a claim stands, and whether it is the number of these settings."""

from __future__ import annotations

import math
from typing import Final

from ...accountant.guarantee import Bounds
from .check_case import CheckCase, between
from .check_result import Verdict
from .second_layer import is_budget

SAMPLER_WORDS: Final = {
    "poisson": "Under Poisson sampling",
    "shuffled": "From a shuffled loader",
    "fixed-size": "In batches of a fixed size",
    "full": "Without amplification",
}

NOT_FROM_THESE: Final = "holds-not-from-these-settings"


def verdict_of(case: CheckCase) -> Verdict:
    """Return the verdict of a case.

    Facts that contradict each other, and a sampler that nobody stated, leave it open, unless the
    claim is false or holds whatever of them is true.
    """
    if case.run.contradictions:
        return "unverifiable"
    match case.standing:
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
    if case.claim is not None and is_budget(case.claim) and case.claim.half_unit < case.claim.value:
        return "holds"
    return NOT_FROM_THESE


def conditions_of(case: CheckCase) -> tuple[str, ...]:
    """Return the sentences under which the verdict holds, the sampler's first."""
    proof, claim = case.proof, case.claim
    sentences = []
    for name, bounds in proof.alternatives.items():
        says = f"{SAMPLER_WORDS[name]}: {between(bounds)}"
        if claim is not None:
            says += f"; the claim {_how(claim.highest, bounds)}"
        sentences.append(f"{says}.")
    if proof.unbounded:
        sentences.append(proof.unbounded)
    return (*sentences, *proof.conditions)


def _how(highest: float, bounds: Bounds) -> str:
    if highest < bounds.lower:
        return "is false"
    return "holds" if math.isfinite(bounds.upper) and highest >= bounds.upper else "is not proven"
