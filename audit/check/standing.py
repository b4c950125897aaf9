"""How a claim stands against what is proven: the first layer of a verdict."""

from __future__ import annotations

import math
from typing import Literal

from ...accountant.guarantee import Bounds
from ..description.printed_number import PrintedNumber
from .bounds import Proof

Standing = Literal["false", "holds", "between", "open", "no-claim"]
"""`false`: below the lower end.  `holds`: at or above the upper end.  `between`: neither.  `open`:
facts are lacking that decide it."""


def standing(claim: PrintedNumber | None, proof: Proof) -> Standing:
    """Return how a claim stands against a proof.

    A claim is rounded up by half its last digit, in favour of who printed it.
    """
    if claim is None:
        return "no-claim"
    if proof.bounds is None:
        return "open"
    if claim.highest < proof.bounds.lower:
        return "false"
    if reaches(claim, proof.bounds):
        return "holds"
    # Facts that somebody could still give decide it; elsewhere the mathematics does not.
    if proof.lacking or proof.alternatives or decided_by_completion(claim, proof):
        return "open"
    return "between"


def decided_by_completion(claim: PrintedNumber, proof: Proof) -> bool:
    """Return whether the claim holds, or is false, for some choices that the description leaves.

    Runs of the same choices are one answer: what lies between their ends is left by mathematics.
    """
    hulls: dict[str, Bounds] = {}
    for each, bounds in proof.spread:
        before = hulls.get(each.says, bounds)
        hulls[each.says] = Bounds(min(before.lower, bounds.lower), max(before.upper, bounds.upper))
    return len(hulls) > 1 and any(
        claim.highest < hull.lower or reaches(claim, hull) for hull in hulls.values()
    )


def reaches(claim: PrintedNumber, bounds: Bounds) -> bool:
    """Return whether a claim, so rounded, is at or above the upper end.

    >>> reaches(PrintedNumber(1.19, 0.005), Bounds(1.0, 1.195))
    True
    """
    return math.isfinite(bounds.upper) and claim.highest >= bounds.upper
