"""Fully adaptive spending: no path through a tree of releases exceeds the promise."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import mpmath
import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.engines.rdp.curves import Curve, curve
from privplan.accountant.engines.rdp.moments import Pair, renyi
from privplan.accountant.odometer import Odometer
from privplan.accountant.odometer.budget_currencies import Gdp, Target

from ..cases import for_each
from ..sweeps import sweep
from .odometers import budget_at


@dataclass(frozen=True)
class Points(ev.Event):
    """Two distributions on finitely many outcomes; known to the tests only."""

    type = "test-points"
    p: tuple[float, ...] = field(metadata={"check": lambda p: tuple(p)})
    q: tuple[float, ...] = field(metadata={"check": lambda q: tuple(q)})


@curve.register(Points)
def _points(event, neighbours):
    del neighbours
    p, q = (np.log(np.array(side, dtype=np.float64)) for side in (event.p, event.q))
    there, back = Pair(q, p - q), Pair(p, q - p)
    return Curve(
        at=lambda orders: np.maximum(renyi(there, orders), renyi(back, orders)),
        limit=float(np.abs(p - q).max()),
        steps=(),
    )


def divergence(order, p, q):
    """Return the larger of the two Renyi divergences."""

    def one(p, q):
        total = sum(x**order * y ** (1 - order) for x, y in zip(p, q, strict=True))
        return mpmath.log(total) / (order - 1)

    return max(one(p, q), one(q, p))


# What fully adaptive spending may do: every path through trees of releases.


def test_the_naive_filter_admits_what_breaks_the_promise_and_ours_does_not():
    """The counterexample: a coin with loss .25, then order 64 on one branch and 6 on the other."""
    epsilon, delta, rare = 3.0, 1e-5, 1e-3
    with mpmath.workdps(40):
        coin = ((rare, 1 - rare), (rare * math.exp(-0.25), 1 - rare * math.exp(-0.25)))
        losses = [math.log(p / q) for p, q in zip(*coin, strict=True)]
        seconds = [
            _worst_at(order, epsilon - loss, budget_at(order, epsilon, delta) - spent)
            for order, loss in zip((64, 6), losses, strict=True)
            for spent in (divergence(order, *coin),)
        ]
        for second, kept, lost in ((seconds[0], 64, 6), (seconds[1], 6, 64)):
            total = {
                order: divergence(order, *coin) + divergence(order, *second) for order in (6, 64)
            }
            assert total[kept] <= budget_at(kept, epsilon, delta)  # "some order fits": admitted
            assert total[lost] > budget_at(lost, epsilon, delta)
        assert float(_true_delta(coin, seconds, epsilon)) == pytest.approx(1.994e-5, rel=1e-3)

    first, after = Points(*coin), [Points(*second) for second in seconds]
    for orders in ([64], [6], [6, 64]):
        admitted = []
        for second in after:
            odometer = Odometer(epsilon, delta, currency="rdp", orders=orders)
            odometer.spend(first)
            admitted.append(not odometer.would_exceed(second))
        assert admitted != [True, True]
        made = [
            second if fits else ((1.0,), (1.0,))
            for second, fits in zip(seconds, admitted, strict=True)
        ]
        assert _true_delta(coin, made, epsilon) <= delta


def _worst_at(order, epsilon, left):
    """Return the two-point pair with R(order) <= left whose delta at epsilon is largest."""
    loss = mpmath.mpf(epsilon) + mpmath.log(mpmath.mpf(order) / (order - 1))

    def pair(mass):
        return ((mass, 1 - mass), (mass * mpmath.e**-loss, 1 - mass * mpmath.e**-loss))

    low, high = mpmath.mpf("1e-12"), 1 - mpmath.mpf("1e-12")
    for _ in range(120):
        mass = (low + high) / 2
        low, high = (mass, high) if divergence(order, *pair(mass)) <= left else (low, mass)
    return pair(low * (1 - mpmath.mpf("1e-9")))


def _true_delta(first, seconds, epsilon):
    """Return the exact delta of a first release and the one chosen by its outcome."""
    total = mpmath.mpf(0)
    for p, q, (p_next, q_next) in zip(*first, seconds, strict=True):
        for x, y in zip(p_next, q_next, strict=True):
            total += max(0, p * x - mpmath.exp(epsilon) * q * y)
    return total


def _tree(make, epsilon, depth, pick):
    """Return the exact delta of an analyst who looks at every outcome and takes what is admitted.

    `make(path)` returns an odometer on which `path` has been spent; so no state is shared.
    """
    choices = [
        Points((x, 1 - x), (y, 1 - y))
        for x, y in ((pick.uniform(0.01, 0.6), pick.uniform(0.01, 0.6)) for _ in range(12))
    ]

    def walk(path, p, q, left):
        now = make(path)
        fitting = [one for one in choices if not now.would_exceed(one)]
        if not left or not fitting:
            return max(0.0, p - math.exp(epsilon) * q)
        # The release that is worst after this path at this depth: greedy, and path-dependent.
        costly = max(fitting, key=lambda one: abs(math.log(one.p[0] / one.q[0])) * pick.random())
        return math.fsum(
            walk((*path, costly), p * x, q * y, left - 1)
            for x, y in zip(costly.p, costly.q, strict=True)
        )

    return walk((), 1.0, 1.0, depth)


@for_each(
    "given",
    [
        {"currency": "zcdp"},
        {"currency": "rdp", "orders": (3.0,)},
        {"currency": "rdp", "orders": (2.0, 4.0, 12.0)},
    ],
)
@for_each("trees", sweep([2, 6], quick=1))
def test_no_adaptive_tree_of_releases_exceeds_the_promise(given, trees):
    epsilon, delta = 1.0, 0.08
    used = 0.0
    for seed in range(trees):
        pick = random.Random(seed)

        def make(path):
            odometer = Odometer(epsilon, delta, **given)
            for event in path:
                odometer.spend(event)
            return odometer

        found = _tree(make, epsilon, 4, pick)
        assert found <= delta * (1 + 1e-12)
        used = max(used, found)
    assert used > 0.0  # the trees do reach beyond epsilon


def test_gaussian_noise_chosen_by_results_keeps_its_promise():
    """By quadrature: the second mu depends on the first result, on both sides of a threshold."""
    epsilon, delta = 1.0, 1e-3
    (budget,) = Gdp(Target(epsilon, delta)).budgets
    whole = float(budget)
    x = np.linspace(-12.0, 12.0, 200_001)
    density = np.exp(-(x**2) / 2.0) / math.sqrt(2.0 * math.pi)  # of Q
    largest = 0.0
    for share in (0.2, 0.5, 0.8):
        first = math.sqrt(share * whole)
        loss = first * x - first**2 / 2.0
        for threshold in (-1.0, 0.0, 1.0):
            for low, high in ((0.0, 1.0), (1.0, 0.0), (0.5, 1.0), (1.0, 1.0)):
                left = (1.0 - share) * whole * np.where(x < threshold, low, high)
                mu = np.sqrt(np.maximum(left, 1e-12))
                rest = epsilon - loss
                inner = np.exp(loss) * _cdf(mu / 2 - rest / mu) - np.exp(epsilon) * _cdf(
                    -mu / 2 - rest / mu
                )
                total = float((density * np.maximum(inner, 0.0)).sum() * (x[1] - x[0]))
                assert total <= delta * (1 + 1e-6)
                largest = max(largest, total)
    assert largest > 0.999 * delta  # spending all of it is tight


def _cdf(x):
    from scipy.special import ndtr

    return ndtr(x)
