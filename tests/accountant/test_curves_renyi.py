"""`rdp`: Renyi curves from both sides, against sums over the line and dp_accounting."""

from __future__ import annotations

import math

import dp_accounting
import mpmath as mp
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.guarantee import Neighbours

from ..cases import for_each
from .rdp_answers import ADD, REPLACE

ORDERS = (1.05, 1.5, 2.0, 2.7, 4.0, 9.3, 32.0)


def sampled_gaussian(
    noise: float, rate: float, order: float, neighbours: Neighbours = ADD, reverse: bool = False
) -> mp.mpf:
    """Return R(a) by equal steps on the line, with 30 digits, of one direction."""
    with mp.workdps(30):
        s, q, a = mp.mpf(noise), mp.mpf(rate), mp.mpf(order)
        reach = (2 * order if neighbours == REPLACE else order) + 1
        step = mp.mpf(noise) / 6
        total = mp.mpf(0)
        for i in range(int(-(reach + 13 * noise) / step), int((reach + 13 * noise) / step) + 1):
            x = i * step

            def normal(centre: int, x: mp.mpf = x) -> mp.mpf:
                return mp.exp(-(((x - centre) / s) ** 2) / 2)

            p = (1 - q) * normal(0) + q * normal(1)
            r = normal(0) if neighbours != REPLACE else (1 - q) * normal(0) + q * normal(-1)
            p, r = (r, p) if reverse else (p, r)
            total += p**a * r ** (1 - a)
        return mp.log(total * step / (s * mp.sqrt(2 * mp.pi))) / (a - 1)


@for_each("neighbours", [ADD, REPLACE])
@for_each(
    ("noise", "rate"), [(1.0, 0.01), (0.7, 0.4), pytest.param(3.0, 0.1, marks=pytest.mark.slow)]
)
def test_sampled_gaussian_lies_between_its_ends(
    noise: float, rate: float, neighbours: Neighbours
) -> None:
    orders = (1.05, 2.7, 6.5)
    curve = pp.rdp(ev.Poisson(rate, ev.Gaussian(noise)), orders, neighbours=neighbours)
    for order, lower, upper in zip(orders, curve.lower, curve.upper, strict=True):
        truth = sampled_gaussian(noise, rate, order, neighbours)
        assert lower <= truth <= upper
        assert upper - lower <= 1e-9 * upper + 1e-15
        # The other direction is never the worse one.
        assert sampled_gaussian(noise, rate, order, neighbours, reverse=True) <= upper


def laplace(t: mp.mpf, a: mp.mpf) -> mp.mpf:
    return mp.log(
        a / (2 * a - 1) * mp.exp((a - 1) * t) + (a - 1) / (2 * a - 1) * mp.exp(-a * t)
    ) / (a - 1)


def response(epsilon: mp.mpf, a: mp.mpf, k: int = 2) -> mp.mpf:
    e = mp.exp(epsilon)
    return mp.log((e**a + e ** (1 - a) + k - 2) / (e + k - 1)) / (a - 1)


@for_each(
    ("event", "neighbours", "truth"),
    [
        (ev.Gaussian(1.7), ADD, lambda a: a / mp.mpf(1.7) ** 2 / 2),
        (ev.Gaussian(1.7), REPLACE, lambda a: 4 * a / mp.mpf(1.7) ** 2 / 2),
        (ev.ZCDP(0.3), ADD, lambda a: a * mp.mpf(0.3)),
        (ev.Laplace(2.0), ADD, lambda a: laplace(mp.mpf(1) / 2, a)),
        (ev.Laplace(2.0), REPLACE, lambda a: laplace(mp.mpf(1), a)),
        (ev.Pure(0.8), ADD, lambda a: response(mp.mpf(0.8), a)),
        (ev.RandomizedResponse(0.8, 5), REPLACE, lambda a: response(mp.mpf(0.8), a, 5)),
    ],
)
def test_closed_forms_lie_between_both_ends(event, neighbours, truth) -> None:
    curve = pp.rdp(ev.Repeat(3, event), ORDERS, neighbours=neighbours)
    with mp.workdps(30):
        for order, lower, upper in zip(ORDERS, curve.lower, curve.upper, strict=True):
            assert lower <= 3 * truth(mp.mpf(order)) <= upper
    np.testing.assert_allclose(curve.lower, curve.upper, rtol=1e-9)


def discrete_gaussian(s: float, shift: int, order: float) -> mp.mpf:
    with mp.workdps(30):
        a, v = mp.mpf(order), 2 * mp.mpf(s) ** 2
        reach = int(order * shift + 15 * s) + 2
        weights = range(-reach, reach + 1)
        total = sum(mp.exp(-(mp.mpf(x) ** 2) / v) for x in weights)
        moment = sum(
            mp.exp(-(a * mp.mpf(x - shift) ** 2 + (1 - a) * mp.mpf(x) ** 2) / v) for x in weights
        )
        return mp.log(moment / total) / (a - 1)


@for_each("order", [1.2, 1.8, 2.0, 2.5, 3.0, 3.9, 7.5])
@for_each("noise", [0.3, 1.0])
def test_discrete_gaussian_lies_between_its_ends(noise: float, order: float) -> None:
    curve = pp.rdp(ev.DiscreteGaussian(noise, 2), [order])
    truth = discrete_gaussian(2 * noise, 2, order)
    assert curve.lower[0] <= truth <= curve.upper[0]
    if order == int(order):
        assert curve.lower[0] >= curve.upper[0] * (1.0 - 1e-10)


def enumerated(p: list[mp.mpf], q: list[mp.mpf], order: float) -> mp.mpf:
    """Return R(a) of two distributions on a few outcomes, the larger of both directions."""
    a = mp.mpf(order)
    return max(
        mp.log(sum(x**a * y ** (1 - a) for x, y in zip(first, second, strict=True))) / (a - 1)
        for first, second in ((p, q), (q, p))
    )


@for_each("rate", [1e-3, 0.3, 0.9])
@for_each("epsilon", [0.01, 1.0, 6.0])
def test_sampled_binary_response_equals_its_enumeration(rate: float, epsilon: float) -> None:
    curve = pp.rdp(ev.Poisson(rate, ev.Pure(epsilon)), ORDERS)
    with mp.workdps(40):
        truthful = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
        absent = [1 - truthful, truthful]
        present = [mp.mpf(rate) * truthful + (1 - mp.mpf(rate)) * absent[0]]
        present.append(1 - present[0])
        for order, lower, upper in zip(ORDERS, curve.lower, curve.upper, strict=True):
            assert lower <= enumerated(present, absent, order) <= upper
    np.testing.assert_allclose(curve.lower, curve.upper, rtol=1e-9)


@for_each("neighbours", [ADD, REPLACE])
def test_discrete_laplace_equals_its_enumeration(neighbours: Neighbours) -> None:
    curve = pp.rdp(ev.DiscreteLaplace(1.5, 2), ORDERS, neighbours=neighbours)
    shift = 4 if neighbours == REPLACE else 2
    with mp.workdps(40):
        weights = range(-300, 301)
        p = [mp.exp(-abs(mp.mpf(x)) / 3) for x in weights]
        total = sum(p)
        p, q = ([mp.exp(-abs(mp.mpf(x - c)) / 3) / total for x in weights] for c in (0, shift))
        for order, lower, upper in zip(ORDERS, curve.lower, curve.upper, strict=True):
            assert lower <= enumerated(p, q, order) <= upper
    np.testing.assert_allclose(curve.lower, curve.upper, rtol=1e-9)


@for_each("order", [1.3, 4.0])
def test_laplace_equals_an_integral_over_the_line(order: float) -> None:
    curve = pp.rdp(ev.Laplace(0.8), [order])
    with mp.workdps(25):
        a, b = mp.mpf(order), mp.mpf(0.8)

        def integrand(x: mp.mpf) -> mp.mpf:
            return mp.exp(-(a * abs(x - 1) + (1 - a) * abs(x)) / b) / (2 * b)

        truth = mp.log(mp.quad(integrand, [-mp.inf, 0, 1, mp.inf])) / (a - 1)
        assert curve.lower[0] <= truth <= curve.upper[0]


def test_what_overflows_is_infinite_above_and_nothing_below() -> None:
    curve = pp.rdp(ev.Gaussian(1e-200), [2.0])
    assert curve.upper.tolist() == [math.inf]
    assert curve.lower.tolist() == [0.0]
    tiny = pp.rdp(ev.Gaussian(1e200), [2.0])
    assert tiny.lower[0] == 0.0 < tiny.upper[0] < 1e-290


def test_whole_orders_are_those_of_dp_accounting() -> None:
    """Where it is exact; what it adds at fractional orders is not."""
    orders = [2, 3, 8, 32, 64]
    event = ev.Compose(
        [ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0))), ev.Repeat(7, ev.Gaussian(5.0))]
    )
    theirs = RdpAccountant(orders)
    theirs.compose(event.to_dp_event())
    curve = pp.rdp(event, orders)
    np.testing.assert_allclose(curve.upper, theirs.rdp, rtol=1e-9)
    assert isinstance(event.to_dp_event(), dp_accounting.ComposedDpEvent)


def test_releases_add_up() -> None:
    parts = [ev.Laplace(2.0), ev.Poisson(0.1, ev.Gaussian(2.0)), ev.DiscreteLaplace(2.0, 3)]
    whole = pp.rdp(ev.Compose([*parts, ev.Repeat(4, parts[0])]), ORDERS)
    apart = [pp.rdp(part, ORDERS) for part in parts]
    for end in ("lower", "upper"):
        first, second, third = (getattr(each, end) for each in apart)
        np.testing.assert_allclose(getattr(whole, end), 5 * first + second + third, rtol=1e-10)


@for_each("neighbours", [ADD, REPLACE, "zero-out"])
def test_a_curve_never_falls(neighbours: Neighbours) -> None:
    orders = np.linspace(1.01, 40.0, 300)
    for event in (ev.Laplace(0.5), ev.Poisson(0.05, ev.Gaussian(0.8)), ev.DiscreteGaussian(1.0, 1)):
        try:
            curve = pp.rdp(event, orders, neighbours=neighbours)
        except Unsupported:
            continue
        assert (np.diff(curve.upper) >= -1e-10 * curve.upper[1:]).all()
        assert (curve.lower <= curve.upper).all()


@for_each("order", [38.0, 64.0, 256.0, 5000.0])
def test_a_client_that_is_seen_at_large_orders(order: float) -> None:
    """R(a) = log(1 - q + q e^((a-1) a / 2)) / (a - 1), with 40 digits."""
    rate = 0.1
    with mp.workdps(40):
        moment = 1 - rate + rate * mp.exp(mp.mpf(order) * (order - 1) / 2)
        truth = mp.log(moment) / (order - 1)
    curve = pp.rdp(ev.ClientSampled(rate, ev.Gaussian(1.0)), [order])
    assert curve.lower[0] <= truth <= curve.upper[0]
    assert curve.lower[0] >= truth * (1 - 1e-10)


def test_lower_ends_never_fall_with_the_order() -> None:
    """At orders that no quadrature reaches, what holds at smaller ones still does."""
    orders = np.geomspace(1.01, 1e9, 60)
    for event in (ev.Poisson(0.1, ev.Gaussian(1.0)), ev.ClientSampled(0.1, ev.Laplace(1.0))):
        shuffled = np.random.default_rng(7).permutation(orders)
        curve = pp.rdp(event, shuffled)
        ascending = np.argsort(shuffled)
        assert (np.diff(curve.lower[ascending]) >= 0.0).all()
        assert (curve.lower <= curve.upper).all()
        assert curve.lower[ascending][-1] > 0.0


def test_many_orders_are_those_asked_one_by_one() -> None:
    event = ev.Poisson(0.02, ev.Gaussian(1.3))
    orders = np.linspace(1.1, 30.0, 300)[::-1]
    curve = pp.rdp(event, orders)
    assert curve.orders.tolist() == orders.tolist()
    for index in (0, 127, 128, 299):
        single = pp.rdp(event, [orders[index]])
        assert curve.upper[index] == pytest.approx(single.upper[0], rel=1e-10)


def test_what_has_a_delta_has_no_divergence() -> None:
    curve = pp.rdp(ev.Compose([ev.Gaussian(1.0), ev.Approximate(1.0, 1e-6)]), [2.0])
    assert curve.upper.tolist() == [math.inf]
    assert curve.lower[0] == pytest.approx(1.0)
    assert "privacy_profile" in curve.warnings[0]


def test_the_best_of_several_runs_has_no_lower_end() -> None:
    curve = pp.rdp(ev.BestOf("fixed", 3.0, ev.Gaussian(1.0)), [2.0])
    assert (curve.lower.tolist(), curve.upper[0]) == ([0.0], pytest.approx(3.0))


def test_a_curve_becomes_an_event() -> None:
    event = ev.Repeat(100, ev.Poisson(0.01, ev.Gaussian(1.0)))
    orders = np.concatenate((np.arange(2.0, 32.0, 0.125), [1.5, 1.5, 100.0]))
    curve = pp.rdp(event, orders)
    listed = curve.event()
    assert listed.orders == tuple(np.unique(orders))
    direct = pp.account(event, delta=1e-5, engine="rdp").epsilon.upper
    through = pp.account(listed, delta=1e-5).epsilon.upper
    assert direct <= through <= 1.001 * direct
    with pytest.raises(InvalidInput, match="finite"):
        pp.rdp(ev.NoGuarantee("clear text"), [2.0]).event()


@for_each(
    ("refused", "field"),
    [
        (([1.0], [math.inf], [math.nan], [True]), r"orders\[0\]"),
        (([2.0, 0.5],), r"orders\[1\]"),
        (([], "2", 3.0), "orders"),
    ],
)
def test_orders_are_checked(refused, field: str) -> None:
    for orders in refused:
        with pytest.raises(InvalidInput, match=f"`{field}`"):
            pp.rdp(ev.Gaussian(1.0), orders)


def test_other_values_are_checked() -> None:
    with pytest.raises(InvalidInput, match="`event`"):
        pp.rdp(1.0, [2.0])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="`neighbours`"):
        pp.rdp(ev.Gaussian(1.0), [2.0], neighbours="friends")
    with pytest.raises(Unsupported):
        pp.rdp(ev.Poisson(0.1, ev.ZCDP(1.0)), [2.0])
