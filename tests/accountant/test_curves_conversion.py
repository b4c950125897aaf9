"""`from_rdp`: both conversions against their formulas, dp_accounting and the truth."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as theirs
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput

from ..cases import for_each

ORDERS = (1.25, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0, 256.0)


def improved(order: float, value: float, delta: float) -> mp.mpf:
    """Proposition 12, solved for epsilon, with 40 digits."""
    a, r, d = mp.mpf(order), mp.mpf(value), mp.mpf(delta)
    return r + mp.log1p(-1 / a) - mp.log(d * a) / (a - 1)


def improved_delta(order: float, value: float, epsilon: float) -> mp.mpf:
    """Proposition 12 as it is printed."""
    a, r, e = mp.mpf(order), mp.mpf(value), mp.mpf(epsilon)
    return mp.exp((a - 1) * (r - e)) / (a - 1) * (1 - 1 / a) ** a


def classical(order: float, value: float, delta: float) -> mp.mpf:
    """Proposition 3 as it is printed."""
    return mp.mpf(value) + mp.log(1 / mp.mpf(delta)) / (mp.mpf(order) - 1)


@settings(max_examples=60, deadline=None)
@given(st.floats(1.01, 500.0), st.floats(0.0, 50.0), st.floats(1e-200, 0.99))
def test_each_conversion_is_its_formula_rounded_up(order: float, value: float, delta: float):
    with mp.workdps(40):
        for name, formula in (("improved", improved), ("classical", classical)):
            truth = max(formula(order, value, delta), mp.mpf(0))
            ours = pp.from_rdp([order], [value], delta=delta, conversion=name).epsilon.upper
            assert truth <= ours <= truth + 1e-12 * (1 + value + abs(math.log(delta)) / (order - 1))


@settings(max_examples=60, deadline=None)
@given(st.floats(1.01, 100.0), st.floats(0.0, 5.0), st.floats(0.0, 10.0))
@example(98.0, 2.25, 9.75)
def test_delta_is_its_formula_rounded_up(order: float, value: float, epsilon: float) -> None:
    with mp.workdps(40):
        first = min(improved_delta(order, value, epsilon), mp.mpf(1))
        second = min(mp.exp((mp.mpf(order) - 1) * (mp.mpf(value) - mp.mpf(epsilon))), mp.mpf(1))
        for name, truth in (("improved", first), ("classical", second)):
            ours = pp.from_rdp([order], [value], epsilon=epsilon, conversion=name).delta.upper
            # Below 2^-1022 numbers lie 2^-1074 apart, whatever their size: the exponential is off
            # by one at most, and the next number is taken.
            assert truth <= ours <= truth * (1.0 + 1e-10) + 2 * mp.mpf(2) ** -1074


@for_each("delta", [0.3, 1e-2, 1e-5, 1e-12, 1e-300])
@for_each(
    "event",
    [
        ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0))),
        ev.Repeat(5, ev.Laplace(3.0)),
        ev.Gaussian(20.0),
    ],
)
def test_improved_lies_between_the_truth_and_classical(event: ev.Event, delta: float) -> None:
    curve = pp.rdp(event, ORDERS)
    new = pp.from_rdp(curve.orders, curve.upper, delta=delta)
    old = pp.from_rdp(curve.orders, curve.upper, delta=delta, conversion="classical")
    truth = pp.account(event, delta=delta).epsilon.lower if delta > 1e-250 else 0.0
    assert truth <= new.epsilon.upper <= old.epsilon.upper
    assert new.epsilon.lower == 0.0
    assert new.derivation[0].source != old.derivation[0].source


def test_improved_is_what_dp_accounting_prints() -> None:
    event = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))
    orders = np.arange(2, 64)
    curve = pp.rdp(event, orders)
    printed, order = theirs.compute_epsilon(orders, curve.upper, 1e-5)
    ours = pp.from_rdp(orders, curve.upper, delta=1e-5)
    assert ours.epsilon.upper == pytest.approx(printed, rel=1e-12)
    assert f"Order {order:g}," in ours.derivation[0].statement
    small, _ = theirs.compute_delta(orders, curve.upper, 2.5)
    assert pp.from_rdp(orders, curve.upper, epsilon=2.5).delta.upper == pytest.approx(small)


def test_the_published_example_of_the_classical_conversion() -> None:
    """Gaussian noise, rho = 1/2: the best real order gives rho + 2 sqrt(rho log(1/delta))."""
    orders = np.linspace(1.01, 20.0, 5000)
    curve = pp.rdp(ev.Gaussian(1.0), orders)
    ours = pp.from_rdp(orders, curve.upper, delta=1e-5, conversion="classical").epsilon.upper
    best = 0.5 + 2 * math.sqrt(0.5 * math.log(1e5))
    assert best <= ours <= best * (1.0 + 1e-5)


def test_infinite_values_say_nothing() -> None:
    some = pp.from_rdp([2.0, 4.0, 8.0], [1.0, 2.0, math.inf], delta=1e-5)
    assert some.epsilon.upper == pp.from_rdp([2.0, 4.0], [1.0, 2.0], delta=1e-5).epsilon.upper
    nothing = pp.from_rdp([2.0], [math.inf], delta=1e-5)
    assert nothing.epsilon.upper == math.inf
    assert pp.from_rdp([2.0], [math.inf], epsilon=1.0).delta.upper == 1.0
    assert "nothing is proven" in nothing.warnings[0]


def test_an_order_at_an_end_is_said() -> None:
    last = pp.from_rdp([2.0, 3.0], [0.001, 0.0015], delta=1e-6)
    first = pp.from_rdp([5.0, 30.0], [2.5, 15.0], delta=0.1)
    middle = pp.from_rdp([1.1, 5.0, 100.0], [0.55, 2.5, 50.0], delta=1e-5)
    assert "larger orders" in last.warnings[0]
    assert "smaller orders" in first.warnings[0]
    assert middle.warnings == ()


def test_values_that_fall_are_said_and_each_of_them_still_counts() -> None:
    falling = pp.from_rdp([2.0, 4.0, 8.0, 16.0], [1.0, 3.0, math.inf, 2.0], delta=1e-5)
    (said,) = [text for text in falling.warnings if "falls as its order grows" in text]
    assert "`values[3]`, 2 at order 16, is below `values[1]`, 3" in said
    assert "at all lower orders too" in said
    with mp.workdps(40):
        pairs = [(2.0, 1.0), (4.0, 3.0), (16.0, 2.0)]
        best = min(improved(order, value, 1e-5) for order, value in pairs)
    assert best <= falling.epsilon.upper <= best * (1.0 + 1e-12)


@for_each("values", [[1.0, 2.0, 2.0], [0.0, math.inf, math.inf], [3.0, 3.0, 3.0]])
def test_values_that_do_not_fall_are_no_news(values) -> None:
    warnings = pp.from_rdp([2.0, 4.0, 8.0], values, delta=1e-5).warnings
    assert not [text for text in warnings if "falls" in text]


@for_each(
    ("orders", "values", "field"),
    [
        ([3.0, 2.0], [1.0, 1.0], "orders"),
        ([2.0, 2.0], [1.0, 1.0], "orders"),
        ([1.0], [1.0], r"orders\[0\]"),
        ([2.0], [-1e-9], r"values\[0\]"),
        ([2.0], [-math.inf], r"values\[0\]"),
        ([2.0, 3.0], [1.0], "values"),
        ([2.0], [math.nan], r"values\[0\]"),
        ([2.0], ["1"], r"values\[0\]"),
    ],
)
def test_what_is_no_curve_is_refused(orders, values, field: str) -> None:
    with pytest.raises(InvalidInput, match=f"`{field}`"):
        pp.from_rdp(orders, values, delta=1e-5)


@for_each(
    ("given", "field"),
    [
        *[({"delta": delta}, "delta") for delta in (0.0, 1.0)],
        *[(given, "delta") for given in ({}, {"delta": 1e-5, "epsilon": 1.0})],
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 1e-5, "conversion": "new"}, "conversion"),
        ({"delta": 1e-5, "neighbours": "none"}, "neighbours"),
    ],
)
def test_the_question_is_checked(given, field: str) -> None:
    with pytest.raises(InvalidInput, match=f"`{field}`"):
        pp.from_rdp([2.0], [1.0], **given)


def test_a_curve_and_a_delta_may_stand_where_one_expects_them() -> None:
    at, values = [2.0, 4.0, 8.0], [1.0, 2.0, 4.0]
    named = pp.from_rdp(at, values, delta=1e-5)
    assert pp.from_rdp(at, values, 1e-5) == named
    for orders in ([64.0, 2.0, 8.0], [2.0, 8.0, 64.0]):
        curve = pp.rdp(ev.Gaussian(2.0), orders, neighbours="replace-one")
        answer = pp.from_rdp(curve, delta=1e-5)
        listed = curve.event()
        direct = pp.from_rdp(listed.orders, listed.values, 1e-5, neighbours="replace-one")
        assert answer.epsilon == direct.epsilon
        assert answer.neighbours == "replace-one"
    aside = pp.rdp(ev.Compose([ev.Gaussian(1.0), ev.ZCDP(0.1)]), [2.0, 1e9])
    assert pp.from_rdp(aside, epsilon=1.0).delta.upper < 1.0


def test_a_curve_stands_for_its_values_and_its_relation() -> None:
    curve = pp.rdp(ev.Gaussian(2.0), [2.0, 8.0])
    with pytest.raises(InvalidInput, match="`values` are given with a curve"):
        pp.from_rdp(curve, curve.upper, 1e-5)
    with pytest.raises(InvalidInput, match="`neighbours` must be add-remove"):
        pp.from_rdp(curve, delta=1e-5, neighbours="replace-one")
    with pytest.raises(InvalidInput, match="`values` are missing"):
        pp.from_rdp([2.0], delta=1e-5)
    with pytest.raises(InvalidInput, match=r"no `detla`\. Did you mean `delta`"):
        pp.from_rdp(curve, detla=1e-5)
    with pytest.raises(InvalidInput, match="No upper end of this curve is finite"):
        pp.from_rdp(pp.rdp(ev.Approximate(1.0, 1e-3), [2.0]), delta=1e-2)
