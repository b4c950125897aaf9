"""The odometer: it composes what is released, knows the budget, and refuses before the release."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import NoReturn, Protocol

from .. import events as ev
from .. import validate
from ..errors import InvalidInput, PrivplanError, kind_of
from ..event_tree import check_depth
from ..guarantee import Guarantee
from ..neighbours import as_neighbours
from .adaptive_ledger import (
    CURRENCIES,
    AdaptiveLedger,
    checked_orders,
    checked_target,
    currency_named,
    seen,
)
from .budget_currencies import BudgetReading, CurrencyName, Mode
from .plan_ledger import PlanLedger, ReleasePlan


class _Ledger(Protocol):
    """The bookkeeping of a budget: one class for each mode."""

    @property
    def mode(self) -> Mode: ...

    @property
    def observers(self) -> tuple[str, ...]: ...

    def admits(
        self,
        event: ev.Event,
        observers: Sequence[str] | None,
        units: Sequence[str] | None,
        silos: Sequence[int] | None,
    ) -> bool: ...

    def spend(
        self,
        event: ev.Event,
        observers: Sequence[str] | None,
        units: Sequence[str] | None,
        silos: Sequence[int] | None,
    ) -> None: ...

    def rounds(
        self, event: ev.Event, observers: Sequence[str] | None, units: Sequence[str] | None
    ) -> int: ...

    def guarantee(self, observer: str | None) -> Guarantee: ...

    def reading(self, observer: str | None, unit: str | None) -> BudgetReading: ...


class Odometer:
    """A budget of (epsilon, delta) that refuses a release which would exceed it.

    `mode` says which mathematics is at work:

    - `adaptive`: the next release, its noise and whether there is one may depend on all earlier
      results.  The budget is kept in a `currency` whose sum over every path is bounded: `zcdp`
      (rho), `gdp` (mu^2, Gaussian noise only), or `rdp` (Renyi divergence at `orders` fixed now,
      with delta / k for each of k orders; `like` fixes the one that suits such a release).
    - `planned` (`Odometer.for_plan`): tight, by PLD, for a plan fixed before the first release.

    In both, what is guaranteed is the whole budget, wherever the run stops; `reading` says how
    much of it is gone.  `unit` names what one neighbour is; with `size` k each unit has k records
    and events are about records.  Every observer has a balance of its own, and so has every unit
    that is named in `spend`.  `slack` is the part of delta kept for releases with a delta of their
    own.

    Range: `epsilon` above 0, `delta` in (0, 1), 0 <= `slack` < `delta`, `size` 1 or above,
    `orders` above 1.  Raises `InvalidInput` for values out of range, `Unsupported` where a release
    has no cost in the currency, `BudgetExceeded` when refusing.
    Source: the proofs, and the papers they go back to, stand in `odometer/budget_currencies.py`.

    >>> odometer = Odometer(1.0, 1e-5, currency="gdp")
    >>> odometer.spend(ev.Gaussian(10.0))
    >>> odometer.remaining_rounds(ev.Gaussian(10.0))
    6
    >>> odometer.would_exceed(ev.Gaussian(3.0))
    True
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        neighbours: str = "add-remove",
        *,
        unit: str = "record",
        size: int = 1,
        observers: Sequence[str] = ("model",),
        currency: CurrencyName = "zcdp",
        orders: Sequence[float] | None = None,
        like: ev.Event | None = None,
        slack: float = 0.0,
    ) -> None:
        relation, target = as_neighbours(neighbours), checked_target(epsilon, delta, slack)
        records = validate.count(size=size)
        (kind,) = _names(unit=[unit])
        validate.choice(CURRENCIES, currency=currency)
        fixed = None if orders is None else checked_orders(orders)
        # The order is fixed by an example event, before any result is seen.
        example = None if like is None else seen(_event(like), records)
        chosen = currency_named(currency, target, relation, fixed, example)
        seen_by = _names(observers=observers)
        self._ledger: _Ledger = AdaptiveLedger(chosen, relation, seen_by, kind, records)
        self._lock = threading.RLock()
        self._process = os.getpid()

    @classmethod
    def for_plan(cls, plan: ReleasePlan) -> Odometer:
        """Return the odometer of a plan: it admits the planned releases, in their order."""
        odometer = cls.__new__(cls)
        odometer._ledger = PlanLedger(plan)
        odometer._lock = threading.RLock()
        odometer._process = os.getpid()
        return odometer

    def __copy__(self) -> Odometer:
        # A copy would be a second budget for the same data.
        return self

    def __deepcopy__(self, memo: object) -> Odometer:
        return self

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise TypeError(
            "An odometer is not pickled: whoever reads it back would have a second budget for the "
            "same data. Release where the odometer is, and hand on what was released."
        )

    @property
    def mode(self) -> Mode:
        """Which mathematics is at work: `adaptive` or `planned`."""
        return self._ledger.mode

    @property
    def observers(self) -> tuple[str, ...]:
        """Those before whom a balance is kept."""
        return self._ledger.observers

    def would_exceed(
        self,
        event: ev.Event,
        *,
        observers: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
        silos: Sequence[int] | None = None,
    ) -> bool:
        """Return whether `spend` would refuse; it changes nothing.

        `observers` are those who see the release or anything that depends on it (all of them if
        None), `units` those whose data it may touch (all if None).  `silos` are those that take
        part (all if None): a plan counts them, and an adaptive budget pays for each release.
        """
        query = self._query(event, observers, units)
        with self._lock:
            return not self._ledger.admits(*query, silos)

    def spend(
        self,
        event: ev.Event,
        *,
        observers: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
        silos: Sequence[int] | None = None,
    ) -> None:
        """Spend a release that is about to be made, or raise `BudgetExceeded` and spend nothing.

        Arguments as for `would_exceed`.  Call it before noise is drawn; what was spent stays
        spent, even if the release is never made.  Raises `PrivplanError` in a process that was
        forked from the one that made the odometer.
        """
        if self._process != os.getpid():
            raise PrivplanError(
                "An odometer cannot be spent from in a forked process.",
                "The parent keeps the same budget, and would not learn of what is spent here.",
                "Release in the process that made it, or give each process a part of the budget.",
            )
        query = self._query(event, observers, units)
        with self._lock:
            self._ledger.spend(*query, silos)

    def remaining_rounds(
        self,
        event: ev.Event,
        *,
        observers: Sequence[str] | None = None,
        units: Sequence[str] | None = None,
    ) -> int:
        """Return how many more releases like this one would be admitted, at most 10^15.

        Of a plan: how many of its next rounds are this release.  Arguments as for `would_exceed`.
        """
        query = self._query(event, observers, units)
        with self._lock:
            return self._ledger.rounds(*query)

    def spent(self, observer: str | None = None) -> Guarantee:
        """Return what is guaranteed wherever the run stops: the whole budget, or the whole plan.

        Without an `observer`, it is for the one before whom most is spent or planned.
        """
        with self._lock:
            return self._ledger.guarantee(self._observer(observer))

    def reading(self, observer: str | None = None, unit: str | None = None) -> BudgetReading:
        """Return how much is spent before an observer: by a unit, or by whichever spent most."""
        with self._lock:
            return self._ledger.reading(self._observer(observer), unit)

    def _query(
        self, event: ev.Event, observers: Sequence[str] | None, units: Sequence[str] | None
    ) -> tuple[ev.Event, tuple[str, ...] | None, tuple[str, ...] | None]:
        seen_by = None if observers is None else _names(observers=observers)
        for name in seen_by or ():
            self._observer(name)
        return _event(event), seen_by, None if units is None else _names(units=units)

    def _observer(self, observer: str | None) -> str | None:
        return None if observer is None else validate.choice(self.observers, observer=observer)


def _event(event: object) -> ev.Event:
    if not isinstance(event, ev.Event) or not event.type:
        raise InvalidInput(f"`event` must be an event; it is {kind_of(event)}.")
    check_depth(event)
    return event


def _names(**field: Sequence[str]) -> tuple[str, ...]:
    ((name, values),) = field.items()
    listed = isinstance(values, (list, tuple)) and len(values) > 0
    if not listed or not all(isinstance(name, str) and name.strip() for name in values):
        raise InvalidInput(
            f"`{name}` must be a list of one or more names; it is {values!r:.60}.",
            next_step=f"Give `{name}` names such as ['model'].",
        )
    return tuple(dict.fromkeys(values))
