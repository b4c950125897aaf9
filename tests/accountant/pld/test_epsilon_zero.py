"""At epsilon 0 delta is the total variation distance, which both orders of two data sets share.

So one order is composed.  The oracle sums the masses of cells, which is a statistic of the release:
no upper end may lie below it, and with fine cells no lower end far above.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.composition import Composition
from privplan.accountant.engines.pld.ask.engine import PldEngine
from privplan.accountant.engines.pld.compose.directions import directions_of

from ...cases import for_each

EDGES = np.concatenate(([-np.inf], np.linspace(-9.0, 10.0, 1_501), [np.inf]))


def sampled(rate, noise, shift):
    """Return the masses of cells of a value at `shift` that is drawn at a rate."""
    return (1.0 - rate) * np.diff(ndtr(EDGES / noise)) + rate * np.diff(
        ndtr((EDGES - shift) / noise)
    )


ROUNDS = [[(0.05, 0.7)], [(0.3, 0.5), (0.3, 0.5)], [(0.02, 0.4), (0.9, 1.5)]]


@for_each("rounds", ROUNDS)
@for_each("neighbours", ["add-remove", "zero-out", "replace-one"])
def test_one_order_is_enough_for_pairs_whose_orders_differ(rounds, neighbours):
    event = ev.Compose([ev.Poisson(rate, ev.Gaussian(noise)) for rate, noise in rounds])
    other = -1.0 if neighbours == "replace-one" else 0.0
    first, second = (
        [sampled(rate, noise, shift) for rate, noise in rounds] for shift in (1.0, other)
    )
    p, q = (each[0] if len(each) == 1 else np.outer(*each).ravel() for each in (first, second))
    distance = 0.5 * float(np.abs(p - q).sum())
    delta = pp.account(event, epsilon=0.0, neighbours=neighbours, engine="pld").delta
    assert distance * (1.0 - 1e-12) <= delta.upper <= distance + 1e-4
    assert delta.lower <= distance + 1e-4
    assert delta.lower >= distance - 1e-3


EVENTS = [
    ev.Repeat(20, ev.Poisson(0.1, ev.Gaussian(0.8))),
    ev.Repeat(5, ev.Poisson(0.2, ev.Laplace(1.0))),
    ev.Compose(
        [ev.FixedSize(5, 50, ev.Gaussian(1.0)), ev.Group(2, ev.Poisson(0.1, ev.Gaussian(2)))]
    ),
]


@for_each("event", EVENTS, ids=str)
@for_each("neighbours", ["add-remove", "replace-one", "zero-out"])
def test_the_other_order_says_the_same_at_epsilon_0(event, neighbours):
    """Its pairs are the reverse ones, leaf by leaf: what is proven of either is true of both."""
    engine, parts = PldEngine(), Composition.of(event)
    directions = directions_of(parts, neighbours, 1e-3)
    bounds = []
    for each in directions:
        question, _ = engine.delta_question(parts, neighbours, 0.0)
        bounds.append(engine._answer(parts, neighbours, question, [each]).bounds)
    stated = engine.delta(parts, 0.0, neighbours).bounds
    for each in bounds:
        assert each.lower <= stated.upper
        assert stated.lower <= each.upper
        assert stated.upper == pytest.approx(each.upper, rel=2e-3)


def test_a_certificate_at_epsilon_0_that_fails_bounds_no_epsilon():
    parts = Composition.of(ev.Repeat(20, ev.Poisson(0.1, ev.Gaussian(0.8))))
    delta = PldEngine().delta(parts, 0.0, "add-remove").bounds
    missed = PldEngine().certificate(parts, 0.0, 0.5 * delta.lower, "add-remove")
    assert missed.log_excess > 0.0
    assert math.isinf(missed.epsilon_upper)
    met = PldEngine().certificate(parts, 0.0, 1.01 * delta.upper, "add-remove")
    assert met.log_excess <= 0.0
    assert met.epsilon_upper == 0.0
