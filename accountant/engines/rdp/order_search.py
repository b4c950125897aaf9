"""The search for the Renyi order that serves best: which orders are tried, and where it zooms in.

Orders are a > 1, on a grid in log(a - 1) that grows until its minimum has neighbours on both sides,
and is then refined around it.  Any order gives a sound bound: a poor search costs tightness alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

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

    # The scout names an order; the divergence itself is tried there and beside it.
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
