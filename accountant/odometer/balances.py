"""What the blocks of a data set have spent, in whole budget units, and the arithmetic of it.

A budget is divided into 10^15 equal budget units.  A price is a whole number of them, rounded up,
and they are added as integers: no sum depends on its order or falls below the truth.

A *vector* of budget units has an entry for each budget of the currency (one, or one for each Renyi
order), and a last one for the delta that is set aside for deltas.  All entries lie in
0 to `EXHAUSTED`, which stands for every number above the budget.  The functions here are pure, so
that a database can keep the vectors and decide inside of its own transaction.

**Room.**  A price is admitted while at least one budget *that was never exceeded* has room, and
the last entry has room too.  A sum that exceeds a budget becomes `EXHAUSTED` and stays so,
whatever is taken back: that is how "never" is kept.

**Blocks.**  A unit lies in one block, by a public assignment that does not depend on data, and a
release that touches a block is charged to the whole block.  Every unit has then spent at most what
its block has spent, so the data set's spending is that of its largest block.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ..errors import BudgetExceeded, InvalidInput, counted, kind_of

BUDGET_UNITS: Final = 10**15
"""Budget units in a whole budget."""

EXHAUSTED: Final = BUDGET_UNITS + 1
"""Stands for every number of budget units above the budget."""

Vector = tuple[int, ...]
"""Budget units, one for each budget and a last one for delta."""

EXPORT_VERSION: Final = 1
"""Version of what `Balances.export` returns."""


def vector(values: Iterable[int]) -> Vector:
    """Return budget units as a vector of Python integers, each at most `EXHAUSTED`.

    Raises `InvalidInput` for anything but two or more integers of 0 or above.

    >>> vector([3, 0])
    (3, 0)
    """
    listed = tuple(values)
    for value in listed:
        if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 0:
            raise InvalidInput(
                f"Budget units are integers of 0 or above; one is {value!r:.40}.",
                next_step="Give the vectors that `price` returned, or that were stored.",
            )
    if len(listed) < 2:
        raise InvalidInput(
            "A vector of budget units has an entry for each budget, and one for delta.",
            next_step="Give the vectors that `price` returned, or that were stored.",
        )
    return tuple(min(int(value), EXHAUSTED) for value in listed)


def room(spent: Iterable[int], price: Iterable[int]) -> bool:
    """Return whether a block that has spent so much can pay a price.

    At least one budget that was never exceeded stays within 10^15, and the delta does too.

    >>> room((BUDGET_UNITS, 0, 0), (1, 1, 0)), room((BUDGET_UNITS, EXHAUSTED, 0), (1, 0, 0))
    (True, False)
    """
    *budgets, delta = _sums(spent, price)
    return delta <= BUDGET_UNITS and min(budgets) <= BUDGET_UNITS


def add(spent: Iterable[int], price: Iterable[int]) -> Vector:
    """Return what is spent with a price on top; what exceeds a budget is `EXHAUSTED`.

    >>> add((BUDGET_UNITS, 5, 0), (1, 1, 0)) == (EXHAUSTED, 6, 0)
    True
    """
    return tuple(min(total, EXHAUSTED) for total in _sums(spent, price))


def take_back(spent: Iterable[int], price: Iterable[int]) -> Vector:
    """Return what is spent without a price that was added before, of which nothing was released.

    A budget that was exceeded stays `EXHAUSTED`.  Raises `InvalidInput` where the price was never
    part of it.

    >>> take_back((7, EXHAUSTED, 0), (3, 1, 0)) == (4, EXHAUSTED, 0)
    True
    """
    before, cost = vector(spent), vector(price)
    _require_alike(before, cost)
    left = tuple(
        total if total == EXHAUSTED else total - part
        for total, part in zip(before, cost, strict=True)
    )
    if min(left) < 0:
        raise InvalidInput(
            "More would be taken back than was spent.",
            "Only a price that was added can be taken back, and only once.",
            "Give the vector that was stored with the claim.",
        )
    return left


def largest(vectors: Iterable[Iterable[int]]) -> Vector:
    """Return the vector of the block that has spent most; raise `InvalidInput` without any.

    A block has spent what its least spent budget says, for the others need not survive.
    """
    known = [vector(each) for each in vectors]
    if not known:
        raise InvalidInput("No block is named.", next_step="Name at least one block.")
    return max(known, key=lambda each: (max(min(each[:-1]), each[-1]), min(each[:-1]), each))


def share(spent: Iterable[int]) -> float:
    """Return the share of the budget that a block has spent, rounded up; infinite above 1."""
    *budgets, delta = vector(spent)
    most = max(min(budgets), delta)
    if most > BUDGET_UNITS:
        return math.inf
    return min(math.nextafter(most / BUDGET_UNITS, 1.0), 1.0) if most else 0.0


def copies(spent: Iterable[int], price: Iterable[int]) -> int:
    """Return how many times a price is admitted, one after the other, at most 10^15.

    >>> copies((0, 0), (BUDGET_UNITS // 3, 0))
    3
    """
    before, cost = vector(spent), vector(price)
    _require_alike(before, cost)
    each = [
        0 if total > BUDGET_UNITS else BUDGET_UNITS if part == 0 else (BUDGET_UNITS - total) // part
        for total, part in zip(before, cost, strict=True)
    ]
    return min(max(each[:-1]), each[-1])


def _sums(spent: Iterable[int], price: Iterable[int]) -> list[int]:
    before, cost = vector(spent), vector(price)
    _require_alike(before, cost)
    return [total + part for total, part in zip(before, cost, strict=True)]


def _require_alike(spent: Vector, price: Vector) -> None:
    if len(spent) != len(price):
        raise InvalidInput(
            f"A price of {counted(len(price), 'entry')} cannot be paid from a balance of "
            f"{len(spent):,}.",
            "They are of different currencies.",
            "Price the event in the currency of the data set.",
        )


class Balances:
    """The budget units that each block of a data set has spent.

    `budgets` is how many budgets the currency has, `blocks` the names of the blocks there are now;
    `open` adds more, which have spent nothing.  `add` refuses with `BudgetExceeded` what `admits`
    does not admit, and then changes nothing: the cap holds for each block.

    Raises `InvalidInput` for blocks that do not exist.

    >>> balances = Balances(1, ["2025", "2026"])
    >>> balances.add((600_000_000_000_000, 0), ["2025"])
    >>> balances.admits((500_000_000_000_000, 0), ["2026"]), balances.admits((5 * 10**14, 0), None)
    (True, False)
    """

    def __init__(self, budgets: int, blocks: Iterable[str] = ("all",)) -> None:
        if isinstance(budgets, bool) or not isinstance(budgets, int) or budgets < 1:
            raise InvalidInput(
                f"`budgets` must be a positive integer; it is {budgets!r:.40}.",
                next_step="Give the number of budgets of the currency.",
            )
        self.budgets = budgets
        self._spent: dict[str, Vector] = {}
        self.open(blocks)

    @property
    def blocks(self) -> tuple[str, ...]:
        """The blocks there are now, the oldest first."""
        return tuple(self._spent)

    def open(self, blocks: Iterable[str]) -> None:
        """Add blocks of new units, which have spent nothing; a name may be used once."""
        names = _names(blocks)
        for name, times in Counter(names).items():
            if name in self._spent or times > 1:
                raise InvalidInput(
                    f"There is a block {name!r:.60} already.",
                    "A block that is opened again would have a new budget for the same units.",
                    "Give the new units a block of another name.",
                )
        self._spent |= dict.fromkeys(names, (0,) * (self.budgets + 1))

    def admits(self, price: Iterable[int], blocks: Iterable[str] | None = None) -> bool:
        """Return whether every one of these blocks can pay; None: all that there are now."""
        cost = vector(price)
        return all(room(self._spent[name], cost) for name in self._named(blocks))

    def add(self, price: Iterable[int], blocks: Iterable[str] | None = None) -> None:
        """Spend from every one of these blocks, or raise `BudgetExceeded` and spend nothing."""
        cost, names = vector(price), self._named(blocks)
        for name in names:
            if not room(self._spent[name], cost):
                raise BudgetExceeded(
                    f"This release would exceed the budget of block {name!r:.60}.",
                    f"{100 * min(share(self._spent[name]), 1.0):.3g}% of it is spent, and what is "
                    "left does not pay for the release.",
                    "Make no further release there, or a cheaper one.",
                )
        self._spent |= {name: add(self._spent[name], cost) for name in names}

    def take_back(self, price: Iterable[int], blocks: Iterable[str] | None = None) -> None:
        """Give back a price that was added to these blocks and of which nothing was released."""
        cost, names = vector(price), self._named(blocks)
        self._spent |= {name: take_back(self._spent[name], cost) for name in names}

    def spent(self, blocks: Iterable[str] | None = None) -> Vector:
        """Return what the largest of these blocks has spent; None: of the whole data set."""
        return largest(self._spent[name] for name in self._named(blocks))

    def each(self) -> Mapping[str, Vector]:
        """Return what every block has spent."""
        return dict(self._spent)

    def left(self, blocks: Iterable[str] | None = None) -> Vector:
        """Return what the largest of these blocks has left; an exceeded budget has nothing."""
        return tuple(max(BUDGET_UNITS - units, 0) for units in self.spent(blocks))

    def copies(self, price: Iterable[int], blocks: Iterable[str] | None = None) -> int:
        """Return how many times all of these blocks can pay a price, at most 10^15."""
        cost = vector(price)
        return min(copies(self._spent[name], cost) for name in self._named(blocks))

    def export(self) -> dict[str, object]:
        """Return everything as JSON holds it: exact integers, the blocks in their order."""
        return {
            "version": EXPORT_VERSION,
            "budgets": self.budgets,
            "blocks": [{"block": name, "spent": list(row)} for name, row in self._spent.items()],
        }

    @classmethod
    def restore(cls, exported: object) -> Balances:
        """Return balances from what `export` returned; raise `InvalidInput` for anything else."""
        keys = ("version", "budgets", "blocks")
        known = isinstance(exported, Mapping) and set(exported) == set(keys)
        rows = exported["blocks"] if known and isinstance(exported, Mapping) else None
        if (
            not isinstance(exported, Mapping)
            or not isinstance(rows, (list, tuple))
            or exported["version"] != EXPORT_VERSION
            or not all(isinstance(row, Mapping) and set(row) == {"block", "spent"} for row in rows)
        ):
            raise InvalidInput(
                "These are no exported balances.",
                "They have a version, a number of budgets, and what each block has spent.",
                "Give what `Balances.export` returned, unchanged.",
            )
        budgets = exported["budgets"]
        named = [(row["block"], row["spent"]) for row in rows]
        balances = cls(budgets, [name for name, _ in named])
        for name, row in named:
            if not isinstance(row, (list, tuple)) or len(row) != budgets + 1:
                raise InvalidInput(
                    f"Block {name!r:.60} must have spent {budgets + 1} numbers of budget units.",
                    next_step="Give what `Balances.export` returned, unchanged.",
                )
            balances._spent[name] = vector(row)
        return balances

    def _named(self, blocks: Iterable[str] | None) -> Sequence[str]:
        if blocks is None:
            return tuple(self._spent)
        names = _names(blocks)
        for name in names:
            if name not in self._spent:
                raise InvalidInput(
                    f"There is no block {name!r:.60}.",
                    next_step=f"There are: {', '.join(self._spent)[:200]}.",
                )
        # A block that is named twice holds each of its units once.
        return tuple(dict.fromkeys(names))


def _names(blocks: Iterable[str]) -> list[str]:
    if isinstance(blocks, str) or not isinstance(blocks, Iterable):
        raise InvalidInput(
            f"`blocks` must be a list of names; it is {kind_of(blocks)}.",
            next_step="Give a list such as ['2026'].",
        )
    names = list(blocks)
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise InvalidInput(
            "`blocks` must be a list of one or more names.",
            next_step="Give a list such as ['2026'].",
        )
    return names
