"""Renyi curves of hyper-parameter search: the best of a random number of runs.

A data-independent law fixes the number K of runs; each run is fresh; the best by an order on the
outputs is returned, and nothing of the others, nor K.  Ties are broken by chance.  Write Q and Q'
for one run on neighbouring data, f(x) = E[x^K], and q(y) = Q(output <= y).  The output has density
Q(y) f'(q(y)), so with a > 1

    E[best]_a := sum best^a best'^(1-a) <= sup_y [f'(q)^a f'(q')^(1-a)] e^{(a-1) R(a)},

where (q, q') are the probabilities of one event under Q and Q', and R is the curve of a run.

**Truncated negative binomial** with exponent eta (1: geometric, 0: logarithmic) and stopping
probability g: f'(x) = E[K] g^{eta+1} (1 - (1-g) x)^{-eta-1}.  Here u = 1 - (1-g) q lies in [g, 1]
and is a probability under Q (of "beyond y, or heads of a coin g"), u' likewise.  At any order
l >= 1, u'^l u^{1-l} <= e^{(l-1) R(l)}; this bounds u'^{a-1} u^{-a}, hence the best has a curve of

    R(a) + (1 + eta) ((1 - 1/l) R(l) + log(1/g) / l) + log(E[K]) / (a - 1).

**Poisson** with mean m: f'(x) = m e^{m(x-1)}.  With v = 1 - q the supremum is that of
m e^{m ((a-1) v' - a v)}, and v' - a/(a-1) v is at most the delta d(a) of one run at
epsilon log(a / (a-1)), for any event.  No run at all, of probability e^-m, is one more output,
the same with either data set:

    (a-1) R'(a) = log(e^-m + m e^{(a-1) (R(a) + m d(a))}).

Source: Papernot and Steinke 2021, Theorems 2 and 6, arXiv 2110.03620v2, re-derived here; the term
e^-m, which Theorem 6 does not show, is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from ... import events as ev
from ...arrays import FloatArray
from ...composition import Composition
from ...errors import Unsupported
from ...events.run_counts import log_inverse_success
from ...guarantee import Neighbours, Step, unique_steps
from .curves import Curve, curve
from .moments import RENYI_OUTWARD_FACTOR

TUNING_ORDERS: Final = 1.0 + np.exp(np.linspace(-6.0, 9.0, 360))
"""The orders among which a second one is chosen; any would do."""

_TUNING_ROUNDING_RELATIVE: Final = 1e-13
_SHAPES: Final = {"geometric": 1.0, "logarithmic": 0.0}
_PAPERNOT_STEINKE: Final = (
    "Papernot and Steinke 2021, Theorem {}, arXiv 2110.03620v2; re-derived here"
)


REMEMBERED_GRIDS: Final = 256
"""At how many grids of orders the curve of a run is remembered."""


@dataclass(frozen=True, eq=False)
class _Run:
    """The curve of one run."""

    at: Callable[[FloatArray], FloatArray]
    limit: float
    steps: tuple[Step, ...]

    def values(self, orders: FloatArray) -> FloatArray:
        """Return the curve at orders, infinite where it is not a number."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.at(orders)
        return np.asarray(np.where(np.isnan(values), np.inf, values), np.float64)


@curve.register(ev.BestOf)
@lru_cache(maxsize=16)
def best_of(event: ev.BestOf, neighbours: Neighbours) -> Curve:
    """The curve of the best of a random number of runs, for any relation of the runs' own curves.

    Raises `Unsupported` for runs whose guarantee sets a delta aside.
    """
    run = _run(event.event, neighbours)
    if event.distribution == "fixed":
        runs = int(event.mean)
        return Curve(
            lambda orders: runs * run.at(orders) * RENYI_OUTWARD_FACTOR, runs * run.limit, run.steps
        )
    if event.distribution == "poisson":
        return _poisson(run, event.mean)
    return _negative_binomial(run, event, _SHAPES.get(event.distribution, event.shape))


def _run(event: ev.Event, neighbours: Neighbours) -> _Run:
    parts = [(curve(leaf.event, neighbours), leaf.count) for leaf in Composition.of(event)]
    if any(part.slack > 0.0 for part, _ in parts):
        raise Unsupported(
            "The best of a random number of runs is not accounted where a run sets a delta aside.",
            "Runs that fail are as likely to be the best ones, and their number is random.",
            "State the runs as noise (Gaussian, Laplace, ...) or as a pure or zcdp guarantee.",
        )

    remembered: dict[bytes, FloatArray] = {}

    def at(orders: FloatArray) -> FloatArray:
        # Searches over orders begin with the same few grids, whatever they look for.
        key = orders.tobytes()
        if key not in remembered:
            if len(remembered) >= REMEMBERED_GRIDS:
                remembered.clear()
            total = np.zeros_like(orders)
            for part, count in parts:
                if part.limit > 0.0:
                    total += count * part.at(orders)
            remembered[key] = total * RENYI_OUTWARD_FACTOR
        return remembered[key].copy()

    limits = [(part.limit, count) for part, count in parts if part.limit > 0.0]
    limit = math.inf
    if all(math.isfinite(each) for each, _ in limits):
        limit = _rounded_up(sum((count * Fraction(each) for each, count in limits), Fraction(0)))
    return _Run(at, limit, unique_steps([step for part, _ in parts for step in part.steps]))


def _rounded_up(exact: Fraction) -> float:
    """Return the least float that is not below."""
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)


def _negative_binomial(run: _Run, event: ev.BestOf, eta: float | None) -> Curve:
    assert eta is not None
    mean, distribution = event.mean, event.distribution
    if event.shape is not None:
        distribution = f"truncated negative binomial (shape {eta:g})"
    log_inverse = log_inverse_success(eta, mean) * (1.0 + _TUNING_ROUNDING_RELATIVE)

    def second_order_cost(orders: FloatArray) -> FloatArray:
        return np.asarray((1.0 - 1.0 / orders) * run.values(orders) + log_inverse / orders)

    # Any second order is sound; a grid, then a finer one around its best, comes close.
    coarse = second_order_cost(TUNING_ORDERS)
    near = int(coarse.argmin())
    ends = TUNING_ORDERS[max(near - 1, 0)], TUNING_ORDERS[min(near + 1, TUNING_ORDERS.size - 1)]
    # At order 1 nothing is asked of the runs.
    best = min(
        float(coarse[near]), float(second_order_cost(np.linspace(*ends, 33)).min()), log_inverse
    )
    constant = (1.0 + eta) * best * (1.0 + _TUNING_ROUNDING_RELATIVE)
    log_mean = math.log(mean) * (1.0 + _TUNING_ROUNDING_RELATIVE)

    def at(orders: FloatArray) -> FloatArray:
        return np.asarray(
            (run.at(orders) + constant + log_mean / (orders - 1.0)) * RENYI_OUTWARD_FACTOR
        )

    how = (
        f"The best of a {distribution} number of runs with mean {mean:g}: R(a) + {constant:.6g} + "
        "log(mean) / (a-1)."
    )
    limit = run.limit
    if math.isfinite(limit):
        limit = _rounded_up((2 + Fraction(eta)) * Fraction(limit))
    return _monotone_curve(run, at, limit, how, _PAPERNOT_STEINKE.format(2))


def _poisson(run: _Run, mean: float) -> Curve:
    constants = (TUNING_ORDERS - 1.0) * (
        run.values(TUNING_ORDERS) + np.log1p(-1.0 / TUNING_ORDERS)
    ) - np.log(TUNING_ORDERS)

    def delta(orders: FloatArray) -> FloatArray:
        """Return the delta of one run at log(a / (a-1)); the conversion of conversion.py."""
        epsilon = -np.log1p(-1.0 / orders)
        # log delta at each order of the grid, shape (orders asked for, orders of the grid).
        logs = constants - (TUNING_ORDERS - 1.0) * epsilon[:, None]
        logs += _TUNING_ROUNDING_RELATIVE * (
            np.abs(constants) + (TUNING_ORDERS - 1.0) * epsilon[:, None]
        )
        return np.asarray(np.exp(np.minimum(logs.min(axis=1), 0.0)))

    def at(orders: FloatArray) -> FloatArray:
        beta = orders - 1.0
        grown = beta * (run.at(orders) + mean * delta(orders)) * (1.0 + _TUNING_ROUNDING_RELATIVE)
        # log(e^-m + m e^{(a-1)(R + m d)}): no run at all is one more output.
        moments = np.logaddexp(-mean, math.log(mean) + grown) + 1e-15 * (2.0 + mean)
        return np.asarray(np.maximum(moments, 0.0) / beta * RENYI_OUTWARD_FACTOR)

    how = (
        f"The best of a Poisson number of runs with mean {mean:g}, from the delta of one run at "
        "epsilon log(a / (a-1))."
    )
    limit = run.limit
    # For an eps-DP run the total variation is at most tanh(eps/2): what m d(a) tends to.
    if math.isfinite(limit):
        limit = (limit + mean * math.tanh(limit / 2.0)) * RENYI_OUTWARD_FACTOR
    return _monotone_curve(run, at, limit, how, _PAPERNOT_STEINKE.format(6))


def _monotone_curve(
    run: _Run, at: Callable[[FloatArray], FloatArray], limit: float, how: str, source: str
) -> Curve:
    """Return the curve, never above what it is at a larger order, nor above its limit."""
    with np.errstate(over="ignore", invalid="ignore"):
        grid = at(TUNING_ORDERS)
    grid = np.where(np.isnan(grid), np.inf, grid)
    # R never falls with the order, so the least value at larger orders bounds smaller ones.
    lowest = np.append(np.minimum.accumulate(grid[::-1])[::-1], np.inf)

    def at_orders(orders: FloatArray) -> FloatArray:
        at_larger_orders = lowest[np.searchsorted(TUNING_ORDERS, orders)]
        return np.asarray(np.minimum(np.minimum(at(orders), at_larger_orders), limit), np.float64)

    step = Step(
        "composition",
        how,
        source,
        (
            "the number of runs is drawn by a law that no data decide, and is not published",
            "every run is fresh, and only the best is seen",
            "which run is the best is decided by the outputs alone, scores included",
        ),
    )
    return Curve(at_orders, limit, (*run.steps, step))
