"""The adaptive mode: earlier results may choose releases; the currency is fixed beforehand.

What each unit has spent before each observer, in whole budget units.

A budget is divided into 10^15 equal budget units.  A price is a whole number of them, rounded up,
and they are added as integers: no sum depends on its order or falls below the truth.

Arrays of budget units hold a column for each budget of the currency (one, or one for each Renyi
order), and a last one for the delta that is set aside for the releases' own deltas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from .. import events as ev
from .. import validate
from ..arrays import BoolArray, IntArray
from ..composition import MAX_ROUNDS, Composition
from ..errors import BudgetExceeded, InvalidInput
from ..guarantee import Bounds, Guarantee, Step
from ..neighbours import Neighbours
from .balances import BUDGET_UNITS, EXHAUSTED
from .budget_currencies import BudgetReading, Currency, Gdp, Mode, Rdp, Target, Zcdp, best_order
from .pricing import price


@dataclass
class UnitBalances:
    """The budget units that were spent: on releases that touch everybody, and by single units.

    A unit can pay while at least one budget that was never exceeded has room, and the delta set
    aside has room too.  Units that were never named have spent what touched everybody.
    """

    budgets: int

    def __post_init__(self) -> None:
        self._common: IntArray = np.zeros(self.budgets + 1, dtype=np.int64)
        # One row for each unit that was ever named; the table doubles when it is full.
        self._rows: dict[str, int] = {}
        self._by_unit: IntArray = np.zeros((16, self.budgets + 1), dtype=np.int64)

    def spent(self, units: Sequence[str] | None = None) -> IntArray:
        """Return what units have spent, a row for each; None is everybody, with a nameless row."""
        if units is None:
            known = self._by_unit[: len(self._rows)]
            spent = np.concatenate((known, np.zeros_like(self._common)[None, :]))
        else:
            spent = np.zeros((len(units), self.budgets + 1), dtype=np.int64)
            rows = np.array([self._rows.get(unit, -1) for unit in units], dtype=np.int64)
            spent[rows >= 0] = self._by_unit[rows[rows >= 0]]
        return np.asarray(np.minimum(spent + self._common, EXHAUSTED))

    def admits(self, cost: IntArray, units: Sequence[str] | None) -> bool:
        """Return whether everybody concerned can pay."""
        return bool(self._within_budget(self.spent(units) + cost).all())

    def add(self, cost: IntArray, units: Sequence[str] | None) -> None:
        """Spend; whether they can pay is `admits`' question."""
        if units is None:
            self._common = np.minimum(self._common + cost, EXHAUSTED)
            return
        rows = [self._row(unit) for unit in dict.fromkeys(units)]
        self._by_unit[rows] = np.minimum(self._by_unit[rows] + cost, EXHAUSTED)

    def rounds(self, cost: IntArray, units: Sequence[str] | None) -> int:
        """Return how many releases of this cost everybody concerned can pay, at most 10^15."""
        spent = self.spent(units)
        # A budget that is exceeded pays for nothing more, ever.
        left = np.maximum(BUDGET_UNITS - spent, -1)
        affordable = np.where(cost > 0, left // np.maximum(cost, 1), MAX_ROUNDS)
        affordable = np.where(left < 0, 0, affordable)
        each = np.minimum(affordable[:, :-1].max(axis=1), affordable[:, -1])
        return int(each.min(initial=MAX_ROUNDS))

    def _within_budget(self, spent: IntArray) -> BoolArray:
        within = spent <= BUDGET_UNITS
        return np.asarray(within[:, :-1].any(axis=1) & within[:, -1])

    def _row(self, unit: str) -> int:
        row = self._rows.setdefault(unit, len(self._rows))
        if row == len(self._by_unit):
            self._by_unit = np.concatenate((self._by_unit, np.zeros_like(self._by_unit)))
        return row


CURRENCIES: Final = ("zcdp", "gdp", "rdp")

_CONDITIONS: Final = (
    "every release is spent before it is made, with fresh randomness",
    "which units take part is decided by earlier results and public facts, not by their data",
    "what an observer does not see influences nothing that it sees later",
)
_ADAPTIVE_NOTE: Final = (
    "A reading, not a guarantee: where a run stops or goes on because of its results, only the "
    "whole budget is guaranteed."
)


class AdaptiveLedger:
    """A balance for every observer, in one currency; a unit is `size` records."""

    mode: Mode = "adaptive"

    def __init__(
        self,
        currency: Currency,
        relation: Neighbours,
        observers: tuple[str, ...],
        unit: str,
        size: int,
    ) -> None:
        self.observers = observers
        self.unit = unit if size == 1 else f"group of {size:,} {unit}s"
        self._currency = currency
        self._relation = relation
        self._size = size
        budgets = len(currency.budgets)
        self._balances = {observer: UnitBalances(budgets) for observer in observers}

    def admits(
        self,
        event: ev.Event,
        observers: Sequence[str] | None,
        units: Sequence[str] | None,
        silos: Sequence[int] | None = None,
    ) -> bool:
        """Return whether every balance concerned can pay."""
        cost = self._cost(event)
        return all(
            self._balances[observer].admits(cost, units) for observer in observers or self.observers
        )

    def spend(
        self,
        event: ev.Event,
        observers: Sequence[str] | None,
        units: Sequence[str] | None,
        silos: Sequence[int] | None = None,
    ) -> None:
        """Spend before every observer concerned, or raise `BudgetExceeded` before the first."""
        cost, concerned = self._cost(event), observers or self.observers
        # All observers are asked before the first is charged.
        for observer in concerned:
            if not self._balances[observer].admits(cost, units):
                raise self._refusal(event, observer, units)
        for observer in concerned:
            self._balances[observer].add(cost, units)

    def rounds(
        self, event: ev.Event, observers: Sequence[str] | None, units: Sequence[str] | None
    ) -> int:
        """Return how many releases every balance concerned can pay."""
        cost = self._cost(event)
        return min(
            self._balances[observer].rounds(cost, units) for observer in observers or self.observers
        )

    def guarantee(self, observer: str | None) -> Guarantee:
        """Return the whole budget."""
        target, currency = self._currency.target, self._currency
        slack_note = f", of which {target.slack:.6g} is for the releases' own deltas"
        return Guarantee(
            Bounds(0.0, target.epsilon),
            Bounds.exactly(target.delta),
            self._relation,
            "gdp" if currency.name == "gdp" else "rdp",
            self.unit,
            observer or self._worst(None),
            derivation=(
                Step(
                    "composition",
                    "Adaptive mode: each release may be chosen by earlier results. On every path "
                    f"the costs add up to at most {currency.described()}; what would exceed it is "
                    "refused.",
                    currency.source,
                    _CONDITIONS,
                ),
                Step(
                    "conversion",
                    f"All of it spent is epsilon {target.epsilon:.6g} at delta {target.delta:.6g}"
                    f"{slack_note if target.slack else ''}.",
                    currency.conversion,
                ),
            ),
        )

    def reading(self, observer: str | None, unit: str | None) -> BudgetReading:
        """Return epsilon so far, and the share of the budget."""
        units = None if unit is None else (unit,)
        epsilon, share = self._spent(observer or self._worst(units), units)
        return BudgetReading(epsilon, self._currency.target.delta, share, _ADAPTIVE_NOTE)

    def _cost(self, event: ev.Event) -> IntArray:
        return price(seen(event, self._size), self._currency, self._relation)

    def _worst(self, units: Sequence[str] | None) -> str:
        return max(self.observers, key=lambda observer: self._spent(observer, units)[1])

    def _spent(self, observer: str, units: Sequence[str] | None) -> tuple[float, float]:
        """Return epsilon so far and the share of the budget, of the unit that spent most."""
        # A unit has spent what its least spent budget says: the others need not survive.
        rows = self._balances[observer].spent(units)
        shares = rows[:, :-1].min(axis=1)
        most_spent = rows[int(shares.argmax())]
        amounts = [
            Fraction(int(spent), BUDGET_UNITS) * budget if spent <= BUDGET_UNITS else None
            for spent, budget in zip(most_spent[:-1], self._currency.budgets, strict=True)
        ]
        share = max(float(shares.max()), float(rows[:, -1].max())) / BUDGET_UNITS
        return self._currency.epsilon(amounts), share

    def _refusal(
        self, event: ev.Event, observer: str, units: Sequence[str] | None
    ) -> BudgetExceeded:
        share, target = self._spent(observer, units)[1], self._currency.target
        return BudgetExceeded(
            f"This `{event.type}` release would exceed the budget: epsilon {target.epsilon:g} at "
            f"delta {target.delta:g}, before {observer!r}.",
            f"{100 * share:.3g}% of it is spent, and what is left does not pay for the release.",
            "Make no further release, or a cheaper one; remaining_rounds says how many fit.",
        )


def seen(event: ev.Event, size: int) -> ev.Event:
    """Return an event about records as a unit of `size` records sees it."""
    return event if size == 1 else ev.Group(size, event)


def currency_named(
    name: str,
    target: Target,
    relation: Neighbours,
    orders: tuple[float, ...] | None,
    like: ev.Event | None,
) -> Currency:
    """Return the currency, its Renyi orders fixed; raise `InvalidInput` where they are not."""
    if name != "rdp":
        if orders is not None or like is not None:
            raise InvalidInput(
                f"`orders` and `like` fix a Renyi order; the currency is {name}.",
                next_step="Give currency='rdp', or leave them out.",
            )
        if name == "gdp" and target.slack:
            raise InvalidInput(
                "`slack` has no use in mu^2: Gaussian noise has no delta of its own.",
                next_step="Leave it out, or give currency='zcdp'.",
            )
        return Gdp(target) if name == "gdp" else Zcdp(target)
    if (orders is None) == (like is None):
        raise InvalidInput(
            "Fix the Renyi orders before the first release: give either `orders` or `like`.",
            "An order that is chosen after results are seen is no valid filter.",
            "For example orders=[16], or like=Poisson(0.01, Gaussian(1.0)).",
        )
    if like is not None:
        orders = (best_order(like, Composition.of(like), target, relation),)
    assert orders is not None
    return Rdp(target, orders)


def checked_target(epsilon: float, delta: float, slack: float) -> Target:
    """Return the promise of a budget; raise `InvalidInput` for values out of range."""
    target = Target(
        validate.positive(epsilon=epsilon),
        validate.open_probability(delta=delta),
        validate.non_negative(slack=slack),
    )
    if target.slack >= target.delta:
        raise InvalidInput(
            f"`slack` must be below `delta` ({target.delta:g}); it is {target.slack:g}.",
            "It is the part of delta that is kept for the releases' own deltas.",
            "Give a smaller slack.",
        )
    return target


def checked_orders(orders: Sequence[float]) -> tuple[float, ...]:
    """Return Renyi orders, each once; raise `InvalidInput` for any of 1 or below."""
    if not isinstance(orders, (list, tuple)) or not orders:
        raise InvalidInput(
            "`orders` must be a list of Renyi orders.", next_step="Give orders such as [16]."
        )
    checked = tuple(dict.fromkeys(validate.positive(order=order) for order in orders))
    if min(checked) < 1.0 + 1e-6:
        raise InvalidInput(
            f"Every Renyi order must be above 1; one is {min(checked):g}.",
            next_step="Give orders such as [8, 16, 32].",
        )
    return checked
