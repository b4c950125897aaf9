"""From Renyi curves to epsilon and delta: the best order, composition, far and tiny targets."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.composition import Composition, Leaf
from privplan.accountant.engines.gdp import GdpEngine
from privplan.accountant.engines.rdp.conversion import best_delta, best_epsilon
from privplan.accountant.engines.rdp.curves import curve
from privplan.accountant.guarantee import Neighbours

from ..cases import for_each
from .rdp_answers import ADD, ENGINE, REPLACE, delta, epsilon, rounds

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


@for_each(("event", "neighbours"), EVENTS)
def test_the_chosen_order_is_the_best_one(event: ev.Event, neighbours: Neighbours) -> None:
    (leaf,) = Composition.of(event)
    ours = epsilon(event, 1e-6, neighbours)
    b = np.exp(np.linspace(math.log(0.02), math.log(2000), 1000))
    values = leaf.count * curve(leaf.event, neighbours).at(1 + b)
    scan = values + np.log(b / (1 + b)) - (math.log(1e-6) + np.log(1 + b)) / b
    assert ours <= scan.min() * (1 + 1e-4)
    assert ours >= scan.min() * (1 - 1e-3)


@for_each(("event", "neighbours"), EVENTS)
def test_curves_have_the_shape_of_a_divergence(event: ev.Event, neighbours: Neighbours) -> None:
    (leaf,) = Composition.of(event)
    b = np.linspace(0.05, 20.0, 400)
    values = curve(leaf.event, neighbours).at(1 + b)
    assert (np.diff(values) >= -1e-9 * values[1:]).all()
    moments = b * values
    middle = (moments[:-2] + moments[2:]) / 2
    assert (moments[1:-1] <= middle * (1 + 1e-9)).all()


@for_each(("event", "neighbours"), EVENTS)
def test_delta_and_epsilon_undo_each_other(event: ev.Event, neighbours: Neighbours) -> None:
    result = epsilon(event, 1e-6, neighbours)
    assert delta(event, result, neighbours) == pytest.approx(1e-6, rel=2e-3)


def test_far_targets_stay_finite() -> None:
    event = rounds(1.0, 0.01, 1000)
    assert epsilon(event, 1e-300) < 400.0
    assert delta(event, 300.0) < 1e-200
    assert epsilon(ev.Gaussian(1e-6), 1e-5) == pytest.approx(5e11, rel=1e-3)
    assert 0.0 < epsilon(ev.Gaussian(1e9), 1e-30) < 1e-7


@for_each("size", [1e-300, 1e-30, 1e30, 1e200])
@for_each("neighbours", [ADD, REPLACE])
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
    least = GdpEngine().delta(Composition.of(ev.Gaussian(1e140)), 0.0, neighbours).bounds.lower
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
        for first, second in ((mixed, q), (q, mixed)):
            truth = np.maximum(first - math.exp(at) * second, 0.0).sum()
            assert truth <= delta(event, at)


def test_the_ends_of_the_range() -> None:
    assert epsilon(ev.Compose([]), 0.0) == 0.0
    assert delta(ev.Compose([]), 0.0) == 0.0
    assert epsilon(ev.Poisson(0.0, ev.Gaussian(1.0)), 0.0) == 0.0
    assert ENGINE.epsilon(
        Composition([Leaf(ev.Poisson(1.0, ev.Gaussian(1.0)), 1)]), 1e-5, ADD
    ).bounds == (ENGINE.epsilon(Composition([Leaf(ev.Gaussian(1.0), 1)]), 1e-5, ADD).bounds)
    for event in (ev.NoGuarantee("no noise"), ev.Poisson(0.1, ev.NoGuarantee("no noise"))):
        assert epsilon(event, 1e-5) == math.inf
        assert epsilon(event, 1.0) == 0.0
        assert delta(event, 50.0) == 1.0
    for nothing in (ev.Pure(0.0), ev.Exponential(0.0), ev.RandomizedResponse(0.0, 3), ev.ZCDP(0.0)):
        assert epsilon(nothing, 0.0, REPLACE) == 0.0
    assert epsilon(ev.FixedSize(5, 5, ev.Gaussian(1.0)), 1e-5, REPLACE) == epsilon(
        ev.Gaussian(1.0), 1e-5, REPLACE
    )
    huge = ENGINE.epsilon(Composition([Leaf(ev.Gaussian(1.0), 10**400)]), 1e-5, ADD).bounds
    assert huge.upper == math.inf


def test_conversion_at_a_single_order_matches_the_formula() -> None:
    # A curve that is finite at one order only leaves nothing to choose.
    def at(orders: np.ndarray) -> np.ndarray:
        return np.where(np.abs(np.log(orders - 1.0)) < 1e-12, 0.7, np.inf)

    result = best_epsilon(at, 1e-4)
    assert result.order == pytest.approx(2.0)
    assert result.value == pytest.approx(0.7 + math.log(0.5) - (math.log(1e-4) + math.log(2.0)))
    assert best_delta(at, 3.0).value == pytest.approx(math.exp(0.7 - 3.0) * 0.25)


def test_total_variation_answers_near_epsilon_zero() -> None:
    # Between N(0) and N(mu): the distance is 2 Phi(mu/2) - 1 < mu/2 = sqrt(R(1)/2).
    event = ev.Gaussian(1000.0)
    truth = math.erf(1e-3 / 2 / math.sqrt(2))
    assert truth <= delta(event, 0.0) <= 0.501e-3
    assert delta(ev.Gaussian(0.2), 0.0) <= math.sqrt(1 - math.exp(-12.5)) * (1 + 1e-6)
    assert epsilon(event, 0.502e-3) == 0.0
    assert epsilon(event, truth * 0.999) > 0.0
    assert "Pinsker" in ENGINE.delta(Composition.of(event), 0.0, ADD).steps[-1].source


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


@for_each(
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
        result = account(event, delta=delta, neighbours="replace-one", engine=engine).epsilon
        assert _sampled_laplace_delta(rate, scale, result.upper) <= delta


@for_each("epsilon", [1e-12, 1e-8, 1e-4])
@for_each("share", [0.2, 0.9, 0.99])
def test_a_tiny_pure_epsilon_keeps_its_delta(epsilon, share):
    with mp.workdps(60):
        at, whole = mp.mpf(epsilon * share), mp.mpf(epsilon)
        exact = (mp.exp(whole) - mp.exp(at)) / (1 + mp.exp(whole))
    for engine in (None, "rdp"):
        assert (
            account(ev.Pure(epsilon), epsilon=epsilon * share, engine=engine).delta.upper >= exact
        )
