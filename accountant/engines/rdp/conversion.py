"""From a Renyi curve to (epsilon, delta), at the order that serves best.

With b = a - 1, a mechanism whose divergences are at most R(a) is (epsilon, delta)-DP when

    b epsilon + log delta >= b R(a) + b log(b/a) - log a.

Source: Canonne, Kamath and Steinke 2020, Proposition 12, arXiv 2004.00010v4; Balle, Barthe,
Gaboardi, Hsu and Sato 2020, Theorem 21, arXiv 1905.09982v2.

Both questions are minimised over log b.  b R(a) is convex in b and so is what is added to it;
hence log delta is convex in b, and epsilon, a convex function divided by b, has one valley.  Any
order is sound: a poor search costs tightness, never truth.

Delta is also never more than the total variation distance, and that at most sqrt(R/2) and
sqrt(1 - e^-R) for the R of any order, since R never decreases from the Kullback-Leibler
divergence at a = 1; this wins where epsilon is 0 or nearly so.
Source: Pinsker's inequality; Bretagnolle and Huber 1979 (as in Canonne 2022, arXiv 2202.07198v1).

**Groups of k.**  With the lemma of `amplification/group.py` the question becomes one about one
record: delta_k = delta g(eps), g(eps) = 1 + ... + e^{(k-1) eps}, at k eps.  An order a > k then
gives the eps at which (a-1) eps - log g(eps), which grows with eps at least as (a-k) eps, reaches
what the order needs.  All of it is in logarithms: delta of one record may be far below 1e-308.

**The search** for the order that serves best: which orders are tried, and where it zooms in.

Orders are a > 1, on a grid in log(a - 1) that grows until its minimum has neighbours on both sides,
and is then refined around it.  Any order gives a sound bound: a poor search costs tightness alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...amplification.group import log_growth
from ...arrays import FloatArray

Divergence = Callable[[FloatArray], FloatArray]
"""Maps orders a > 1 to an upper bound on R(a), in nats."""

_LOG_ORDER_SPACING: Final = 0.5
_FIRST_GRID_RANGE: Final = (-4, 9)
"""First look: log(a - 1) from -2 to 4."""
_MIN_GRID_INDEX, _MAX_GRID_INDEX = -46, 70
"""Last resort: a - 1 from 1e-10 to 1e15."""
_ORDER_SEARCH_ZOOMS: Final = 4
_SCOUT_LOG_ORDER_STEP: Final = 0.02
"""How far from the scout's order, in log(a - 1), the divergence itself is tried."""


def minimum_over_orders(
    objective: Callable[[FloatArray, FloatArray], FloatArray],
    divergence: Divergence,
    scout: Divergence | None,
    above: float,
    listed: Sequence[float] = (),
) -> tuple[float, float]:
    """Return the minimum over orders of an objective of the order and its divergence, and where.

    `listed` are orders that are tried besides, where the divergence may have a corner.
    """
    value, order = _searched_minimum(objective, divergence, scout, above)
    corners = np.array([corner for corner in listed if corner > above])
    if not corners.size:
        return value, order
    with np.errstate(over="ignore", invalid="ignore"):
        values = objective(corners, divergence(corners))
    values = np.where(np.isnan(values), np.inf, values)
    best = int(values.argmin())
    return (float(values[best]), float(corners[best])) if values[best] < value else (value, order)


def _searched_minimum(
    objective: Callable[[FloatArray, FloatArray], FloatArray],
    divergence: Divergence,
    scout: Divergence | None,
    above: float,
) -> tuple[float, float]:
    """Return the minimum around the order that the scout names, or over a grid."""

    def by(curve: Divergence) -> Callable[[FloatArray], FloatArray]:
        return lambda orders: objective(orders, curve(orders))

    # The scout names an order; the divergence itself is tried there and next to it.
    if scout is not None:
        _, order = _minimum_over_grid(by(scout), above)
        if math.isfinite(order):
            near = math.log(order - above) + _SCOUT_LOG_ORDER_STEP * np.array([-1.0, 0.0, 1.0])
            values = _evaluate(by(divergence), near, above)
            left, middle, right = values.tolist()
            # A parabola through three places says where it is lowest; far off, the scout is wrong.
            curvature = left - 2.0 * middle + right
            step = 0.5 * (left - right) / curvature if 0.0 < curvature < math.inf else math.inf
            if abs(step) <= 3.0:
                last = near[1] + _SCOUT_LOG_ORDER_STEP * np.array([step])
                log_orders = np.concatenate((near, last))
                values = np.concatenate((values, _evaluate(by(divergence), last, above)))
                best = int(values.argmin())
                return float(values[best]), above + math.exp(log_orders[best])
    return _minimum_over_grid(by(divergence), above)


def _minimum_over_grid(
    objective: Callable[[FloatArray], FloatArray], above: float = 1.0
) -> tuple[float, float]:
    """Return the minimum over orders, with neither end of the range in the way, and where.

    The search is over log(a - `above`).
    """
    grid = np.arange(*_FIRST_GRID_RANGE, dtype=np.float64)
    values = _evaluate(objective, _log_orders(grid), above)
    while True:
        best = int(values.argmin())
        if best == 0 and grid[0] > _MIN_GRID_INDEX:
            extension = np.arange(max(_MIN_GRID_INDEX, grid[0] - 8), grid[0], dtype=np.float64)
            grid = np.concatenate((extension, grid))
            values = np.concatenate((_evaluate(objective, _log_orders(extension), above), values))
        elif best == grid.size - 1 and grid[-1] < _MAX_GRID_INDEX:
            extension = np.arange(
                grid[-1] + 1, min(_MAX_GRID_INDEX, grid[-1] + 8) + 1, dtype=np.float64
            )
            grid = np.concatenate((grid, extension))
            values = np.concatenate((values, _evaluate(objective, _log_orders(extension), above)))
        else:
            break
    return _refined_minimum(objective, _log_orders(grid), values, above)


def _log_orders(grid: FloatArray) -> FloatArray:
    return np.asarray(grid * _LOG_ORDER_SPACING, np.float64)


def _refined_minimum(
    objective: Callable[[FloatArray], FloatArray],
    log_orders: FloatArray,
    values: FloatArray,
    above: float,
) -> tuple[float, float]:
    for _ in range(_ORDER_SEARCH_ZOOMS):
        best = int(values.argmin())
        inner = np.linspace(
            log_orders[max(best - 1, 0)], log_orders[min(best + 1, log_orders.size - 1)], 9
        )
        log_orders, values = inner, _evaluate(objective, inner, above)
    best = int(values.argmin())
    value = float(values[best])
    return value, above + math.exp(log_orders[best]) if value < math.inf else math.nan


def _evaluate(
    objective: Callable[[FloatArray], FloatArray], log_orders: FloatArray, above: float
) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        # Overflow gives inf or nan: such an order is no answer, which is sound.
        values = objective(above + np.exp(log_orders))
    return np.where(np.isnan(values), np.inf, values)


_GROUP_EPSILON_HALVINGS: Final = 64
_CONVERSION_ROUNDING: Final = 1e-15
_DIVERGENCE_UNDERFLOW: Final = 1e-300
"""More than a divergence can lose by underflow."""
_ORDER_CLOSE_TO_1: Final = 1.0001
_RENYI_SOURCE: Final = (
    "Canonne, Kamath and Steinke 2020, Proposition 12, arXiv 2004.00010v4; Balle et al. 2020, "
    "Theorem 21, arXiv 1905.09982v2"
)
_VARIATION_SOURCE: Final = "Pinsker; Bretagnolle and Huber, as in Canonne 2022, arXiv 2202.07198v1"


@dataclass(frozen=True)
class Conversion:
    """What a conversion found, at which order (nan where every order fails), and by what."""

    value: float
    order: float
    source: str = _RENYI_SOURCE


def best_epsilon(
    divergence: Divergence,
    delta: float,
    *,
    size: int = 1,
    above: float = 1.0,
    scout: Divergence | None = None,
    listed: Sequence[float] = (),
) -> Conversion:
    """Return the smallest epsilon at `delta` in (0, 1), from orders larger than `above`.

    With `size` k it is that of a group of k records by the lemma, from the curve of one record.
    `scout` is a divergence like this one that costs less: it says where to look, and nothing else.
    `listed` are orders that are tried in any case.
    """
    # Total variation bounds delta at every epsilon, so epsilon 0 holds below it.
    if size * _variation(divergence) <= delta:
        return Conversion(0.0, _ORDER_CLOSE_TO_1, _VARIATION_SOURCE)
    log_delta = math.log(delta)

    def objective(orders: FloatArray, values: FloatArray) -> FloatArray:
        single = epsilon_at_orders(orders, values, log_delta)
        return single if size == 1 else np.asarray(_group_epsilon(single, orders - 1.0, size))

    # By the lemma an order of `size` or below says nothing of a group.
    epsilon, order = minimum_over_orders(
        objective, divergence, scout, max(above, float(size)), listed
    )
    return Conversion(max(0.0, epsilon), order)


def epsilon_at_orders(orders: FloatArray, values: FloatArray, log_delta: float) -> FloatArray:
    """Return the epsilon that each order gives, of any sign, rounded up; see the module."""
    b = orders - 1.0
    ratio, target = -np.log1p(1.0 / b), (log_delta + np.log(orders)) / b
    rounding = _CONVERSION_ROUNDING * (values + np.abs(ratio) + (np.log(orders) - log_delta) / b)
    return np.asarray(values + ratio - target + rounding)


def log_delta_at_orders(orders: FloatArray, values: FloatArray, epsilon: float) -> FloatArray:
    """Return the log delta that each order gives, rounded up, possibly above 0; see the module."""
    b = orders - 1.0
    ratio = -np.log1p(1.0 / b)  # log(b / a), to its last digits at any order
    rounding = _CONVERSION_ROUNDING * (b * (values + epsilon - ratio) + np.log(orders))
    return np.asarray(b * (values - epsilon + ratio) - np.log(orders) + rounding)


def _group_epsilon(single: FloatArray, b: FloatArray, size: int) -> FloatArray:
    """Return k eps for the least eps with b eps - log g(eps) >= b `single`; b is above k - 1."""
    order_excess = b - (size - 1.0)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # e^((k-1) eps) <= g(eps) <= k e^((k-1) eps), which brackets eps.
        low = np.maximum(b * single / order_excess, 0.0)
        high = np.maximum((b * single + math.log(size)) / order_excess, 0.0)
        solvable = np.isfinite(high) & (order_excess > 0.0)
        low, high = np.where(solvable, low, 0.0), np.where(solvable, high, 0.0)
        # The sum of the errors of what is subtracted, all of which is at most (b + k) eps.
        needed = b * single + 8.0 * _CONVERSION_ROUNDING * ((b + size) * high + math.log(size))
        high = (
            high + 16.0 * _CONVERSION_ROUNDING * ((b + size) * high + math.log(size)) / order_excess
        )
        for _ in range(_GROUP_EPSILON_HALVINGS):
            middle = 0.5 * (low + high)
            # Halving all orders at once; `high` always fulfils the inequality, and is what counts.
            enough = b * middle - log_growth(middle, size) >= needed
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(solvable, size * high * (1.0 + _CONVERSION_ROUNDING), np.inf)


def best_delta(
    divergence: Divergence,
    epsilon: float,
    *,
    size: int = 1,
    above: float = 1.0,
    scout: Divergence | None = None,
    listed: Sequence[float] = (),
) -> Conversion:
    """Return the smallest delta at `epsilon`; of a group of `size` records by the lemma."""
    best = best_log_delta(divergence, epsilon, size=size, above=above, scout=scout, listed=listed)
    delta = math.nextafter(math.exp(min(0.0, best.value)), 1.0)
    variation = size * _variation(divergence)
    if variation < delta:
        return Conversion(variation, _ORDER_CLOSE_TO_1, _VARIATION_SOURCE)
    return Conversion(delta, best.order)


def best_log_delta(
    divergence: Divergence,
    epsilon: float,
    *,
    size: int = 1,
    above: float = 1.0,
    scout: Divergence | None = None,
    listed: Sequence[float] = (),
) -> Conversion:
    """Return the logarithm of the smallest delta at `epsilon` that an order gives.

    It may lie far below the logarithm of the smallest float, and above 0.  `scout` is as above.
    """
    # Down: at a smaller epsilon of one record delta is larger.
    record_epsilon = epsilon if size == 1 else math.nextafter(epsilon / size, 0.0)
    growth = 0.0 if size == 1 else float(log_growth(np.array([record_epsilon]), size)[0])

    def objective(orders: FloatArray, values: FloatArray) -> FloatArray:
        single = log_delta_at_orders(orders, values, record_epsilon)
        return np.asarray(single + growth * (1.0 + 4.0 * _CONVERSION_ROUNDING))

    log_delta, order = minimum_over_orders(objective, divergence, scout, above, listed)
    return Conversion(log_delta, order)


def _variation(divergence: Divergence) -> float:
    """Return a bound on the total variation distance."""
    with np.errstate(over="ignore", invalid="ignore"):
        divergence_at_1 = float(divergence(np.array([_ORDER_CLOSE_TO_1]))[0])
    divergence_at_1 += _DIVERGENCE_UNDERFLOW
    # Pinsker and Bretagnolle-Huber, whichever is smaller, at an order just above 1.
    squared = min(divergence_at_1 / 2.0, -math.expm1(-divergence_at_1))
    return math.sqrt(squared) * (1.0 + _CONVERSION_ROUNDING)
