"""Currencies in which a whole plan has one price: mu^2 of plans, and a pool of pairs.

A plan is an event that is charged as a whole: which releases there are, their noise and their
number are fixed when it is charged.  What each of them asks may depend on everything that was seen
before, of other plans too, and so may the order in which they are made.  A plan that stopped is
spent whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Final

from .. import events as ev
from ..account import bounds_on_epsilon
from ..composition import Composition
from ..neighbours import Neighbours
from .budget_currencies import Cost, Gdp, Target
from .gaussian_domination import least_mu, refuse_without_slack, squared

PLANS_SOURCE: Final = "derived in odometer/plan_currencies.py"
POOL_SOURCE: Final = "derived in odometer/plan_currencies.py"


@dataclass(frozen=True)
class GdpPlans:
    """mu^2 of whole plans, each dominated by Gaussian noise up to an equal part of the slack."""

    target: Target
    plans: int
    name: str = "mu2-plans"
    whole_plans: bool = True
    source: str = PLANS_SOURCE
    conversion: str = "Balle and Wang 2018, Theorem 8, arXiv 1805.06530v2"

    @cached_property
    def budgets(self) -> tuple[Fraction, ...]:
        """The largest mu^2 that meets the target with what the slack leaves of delta."""
        return Gdp(self.target).budgets

    def cost(self, event: ev.Event, relation: Neighbours) -> Cost:
        """Return mu^2 of a plan and its part of the slack; Gaussian noise needs no slack."""
        parts = Composition.of(event)
        if parts.holds(ev.NoGuarantee):
            return Cost((math.inf,))
        if all(isinstance(leaf.event, (ev.Gaussian, ev.MatrixGaussian)) for leaf in parts):
            # Squares add up exactly.
            gdp = Gdp(self.target)
            each = [gdp.cost(leaf.event, relation).amounts[0] for leaf in parts]
            counted = zip(parts, each, strict=True)
            return Cost((sum((leaf.count * Fraction(one) for leaf, one in counted), Fraction(0)),))
        slack = self.target.slack / self.plans
        refuse_without_slack(slack)
        return Cost((squared(least_mu(parts, relation, slack)),), slack)

    def epsilon(self, spent: Sequence[Fraction | None]) -> float:
        """Return the epsilon of the mu^2 that is spent."""
        return Gdp(self.target).epsilon(spent)

    def described(self) -> str:
        """Return the budget in words."""
        return f"mu^2 = {float(self.budgets[0]):.6g} (Gaussian privacy of whole plans)"


@dataclass(frozen=True)
class PlannedPool:
    """Epsilons and deltas of whole plans, which add up: each plan at an equal part of delta.

    All of delta is in the last entry of a price.
    """

    target: Target
    plans: int
    name: str = "planned-pool"
    whole_plans: bool = True
    source: str = POOL_SOURCE
    conversion: str = POOL_SOURCE

    @property
    def budgets(self) -> tuple[Fraction, ...]:
        """Epsilon itself."""
        return (Fraction(self.target.epsilon),)

    def cost(self, event: ev.Event, relation: Neighbours) -> Cost:
        """Return the epsilon that is proven of a plan at its part of delta."""
        parts = Composition.of(event)
        if parts.holds(ev.NoGuarantee):
            return Cost((math.inf,))
        delta = self.target.delta / self.plans
        epsilon = bounds_on_epsilon(event, delta=delta, neighbours=relation).upper
        return Cost((Fraction(epsilon) if math.isfinite(epsilon) else math.inf,), delta)

    def epsilon(self, spent: Sequence[Fraction | None]) -> float:
        """Return the sum of the epsilons that are spent."""
        (total,) = spent
        if total is None:
            return math.inf
        near = float(total)
        return near if Fraction(near) >= total else math.nextafter(near, math.inf)

    def described(self) -> str:
        """Return the budget in words."""
        return f"epsilon = {self.target.epsilon:.6g} (pairs of whole plans)"
