"""Renyi curves against quadrature and enumeration, published epsilons, and a second library."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.composition import Leaf, leaves
from privplan.accountant.engines.base import Engine
from privplan.accountant.engines.gdp import GdpEngine
from privplan.accountant.engines.rdp import RdpEngine
from privplan.accountant.engines.rdp.conversion import best_delta, best_epsilon
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.engines.rdp.fixed_size import amplified
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.guarantee import NEIGHBOURS, Neighbours

from ..sweeps import sweep

ENGINE: Engine = RdpEngine()
ADD: Neighbours = "add-remove"
REPLACE: Neighbours = "replace-one"


def epsilon(event: ev.Event, delta: float = 1e-5, neighbours: Neighbours = ADD) -> float:
    bounds = ENGINE.epsilon(leaves(event), delta, neighbours).bounds
    assert bounds.lower == 0.0
    return bounds.upper


def delta(event: ev.Event, at: float, neighbours: Neighbours = ADD) -> float:
    return ENGINE.delta(leaves(event), at, neighbours).bounds.upper


def rounds(noise: float, rate: float, count: int) -> ev.Event:
    return ev.Repeat(count, ev.Poisson(rate, ev.Gaussian(noise)))


def divergence(event: ev.Event, order: float, neighbours: Neighbours = ADD) -> float:
    return float(curve(event, neighbours).at(np.array([order]))[0])


def bounds_tightly(ours: float, truth: float, excess: float = 1e-9) -> None:
    assert truth <= ours <= truth * (1.0 + excess)


# --- published values -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "at", "truth", "dp_accounting"),
    [
        (rounds(1.0, 0.01, 1000), 1e-5, 1.8282, 2.1014),
        (rounds(0.6, 0.001, 100_000), 1e-6, 6.9608, 7.756),
        (rounds(5.0, 0.1, 5000), 1e-5, 6.6769, 7.194),
        (ev.Repeat(100, ev.Gaussian(10.0)), 1e-5, 4.377178, 4.729),
        (rounds(30.0, 0.01, 1000), 1e-6, 0.03572, 0.041494),
    ],
)
def test_published_epsilons(event: ev.Event, at: float, truth: float, dp_accounting: float) -> None:
    assert truth <= epsilon(event, at) <= dp_accounting + 1e-3


def test_the_optimum_is_not_at_the_edge_of_a_grid() -> None:
    # dp_accounting's default orders stop at 1,024 and leave 0.0415; Opacus's at 63, and 0.1435.
    assert epsilon(rounds(30.0, 0.01, 1000), 1e-6) == pytest.approx(0.0393530, rel=1e-4)


@pytest.mark.parametrize(
    ("event", "truth"), [(rounds(1.0, 0.01, 1000), 2.8434), (rounds(5.0, 0.1, 5000), 15.42)]
)
def test_poisson_under_replace_one_is_above_its_pld(event: ev.Event, truth: float) -> None:
    assert truth <= epsilon(event, 1e-5, REPLACE) <= 1.15 * truth


def test_fixed_size_reproduces_the_published_bound_and_improves_on_it() -> None:
    base = curve(ev.Gaussian(1.0), REPLACE)
    published = amplified(base, 0.01)
    found = best_epsilon(lambda orders: 1000 * published(orders), 1e-5)
    assert found.value == pytest.approx(20.987, abs=5e-3)
    assert found.order == pytest.approx(2.0, abs=0.01)
    ours = epsilon(ev.Repeat(1000, ev.FixedSize(100, 10_000, ev.Gaussian(1.0))), 1e-5, REPLACE)
    assert 14.821 <= ours <= 17.0
    other = epsilon(ev.Repeat(200, ev.FixedSize(50, 1000, ev.Gaussian(4.0))), 1e-5, REPLACE)
    assert 1.737 <= other <= 1.91


# --- curves against independent oracles ------------------------------------------------------


def quadrature(
    density: Callable[[mp.mpf], mp.mpf], sigma: float, low: float, high: float
) -> mp.mpf:
    pieces = max(4, math.ceil((high - low) / sigma / 3))
    return mp.quad(density, [low + (high - low) * mp.mpf(i) / pieces for i in range(pieces + 1)])


def normal(x: mp.mpf, centre: int, sigma: mp.mpf) -> mp.mpf:
    z = (x - centre) / sigma
    return mp.exp(-z * z / 2) / (sigma * mp.sqrt(2 * mp.pi))


def gaussian_truth(
    noise: float, rate: float, order: float, neighbours: Neighbours, reverse: bool = False
) -> float:
    with mp.workdps(30):
        s, q, a = mp.mpf(noise), mp.mpf(rate), mp.mpf(order)
        second = (1 - q, q, -1) if neighbours == REPLACE else (mp.mpf(1), mp.mpf(0), 0)

        def density(x: mp.mpf) -> mp.mpf:
            p = (1 - q) * normal(x, 0, s) + q * normal(x, 1, s)
            r = second[0] * normal(x, 0, s) + second[1] * normal(x, second[2], s)
            return r**a * p ** (1 - a) if reverse else p**a * r ** (1 - a)

        reach = 2 * order if neighbours == REPLACE else order
        extra = reach if reverse else 1.0
        moment = quadrature(density, noise, -extra - 14 * noise, reach + 14 * noise)
        return float(mp.log(moment) / (a - 1))


@pytest.mark.parametrize(
    ("noise", "rate", "order"),
    [
        (1.0, 0.01, 1.03),
        (1.0, 0.01, 7.5),
        pytest.param(1.0, 0.01, 23.0, marks=pytest.mark.slow),
        (0.3, 0.2, 1.7),
        (0.6, 0.9, 3.3),
        (0.6, 0.001, 3.6),
        (5.0, 0.1, 4.1),
        (5.0, 0.5, 70.5),
        (30.0, 1e-4, 376.3),
        (30.0, 0.01, 1.001),
    ],
)
def test_sampled_gaussian_equals_quadrature(noise: float, rate: float, order: float) -> None:
    event = ev.Poisson(rate, ev.Gaussian(noise))
    truth = gaussian_truth(noise, rate, order, ADD)
    # The quadrature is allowed to miss 2e-17 of a moment, and adds that.
    allowed = 2e-17 / (order - 1.0)
    ours = divergence(event, order)
    assert truth <= ours
    bounds_tightly(max(ours - allowed, truth), truth)
    assert divergence(event, order, "zero-out") == divergence(event, order)


@pytest.mark.parametrize(
    ("noise", "rate", "order"),
    [
        (1.0, 0.01, 1.03),
        (1.0, 0.01, 6.9),
        (0.3, 0.2, 1.7),
        (0.6, 0.9, 3.3),
        (5.0, 0.1, 2.6),
        (5.0, 0.5, 40.5),
        (30.0, 1e-3, 200.0),
    ],
)
def test_replaced_gaussian_equals_quadrature(noise: float, rate: float, order: float) -> None:
    event = ev.Poisson(rate, ev.Gaussian(noise))
    bounds_tightly(divergence(event, order, REPLACE), gaussian_truth(noise, rate, order, REPLACE))


@pytest.mark.parametrize(("noise", "rate", "order"), [(1.0, 0.1, 3.5), (0.6, 0.9, 1.5)])
def test_removing_is_the_worse_direction(noise: float, rate: float, order: float) -> None:
    ours = divergence(ev.Poisson(rate, ev.Gaussian(noise)), order)
    assert gaussian_truth(noise, rate, order, ADD, reverse=True) <= ours


@pytest.mark.parametrize("noise", [0.012, 0.03, 0.1])
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_very_little_noise_is_bounded(noise: float, neighbours: Neighbours) -> None:
    x = np.arange(-1 - 14 * noise, 3 + 14 * noise, noise**2 / 12, dtype=np.longdouble)

    def log_normal(centre: int) -> np.ndarray:
        return -(((x - centre) / noise) ** 2) / 2

    def log_mixed(centre: int) -> np.ndarray:
        parts = np.log(np.longdouble(0.99)), np.log(np.longdouble(0.01))
        return np.logaddexp(log_normal(0) + parts[0], log_normal(centre) + parts[1])

    order = 1.0 + 4 * noise
    against = log_mixed(-1) if neighbours == REPLACE else log_normal(0)
    logs = order * log_mixed(1) + (1 - order) * against
    total = np.exp(logs - logs.max()).sum() * noise / 12 / math.sqrt(2 * math.pi)
    truth = float((np.log(total) + logs.max()) / (order - 1))
    ours = divergence(ev.Poisson(0.01, ev.Gaussian(noise)), order, neighbours)
    assert truth <= ours
    if noise > 0.02:  # below, the curve without sampling stands in
        assert ours <= truth * (1 + 1e-9)


@pytest.mark.parametrize("noise", [1e4, 1e8])
def test_very_much_noise_keeps_its_digits(noise: float) -> None:
    # R(a) = a q^2 (e^{1/s^2} - 1) / 2 to leading order; under replace-one four times that.
    for neighbours, factor in ((ADD, 1.0), (REPLACE, 4.0)):
        ours = divergence(ev.Poisson(1e-3, ev.Gaussian(noise)), 2.5, neighbours)
        assert ours == pytest.approx(factor * 2.5 * 1e-6 / noise**2 / 2, rel=1e-6)


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> float:
    """Direct sum in extended precision."""
    top = np.asarray(p, np.longdouble) ** order * np.asarray(q, np.longdouble) ** (1 - order)
    return float(np.log(top.sum()) / (order - 1))


ORDERS = (1.05, 1.5, 2.0, 3.7, 12.25)


def discrete_laplace(scale: float, centre: int, reach: int) -> np.ndarray:
    x = np.arange(-reach, reach + 1, dtype=np.longdouble)
    return np.tanh(np.longdouble(0.5) / scale) * np.exp(-np.abs(x - centre) / scale)


@pytest.mark.parametrize(
    ("noise", "sensitivity"),
    [(1.0, 1), (2.0, 3), (0.4, 5), (1.0, 200), pytest.param(1.0, 1200, marks=pytest.mark.slow)],
)
def test_discrete_laplace_equals_enumeration(noise: float, sensitivity: int) -> None:
    event = ev.DiscreteLaplace(noise, sensitivity)
    scale = noise * sensitivity
    reach = math.ceil(70 * scale) + 20
    for neighbours in (ADD, REPLACE):
        shift = sensitivity * (2 if neighbours == REPLACE else 1)
        p, q = discrete_laplace(scale, shift, reach), discrete_laplace(scale, 0, reach)
        for order in (1.5, 3.7):
            bounds_tightly(divergence(event, order, neighbours), renyi(p, q, order), 1e-5)
    p, q = discrete_laplace(scale, sensitivity, reach), discrete_laplace(scale, 0, reach)
    for order in (1.5, 3.7):
        truth = renyi(0.9 * q + 0.1 * p, q, order)
        bounds_tightly(divergence(ev.Poisson(0.1, event), order), truth, 1e-5)
        assert renyi(q, 0.9 * q + 0.1 * p, order) <= truth


def laplace_truth(t: float, rate: float, order: float) -> float:
    with mp.workdps(30):
        a, q, s = mp.mpf(order), mp.mpf(rate), mp.mpf(t)
        low = (1 - q + q * mp.exp(-s)) ** a / 2
        high = mp.exp(-s) * (1 - q + q * mp.exp(s)) ** a / 2
        middle = mp.quad(
            lambda x: mp.exp(-x) / 2 * (1 - q + q * mp.exp(2 * x - s)) ** a,
            [s * i / 4 for i in range(5)],
        )
        return float(mp.log(low + middle + high) / (a - 1))


@pytest.mark.parametrize("order", ORDERS)
def test_laplace_equals_quadrature(order: float) -> None:
    for noise in (0.2, 1.0, 10.0, 1e4, 1e6):
        bounds_tightly(
            divergence(ev.Laplace(noise), order), laplace_truth(1 / noise, 1.0, order), 1e-5
        )
        bounds_tightly(
            divergence(ev.Laplace(noise), order, REPLACE),
            laplace_truth(2 / noise, 1.0, order),
            1e-5,
        )
        for rate in (0.01, 0.5):
            bounds_tightly(
                divergence(ev.Poisson(rate, ev.Laplace(noise)), order),
                laplace_truth(1 / noise, rate, order),
                1e-4,
            )


@pytest.mark.parametrize("order", [1.05, 2.0, 7.3])
@pytest.mark.parametrize("rate", [0.01, 0.6])
def test_replaced_laplace_equals_quadrature(order: float, rate: float) -> None:
    for noise in (0.3, 1.0, 20.0):
        with mp.workdps(30):
            a, q, b = mp.mpf(order), mp.mpf(rate), mp.mpf(noise)

            def bell(x: mp.mpf, centre: int, scale: mp.mpf = b) -> mp.mpf:
                return mp.exp(-abs(x - centre) / scale) / (2 * scale)

            def density(x: mp.mpf, rate: mp.mpf = q, order: mp.mpf = a) -> mp.mpf:
                p = (1 - rate) * bell(x, 0) + rate * bell(x, 1)
                r = (1 - rate) * bell(x, 0) + rate * bell(x, -1)
                return p**order * r ** (1 - order)

            moment = mp.quad(density, [-mp.inf, -1, -0.5, 0, 0.5, 1, mp.inf])
            truth = float(mp.log(moment) / (a - 1))
        event = ev.Poisson(rate, ev.Laplace(noise))
        bounds_tightly(divergence(event, order, REPLACE), truth, 1e-4)


@pytest.mark.parametrize(("noise", "sensitivity"), [(1.0, 1), (0.5, 4)])
def test_replaced_discrete_laplace_equals_enumeration(noise: float, sensitivity: int) -> None:
    scale = noise * sensitivity
    reach = math.ceil(70 * scale)
    zero, up, down = (discrete_laplace(scale, k * sensitivity, reach) for k in (0, 1, -1))
    for rate in (0.01, 0.6):
        for order in (1.5, 3.7):
            truth = renyi((1 - rate) * zero + rate * up, (1 - rate) * zero + rate * down, order)
            event = ev.Poisson(rate, ev.DiscreteLaplace(noise, sensitivity))
            bounds_tightly(divergence(event, order, REPLACE), truth)


def discrete_gaussian(sigma: float, centre: int, reach: int) -> np.ndarray:
    x = np.arange(-reach, reach + 1, dtype=np.longdouble)
    weights = np.exp(-((x - centre) ** 2) / (2 * sigma * sigma))
    return weights / np.exp(-(x**2) / (2 * sigma * sigma)).sum()


@pytest.mark.parametrize(("noise", "sensitivity"), [(0.3, 1), (1.0, 1), (1.5, 2)])
def test_discrete_gaussian_bounds_enumeration(noise: float, sensitivity: int) -> None:
    event, sigma = ev.DiscreteGaussian(noise, sensitivity), noise * sensitivity
    reach = math.ceil(12 * sensitivity + 9 * sigma)
    q = discrete_gaussian(sigma, 0, reach)
    p, far = (discrete_gaussian(sigma, k * sensitivity, reach) for k in (1, 2))
    for order in (1.5, 2.0, 2.6, 5.0, 5.5):
        exact = order.is_integer()
        close = bounds_tightly if exact else lambda ours, truth: bounds_tightly(ours, truth, 9.0)
        close(divergence(event, order), renyi(p, q, order))
        close(divergence(event, order, REPLACE), renyi(far, q, order))
        close(divergence(ev.Poisson(0.2, event), order), renyi(0.8 * q + 0.2 * p, q, order))


@pytest.mark.parametrize("order", [*ORDERS, 300.0])
@pytest.mark.parametrize("size", [1e-6, 0.1, 1.0, 8.0])
def test_pure_and_randomized_response_equal_their_sums(order: float, size: float) -> None:
    with mp.workdps(40):
        a, e = mp.mpf(order), mp.mpf(size)
        for k in (2, 3, 50):
            moment = (mp.exp(a * e) + mp.exp((1 - a) * e) + k - 2) / (mp.exp(e) + k - 1)
            truth = float(mp.log(moment) / (a - 1))
            response = ev.RandomizedResponse(size, k)
            bounds_tightly(divergence(response, order, REPLACE), truth)
            if k == 2:
                bounds_tightly(divergence(ev.Pure(size), order), truth)
                assert divergence(ev.Local(size), order) == divergence(ev.Pure(size), order)
            assert divergence(response, order, ADD) == divergence(ev.Pure(size), order)
        q = mp.mpf("0.05")
        high, low = 1 - q + q * mp.exp(e), 1 - q + q * mp.exp(-e)
        moment = (high**a + mp.exp(e) * low**a) / (1 + mp.exp(e))
        truth = float(mp.log(moment) / (a - 1))
    for event in (ev.Pure(size), ev.RandomizedResponse(size, 7), ev.Exponential(size)):
        bounds_tightly(divergence(ev.Poisson(0.05, event), order), truth)


@pytest.mark.parametrize("size", [1e-4, 0.1, 1.0, 8.0])
@pytest.mark.parametrize("order", [1.0001, *ORDERS, 300.0])
def test_exponential_is_the_worst_two_point_mechanism(size: float, order: float) -> None:
    ours = divergence(ev.Exponential(size), order)
    t = np.linspace(0.0, size, 4001)[1:-1].astype(np.longdouble)
    share = np.expm1(size - t) / np.expm1(np.longdouble(size))
    excess = share * np.expm1(order * t) + (1 - share) * np.expm1(order * (t - size))
    truths = np.log1p(excess) / (order - 1)
    if order - 1 > 1e-3:
        bounds_tightly(ours, float(truths.max()), 1e-3)
    assert float(truths.max()) <= ours * (1 + 1e-9)
    assert ours <= divergence(ev.Pure(size), order)
    assert ours <= order * size**2 / 8 * (1 + 1e-9)


@pytest.mark.parametrize(("batch", "population"), [(1, 2), (1, 10)])
@pytest.mark.parametrize("noise", sweep([0.7, 2.0, 20.0], quick=1))
def test_fixed_size_covers_actual_data_sets(batch: int, population: int, noise: float) -> None:
    rate = batch / population
    event = ev.FixedSize(batch, population, ev.Gaussian(noise))
    x = np.linspace(-1 - 14 * noise, 1 + 30 * noise, 40_001)
    step = x[1] - x[0]

    def bell(centre: float) -> np.ndarray:
        z = (x - centre) / noise
        return np.exp(-z * z / 2) / (noise * math.sqrt(2 * math.pi)) * step

    for order in (1.3, 2.0, 3.5):
        ours = divergence(event, order, REPLACE)
        truths = []
        for others in (-1.0, 0.0, 1.0):
            p = (1 - rate) * bell(others) + rate * bell(1.0)
            q = (1 - rate) * bell(others) + rate * bell(-1.0)
            truths += [renyi(p, q, order), renyi(q, p, order)]
        assert max(truths) <= ours <= divergence(ev.Gaussian(noise), order, REPLACE)


def fixed_size_profile(noise: float, rate: float, order: float) -> float:
    """Both halves of the profile by quadrature (see the module `fixed_size`)."""
    with mp.workdps(30):
        s, q, a = mp.mpf(noise), mp.mpf(rate), mp.mpf(order)

        def term(p: mp.mpf, r: mp.mpf) -> mp.mpf:
            return p**a * r ** (1 - a) - r - a * (p - r)

        def upper(x: mp.mpf) -> mp.mpf:
            base, moved = normal(x, 0, s), normal(x, 2, s)
            return term((1 - q) * base + q * moved, base)

        def lower(x: mp.mpf) -> mp.mpf:
            base, moved = normal(x, 0, s), normal(x, 2, s)
            return term(moved, (1 - q) * moved + q * base)

        total = quadrature(upper, noise, 1.0, 2 * order + 14 * noise)
        total += quadrature(lower, noise, -14 * noise, 1.0)
        return float(mp.log1p(total) / (a - 1))


@pytest.mark.parametrize(
    ("noise", "rate", "order"),
    [(1.0, 0.01, 2.04), (4.0, 0.05, 10.3), (0.5, 0.3, 1.4), (3.0, 0.9, 30.5), (20.0, 0.01, 60.0)],
)
def test_fixed_size_gaussian_equals_quadrature(noise: float, rate: float, order: float) -> None:
    event = ev.FixedSize(round(1000 * rate), 1000, ev.Gaussian(noise))
    bounds_tightly(divergence(event, order, REPLACE), fixed_size_profile(noise, rate, order))


@pytest.mark.parametrize(
    "event",
    [ev.Laplace(2.0), ev.DiscreteLaplace(1.0, 2), ev.Pure(1.0), ev.RandomizedResponse(1, 4)],
)
def test_the_sharper_fixed_size_bound_is_below_the_general_one(event: ev.Event) -> None:
    orders = np.array([2.0, 3.0, 8.0])
    ours = curve(ev.FixedSize(10, 1000, event), REPLACE).at(orders)
    general = amplified(curve(event, REPLACE), 0.01)(orders)
    assert (ours <= general).all()
    assert (ours > 0.0).all()


# --- against a second library ------------------------------------------------------------------


def test_never_looser_than_dp_accounting_and_never_below_the_closed_form() -> None:
    from dp_accounting import dp_event as dp
    from dp_accounting.rdp import RdpAccountant

    drawn = random.Random(20)
    for _ in range(25):
        parts, theirs = [], []
        for _ in range(drawn.choice((1, 2))):
            noise = math.exp(drawn.uniform(math.log(0.5), math.log(20)))
            rate = drawn.choice((1.0, math.exp(drawn.uniform(math.log(1e-3), math.log(0.9)))))
            count = drawn.choice((1, 7, 400))
            parts.append(ev.Repeat(count, ev.Poisson(rate, ev.Gaussian(noise))))
            sampled = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
            theirs.append(dp.SelfComposedDpEvent(sampled, count))
        at = drawn.choice((1e-3, 1e-6, 1e-10))
        accountant = RdpAccountant().compose(dp.ComposedDpEvent(theirs))
        event = ev.Compose(parts)
        ours = epsilon(event, at)
        assert ours <= accountant.get_epsilon(at) * (1 + 1e-6)
        assert delta(event, 1.0) <= accountant.get_delta(1.0) * (1 + 1e-6) + 1e-300
        plain = [leaf for leaf in leaves(event) if isinstance(leaf.event, ev.Gaussian)]
        assert ours >= GdpEngine().epsilon(plain, at, ADD).bounds.lower


def test_one_sampled_round_is_above_its_closed_form() -> None:
    drawn = random.Random(21)
    for _ in range(200):
        noise = math.exp(drawn.uniform(math.log(0.2), math.log(10)))
        rate, at = drawn.uniform(0.001, 0.99), drawn.uniform(0.0, 3.0)
        z = math.exp(at) - 1 + rate
        x = noise**2 * math.log(z / rate) + 0.5
        tail = [0.5 * math.erfc(v / noise / math.sqrt(2)) for v in (x - 1, x)]
        truth = rate * tail[0] - z * tail[1]
        assert truth <= delta(ev.Poisson(rate, ev.Gaussian(noise)), at)


def test_composed_epsilon_is_above_a_lower_bound() -> None:
    from dp_accounting import dp_event as dp
    from dp_accounting.pld import PLDAccountant

    for noise, rate, count in ((1.0, 0.05, 100), (0.7, 0.3, 20), (3.0, 0.2, 300)):
        sampled = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
        accountant = PLDAccountant(value_discretization_interval=1e-3)
        accountant.compose(dp.SelfComposedDpEvent(sampled, count))
        near_truth = accountant.get_epsilon(1e-5)
        assert near_truth <= epsilon(rounds(noise, rate, count)) <= 1.3 * near_truth


# --- conversion and composition -----------------------------------------------------------------

EVENTS: tuple[tuple[ev.Event, Neighbours], ...] = (
    (ev.Repeat(10, ev.Gaussian(2.0)), ADD),
    (rounds(1.0, 0.01, 1000), ADD),
    pytest.param(rounds(1.0, 0.01, 1000), REPLACE, marks=pytest.mark.slow),
    (ev.Repeat(50, ev.Laplace(3.0)), ADD),
    (ev.Repeat(500, ev.Poisson(0.02, ev.Laplace(1.0))), ADD),
    (ev.Repeat(500, ev.Poisson(0.02, ev.Laplace(1.0))), REPLACE),
    (ev.Repeat(9, ev.DiscreteGaussian(2.0, 1)), ADD),
    (ev.Repeat(90, ev.Poisson(0.1, ev.DiscreteGaussian(2.0, 1))), ADD),
    (ev.Repeat(9, ev.DiscreteLaplace(2.0, 3)), ADD),
    (ev.Repeat(99, ev.RandomizedResponse(0.2, 5)), REPLACE),
    (ev.Repeat(99, ev.Exponential(0.2)), ADD),
    (ev.Repeat(99, ev.Pure(0.2)), ADD),
    (ev.ZCDP(0.1), ADD),
    (ev.Repeat(100, ev.FixedSize(10, 1000, ev.Gaussian(2.0))), REPLACE),
    (ev.Repeat(100, ev.FixedSize(10, 1000, ev.DiscreteGaussian(2.0, 1))), REPLACE),
)


@pytest.mark.parametrize(("event", "neighbours"), EVENTS)
def test_the_chosen_order_is_the_best_one(event: ev.Event, neighbours: Neighbours) -> None:
    (leaf,) = leaves(event)
    ours = epsilon(event, 1e-6, neighbours)
    b = np.exp(np.linspace(math.log(0.02), math.log(2000), 1000))
    values = leaf.count * curve(leaf.event, neighbours).at(1 + b)
    scan = values + np.log(b / (1 + b)) - (math.log(1e-6) + np.log(1 + b)) / b
    assert ours <= scan.min() * (1 + 1e-4)
    assert ours >= scan.min() * (1 - 1e-3)


@pytest.mark.parametrize(("event", "neighbours"), EVENTS)
def test_curves_have_the_shape_of_a_divergence(event: ev.Event, neighbours: Neighbours) -> None:
    (leaf,) = leaves(event)
    b = np.linspace(0.05, 20.0, 400)
    values = curve(leaf.event, neighbours).at(1 + b)
    assert (np.diff(values) >= -1e-9 * values[1:]).all()
    moments = b * values
    middle = (moments[:-2] + moments[2:]) / 2
    assert (moments[1:-1] <= middle * (1 + 1e-9)).all()


@pytest.mark.parametrize(("event", "neighbours"), EVENTS)
def test_delta_and_epsilon_undo_each_other(event: ev.Event, neighbours: Neighbours) -> None:
    found = epsilon(event, 1e-6, neighbours)
    assert delta(event, found, neighbours) == pytest.approx(1e-6, rel=2e-3)


def test_far_targets_stay_finite() -> None:
    event = rounds(1.0, 0.01, 1000)
    assert epsilon(event, 1e-300) < 400.0
    assert delta(event, 300.0) < 1e-200
    assert epsilon(ev.Gaussian(1e-6), 1e-5) == pytest.approx(5e11, rel=1e-3)
    assert 0.0 < epsilon(ev.Gaussian(1e9), 1e-30) < 1e-7


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e200])
@pytest.mark.parametrize("neighbours", [ADD, REPLACE])
def test_absurd_sizes_are_answered_and_bounded(size: float, neighbours: Neighbours) -> None:
    gaussian, laplace, small = ev.Gaussian(size), ev.Laplace(size), ev.Exponential(size)
    sampled: tuple[ev.Event, ...] = (ev.Poisson(0.1, gaussian), ev.Poisson(0.1, laplace))
    if neighbours == REPLACE:
        sampled += (ev.FixedSize(1, 9, gaussian), ev.FixedSize(1, 9, laplace))
    else:
        sampled += (ev.Poisson(0.1, small), ev.Poisson(0.1, ev.Local(size)))
    for event in (gaussian, laplace, ev.Pure(size), small, ev.ZCDP(size), *sampled):
        assert epsilon(event, 1e-5, neighbours) >= 0.0
        assert 0.0 < delta(event, 0.0, neighbours) <= 1.0
    least = GdpEngine().delta(leaves(ev.Gaussian(1e140)), 0.0, neighbours).bounds.lower
    assert least <= delta(ev.Gaussian(1e140), 0.0, neighbours)


def test_pure_composition_is_the_limit_of_infinite_order() -> None:
    event = ev.Compose([ev.Repeat(3, ev.Pure(0.25)), ev.Laplace(2.0)])
    assert epsilon(event, 0.0) == pytest.approx(1.25, rel=1e-12)
    assert epsilon(event, 0.0) >= 1.25
    assert epsilon(event, 1e-200) <= epsilon(event, 0.0)
    assert delta(event, 1.26) == 0.0
    assert epsilon(ev.Poisson(0.1, ev.Pure(1.0)), 0.0) == pytest.approx(
        math.log1p(0.1 * math.expm1(1.0)), rel=1e-9
    )
    assert epsilon(ev.Gaussian(1.0), 0.0) == math.inf
    for noise in (2.0, 3.0, 7.0, 0.3, 1e-7):
        for event in (ev.Laplace(noise), ev.DiscreteLaplace(noise, 2)):
            assert Fraction(epsilon(event, 0.0)) >= 1 / Fraction(noise)


def test_approximate_sets_its_delta_aside() -> None:
    single = ev.Approximate(1.0, 1e-5)
    assert epsilon(single, 1e-5) == 1.0
    assert epsilon(single, 0.9e-5) == math.inf
    assert delta(single, 1.0) == 1e-5
    assert 1e-5 + 1e-6 < delta(single, 0.99) < 1.0
    assert epsilon(ev.Repeat(3, single), 3e-5) == pytest.approx(3.0, rel=1e-9)
    assert 3.0 < epsilon(ev.Compose([ev.Pure(2.5), single]), 1.0000001e-5) <= 3.5 * (1 + 1e-12)
    assert delta(ev.Repeat(3, single), 3.1) == pytest.approx(1 - (1 - 1e-5) ** 3, rel=1e-9)
    assert delta(ev.Approximate(1.0, 1.0), 5.0) == 1.0


def test_a_sample_of_approximate_is_amplified() -> None:
    event = ev.Poisson(0.1, ev.Approximate(1.0, 1e-5))
    assert delta(event, math.log1p(0.1 * math.expm1(1.0)) + 1e-9) == pytest.approx(1e-6, rel=1e-9)
    # The worst pair: everything with probability delta, binary randomized response otherwise.
    p = np.array([1e-5, 0.0, (1 - 1e-5) * math.e / (1 + math.e), (1 - 1e-5) / (1 + math.e)])
    q = p[[1, 0, 3, 2]]
    mixed = 0.9 * q + 0.1 * p
    for at in (0.0, 0.05, 0.1):
        for one, other in ((mixed, q), (q, mixed)):
            truth = np.maximum(one - math.exp(at) * other, 0.0).sum()
            assert truth <= delta(event, at)


def test_the_ends_of_the_range() -> None:
    assert epsilon(ev.Compose([]), 0.0) == 0.0
    assert delta(ev.Compose([]), 0.0) == 0.0
    assert epsilon(ev.Poisson(0.0, ev.Gaussian(1.0)), 0.0) == 0.0
    assert ENGINE.epsilon([Leaf(ev.Poisson(1.0, ev.Gaussian(1.0)), 1)], 1e-5, ADD).bounds == (
        ENGINE.epsilon([Leaf(ev.Gaussian(1.0), 1)], 1e-5, ADD).bounds
    )
    for event in (ev.NoGuarantee("no noise"), ev.Poisson(0.1, ev.NoGuarantee("no noise"))):
        assert epsilon(event, 1e-5) == math.inf
        assert epsilon(event, 1.0) == 0.0
        assert delta(event, 50.0) == 1.0
    for nothing in (ev.Pure(0.0), ev.Exponential(0.0), ev.RandomizedResponse(0.0, 3), ev.ZCDP(0.0)):
        assert epsilon(nothing, 0.0, REPLACE) == 0.0
    assert epsilon(ev.FixedSize(5, 5, ev.Gaussian(1.0)), 1e-5, REPLACE) == epsilon(
        ev.Gaussian(1.0), 1e-5, REPLACE
    )
    huge = ENGINE.epsilon([Leaf(ev.Gaussian(1.0), 10**400)], 1e-5, ADD).bounds
    assert huge.upper == math.inf


def test_conversion_at_a_single_order_matches_the_formula() -> None:
    # A curve that is finite at one order only leaves nothing to choose.
    def at(orders: np.ndarray) -> np.ndarray:
        return np.where(np.abs(np.log(orders - 1.0)) < 1e-12, 0.7, np.inf)

    found = best_epsilon(at, 1e-4)
    assert found.order == pytest.approx(2.0)
    assert found.value == pytest.approx(0.7 + math.log(0.5) - (math.log(1e-4) + math.log(2.0)))
    assert best_delta(at, 3.0).value == pytest.approx(math.exp(0.7 - 3.0) * 0.25)


def test_total_variation_answers_near_epsilon_zero() -> None:
    # Between N(0) and N(mu): the distance is 2 Phi(mu/2) - 1 < mu/2 = sqrt(R(1)/2).
    event = ev.Gaussian(1000.0)
    truth = math.erf(1e-3 / 2 / math.sqrt(2))
    assert truth <= delta(event, 0.0) <= 0.501e-3
    assert delta(ev.Gaussian(0.2), 0.0) <= math.sqrt(1 - math.exp(-12.5)) * (1 + 1e-6)
    assert epsilon(event, 0.502e-3) == 0.0
    assert epsilon(event, truth * 0.999) > 0.0
    assert "Pinsker" in ENGINE.delta(leaves(event), 0.0, ADD).steps[-1].source


# --- laws ------------------------------------------------------------------------------------

noises = st.floats(0.2, 50.0)
rates = st.floats(1e-4, 1.0)
counts = st.integers(1, 10_000)
more = st.floats(1.0, 3.0)
relations = st.sampled_from(NEIGHBOURS)


@settings(max_examples=40, deadline=None)
@given(noises, rates, counts, more, relations)
def test_epsilon_is_monotone(
    noise: float, rate: float, count: int, factor: float, neighbours: Neighbours
) -> None:
    def at(n: float, r: float, c: int) -> float:
        return epsilon(rounds(n, min(r, 1.0), c), 1e-5, neighbours)

    here = at(noise, rate, count) * (1 + 1e-4) + 1e-9
    assert at(noise * factor, rate, count) <= here
    assert at(noise, rate / factor, count) <= here
    assert at(noise, rate, math.ceil(count / factor)) <= here


@settings(max_examples=25, deadline=None)
@given(noises, st.floats(1e-4, 0.99), st.integers(1, 100))
def test_relations_are_ordered(noise: float, rate: float, count: int) -> None:
    event = rounds(noise, rate, count)
    assert epsilon(event, 1e-5, ADD) == epsilon(event, 1e-5, "zero-out")
    assert epsilon(event, 1e-5, ADD) <= epsilon(event, 1e-5, REPLACE) * (1 + 1e-6)
    assert epsilon(event, 1e-5, REPLACE) <= (
        epsilon(ev.Repeat(count, ev.Gaussian(noise)), 1e-5, REPLACE) * (1 + 1e-4)
    )


@settings(max_examples=25, deadline=None)
@given(st.permutations([0, 1, 2, 3]), st.floats(1e-9, 0.1))
def test_the_order_of_composition_is_irrelevant(order: list[int], at: float) -> None:
    parts = (ev.Gaussian(3.0), rounds(1.0, 0.01, 50), ev.Laplace(4.0), ev.Approximate(0.1, 1e-12))
    shuffled = epsilon(ev.Compose([parts[i] for i in order]), at)
    assert shuffled == pytest.approx(epsilon(ev.Compose(parts), at), rel=1e-12)


# --- refusals, derivations, speed ------------------------------------------------------------


@pytest.mark.parametrize(
    "inner",
    [
        ev.Pure(1.0),
        ev.Local(1.0),
        ev.RandomizedResponse(1.0, 4),
        ev.Exponential(1.0),
        ev.Approximate(1.0, 1e-6),
    ],
)
def test_bare_numbers_are_not_sampled_under_replace_one(inner: ev.Event) -> None:
    with pytest.raises(Unsupported) as refusal:
        epsilon(ev.Poisson(0.1, inner), 1e-5, REPLACE)
    assert inner.type in refusal.value.what
    assert "present with the unit absent" in refusal.value.why
    assert "account under add-remove" in refusal.value.next_step
    assert epsilon(ev.Poisson(0.1, inner), 1e-5, ADD) < epsilon(inner, 1e-5, ADD)


@pytest.mark.parametrize(
    ("event", "neighbours", "words"),
    [
        (ev.Poisson(0.1, ev.DiscreteGaussian(1.0, 1)), REPLACE, "pld can"),
        (ev.Poisson(0.1, ev.ZCDP(1.0)), ADD, "sampling of `zcdp`"),
        (ev.Poisson(0.0, ev.ZCDP(1.0)), ADD, "sampling of `zcdp`"),
        (ev.Poisson(0.1, ev.FixedSize(1, 9, ev.Gaussian(1.0))), REPLACE, "sampling of `fixed"),
        (ev.FixedSize(1, 9, ev.ZCDP(1.0)), ADD, "under add-remove"),
        (ev.FixedSize(1, 9, ev.Repeat(5, ev.Pure(0.5))), "zero-out", "for `repeat`"),
        (ev.FixedSize(1, 9, ev.BestOf("fixed", 3.0, ev.Pure(0.5))), "zero-out", "`best-of`"),
        (ev.FixedSize(1, 9, ev.Compose((ev.Pure(1.0), ev.Laplace(2.0)))), "zero-out", "`compose`"),
        (ev.FixedSize(1, 9, ev.Approximate(1.0, 0.1)), REPLACE, "of `approximate`"),
        (ev.FixedSize(1, 9, ev.Poisson(0.5, ev.Gaussian(1.0))), REPLACE, "of `poisson`"),
        (ev.ShuffledBatches(3, ev.Gaussian(1.0)), ADD, "under add-remove"),
        (ev.Group(2, ev.Poisson(0.1, ev.ZCDP(1.0))), ADD, "sampling of `zcdp`"),
    ],
)
def test_what_is_not_proven_is_refused(event: ev.Event, neighbours: Neighbours, words: str) -> None:
    with pytest.raises(Unsupported, match=words) as refusal:
        epsilon(event, 1e-5, neighbours)
    assert refusal.value.next_step


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(InvalidInput, match="`delta`"):
        epsilon(ev.Gaussian(1.0), -0.1)
    with pytest.raises(InvalidInput, match="`epsilon`"):
        delta(ev.Gaussian(1.0), math.nan)


def test_the_derivation_names_every_step() -> None:
    steps = ENGINE.epsilon(leaves(rounds(1.0, 0.01, 1000)), 1e-5, ADD).steps
    assert [step.stage for step in steps] == ["mechanism", "sampling", "composition", "conversion"]
    assert "1000 releases" in steps[2].statement
    assert "Order 7.7" in steps[3].statement
    assert all("arXiv" in step.source for step in steps)


def test_a_thousand_rounds_take_less_than_twenty_milliseconds() -> None:
    event = leaves(rounds(1.0, 0.01, 1000))
    taken = []
    for _ in range(10):
        start = time.perf_counter()
        ENGINE.epsilon(event, 1e-5, ADD)
        taken.append(time.perf_counter() - start)
    assert min(taken) < 0.02


def test_slow_scipy_modules_are_not_loaded() -> None:
    code = (
        "import sys, privplan.accountant.engines.rdp, privplan.accountant.engines.gdp;"
        "print([m for m in ('scipy.optimize', 'scipy.stats', 'torch') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def _sampled_laplace_delta(rate, scale, eps):
    """The exact delta of one Poisson-sampled Laplace release under replace-one, in mpmath.

    The loss is constant beyond +-1 and increases between, so the worst set is a half line.
    """
    with mp.workdps(60):
        q, b, e = mp.mpf(rate), mp.mpf(scale), mp.e ** mp.mpf(eps)

        def above(x, centre):
            z = (x - centre) / b
            return 1 - mp.exp(z) / 2 if z < 0 else mp.exp(-z) / 2

        def gain(x):
            p = (1 - q) * above(x, 0) + q * above(x, 1)
            return p - e * ((1 - q) * above(x, 0) + q * above(x, -1))

        floor = 1 - q + q * mp.exp(-1 / b)
        ratio = (e * floor - (1 - q)) / q
        x = (b * mp.log(ratio) + 1) / 2 if ratio > 0 else mp.mpf(-1)
        return max(gain(min(max(x, mp.mpf(0)), mp.mpf(1))), mp.mpf(0)) if x < 1 else mp.mpf(0)


@pytest.mark.parametrize(
    ("rate", "scale", "delta"),
    [
        (1 - 1e-12, 0.028, 1e-30),
        (1 - 1e-13, 0.033, 1e-6),
        (1 - 1e-15, 0.028, 1e-30),
        (0.999999999, 0.0575, 1e-100),
        (1e-9, 1.0410288864065325, 1e-14),
        (1e-6, 18.860423001690044, 1e-14),
    ],
)
def test_rates_near_one_and_tiny_losses_lose_no_digits(rate, scale, delta):
    """Once 1 - rate was lost to rounding, and once log(1 - 1/a) at large orders."""
    event = ev.Poisson(rate, ev.Laplace(scale))
    for engine in (None, "rdp"):
        found = account(event, delta=delta, neighbours="replace-one", engine=engine).epsilon
        assert _sampled_laplace_delta(rate, scale, found.upper) <= delta


@pytest.mark.parametrize("epsilon", [1e-12, 1e-8, 1e-4])
@pytest.mark.parametrize("share", [0.2, 0.9, 0.99])
def test_a_tiny_pure_epsilon_keeps_its_delta(epsilon, share):
    with mp.workdps(60):
        at, whole = mp.mpf(epsilon * share), mp.mpf(epsilon)
        exact = (mp.exp(whole) - mp.exp(at)) / (1 + mp.exp(whole))
    for engine in (None, "rdp"):
        assert (
            account(ev.Pure(epsilon), epsilon=epsilon * share, engine=engine).delta.upper >= exact
        )
