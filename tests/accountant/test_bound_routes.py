"""Every way to a number, side by side."""

from __future__ import annotations

import math

import pytest

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.bound_routes import Route, routes
from privplan.accountant.errors import InvalidInput

from ..cases import for_each
from ..sweeps import sweep

GROUPS = [
    "lemma",
    "Mironov's rule",
    "Mironov's rule, as proven",
    "optimised triangle inequality",
    "mixture Renyi",
    "mixture pld",
    "rdp",
]


def listed(event, delta=1e-5, neighbours="add-remove"):
    return {route.name: route for route in routes(event, delta=delta, neighbours=neighbours)}


@for_each(
    ("size", "uppers"),
    [
        # Uldp-FL (arXiv 2308.12210v3), Figure 2: noise 5, rate .01, 100,000 rounds, delta 1e-5.
        (8, (56.40, 98.79, 87.51, 36.25, 36.21, 34.187, 36.21)),
        (64, (3503.8, 20107.2, 14882.0, 1044.0, 1031.0, 1011.07, 1031.0)),
    ],
)
def test_the_routes_of_figure_2(size, uppers):
    event = ev.Group(size, ev.Repeat(100_000, ev.Poisson(0.01, ev.Gaussian(5.0))))
    found = listed(event)
    assert list(found) == GROUPS
    for route, published in zip(found.values(), uppers, strict=True):
        assert published * (1 - 1e-3) <= route.bounds.upper <= published
        assert route.refused == ""
        assert route.source
    truth = found["mixture pld"].bounds
    assert all(truth.lower <= route.bounds.upper for route in found.values())
    assert size == 8 or account(event, delta=1e-5).epsilon.upper == truth.upper


@for_each("neighbours", sweep(["add-remove", "replace-one", "zero-out"], quick=1))
def test_every_route_is_above_the_lower_end(neighbours):
    for event in (
        ev.Group(5, ev.Repeat(40, ev.Poisson(0.05, ev.Laplace(2.5)))),
        ev.Group(3, ev.Compose([ev.Gaussian(8.0), ev.Poisson(0.05, ev.Gaussian(1.5))])),
        ev.Compose([ev.Gaussian(8.0), ev.Laplace(3.0)]),
    ):
        best = account(event, delta=1e-6, neighbours=neighbours).epsilon
        for route in routes(event, delta=1e-6, neighbours=neighbours):
            if route.bounds is None:
                assert route.refused
                continue
            assert route.bounds.upper >= best.lower
            assert route.bounds.upper >= best.upper * (1 - 1e-9)


def test_a_way_that_does_not_hold_is_listed_with_the_reason():
    found = listed(ev.Group(3, ev.Poisson(0.1, ev.Laplace(2.0))))
    assert found["mixture Renyi"].bounds is None
    assert "`laplace` under `poisson`" in found["mixture Renyi"].refused
    found = listed(ev.Group(3, ev.Poisson(0.1, ev.Approximate(0.1, 1e-9))))
    assert "small probability" in found["optimised triangle inequality"].refused
    assert found["lemma"].bounds.upper < math.inf
    found = listed(ev.Group(3, ev.TruncatedPoisson(0.1, 5, 50, ev.Gaussian(2.0))))
    assert "truncated" in found["lemma"].refused


def test_units_that_scale_have_the_same_routes():
    found = listed(ev.Group(3, ev.Repeat(10, ev.Gaussian(30.0))))
    exact = found["gdp"].bounds
    assert found["lemma"].bounds.upper > exact.upper
    assert found["optimised triangle inequality"].bounds.upper > exact.upper


def test_records_have_the_engines_only():
    event = ev.Repeat(100, ev.Poisson(0.02, ev.Gaussian(2.0)))
    assert list(listed(event)) == ["pld", "rdp"]
    assert list(listed(ev.Group(1, event))) == ["pld", "rdp"]
    assert list(listed(ev.Gaussian(2.0))) == ["gdp", "rdp", "pld"]
    mixed = ev.Compose([ev.Group(2, event), ev.Group(3, event)])
    assert list(listed(mixed)) == ["mixture pld", "rdp"]
    (nothing,) = routes(ev.Compose([]), delta=1e-5)
    assert nothing == Route(nothing.name, nothing.bounds, "by definition")
    assert nothing.bounds == 0.0


def test_wrong_questions_are_refused():
    with pytest.raises(InvalidInput, match="`delta`"):
        routes(ev.Gaussian(1.0), delta=0.0)
    with pytest.raises(InvalidInput, match="`neighbours`"):
        routes(ev.Gaussian(1.0), delta=0.1, neighbours="nobody")
    with pytest.raises(InvalidInput, match="`event`"):
        routes("gaussian", delta=0.1)
