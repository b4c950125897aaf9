"""What would fit where an event does not: fewer times, at a lower rate, or with more noise.

Every value that is returned was priced as it stands, and its price is admitted; it is about the
best that the limit of work allows, and nothing else is claimed of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from .. import events as ev
from ..composition import MAX_ROUNDS
from ..errors import PrivplanError
from ..event_tree import events_inside, rewritten
from ..neighbours import Neighbours
from ..rootfinding import Number, enclose, narrow
from .balances import BUDGET_UNITS, Vector, copies, vector
from .budget_currencies import Currency
from .pricing import BudgetUnits, price, whole_price

MOST_PRICES: Final = 12
"""Most prices for each value, besides those that bracket it, where nobody says."""

PRECISION: Final = 1e-3
"""Relative distance to a value that was refused at which the search stops."""

BRACKET_STEP: Final = 0.1
"""First step from where a value is guessed to lie, as a log."""

MOST_DISTANT: Final = 30.0
"""How far from the value that was asked about another one is looked for, as a log."""


@dataclass(frozen=True)
class Fit:
    """What is admitted: an event that differs from the one that was asked about in one value.

    `count` is how often what is repeated may be (0 where not even once), `rate` the highest
    sampling rate, `noise_multiplier` the least noise, each with all else unchanged; None where an
    event has no such value, or several, or where none was found.
    """

    count: int
    rate: float | None
    noise_multiplier: float | None

    def to_json(self) -> dict[str, object]:
        """Return it as JSON holds it, without what is None."""
        given = {
            "count": self.count,
            "rate": self.rate,
            "noise_multiplier": self.noise_multiplier,
        }
        return {name: value for name, value in given.items() if value is not None}


def fitting(
    event: ev.Event,
    currency: Currency,
    relation: Neighbours,
    spent: Iterable[int],
    *,
    most_prices: int = MOST_PRICES,
) -> Fit:
    """Return what a block that has spent so much would admit of an event.

    `most_prices` limits the work: so many prices for each value, and some ten to bracket it.
    Raises as `price` does for the event itself.
    """
    before = vector(spent)
    price(event, currency, relation)  # raises where it has none at all

    def margin(candidate: ev.Event) -> float:
        try:
            return _margin(before, whole_price(candidate, currency, relation))
        except PrivplanError:
            return -math.inf

    search = _Search(margin, max(-MOST_DISTANT, min(margin(event), MOST_DISTANT)), most_prices)
    count = _count(event, currency, relation, before, search)
    return Fit(count, search.rate(event), search.noise(event))


def _margin(spent: Vector, cost: tuple[BudgetUnits, ...]) -> float:
    """Return the log of how many times what is left is the price: 0 or above where it is admitted.

    The sign is decided in integers.
    """
    each = []
    for total, part in zip(spent, cost, strict=True):
        left = BUDGET_UNITS - total
        if left < 0 or (part > left == 0) or math.isinf(part):
            each.append(-math.inf)
        elif part == 0:
            each.append(math.inf)
        else:
            size = abs(math.log(left) - math.log(part))
            each.append(size if part <= left else -max(size, 1e-300))
    return min(max(each[:-1]), each[-1])


@dataclass(frozen=True)
class _Search:
    """The search for one value of an event at which the margin of its price ends.

    It starts where the price would be right if it grew with the count, and with the square of a
    rate or of the inverse noise.
    """

    margin: Callable[[ev.Event], float]
    asked_margin: float
    most_prices: int

    def rate(self, event: ev.Event) -> float | None:
        """Return the highest sampling rate, of all Poisson samples of an event alike."""
        rates = {each.rate for each in events_inside(event) if isinstance(each, ev.Poisson)}
        if len(rates) != 1 or 0.0 in rates:
            return None

        def at(rate: float) -> ev.Event:
            return rewritten(
                event,
                lambda each: replace(each, rate=rate) if isinstance(each, ev.Poisson) else each,
            )

        start = min(math.log(*rates) + 0.5 * self.asked_margin, 0.0)
        return self._largest(lambda log: min(math.exp(log), 1.0), at, start, 0.0)

    def noise(self, event: ev.Event) -> float | None:
        """Return the least noise multiplier, of all noise of an event alike."""

        def noise_of(each: ev.Event) -> float | None:
            return getattr(each, "noise_multiplier", None)

        noises = {noise for each in events_inside(event) if (noise := noise_of(each)) is not None}
        if len(noises) != 1:
            return None

        def at(noise: float) -> ev.Event:
            def changed(each: ev.Event) -> ev.Event:
                given: dict[str, Any] = {"noise_multiplier": noise}
                return each if noise_of(each) is None else replace(each, **given)

            return rewritten(event, changed)

        # The price falls with the noise: it is searched by minus its log.
        start = -math.log(*noises) + 0.5 * self.asked_margin
        return self._largest(lambda log: math.exp(-log), at, start, math.inf)

    def count(self, repeated: ev.Event, asked: int) -> int:
        """Return how often an event may be repeated, as one plan."""

        def at(count: int) -> ev.Event:
            return ev.Repeat(count, repeated)

        def count_at(log: float) -> int:
            return max(round(math.exp(log)), 1)

        most = math.log(MAX_ROUNDS)
        start = min(max(math.log(asked) + self.asked_margin, 0.0), most)
        return self._largest(count_at, at, start, most) or 0

    def _largest(
        self,
        value: Callable[[float], Number],
        at: Callable[[Number], ev.Event],
        start: float,
        most: float,
    ) -> Number | None:
        """Return the value at about the largest log with a margin; None where none was found."""
        tried: dict[Number, tuple[float, float]] = {}

        def falling(log: float) -> float:
            candidate = value(log)
            if candidate not in tried:
                margin = self.margin(at(candidate))
                # A margin of exactly 0 is admitted, too.
                tried[candidate] = (1e-300 if margin == 0.0 else margin, log)
            return tried[candidate][0]

        least, farthest = start - MOST_DISTANT, min(most, start + MOST_DISTANT)
        bracket = enclose(falling, start, BRACKET_STEP, least, farthest)
        if bracket is not None:
            narrow(falling, bracket, absolute=PRECISION, steps=self.most_prices)
        admitted = {each: log for each, (margin, log) in tried.items() if margin > 0.0}
        return max(admitted, key=admitted.__getitem__, default=None)


def _count(
    event: ev.Event, currency: Currency, relation: Neighbours, spent: Vector, search: _Search
) -> int:
    """Return how often what an event repeats may be repeated."""
    repeated, asked = (event.event, event.count) if isinstance(event, ev.Repeat) else (event, 1)
    if currency.whole_plans:
        return search.count(repeated, asked)
    # Prices of repetitions are multiples of one price.
    return min(copies(spent, vector(price(repeated, currency, relation))), MAX_ROUNDS)
