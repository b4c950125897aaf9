"""Currencies in which a whole plan has one price: mu^2 of plans, and a pool of pairs.

A **plan** is an event that is charged as a whole: which releases there are, their noise and their
number are fixed when it is charged.  What each of them asks may depend on everything that was seen
before, of other plans too, and so may their order, and whether and when they are made.  A plan that
stopped is spent whole.

**What a plan is worth** (derived here).  Fix two neighbouring data sets.  Whatever it asks, release
i is a post-processing of one draw Z_i from its dominating pair (P_i, Q_i), and all releases of a
plan are post-processings of the draws Z_1, ..., Z_n, which may be made when the plan begins: they
depend on nothing else.  So a plan, however it is interleaved with others, is an *interactive
post-processing of one draw* from the product of its pairs.  By Blackwell's theorem that draw is in
turn a post-processing of one from any pair (A, B) with H_x(prod P_i||prod Q_i) <= H_x(A||B) at
every x > 0.  For x >= 1 this is a bound on delta in one order of the neighbours; for x < 1,
H_x(P||Q) = 1 - x + x H_{1/x}(Q||P) makes it one on the other order.  Hence the two prices:

mu2-plans      (A, B) is N(0, 1) against N(mu, 1), but with probability s it tells which data set it
               is: delta(e) <= s + (1 - s) delta_mu(e) at every e, in both orders
               (`gaussian_domination`)
planned-pool   (A, B) is the largest pair that is (e, d)-private: with probability d it tells, else
               its loss is at most e

Now every plan is one release, made when it begins, and the parameters of the next are known from
the past.  **mu^2**: outside of what tells, of probability at most the largest sum of s over a path
(the slack S), all releases are Gaussian given the past, and the argument of `budget_currencies`
bounds the run by S + delta_mu(e) with mu^2 the largest sum.  **Pairs**: outside of what tells, of
probability at most the sum of the d, the sum of the losses is at most that of the e.

**A pool with another budget.**  A pool (E2, D2) that was split off before the first claim, with
a budget kept in any currency here for (E1, D1), each spent only by what is charged to it: together
they are (E1 + E2, D1 + D2).  Under P, write the likelihood ratio of everything as L M, with M that
of the pool's draws.  But for a part of weight D2, M <= e^E2, so

    E_P[(1 - e^(E1 + E2) / (L M))+] <= D2 + E_P[(1 - e^E1 / L)+],

and the last term is at most D1 by the argument of that currency: given the past, draws of the pool
included, its releases cost what they cost.  (The mean of L^(a-1) under P is what it bounds, at one
order a; or that log L is normal under P.)

**What does not hold.**  The joint PLD of the plans that were admitted is no guarantee where later
plans were chosen by what earlier ones showed.  With releases of pure epsilon 0.5 and 0.15, each
path of which is (3, 0.001)-private by its joint PLD, an analyst who picks the path has delta
0.00203 (a test enumerates it).  It is in the first row of the table to show what adaptive choices
cost.

The same follows from theorems of others, also where a pair is fitted to each epsilon, so that no
single one dominates, or where one leaf lasts for several releases (correlated noise, a pass in
random order): interactive mechanisms that are f-DP are interactive post-processings of one draw
(Vadhan and Zhang 2023, arXiv 2207.08335v3), and filters of (e, d), of f-DP and of Renyi divergence
at one order hold for interactive mechanisms whose parameters are chosen as results come in (Haney,
Shoemate, Tian, Vadhan, Vyrros, Xu and Zhang 2023, arXiv 2309.05901).  Conditions: fresh and
independent randomness, data of a block that do not change while plans run, a relation and a unit
that all share, and parameters of a plan that are fixed before its first release.

**Which to choose.**  n plans of 1,000 x Poisson(0.01, Gaussian(1)), epsilon at delta 1e-5 in all:

    n                                   1        2        4        8
    one joint PLD (all planned)     1.828    2.584    3.723    5.453
    planned-pool, plans=n           1.828    3.838    8.033   16.771
    rdp, best order for n           2.101    2.867    4.077    5.927
    mu2-plans, plans=n              1.829    2.718    4.068    6.145

So mu^2 suits a few large plans, Renyi divergence at one order many small ones (and runs that may
stop early, for it pays release by release), and a pool one or two plans that must be tight.

Sources: Blackwell 1953, and Dong, Roth and Su 2022, Theorem 2.10, arXiv 1905.02383v3; Kairouz, Oh
and Viswanath 2015, arXiv 1311.0776v4 (the largest (e, d)-private pair); Rogers, Roth, Ullman and
Vadhan 2016, arXiv 1605.08294 (sums of pairs as a filter); Smith and Thakurta 2022, arXiv 2210.17520
(mu^2).
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
from .balances import BUDGET_UNITS
from .budget_currencies import GAUSSIAN_PROFILE_SOURCE, Cost, Gdp, Target
from .gaussian_domination import least_mu, refuse_without_slack, squared

SOURCE: Final = (
    "derived in odometer/plan_currencies.py; Haney, Shoemate, Tian, Vadhan, Vyrros, Xu and Zhang "
    "2023, arXiv 2309.05901"
)


@dataclass(frozen=True)
class GdpPlans:
    """mu^2 of whole plans, each dominated by Gaussian noise up to an equal part of the slack."""

    target: Target
    plans: int
    name: str = "mu2-plans"
    whole_plans: bool = True
    source: str = SOURCE
    conversion: str = GAUSSIAN_PROFILE_SOURCE

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
            squares = [
                leaf.count * Fraction(gdp.cost(leaf.event, relation).amounts[0]) for leaf in parts
            ]
            return Cost((sum(squares, Fraction(0)),))
        slack = part_of(self.target.slack, self.plans)
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
    source: str = SOURCE
    conversion: str = SOURCE

    @property
    def budgets(self) -> tuple[Fraction, ...]:
        """Epsilon itself."""
        return (Fraction(self.target.epsilon),)

    def cost(self, event: ev.Event, relation: Neighbours) -> Cost:
        """Return the epsilon that is proven of a plan at its part of delta."""
        parts = Composition.of(event)
        if not parts or parts.holds(ev.NoGuarantee):
            return Cost((math.inf if parts else Fraction(0),))
        delta = part_of(self.target.delta, self.plans)
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


def part_of(delta: float, plans: int) -> float:
    """Return delta / plans, rounded down so that so many plans fit in budget units."""
    part = Fraction(BUDGET_UNITS // plans, BUDGET_UNITS) * Fraction(delta)
    near = float(part)
    return near if Fraction(near) <= part else math.nextafter(near, 0.0)
