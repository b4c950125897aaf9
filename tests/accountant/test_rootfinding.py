"""Brackets: kept, narrowed, and honest when there is no crossing."""

from __future__ import annotations

import math

from privplan.accountant.rootfinding import Bracket, enclose, narrow

from ..cases import for_each

FUNCTIONS = [
    (lambda x: 2.0 - x, 2.0),
    (lambda x: 1.0 - math.exp(x - 3.0), 3.0),
    (lambda x: math.exp(-x) - 1e-4, -math.log(1e-4)),
    (lambda x: 1.0 if x < 0.7 else -1e-9, 0.7),
    (lambda x: math.inf if x < 1.0 else 1.5 - x, 1.5),
]


@for_each(("function", "root"), FUNCTIONS)
def test_the_bracket_holds_the_crossing_and_closes_in(function, root):
    bracket = enclose(function, 0.1, 0.3, -50.0, 50.0)
    assert bracket is not None
    found = narrow(function, bracket, relative=1e-9, absolute=1e-12)
    assert found.f_low == function(found.low) > 0.0
    assert found.f_high == function(found.high) <= 0.0
    assert found.low <= root <= found.high
    assert found.high - found.low <= 1e-8 * abs(root) + 1e-11


def test_enclose_walks_both_ways_and_stops_at_the_ends():
    assert enclose(lambda x: 2.0 - x, 10.0, 0.5, 0.0, 20.0) is not None
    assert enclose(lambda _: 1.0, 0.0, 0.5, -3.0, 3.0) is None
    assert enclose(lambda _: -1.0, 0.0, 0.5, -3.0, 3.0) is None


def test_few_evaluations_on_a_smooth_function():
    calls = 0

    def function(x):
        nonlocal calls
        calls += 1
        return -2.0 * x - x**3 / 50 + 5.0

    bracket = Bracket(0.0, function(0.0), 8.0, function(8.0))
    narrow(function, bracket, relative=1e-9)
    assert calls <= 16
