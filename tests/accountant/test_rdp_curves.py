"""Renyi curves of single releases against quadrature and enumeration."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.engines.rdp.fixed_size import amplified
from privplan.accountant.guarantee import Neighbours

from ..cases import for_each
from .rdp_answers import ADD, REPLACE, bounds_tightly, divergence


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


@for_each(
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


@for_each(
    ("noise", "rate", "order"),
    [
        (1.0, 0.01, 1.03),
        (1.0, 0.01, 6.9),
        (0.3, 0.2, 1.7),
        (0.6, 0.9, 3.3),
        (5.0, 0.1, 2.6),
        (5.0, 0.5, 20.5),
        (30.0, 1e-3, 200.0),
    ],
)
def test_replaced_gaussian_equals_quadrature(noise: float, rate: float, order: float) -> None:
    event = ev.Poisson(rate, ev.Gaussian(noise))
    bounds_tightly(divergence(event, order, REPLACE), gaussian_truth(noise, rate, order, REPLACE))


@for_each(("noise", "rate", "order"), [(1.0, 0.1, 3.5), (0.6, 0.9, 1.5)])
def test_removing_is_the_worse_direction(noise: float, rate: float, order: float) -> None:
    ours = divergence(ev.Poisson(rate, ev.Gaussian(noise)), order)
    assert gaussian_truth(noise, rate, order, ADD, reverse=True) <= ours


@for_each("noise", [0.012, 0.03, 0.1])
@for_each("neighbours", [ADD, REPLACE])
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


@for_each("noise", [1e4, 1e8])
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


@for_each(
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


@for_each("order", ORDERS)
def test_laplace_equals_quadrature(order: float) -> None:
    for noise in (0.2, 10.0, 1e6):
        for event, shift, rate, neighbours, within in (
            (ev.Laplace(noise), 1 / noise, 1.0, ADD, 1e-5),
            (ev.Laplace(noise), 2 / noise, 1.0, REPLACE, 1e-5),
            (ev.Poisson(0.01, ev.Laplace(noise)), 1 / noise, 0.01, ADD, 1e-4),
            (ev.Poisson(0.5, ev.Laplace(noise)), 1 / noise, 0.5, ADD, 1e-4),
        ):
            truth = laplace_truth(shift, rate, order)
            bounds_tightly(divergence(event, order, neighbours), truth, within)


@for_each(("order", "rate"), [(1.05, 0.6), (2.0, 0.01), (7.3, 0.6)])
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


@for_each(("noise", "sensitivity"), [(1.0, 1), (0.5, 4)])
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


@for_each(("noise", "sensitivity"), [(0.3, 1), (1.0, 1), (1.5, 2)])
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


@for_each("order", [*ORDERS, 300.0])
@for_each("size", [1e-6, 0.1, 1.0, 8.0])
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


@for_each("size", [1e-4, 0.1, 1.0, 8.0])
@for_each("order", [1.0001, *ORDERS, 300.0])
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


@for_each(
    ("noise", "rate", "order"),
    [(1.0, 0.01, 2.04), (4.0, 0.05, 10.3), (0.5, 0.3, 1.4), (3.0, 0.9, 8.5), (20.0, 0.01, 60.0)],
)
def test_fixed_size_gaussian_equals_quadrature(noise: float, rate: float, order: float) -> None:
    event = ev.FixedSize(round(1000 * rate), 1000, ev.Gaussian(noise))
    bounds_tightly(divergence(event, order, REPLACE), fixed_size_profile(noise, rate, order))


@for_each(
    "event",
    [ev.Laplace(2.0), ev.DiscreteLaplace(1.0, 2), ev.Pure(1.0), ev.RandomizedResponse(1, 4)],
)
def test_the_sharper_fixed_size_bound_is_below_the_general_one(event: ev.Event) -> None:
    orders = np.array([2.0, 3.0, 8.0])
    ours = curve(ev.FixedSize(10, 1000, event), REPLACE).at(orders)
    general = amplified(curve(event, REPLACE), 0.01)(orders)
    assert (ours <= general).all()
    assert (ours > 0.0).all()
