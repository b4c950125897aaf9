"""The terms of a data set: whom it protects, from whom, in which currency, up to which epsilon.

They are fixed before the first claim.  A currency that is chosen later, when results are known,
would be a choice among filters that depends on what they should bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Self

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import require_fields
from ...accountant.neighbours import Neighbours
from ...accountant.odometer import BudgetCurrency, budget_currency
from .balances import BUDGET_UNITS, UNPAYABLE, Vector
from .names import name_of

DEFAULT_ORDERS: Final = (3.0, 5.0, 9.0, 17.0, 33.0, 65.0)
"""Renyi orders of a data set that names none: they suit epsilon .5 to 20 at usual deltas."""

MAX_FIXED_ORDERS: Final = 16

MAX_RAISED: Final = 1000.0
"""How many times `cap_at_most` a cap may become, without certification."""

_REQUIRED: Final = ("name", "unit", "neighbours", "epsilon", "delta")
_OPTIONAL: Final = (
    *("observer", "cap_at_most", "currency", "orders", "slack", "plans", "blocks_per_unit"),
    "blocks",
)


@dataclass(frozen=True)
class Terms:
    """What is promised of a data set: epsilon at most `cap_at_most`, at `delta`.

    `observer` is before whom; unit, neighbours and the rest are those of the `currency`, whose
    whole budget is epsilon `cap_at_most`.
    """

    name: str
    observer: str
    currency: BudgetCurrency

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> Self:
        """Return the terms that a request asks for; what it leaves out has its default.

        Raises `InvalidInput` and `Unsupported` for values that make no sense, or not together.
        """
        require_fields(
            source,
            (*_REQUIRED, *_OPTIONAL),
            "data set",
            optional=_OPTIONAL,
            otherwise="The page on the ledger lists the fields: privplan explain ledger",
            if_missing="The page on the ledger has an example: privplan explain ledger",
        )
        kind, orders = source.get("currency") or "rdp", source.get("orders")
        if orders is None and kind == "rdp":
            orders = DEFAULT_ORDERS
        if orders is not None and (
            not isinstance(orders, (list, tuple)) or len(orders) > MAX_FIXED_ORDERS
        ):
            raise InvalidInput(
                f"`orders` must be a list of at most {MAX_FIXED_ORDERS} Renyi orders."
            )
        epsilon = validate.positive(epsilon=source["epsilon"])
        given = source.get("cap_at_most")
        at_most = epsilon if given is None else validate.positive(cap_at_most=given)
        if at_most < epsilon:
            raise InvalidInput(
                "`cap_at_most` is below `epsilon`.",
                "It is the largest cap at which epsilon is certified.",
                "Leave it out, or give the largest epsilon that may ever be spent.",
            )
        currency = budget_currency(
            kind,
            at_most,
            source["delta"],
            source["neighbours"],
            source["unit"],
            orders,
            source.get("slack"),
            plans=source.get("plans"),
            blocks_per_unit=source.get("blocks_per_unit", 1),
        )
        name = name_of(name=source["name"])
        terms = cls(name, name_of(observer=source.get("observer", "model")), currency)
        terms.cap_of(epsilon)
        return terms

    @classmethod
    def from_json(cls, source: Mapping[str, Any]) -> Self:
        """Return the terms of an entry; `InvalidInput` for what no service writes."""
        known = ("name", "observer", "currency")
        require_fields(source, known, "terms", otherwise="Take a copy that nobody has touched.")
        name, observer = name_of(name=source["name"]), name_of(observer=source["observer"])
        return cls(name, observer, BudgetCurrency.from_json(source["currency"]))

    def to_json(self) -> dict[str, object]:
        """Return the terms as they stand in an entry."""
        return {
            "name": self.name,
            "observer": self.observer,
            "currency": self.currency.to_json(),
        }

    @property
    def neighbours(self) -> Neighbours:
        """The relation of what is promised."""
        return self.currency.neighbours

    @property
    def delta(self) -> float:
        """The delta of what is promised."""
        return self.currency.target.delta

    @property
    def cap_at_most(self) -> float:
        """The largest epsilon at which a cap is certified."""
        return self.currency.target.epsilon

    @property
    def size(self) -> int:
        """How many numbers a vector of budget units has."""
        return len(self.currency.budgets) + 1

    def cap_of(self, epsilon: float) -> Vector:
        """Return the cap of each block, in budget units, so that a unit loses epsilon at most.

        Rounded down.  Above `cap_at_most` it is what the conversion says of that epsilon, and no
        certificate: raising it may depend on results.
        Raises `InvalidInput` where epsilon leaves nothing to spend.
        """
        if epsilon > self.cap_at_most * MAX_RAISED:
            raise InvalidInput(f"`epsilon` must be at most {MAX_RAISED:g} times `cap_at_most`.")
        whole = self.currency
        asked = whole if epsilon == self.cap_at_most else self._currency_at(epsilon)
        units = []
        for budget, full in zip(asked.budgets, whole.budgets, strict=True):
            share = Fraction(budget) / Fraction(full) if full > 0 else Fraction(0)
            # A cap that is certified never exceeds the whole budget, by any rounding.
            certified = epsilon <= self.cap_at_most
            units.append(int((min(share, Fraction(1)) if certified else share) * BUDGET_UNITS))
        if not any(units):
            raise InvalidInput(f"Epsilon {epsilon:g} leaves nothing to spend.")
        return (*units, BUDGET_UNITS if whole.target.slack else 0)

    def _currency_at(self, epsilon: float) -> BudgetCurrency:
        whole = self.currency
        pool = whole.kind == "planned-pool"
        return budget_currency(
            whole.kind,
            epsilon,
            whole.target.delta,
            whole.neighbours,
            whole.unit,
            whole.orders or None,
            None if pool else whole.target.slack,
            plans=whole.plans,
            blocks_per_unit=whole.blocks_per_unit,
        )


def left_of(cap: float, epsilon: float | str) -> float:
    """Return what is left of a cap, for a person: the difference, at least 0."""
    return 0.0 if isinstance(epsilon, str) else max(0.0, cap - epsilon)


@lru_cache(maxsize=4096)
def epsilon_of(terms: Terms, spent: Vector) -> float | str:
    """Return the epsilon of what was spent, at the data set's delta; "inf" where none is known."""
    budgets = terms.currency.budgets
    payable = [each < UNPAYABLE for each in spent[:-1]]
    amounts = [
        Fraction(each, BUDGET_UNITS) * budget if known else None
        for each, budget, known in zip(spent[:-1], budgets, payable, strict=True)
    ]
    epsilon = terms.currency.epsilon(amounts)
    return epsilon if epsilon < float("inf") else "inf"
