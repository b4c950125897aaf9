"""What the rules of causes look at: a run, what is proven of it, how its claim stands."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...accountant.guarantee import Bounds
from ...accountant.rounding import down, up
from ..description.printed_number import PrintedNumber
from ..description.run_description import Phase
from ..description.run_settings import RunSettings
from ..findings import Match, Severity
from ..reproduction.reproduction import Change, Method, Reproduction
from .bounds import Proof
from .checked_run import CheckedRun
from .claim_status import ClaimStatus
from .proving import MOST_CHECK_WORK, prove
from .second_layer import Recomputation


@dataclass(frozen=True)
class CheckCase:
    """A run, its proof, how the claim stands against it, and what reproduces the claim."""

    run: CheckedRun
    proof: Proof
    status: ClaimStatus
    recomputation: Recomputation

    @property
    def settings(self) -> RunSettings:
        """Return the settings of the run."""
        return self.run.settings

    @property
    def claim(self) -> PrintedNumber | None:
        """Return the number that is claimed."""
        return self.run.claim

    @property
    def reference(self) -> Bounds | None:
        """Return the bounds, those of Poisson sampling where no sampler is stated."""
        return _reference(self.proof)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Return noise multiplier, rate and steps of each phase, as far as they are known."""
        settings = self.settings
        if settings.phases or settings.noise_multiplier is None or settings.rate is None:
            return settings.phases
        return (Phase(settings.noise_multiplier, settings.rate, settings.steps or 1),)

    @property
    def short(self) -> bool:
        """Return whether the claim does not reach the upper end, or nothing is proven."""
        bounds = self.reference
        return self.claim is None or bounds is None or self.claim.highest < bounds.upper

    @property
    def reproductions(self) -> tuple[Reproduction, ...]:
        """Return what reproduces the claim, with these settings or near them."""
        return (*self.recomputation.same, *self.recomputation.near)

    def near(self, *changes: Change) -> Reproduction | None:
        """Return what reproduces the claim by one of these changes, or None."""
        return next((each for each in self.recomputation.near if each.change in changes), None)

    def only_by(self, *methods: Method) -> Reproduction | None:
        """Return what reproduces the claim by these methods, where no other does with the same."""
        same = self.recomputation.same
        if same and all(each.method in methods for each in same):
            return same[0]
        if not same:
            return next((each for each in self.recomputation.near if each.method in methods), None)
        return None

    def severity_of(self, match: Reproduction) -> Severity:
        """Return how grave it is that other settings give the number.

        Only the most plausible of them can be an error: the others may do so by chance.
        """
        near = self.recomputation.near
        leading = not near or match.change == near[0].change
        return self.severity() if leading else "warning"

    def that_of(self, match: Reproduction, next_step: str | None = None) -> Match:
        """Return that the claim is the number of other settings."""
        severity = self.severity_of(match)
        return Match(match.says, (), self.reference, severity, next_step)

    def changed_by(self, says: str, without: Bounds | None) -> Match:
        """Return that a fact changes what is proven, which would be `without` but for it."""
        text = f"{says}{self.change_text(without)}"
        return Match(text, epsilon=self.reference, severity=self.severity(without))

    def otherwise(self, **changes: object) -> Bounds | None:
        """Return what would be proven with other settings; None where facts are lacking.

        Of a run that was refused as too much work nothing is accounted for, in no other way either.
        """
        if self.proof.refused:
            return None
        return reference_of(self.run.with_settings(**changes))

    def severity(self, without: Bounds | None = None) -> Severity:
        """Return `error` where the claim is false, and `without` the fact would not be."""
        if self.status != "false" or self.claim is None or self.run.contradictions:
            return "warning"
        if without is not None and self.claim.highest < without.lower:
            return "warning"
        return "error"

    def change_text(self, without: Bounds | None) -> str:
        """Return what is proven with a fact and without it, as the end of a sentence."""
        bounds = self.reference
        if bounds is None:
            return ""
        text = f" {self.run.currency.capitalize()} is {between(bounds)}"
        if without is None:
            return f"{text}."
        return f"{text}, and would be {between(without)} without that."


def reference_of(run: CheckedRun) -> Bounds | None:
    """Return what is proven of a run, under Poisson sampling where no sampler is stated.

    None where that is as much work as a part of the check may be.
    """
    proof = prove(run, MOST_CHECK_WORK // 4)
    return None if proof.refused else _reference(proof)


def _reference(proof: Proof) -> Bounds | None:
    return proof.alternatives.get("poisson", proof.bounds)


def between(bounds: Bounds) -> str:
    """Return bounds in words, rounded outward.

    >>> between(Bounds(1.0, math.inf)), between(Bounds(1.23456, 1.23457))
    ('at least 1.000', '1.235')
    """
    if math.isinf(bounds.upper):
        return "not bounded" if bounds.lower <= 0.0 else f"at least {down(bounds.lower)}"
    if bounds.lower <= 0.0:
        return f"at most {up(bounds.upper)}"
    if bounds.gap <= 1e-3 * bounds.upper:
        return up(bounds.upper)
    return f"between {down(bounds.lower)} and {up(bounds.upper)}"
