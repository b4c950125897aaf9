"""The privacy measure in which a data set's budget is kept (its currency), and balances in it.

It is zCDP, Renyi DP at fixed orders, Gaussian DP or whole plans, chosen before the first claim.

It goes to JSON and back unchanged, with the budgets as exact fractions: a price is a share of the
budgets that were written, and budgets larger than this version computes are refused.  `epsilon_of`
and `left_of` read a balance; `split_off` divides a currency in two before the first claim.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Final, Literal, get_args

from .. import events as ev
from .. import validate
from ..errors import InvalidInput, Unsupported
from ..event_tree import check_depth
from ..neighbours import Neighbours, Unit, as_neighbours
from .adaptive_ledger import checked_orders, checked_target, currency_named
from .balances import BUDGET_UNITS, EXHAUSTED, vector
from .budget_currencies import Cost, Currency, Target
from .plan_currencies import GdpPlans, PlannedPool

CurrencyKind = Literal["zcdp", "rdp", "gdp", "mu2-plans", "planned-pool"]
"""What a data set's budget may be kept in."""

KINDS: Final[tuple[CurrencyKind, ...]] = get_args(CurrencyKind)

UNITS: Final[tuple[Unit, ...]] = get_args(Unit)

DEFAULT_PLANS: Final = 8
"""Into how many equal parts the delta of whole plans is divided, where nobody says."""

SLACK_OF_PLANS: Final = 0.2
"""Share of delta that is set aside in mu^2 of plans, where nobody says: about the best share."""

_FRACTION: Final = re.compile(r"[0-9]{1,1000}(/[0-9]{1,1000})?")

BUDGET_TOLERANCE: Final = Fraction(1, 10**12)
"""How far a stored budget may lie above the one that is computed here, relatively: rounding."""


@dataclass(frozen=True)
class BudgetCurrency:
    """The privacy measure of a data set's budget, and its promise: epsilon at delta, for a unit.

    `slack` is the part of delta for the releases' own deltas, `orders` the Renyi orders (of `rdp`),
    `plans` into how many parts the delta of whole plans is divided, `blocks_per_unit` in how many
    blocks a unit may lie: each block then has the cap over that number.  Made by
    `budget_currency`.
    """

    kind: CurrencyKind
    target: Target
    neighbours: Neighbours
    unit: Unit
    orders: tuple[float, ...]
    plans: int
    blocks_per_unit: int
    budgets: tuple[Fraction, ...]

    @property
    def name(self) -> str:
        """The kind."""
        return self.kind

    @property
    def whole_plans(self) -> bool:
        """Whether an event is charged as a whole, and not release by release."""
        return self._currency.whole_plans

    @property
    def source(self) -> str:
        """Where the argument stands."""
        return self._currency.source

    @property
    def conversion(self) -> str:
        """Where the step to epsilon stands."""
        return self._currency.conversion

    def cost(self, event: ev.Event, relation: Neighbours) -> Cost:
        """Return the cost of a leaf or a plan, times the blocks in which a unit may lie."""
        if relation != self.neighbours:
            raise InvalidInput(
                f"The budget is kept under {self.neighbours}; a price under {relation} was asked.",
                "What a release costs under another relation may be less.",
                "Convert the event to the data set's relation first.",
            )
        cost = self._currency.cost(event, relation)
        times = self.blocks_per_unit
        # Infinity times a number is infinity; fractions stay exact.
        return Cost(tuple(times * amount for amount in cost.amounts), times * Fraction(cost.delta))

    def epsilon(self, spent: Sequence[Fraction | None]) -> float:
        """Return epsilon of what is spent in all blocks of a unit, rounded up."""
        return self._currency.epsilon(spent)

    def described(self) -> str:
        """Return the budget in words."""
        return self._currency.described()

    def to_json(self) -> dict[str, object]:
        """Return it as JSON holds it: numbers that come back exactly, budgets as fractions."""
        return {
            "kind": self.kind,
            "epsilon": self.target.epsilon,
            "delta": self.target.delta,
            "slack": self.target.slack,
            "neighbours": self.neighbours,
            "unit": self.unit,
            "orders": list(self.orders),
            "plans": self.plans,
            "blocks_per_unit": self.blocks_per_unit,
            "budgets": [f"{each.numerator}/{each.denominator}" for each in self.budgets],
        }

    @classmethod
    def from_json(cls, given: object) -> BudgetCurrency:
        """Return the currency that `to_json` wrote; raise `InvalidInput` for anything else.

        Its budgets are those that were written; they may not exceed what the target gives.
        """
        keys = {"epsilon", "delta", "slack"} | {each.name for each in fields(cls)} - {"target"}
        if not isinstance(given, Mapping) or set(given) != keys:
            raise InvalidInput(
                f"A currency has these fields: {', '.join(sorted(keys))}.",
                next_step="Give what `to_json` returned, unchanged.",
            )
        rest = {key: given[key] for key in keys - {"budgets"}}
        rest["orders"] = rest["orders"] or None
        fresh = budget_currency(rest.pop("kind"), rest.pop("epsilon"), rest.pop("delta"), **rest)
        return fresh._with_budgets(given["budgets"])

    def _with_budgets(self, written: object) -> BudgetCurrency:
        listed = written if isinstance(written, (list, tuple)) else ()
        try:
            budgets = tuple(Fraction(each) for each in listed if _is_fraction(each))
        except (ValueError, ZeroDivisionError):
            budgets = ()
        pairs = list(zip(budgets, self.budgets, strict=False))
        if len(budgets) != len(self.budgets) or any(
            not 0 <= stored <= computed * (1 + BUDGET_TOLERANCE) for stored, computed in pairs
        ):
            raise InvalidInput(
                "The budgets that were written are not those of this target.",
                "A larger budget would let more be spent than epsilon and delta allow.",
                "Give what `to_json` returned, unchanged.",
            )
        return BudgetCurrency(
            **{each.name: getattr(self, each.name) for each in fields(self)} | {"budgets": budgets}
        )

    @cached_property
    def _currency(self) -> Currency:
        orders = self.orders or None
        return _currency(self.kind, self.target, self.neighbours, orders, None, self.plans)


def _is_fraction(source: object) -> bool:
    """Return whether a text is a fraction as it is written: a power of ten may have no end."""
    return isinstance(source, str) and _FRACTION.fullmatch(source) is not None


def budget_currency(
    kind: str,
    epsilon: float,
    delta: float,
    neighbours: str = "add-remove",
    unit: str = "record",
    orders: Sequence[float] | None = None,
    slack: float | None = None,
    *,
    like: ev.Event | None = None,
    plans: int | None = None,
    blocks_per_unit: int = 1,
) -> BudgetCurrency:
    """Return the currency of a data set's budget, to be fixed before the first claim.

    Kinds: `zcdp` (rho), `rdp` (Renyi divergence at `orders`, or at the order that suits `like`),
    `gdp` (mu^2 of Gaussian noise), `mu2-plans` (mu^2 of whole plans), `planned-pool` (pairs of
    whole plans).  `slack` is the part of delta for deltas of releases (of `mu2-plans` a fifth of
    delta where nobody says, of `planned-pool` all of it, else 0).  `plans` is into how many equal
    parts whole plans divide it (8 where nobody says).  With `blocks_per_unit` above 1 a unit may
    lie in so many blocks, and each block has the cap over that number.

    Range: `epsilon` above 0, `delta` in (0, 1), 0 <= `slack` < `delta`, `orders` above 1.  Raises
    `InvalidInput` for values out of range, `Unsupported` for several orders of a unit in several
    blocks.
    """
    kind = validate.choice(KINDS, kind=kind)
    chosen: CurrencyKind = next(each for each in KINDS if each == kind)
    relation = as_neighbours(neighbours)
    named = validate.choice(UNITS, unit=unit)
    known_unit: Unit = next(each for each in UNITS if each == named)
    target = _target(chosen, epsilon, delta, slack)
    parts = validate.count(plans=DEFAULT_PLANS if plans is None else plans)
    blocks = validate.count(blocks_per_unit=blocks_per_unit)
    fixed = None if orders is None else checked_orders(orders)
    if like is not None:
        check_depth(like)
    currency = _currency(chosen, target, relation, fixed, like, parts)
    kept_orders: tuple[float, ...] = getattr(currency, "orders", ())
    if blocks > 1 and len(currency.budgets) > 1:
        raise Unsupported(
            f"A unit in {blocks:,} blocks needs a budget at one order.",
            "With several, each of its blocks may survive at another order, and then nothing "
            "bounds what they add up to.",
            "Give one order, or zcdp.",
        )
    return BudgetCurrency(
        chosen, target, relation, known_unit, kept_orders, parts, blocks, currency.budgets
    )


def _target(kind: CurrencyKind, epsilon: float, delta: float, slack: float | None) -> Target:
    """Return the promise, with the part of delta that is set aside."""
    if kind == "planned-pool":
        if slack is not None and slack != delta:
            raise InvalidInput(
                "`slack` has no use in a planned pool: all of delta is for its plans.",
                next_step="Leave it out.",
            )
        promise = checked_target(epsilon, delta, 0.0)
        return Target(promise.epsilon, promise.delta, promise.delta)
    if slack is None:
        slack = SLACK_OF_PLANS * validate.open_probability(delta=delta) * (kind == "mu2-plans")
    return checked_target(epsilon, delta, slack)


def _currency(
    kind: CurrencyKind,
    target: Target,
    relation: Neighbours,
    orders: tuple[float, ...] | None,
    like: ev.Event | None,
    plans: int,
) -> Currency:
    """Return the currency of that kind; raise `InvalidInput` where it is not fixed."""
    if kind not in ("mu2-plans", "planned-pool"):
        return currency_named(kind, target, relation, orders, like)
    if orders is not None or like is not None:
        raise InvalidInput(
            f"`orders` and `like` fix a Renyi order; the currency is {kind}.",
            next_step="Give kind='rdp', or leave them out.",
        )
    return GdpPlans(target, plans) if kind == "mu2-plans" else PlannedPool(target, plans)


def split_off(
    currency: BudgetCurrency, epsilon: float, delta: float, *, plans: int | None = None
) -> tuple[BudgetCurrency, BudgetCurrency]:
    """Return a budget as two that add up to it: what is left, and a pool of (epsilon, delta).

    Before the first claim only, and never moved.  The rest keeps its kind; its slack stays.
    Range: `epsilon` and `delta` above 0 and below those of the budget, less the slack.  Raises
    `InvalidInput` for values out of range.
    """
    target = currency.target
    if currency.kind == "planned-pool":
        raise InvalidInput("A pool is not split again.", next_step="Split another budget.")
    rest = (
        _less(target.epsilon, validate.positive(epsilon=epsilon)),
        _less(target.delta, validate.positive(delta=delta)),
    )
    if rest[0] <= 0.0 or rest[1] <= target.slack:
        raise InvalidInput(
            f"A pool of epsilon {epsilon:g} at delta {delta:g} leaves nothing of "
            f"{target.epsilon:g} at {target.delta:g}.",
            next_step="Split off less.",
        )
    shared = (currency.neighbours, currency.unit)
    blocks = currency.blocks_per_unit
    return (
        budget_currency(
            currency.kind,
            *rest,
            *shared,
            currency.orders or None,
            target.slack,
            plans=currency.plans,
            blocks_per_unit=blocks,
        ),
        budget_currency(
            "planned-pool", epsilon, delta, *shared, plans=plans, blocks_per_unit=blocks
        ),
    )


def _less(whole: float, part: float) -> float:
    """Return the difference, rounded down."""
    near = whole - part
    exact = Fraction(whole) - Fraction(part)
    return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)


def epsilon_of(currency: BudgetCurrency, spent: Iterable[int]) -> tuple[float, float]:
    """Return what a block has spent as (epsilon, delta), epsilon rounded up, infinite if exhausted.

    A reading, never a guarantee: where it stops because of results, only the whole budget is
    guaranteed.  Delta is the target's, in which epsilon holds; of a pool it is what is spent.
    """
    units = vector(spent)
    amounts = [
        Fraction(each, BUDGET_UNITS) * budget if each < EXHAUSTED else None
        for each, budget in zip(units[:-1], currency.budgets, strict=True)
    ]
    epsilon = currency.epsilon(amounts)
    if units[-1] >= EXHAUSTED:
        return math.inf, currency.target.delta
    if currency.kind != "planned-pool":
        return epsilon, currency.target.delta
    shared = Fraction(units[-1], BUDGET_UNITS) * Fraction(currency.target.delta)
    near = float(shared)
    return epsilon, near if Fraction(near) >= shared else math.nextafter(near, 1.0)


def epsilon_of_largest(
    currency: BudgetCurrency, vectors: Iterable[Iterable[int]]
) -> tuple[float, float]:
    """Return what a data set has spent: (epsilon, delta) of the block that has spent most."""
    return max(epsilon_of(currency, each) for each in vectors)


def left_of(currency: BudgetCurrency, spent: Iterable[int]) -> tuple[float, float]:
    """Return what a block has left of epsilon and of the delta that is set aside, rounded down."""
    units = vector(spent)
    epsilon = currency.target.epsilon - epsilon_of(currency, units)[0]
    left = Fraction(max(BUDGET_UNITS - units[-1], 0), BUDGET_UNITS)
    set_aside = left * Fraction(currency.target.slack)
    near = float(set_aside)
    return max(epsilon, 0.0), near if Fraction(near) <= set_aside else math.nextafter(near, 0.0)
