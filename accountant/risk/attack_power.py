"""The power of the best test between two neighbouring data sets, from both sides.

Upper ends come from deltas that are certified for every pair of neighbouring data sets.  With
h(lambda) = sup of TPR - lambda FPR, one order of the data sets knows h at lambda >= 1 from the
deltas of that order, and at lambda < 1 from those of the other, by
h(lambda) = 1 - lambda + lambda h'(1 / lambda).  Lower ends come from the hockey sticks of two fixed
data sets, by the same duality.  Either data set may be the innocent one, so the larger power of
both orders counts.
Source: Dong, Roth and Su 2022, arXiv 1905.02383v3, Proposition 2.12; Zhu, Dong and Wang 2022,
arXiv 2106.08567, for the two orders.

`roc` is that power at every false positive rate.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri

from .. import events as ev
from .. import validate
from ..account import account
from ..arrays import FloatArray
from ..engines.base import guarded
from ..engines.pld.compose.curve import attained_curves
from ..errors import InvalidInput, Unsupported, kind_of
from ..guarantee import Bounds, Neighbours, agreed, as_neighbours
from .shapes import AttainedMiss, Lines, MissCeiling, SingleTests
from .trade_off import (
    FALLBACK_EPSILONS,
    account_deltas,
    common_nodes,
    composition_of,
    gaussian_mu,
    nearer_floor,
    pld_curves,
    upper_curves,
)

NORMAL_ROUNDING: Final = 1e-11
"""Bound on the relative rounding of Phi and its inverse together."""

NEXT_TO_NOTHING: Final = 1e-12
"""An advantage below is looked at again, whether it is 0."""

BISECTIONS: Final = 40
"""Steps to where miss rate and FPR meet; ends hold after any number."""


@dataclass(frozen=True, eq=False)
class AttackPower:
    """Bounds on what the best test misses: `floors`, one for each order, and `ceilings`.

    Where the event is Gaussian noise without sampling, `mu` says all.  `largest_loss` bounds the
    privacy loss, infinite where nothing does.  Where floors are known at few epsilons, `nearer`
    returns the floor at an FPR by the best epsilon next to one.
    """

    floors: tuple[Lines, ...]
    ceilings: tuple[AttainedMiss, ...]
    largest_loss: float = math.inf
    mu: Bounds | None = None
    nearer: Callable[[float, float], float] | None = None

    def miss(self, fpr: float) -> Bounds:
        """Return bounds on the smallest miss rate at a false positive rate in [0, 1]."""
        if self.mu == 0.0:
            return Bounds(math.nextafter(1.0 - fpr, 0.0), math.nextafter(1.0 - fpr, 2.0))
        if self.mu is not None:
            cut = -float(ndtri(fpr))
            low = float(ndtr(cut - self.mu.upper)) * (1.0 - NORMAL_ROUNDING)
            high = float(ndtr(cut - self.mu.lower)) * (1.0 + NORMAL_ROUNDING)
            # Where Phi underflows something is missed all the same.
            return Bounds(low, min(max(high, sys.float_info.min), 1.0))
        return agreed(self._floor(fpr), self._ceiling(fpr))

    def _floor(self, fpr: float) -> float:
        return min(floor.at(fpr) for floor in self.floors)

    def _ceiling(self, fpr: float) -> float:
        # Accusing at random misses 1 - FPR.
        guessing = math.nextafter(1.0 - fpr, 2.0)
        return min((guessing, *(ceiling.at(fpr) for ceiling in self.ceilings), 1.0))

    def tpr(self, fpr: float) -> Bounds:
        """Return bounds on the largest true positive rate at a false positive rate in (0, 1)."""
        if self.mu == 0.0:
            return Bounds.exactly(fpr)
        miss = self.miss(fpr)
        missed = miss.lower
        if self.nearer is not None:
            missed = max(missed, self.nearer(self.tangent_epsilon(fpr), fpr))
        upper = min(math.nextafter(1.0 - missed, 2.0), 1.0)
        lower = math.nextafter(1.0 - miss.upper, 0.0)
        # Near 0 the difference from 1 has few digits left, and a formula has all of them.
        if self.mu is not None:
            at = float(ndtri(fpr))
            upper = min(float(ndtr(at + self.mu.upper)) * (1.0 + NORMAL_ROUNDING), upper)
            lower = max(float(ndtr(at + self.mu.lower)) * (1.0 - NORMAL_ROUNDING), lower)
            lower = min(lower, math.nextafter(1.0, 0.0))
        elif self.largest_loss < 700.0:
            grown = math.exp(self.largest_loss) * (1.0 + 1e-12) * fpr
            upper = min(upper, max(grown, fpr))
        return agreed(max(lower, fpr), max(upper, fpr))

    def attained_delta(self, epsilon: float) -> float:
        """Return a lower bound on delta at one epsilon, 0 or above, by tests that are known."""
        if self.mu is not None:
            # Only noise that is next to none needs it: delta has a closed form else.
            rate = sys.float_info.min
            spent = math.exp(min(epsilon, 700.0)) * rate * (1.0 + 1e-12)
            return max(math.nextafter(self.tpr(rate).lower - spent, 0.0), 0.0)
        return max((ceiling.delta(epsilon) for ceiling in self.ceilings), default=0.0)

    def tangent_epsilon(self, fpr: float) -> float:
        """Return the epsilon at which the lowest floor is highest at an FPR, about."""
        lowest = min(self.floors, key=lambda floor: floor.at(fpr))
        (line,) = lowest.best(np.array([fpr]))
        return abs(math.log(lowest.slopes[line]))

    @cached_property
    def meeting(self) -> Bounds:
        """Bounds on the FPR at which it equals the miss rate of the best test."""
        lower, _ = _crossing(self._floor)
        _, upper = _crossing(self._ceiling)
        return agreed(lower, upper)


def _crossing(miss: Callable[[float], float]) -> tuple[float, float]:
    """Return FPRs at which a falling miss rate is above (or 0) and not above the FPR (or 1/2)."""
    low, high = 0.0, 0.5
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if miss(middle) > middle:
            low = middle
        else:
            high = middle
    return low, high


@lru_cache(maxsize=64)
def attack_power(event: ev.Event, neighbours: Neighbours) -> AttackPower:
    """Return bounds on the power of the best test of an event.

    Lower ends are those of guessing where no pair of data sets is known to attain more.  Raises
    `Unsupported` where no engine has an answer.
    """
    proven = proven_power(event, neighbours)
    if proven.mu is not None:
        return proven
    return replace(proven, ceilings=_ceilings(event, neighbours))


@lru_cache(maxsize=64)
def proven_power(event: ev.Event, neighbours: Neighbours) -> AttackPower:
    """Return what `attack_power` does, but with the lower ends of guessing: in half the time."""
    try:
        mu = gaussian_mu(composition_of(event), neighbours)
    except Unsupported:  # noise so small that mu is no number
        return AttackPower((), (), mu=Bounds(sys.float_info.max, math.inf))
    if mu is not None:
        return AttackPower((), (), mu=Bounds(mu * (1.0 - 3e-12), mu))
    curves = upper_curves(event, neighbours)
    nodes = common_nodes(curves)
    deltas = [curve.at(nodes) for curve in curves]
    # The delta at 0 may be 0 but for the rounding of curves: then nothing is shown at all.
    if (
        max(float(each[0]) for each in deltas) < NEXT_TO_NOTHING
        and account(event, epsilon=0.0, neighbours=neighbours).delta.upper == 0.0
    ):
        return AttackPower((), (), mu=Bounds.exactly(0.0))
    floors = tuple(
        Lines.of(nodes, forth, back) for forth, back in zip(deltas, deltas[::-1], strict=True)
    )
    largest = max(
        float(curve.epsilons[-1]) if curve.deltas[-1] == 0.0 else math.inf for curve in curves
    )
    nearer = None
    if pld_curves(event, neighbours) is None and np.ptp(curves[0].deltas) > 0.0:
        nearer = partial(nearer_floor, event, neighbours)
    return AttackPower(floors, (), largest, nearer=nearer)


def _ceilings(event: ev.Event, neighbours: Neighbours) -> tuple[AttainedMiss, ...]:
    try:
        with guarded("pld"):
            # Of stated numbers the worst mechanism that has them.
            attained = attained_curves(composition_of(event).worst(), neighbours)
    except Unsupported:
        lowers = [bounds.lower for bounds in account_deltas(event, neighbours)]
        return (SingleTests(np.array(FALLBACK_EPSILONS), np.array(lowers)),)
    ceilings = tuple(MissCeiling.of(curve) for curve in attained)
    if any(ceiling.delta(0.0) > 0.0 for ceiling in ceilings):
        return ceilings
    # No curve, or one whose grid is too wide for a loss that is next to all: the advantage alone.
    lower = account(event, epsilon=0.0, neighbours=neighbours).delta.lower
    return (*ceilings, SingleTests(np.zeros(1), np.array([lower])))


@dataclass(frozen=True, eq=False)
class RocCurve:
    """Bounds on the largest TPR of a test at each FPR: float64 arrays of one length.

    The upper end holds for all neighbouring data sets and all tests; the lower end is attained by
    two of them, or by guessing where none are known.
    """

    fprs: FloatArray
    lower: FloatArray
    upper: FloatArray
    neighbours: Neighbours

    @property
    def tprs(self) -> tuple[Bounds, ...]:
        """The bounds at each false positive rate."""
        return tuple(map(Bounds, self.lower.tolist(), self.upper.tolist()))


def roc(event: ev.EventLike, fprs: Iterable[float], *, neighbours: str = "add-remove") -> RocCurve:
    """Return bounds on the largest true positive rate of a test at each of `fprs`.

    With the trade-off function f (smallest miss rate at an FPR) of both orders of two data sets,

        TPR(fpr) = 1 - f(fpr).

    Range: rates strictly between 0 and 1, in any sequence.  `neighbours` is `add-remove`,
    `replace-one` or `zero-out` of one unit, and either data set may be the innocent one.  Raises
    `InvalidInput` for values out of range, `Unsupported` where no engine has an answer.
    Source: Dong, Roth and Su 2022, arXiv 1905.02383v3, Definition 2.1 and Proposition 2.12.

    >>> curve = roc(ev.Gaussian(1.0), [0.01, 0.1, 0.5])
    >>> curve.upper.round(4).tolist()
    [0.0924, 0.3891, 0.8413]
    """
    relation = as_neighbours(neighbours)
    known = ev.known_event(event)
    if isinstance(fprs, (str, bytes, Mapping)) or not isinstance(fprs, Iterable):
        raise InvalidInput(
            f"`fprs` must be a list of rates; it is {kind_of(fprs)}.",
            next_step="Give a list such as [0.001, 0.01].",
        )
    rates = [
        validate.open_probability(**{f"fprs[{index}]": rate}) for index, rate in enumerate(fprs)
    ]
    if not rates:
        raise InvalidInput(
            "`fprs` holds no rates.",
            "A curve has at least one point.",
            "Give a list such as [0.001, 0.01].",
        )
    power = attack_power(known, relation)
    ends = [power.tpr(rate) for rate in rates]
    return RocCurve(
        np.array(rates, np.float64),
        np.array([each.lower for each in ends], np.float64),
        np.array([each.upper for each in ends], np.float64),
        relation,
    )
