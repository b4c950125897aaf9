"""A verdict in one sentence: whom it protects, what it rests on, what it waits for."""

from __future__ import annotations

from typing import Final

from ...accountant import rounding
from ...accountant.errors import counted
from ..reproduction.reproduction import SAME
from .check_result import CheckResult

LARGE_DELTA: Final = "delta-too-large"
CLAIM_KEYS: Final = ("claim.epsilon", "claim.rho", "claim.mu")
CHANGES: Final = {
    "add-remove": "adding or removing one {unit}",
    "replace-one": "replacing one {unit} by another",
    "zero-out": "replacing one {unit} by zeros",
}


def headline(result: CheckResult) -> str:
    """Return the verdict in one sentence."""
    if result.claimed is None and result.verdict == "unverifiable":
        return _without_claim(result)
    match result.verdict:
        case "holds" | "holds-not-from-these-settings":
            return _holds(result)
        case "false":
            return f"FALSE: the run that was described has a larger {result.currency}"
        case "unproven":
            if result.lacks:
                return f"UNPROVEN: nothing known bounds what was described. {result.lacks}"
            return "UNPROVEN: the claim lies below what is proven, and above what is shown at least"
    return f"UNVERIFIABLE: {_open(result)}"


def protects(result: CheckResult) -> str:
    """Return which change of the data the numbers are about, such as adding or removing a unit."""
    unit = result.facts.get("claim.unit")
    relation = result.facts.get("claim.neighbours")
    words = CHANGES.get("add-remove" if relation is None else str(relation.value), "{unit}")
    if unit is not None and unit.provenance == "assumed" and result.unit_is_open:
        return words.format(unit="record or user")
    return words.format(unit="record" if unit is None else str(unit.value))


def _without_claim(result: CheckResult) -> str:
    if result.proven is None:
        keys = [each.key for each in result.deciding if each.key not in CLAIM_KEYS]
        return f"no claim, and nothing is proven{_without(keys)}"
    if result.alternatives:
        return "no claim: what is proven depends on the sampler, which nobody stated"
    upper = rounding.up(result.proven.upper)
    return f"no claim: what is proven is {result.currency} {upper} for {protects(result)}"


def _holds(result: CheckResult) -> str:
    count = len(result.conventions)
    taken = f", under {counted(count, 'convention')}" if count else ""
    words = f"HOLDS for {protects(result)}{taken}"
    if result.only_rounded and result.proven is not None:
        least = rounding.down(result.proven.lower)
        words = f"HOLDS AS PRINTED, rounded: {result.currency} is at least {least}" + words[5:]
    if any(cause.id == LARGE_DELTA for cause in result.causes):
        words += ", but at a delta that allows to publish one"
    if result.verdict == "holds":
        return words
    if any(each.change != SAME for each in result.reproduced_by):
        return f"{words}; the number is that of other settings"
    return f"{words}; no common accountant gives the number for these settings"


def _open(result: CheckResult) -> str:
    if any(cause.id == "contradiction" for cause in result.causes):
        return "what was said of the run contradicts itself"
    if result.settled_by:
        return f"the claim {result.settled_by}"
    keys = [each.key for each in result.deciding]
    if "sampling.method" in keys and result.alternatives and result.claimed is not None:
        poisson = result.alternatives.get("poisson")
        if poisson is not None and result.claimed.highest >= poisson.upper:
            return "it holds if batches were Poisson samples, and nobody stated how they were drawn"
    return f"the verdict depends on what nobody stated{_without(keys, ': ')}"


def _without(keys: list[str], before: str = " without ") -> str:
    return before + ", ".join(keys) if keys else ""
