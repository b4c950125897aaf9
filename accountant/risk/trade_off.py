"""Trade-off functions: the smallest miss rate at a false alarm rate, under a claimed event.

Every test of a mechanism with delta(epsilon) has, in both directions,

    N >= f(F),  f(F) = max over epsilon >= 0 of max{0, 1 - d - e^epsilon F, e^-epsilon (1 - d - F)}

with d = delta(epsilon).  Upper bounds on delta give lines that lie below the true f, so their
maximum does, too: it is convex, falls, and is its own inverse.  The deltas are the larger of both
directions (a unit that comes, a unit that goes), certified by our own pld engine.
Source: Dong, Roth, Su 2022, arXiv 1905.02383v3, Proposition 2.12 (duality).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, overload

import numpy as np

from .. import events as ev
from .. import validate
from ..account import account, bounds_on_delta
from ..arrays import FloatArray
from ..composition import Composition
from ..engines.base import guarded
from ..engines.pld.compose.curve import DeltaCurve, delta_curves
from ..engines.pld.compose.directions import participation
from ..errors import InvalidInput, Unsupported
from ..guarantee import Bounds, Neighbours, as_neighbours
from ..rootfinding import least_argument
from .release_mu import composed_mu
from .shapes import MAX_LINE_EPSILON, GaussianShape, Lines, TradeOffShape

FALLBACK_EPSILONS: Final = tuple(np.concatenate(([0.0], np.geomspace(1e-3, 60.0, 96))).tolist())
"""Epsilons at which other engines than pld are asked."""

NEGLIGIBLE_DELTA: Final = 1e-40
"""Once an upper end is below this, it stands for all larger epsilons but the last."""

NEARER_PRECISION: Final = 1e-6
"""How near to the best epsilon a search next to one of these goes; its error counts twice over."""


@dataclass(frozen=True, eq=False)
class TradeOff:
    """The smallest miss rate at a false alarm rate; never above that of the event.

    Call it with a number or an array in [0, 1].  It is its own inverse, f(f(alpha)) <= alpha, since
    both directions of the neighbouring relation are in it.
    """

    shape: TradeOffShape

    @overload
    def __call__(self, alpha: float) -> float: ...
    @overload
    def __call__(self, alpha: FloatArray) -> FloatArray: ...
    def __call__(self, alpha: float | FloatArray) -> float | FloatArray:
        if isinstance(alpha, (float, int)):
            return self.shape.at(validate.probability(alpha=alpha))
        alphas = np.asarray(alpha, dtype=float)
        if not ((alphas >= 0.0) & (alphas <= 1.0)).all():
            raise InvalidInput("`alpha` must be in [0, 1] everywhere.")
        return self.shape.at_each(alphas)

    def curve(self, points: int = 200) -> tuple[tuple[float, float], ...]:
        """Return (false alarm rate, smallest miss rate) pairs for a plot, dense at both ends."""
        half = np.geomspace(1e-6, 0.5, max(validate.count(points=points) // 2, 2))
        alphas = np.concatenate(([0.0], half, 1.0 - half[-2::-1], [1.0]))
        return tuple(zip(alphas.tolist(), self(alphas).tolist(), strict=True))


def trade_off(event: ev.Event, neighbours: str = "add-remove") -> TradeOff:
    """Return a trade-off function that no test of this event beats, for both directions.

    For unsampled Gaussian noise it is the closed form; otherwise certified deltas of the pld
    engine give it to about 2e-5, or, where that has no mathematics, those of `account` at a hundred
    epsilons, which is valid and less tight.  The last few events are kept.  Raises `Unsupported`
    where no engine has an answer, `InvalidInput` for what is no event or relation.
    """
    relation = as_neighbours(neighbours)
    return _trade_off(ev.known_event(event), relation)


@lru_cache(maxsize=64)
def composition_of(event: ev.Event) -> Composition:
    """Return the normal form of an event, which several questions about one risk share."""
    return Composition.of(event)


@lru_cache(maxsize=64)
def _trade_off(event: ev.Event, neighbours: Neighbours) -> TradeOff:
    parts = composition_of(event)
    mu = gaussian_mu(parts, neighbours)
    if mu is not None:
        return TradeOff(GaussianShape(mu))
    # The larger delta of both directions at each node: one function that bounds either test.
    curves = upper_curves(event, neighbours)
    epsilons = common_nodes(curves)
    deltas = np.max([curve.at(epsilons) for curve in curves], axis=0)
    return TradeOff(Lines.of(epsilons, deltas, deltas))


def attained_trade_off(
    event: ev.Event, neighbours: str = "add-remove"
) -> Callable[[FloatArray], FloatArray]:
    """Return the miss rates that the best test of "out" against "in" attains, approximately.

    It knows that the unit is there in the second, which `trade_off` does not use, so it lies above
    or on it.  For choosing a threshold: no bound rests on it.
    """
    relation = as_neighbours(neighbours)
    mu = gaussian_mu(composition_of(event), relation)
    if mu is not None:
        return GaussianShape(mu).at_each
    forth, *back = upper_curves(event, relation)
    epsilons = common_nodes((forth, *back))
    other = back[0] if back else forth
    return Lines.of(epsilons, forth.at(epsilons), other.at(epsilons)).at_each


@lru_cache(maxsize=64)
def upper_curves(event: ev.Event, neighbours: Neighbours) -> tuple[DeltaCurve, ...]:
    """Return upper bounds on delta by epsilon: (with, without), and the reverse where it differs.

    Those of `account`, for both orders at once, where the pld engine has no mathematics.
    """
    return pld_curves(event, neighbours) or (_account_curve(event, neighbours),)


@lru_cache(maxsize=64)
def pld_curves(event: ev.Event, neighbours: Neighbours) -> tuple[DeltaCurve, ...] | None:
    """Return what `upper_curves` does by the pld engine, None where it has no mathematics."""
    try:
        with guarded("pld"):
            return delta_curves(composition_of(event), neighbours)
    except Unsupported:
        return None


def common_nodes(curves: tuple[DeltaCurve, ...]) -> FloatArray:
    """Return the epsilons, 0 or above, at which any of the curves has a node.

    Beyond `MAX_LINE_EPSILON` there are none: leaving lines out only lowers f.
    """
    nodes = np.unique(np.concatenate([np.zeros(1), *(curve.epsilons for curve in curves)]))
    return nodes[(nodes >= 0.0) & (nodes <= MAX_LINE_EPSILON)]


def gaussian_mu(parts: Composition, neighbours: Neighbours) -> float | None:
    """Return mu, rounded up, if all is Gaussian noise without sampling."""
    if not all(isinstance(part.event, ev.Gaussian) and part.fully_observed for part in parts):
        return None
    mu = composed_mu(parts, neighbours).upper
    if math.isinf(mu):
        raise Unsupported("The noise is too small for any trade-off function to be computed.")
    return mu


def nearer_floor(event: ev.Event, neighbours: Neighbours, near: float, fpr: float) -> float:
    """Return a lower bound on the miss rate at an FPR, by the best epsilon next to `near`.

    For events whose deltas are those of `account`, which knows them at any epsilon and not only at
    `FALLBACK_EPSILONS`.
    """
    drawn = participation(composition_of(event))
    best = 0.0

    def floor(epsilon: float) -> float:
        nonlocal best
        upper = bounds_on_delta(event, epsilon=epsilon, neighbours=neighbours).upper
        delta = np.full(1, min(upper, drawn))
        missed = Lines.of(np.full(1, epsilon), delta, delta).at(fpr)
        best = max(best, missed)
        return missed

    index = int(np.searchsorted(FALLBACK_EPSILONS, near * (1.0 - 1e-9)))
    low = FALLBACK_EPSILONS[max(index - 1, 0)]
    high = FALLBACK_EPSILONS[min(index + 1, len(FALLBACK_EPSILONS) - 1)]
    least_argument(lambda epsilon: -floor(epsilon), low, high, NEARER_PRECISION)
    return best


def delta_by_larger_epsilons(event: ev.Event, neighbours: Neighbours, epsilon: float) -> float:
    """Return an upper bound on delta at one epsilon by the deltas at larger ones, 1 without any.

    What is (e, d)-DP in both orders has at an epsilon below e at most
    d + (1 - d) (e^e - e^epsilon) / (1 + e^e).  Rounded up; for events whose deltas are those of
    `account`, which at a small epsilon may be far above what a larger one leaves.
    Source: Kairouz, Oh and Viswanath 2015, arXiv 1311.0776v4 (the region of both error rates).
    """
    if pld_curves(event, neighbours) is not None:
        return 1.0
    (curve,) = upper_curves(event, neighbours)
    larger = curve.epsilons >= epsilon
    deltas, at = curve.deltas[larger], curve.epsilons[larger]
    left = -np.expm1(epsilon - at) / (1.0 + np.exp(-at))
    bounds = (deltas + (1.0 - deltas) * left) * (1.0 + 1e-12)
    return float(bounds.min(initial=1.0))


def _account_curve(event: ev.Event, neighbours: Neighbours) -> DeltaCurve:
    deltas = [bounds.upper for bounds in account_deltas(event, neighbours)]
    # delta falls with epsilon; the running minimum of upper bounds is one, too.
    least = np.minimum.accumulate(np.minimum(deltas, participation(composition_of(event))))
    return DeltaCurve(np.array(FALLBACK_EPSILONS), least)


@lru_cache(maxsize=64)
def account_deltas(event: ev.Event, neighbours: Neighbours) -> tuple[Bounds, ...]:
    """Return what `account` says of delta at each of `FALLBACK_EPSILONS`."""

    def at(epsilon: float) -> Bounds:
        return account(event, epsilon=epsilon, neighbours=neighbours).delta

    first, last = at(FALLBACK_EPSILONS[0]), at(FALLBACK_EPSILONS[-1])
    if first.upper == last.upper:  # and so in between, since delta falls
        return (first,) + (last,) * (len(FALLBACK_EPSILONS) - 1)
    bounds = [first]
    for epsilon in FALLBACK_EPSILONS[1:-1]:
        # Delta falls: what bounds it from above does so from there on.
        small = bounds[-1].upper < NEGLIGIBLE_DELTA
        bounds.append(Bounds(0.0, bounds[-1].upper) if small else at(epsilon))
    return (*bounds, last)
