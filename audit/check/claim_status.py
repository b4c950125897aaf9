"""How a claim stands against what is proven, and which allowed runs disagree: the first layer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from ...accountant.guarantee import Bounds
from ..description.printed_number import PrintedNumber
from .bounds import Proof, proof_of
from .checked_run import CheckedRun
from .completions.completion import Completion
from .pinned_run import PinnedRun

ClaimStatus = Literal["false", "holds", "between", "open", "no-claim"]
"""`false`: below the lower end.  `holds`: at or above the upper end.  `between`: neither.  `open`:
facts are lacking that decide it."""


def claim_status(claim: PrintedNumber | None, proof: Proof) -> ClaimStatus:
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


@dataclass(frozen=True)
class DecidingCompletion:
    """A run that the description allows: in words, its bounds, and the option that states it."""

    says: str
    bounds: Bounds
    settles: str = ""

    @property
    def unsettled(self) -> DecidingCompletion:
        """The same run, which no option states."""
        return replace(self, settles="")


def deciding_completions(
    claim: PrintedNumber | None, proof: Proof
) -> tuple[DecidingCompletion, ...]:
    """Return the runs that disagree about a claim, from the least epsilon to the largest."""
    if claim is None or proof.bounds is None:
        return ()
    by_sampler = [
        DecidingCompletion(
            f"batches are drawn as {name}",
            bounds,
            "" if name in proof.unsettled else f"sampling.method={name}",
        )
        for name, bounds in proof.alternatives.items()
    ]
    if by_sampler:
        return tuple(by_sampler)
    if not decided_by_completion(claim, proof):
        return ()
    first = {each.says: each for each, _ in reversed(proof.spread)}
    rows = [
        DecidingCompletion(says, _inside(bounds, proof.bounds), _settles(first[says]))
        for says, bounds in _ends_by_choices(proof).items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.bounds.upper, row.bounds.lower)))


def _inside(ends: Bounds, hull: Bounds) -> Bounds:
    """Return the ends of some runs, none of which is beyond what is proven of all."""
    return Bounds(max(ends.lower, hull.lower), min(ends.upper, hull.upper))


def _ends_by_choices(proof: Proof) -> dict[str, Bounds]:
    """Return the ends of the runs of the same choices, by these in words: least and largest.

    A run that stands for others at one end has no end of its own at the other.
    """
    lowers: dict[str, list[float]] = {}
    uppers: dict[str, list[float]] = {}
    for each, bounds in proof.spread:
        lower, upper = lowers.setdefault(each.says, []), uppers.setdefault(each.says, [])
        lower += [bounds.lower] if each.run.stands_for != "most" else []
        upper += [bounds.upper] if each.run.stands_for != "least" else []
    return {
        says: Bounds(min(lower, default=0.0), max(uppers[says], default=math.inf))
        for says, lower in lowers.items()
    }


def open_keys(proof: Proof) -> tuple[str, ...]:
    """Return the keys of the subjects that the runs of a description differ in."""
    said: dict[str, set[str]] = {}
    for each, _ in proof.spread:
        for choice in each.choices:
            for key in (choice.key, *choice.also):
                said.setdefault(key, set()).add(choice.says)
    return tuple(key for key, words in said.items() if len(words) > 1)


def _settles(completion: Completion) -> str:
    """Return the options that state a run; empty where no options state all that is open."""
    if not all(choice.settles for choice in completion.choices):
        return ""
    options = (option for choice in completion.choices for option in choice.settles.split())
    # What a later subject says of a key stands on what an earlier one did.
    said = dict(option.split("=", 1) for option in options)
    return " ".join(f"{key}={value}" for key, value in said.items())


def steps_that_hold(run: CheckedRun, claim: PrintedNumber, proof: Proof) -> str:
    """Return up to how many steps the claim holds, where the count of steps alone decides it.

    An empty text where something else is open, too, or the rate is open by its digits.
    """
    epochs = run.settings.epochs
    if open_keys(proof) != ("schedule.steps",) or epochs is None or run.settings.rate is None:
        return ""
    of_batch = [each.run for each, _ in proof.spread if each.run.settings.rate == run.settings.rate]
    counts = sorted(each.run.settings.steps or 0 for each, _ in proof.spread)
    if not of_batch:
        return ""
    some = of_batch[0]
    low, high = counts[0], counts[-1]
    if not _holds_with(some, claim, low):
        return ""
    # More steps show no less, so that the steps up to which the claim holds are found by halving.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _holds_with(some, claim, middle) else (low, middle)
    return (
        f"holds up to {low:,} steps at rate {some.settings.rate:.6g}; {epochs:g} epochs are "
        f"{counts[0]:,} to {counts[-1]:,} steps"
    )


def _holds_with(run: PinnedRun, claim: PrintedNumber, steps: int) -> bool:
    bounds = proof_of(replace(run, settings=replace(run.settings, steps=steps))).bounds
    return bounds is not None and reaches(claim, bounds)
