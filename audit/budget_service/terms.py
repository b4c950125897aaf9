"""The terms of a data set: whom it protects, from whom, in which currency, up to which epsilon.

They are fixed before the first claim.  A currency that is chosen later, when results are known,
would be a choice among filters that depends on what they should bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final, Self, cast

from ...accountant import validate
from ...accountant.decoding import decimal_number, require_fields
from ...accountant.errors import InvalidInput, kind_of
from ...accountant.neighbours import Neighbours, as_neighbours
from ...accountant.odometer.adaptive_ledger import CURRENCIES, currency_named
from ...accountant.odometer.budget_currencies import Currency, CurrencyName, Target
from .balances import BUDGET_UNITS, Vector
from .names import name_of

DEFAULT_ORDERS: Final = (3.0, 5.0, 9.0, 17.0, 33.0, 65.0)
"""Renyi orders of a data set that names none: they suit epsilon .5 to 20 at usual deltas."""

MAX_ORDERS: Final = 16
MAX_RAISED: Final = 1000.0
"""How many times `cap_at_most` a cap may become, without certification."""


@dataclass(frozen=True)
class Terms:
    """What is promised of a data set: epsilon at most `cap_at_most`, at `delta`.

    `unit` names what one neighbour is, `neighbours` the relation, `observer` before whom.  Each
    unit lies in at most `blocks_per_unit` blocks.  `slack` is the part of delta that pays for the
    releases' own deltas.  Raises `InvalidInput` for values out of range.
    """

    name: str
    unit: str
    neighbours: Neighbours
    observer: str
    delta: float
    cap_at_most: float
    currency_name: CurrencyName
    orders: tuple[float, ...]
    slack: float
    blocks_per_unit: int

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> Self:
        """Return the terms that a request asks for; what it leaves out has its default."""
        known = ("name", "unit", "neighbours", "observer", "epsilon", "delta", "cap_at_most")
        more = ("currency", "orders", "slack", "blocks_per_unit", "blocks")
        optional = ("observer", "cap_at_most", *more)
        require_fields(
            source,
            (*known, *more),
            "data set",
            optional=optional,
            otherwise="The page on the ledger lists the fields: privplan explain ledger",
        )
        currency = validate.choice(CURRENCIES, currency=source.get("currency", "rdp"))
        orders = source.get("orders")
        if orders is None:
            orders = DEFAULT_ORDERS if currency == "rdp" else ()
        cap_at_most = source.get("cap_at_most")
        terms = cls(
            name_of(name=source["name"]),
            name_of(unit=source["unit"]),
            as_neighbours(source["neighbours"]),
            name_of(observer=source.get("observer", "model")),
            validate.open_probability(delta=source["delta"]),
            validate.positive(
                cap_at_most=source["epsilon"] if cap_at_most is None else cap_at_most
            ),
            cast(CurrencyName, currency),
            _orders(orders, currency),
            validate.non_negative(slack=source.get("slack", 0.0)),
            validate.count(blocks_per_unit=source.get("blocks_per_unit", 1)),
        )
        terms.require_consistent()
        return terms

    @classmethod
    def from_json(cls, source: Mapping[str, Any]) -> Self:
        """Return the terms of an entry; `InvalidInput` for what no service writes."""
        names = tuple(field.name for field in fields(cls))
        require_fields(source, names, "terms", otherwise="Take a copy that nobody has touched.")
        orders = source["orders"]
        if not isinstance(orders, list):
            raise InvalidInput("`orders` of the terms is no list.")
        terms = cls(
            name_of(name=source["name"]),
            name_of(unit=source["unit"]),
            as_neighbours(source["neighbours"]),
            name_of(observer=source["observer"]),
            validate.open_probability(delta=_number(source["delta"], "delta")),
            validate.positive(cap_at_most=_number(source["cap_at_most"], "cap_at_most")),
            cast(CurrencyName, validate.choice(CURRENCIES, currency=source["currency_name"])),
            tuple(_number(order, "orders") for order in orders),
            validate.non_negative(slack=_number(source["slack"], "slack")),
            validate.count(blocks_per_unit=source["blocks_per_unit"]),
        )
        terms.require_consistent()
        return terms

    def to_json(self) -> dict[str, object]:
        """Return the terms as they stand in an entry; numbers are decimal strings."""
        return {
            "name": self.name,
            "unit": self.unit,
            "neighbours": self.neighbours,
            "observer": self.observer,
            "delta": repr(self.delta),
            "cap_at_most": repr(self.cap_at_most),
            "currency_name": self.currency_name,
            "orders": [repr(order) for order in self.orders],
            "slack": repr(self.slack),
            "blocks_per_unit": self.blocks_per_unit,
        }

    def require_consistent(self) -> None:
        """Raise `InvalidInput` where the terms contradict each other."""
        if self.slack >= self.delta:
            raise InvalidInput(
                "`slack` must be below `delta`.",
                "It is the part of delta that is kept for the releases' own deltas.",
                "Give a smaller slack.",
            )
        if self.blocks_per_unit > 1 and len(self.currency.budgets) > 1:
            raise InvalidInput(
                f"Units in {self.blocks_per_unit} blocks need a currency with one budget.",
                "The order that survives in one block need not be that of another.",
                "Give one order, or currency zcdp.",
            )
        self.cap_of(self.cap_at_most)

    @cached_property
    def currency(self) -> Currency:
        """The currency, whose whole budget is epsilon `cap_at_most`."""
        return self._currency_at(self.cap_at_most)

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
        if not epsilon <= self.cap_at_most * MAX_RAISED:
            raise InvalidInput(f"`epsilon` must be at most {MAX_RAISED:g} times `cap_at_most`.")
        whole, asked = self.currency.budgets, self._currency_at(epsilon).budgets
        parts = []
        for budget, full in zip(asked, whole, strict=True):
            units = int(budget * BUDGET_UNITS / full) if full > 0 else 0
            certified = epsilon <= self.cap_at_most
            parts.append(min(units, BUDGET_UNITS) if certified else units)
        slack = BUDGET_UNITS if self.slack else 0
        return tuple(units // self.blocks_per_unit for units in (*parts, slack))

    def _currency_at(self, epsilon: float) -> Currency:
        orders = self.orders if self.currency_name == "rdp" else None
        target = Target(epsilon, self.delta, self.slack)
        return currency_named(self.currency_name, target, self.neighbours, orders, None)


def _orders(source: object, currency: str) -> tuple[float, ...]:
    if not isinstance(source, Sequence) or isinstance(source, str) or len(source) > MAX_ORDERS:
        raise InvalidInput(
            f"`orders` must be a list of at most {MAX_ORDERS} Renyi orders; it is "
            f"{kind_of(source)}.",
            next_step="Give orders such as [8, 16, 32].",
        )
    orders = tuple(dict.fromkeys(validate.positive(order=order) for order in source))
    if bool(orders) != (currency == "rdp"):
        raise InvalidInput(
            "`orders` fix Renyi orders, which currency rdp alone has.",
            next_step="Leave them out, or give currency rdp.",
        )
    if orders and min(orders) < 1.0 + 1e-6:
        raise InvalidInput("Every Renyi order must be above 1.")
    return orders


def _number(source: object, name: str) -> float:
    number = decimal_number(source)
    if number is None:
        raise InvalidInput(f"`{name}` of the terms is no decimal string.")
    return number
